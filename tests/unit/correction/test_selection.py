# SPDX-License-Identifier: Apache-2.0
"""Bad links: closed-form updates against brute force, L1 start against a linear program."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from correction.network import Eliminated, posterior
from correction.selection import (
    _average,
    _cost,
    _flips,
    _robust_start,
    _sds,
    select_bad_links,
)

LEAVES, SPINES = 5, 4
E = LEAVES * SPINES
ENDS = np.array([(x, LEAVES + s) for x in range(LEAVES) for s in range(SPINES)])
SD_NS = 5.0


def _fabric(y: np.ndarray, sd: float = 0.5) -> Eliminated:
    """One window of a leaf-spine fabric, clock 0 as reference."""
    b = np.zeros((E, LEAVES + SPINES))
    b[np.arange(E), ENDS[:, 0]], b[np.arange(E), ENDS[:, 1]] = -1, 1
    b = b[:, 1:]
    projector = (np.eye(E) - b @ np.linalg.pinv(b)) / sd**2
    return Eliminated(
        information=projector,
        right_side=projector @ y,
        energy=float(y @ projector @ y),
        degrees=E - b.shape[1],
        windows=(),
    )


def _draw(seed: int, bad: dict[int, float]) -> tuple[Eliminated, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.normal(0, SD_NS, E)
    for e, value in bad.items():
        a[e] = value
    theta = rng.normal(0, 1_000, LEAVES + SPINES)
    y = theta[ENDS[:, 1]] - theta[ENDS[:, 0]] + a + rng.normal(0, 0.5, E)
    return _fabric(y), a


ALL = np.arange(E)
PRIOR = np.full(E, SD_NS)


def test_flip_costs_match_brute_force() -> None:
    """Rank-one and rank-two updates give the cost of the changed set, computed anew."""
    eliminated, _ = _draw(1, {3: 120.0, 9: -60.0})
    bad = np.zeros(E, np.bool_)
    bad[[3, 11]] = True
    best = posterior(eliminated, _sds(PRIOR, ALL, bad))
    flips = _flips(best, PRIOR, ALL, bad)
    base = _cost(eliminated, PRIOR, ALL, bad)
    for i in range(E):
        other = bad.copy()
        other[i] = ~other[i]
        assert flips.single[i] == pytest.approx(_cost(eliminated, PRIOR, ALL, other) - base)
    for i, j in itertools.combinations(range(0, E, 3), 2):
        other = bad.copy()
        other[[i, j]] = ~other[[i, j]]
        assert flips.pair[i, j] == pytest.approx(_cost(eliminated, PRIOR, ALL, other) - base)


def test_average_matches_brute_force_mixture() -> None:
    """Mean and covariance over the set and its rivals equal the explicit mixture."""
    eliminated, _ = _draw(2, {4: 24.0})
    bad = np.zeros(E, np.bool_)
    best = posterior(eliminated, _sds(PRIOR, ALL, bad))
    averaged, rivals, probability = _average(best, PRIOR, ALL, bad)
    sets = [bad]
    for flipped in itertools.chain(
        itertools.combinations(range(E), 1), itertools.combinations(range(E), 2)
    ):
        other = bad.copy()
        other[list(flipped)] = True
        sets.append(other)
    cost = np.array([_cost(eliminated, PRIOR, ALL, one) for one in sets])
    weight = np.exp(-0.5 * (cost - cost.min()))
    weight /= weight.sum()
    parts = [posterior(eliminated, _sds(PRIOR, ALL, one)) for one in sets]
    mean = sum(w * p.q_ns for w, p in zip(weight, parts, strict=True))
    spread = sum(
        w * (p.covariance + np.outer(p.q_ns - mean, p.q_ns - mean))
        for w, p in zip(weight, parts, strict=True)
    )
    np.testing.assert_allclose(averaged.q_ns, mean, atol=1e-6)
    np.testing.assert_allclose(averaged.covariance, spread, atol=1e-5)
    expected = sum(w * one for w, one in zip(weight, sets, strict=True))
    np.testing.assert_allclose(probability, expected, atol=1e-9)

    # each rival by itself, the most probable ones first
    by_set = {tuple(np.flatnonzero(one).tolist()): k for k, one in enumerate(sets)}
    assert (np.diff(rivals.weight) <= 0.0).all()
    for number, links in enumerate(rivals.link.tolist()):
        other = by_set[tuple(sorted(set(links)))]
        assert rivals.weight[number] == pytest.approx(weight[other], rel=1e-6)
        columns = best.covariance[:, links]
        q_ns = best.q_ns - columns @ rivals.multiplier[number]
        np.testing.assert_allclose(q_ns, parts[other].q_ns, atol=1e-6)
        covariance = best.covariance - columns @ rivals.curvature[number] @ columns.T
        np.testing.assert_allclose(covariance, parts[other].covariance, atol=1e-5)


def test_large_asymmetries_are_found_and_measured() -> None:
    """Bad links of 45 to 500 ns, fewer than half of every cut: exactly those are called bad."""
    bad = {1: 500.0, 6: -45.0, 12: 90.0}
    for seed in range(10):
        eliminated, a = _draw(seed, bad)
        got = select_bad_links(eliminated, PRIOR, ALL)
        assert set(np.flatnonzero(got.bad).tolist()) == set(bad)
        error = got.averaged.q_ns[list(bad)] - a[list(bad)]
        sd = np.sqrt(np.diag(got.averaged.covariance)[list(bad)])
        assert (np.abs(error) < 4 * sd).all()


def test_what_is_bad_follows_from_what_is_healthy() -> None:
    """The same fabric with everything 20,000 times as large, as in software: the same links."""
    scale = 20_000.0
    bad = {1: 500.0, 6: -65.0, 12: 90.0}
    for seed in range(10):
        eliminated, a = _draw(seed, bad)
        larger = Eliminated(
            information=eliminated.information / scale**2,
            right_side=eliminated.right_side / scale,
            energy=eliminated.energy,
            degrees=eliminated.degrees,
            windows=(),
        )
        got = select_bad_links(larger, PRIOR * scale, ALL)
        assert set(np.flatnonzero(got.bad).tolist()) == set(bad)
        error = got.averaged.q_ns[list(bad)] - a[list(bad)] * scale
        sd = np.sqrt(np.diag(got.averaged.covariance)[list(bad)])
        assert (np.abs(error) < 4 * sd).all()


def test_robust_start_agrees_with_the_l1_linear_program() -> None:
    """The start rejects the links that exact L1 (a linear program) leaves large."""
    for seed in range(5):
        eliminated, _ = _draw(seed, {2: 200.0, 13: -150.0})
        b = np.zeros((E, LEAVES + SPINES))
        b[np.arange(E), ENDS[:, 0]], b[np.arange(E), ENDS[:, 1]] = -1, 1
        y = np.linalg.pinv(eliminated.information) @ eliminated.right_side  # loop part of y
        n = LEAVES + SPINES - 1
        program = linprog(
            np.r_[np.zeros(n), np.ones(E)],
            A_ub=np.block([[b[:, 1:], -np.eye(E)], [-b[:, 1:], -np.eye(E)]]),
            b_ub=np.r_[y, -y],
            bounds=[(None, None)] * n + [(0, None)] * E,
        )
        residual = y - b[:, 1:] @ program.x[:n]
        start = _robust_start(eliminated, PRIOR, ALL)
        assert set(np.flatnonzero(start)) == set(np.flatnonzero(np.abs(residual) > 30.0))


def test_loop_residual_is_chi_square_under_the_null() -> None:
    """Without bad links the test's p-values are uniform: mean 1/2, one in ten below 0.1."""
    from scipy.stats import chi2

    p = []
    for seed in range(100):
        eliminated, _ = _draw(1_000 + seed, {})
        got = select_bad_links(eliminated, np.hypot(PRIOR, 0.0), ALL)
        if not got.bad.any():
            p.append(chi2.sf(got.chi2, got.degrees))
    assert 0.42 < np.mean(p) < 0.58
    assert 0.03 < np.mean(np.array(p) < 0.1) < 0.17


def test_gradient_leaves_the_loop_residual_at_zero() -> None:
    """a_uv = g_v - g_u reproduces every loop: residual 0, so a pass never means "symmetric"."""
    rng = np.random.default_rng(9)
    g = rng.normal(0, 100, LEAVES + SPINES)
    got = select_bad_links(_fabric(g[ENDS[:, 1]] - g[ENDS[:, 0]]), PRIOR, ALL)
    assert got.chi2 < 1e-10
    assert not got.bad.any()


def test_few_candidates_need_no_special_case() -> None:
    """A fabric without loops has nothing to select and keeps its prior."""
    eliminated, _ = _draw(3, {})
    got = select_bad_links(eliminated, PRIOR, np.zeros(0, np.int64))
    assert not got.bad.any()
