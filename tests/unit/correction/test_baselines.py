# SPDX-License-Identifier: Apache-2.0
"""Baselines against hand calculation, and against what asymmetry must do to them."""

from dataclasses import replace

import numpy as np
import pytest

from correction.baselines.compare import (
    HOST_MESH,
    LEAST_SQUARES,
    METHODS,
    RAW_PTP,
    RESIDENCE_ONLY,
    baseline_offsets,
)
from correction.baselines.host_mesh import (
    PairDifferences,
    network_effect,
    support_vector_differences,
)
from correction.baselines.host_packets import HOST_PACKET_DTYPE, Placed
from correction.baselines.ptp import window_medians
from correction.engine import solve
from tests.support.score_correction import score
from tests.support.synthetic_fabric import Run, Setup, draw


def placed(*rows: tuple[int, int, float, float], residence_ns: float = 0.0) -> Placed:
    """(sender, receiver, sent_ns, delay_ns) of packets in window 0."""
    sender, receiver, sent, delay = (np.array(column) for column in zip(*rows, strict=True))
    return Placed(
        packet=np.arange(len(rows)),
        window=np.zeros(len(rows), np.int64),
        sender=sender,
        receiver=receiver,
        sent_ns=sent.astype(float),
        delay_ns=delay.astype(float),
        residence_ns=np.full(len(rows), residence_ns),
    )


def test_raw_ptp_takes_half_the_path_difference_for_an_offset() -> None:
    """10 us there and 4 us back look like a client 3 us ahead (clocks.md 1.1)."""
    down, up = placed((0, 1, 0.0, 10_000.0)), placed((1, 0, 0.0, 4_000.0))
    assert window_medians(down, up, 0, (1, 2), residence=False)[0, 1] == 3_000.0


def test_residence_is_taken_off_each_packet_once() -> None:
    """Residence of 5 us there and 1 us back leaves 5 us against 3 us: 1 us."""
    down = placed((0, 1, 0.0, 10_000.0), residence_ns=5_000.0)
    up = placed((1, 0, 0.0, 4_000.0), residence_ns=1_000.0)
    assert window_medians(down, up, 0, (1, 2), residence=True)[0, 1] == 1_000.0


def test_an_exchange_without_known_residence_counts_for_raw_ptp_alone() -> None:
    """What nobody measured cannot be taken off."""
    down, up = placed((0, 1, 0.0, 10.0), residence_ns=np.nan), placed((1, 0, 0.0, 4.0))
    assert window_medians(down, up, 0, (1, 2), residence=False)[0, 1] == 3.0
    assert np.isnan(window_medians(down, up, 0, (1, 2), residence=True)[0, 1])


def test_support_lines_find_offset_and_rate_below_queueing() -> None:
    """Clock 1 is 700 ns ahead and gains 2000 ns/s; 500 ns each way, and some packets wait."""
    at_s = np.array([-0.4, -0.2, 0.0, 0.1, 0.3, 0.4])
    waits = np.array([0.0, 9e3, 2e4, 0.0, 4e3, 0.0])
    clock = 700.0 + 2_000.0 * at_s
    rows = [(0, 1, t * 1e9, 500.0 + w + c) for t, w, c in zip(at_s, waits, clock, strict=True)]
    rows += [(1, 0, t * 1e9, 500.0 + w - c) for t, w, c in zip(at_s, waits, clock, strict=True)]
    found = support_vector_differences(placed(*rows), 50_000.0, 2)
    assert (found.a.tolist(), found.b.tolist()) == ([0], [1])
    assert found.difference_ns[0] == pytest.approx(700.0, abs=1e-3)
    assert found.half_gap_ns[0] == pytest.approx(500.0, abs=1e-3)


def test_one_wrong_stamp_moves_neither_ptp_nor_the_mesh() -> None:
    """A Sync stamped 450 us late, and one packet of a pair 450 us early."""
    there = [(0, 1, t, 4_000.0) for t in (0.0, 1e8, 2e8, 3e8)]
    back = [(1, 0, t, 4_000.0) for t in (0.0, 1e8, 2e8, 3e8)]
    late = [(0, 1, 0.0, 454_000.0), *there[1:]]
    assert window_medians(placed(*late), placed(*back), 0, (1, 2), residence=False)[0, 1] == 0.0
    early = [*there, (0, 1, 3e8, -446_000.0), (0, 1, 3e8, 4_000.0)]
    found = support_vector_differences(placed(*early, *back), 50_000.0, 2)
    assert found.difference_ns[0] == pytest.approx(0.0, abs=1e-3)


def test_a_pair_without_packets_both_ways_gives_nothing() -> None:
    """One direction bounds the difference from one side only."""
    rows = [(0, 1, t, 500.0) for t in (0.0, 1e6, 2e6, 3e6)] + [(1, 0, 0.0, 500.0)]
    assert not len(support_vector_differences(placed(*rows), 50_000.0, 2).difference_ns)


def test_network_effect_spreads_a_loops_surplus_over_its_pairs() -> None:
    """Huygens: with loop matrix A, differences are corrected by A'(AA')^-1 A times themselves; a
    loop of three pairs that adds up to 30 ns gives each pair 10 ns."""
    pairs = PairDifferences(
        window=np.zeros(3, np.int64),
        a=np.array([0, 1, 0]),
        b=np.array([1, 2, 2]),
        difference_ns=np.array([100.0, 50.0, 120.0]),
        half_gap_ns=np.zeros(3),
    )
    loop = np.array([[1.0, 1.0, -1.0]])
    y = pairs.difference_ns
    corrected = y - loop.T @ np.linalg.solve(loop @ loop.T, loop @ y)
    offsets = network_effect(pairs, 0, (1, 4))
    assert offsets[0, :3] == pytest.approx([0.0, corrected[0], corrected[2]])
    assert offsets[0, 1] == pytest.approx(90.0)
    assert np.isnan(offsets[0, 3])


QUIET = Setup(
    leaves=4, spines=4, windows=2, bad_share=0.0, asymmetry_sd_ns=0.001, jitter_mean_ns=0.01,
    stamp_uncertainty_ns=0, nic_uncertainty_ns=0, wander=0.01, host_peers=3,
)  # fmt: skip


def errors_ns(run: Run) -> dict[str, np.ndarray]:
    """[window, clock] by method; offsets, so positive when the estimate is too far ahead."""
    solution = solve(run.packets, run.hops, run.exchanges, run.model, run.windows)
    differences = baseline_offsets(solution, run.packets, run.hops, run.exchanges, run.host_packets)
    engine = -score(run, solution).error_ns
    return {method: engine + differences[method] for method in METHODS}


def test_a_bad_access_cable_moves_its_host_by_its_asymmetry() -> None:
    """h5's cable, h5 being end a, is 40 ns slower upwards, as half the difference: h5 looks 40 ns
    behind to PTP without residence, where there is one path, and to least squares on the links.
    """
    errors = errors_ns(draw(1, replace(QUIET, spines=1), a_ns={"h5-leaf3": 40.0}))
    for method in (RESIDENCE_ONLY, LEAST_SQUARES):
        assert errors[method][:, 4] == pytest.approx(-40.0, abs=2.0)
        assert errors[method][:, 1:4] == pytest.approx(0.0, abs=2.0)
    assert np.abs(errors[RAW_PTP][:, 4] + 40.0).max() > 100.0


def test_unequal_paths_move_what_knows_no_path() -> None:
    """Residence alone leaves the cables: with four spines and 3 to 100 m, paths there and back
    differ by 100s of ns. Least squares on the links sees each cable both ways."""
    errors = errors_ns(draw(1, QUIET))
    assert np.abs(errors[LEAST_SQUARES][:, :8]).max() < 2.0
    assert np.sqrt(np.mean(errors[RESIDENCE_ONLY][:, 1:8] ** 2)) > 50.0


def test_methods_follow_a_clock_that_is_set() -> None:
    """Errors are the same with h3 two seconds ahead: no method looks at a clock's epoch."""
    run = draw(2, replace(QUIET, jitter_mean_ns=3.0))
    ahead_ns = 2_000_000_000
    exchanges, packets = run.exchanges.copy(), run.host_packets.copy()
    mine = exchanges["client"] == 2
    for stamp in ("t2_local_ns", "t3_local_ns"):
        exchanges[stamp][mine] += ahead_ns
    for end, stamp in (("sender", "sent_local_ns"), ("receiver", "received_local_ns")):
        packets[stamp][packets[end] == 2] += ahead_ns
    solution = solve(run.packets, run.hops, run.exchanges, run.model, run.windows)
    moved = solve(run.packets, run.hops, exchanges, run.model, run.windows)
    before = baseline_offsets(solution, run.packets, run.hops, run.exchanges, run.host_packets)
    after = baseline_offsets(moved, run.packets, run.hops, exchanges, packets)
    for method in METHODS:
        assert after[method] == pytest.approx(before[method], abs=1.5, nan_ok=True)


def test_without_packets_between_hosts_the_mesh_is_the_star_of_ptp() -> None:
    """PTP alone joins every client with the time transmitter, and no loop is there to spread."""
    run = draw(3, replace(QUIET, host_peers=0))
    solution = solve(run.packets, run.hops, run.exchanges, run.model, run.windows)
    found = baseline_offsets(solution, run.packets, run.hops, run.exchanges)
    assert len(run.host_packets) == 0
    assert run.host_packets.dtype == HOST_PACKET_DTYPE
    hosts = np.arange(8)
    assert np.isfinite(found[HOST_MESH][:, hosts]).all()
    assert np.isnan(found[HOST_MESH][:, 8:]).all()
