# SPDX-License-Identifier: Apache-2.0
"""PFC and DCQCN of the virtual fabric, each alone."""

from bmv2_lab.simulator.dcqcn import TIMER_NS, Dcqcn
from bmv2_lab.simulator.egress_port import QueueState
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.lossless_port import LosslessPort
from bmv2_lab.simulator.pfc import PfcAccount

RATE_BPS = 100_000_000_000
WORK_NS = 100


class Sent:
    """Notes when packets leave, and what they were told."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.left: list[tuple[str, int, QueueState]] = []

    def packet(self, port: LosslessPort, name: str, queue_id: int) -> None:
        """Put one of 100 ns into a queue now."""

        def on_dequeue(state: QueueState) -> int:
            self.left.append((name, self.engine.now_ns, state))
            return WORK_NS

        port.enqueue(queue_id, 1_000, on_dequeue)


def test_a_paused_queue_waits_and_the_others_go_on() -> None:
    """XOFF holds RoCE back, PTP in another queue passes, XON lets the backlog out in order."""
    engine = Engine()
    port, sent = LosslessPort(engine, RATE_BPS), Sent(engine)
    engine.at(10, port.pause, 1, True)
    engine.at(20, sent.packet, port, "first", 1)
    engine.at(30, sent.packet, port, "second", 1)
    engine.at(40, sent.packet, port, "ptp", 0)
    engine.at(1_000, port.pause, 1, False)
    engine.run(5_000)
    assert [(name, at_ns) for name, at_ns, _ in sent.left] == [
        ("ptp", 40),
        ("first", 1_000),
        ("second", 1_000 + WORK_NS),
    ]
    assert [state.dequeue_depth for _, _, state in sent.left] == [0, 1, 0]
    assert sent.left[1][2].enqueue_ns == 20


def test_the_higher_queue_goes_first_and_interrupts_nothing() -> None:
    """A frame that is being sent ends; then the highest queue is served."""
    engine = Engine()
    port, sent = LosslessPort(engine, RATE_BPS), Sent(engine)
    for at_ns, name, queue_id in ((0, "low", 0), (10, "lower", 0), (20, "high", 2)):
        engine.at(at_ns, sent.packet, port, name, queue_id)
    engine.run(1_000)
    assert [(name, at_ns) for name, at_ns, _ in sent.left] == [
        ("low", 0),
        ("high", WORK_NS),
        ("lower", 2 * WORK_NS),
    ]


def test_pause_and_go_on_have_hysteresis() -> None:
    """One XOFF above the threshold, one XON below the lower one; other classes do not count."""
    told: list[tuple[int, bool]] = []
    account = PfcAccount(
        xoff_bytes=3_000, xon_bytes=1_500, send_pause=lambda port, on: told.append((port, on))
    )
    for _ in range(4):
        account.arrived(7, 1, 1_000)
    account.arrived(8, 0, 9_000)
    assert told == [(7, True)]
    for _ in range(2):
        account.left(7, 1, 1_000)
    assert told == [(7, True)]
    account.left(7, 1, 1_000)
    assert told == [(7, True), (7, False)]


def test_dcqcn_halves_on_the_first_notification_and_recovers() -> None:
    """alpha starts at 1: the first CNP halves the rate; five timers later it is nearly back."""
    rate = Dcqcn()
    rate.on_cnp(1_000)
    assert rate.rate_share == 0.5
    rate.advance(1_000 + 5 * TIMER_NS)
    assert 0.98 < rate.rate_share < 1.0
    rate.advance(1_000 + 40 * TIMER_NS)
    assert rate.rate_share == 1.0
    assert rate.rate_share_min == 0.5
