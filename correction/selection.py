# SPDX-License-Identifier: Apache-2.0
"""Which links are bad: robust start (L1, then Tukey), then the most probable set, then its rivals.

The healthy prior of a link is a ~ N(0, sd^2); a bad link's is wider by N(0, BAD_SD^2), where BAD_SD
is 200 ns or ten times sd, whichever is more; a share BAD_SHARE of the links is bad beforehand. The
clocks' flat prior is integrated out, so the evidence of a set of bad links has a closed form, and
flipping one or two links is a rank-one or rank-two update. The published estimate averages over the
best set and all its one- and two-flip rivals, weighted by their evidence; where the data hardly
tell, the variance and the bound (`mixture`) say so.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.mixture import Rivals
from correction.network import Eliminated, Posterior, posterior, posterior_mean
from correction.timebase import Bools, Float64s

BAD_SHARE = 0.1
"""Prior share of bad links."""
BAD_SD_NS = 200.0
"""Prior size of a bad link's asymmetry: optics, cables and boards differ by up to 500 ns."""
BAD_TO_HEALTHY = 10.0
"""And at least so many times a healthy link's: where what is declared of a healthy link is large,
as with software's stamps, only what is far larger is a defect."""
DROPPED_SD_NS = 1e5
"""Prior sd that leaves a link out of the loop test."""
DROPPED_TO_HEALTHY = 1e3
"""And at least so many times a healthy link's."""
L1_ITERATIONS = 20
L1_EPSILON_NS = 300.0
TUKEY_FROM = 20.0
TUKEY_TO = 5.0
TUKEY_ITERATIONS = 12
REJECTED_SHARE = 1e-6
"""Weight left to a link beyond Tukey's cut-off."""
FLIPS_MAX = 200
"""Bound of the local search; each step lowers the cost, so it ends long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The bad links, and the estimate of all constants averaged over nearby explanations."""

    bad: Bools
    """[link]: in the most probable set."""
    bad_probability: Float64s
    """[link]: over the set and its rivals."""
    best: Posterior
    """Given exactly that set."""
    averaged: Posterior
    """Averaged over rivals; its covariance includes their disagreement."""
    rivals: Rivals
    """Those with one link or two judged otherwise than in `best`."""
    chi2: float
    """Loop residual test: squared loop sums of the kept links against their prior."""
    degrees: int
    repeat_chi2: float
    """The same between windows: measurements against their own mean."""
    repeat_degrees: int


def select_bad_links(
    eliminated: Eliminated, prior_sd_ns: Float64s, candidates: NDArray[np.int64]
) -> Selection:
    """Choose among `candidates` (links in loops); all others keep the healthy prior."""
    starts = [
        np.zeros(len(candidates), np.bool_),
        _robust_start(eliminated, prior_sd_ns, candidates),
    ]
    ends = [_descend(eliminated, prior_sd_ns, candidates, start) for start in starts]
    bad_of_candidates = min(ends, key=lambda bad: _cost(eliminated, prior_sd_ns, candidates, bad))
    sd = _sds(prior_sd_ns, candidates, bad_of_candidates)
    best = posterior(eliminated, sd)
    averaged, rivals, probability = _average(best, prior_sd_ns, candidates, bad_of_candidates)
    bad = np.zeros(len(prior_sd_ns), np.bool_)
    bad[candidates[bad_of_candidates]] = True
    bad_probability = np.zeros(len(prior_sd_ns))
    bad_probability[candidates] = probability
    free, loops = _unconstrained_fit(eliminated)
    without_bad = sd.copy()
    dropped = candidates[bad_of_candidates]
    without_bad[dropped] = np.maximum(DROPPED_SD_NS, DROPPED_TO_HEALTHY * prior_sd_ns[dropped])
    kept = posterior_mean(eliminated, without_bad)
    return Selection(
        bad=bad,
        bad_probability=bad_probability,
        best=best,
        averaged=averaged,
        rivals=rivals,
        chi2=max(0.0, free - float(eliminated.right_side @ kept)),
        degrees=max(0, loops - int(bad_of_candidates.sum())),
        repeat_chi2=max(0.0, eliminated.energy - free),
        repeat_degrees=max(0, eliminated.degrees - loops),
    )


def _unconstrained_fit(eliminated: Eliminated) -> tuple[float, int]:
    """h' S^+ h, the part of the energy that any constants could explain, and the rank of S."""
    values, vectors = np.linalg.eigh(eliminated.information)
    kept = values > 1e-9 * max(float(values.max(initial=0.0)), 1e-300)
    part = vectors[:, kept].T @ eliminated.right_side
    return float((part**2 / values[kept]).sum()), int(kept.sum())


def _sds(prior_sd_ns: Float64s, candidates: NDArray[np.int64], bad: Bools) -> Float64s:
    sd = prior_sd_ns.copy()
    links = candidates[bad]
    sd[links] = np.hypot(sd[links], np.maximum(BAD_SD_NS, BAD_TO_HEALTHY * sd[links]))
    return sd


def _robust_start(
    eliminated: Eliminated, prior_sd_ns: Float64s, candidates: NDArray[np.int64]
) -> Bools:
    """L1 by reweighting, then Tukey's biweight from there (clocks.md 2.6, steps 2 and 3)."""
    scale = prior_sd_ns[candidates]
    sd = prior_sd_ns.copy()
    epsilon_ns = L1_EPSILON_NS
    residual = np.zeros(len(candidates))
    for _ in range(L1_ITERATIONS):
        residual = posterior_mean(eliminated, sd)[candidates]
        # |a| / scale as a sum of squares: variance scale * max(|a|, epsilon)
        sd[candidates] = np.sqrt(scale * np.maximum(np.abs(residual), epsilon_ns))
        epsilon_ns = max(0.75 * epsilon_ns, 1.0)
    for cut in np.geomspace(TUKEY_FROM, TUKEY_TO, TUKEY_ITERATIONS):
        z = residual / scale
        kept = np.where(np.abs(z) < cut, (1.0 - (z / cut) ** 2) ** 2, 0.0)
        sd[candidates] = scale / np.sqrt(np.maximum(kept, REJECTED_SHARE))
        residual = posterior_mean(eliminated, sd)[candidates]
    bad: Bools = np.abs(residual / scale) >= TUKEY_TO
    return bad


def _log_odds() -> float:
    return 2.0 * float(np.log((1.0 - BAD_SHARE) / BAD_SHARE))


def _cost(
    eliminated: Eliminated, prior_sd_ns: Float64s, candidates: NDArray[np.int64], bad: Bools
) -> float:
    """-2 log(evidence x prior) of one set, up to a constant."""
    sd = _sds(prior_sd_ns, candidates, bad)
    best = posterior(eliminated, sd)
    _, log_det = np.linalg.slogdet(best.covariance)
    fit = -float(eliminated.right_side @ best.q_ns)
    return fit - float(log_det) + 2.0 * float(np.log(sd).sum()) + _log_odds() * int(bad.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flips:
    """Cost of every single flip (diagonal) and pair of flips (off-diagonal)."""

    delta: Float64s
    """Change of prior precision per candidate if flipped."""
    single: Float64s
    pair: Float64s
    """Infinite on the diagonal."""


def _flips(
    best: Posterior, prior_sd_ns: Float64s, candidates: NDArray[np.int64], bad: Bools
) -> _Flips:
    now = _sds(prior_sd_ns, candidates, bad)[candidates] ** -2.0
    then = _sds(prior_sd_ns, candidates, ~bad)[candidates] ** -2.0
    delta = then - now
    q = best.q_ns[candidates]
    c = best.covariance[np.ix_(candidates, candidates)]
    own = np.log(now / then) + np.where(bad, -1.0, 1.0) * _log_odds()
    grow = 1.0 + delta * np.diag(c)
    # rounding may leave a nearly determined link without a positive variance: no flip then
    with np.errstate(invalid="ignore", divide="ignore"):
        single = delta * q**2 / grow + np.log(grow) + own
    single[~np.isfinite(single)] = np.inf
    # rank two: q' (D^-1 + C)^-1 q and log det(I + D C) of each 2 x 2 block
    inverse = 1.0 / delta
    p11 = (inverse + np.diag(c))[:, None]
    p22 = (inverse + np.diag(c))[None, :]
    determinant = p11 * p22 - c**2
    np.fill_diagonal(determinant, np.nan)
    quadratic = (
        p22 * q[:, None] ** 2 + p11 * q[None, :] ** 2 - 2.0 * c * q[:, None] * q[None, :]
    ) / determinant
    with np.errstate(invalid="ignore"):
        log_det = np.log(determinant * delta[:, None] * delta[None, :])
    pair = quadratic + log_det + own[:, None] + own[None, :]
    pair[~np.isfinite(pair)] = np.inf
    return _Flips(delta=delta, single=single, pair=pair)


def _descend(
    eliminated: Eliminated, prior_sd_ns: Float64s, candidates: NDArray[np.int64], start: Bools
) -> Bools:
    """Flip one or two links at a time while that makes the set more probable."""
    bad = start.copy()
    if not len(candidates):
        return bad
    for _ in range(FLIPS_MAX):
        best = posterior(eliminated, _sds(prior_sd_ns, candidates, bad))
        flips = _flips(best, prior_sd_ns, candidates, bad)
        one = int(np.argmin(flips.single))
        two = np.unravel_index(int(np.argmin(flips.pair)), flips.pair.shape)
        if min(flips.single[one], flips.pair[two]) >= -1e-9:
            break
        if flips.single[one] <= flips.pair[two]:
            bad[one] = ~bad[one]
        else:
            bad[list(two)] = ~bad[list(two)]
    return bad


def _average(
    best: Posterior, prior_sd_ns: Float64s, candidates: NDArray[np.int64], bad: Bools
) -> tuple[Posterior, Rivals, Float64s]:
    """Mixture of the best set, every single flip and every pair of flips."""
    if not len(candidates):
        return best, Rivals.none(), np.zeros(0)
    flips = _flips(best, prior_sd_ns, candidates, bad)
    n = len(candidates)
    upper = np.triu_indices(n, 1)
    cost = np.concatenate([[0.0], flips.single, flips.pair[upper]])
    weight = np.exp(-0.5 * (cost - cost.min()))
    weight /= weight.sum()
    # shift of q under each rival: -C D (I + C D)^-1 q, restricted to the flipped entries
    q, c = best.q_ns[candidates], best.covariance[np.ix_(candidates, candidates)]
    single = q / (1.0 / flips.delta + np.diag(c))
    p11, p22 = (
        1.0 / flips.delta[upper[0]] + c[upper[0], upper[0]],
        (1.0 / flips.delta[upper[1]] + c[upper[1], upper[1]]),
    )
    c12 = c[upper]
    determinant = p11 * p22 - c12**2
    first = (p22 * q[upper[0]] - c12 * q[upper[1]]) / determinant
    second = (p11 * q[upper[1]] - c12 * q[upper[0]]) / determinant
    pair_weight = np.where(np.isfinite(flips.pair[upper]), weight[1 + n :], 0.0)
    # moments of the sparse multiplier vectors m (q shift = -C[:, candidates] m)
    mean = weight[1 : 1 + n] * single
    np.add.at(mean, upper[0], pair_weight * first)
    np.add.at(mean, upper[1], pair_weight * second)
    second_moment = np.diag(weight[1 : 1 + n] * single**2)
    np.add.at(second_moment, (upper[0], upper[0]), pair_weight * first**2)
    np.add.at(second_moment, (upper[1], upper[1]), pair_weight * second**2)
    second_moment[upper] += pair_weight * first * second
    second_moment.T[upper] += pair_weight * first * second
    # each rival's own variance: C - C m-weighted (D^-1 + C_ii)^-1 C, mean over rivals
    curvature = np.diag(weight[1 : 1 + n] / (1.0 / flips.delta + np.diag(c)))
    np.add.at(curvature, (upper[0], upper[0]), pair_weight * p22 / determinant)
    np.add.at(curvature, (upper[1], upper[1]), pair_weight * p11 / determinant)
    curvature[upper] -= pair_weight * c12 / determinant
    curvature.T[upper] -= pair_weight * c12 / determinant
    number = np.arange(n)
    alone = np.zeros((n, 2, 2))
    alone[:, 0, 0] = 1.0 / (1.0 / flips.delta + np.diag(c))
    together = np.array([[p22, -c12], [-c12, p11]]).transpose(2, 0, 1) / determinant[:, None, None]
    rivals = Rivals(
        weight=np.concatenate([weight[1 : 1 + n], pair_weight]),
        link=candidates[np.r_[np.c_[number, number], np.c_[upper]]],
        multiplier=np.r_[np.c_[single, np.zeros(n)], np.c_[first, second]],
        curvature=np.r_[alone, together],
    ).probable()
    columns = best.covariance[:, candidates]
    inner = second_moment - np.outer(mean, mean) - curvature
    turned = weight[1 : 1 + n].copy()
    np.add.at(turned, upper[0], pair_weight)
    np.add.at(turned, upper[1], pair_weight)
    probability = np.where(bad, 1.0 - turned, turned)
    return (
        Posterior(
            q_ns=best.q_ns - columns @ mean,
            covariance=best.covariance + columns @ inner @ columns.T,
        ),
        rivals,
        probability,
    )
