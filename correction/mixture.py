# SPDX-License-Identifier: Apache-2.0
"""What is likely where several explanations are: the best one, and rivals with other bad links.

Each explanation has its own place and deviation for a clock, and they are weighed by their
evidence. With one explanation, k standard deviations hold with the probability of a normal error;
with a rival of one in fifty far away they do not, however wide its share makes the deviation. So
the half-width is sought that holds with that probability over all of them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from correction.network import Posterior
from correction.timebase import Float64s

RIVALS_MAX = 200
WEIGHT_MIN = 1e-5
"""Rivals less probable are left out: a hundredth of what may lie outside."""
HALVINGS = 20
"""Of the widest that could be: to a millionth of it, and never too narrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivals:
    """Explanations in which one link or two are judged otherwise; arrays over rivals."""

    weight: Float64s
    """Probability; what is missing to 1 is that of the best explanation."""
    link: NDArray[np.int64]
    """[rival, 2]: the links that are judged otherwise; twice the same where it is one."""
    multiplier: Float64s
    """[rival, 2]: m, where its constants are q - C[:, link] m."""
    curvature: Float64s
    """[rival, 2, 2]: K, where their covariance is C - C[:, link] K C[link, :]."""

    @classmethod
    def none(cls) -> "Rivals":
        """The best explanation is the only one."""
        return cls(
            weight=np.zeros(0),
            link=np.zeros((0, 2), np.int64),
            multiplier=np.zeros((0, 2)),
            curvature=np.zeros((0, 2, 2)),
        )

    def probable(self) -> "Rivals":
        """Those that count."""
        order = np.argsort(-self.weight, kind="stable")[:RIVALS_MAX]
        chosen = order[self.weight[order] >= WEIGHT_MIN]
        return Rivals(
            weight=self.weight[chosen],
            link=self.link[chosen],
            multiplier=self.multiplier[chosen],
            curvature=self.curvature[chosen],
        )


def half_widths_ns(
    best: Posterior,
    rivals: Rivals,
    lift: Float64s,
    own_variance: Float64s,
    published_ns: Float64s,
    sigmas: float,
) -> Float64s:
    """Around values x = base - lift q that are published, as probable as `sigmas` of one normal
    error.

    lift: [x, constant]; own_variance: [x], of x for known q; published_ns: [x], less what the best
    explanation says.
    """
    reach = lift @ best.covariance
    variance = own_variance + np.einsum("xq,xq->x", reach, lift)
    at = reach[:, rivals.link]
    moved = np.einsum("xri,ri->xr", at, rivals.multiplier)
    less = np.einsum("xri,rij,xrj->xr", at, rivals.curvature, at)
    away = np.concatenate([np.zeros((len(lift), 1)), moved], axis=1) - published_ns[:, None]
    spread = np.concatenate([variance[:, None], variance[:, None] - less], axis=1)
    weight = np.concatenate([[max(0.0, 1.0 - float(rivals.weight.sum()))], rivals.weight])
    return likely_half_widths(away, np.sqrt(np.maximum(spread, 0.0)), weight, sigmas)


def likely_half_widths(
    away_ns: Float64s,
    sd_ns: Float64s,
    weight: Float64s,
    sigmas: float,
    *,
    too_little_ns: Float64s | None = None,
    halvings: int = HALVINGS,
) -> Float64s:
    """[x]: h such that |error| > h is as improbable as `sigmas` of a normal error; rounded up.

    away_ns, sd_ns: [x, explanation]; weight: [explanation], or [x, explanation]. too_little_ns: a
    half-width that is known not to do, which saves `halvings`.
    """
    allowed = float(erfc(sigmas / np.sqrt(2.0)))
    low = np.zeros(len(away_ns)) if too_little_ns is None else too_little_ns
    high: Float64s = (np.abs(away_ns) + 2.0 * sigmas * sd_ns).max(axis=1, initial=0.0)
    high = np.maximum(high, low)
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        too_much = outside(middle, away_ns, sd_ns, weight) > allowed
        low = np.where(too_much, middle, low)
        high = np.where(too_much, high, middle)
    return high


def outside(half_ns: Float64s, away_ns: Float64s, sd_ns: Float64s, weight: Float64s) -> Float64s:
    """[x]: probability of an error beyond the half-width."""
    scale = np.sqrt(2.0) * np.maximum(sd_ns, 1e-9)
    tails = erfc((half_ns[:, None] - away_ns) / scale) + erfc((half_ns[:, None] + away_ns) / scale)
    share: Float64s = 0.5 * (weight * tails).sum(axis=1)
    return share
