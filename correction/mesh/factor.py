# SPDX-License-Identifier: Apache-2.0
"""The normal matrix of a reduced core, factored; and what follows from it for all its clocks.

Unknowns are [core node, then shared constant]; the ground, node 0, stays at 0. A clock x that is
eliminated has a row d x + sum(a u) = r, so that x = (r - sum(a u)) / d, and the others lose
a a' / d. First series, then stars (`reduction`), then the dense rest.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.sparse import csr_array

from correction.mesh.reduction import Ints, Reduction
from correction.timebase import Float64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """Of one set of weights."""

    of: Reduction
    dense: Float64s
    """Lower Cholesky factor over kept nodes but the ground, and constants."""
    series_total: Float64s
    """[series]: d."""
    series_share: Float64s
    """[series, 2]: -a / d of its ends."""
    series_constants: Float64s
    """[series, constant]: -a / d of constants."""
    star_total: Float64s
    star_share: Float64s
    """[star, k]: of the neighbours; 0 where padded."""
    star_constants: Float64s
    log_det: float

    def solve(self, right: Float64s) -> Float64s:
        """[unknown, k]: for as many right sides; the ground's row is 0."""
        of, size = self.of, self.of.size
        right = right.copy()
        constants = right[size:]
        pulled = right[of.series]
        for end in (0, 1):
            right += _added(
                of.pair_end[:, end], self.series_share[:, end, None] * pulled, len(right)
            )
        constants += self.series_constants.T @ pulled
        pulled = right[of.star]
        kept = right[of.kept]
        rays = self.star_share[:, :, None] * pulled[:, None, :]
        kept += _added(of.ray_slot.ravel(), rays.reshape(of.ray.size, pulled.shape[1]), len(kept))
        constants += self.star_constants.T @ pulled
        found = np.vstack([kept[1:], constants])
        if len(found):
            found, _ = dpotrs(self.dense, found, lower=1)
        n = len(of.kept) - 1
        result = np.zeros_like(right)
        result[of.kept[1:]], result[size:] = found[:n], found[n:]
        x, c = result[of.kept], result[size:]
        stars = right[of.star] / self.star_total[:, None] + self.star_constants @ c
        stars += np.einsum("tk,tkr->tr", self.star_share, x[of.ray_slot])
        result[of.star] = stars
        middle = right[of.series] / self.series_total[:, None] + self.series_constants @ c
        for end in (0, 1):
            middle += self.series_share[:, end, None] * result[of.pair_end[:, end]]
        result[of.series] = middle
        return result

    def inverse(self) -> Float64s:
        """Of the dense part: [kept node, then constant], the ground's row and column 0."""
        size = len(self.dense)
        full = np.zeros((size + 1, size + 1))
        if size:
            inverse, _ = dpotri(self.dense, lower=1)
            lower = np.tril(inverse)
            full[1:, 1:] = lower + lower.T
            full[np.arange(1, size + 1), np.arange(1, size + 1)] = np.diagonal(inverse)
        return full


def _added(at: Ints, values: Float64s, size: int) -> Float64s:
    """[size, k]: the rows of `values` added up at their places."""
    if values.shape[1] == 1:
        return np.bincount(at, values[:, 0], size).astype(np.float64)[:, None]
    ones = np.ones(len(at))
    added: Float64s = csr_array((ones, (at, np.arange(len(at)))), shape=(size, len(at))) @ values
    return added


def factored(
    of: Reduction, weight: Float64s, shared: Float64s, precision: Float64s, reduced: Float64s
) -> Factor:
    """`shared`: of edges; `reduced`: of reduced edges; `precision`: of the constants' prior."""
    pair_weight = weight[of.pair]
    total = pair_weight.sum(axis=1)
    reduced_weight = np.concatenate([weight[of.direct], pair_weight.prod(axis=1) / total])
    # the middle is end v of its first edge (where that points along), end u of its second
    along = of.pair_sign * pair_weight * np.array([1.0, -1.0])
    series_constants = (along[:, :, None] * shared[of.pair]).sum(axis=1)
    ray_weight = reduced_weight[of.ray] * np.abs(of.ray_sign)
    rays = (ray_weight * of.ray_sign)[:, :, None] * reduced[of.ray]
    star_constants = rays.sum(axis=1)
    star_total = ray_weight.sum(axis=1)
    star_share = ray_weight / star_total[:, None]

    k, m = len(of.kept), shared.shape[1]
    u, v = of.slot[of.at_u[of.plain]], of.slot[of.at_v[of.plain]]
    plain_weight = reduced_weight[of.plain]
    matrix = _clocks(of, u, v, plain_weight, ray_weight, star_share)
    cross = _cross(of, u, v, plain_weight[:, None] * reduced[of.plain], rays)
    cross += _scattered(of, star_share[:, :, None] * star_constants[:, None, :], k)
    inner = np.diag(precision) + reduced.T @ (reduced_weight[:, None] * reduced)
    inner -= star_constants.T @ (star_constants / star_total[:, None])
    dense = np.zeros((k - 1 + m, k - 1 + m), order="F")
    dense[: k - 1, : k - 1] = matrix[1:, 1:]
    dense[k - 1 :, : k - 1] = cross[1:].T
    dense[k - 1 :, k - 1 :] = inner
    log_det = float(np.log(total).sum() + np.log(star_total).sum())
    if len(dense):
        dense, info = dpotrf(dense, lower=1, clean=0, overwrite_a=1)
        if info != 0:
            raise np.linalg.LinAlgError("the core is not connected by its weights")
        log_det += 2.0 * float(np.log(np.diagonal(dense)).sum())
    return Factor(
        of=of,
        dense=dense,
        series_total=total,
        series_share=pair_weight / total[:, None],
        series_constants=-series_constants / total[:, None],
        star_total=star_total,
        star_share=star_share,
        star_constants=-star_constants / star_total[:, None],
        log_det=log_det,
    )


def _clocks(
    of: Reduction,
    u: Ints,
    v: Ints,
    weight: Float64s,
    ray_weight: Float64s,
    star_share: Float64s,
) -> Float64s:
    """[kept, kept]: of plain edges, and of what stars leave between their neighbours."""
    k = len(of.kept)
    flat: Float64s = np.bincount(u * k + v, weight, k * k).astype(np.float64).reshape(k, k)
    flat = flat + flat.T
    if len(of.star):
        block = ray_weight[:, :, None] * star_share[:, None, :]
        at = of.ray_slot[:, :, None] * k + of.ray_slot[:, None, :]
        flat += np.bincount(at.ravel(), block.ravel(), k * k).reshape(k, k)
    diagonal = flat.sum(axis=1)
    matrix = -flat
    matrix[np.arange(k), np.arange(k)] += diagonal
    return matrix


def _cross(of: Reduction, u: Ints, v: Ints, pulled: Float64s, rays: Float64s) -> Float64s:
    """[kept, constant]: of plain edges, and of rays at their far ends."""
    k, m = len(of.kept), pulled.shape[1]
    cross = np.zeros((k, m))
    for column in range(m):
        cross[:, column] = np.bincount(v, pulled[:, column], k)
        cross[:, column] -= np.bincount(u, pulled[:, column], k)
    return cross - _scattered(of, rays, k)


def _scattered(of: Reduction, rays: Float64s, k: int) -> Float64s:
    """[kept, constant]: values of rays added up at their neighbours."""
    m = rays.shape[2]
    result = np.zeros((k, m))
    at = of.ray_slot.ravel()
    for column in range(m):
        result[:, column] = np.bincount(at, rays[:, :, column].ravel(), k)
    return result
