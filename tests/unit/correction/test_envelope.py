# SPDX-License-Identifier: Apache-2.0
"""Lower envelopes: unbiased between directions, honest about their noise, blind to outliers."""

import numpy as np
import pytest

from correction.disturbed import Disturbed
from correction.envelope import Fit, fit_envelopes
from correction.prepare import Prepared
from correction.timebase import Anchors

RATE_NS_PER_S = 8_000.0
ONE_NS = np.ones(1)


def _prepared(
    rng: np.random.Generator, groups: int, count: int, jitter_ns: float, wander: float = 0.0
) -> tuple[Prepared, np.ndarray]:
    """`groups` windows of one link, `count` samples per direction; truth: b - a at time 0."""
    size = (groups, 2 * count)
    reverse = np.tile(np.repeat([False, True], count), (groups, 1))
    time_s = rng.uniform(-0.5, 0.5, size)
    grid = np.linspace(-0.5, 0.5, 201)
    rate = np.cumsum(rng.normal(0, wander * np.sqrt(grid[1] - grid[0]), (groups, 201)), axis=1)
    phase = np.cumsum(rate, axis=1) * (grid[1] - grid[0])
    phase -= phase[:, 100:101]
    drift = np.stack([np.interp(time_s[g], grid, phase[g]) for g in range(groups)])
    start = rng.uniform(-1_000, 1_000, (groups, 1))
    difference = start + RATE_NS_PER_S * time_s + drift
    x = 100.0 + rng.exponential(jitter_ns, size) + np.where(reverse, -1, 1) * difference
    x = np.floor(x + rng.uniform(0, 1, size))
    flat = np.repeat(np.arange(groups), 2 * count)
    zero = np.zeros(flat.size, np.int64)
    prepared = Prepared(
        window=flat,
        link=zero,
        reverse=reverse.ravel(),
        queue_id=zero,
        length_class=zero,
        a_rest_ns=time_s.ravel() * 1e9,
        x_ns=x.ravel(),
        capture_collector_ns=zero,
        sample=np.arange(flat.size),
        anchors=Anchors(anchor_local_ns=np.zeros(1, np.int64)),
        disturbed=Disturbed.none(groups, 1),
    )
    return prepared, start[:, 0]


def _at_zero(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """y and its claimed sd at time 0."""
    rows = fit.envelopes
    sign = np.where(rows.reverse, -1.0, 1.0)
    edge = rows.edge_ns - sign * fit.slopes.slope[rows.pair] * rows.at_a_rest_ns
    sd = np.hypot(rows.sd_ns, fit.slopes.sd[rows.pair] * rows.at_a_rest_ns)
    y = (edge[~rows.reverse] - edge[rows.reverse]) / 2
    return y, np.hypot(sd[~rows.reverse], sd[rows.reverse]) / 2


@pytest.mark.parametrize(("count", "jitter_ns"), [(4, 2.0), (20, 3.0), (20, 9.0), (60, 2.0)])
def test_half_difference_is_unbiased_and_its_noise_is_claimed(count: int, jitter_ns: float) -> None:
    """Equal jitter in both directions cancels; the claimed sd is within a third of the real one."""
    prepared, truth = _prepared(np.random.default_rng(1), 800, count, jitter_ns)
    y, sd = _at_zero(fit_envelopes(prepared, quantum_ns=ONE_NS, jitter_ns=ONE_NS))
    error = y - truth
    assert abs(error.mean()) < 4 * error.std() / np.sqrt(len(error)) + 0.02
    assert 0.7 < np.sqrt(np.mean(sd**2)) / error.std() < 1.5


def test_wander_costs_the_documented_share() -> None:
    """A rate walking 10 ns/s per sqrt(s) moves the line at the centre by 0.06 x 10 ns rms."""
    prepared, truth = _prepared(np.random.default_rng(2), 1_000, 40, 0.01, wander=10.0)
    y, _ = _at_zero(fit_envelopes(prepared, quantum_ns=ONE_NS, jitter_ns=ONE_NS))
    assert 0.4 < (y - truth).std() < 0.65


def test_slope_is_the_rate_difference() -> None:
    """d(b - a)/da comes out in both directions' common slope."""
    prepared, _ = _prepared(np.random.default_rng(3), 200, 20, 3.0)
    slopes = fit_envelopes(prepared, quantum_ns=ONE_NS, jitter_ns=ONE_NS).slopes
    error = slopes.slope * 1e9 - RATE_NS_PER_S
    assert abs(error.mean()) < 0.5
    assert 0.6 < np.sqrt(np.mean((slopes.sd * 1e9) ** 2)) / error.std() < 1.6


def test_late_packets_do_not_move_the_envelope() -> None:
    """30 % of one direction's packets 50 us late (pause): the edge moves by 1 ns rms."""
    prepared, truth = _prepared(np.random.default_rng(4), 200, 20, 3.0)
    rng = np.random.default_rng(5)
    late = ~prepared.reverse & (rng.random(len(prepared)) < 0.3)
    prepared.x_ns[late] += 50_000.0
    y, _ = _at_zero(fit_envelopes(prepared, quantum_ns=ONE_NS, jitter_ns=ONE_NS))
    assert np.sqrt(np.mean((y - truth) ** 2)) < 1.0


def test_impossibly_early_stamp_is_rejected_not_averaged() -> None:
    """One sample 2 us below the rest is marked, and the edge stays."""
    prepared, truth = _prepared(np.random.default_rng(6), 50, 20, 3.0)
    prepared.x_ns[::40] -= 2_000.0
    fit = fit_envelopes(prepared, quantum_ns=ONE_NS, jitter_ns=ONE_NS)
    assert fit.below[::40].all()
    assert fit.below.sum() == 50
    y, _ = _at_zero(fit)
    assert np.abs(y - truth).max() < 4.0


def test_single_samples_give_an_edge_without_a_slope() -> None:
    """One packet each way: an offset, and an infinite slope uncertainty instead of a guess."""
    prepared, _ = _prepared(np.random.default_rng(7), 3, 1, 3.0)
    fit = fit_envelopes(prepared, quantum_ns=ONE_NS, jitter_ns=ONE_NS)
    assert np.isinf(fit.slopes.sd).all()
    assert np.isfinite(fit.envelopes.edge_ns).all()
