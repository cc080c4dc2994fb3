# SPDX-License-Identifier: Apache-2.0
"""Envelopes of one-way differences by window, exact in integers whatever the clocks' epochs."""

import numpy as np
import pytest

from correction.link_windows import QUANTILES, LinkWindowing
from correction.links import Reject
from correction.model import Clock, ClockKind, FabricModel, Link, StampPoint
from correction.records import LINK_SAMPLE_DTYPE

_S = 1_000_000_000
_A_EPOCH, _B_EPOCH = 3 * 10**17, 10**18 + 7
_DELAY_NS = 500
_RATE_PPB = 20_000
_EXACT = StampPoint(latency_ns=0, uncertainty_ns=1)


def _clock(name, node_id):
    return Clock(
        name=name,
        kind=ClockKind.SWITCH,
        node_id=node_id,
        ip=0,
        stamp_unit_ns=1,
        stamp_jitter_ns=2,
    )


_MODEL = FabricModel(
    clocks=(_clock("u", 1), _clock("v", 2)),
    links=(
        Link(
            name="u-v",
            a=0,
            a_port=1,
            b=1,
            b_port=1,
            rate_bps=100_000_000_000,
            a_egress=_EXACT,
            a_ingress=_EXACT,
            b_egress=_EXACT,
            b_ingress=_EXACT,
            min_delay_ns=0,
            asymmetry_sd_ns=5.0,
            access=False,
        ),
    ),
    reference=0,
    rate_offset_max_ppb=100_000,
    wander_ns_per_s_sqrt_s=10.0,
)


def _samples(count, *, seed=1, queue_id=0, frame_bytes=100, seconds=1):
    """`count` samples a direction and second: delay 500 ns, exponential jitter of 3 ns."""
    rng = np.random.default_rng(seed)
    size = 2 * count * seconds
    samples = np.zeros(size, LINK_SAMPLE_DTYPE)
    true_ns = rng.integers(0, seconds * _S, size)
    reverse = np.arange(size) % 2 == 1
    arrival_ns = true_ns + _DELAY_NS + rng.exponential(3.0, size).astype(np.int64)

    def a(t):
        return _A_EPOCH + t

    def b(t):
        return _B_EPOCH + t + t * _RATE_PPB // 10**9

    samples["reverse"] = reverse
    samples["egress_local_ns"] = np.where(reverse, b(true_ns), a(true_ns))
    samples["ingress_local_ns"] = np.where(reverse, a(arrival_ns), b(arrival_ns))
    samples["frame_bytes"], samples["queue_id"] = frame_bytes, queue_id
    samples["capture_collector_ns"] = true_ns
    return samples


def _rows(*samples):
    windowing = LinkWindowing(_MODEL, window_ns=_S, late_ns=0)
    for one in samples:
        windowing.add(one)
    return windowing.rest(), windowing


def test_both_directions_find_delay_and_rate():
    """The envelopes of the two directions, at their instants, differ by the clocks' difference."""
    rows, _ = _rows(_samples(200))
    assert rows["reverse"].tolist() == [False, True]
    assert rows["count"].tolist() == [200, 200]
    for row in rows:
        elapsed = int(row["at_a_local_ns"]) - _A_EPOCH
        difference = _B_EPOCH - _A_EPOCH + elapsed * _RATE_PPB // 10**9
        sign = -1 if row["reverse"] else 1
        assert int(row["envelope_ns"]) - sign * difference == pytest.approx(_DELAY_NS + 1, abs=3)
        assert row["slope_ppb"] == pytest.approx(_RATE_PPB, abs=20)
        # 3 ns of exponential jitter: its 99 % lies near 14 ns
        assert 5 < row["above_ns"][QUANTILES.index(0.99)] < 25
        assert np.all(np.diff(row["above_ns"]) >= 0)


def test_queues_and_length_classes_are_apart():
    """Mixing them between directions looks like asymmetry, so each has its own row."""
    rows, _ = _rows(_samples(20), _samples(20, queue_id=1), _samples(20, frame_bytes=4_200))
    keys = {(int(r["queue_id"]), int(r["length_class"]), bool(r["reverse"])) for r in rows}
    assert keys == {(q, c, d) for q, c in ((0, 0), (1, 0), (0, 2)) for d in (False, True)}


def test_busy_links_are_thinned_and_still_exact():
    """20,000 samples a direction count in full, at most 1,024 are fitted, the edge is the same."""
    rows, _ = _rows(*np.array_split(_samples(20_000), 13))
    assert rows["count"].tolist() == [20_000, 20_000]
    assert (rows["used"] <= 1_024).all()
    assert (rows["used"] >= 500).all()
    few, _ = _rows(_samples(500))
    for many, one in zip(rows, few, strict=True):
        sign = -1 if many["reverse"] else 1
        moved = int(many["at_a_local_ns"]) - int(one["at_a_local_ns"])
        expected = int(one["envelope_ns"]) + sign * moved * _RATE_PPB // 10**9
        assert int(many["envelope_ns"]) == pytest.approx(expected, abs=2)


def test_windows_follow_each_other():
    """Three seconds are three windows of each direction, in order."""
    rows, windowing = _rows(_samples(50, seconds=3))
    starts = rows["window_start_collector_ns"].tolist()
    assert starts == [0, 0, _S, _S, 2 * _S, 2 * _S]
    assert windowing.late_count == 0


def test_the_smallest_difference_is_one_that_arrived():
    """Raw stamps of two clocks, exact beyond what a float could hold."""
    samples = _samples(30)
    rows, _ = _rows(samples)
    difference = samples["ingress_local_ns"] - samples["egress_local_ns"]
    for row in rows:
        assert row["difference_ns_min"] == difference[samples["reverse"] == row["reverse"]].min()


def test_stamps_of_another_time_leave_every_statistic_alone():
    """They are counted as having arrived, and as rejected."""
    samples = _samples(200)
    bad = samples[::3].copy()
    bad["ingress_local_ns"] -= 4 * 2**32
    rows, windowing = _rows(np.concatenate([samples, bad]))
    good, _ = _rows(samples)
    counts = ("count", "rejected")
    for name in [name for name in rows.dtype.names or () if name not in counts]:
        np.testing.assert_array_equal(rows[name], good[name], name)
    assert (rows["count"] - good["count"]).sum() == len(bad)
    assert (rows["rejected"] - good["rejected"]).sum() == len(bad)
    assert windowing.counters.rejected == {Reject.CLOCK_JUMP_2_32: len(bad)}


def test_stamps_of_another_time_on_a_busy_link_move_its_edge_by_no_more_than_thinning_does():
    """Where a window keeps a part of what arrives, bad rows take places of good ones."""
    samples = _samples(4_000)
    bad = samples[::4].copy()
    bad["ingress_local_ns"] += 37 * _S
    rows, _ = _rows(np.concatenate([samples, bad]))
    good, _ = _rows(samples)
    moved = rows["at_a_local_ns"] - good["at_a_local_ns"]
    sign = np.where(rows["reverse"], -1, 1)
    change = rows["envelope_ns"] - good["envelope_ns"] - sign * moved * _RATE_PPB // 10**9
    assert np.abs(change).max() <= 1
