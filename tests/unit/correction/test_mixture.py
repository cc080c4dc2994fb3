# SPDX-License-Identifier: Apache-2.0
"""Half-widths over several explanations: as improbable outside as k deviations of one."""

import numpy as np
import pytest
from scipy.special import erfc

from correction.engine import solve
from correction.mixture import Rivals, half_widths_ns, likely_half_widths
from correction.network import Posterior
from correction.table import CONDITIONAL_SIGMAS, Status
from tests.support.rail_fabric import rail_stamps, true_error_ns
from tests.support.synthetic_fabric import Setup, draw

RAILS = Setup(
    leaves=8, spines=2, hosts_per_leaf=2, windows=1, bad_share=0.0, samples=12, exchanges=8
)
MACHINES = [list(range(0, 16, 2)), list(range(1, 16, 2))]


def outside(half_ns: float, away_ns: np.ndarray, sd_ns: np.ndarray, weight: np.ndarray) -> float:
    """Probability of an error beyond."""
    scale = np.sqrt(2.0) * sd_ns
    tails = 0.5 * (erfc((half_ns - away_ns) / scale) + erfc((half_ns + away_ns) / scale))
    return float(weight @ tails)


@pytest.mark.parametrize("sigmas", [1.0, 2.0, CONDITIONAL_SIGMAS])
def test_one_explanation_has_k_deviations(sigmas: float) -> None:
    """7 ns of one normal error: 7 k."""
    found = likely_half_widths(np.zeros((1, 1)), np.array([[7.0]]), np.ones(1), sigmas)
    assert found == pytest.approx(7.0 * sigmas, rel=1e-5)


@pytest.mark.parametrize("share", [0.5, 0.02, 0.002, 1e-4])
def test_what_is_as_probable_covers_a_rival(share: float) -> None:
    """A rival 100 ns away counts as far as its probability asks: at 2 % nearly all of it lies
    within, though its share makes a deviation of 14 ns only; at 0.01 % it does not matter."""
    away, sd = np.array([[0.0, 100.0]]), np.array([[5.0, 12.0]])
    weight = np.array([1.0 - share, share])
    half = float(likely_half_widths(away, sd, weight, CONDITIONAL_SIGMAS)[0])
    expected = float(erfc(CONDITIONAL_SIGMAS / np.sqrt(2.0)))
    assert outside(half, away[0], sd[0], weight) == pytest.approx(expected, rel=1e-3)
    if share == 1e-4:
        assert half == pytest.approx(5.0 * CONDITIONAL_SIGMAS, rel=0.02)
    else:
        assert half > 95.0


def test_rivals_move_what_depends_on_their_link() -> None:
    """x = base - 2 q of one constant, q = 3 +- 2 at best, 0 +- 1 by a rival of 10 %: x moves by 6,
    with deviations of 4 and 2; published is the mean, 0.6 beside the best."""
    best = Posterior(q_ns=np.array([3.0]), covariance=np.array([[4.0]]))
    rivals = Rivals(
        weight=np.array([0.1]),
        link=np.array([[0, 0]]),
        multiplier=np.array([[0.75, 0.0]]),
        curvature=np.array([[[3.0 / 16.0, 0.0], [0.0, 0.0]]]),
    )
    found = half_widths_ns(
        best, rivals, np.array([[2.0]]), np.zeros(1), np.array([0.6]), CONDITIONAL_SIGMAS
    )
    away, sd = np.array([[-0.6, 6.0 - 0.6]]), np.array([[4.0, 2.0]])
    expected = likely_half_widths(away, sd, np.array([0.9, 0.1]), CONDITIONAL_SIGMAS)
    assert found == pytest.approx(expected, rel=1e-9)


def test_nics_with_slightly_bad_cables_are_within_their_bounds() -> None:
    """Three of 16 cables of NICs off by 20 to 80 ns, cross-stamps by up to 18 of 20 ns: where both
    hide one another, the data leave a few per cent for the truth, and the bound covers it."""
    covered = []
    for seed in (17, 23, 58):  # some error is beyond k mixture deviations in each
        rng = np.random.default_rng(seed)
        bad = {
            f"h{host}-leaf{(host - 1) // 2 + 1}": float(
                rng.choice([-1, 1]) * rng.uniform(20.0, 80.0)
            )
            for host in rng.choice(np.arange(2, 17), 3, replace=False).tolist()
        }
        run = draw(seed, RAILS, a_ns=bad)
        constant = {clock: float(rng.uniform(-18.0, 18.0)) for clock in range(16)}
        stamps = rail_stamps(run, MACHINES, constant_ns=constant, seed=seed)
        found = solve(
            run.packets, run.hops, run.exchanges, run.model, run.windows, cross_stamps=stamps
        )
        one = found.windows[0]
        for clock in range(1, 16):
            assert one.status[clock] == Status.OK
            error_ns = abs(true_error_ns(run, found, 0, clock))
            assert error_ns <= one.bound_hard_ns[clock]
            covered.append(error_ns <= one.bound_conditional_ns[clock])
    assert all(covered)
