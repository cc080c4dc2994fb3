# SPDX-License-Identifier: Apache-2.0
"""Which edges are bad, at any size: the model of `correction.selection`, many flips at a time.

A healthy edge's residual has the declared spread, a bad one's is wider by a prior; a share is bad
beforehand. The clocks' flat prior is integrated out. The evidence of calling one edge more or less
bad is a rank-one change, known for all edges at once from the effective resistances; edges that
gain are flipped together, and a step that does not gain in all is taken one by one. Edges about
which the data hardly decide add their rival's share to mean and variance.
"""

from dataclasses import dataclass

import numpy as np

from correction.mesh.covariance import Covariance
from correction.mesh.normal import Solution, System, covariance, solve
from correction.mesh.reduction import Ints
from correction.selection import (
    BAD_SD_NS,
    BAD_SHARE,
    BAD_TO_HEALTHY,
    L1_EPSILON_NS,
    L1_ITERATIONS,
    REJECTED_SHARE,
    TUKEY_FROM,
    TUKEY_ITERATIONS,
    TUKEY_TO,
)
from correction.timebase import Bools, Float64s

ROUNDS_MAX = 60
"""Each round lowers the cost; with hundreds of bad edges it takes four or five."""
TOGETHER_SHARE = 0.25
"""Edges are flipped together that gain at least this share of the best one's gain."""
UNSURE_SHARE = 0.01
"""Rivals less probable than this are left out of mean and variance: a healthy edge of a large
fabric has a rival of 0.3 %, which moves its clocks by a hundredth of a nanosecond."""
RIVAL_SHARE = 5e-4
"""A rival less probable than this can leave the conditional bound's 0.1 % alone."""
GAIN_MIN = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRivals:
    """By core node, of the rivals that judge one of its own edges otherwise the one that moves it
    furthest; only where that is more than a deviation."""

    node: Ints
    probability: Float64s
    move_ns: Float64s
    """From the most probable set's answer."""
    variance: Float64s
    """Of the rival's own answer, less that of the most probable set's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The most probable set and what follows from it; arrays over the core's edges."""

    bad: Bools
    bad_probability: Float64s
    best: Solution
    covariance: Covariance
    """For exactly that set."""
    shift_ns: Float64s
    """[unknown]: mean of the rivals less the best set's answer."""
    extra_variance: Float64s
    """[unknown]: how far the rivals disagree, squared."""
    rival: NodeRivals


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """Variances of both kinds of edges."""

    healthy: Float64s
    bad: Float64s
    may_be_bad: Bools

    def weight(self, bad: Bools) -> Float64s:
        return 1.0 / np.where(bad, self.bad, self.healthy)


def choose(of: System, scale_ns: Float64s, may_be_bad: Bools, start: Bools | None = None) -> Chosen:
    """The bad edges; `start` is an earlier answer for the same edges, if there is one."""
    wide = np.maximum(BAD_SD_NS, BAD_TO_HEALTHY * scale_ns)
    model = _Model(healthy=scale_ns**2, bad=scale_ns**2 + wide**2, may_be_bad=may_be_bad)
    if start is None:
        start = robust_start(of, scale_ns, may_be_bad)
    bad, best, cov, gains = _descend(of, model, start & may_be_bad)
    shift, extra, probability, rival = _rivals(of, model, bad, best, cov, gains)
    return Chosen(
        bad=bad,
        bad_probability=probability,
        best=best,
        covariance=cov,
        shift_ns=shift,
        extra_variance=extra,
        rival=rival,
    )


def robust_start(of: System, scale_ns: Float64s, may_be_bad: Bools) -> Bools:
    """Bad edges: least absolute deviations by reweighting, then Tukey's biweight from there."""
    residual = np.zeros(len(scale_ns))
    weight = scale_ns**-2.0
    epsilon_ns = L1_EPSILON_NS
    for _ in range(L1_ITERATIONS):
        residual = solve(of, weight).residual_ns
        l1 = 1.0 / (scale_ns * np.maximum(np.abs(residual), epsilon_ns))
        weight = np.where(may_be_bad, l1, scale_ns**-2.0)
        epsilon_ns = max(0.75 * epsilon_ns, 1.0)
    for cut in np.geomspace(TUKEY_FROM, TUKEY_TO, TUKEY_ITERATIONS):
        z = residual / scale_ns
        kept = np.where(np.abs(z) < cut, (1.0 - (z / cut) ** 2) ** 2, 0.0)
        kept = np.where(may_be_bad, np.maximum(kept, REJECTED_SHARE), 1.0)
        residual = solve(of, kept * scale_ns**-2.0).residual_ns
    bad: Bools = (np.abs(residual) >= TUKEY_TO * scale_ns) & may_be_bad
    return bad


def _odds() -> float:
    return 2.0 * float(np.log((1.0 - BAD_SHARE) / BAD_SHARE))


def _cost(of: System, model: _Model, bad: Bools, found: Solution) -> float:
    """-2 log(evidence x prior) of one set, up to a constant."""
    weight = model.weight(bad)
    fit = float((weight * found.residual_ns**2).sum())
    fit += float((of.shared_precision * found.constants_ns**2).sum())
    return fit + found.log_det - float(np.log(weight).sum()) + _odds() * int(bad.sum())


def _gains(model: _Model, bad: Bools, found: Solution, cov: Covariance) -> Float64s:
    """Change of the cost if one edge is flipped; infinite where it may not be bad."""
    now, then = model.weight(bad), model.weight(~bad)
    delta = then - now
    grow = np.maximum(1.0 + delta * cov.spread, 1e-12)
    gains = delta * found.residual_ns**2 / grow + np.log(grow) - np.log(then / now)
    gains = gains + np.where(bad, -_odds(), _odds())
    return np.where(model.may_be_bad, gains, np.inf)


def _descend(
    of: System, model: _Model, start: Bools
) -> tuple[Bools, Solution, Covariance, Float64s]:
    bad = start.copy()
    found = solve(of, model.weight(bad))
    cost = _cost(of, model, bad, found)
    cov = covariance(of, found)
    gains = _gains(model, bad, found, cov)
    for _ in range(ROUNDS_MAX):
        best = float(gains.min(initial=0.0))
        if best >= -GAIN_MIN:
            break
        strong = gains < TOGETHER_SHARE * best
        one = np.arange(len(gains)) == np.argmin(gains)
        for flips in (strong | _apart(of, gains), strong, one):
            tried = bad ^ flips
            trial = solve(of, model.weight(tried))
            trial_cost = _cost(of, model, tried, trial)
            if trial_cost < cost - GAIN_MIN:
                break
        else:
            break
        bad, found, cost = tried, trial, trial_cost
        cov = covariance(of, found)
        gains = _gains(model, bad, found, cov)
    return bad, found, cov, gains


def _apart(of: System, gains: Float64s) -> Bools:
    """Edges whose flip gains, the best first, and none at an end of a better one."""
    gaining = np.flatnonzero(gains < -GAIN_MIN)
    order = gaining[np.argsort(gains[gaining], kind="stable")]
    apart = np.zeros(len(gains), np.bool_)
    touched: set[int] = set()
    for edge, u, v in zip(
        order.tolist(), of.at_u[order].tolist(), of.at_v[order].tolist(), strict=True
    ):
        if u not in touched and v not in touched:
            apart[edge] = True
            touched |= {u, v}
    return apart


def _rivals(
    of: System, model: _Model, bad: Bools, found: Solution, cov: Covariance, gains: Float64s
) -> tuple[Float64s, Float64s, Float64s, NodeRivals]:
    """(mean shift, added variance) of the unknowns, each edge's probability of being bad, and what
    single rivals do to the clocks at their edges."""
    odds = np.exp(-0.5 * np.clip(gains, -1.0, 1e3))
    flipped = odds / (1.0 + odds)
    probability = np.where(bad, 1.0 - flipped, np.where(np.isfinite(gains), flipped, 0.0))
    delta = model.weight(~bad) - model.weight(bad)
    grow = np.maximum(1.0 + delta * cov.spread, 1e-12)
    # by so much times an edge's column its rival moves everything
    moved = delta * found.residual_ns / grow
    unsure = np.flatnonzero(flipped > UNSURE_SHARE)
    share = flipped[unsure]
    shift = cov.total(unsure, moved[unsure] * share)
    # what the rival does not know besides: its own variance is larger or smaller
    own = (-delta / grow)[unsure] * share
    extra = cov.squares(unsure, moved[unsure] ** 2 * share * (1.0 - share) + own)
    rival = _node_rivals(of, cov, flipped, moved, -delta / grow)
    return shift, np.maximum(extra, 0.0), probability, rival


def _node_rivals(
    of: System, cov: Covariance, flipped: Float64s, moved: Float64s, variance: Float64s
) -> NodeRivals:
    edge = np.flatnonzero(flipped > RIVAL_SHARE)
    ends = np.concatenate([of.at_u[edge], of.at_v[edge]])
    edge = np.tile(edge, 2)
    column = cov.at_ends(edge[: len(edge) // 2]).reshape(-1)
    move = moved[edge] * column
    far = np.flatnonzero((np.abs(move) > np.sqrt(cov.clocks[ends])) & (ends > 0))
    far = far[np.argsort(np.abs(move[far]), kind="stable")]
    furthest = np.full(of.size, -1, np.int64)
    furthest[ends[far]] = far
    node = np.flatnonzero(furthest >= 0)
    row = furthest[node]
    return NodeRivals(
        node=node,
        probability=flipped[edge[row]],
        move_ns=move[row],
        variance=variance[edge[row]] * column[row] ** 2,
    )
