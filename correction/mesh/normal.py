# SPDX-License-Identifier: Apache-2.0
"""Weighted least squares on the core: the normal equations with the shared constants.

Unknowns are the core's clocks but the first (ground: the clock that the reference hangs on), then
the shared constants with their prior. Clocks of few edges are eliminated first (`reduction`); some
hundreds to thousands of switches that are left make a dense matrix the fastest form: one Cholesky
factor is a few milliseconds at 600 and a second at 4,000.
"""

from dataclasses import dataclass

import numpy as np

from correction.mesh.core import Core
from correction.mesh.covariance import Covariance
from correction.mesh.edges import Edges
from correction.mesh.factor import Factor, factored
from correction.mesh.reduction import Ints, Reduction
from correction.timebase import Float64s

SHARED_SD_NS_MIN = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The core's edges as rows; built once per set of edges, solved for many sets of weights."""

    at_u: Ints
    at_v: Ints
    y_ns: Float64s
    shared: Float64s
    reduced_shared: Float64s
    """[reduced edge, constant]"""
    shared_precision: Float64s
    reduction: Reduction

    @property
    def size(self) -> int:
        """Nodes of the core, ground included."""
        return self.reduction.size

    @property
    def clock_count(self) -> int:
        """Unknown clocks."""
        return self.size - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Of one set of weights."""

    theta_ns: Float64s
    """[core node], the first is 0."""
    constants_ns: Float64s
    residual_ns: Float64s
    """[core edge]: y - (theta_v - theta_u) - shared . c."""
    factor: Factor

    @property
    def log_det(self) -> float:
        """Of the normal matrix."""
        return self.factor.log_det


def system(edges: Edges, core: Core) -> System:
    """The core's part of the edges."""
    sd = np.maximum(edges.shared_sd_ns, SHARED_SD_NS_MIN)
    shared = edges.shared[core.edges]
    return System(
        at_u=core.at_u,
        at_v=core.at_v,
        y_ns=edges.y_ns[core.edges],
        shared=shared,
        reduced_shared=core.reduction.of_edges(shared),
        shared_precision=sd**-2.0,
        reduction=core.reduction,
    )


def solve(of: System, weight: Float64s) -> Solution:
    """Clocks and constants that fit best, each edge with its weight (1 / variance)."""
    factor = factored(of.reduction, weight, of.shared, of.shared_precision, of.reduced_shared)
    pull = weight * of.y_ns
    right = np.bincount(of.at_v, pull, of.size) - np.bincount(of.at_u, pull, of.size)
    right[0] = 0.0
    found = factor.solve(np.concatenate([right, of.shared.T @ pull])[:, None])[:, 0]
    theta, constants = found[: of.size], found[of.size :]
    residual = of.y_ns - (theta[of.at_v] - theta[of.at_u])
    if len(constants):
        residual -= of.shared @ constants
    return Solution(theta_ns=theta, constants_ns=constants, residual_ns=residual, factor=factor)


def covariance(of: System, solution: Solution) -> Covariance:
    """Of that set of weights."""
    return Covariance(solution.factor, of.at_u, of.at_v, of.shared, of.reduced_shared)
