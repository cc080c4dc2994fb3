# SPDX-License-Identifier: Apache-2.0
"""Queues: strict priority, first in first out within a queue, waiting times as theory says."""

import numpy as np
import pytest

from bmv2_lab.simulator.background import FRAME_BYTES, BackgroundLoad, Load
from bmv2_lab.simulator.egress_port import EgressPort, QueueState
from bmv2_lab.simulator.engine import Engine

RATE_BPS = 100_000_000_000


def _port(engine: Engine, **loads: Load) -> EgressPort:
    background = {
        int(name[1:]): BackgroundLoad(np.random.default_rng(int(name[1:]) + 5), load, RATE_BPS)
        for name, load in loads.items()
    }
    return EgressPort(engine, RATE_BPS, background)


def _send(port: EgressPort, queue_id: int, log: list[tuple[str, QueueState]], name: str) -> None:
    def on_dequeue(state: QueueState) -> int:
        log.append((name, state))
        return round(port.frame_work_ns(1_500))

    port.enqueue(queue_id, 1_500, on_dequeue)


def test_an_idle_port_sends_at_once() -> None:
    """Nothing ahead: dequeue instant equals enqueue instant, depth 0."""
    engine = Engine()
    port = _port(engine)
    log: list[tuple[str, QueueState]] = []
    engine.at(1_000, _send, port, 0, log, "a")
    engine.run(10_000)
    assert log[0][1] == QueueState(
        enqueue_ns=1_000, dequeue_ns=1_000, enqueue_depth=0, dequeue_depth=0
    )


def test_a_queue_is_first_in_first_out_and_work_conserving() -> None:
    """Five packets at one instant leave in order, one frame time apart."""
    engine = Engine()
    port = _port(engine)
    log: list[tuple[str, QueueState]] = []
    for index in range(5):
        engine.at(1_000, _send, port, 1, log, str(index))
    engine.run(10_000)
    assert [name for name, _ in log] == list("01234")
    starts = [state.dequeue_ns for _, state in log]
    assert np.all(np.abs(np.diff(starts) - port.frame_work_ns(1_500)) <= 1)
    assert [state.enqueue_depth for _, state in log] == [0, 1, 2, 3, 4]


def test_a_higher_queue_overtakes_what_has_not_started() -> None:
    """Strict priority, without interrupting the frame that is being sent."""
    engine = Engine()
    port = _port(engine)
    log: list[tuple[str, QueueState]] = []
    for name in ("low0", "low1", "low2"):
        engine.at(1_000, _send, port, 0, log, name)
    engine.at(1_050, _send, port, 2, log, "high")
    engine.run(10_000)
    assert [name for name, _ in log] == ["low0", "high", "low1", "low2"]


def test_an_injected_burst_delays_its_queue_by_its_work() -> None:
    """A fault of 40 us of work in a queue makes the next packet wait 40 us."""
    engine = Engine()
    port = _port(engine)
    log: list[tuple[str, QueueState]] = []
    engine.at(1_000, port.inject, 1, 40_000.0)
    engine.at(1_000, _send, port, 1, log, "struck")
    engine.run(100_000)
    assert log[0][1].dequeue_ns == 41_000


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_waiting_behind_random_frames_follows_pollaczek_khinchine(share: float) -> None:
    """Single frames, Poisson: the mean wait is rho / (2 (1 - rho)) frame times (M/D/1)."""
    engine = Engine()
    port = _port(engine, q0=Load(share=share, burst_frames=1.0))
    log: list[tuple[str, QueueState]] = []
    for index in range(1_500):
        engine.at(1_000_000 * (index + 1), _send, port, 0, log, "probe")
    engine.run(2_000_000_000)
    waits = [state.dequeue_ns - state.enqueue_ns for _, state in log]
    frame_ns = FRAME_BYTES * 8e9 / RATE_BPS
    expected_ns = frame_ns * share / (2 * (1 - share))
    assert np.mean(waits) == pytest.approx(expected_ns, rel=0.15)


def test_priority_waits_at_most_one_frame_behind_lower_queues() -> None:
    """Best-effort load costs the top queue at most the frame in service."""
    engine = Engine()
    port = _port(engine, q0=Load(share=0.7, burst_frames=8.0))
    log: list[tuple[str, QueueState]] = []
    for index in range(300):
        engine.at(1_000_000 * (index + 1), _send, port, 2, log, "ptp")
    engine.run(400_000_000)
    waits = [state.dequeue_ns - state.enqueue_ns for _, state in log]
    assert max(waits) <= FRAME_BYTES * 8e9 / RATE_BPS + 1
    assert max(waits) > 0


def test_depth_counts_the_frames_that_wait() -> None:
    """Depth at dequeue is what joined the queue behind; it grows with the waiting time."""
    engine = Engine()
    port = _port(engine, q0=Load(share=0.8, burst_frames=8.0))
    log: list[tuple[str, QueueState]] = []
    for index in range(300):
        engine.at(1_000_000 * (index + 1), _send, port, 0, log, "probe")
    engine.run(400_000_000)
    waits = np.array([state.dequeue_ns - state.enqueue_ns for _, state in log])
    depths = np.array([state.dequeue_depth for _, state in log])
    assert np.corrcoef(waits, depths)[0, 1] > 0.6
