# SPDX-License-Identifier: Apache-2.0
"""Queues: the stationary pool against theory, order, depth, and the packet-level port."""

import numpy as np
import pytest

from bmv2_lab.scale.ports import (
    Arrivals,
    Departures,
    LoadTable,
    PortConstants,
    load_table,
    send_in_order,
    serve,
)
from bmv2_lab.simulator.background import FRAME_BYTES, Load

QUIET: tuple[dict[int, Load], ...] = ({0: Load(share=0.0, burst_frames=1.0)},)
HEAVY: tuple[dict[int, Load], ...] = (
    {0: Load(share=0.5, burst_frames=8.0), 1: Load(share=0.2, burst_frames=2.0)},
)


def _constants(load: int, jitter_mean_ns: float = 0.0) -> PortConstants:
    return PortConstants(
        load=np.array([load]),
        egress_ns=np.array([100]),
        far_ns=np.array([1_000]),
        at_frame_end=np.array([True]),
        ns_per_byte=0.08,
        overhead_bytes=20,
        jitter_mean_ns=jitter_mean_ns,
        jitter_max_ns=60,
    )


def _serve(
    table: LoadTable,
    times: list[int],
    *,
    queue_id: int = 1,
    bytes_each: int = 1_000,
    load: int = 0,
    jitter_mean_ns: float = 0.0,
    skipped_frames: int = 0,
    inject_ns: float = 0.0,
    seed: int = 1,
) -> Departures:
    count = len(times)
    inject = np.zeros(count)
    inject[0] = inject_ns
    skipped = np.where(np.arange(count) > 0, skipped_frames, 0)
    return serve(
        np.random.default_rng(seed),
        Arrivals(
            port=np.zeros(count, np.int64),
            time_ns=np.array(times),
            queue_id=queue_id,
            queued_bytes=np.full(count, bytes_each),
            sent_bytes=np.full(count, bytes_each),
            message=np.zeros(count, np.int64),
            skipped_bytes=skipped * bytes_each,
            skipped_frames=skipped,
            inject_ns=inject,
        ),
        _constants(load, jitter_mean_ns),
        table,
    )


def test_the_pool_has_the_mean_of_pollaczek_and_khinchine() -> None:
    """Mean work ahead = lambda E[B^2] / 2 (1 - rho) in each queue and those above it."""
    table = load_table(np.random.default_rng(2), HEAVY, 100)
    frame_ns = FRAME_BYTES * 0.08
    for queue_min in (0, 1):
        rho = second = 0.0
        for queue_id, load in HEAVY[0].items():
            if queue_id >= queue_min:
                rate = load.share / (frame_ns * load.burst_frames)
                # geometric bursts: E[G^2] = (2 - p) / p^2
                p = 1 / load.burst_frames
                rho += load.share
                second += rate * (2 - p) / p**2 * frame_ns**2
        expected = second / (2 * (1 - rho))
        found = table.states_ns[0, :, queue_min]
        assert found.mean() == pytest.approx(expected, rel=0.06)
        assert np.mean(found > 0) == pytest.approx(rho, abs=0.02)


def test_an_empty_port_sends_at_once_and_the_wire_adds_its_parts() -> None:
    """Arrival = dequeue + egress latency + propagation and stamp point + serialisation."""
    left = _serve(load_table(np.random.default_rng(1), QUIET, 100), [5_000])
    assert left.dequeue_ns.tolist() == [5_000]
    assert left.arrival_ns.tolist() == [5_000 + 100 + 1_000 + 80]
    assert left.depth_frames.tolist() == [0]


def test_frames_wait_for_those_before_them() -> None:
    """Three frames at once leave one frame's port time apart, and see those behind them."""
    left = _serve(load_table(np.random.default_rng(1), QUIET, 100), [5_000, 5_000, 5_000])
    assert np.diff(left.dequeue_ns).tolist() in ([82, 82], [82, 81], [81, 82])
    assert left.depth_frames.tolist() == [0, 1, 0]


def test_an_injected_burst_delays_what_follows() -> None:
    """A hop fault is work in the queue; a second packet 2 us later finds the rest of it."""
    left = _serve(load_table(np.random.default_rng(1), QUIET, 100), [0, 2_000], inject_ns=10_000.0)
    assert left.dequeue_ns[0] == 10_000
    assert left.dequeue_ns[1] == pytest.approx(10_082, abs=1)


def test_order_on_a_wire_is_kept() -> None:
    """Jitter never lets a frame overtake the one before it."""
    table = load_table(np.random.default_rng(1), HEAVY, 100)
    left = _serve(table, list(range(0, 400_000, 90)), bytes_each=1_000, jitter_mean_ns=20.0)
    assert bool((np.diff(left.arrival_ns) >= 80).all())
    assert bool((np.diff(left.dequeue_ns) >= 81).all())


def test_a_message_that_is_not_simulated_keeps_the_queue_full() -> None:
    """Frames left out between two sampled ones are work: a queue does not drain under them."""
    table = load_table(np.random.default_rng(1), QUIET, 100)
    full = _serve(table, [0, 8 * 82], skipped_frames=7, inject_ns=5_000.0)
    gone = _serve(table, [0, 8 * 82], skipped_frames=0, inject_ns=5_000.0)
    assert full.dequeue_ns[1] - full.dequeue_ns[0] == pytest.approx(8 * 82, abs=8)
    assert gone.dequeue_ns[1] - gone.dequeue_ns[0] == pytest.approx(82, abs=1)
    assert full.depth_frames[0] == 8  # all of them joined behind the first


def test_waiting_far_apart_is_drawn_from_the_pool() -> None:
    """Packets a second apart wait independently, with the pool's mean work ahead of them."""
    table = load_table(np.random.default_rng(2), HEAVY, 100)
    count = 20_000
    times = (np.arange(count) * 1_000_000).tolist()
    left = _serve(table, times, queue_id=1, bytes_each=100)
    wait_ns = left.dequeue_ns - np.array(times)
    work = table.states_ns[0]
    residual = np.where(work[:, 1] == 0, work[:, 0] % table.frame_work_ns, 0)
    expected = (work[:, 1] + residual).mean()
    assert wait_ns.mean() == pytest.approx(expected, rel=0.05)


def test_senders_send_in_order() -> None:
    """First in, first out per sender, whatever the order of the input."""
    start = send_in_order(
        np.array([1, 0, 1, 1]), np.array([100, 50, 90, 500]), np.array([30, 10, 20, 10])
    )
    assert start.tolist() == [110, 50, 90, 500]
