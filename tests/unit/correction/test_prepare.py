# SPDX-License-Identifier: Apache-2.0
"""Samples made comparable: lengths, latencies, wraps, jumps, windows."""

from dataclasses import replace

import numpy as np
import pytest

from correction.links import JoinCounters, Reject, link_samples
from correction.model import FabricModel, StampPoint
from correction.prepare import LENGTH_CLASS_BYTES, Prepared, declared_delay_ns, prepare
from tests.support.synthetic_fabric import Run, Setup, draw

SMALL = Setup(leaves=3, spines=2, hosts_per_leaf=1, windows=2, samples=4, exchanges=5)


@pytest.fixture
def run() -> Run:
    """A fresh small run; tests damage it."""
    return draw(9, SMALL)


def _prepare(
    run: Run, samples: np.ndarray, model: FabricModel | None = None
) -> tuple[Prepared, JoinCounters]:
    counters = JoinCounters()
    return prepare(samples, model or run.model, run.windows, counters), counters


def _samples(run: Run) -> np.ndarray:
    return link_samples(run.packets, run.hops, run.exchanges, run.model)[0]


@pytest.mark.parametrize(
    ("egress_end", "ingress_end", "serialisations"),
    [(False, False, 0), (False, True, 1), (True, False, -1), (True, True, 0)],
)
def test_serialisation_enters_by_stamp_points(
    egress_end: bool, ingress_end: bool, serialisations: int
) -> None:
    """8 bits a byte at the link's rate, once where only the receiver stamps the frame's end."""
    link = draw(1, SMALL).model.links[0]
    link = replace(
        link,
        a_egress=StampPoint(latency_ns=3, uncertainty_ns=0, at_frame_end=egress_end),
        b_ingress=StampPoint(latency_ns=4, uncertainty_ns=0, at_frame_end=ingress_end),
    )
    got = declared_delay_ns(link, reverse=False, frame_bytes=np.array([1_500.0]))
    assert got.tolist() == [7 + serialisations * 120.0]


def test_all_lengths_agree_after_removal() -> None:
    """With stamps at the frame's end, 4200 and 90 bytes give the same x within the jitter."""
    run = draw(10, replace(SMALL, ingress_at_frame_end=True, jitter_mean_ns=0.01, wander=0.0))
    prepared, _ = _prepare(run, _samples(run))
    mine = (prepared.link == 0) & (prepared.window == 0) & ~prepared.reverse
    slope, offset = np.polyfit(prepared.a_rest_ns[mine] / 1e9, prepared.x_ns[mine], 1)
    rest = prepared.x_ns[mine] - slope * prepared.a_rest_ns[mine] / 1e9 - offset
    assert set(prepared.length_class[mine].tolist()) == {0, 2}
    assert np.abs(rest).max() < 3.0


def test_length_classes_end_where_documented() -> None:
    """<= 256, <= 1500, larger."""
    assert np.searchsorted(LENGTH_CLASS_BYTES, [64, 256, 257, 1500, 1501]).tolist() == [
        0, 0, 1, 1, 2,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("jump_ns", "reason"),
    [
        (4 * 2**32, Reject.CLOCK_JUMP_2_32),
        (17_179_869_180, Reject.CLOCK_JUMP_2_32),  # cisco/exanic-software issue 99
        (37_000_000_000, Reject.CLOCK_JUMP_UTC_TAI),
        (-37_000_000_000, Reject.CLOCK_JUMP_UTC_TAI),
        (5_000_000_000, Reject.CLOCK_JUMP),
    ],
)
def test_jumps_are_named_and_removed(run: Run, jump_ns: int, reason: Reject) -> None:
    """A minority of stamps from another time is rejected by name."""
    samples = _samples(run)
    before, _ = _prepare(run, samples)
    samples["egress_local_ns"][:2] += jump_ns
    prepared, counters = _prepare(run, samples)
    assert counters.rejected == {reason: 2}
    assert len(prepared) == len(before) - 2


def test_clock_set_between_windows_is_no_jump(run: Run) -> None:
    """Each window is judged by its own majority: a restart between windows is legal."""
    samples = _samples(run)
    second = samples["capture_collector_ns"] >= run.windows[1, 0]
    link = np.array([(one.a, one.b) for one in run.model.links])[samples["link"]]
    sender = np.where(samples["reverse"], link[:, 1], link[:, 0])
    receiver = np.where(samples["reverse"], link[:, 0], link[:, 1])
    samples["egress_local_ns"][second & (sender == 3)] += 10**12
    samples["ingress_local_ns"][second & (receiver == 3)] += 10**12
    _, counters = _prepare(run, samples)
    assert not counters.rejected


def test_narrow_stamps_are_unwrapped(run: Run) -> None:
    """32-bit stamps that wrap inside a window give the same x as wide ones."""
    samples = _samples(run)
    wide, _ = _prepare(run, samples)
    clocks = tuple(replace(clock, stamp_bits=32) for clock in run.model.clocks)
    narrow_samples = samples.copy()
    for field in ("egress_local_ns", "ingress_local_ns"):
        narrow_samples[field] &= 2**32 - 1
    narrow, counters = _prepare(run, narrow_samples, replace(run.model, clocks=clocks))
    assert not counters.rejected
    # x may differ by a constant per clock pair (multiples of 2^32 in the anchors) only
    for link in range(len(run.model.links)):
        for reverse in (False, True):
            mine = (wide.link == link) & (wide.reverse == reverse) & (wide.window == 0)
            change = narrow.x_ns[mine] - wide.x_ns[mine]
            assert np.ptp(change) < 1e-3


def test_packets_outside_all_windows_are_counted(run: Run) -> None:
    """Only samples captured in a window take part."""
    samples = _samples(run)
    run.windows = run.windows[:1]
    _, counters = _prepare(run, samples)
    assert counters.rejected == {
        Reject.OUTSIDE_WINDOWS: int((samples["capture_collector_ns"] >= run.windows[0, 1]).sum())
    }
