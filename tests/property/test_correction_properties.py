# SPDX-License-Identifier: Apache-2.0
"""Invariances of the whole correction chain, and of integer time."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from correction.engine import solve, solve_samples
from correction.links import link_samples
from correction.timebase import modular_difference_ns, unwrap
from tests.support.synthetic_fabric import Run, Setup, draw

SMALL = Setup(leaves=3, spines=3, hosts_per_leaf=1, windows=1, samples=6, exchanges=6)
BASE = draw(21, SMALL)
SAMPLES = link_samples(BASE.packets, BASE.hops, BASE.exchanges, BASE.model)[0]
SOLVED = solve_samples(SAMPLES, BASE.model, BASE.windows)
N = len(BASE.model.clocks)
few = settings(max_examples=12, deadline=None)


def _shifted(samples: np.ndarray, run: Run, clock: int, by_ns: int) -> np.ndarray:
    """The same samples with one clock ahead by a constant."""
    result = samples.copy()
    ends = np.array([(link.a, link.b) for link in run.model.links])[samples["link"]]
    sender = np.where(samples["reverse"], ends[:, 1], ends[:, 0])
    receiver = np.where(samples["reverse"], ends[:, 0], ends[:, 1])
    result["egress_local_ns"][sender == clock] += by_ns
    result["ingress_local_ns"][receiver == clock] += by_ns
    return result


@few
@given(clock=st.integers(1, N - 1), by_ns=st.integers(-(10**18), 10**17))
def test_a_constant_on_one_clock_moves_only_that_clock(clock: int, by_ns: int) -> None:
    """Adding c to one clock's stamps adds exactly c to its offset and nothing to any other."""
    got = solve_samples(_shifted(SAMPLES, BASE, clock, by_ns), BASE.model, BASE.windows)
    before, after = SOLVED.windows[0], got.windows[0]
    change = after.offset_ns - before.offset_ns
    # the anchor may move by a nanosecond of rounding, and the offset with it
    assert abs(int(change[clock]) - by_ns) <= 1
    assert (np.abs(np.delete(change, clock)) <= 1).all()
    np.testing.assert_allclose(after.bound_hard_ns, before.bound_hard_ns, atol=1e-3)
    np.testing.assert_allclose(after.sd_ns, before.sd_ns, atol=1e-6)


@few
@given(by_ns=st.integers(-(10**17), 10**17))
def test_a_constant_on_the_reference_moves_all_others_back(by_ns: int) -> None:
    """Offsets are relative to the reference."""
    reference = BASE.model.reference
    got = solve_samples(_shifted(SAMPLES, BASE, reference, by_ns), BASE.model, BASE.windows)
    change = got.windows[0].offset_ns - SOLVED.windows[0].offset_ns
    assert (np.abs(np.delete(change, reference) + by_ns) <= 1).all()
    assert change[reference] == 0


@few
@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_samples_does_not_matter(seed: int) -> None:
    """Reports may arrive in any order."""
    shuffled = SAMPLES[np.random.default_rng(seed).permutation(len(SAMPLES))]
    got = solve_samples(shuffled, BASE.model, BASE.windows)
    assert (np.abs(got.windows[0].offset_ns - SOLVED.windows[0].offset_ns) <= 1).all()
    np.testing.assert_allclose(got.links.a_ns, SOLVED.links.a_ns, atol=0.05)


@few
@given(seed=st.integers(0, 2**32 - 1))
def test_order_of_links_does_not_matter(seed: int) -> None:
    """Permuting the model's links permutes the link estimates and leaves the clocks."""
    order = np.random.default_rng(seed).permutation(len(BASE.model.links))
    model = replace(BASE.model, links=tuple(BASE.model.links[i] for i in order))
    got = solve(BASE.packets, BASE.hops, BASE.exchanges, model, BASE.windows)
    assert (np.abs(got.windows[0].offset_ns - SOLVED.windows[0].offset_ns) <= 1).all()
    np.testing.assert_allclose(got.links.a_ns, SOLVED.links.a_ns[order], atol=0.05)


@few
@given(clock=st.integers(0, N - 1), link=st.integers(0, len(BASE.model.links) - 1))
def test_turning_a_link_round_changes_only_its_sign(clock: int, link: int) -> None:
    """Listing a cable as b - a instead of a - b flips a_uv and nothing else."""
    old = BASE.model.links[link]
    turned = replace(
        old,
        a=old.b,
        b=old.a,
        a_port=old.b_port,
        b_port=old.a_port,
        a_egress=old.b_egress,
        a_ingress=old.b_ingress,
        b_egress=old.a_egress,
        b_ingress=old.a_ingress,
    )
    links = tuple(turned if i == link else one for i, one in enumerate(BASE.model.links))
    got = solve(
        BASE.packets, BASE.hops, BASE.exchanges, replace(BASE.model, links=links), BASE.windows
    )
    difference = got.windows[0].offset_ns - SOLVED.windows[0].offset_ns
    assert abs(int(difference[clock])) <= 1
    assert abs(got.links.a_ns[link] + SOLVED.links.a_ns[link]) < 0.2


def test_doubling_the_data_never_widens_the_statistical_part() -> None:
    """Twice the packets: no clock's sd grows, no hard bound grows by more than rounding."""
    wider = []
    for seed in range(6):
        many = draw(seed, replace(SMALL, samples=24, exchanges=12))
        samples = link_samples(many.packets, many.hops, many.exchanges, many.model)[0]
        half = samples[np.random.default_rng(seed).permutation(len(samples))[: len(samples) // 2]]
        full_solution = solve_samples(samples, many.model, many.windows)
        half_solution = solve_samples(half, many.model, many.windows)
        wider.append(full_solution.windows[0].sd_ns - half_solution.windows[0].sd_ns)
    assert np.mean(wider) <= 0.0
    assert np.max(wider) < 0.5


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1_000))
def test_the_same_data_twice_never_widen_the_statistical_part(seed: int) -> None:
    """Every sample a second time: no clock's deviation grows, but for quantiles that lie elsewhere
    between twice as many samples; link equations have less noise."""
    run = draw(seed, SMALL)
    samples = link_samples(run.packets, run.hops, run.exchanges, run.model)[0]
    once = solve_samples(samples, run.model, run.windows)
    twice = solve_samples(np.concatenate([samples, samples]), run.model, run.windows)
    noise, before = twice.measured.equations.sd_ns, once.measured.equations.sd_ns
    assert np.nanmax(noise / before) <= 1.0
    if twice.links.rejected.tolist() == once.links.rejected.tolist():
        assert (twice.windows[0].sd_ns <= once.windows[0].sd_ns * 1.01).all()


@given(
    bits=st.sampled_from([32, 48]),
    true_ns=st.integers(-(2**60), 2**60),
    off_ns=st.integers(-(2**30), 2**30),
)
def test_unwrap_recovers_the_true_counter(bits: int, true_ns: int, off_ns: int) -> None:
    """A truncated stamp and a coarse reading give the whole counter back."""
    stamp = np.array([true_ns % 2**bits], np.int64)
    assert unwrap(stamp, np.array([true_ns + off_ns]), bits=bits).tolist() == [true_ns]


@given(
    start=st.integers(0, 2**48 - 1),
    residence_ns=st.integers(0, 2**40),
)
def test_residence_is_independent_of_the_wrap(start: int, residence_ns: int) -> None:
    """Same-clock differences are modular."""
    end = np.array([(start + residence_ns) % 2**48], np.int64)
    assert modular_difference_ns(end, np.array([start]), bits=48).tolist() == [residence_ns]
