# SPDX-License-Identifier: Apache-2.0
"""Invariances of the estimation that runs window by window."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from correction.link_windows import LinkWindowing
from correction.links import link_samples
from correction.model import FabricModel
from correction.stream.answer import TrackedWindow
from correction.stream.tracker import FabricTracker, track
from tests.support.synthetic_fabric import Setup, draw

SMALL = Setup(leaves=3, spines=4, hosts_per_leaf=1, windows=3, window_gap_s=1.0, samples=8)
BASE = draw(23, replace(SMALL, exchanges=8))
SAMPLES = link_samples(BASE.packets, BASE.hops, BASE.exchanges, BASE.model)[0]
N = len(BASE.model.clocks)
few = settings(max_examples=10, deadline=None)


def edges(samples: np.ndarray, model: FabricModel) -> np.ndarray:
    """What a collector makes of them, window by window."""
    windowing = LinkWindowing(model, window_ns=10**9, late_ns=0)
    windowing.add(samples)
    return windowing.rest()


def followed(samples: np.ndarray, model: FabricModel = BASE.model) -> list[TrackedWindow]:
    """All windows of these samples."""
    return track(model, [edges(samples, model)])


PLAIN = followed(SAMPLES)


def shifted(samples: np.ndarray, clock: int, by_ns: int) -> np.ndarray:
    """The same samples with one clock ahead by a constant."""
    result = samples.copy()
    ends = np.array([(link.a, link.b) for link in BASE.model.links])[samples["link"]]
    sender = np.where(samples["reverse"], ends[:, 1], ends[:, 0])
    receiver = np.where(samples["reverse"], ends[:, 0], ends[:, 1])
    result["egress_local_ns"][sender == clock] += by_ns
    result["ingress_local_ns"][receiver == clock] += by_ns
    return result


@few
@given(clock=st.integers(1, N - 1), by_ns=st.integers(-(10**18), 10**17))
def test_a_constant_on_one_clock_moves_only_that_clock(clock: int, by_ns: int) -> None:
    """In every window, by exactly that; bounds and bad links stay."""
    for one, plain in zip(followed(shifted(SAMPLES, clock, by_ns)), PLAIN, strict=True):
        change = one.offset_ns - plain.offset_ns
        assert abs(int(change[clock]) - by_ns) <= 1
        assert (np.abs(np.delete(change, clock)) <= 1).all()
        np.testing.assert_allclose(one.bound_hard_ns, plain.bound_hard_ns, atol=1e-3)
        np.testing.assert_allclose(one.sd_ns, plain.sd_ns, atol=1e-3)
        assert one.solution.bad.tolist() == plain.solution.bad.tolist()


@few
@given(by_ns=st.integers(-(10**17), 10**17))
def test_a_constant_on_the_reference_moves_all_others_back(by_ns: int) -> None:
    """Offsets are relative to the reference."""
    reference = BASE.model.reference
    for one, plain in zip(followed(shifted(SAMPLES, reference, by_ns)), PLAIN, strict=True):
        change = one.offset_ns - plain.offset_ns
        assert (np.abs(np.delete(change, reference) + by_ns) <= 1).all()
        assert change[reference] == 0


@few
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_links_changes_nothing(seed: int) -> None:
    """Permuting the model's links permutes what is said of them, and leaves the clocks."""
    order = np.random.default_rng(seed).permutation(len(BASE.model.links))
    model = replace(BASE.model, links=tuple(BASE.model.links[i] for i in order))
    samples = SAMPLES.copy()
    samples["link"] = np.argsort(order)[SAMPLES["link"]]
    for one, plain in zip(followed(samples, model), PLAIN, strict=True):
        assert (np.abs(one.offset_ns - plain.offset_ns) <= 1).all()
        assert one.status.tolist() == plain.status.tolist()
        np.testing.assert_allclose(one.sd_ns, plain.sd_ns, rtol=1e-3)
        np.testing.assert_allclose(one.bound_hard_ns, plain.bound_hard_ns, atol=0.1)


@few
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_samples_changes_nothing(seed: int) -> None:
    """Reports may arrive in any order within a window."""
    shuffled = SAMPLES[np.random.default_rng(seed).permutation(len(SAMPLES))]
    for one, plain in zip(followed(shuffled), PLAIN, strict=True):
        assert (np.abs(one.offset_ns - plain.offset_ns) <= 1).all()
        assert one.status.tolist() == plain.status.tolist()


QUANTILES_SHARE = 0.01
"""Quantiles of twice as many samples lie elsewhere between them: by so much may what follows from
their spread differ."""


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1_000))
def test_the_same_data_twice_never_widen_the_statistical_part(seed: int) -> None:
    """Every sample a second time: the noise of each link's edge is less, and no clock's deviation
    grows, in no window."""
    run = draw(seed, replace(SMALL, windows=2, exchanges=8))
    samples = link_samples(run.packets, run.hops, run.exchanges, run.model)[0]
    once, twice = edges(samples, run.model), edges(np.concatenate([samples, samples]), run.model)
    narrowed = twice["envelope_sd_ns"] / once["envelope_sd_ns"]
    assert np.nanmax(narrowed) <= 1.0
    assert 0.6 < np.nanmedian(narrowed) < 0.85  # 1 / sqrt(2)
    for one, other in zip(track(run.model, [twice]), track(run.model, [once]), strict=True):
        known = np.isfinite(other.bound_conditional_ns)
        assert one.solution.bad.tolist() == other.solution.bad.tolist()
        assert (one.sd_ns[known] <= other.sd_ns[known] * (1.0 + QUANTILES_SHARE)).all()


@few
@given(gaps=st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_more_windows_never_widen_what_is_averaged(gaps: list[int]) -> None:
    """A link's average over more windows has less noise."""
    rows = edges(SAMPLES, BASE.model)
    tracker = FabricTracker(BASE.model)
    noise = np.full(len(BASE.model.links), np.inf)
    windows = np.unique(rows["window_start_collector_ns"])
    for number in range(sum(gaps)):
        again = rows[rows["window_start_collector_ns"] == windows[0]].copy()
        for name in ("window_start_collector_ns", "window_end_collector_ns"):
            again[name] += number * 10**9
        again["capture_collector_ns"] += number * 10**9
        tracker.push(again)
        links = tracker.links
        now = links.noise_sd_ns / np.sqrt(np.maximum(links.count, 1.0))
        measured = links.count > 0
        assert (now[measured] <= noise[measured] + 1e-9).all()
        noise = np.where(measured, now, noise)
