# SPDX-License-Identifier: Apache-2.0
"""What to do about one switch: a state machine without I/O.

Each input returns the commands that it leads to; whoever carries them out feeds the outcome back.
Time is an argument, and `wake_ns` is when `tick` wants to be called.

    waiting -> connecting -> backup <-> checking -> pushing -> reading -> writing -> reading ...
                                           |                      |
                                    other_pipeline             in_sync, refused

From everywhere a lost stream leads to `waiting`, and another primary to `backup`.
"""

from collections.abc import Callable
from enum import Enum, unique

from controller.arbitration import Arbitration, next_bid, show_election_id
from controller.keeper.backoff import JITTER, RECONNECT_LIMITS, Backoff, WaitLimits
from controller.keeper.events import Event, EventKind, OnEvent
from controller.keeper.phases import CONNECTED, Do, Phase, SwitchCounters
from controller.switch_error import SwitchError

CONNECT_NS_MAX = 10_000_000_000
"""Longest wait for the answer to the first bid."""
HEARTBEAT_NS = 10_000_000_000
"""A switch that is in peace is asked for its cookie this often: a dead one is found, and one that
somebody emptied."""
AUDIT_NS = 60_000_000_000
"""A switch that is in sync is read this often, or up to half as long ago, so that not all are read
at the same time; what drifted is put right."""
RETRY_FIRST_NS = 1_000_000_000
RETRY_NS_MAX = 60_000_000_000
"""A switch that refused an entry is tried again, ever less often."""


@unique
class _Expects(Enum):
    """What a read should find."""

    ANYTHING = "anything"
    WRITTEN = "written"
    """What has just been written."""
    SYNC = "sync"
    """What was there the last time."""


class SwitchMachine:
    """The state of one switch."""

    def __init__(
        self,
        name: str,
        *,
        cookie: int,
        election_id: int,
        draw: Callable[[], float],
        on_event: OnEvent,
        reconnect: WaitLimits = RECONNECT_LIMITS,
    ) -> None:
        self.name = name
        self.phase = Phase.WAITING
        self.since_ns = 0
        """When the phase began."""
        self.bid = election_id
        """The election id that is announced."""
        self.error: SwitchError | None = None
        """Why it is not in sync, as far as it said so."""
        self.counters = SwitchCounters()
        self.wake_ns: int | None = None
        self.wanted_cookie = cookie
        """Of the pipeline that it is to run."""
        self._own_id = election_id
        self._on_event = on_event
        self._draw = draw
        self._backoff = Backoff(draw, first_ns=reconnect.first_ns, max_ns=reconnect.max_ns)
        self._retry = Backoff(draw, first_ns=RETRY_FIRST_NS, max_ns=RETRY_NS_MAX)
        self._audit_ns = 0
        self._expects = _Expects.ANYTHING
        self._retargeted = False
        """The target has changed since the last comparison."""
        self._said_in_sync = False
        self._was_backup = False
        self._won_bid: int | None = None
        """The bid with which the switch was ours the last time."""

    @property
    def is_primary(self) -> bool:
        """The switch is ours."""
        return self.phase in CONNECTED and self.phase is not Phase.BACKUP

    # Connection

    def start(self, now_ns: int) -> list[Do]:
        """Connect for the first time."""
        return self._connect(now_ns)

    def tick(self, now_ns: int) -> list[Do]:
        """Time has passed."""
        if self.wake_ns is None or now_ns < self.wake_ns:
            return []
        self.wake_ns = None
        match self.phase:
            case Phase.WAITING:
                return self._connect(now_ns)
            case Phase.CONNECTING:
                seconds = CONNECT_NS_MAX / 1e9
                message = f"it did not answer within {seconds:g} s"
                return self.lost(SwitchError(switch=self.name, message=message), now_ns)
            case Phase.REFUSED:
                return self._enter(Phase.CHECKING, now_ns, Do.READ_COOKIE)
            case Phase.IN_SYNC if now_ns >= self._audit_ns:
                self._expects = _Expects.SYNC
                return self._enter(Phase.READING, now_ns, Do.READ)
            case Phase.IN_SYNC | Phase.BACKUP | Phase.OTHER_PIPELINE:
                self._rest(now_ns)
                return [Do.READ_COOKIE]
            case _:
                return []

    def _connect(self, now_ns: int) -> list[Do]:
        done = self._enter(Phase.CONNECTING, now_ns, Do.CONNECT)
        self.wake_ns = now_ns + CONNECT_NS_MAX
        return done

    def arbitration(self, said: Arbitration, now_ns: int) -> list[Do]:
        """The switch says who is primary."""
        if self.phase is Phase.WAITING:
            return []
        if self.phase is Phase.CONNECTING:
            self.counters.connects += 1
            self._event(EventKind.CONNECTED)
        if said.is_primary:
            return [] if self.is_primary else self._take_over(now_ns)
        if not said.has_primary:
            self.bid = next_bid(self._own_id, said.highest_election_id)
            self._was_backup = self._was_backup or self.phase is not Phase.CONNECTING
            stop = [Do.STAND_DOWN] if self.is_primary else []
            if self.phase is not Phase.CONNECTING:
                self._forget()
                self._enter(Phase.BACKUP, now_ns)
                self._rest(now_ns)
            return [*stop, Do.ANNOUNCE]
        if self.phase is Phase.BACKUP:
            return []
        stop = [Do.STAND_DOWN] if self.is_primary else []
        self._was_backup = True
        self._forget()
        self.error = None
        self._enter(Phase.BACKUP, now_ns)
        self._event(
            EventKind.BACKUP,
            f"election id {show_election_id(said.highest_election_id)} is primary, "
            f"ours is {show_election_id(self.bid)}",
        )
        self._rest(now_ns)
        return stop

    def _take_over(self, now_ns: int) -> list[Do]:
        if self._was_backup:
            self.counters.takeovers += 1
        self._was_backup = False
        self._won_bid = self.bid
        self._event(EventKind.PRIMARY, f"election id {show_election_id(self.bid)}")
        return self._enter(Phase.CHECKING, now_ns, Do.READ_COOKIE)

    def lost(self, error: SwitchError, now_ns: int) -> list[Do]:
        """The stream or a call ended: the switch is gone, or hangs."""
        if self.phase is Phase.WAITING:
            return []
        known = self.error is not None and str(self.error) == str(error)
        self.error = error
        if self.phase is not Phase.CONNECTING:
            self.counters.losses += 1
        if not known:
            self._event(EventKind.LOST, error.message)
        self.bid = self._next_bid(error)
        self._was_backup = False
        self._forget()
        self._enter(Phase.WAITING, now_ns)
        self.wake_ns = now_ns + self._backoff.wait_ns()
        return [Do.DISCONNECT]

    def _next_bid(self, error: SwitchError) -> int:
        """What to announce at the next attempt."""
        if not error.election_id_taken:
            return self._own_id
        if self.bid == self._won_bid:  # by a session of ours that the switch takes for alive
            return next_bid(self._own_id, self.bid + 1)
        self._own_id = max(1, self._own_id - 1)  # by another controller: be its backup
        return self._own_id

    # Pipeline

    def cookie(self, cookie: int | None, now_ns: int) -> list[Do]:
        """What the switch runs; None: nothing."""
        match self.phase:
            case Phase.CHECKING:
                return self._checked(cookie, now_ns)
            case Phase.IN_SYNC if cookie != self.wanted_cookie:
                return self._checked(cookie, now_ns)
            case Phase.OTHER_PIPELINE if cookie in (None, self.wanted_cookie):
                return self._checked(cookie, now_ns)
            case Phase.IN_SYNC | Phase.OTHER_PIPELINE | Phase.BACKUP:
                self._rest(now_ns)
        return []

    def _checked(self, cookie: int | None, now_ns: int) -> list[Do]:
        self._said_in_sync = False
        if cookie is None:
            self._event(EventKind.EMPTY, "it runs no pipeline")
            return self._enter(Phase.PUSHING, now_ns, Do.PUSH)
        if cookie == self.wanted_cookie:
            return self._enter(Phase.READING, now_ns, Do.READ)
        self.error = SwitchError(
            switch=self.name,
            message="it runs another pipeline; --allow-pipeline-change replaces it",
        )
        self._event(EventKind.OTHER_PIPELINE, self.error.message)
        self._enter(Phase.OTHER_PIPELINE, now_ns)
        self._rest(now_ns)
        return []

    def pushed(self, now_ns: int) -> list[Do]:
        """The pipeline is loaded and the switch is empty."""
        self.counters.pushes += 1
        self._event(EventKind.PIPELINE_PUSHED)
        return self._enter(Phase.READING, now_ns, Do.READ)

    def change_begins(self, now_ns: int) -> None:
        """A rollout takes the switch over."""
        assert self.phase is Phase.OTHER_PIPELINE
        self._enter(Phase.CHANGING, now_ns)

    def change_ends(self, now_ns: int) -> list[Do]:
        """A rollout gives it back, whatever came of it."""
        if self.phase is not Phase.CHANGING:
            return []
        return self._enter(Phase.CHECKING, now_ns, Do.READ_COOKIE)

    # Entries

    def retarget(self, now_ns: int) -> list[Do]:
        """What the switch should hold may have changed."""
        self._retargeted = True
        if self.phase in (Phase.IN_SYNC, Phase.REFUSED):
            self._retry.reset()
            return self._enter(Phase.READING, now_ns, Do.COMPARE)
        return []

    def compared(self, difference: int, first: str, now_ns: int) -> list[Do]:
        """So many updates separate the switch from its target; `first`: one of them."""
        if self.phase is not Phase.READING:
            return []
        retargeted, self._retargeted = self._retargeted, False
        expected, self._expects = self._expects, _Expects.ANYTHING
        if difference == 0:
            self.error = None
            self._backoff.reset()
            self._retry.reset()
            self._enter(Phase.IN_SYNC, now_ns)
            self._audit_ns = now_ns + round(AUDIT_NS * (1 - JITTER * self._draw()))
            if not self._said_in_sync:
                self._event(EventKind.IN_SYNC)
            self._said_in_sync = True
            self._rest(now_ns)
            return []
        self._said_in_sync = False
        if expected is _Expects.WRITTEN and not retargeted:
            message = f"it does not hold what it took, {difference} differ: {first}"
            return self.refused(SwitchError(switch=self.name, message=message), now_ns)
        if expected is _Expects.SYNC and not retargeted:
            self.counters.drifts += 1
            self._event(EventKind.DRIFT, f"{difference} differ from what was written: {first}")
        return self._enter(Phase.WRITING, now_ns, Do.WRITE)

    def written(self, count: int, now_ns: int) -> list[Do]:
        """All updates were taken; now see whether the switch holds them."""
        if self.phase is not Phase.WRITING:
            return []
        self.counters.updates += count
        self._event(EventKind.WRITTEN, f"{count} updates")
        self._expects = _Expects.WRITTEN
        return self._enter(Phase.READING, now_ns, Do.READ)

    def repaired(self, count: int) -> None:
        """Buckets of a failed port were rewritten, before anything else."""
        self.counters.updates += count
        self._event(EventKind.WRITTEN, f"{count} buckets led around failed ports")

    def refused(self, error: SwitchError, now_ns: int) -> list[Do]:
        """The switch said no to something: try again later, and say so."""
        if not self.is_primary or self.phase is Phase.CHANGING:
            return []
        known = self.error is not None and str(self.error) == str(error)
        self.error = error
        self.counters.refusals += 1
        self._expects = _Expects.ANYTHING
        self._said_in_sync = False
        if not known:
            self._event(EventKind.REFUSED, str(error).removeprefix(f"{self.name}: "))
        self._enter(Phase.REFUSED, now_ns)
        self.wake_ns = now_ns + self._retry.wait_ns()
        return []

    # Parts

    def _forget(self) -> None:
        """What was going on with the switch ends here."""
        self._expects = _Expects.ANYTHING
        self._said_in_sync = False

    def _enter(self, phase: Phase, now_ns: int, *commands: Do) -> list[Do]:
        self.phase = phase
        self.since_ns = now_ns
        self.wake_ns = None
        return list(commands)

    def _rest(self, now_ns: int) -> None:
        """Nothing to do until the next heartbeat, or audit."""
        self.wake_ns = now_ns + HEARTBEAT_NS
        if self.phase is Phase.IN_SYNC:
            self.wake_ns = min(self.wake_ns, max(self._audit_ns, now_ns + 1))

    def _event(self, kind: EventKind, message: str = "") -> None:
        self._on_event(Event(kind=kind, switch=self.name, message=message))
