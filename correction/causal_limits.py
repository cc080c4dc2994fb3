# SPDX-License-Identifier: Apache-2.0
"""What causality leaves of the difference between any two clocks, window by window.

Beside it the links' measurements of the same windows, so that sums of link delays can be bounded
without a prior: a path's delay is what its stamps show less the difference of the clocks at its
ends (`delay_sum`).
"""

import numpy as np

from correction.bounds import HardInterval, NegativeCycle, find_negative_cycle, hard_intervals
from correction.measure import Measured
from correction.publish import CENTRE_WANDER
from correction.timebase import Bools, Float64s

NOTHING_KNOWN = (-np.inf, np.inf)


def fit_sd_ns(measured: Measured) -> Float64s:
    """[window]: sd of what two clocks wander around the straight line that is fitted to them."""
    wander = np.sqrt(2.0) * measured.model.wander_ns_per_s_sqrt_s
    sd: Float64s = CENTRE_WANDER * wander * measured.window_s**1.5
    return sd


class CausalLimits:
    """Intervals of clock differences; a window whose data are impossible has none."""

    def __init__(self, measured: Measured) -> None:
        self._constraints = measured.constraints
        self._of_clock: dict[tuple[int, int], HardInterval] = {}
        equations = measured.equations
        self.known: Bools = equations.known.copy()
        """[window, link]: measured there, in a window that causality does not contradict."""
        for w, contradictions in enumerate(measured.contradictions):
            if contradictions.rejected is not None or (
                find_negative_cycle(measured.constraints[w]) is not None
            ):
                self.known[w] = False
        self.y_ns: Float64s = equations.y_ns
        """[window, link]: half the difference of both directions' stamps."""
        self.half_ns: Float64s = equations.half_round_trip_ns
        self.sd_ns: Float64s = np.hypot(equations.sd_ns, fit_sd_ns(measured)[:, None])
        """[window, link]: noise of y and half, and what clocks wander around a straight line."""

    def interval_ns(self, window: int, clock: int, other: int) -> tuple[float, float]:
        """Least and largest (other - clock) at the window's instant, against coarse readings."""
        if clock == other:
            return 0.0, 0.0
        key = (window, clock)
        found = self._of_clock.get(key)
        if found is None:
            intervals = hard_intervals(self._constraints[window], clock)
            if isinstance(intervals, NegativeCycle):
                return NOTHING_KNOWN
            found = self._of_clock[key] = intervals
        return float(found.low_ns[other]), float(found.high_ns[other])
