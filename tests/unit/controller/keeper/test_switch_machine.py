# SPDX-License-Identifier: Apache-2.0
"""The state machine of one switch: what each input leads to, and what no input may lead to."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from controller.arbitration import Arbitration
from controller.keeper.backoff import MAX_NS, Backoff
from controller.keeper.events import Event, EventKind
from controller.keeper.phases import Do, Phase
from controller.keeper.switch_machine import AUDIT_NS, CONNECT_NS_MAX, HEARTBEAT_NS, SwitchMachine
from controller.switch_error import SwitchError

COOKIE = 7
PRIMARY = Arbitration(is_primary=True, has_primary=True, highest_election_id=1_000)
BACKUP = Arbitration(is_primary=False, has_primary=True, highest_election_id=5_000)
NOBODY = Arbitration(is_primary=False, has_primary=False, highest_election_id=5_000)
GONE = SwitchError(switch="leaf1", message="UNAVAILABLE", lost=True)
FULL = SwitchError(switch="leaf1", message="table full", where="ipv4_lpm [any]")


@dataclass
class Bench:
    """A machine and the events that it told."""

    events: list[Event] = field(default_factory=list)
    machine: SwitchMachine = field(init=False)

    def __post_init__(self) -> None:
        self.machine = SwitchMachine(
            "leaf1", cookie=COOKIE, election_id=1_000, draw=lambda: 0.0, on_event=self.events.append
        )

    @property
    def kinds(self) -> list[EventKind]:
        """Kinds of the events so far."""
        return [event.kind for event in self.events]

    def in_sync(self) -> SwitchMachine:
        """The machine after a connection to a switch that holds everything."""
        assert self.machine.start(0) == [Do.CONNECT]
        assert self.machine.arbitration(PRIMARY, 1) == [Do.READ_COOKIE]
        assert self.machine.cookie(COOKIE, 2) == [Do.READ]
        assert self.machine.compared(0, "", 3) == []
        assert self.machine.phase is Phase.IN_SYNC
        return self.machine


def test_empty_switch_gets_pipeline_and_entries() -> None:
    """Connect, be primary, push, read, write, read back, in sync."""
    bench = Bench()
    machine = bench.machine
    assert machine.start(0) == [Do.CONNECT]
    assert machine.arbitration(PRIMARY, 1) == [Do.READ_COOKIE]
    assert machine.cookie(None, 2) == [Do.PUSH]
    assert machine.pushed(3) == [Do.READ]
    assert machine.compared(30, "+ a", 4) == [Do.WRITE]
    assert machine.written(30, 5) == [Do.READ]
    assert machine.compared(0, "", 6) == []
    assert machine.phase is Phase.IN_SYNC
    assert bench.kinds == [
        EventKind.CONNECTED,
        EventKind.PRIMARY,
        EventKind.EMPTY,
        EventKind.PIPELINE_PUSHED,
        EventKind.WRITTEN,
        EventKind.IN_SYNC,
    ]
    assert (machine.counters.pushes, machine.counters.updates) == (1, 30)


def test_restarted_switch_is_provisioned_again() -> None:
    """The stream ends, the next attempt comes after the back-off, and what is empty is filled."""
    machine = Bench().in_sync()
    assert machine.lost(GONE, 10) == [Do.DISCONNECT]
    assert machine.phase is Phase.WAITING
    assert machine.wake_ns is not None
    assert machine.tick(machine.wake_ns - 1) == []
    assert machine.tick(machine.wake_ns) == [Do.CONNECT]
    assert machine.arbitration(PRIMARY, 20) == [Do.READ_COOKIE]
    assert machine.cookie(None, 21) == [Do.PUSH]


def test_attempts_come_ever_less_often() -> None:
    """A switch that stays away is tried after waits that double up to the longest."""
    bench = Bench()
    machine = bench.machine
    now_ns, waits = 0, []
    machine.start(now_ns)
    for _ in range(9):
        machine.lost(GONE, now_ns)
        assert machine.wake_ns is not None
        waits.append(machine.wake_ns - now_ns)
        now_ns = machine.wake_ns
        assert machine.tick(now_ns) == [Do.CONNECT]
    assert waits == sorted(waits)
    assert waits[1] == 2 * waits[0]
    assert waits[-1] == MAX_NS
    assert bench.kinds == [EventKind.LOST]  # told once, not at every attempt


def test_waits_of_many_switches_spread() -> None:
    """With the largest draw a wait is half of the whole one, never more, never zero."""
    assert Backoff(lambda: 0.999999).wait_ns() * 2 >= Backoff(lambda: 0.0).wait_ns()


def test_silent_switch_is_given_up_and_tried_again() -> None:
    """No answer to the bid in time ends the attempt."""
    machine = Bench().machine
    machine.start(0)
    assert machine.wake_ns == CONNECT_NS_MAX
    assert machine.tick(CONNECT_NS_MAX) == [Do.DISCONNECT]
    assert machine.phase is Phase.WAITING


def test_backup_waits_and_takes_over() -> None:
    """A backup does nothing until nobody is primary, and then bids in the next term."""
    bench = Bench()
    machine = bench.machine
    machine.start(0)
    assert machine.arbitration(BACKUP, 1) == []
    assert machine.phase is Phase.BACKUP
    assert machine.arbitration(NOBODY, 2) == [Do.ANNOUNCE]
    assert machine.bid == (1 << 64) + 1_000
    assert machine.arbitration(PRIMARY, 3) == [Do.READ_COOKIE]
    assert machine.counters.takeovers == 1
    assert bench.kinds == [EventKind.CONNECTED, EventKind.BACKUP, EventKind.PRIMARY]


def test_higher_id_takes_the_switch_away() -> None:
    """What is under way stops when another controller is primary."""
    machine = Bench().in_sync()
    machine.retarget(10)
    machine.compared(1, "+ a", 11)
    assert machine.phase is Phase.WRITING
    assert machine.arbitration(BACKUP, 12) == [Do.STAND_DOWN]
    assert machine.written(1, 13) == []
    assert machine.refused(FULL, 13) == []
    assert machine.phase is Phase.BACKUP


def test_same_election_id_makes_a_backup_of_the_later_one() -> None:
    """Where another controller has our id, the next attempt bids the one below."""
    machine = Bench().machine
    machine.start(0)
    machine.lost(SwitchError(switch="leaf1", message="used", election_id_taken=True), 1)
    assert machine.wake_ns is not None
    assert machine.tick(machine.wake_ns) == [Do.CONNECT]
    assert machine.bid == 999


def test_own_ghost_is_outbid() -> None:
    """The switch still takes our dead session for alive: bid in the next term."""
    machine = Bench().in_sync()
    machine.lost(GONE, 10)
    assert machine.tick(machine.wake_ns or 0) == [Do.CONNECT]
    assert machine.bid == 1_000
    machine.lost(SwitchError(switch="leaf1", message="used", election_id_taken=True), 20)
    assert machine.tick(machine.wake_ns or 0) == [Do.CONNECT]
    assert machine.bid == (1 << 64) + 1_000
    assert machine.arbitration(PRIMARY, 30) == [Do.READ_COOKIE]


def test_other_pipeline_is_left_alone() -> None:
    """It waits for a rollout, which gives it back; a switch emptied meanwhile is provisioned."""
    machine = Bench().machine
    machine.start(0)
    machine.arbitration(PRIMARY, 1)
    assert machine.cookie(COOKIE + 1, 2) == []
    assert machine.phase is Phase.OTHER_PIPELINE
    assert machine.retarget(3) == []
    assert machine.wake_ns is not None
    assert machine.tick(machine.wake_ns) == [Do.READ_COOKIE]
    assert machine.cookie(COOKIE + 1, 4) == []
    machine.change_begins(5)
    assert machine.change_ends(6) == [Do.READ_COOKIE]
    assert machine.cookie(COOKIE, 7) == [Do.READ]


def test_heartbeat_finds_a_switch_that_was_emptied() -> None:
    """Without the stream having ended, the cookie tells."""
    machine = Bench().in_sync()
    assert machine.wake_ns == 3 + HEARTBEAT_NS
    assert machine.tick(machine.wake_ns) == [Do.READ_COOKIE]
    assert machine.cookie(COOKIE, machine.wake_ns) == []
    assert machine.phase is Phase.IN_SYNC
    assert machine.tick(machine.wake_ns) == [Do.READ_COOKIE]
    assert machine.cookie(None, machine.wake_ns) == [Do.PUSH]


def test_audit_puts_drift_right() -> None:
    """What somebody else changed is found by reading, told, and written."""
    bench = Bench()
    machine = bench.in_sync()
    now_ns = 3
    while (done := machine.tick(machine.wake_ns or 0)) != [Do.READ]:
        now_ns = machine.wake_ns or 0
        assert done in ([], [Do.READ_COOKIE])
        machine.cookie(COOKIE, now_ns)
    assert now_ns <= 3 + AUDIT_NS
    assert machine.compared(2, "- stray", now_ns) == [Do.WRITE]
    assert bench.events[-1].kind is EventKind.DRIFT
    assert "- stray" in bench.events[-1].message


def test_refused_entry_is_told_once_and_tried_again() -> None:
    """The error stays visible until the switch is in sync."""
    bench = Bench()
    machine = bench.in_sync()
    machine.retarget(10)
    for turn in range(3):
        now_ns = machine.wake_ns or 10
        if turn:
            assert machine.tick(now_ns) == [Do.READ_COOKIE]
            assert machine.cookie(COOKIE, now_ns) == [Do.READ]
        assert machine.compared(1, "+ a", now_ns) == [Do.WRITE]
        assert machine.refused(FULL, now_ns) == []
        assert machine.phase is Phase.REFUSED
        assert machine.error is FULL
    assert bench.kinds.count(EventKind.REFUSED) == 1
    assert machine.retarget(20) == [Do.COMPARE]
    machine.compared(0, "", 21)
    assert machine.error is None


def test_switch_that_forgets_what_it_took_is_not_written_at_once_again() -> None:
    """Read-back that differs is a refusal, with its pause."""
    bench = Bench()
    machine = bench.in_sync()
    machine.retarget(10)
    machine.compared(1, "+ a", 11)
    assert machine.written(1, 12) == [Do.READ]
    assert machine.compared(1, "+ a", 13) == []
    assert machine.phase is Phase.REFUSED
    assert "does not hold what it took" in str(machine.error)


def test_new_target_during_a_write_is_not_a_refusal() -> None:
    """What differs after the write is written, since the target moved meanwhile."""
    machine = Bench().in_sync()
    machine.retarget(10)
    machine.compared(1, "+ a", 11)
    machine.retarget(12)
    assert machine.written(1, 13) == [Do.READ]
    assert machine.compared(1, "+ b", 14) == [Do.WRITE]


INPUTS = st.sampled_from(
    [
        "tick",
        "primary",
        "backup",
        "nobody",
        "lost",
        "cookie",
        "empty",
        "other",
        "pushed",
        "equal",
        "differs",
        "written",
        "refused",
        "retarget",
        "change",
    ]
)


@given(st.lists(INPUTS, max_size=60))
def test_any_order_of_inputs_leaves_a_legal_state(inputs: list[str]) -> None:
    """It writes as primary only, always has something to wait for, and never gets stuck."""
    machine = Bench().machine
    now_ns = 0
    machine.start(now_ns)
    for word in inputs:
        now_ns = max(now_ns + 1, (machine.wake_ns or 0) if word == "tick" else 0)
        was_primary = machine.is_primary
        done: list[Do] = []
        match word:
            case "tick":
                done = machine.tick(now_ns)
            case "primary" | "backup" | "nobody":
                said = {"primary": PRIMARY, "backup": BACKUP, "nobody": NOBODY}[word]
                done = machine.arbitration(said, now_ns)
            case "lost":
                done = machine.lost(GONE, now_ns)
            case "cookie" | "empty" | "other":
                cookie = {"cookie": COOKIE, "empty": None, "other": COOKIE + 1}[word]
                done = machine.cookie(cookie, now_ns)
            case "pushed" if machine.phase is Phase.PUSHING:
                done = machine.pushed(now_ns)
            case "equal" | "differs":
                done = machine.compared(int(word == "differs"), "+ a", now_ns)
            case "written":
                done = machine.written(1, now_ns)
            case "refused":
                done = machine.refused(FULL, now_ns)
            case "retarget":
                done = machine.retarget(now_ns)
            case "change" if machine.phase is Phase.OTHER_PIPELINE:
                machine.change_begins(now_ns)
                done = machine.change_ends(now_ns)
        if {*done} & {Do.PUSH, Do.WRITE, Do.READ, Do.COMPARE}:
            assert machine.is_primary
        if {*done} & {Do.PUSH, Do.WRITE}:
            assert was_primary
        under_way = machine.phase in (
            Phase.CHECKING,
            Phase.PUSHING,
            Phase.READING,
            Phase.WRITING,
        )
        assert under_way or machine.wake_ns is not None
    machine.lost(GONE, now_ns)
    assert machine.tick(machine.wake_ns or 0) == [Do.CONNECT]
