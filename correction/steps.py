# SPDX-License-Identifier: Apache-2.0
"""Clocks that cannot be trusted in a window: stepped, jumped, stuck, or at an impossible rate.

One bad line is a link's matter (pause, a damaged stamp); when most lines of a clock do not fit,
the clock moved, and its window is withheld (field reports 6 to 8 and 10 of clocks.md section 7).
"""

from dataclasses import dataclass, replace

import numpy as np

from correction.change_points import ChangePoints
from correction.disturbed import Disturbed
from correction.envelope import Fit
from correction.model import FabricModel, link_ends
from correction.timebase import NS_PER_S, Bools, Float64s

MISFIT_NS = 30.0
MISFIT_WANDERS = 3.0
"""A line fits when four fifths of the residuals lie within MISFIT_NS, plus so many standard
deviations of wander over the window, plus the scatter of the other lines."""
TYPICAL_FACTOR = 8.0
"""Residuals this much wider than the median line's are not jitter."""
RATE_SIGMAS = 6.0
"""A relative rate beyond twice the declared limit by so many deviations of its own is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfits:
    """What does not follow a straight line; all links of the clocks below are left out."""

    link: Bools
    """[window, link]: left out; only links of the clocks below."""
    stepped: Bools
    """[window, clock]: no line, or none of a possible rate, fits its links."""
    jumped: Bools
    """[window, clock]: stamps on both sides of a jump."""
    stuck: Bools
    """[window, clock]: stamps that stand still."""
    contradicted: Bools
    """[window, clock]: causality holds without it and not with it."""

    @property
    def clock(self) -> Bools:
        """[window, clock]: for any of these reasons."""
        return self.stepped | self.jumped | self.stuck | self.contradicted

    def without(self, clocks: Bools, model: FabricModel) -> "Misfits":
        """The same with clocks [window, clock] left out as contradicted."""
        return replace(
            self,
            link=self.link | _links_of(clocks, model),
            contradicted=self.contradicted | clocks,
        )


def find_misfits(
    fit: Fit,
    disturbed: Disturbed,
    changes: ChangePoints,
    model: FabricModel,
    window_s: Float64s,
) -> Misfits:
    """Blame clocks, most suspicious first; a link is left out only if an end is blamed."""
    shape = (len(window_s), len(model.links))
    misfit, slope, slope_sd = (np.full(shape, np.nan) for _ in range(3))
    at = (fit.slopes.window, fit.slopes.link)
    misfit[at], slope[at], slope_sd[at] = fit.slopes.misfit_ns, fit.slopes.slope, fit.slopes.sd
    rate_max = 2.0 * model.rate_offset_max_ppb / NS_PER_S
    with np.errstate(invalid="ignore"):
        impossible = np.abs(slope) > 2.0 * rate_max + RATE_SIGMAS * slope_sd
    jumped, stuck = disturbed.jumped > 0, disturbed.stuck > 0
    left_out = _links_of(jumped | stuck, model)
    stepped = np.zeros_like(jumped)
    jitter_ns = max((clock.stamp_jitter_ns for clock in model.clocks), default=0)
    quantum_ns = max((clock.stamp_unit_ns for clock in model.clocks), default=0)
    # what is between the ends of a path through silent switches is noise of another size
    silent = np.array([not (link.cable or link.firm) for link in model.links], np.bool_)
    for w in range(len(window_s)):
        seen = np.isfinite(misfit[w]) & ~left_out[w]
        if not seen.any():
            continue
        typical_ns = np.zeros(len(model.links))
        for kind in (silent, ~silent):
            if (seen & kind).any():
                typical_ns[kind] = np.median(misfit[w, seen & kind])
        limit = (
            MISFIT_NS
            + MISFIT_WANDERS * model.wander_ns_per_s_sqrt_s * window_s[w] ** 1.5
            + np.maximum(TYPICAL_FACTOR * typical_ns, 4.0 * jitter_ns)
            + 2.0 * quantum_ns
        )
        # one step, however small: judged among the links that have enough samples to show it
        tested = changes.tested[w] & ~left_out[w]
        stepped[w] |= _blamed(changes.stepped[w] & tested, tested, model)
        left_out[w] |= _links_of(stepped[w : w + 1], model)[0]
        seen &= ~left_out[w]
        wrong = seen & ((np.nan_to_num(misfit[w]) > limit) | impossible[w])
        stepped[w] |= _blamed(wrong, seen, model)
        left_out[w] |= _links_of(stepped[w : w + 1], model)[0]
    return Misfits(
        link=left_out,
        stepped=stepped,
        jumped=jumped,
        stuck=stuck,
        contradicted=np.zeros_like(jumped),
    )


def _blamed(wrong: Bools, seen: Bools, model: FabricModel) -> Bools:
    """The fewest clocks of which most seen links are wrong, those with most wrong links first."""
    clocks = len(model.clocks)
    ends = link_ends(model)
    blamed = np.zeros(clocks, np.bool_)
    total = _per_clock(ends[seen], clocks)
    wrong = wrong.copy()
    while wrong.any():
        share = np.divide(
            _per_clock(ends[wrong], clocks), total, out=np.zeros(clocks), where=total > 0
        )
        # a host has one link: prefer the switch that explains several
        score = np.where(share > 0.5, share * total, 0.0)
        worst = int(np.argmax(score))
        if score[worst] <= 0.0:
            break
        blamed[worst] = True
        wrong &= ~np.any(ends == worst, axis=1)
    return blamed


def _links_of(clocks: Bools, model: FabricModel) -> Bools:
    """[window, link]: one end is one of the clocks [window, clock]."""
    ends = link_ends(model)
    result: Bools = clocks[:, ends[:, 0]] | clocks[:, ends[:, 1]]
    return result


def _per_clock(pairs: np.ndarray, clocks: int) -> Float64s:
    return np.bincount(pairs.ravel(), minlength=clocks).astype(np.float64)
