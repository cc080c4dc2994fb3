# SPDX-License-Identifier: Apache-2.0
"""Weighted least squares on the core: the normal equations, dense, with the shared constants.

Unknowns are the core's clocks but the first (ground: the clock that the reference hangs on), then
the shared constants with their prior. Some hundreds to thousands of switches make a dense matrix
the fastest form: one Cholesky factor is a few milliseconds at 600 and a second at 4,000.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from correction.mesh.core import Core
from correction.mesh.edges import Edges
from correction.timebase import Float64s

SHARED_SD_NS_MIN = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The core's edges as rows; built once per set of edges, solved for many sets of weights."""

    at_u: NDArray[np.int64]
    at_v: NDArray[np.int64]
    y_ns: Float64s
    shared: Float64s
    shared_precision: Float64s
    size: int
    """Nodes of the core, ground included."""

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
    factor: Float64s
    """Lower Cholesky factor of the normal matrix."""
    log_det: float


def system(edges: Edges, core: Core) -> System:
    """The core's part of the edges."""
    sd = np.maximum(edges.shared_sd_ns, SHARED_SD_NS_MIN)
    return System(
        at_u=core.at_u,
        at_v=core.at_v,
        y_ns=edges.y_ns[core.edges],
        shared=edges.shared[core.edges],
        shared_precision=sd**-2.0,
        size=len(core.nodes),
    )


def solve(of: System, weight: Float64s) -> Solution:
    """Clocks and constants that fit best, each edge with its weight (1 / variance)."""
    n, m = of.clock_count, of.shared.shape[1]
    matrix = _normal_matrix(of, weight)
    right = np.zeros(n + m)
    pull = weight * of.y_ns
    total = np.bincount(of.at_v, pull, of.size) - np.bincount(of.at_u, pull, of.size)
    right[:n] = total[1:]
    if m:
        right[n:] = of.shared.T @ pull
    if n + m == 0:
        factor, x, log_det = matrix, right, 0.0
    else:
        factor, info = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise np.linalg.LinAlgError("the core is not connected by its weights")
        x, _ = dpotrs(factor, right, lower=1)
        log_det = 2.0 * float(np.log(np.diagonal(factor)).sum())
    theta = np.r_[0.0, x[:n]]
    constants = x[n:]
    residual = of.y_ns - (theta[of.at_v] - theta[of.at_u])
    if m:
        residual -= of.shared @ constants
    return Solution(
        theta_ns=theta,
        constants_ns=constants,
        residual_ns=residual,
        factor=factor,
        log_det=log_det,
    )


def covariance(solution: Solution) -> Float64s:
    """[unknown, unknown]: of clocks (the first is ground: a row of zeros) and constants."""
    size = len(solution.factor)
    full = np.zeros((size + 1, size + 1))
    if size:
        inverse, _ = dpotri(solution.factor, lower=1)
        lower = np.tril_indices(size, -1)
        inverse.T[lower] = inverse[lower]
        full[1:, 1:] = inverse
    return full


def spread(of: System, cov: Float64s) -> Float64s:
    """[core edge]: variance of theta_v - theta_u + shared . c (effective resistance)."""
    diagonal = np.diagonal(cov)
    result: Float64s = diagonal[of.at_u] + diagonal[of.at_v] - 2.0 * cov[of.at_u, of.at_v]
    if of.shared.shape[1]:
        cross = cov[of.size :, : of.size]
        result = result + np.einsum("ek,kl,el->e", of.shared, cov[of.size :, of.size :], of.shared)
        result += 2.0 * np.einsum("ek,ke->e", of.shared, cross[:, of.at_v] - cross[:, of.at_u])
    return np.maximum(result, 0.0)


def _normal_matrix(of: System, weight: Float64s) -> Float64s:
    n, m, size = of.clock_count, of.shared.shape[1], of.size
    flat = np.bincount(of.at_u * size + of.at_v, weight, size * size).reshape(size, size)
    flat = flat + flat.T
    diagonal = flat.sum(axis=1)
    matrix = np.zeros((n + m, n + m), order="F")
    matrix[:n, :n] = -flat[1:, 1:]
    matrix[np.arange(n), np.arange(n)] += diagonal[1:]
    if m:
        pulled = weight[:, None] * of.shared
        for k in range(m):
            column = np.bincount(of.at_v, pulled[:, k], size)
            column -= np.bincount(of.at_u, pulled[:, k], size)
            matrix[n + k, :n] = column[1:]
            matrix[:n, n + k] = column[1:]
        matrix[n:, n:] = of.shared.T @ pulled + np.diag(of.shared_precision)
    return matrix
