# SPDX-License-Identifier: Apache-2.0
"""The fabric solve against dense closed forms."""

from dataclasses import replace

import numpy as np
import pytest

from correction.equations import Equations
from correction.instants import Instants
from correction.network import (
    Constants,
    clock_log_rates,
    clock_offsets,
    constants,
    eliminate,
    posterior,
    posterior_mean,
)
from tests.support.synthetic_fabric import Setup, draw

MODEL = draw(1, Setup(leaves=3, spines=2, hosts_per_leaf=1, windows=1)).model
N, E = len(MODEL.clocks), len(MODEL.links)
ENDS = np.array([(link.a, link.b) for link in MODEL.links])


def _equations(
    rng: np.random.Generator, windows: int, dropped: tuple[tuple[int, int], ...] = ()
) -> Equations:
    shape = (windows, E)
    known = np.ones(shape, np.bool_)
    for w, e in dropped:
        known[w, e] = False
    return Equations(
        known=known,
        y_ns=rng.normal(0, 50, shape),
        sd_ns=rng.uniform(0.5, 3, shape),
        half_round_trip_ns=np.zeros(shape),
        log_rate=rng.normal(0, 1e-5, shape),
        log_rate_sd=rng.uniform(1e-9, 3e-9, shape),
    )


def _instants(windows: int) -> Instants:
    return Instants(rest_ns=np.zeros((windows, N)), component=np.zeros((windows, N), np.int64))


def _incidence() -> np.ndarray:
    b = np.zeros((E, N))
    b[np.arange(E), ENDS[:, 0]] = -1
    b[np.arange(E), ENDS[:, 1]] = 1
    return np.delete(b, MODEL.reference, axis=1)


@pytest.mark.parametrize("dropped", [(), ((0, 1), (2, 1), (2, 4))])
def test_joint_solve_equals_generalised_least_squares(
    dropped: tuple[tuple[int, int], ...],
) -> None:
    """Eliminating clocks window by window equals one dense solve with the full covariance."""
    rng = np.random.default_rng(3)
    windows = 3
    equations = _equations(rng, windows, dropped)
    unknowns = constants(MODEL)
    eliminated = eliminate(equations, _instants(windows), MODEL, unknowns)
    result = posterior(eliminated, unknowns.prior_sd_ns)
    # dense: y = (I x B) theta + (1 x D) q + n with q ~ N(0, prior)
    rows = [(w, e) for w in range(windows) for e in range(E) if equations.known[w, e]]
    b = _incidence()
    design = np.zeros((len(rows), windows * (N - 1)))
    lift = np.array([unknowns.design[e] for _, e in rows])
    for i, (w, e) in enumerate(rows):
        design[i, w * (N - 1) : (w + 1) * (N - 1)] = b[e]
    y = np.array([equations.y_ns[r] for r in rows])
    noise = np.diag([equations.sd_ns[r] ** 2 for r in rows])
    covariance = noise + lift @ np.diag(unknowns.prior_sd_ns**2) @ lift.T
    inverse = np.linalg.inv(covariance)
    dense_cov = np.linalg.inv(design.T @ inverse @ design)
    dense = dense_cov @ design.T @ inverse @ y
    for w, system in enumerate(eliminated.windows):
        offset, cov = clock_offsets(system, result)
        part = slice(w * (N - 1), (w + 1) * (N - 1))
        np.testing.assert_allclose(offset, dense[part], atol=1e-7)
        np.testing.assert_allclose(cov, dense_cov[part, part], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        posterior_mean(eliminated, unknowns.prior_sd_ns), result.q_ns, atol=1e-9
    )


def test_variance_is_the_effective_resistance() -> None:
    """Two leaves joined by two spines over links of sd s differ by s^2 (clocks.md 2.4)."""
    model = replace(MODEL, reference=3)  # leaf1
    unknowns = Constants(design=np.eye(E), prior_sd_ns=np.full(E, 1e-3), link_count=E)
    equations = replace(_equations(np.random.default_rng(0), 1), sd_ns=np.full((1, E), 5.0))
    eliminated = eliminate(equations, _instants(1), model, unknowns)
    _, covariance = clock_offsets(
        eliminated.windows[0], posterior(eliminated, unknowns.prior_sd_ns)
    )
    leaf2 = int(np.searchsorted(eliminated.windows[0].clocks, 4))
    assert covariance[leaf2, leaf2] == pytest.approx(25.0, rel=1e-4)


def test_equal_constants_at_both_ends_of_the_path_cancel() -> None:
    """A model constant shared by all NICs adds nothing to a host's variance; unshared ones do."""
    equations = _equations(np.random.default_rng(4), 1)
    variance = {}
    for groups in (True, False):
        setup = Setup(
            leaves=3, spines=2, hosts_per_leaf=1, windows=1, nic_uncertainty_ns=100, groups=groups
        )
        model = draw(1, setup).model
        unknowns = constants(model)
        eliminated = eliminate(equations, _instants(1), model, unknowns)
        _, covariance = clock_offsets(
            eliminated.windows[0], posterior(eliminated, unknowns.prior_sd_ns)
        )
        variance[groups] = covariance[0, 0]  # h2
    assert variance[True] < 0.35 * variance[False]


def test_rates_are_solved_without_asymmetry() -> None:
    """Slopes that agree with some rates return exactly those rates, the reference at zero."""
    rng = np.random.default_rng(5)
    rate = rng.normal(0, 1e-5, N)
    rate[MODEL.reference] = 0.0
    equations = replace(_equations(rng, 1), log_rate=(rate[ENDS[:, 1]] - rate[ENDS[:, 0]])[None, :])
    got, sd = clock_log_rates(equations, _instants(1), MODEL, 0, 1e-9)
    np.testing.assert_allclose(got, rate, atol=1e-15)
    assert (sd[np.arange(N) != MODEL.reference] > 0).all()
