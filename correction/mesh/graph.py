# SPDX-License-Identifier: Apache-2.0
"""The graph that verdicts are about: edges between core clocks, and what each of them counts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.timebase import Bools, Float64s

WEIGHT_UNITS = 1_000
TOLERANCE_SCALES = 3.0
"""A residual of more than three standard deviations of a healthy edge is one that would gain."""
FIRM_EDGES = 100
"""An edge that cannot be bad counts as so many: more than a clock has."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Edges between 0 .. size - 1 with their measurement; node 0 is the ground."""

    size: int
    u: Ints
    v: Ints
    y_ns: Float64s
    scale_ns: Float64s
    """Sd of a healthy edge's residual."""
    parallel: bool = True
    """Some pair of nodes may have several edges."""
    firm: Bools | None = None
    """Edges that cannot be bad; None: any may be."""

    def residual_ns(self, theta_ns: Float64s) -> Float64s:
        """y - (theta_v - theta_u)."""
        return self.y_ns - (theta_ns[self.v] - theta_ns[self.u])

    @property
    def tolerance_ns(self) -> Float64s:
        """[edge]: residuals within agree."""
        return TOLERANCE_SCALES * self.scale_ns

    @property
    def weight(self) -> Ints:
        """[edge]: whole numbers, WEIGHT_UNITS for the median edge, at least 1."""
        typical = float(np.median(self.scale_ns)) if len(self.scale_ns) else 1.0
        units = np.rint(WEIGHT_UNITS * typical / self.scale_ns)
        weight = np.clip(units, 1, FIRM_EDGES * WEIGHT_UNITS).astype(np.int64)
        if self.firm is not None:
            weight[self.firm] = FIRM_EDGES * WEIGHT_UNITS
        return weight

    @property
    def votes(self) -> Ints:
        """[edge]: as how many edges it counts where agreement is counted."""
        if self.firm is None:
            return np.ones(len(self.u), np.int64)
        return np.where(self.firm, FIRM_EDGES, 1).astype(np.int64)
