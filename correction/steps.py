# SPDX-License-Identifier: Apache-2.0
"""Clocks that stepped or changed rate inside a window: no line fits any of their links.

One bad line is a link's matter (pause, a damaged stamp); when most lines of a clock do not fit,
the clock moved, and its window is withheld (field reports 6 to 8 and 10 of clocks.md section 7).
"""

from dataclasses import dataclass

import numpy as np

from correction.envelope import Fit
from correction.model import FabricModel
from correction.timebase import Bools, Float64s

MISFIT_NS = 30.0
MISFIT_WANDERS = 3.0
"""A line fits when four fifths of the residuals lie within MISFIT_NS, plus so many standard
deviations of wander over the window, plus the scatter of the other lines."""
TYPICAL_FACTOR = 8.0
"""Residuals this much wider than the median line's are not jitter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfits:
    """What does not follow a straight line."""

    link: Bools
    """[window, link]: left out; only links of the clocks below."""
    clock: Bools
    """[window, clock]: stepped inside the window."""


def find_misfits(fit: Fit, model: FabricModel, window_s: Float64s) -> Misfits:
    """Blame clocks, most suspicious first; a link is left out only if an end is blamed."""
    windows, links, clocks = len(window_s), len(model.links), len(model.clocks)
    ends = np.array([(link.a, link.b) for link in model.links], np.int64).reshape(-1, 2)
    misfit = np.full((windows, links), np.nan)
    misfit[fit.slopes.window, fit.slopes.link] = fit.slopes.misfit_ns
    left_out = np.zeros((windows, links), np.bool_)
    stepped = np.zeros((windows, clocks), np.bool_)
    jitter_ns = max((clock.stamp_jitter_ns for clock in model.clocks), default=0)
    quantum_ns = max((clock.stamp_unit_ns for clock in model.clocks), default=0)
    for w in range(windows):
        seen = np.isfinite(misfit[w])
        if not seen.any():
            continue
        limit = (
            MISFIT_NS
            + MISFIT_WANDERS * model.wander_ns_per_s_sqrt_s * window_s[w] ** 1.5
            + max(TYPICAL_FACTOR * float(np.median(misfit[w, seen])), 4.0 * jitter_ns)
            + 2.0 * quantum_ns
        )
        wrong = seen & (np.nan_to_num(misfit[w]) > limit)
        total = _per_clock(ends[seen], clocks)
        while wrong.any():
            share = np.divide(
                _per_clock(ends[wrong], clocks), total, out=np.zeros(clocks), where=total > 0
            )
            # a host has one link: prefer the switch that explains several
            score = np.where(share > 0.5, share * total, 0.0)
            worst = int(np.argmax(score))
            if score[worst] <= 0.0:
                break
            stepped[w, worst] = True
            at_worst = np.any(ends == worst, axis=1)
            left_out[w] |= at_worst
            wrong &= ~at_worst
    return Misfits(link=left_out, clock=stepped)


def _per_clock(pairs: np.ndarray, clocks: int) -> Float64s:
    return np.bincount(pairs.ravel(), minlength=clocks).astype(np.float64)
