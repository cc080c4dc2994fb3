# SPDX-License-Identifier: Apache-2.0
"""How well one set of weights determines clocks, constants and edges of a reduced core.

The dense part has its inverse. A clock that was eliminated is a mean of its neighbours, and of
constants, besides a part of its own with variance 1 / d; so all follows from the inverse, and the
whole matrix over all clocks, which would not fit, is never made.
"""

from functools import cached_property

import numpy as np

from correction.mesh.factor import Factor
from correction.mesh.reduction import Ints
from correction.timebase import Float64s

COLUMNS_AT_ONCE = 64


class Covariance:
    """`shared`: [edge, constant], as they enter the edges; `reduced`: the same of reduced edges."""

    def __init__(
        self, factor: Factor, at_u: Ints, at_v: Ints, shared: Float64s, reduced: Float64s
    ) -> None:
        self._factor = factor
        self._of = factor.of
        self._at_u, self._at_v = at_u, at_v
        self._shared, self._reduced = shared, reduced
        self._dense = factor.inverse()
        """[kept node, then constant]"""

    @property
    def constants(self) -> Float64s:
        """[constant, constant]"""
        k = len(self._of.kept)
        return self._dense[k:, k:]

    @cached_property
    def clocks(self) -> Float64s:
        """[core node]: variances; the ground's is 0."""
        of, factor = self._of, self._factor
        result = np.zeros(of.size)
        result[of.kept] = np.diagonal(self._dense)[: len(of.kept)]
        result[of.star] = self._stars[1] + 1.0 / factor.star_total
        p, q = of.pair_end[:, 0], of.pair_end[:, 1]
        share = factor.series_share
        middle = share[:, 0] ** 2 * result[p] + share[:, 1] ** 2 * result[q]
        middle += 2.0 * share[:, 0] * share[:, 1] * self._ends[len(of.direct) :]
        through = factor.series_constants
        ends = share[:, :1] * self._outer_cross[:, p].T + share[:, 1:] * self._outer_cross[:, q].T
        middle += np.einsum("sk,kl,sl->s", through, self.constants, through)
        middle += 2.0 * (through * ends).sum(axis=1)
        result[of.series] = middle + 1.0 / factor.series_total
        return result

    @cached_property
    def cross(self) -> Float64s:
        """[constant, core node]: covariances."""
        of, factor = self._of, self._factor
        result = self._outer_cross.copy()
        middle = self.constants @ factor.series_constants.T
        for end in (0, 1):
            middle += factor.series_share[:, end] * result[:, of.pair_end[:, end]]
        result[:, of.series] = middle
        return result

    @cached_property
    def spread(self) -> Float64s:
        """[core edge]: variance of theta_v - theta_u + shared . c (effective resistance)."""
        of, factor = self._of, self._factor
        reduced = np.zeros(len(of.at_u))
        k = len(of.kept)
        u, v = of.slot[of.at_u[of.plain]], of.slot[of.at_v[of.plain]]
        diagonal = np.diagonal(self._dense)
        plain = diagonal[u] + diagonal[v] - 2.0 * self._dense[u, v]
        if self._shared.shape[1]:
            shared = self._reduced[of.plain]
            plain += np.einsum("ek,kl,el->e", shared, self.constants, shared)
            between = self._dense[k:][:, v] - self._dense[k:][:, u]
            plain += 2.0 * np.einsum("ek,ke->e", shared, between)
        reduced[of.plain] = plain
        if len(of.star):
            real = of.ray_sign != 0.0
            reduced[of.ray[real]] = self._rays[real]
        result = np.zeros(len(self._at_u))
        result[of.direct] = reduced[: len(of.direct)]
        # what the ends do not tell of an edge of a pair is shared out by their variances
        own = factor.series_share[:, ::-1]
        whole = reduced[len(of.direct) :]
        apart = 1.0 / factor.series_total
        result[of.pair] = own**2 * whole[:, None] + apart[:, None]
        return np.maximum(result, 0.0)

    def columns(self, edges: Ints) -> Float64s:
        """[unknown, edge]: covariance of every clock and constant with these edges' differences."""
        size = self._of.size
        right = np.zeros((size + self._shared.shape[1], len(edges)))
        number = np.arange(len(edges))
        right[self._at_v[edges], number] += 1.0
        right[self._at_u[edges], number] -= 1.0
        right[size:] = self._shared[edges].T
        right[0] = 0.0
        return self._factor.solve(right)

    @cached_property
    def _stars(self) -> tuple[Float64s, Float64s, Float64s]:
        """Of each star's neighbours, and the constants: (their covariances, the variance of the
        mean that they make, its covariance with each of them)."""
        of, factor = self._of, self._factor
        count, m = len(of.star), self._shared.shape[1]
        constants = np.broadcast_to(len(of.kept) + np.arange(m), (count, m))
        at = np.concatenate([of.ray_slot, constants], axis=1)
        share = np.concatenate([factor.star_share, factor.star_constants], axis=1)
        block = self._dense[at[:, :, None], at[:, None, :]]
        with_mean = np.einsum("tij,tj->ti", block, share)
        return block, (share * with_mean).sum(axis=1), with_mean

    @cached_property
    def _rays(self) -> Float64s:
        """[star, k]: spread of its reduced edges."""
        of, factor = self._of, self._factor
        block, mean, with_mean = self._stars
        width = of.ray.shape[1]
        own = np.diagonal(block, axis1=1, axis2=2)[:, :width]
        result = mean[:, None] - 2.0 * with_mean[:, :width] + own
        result += 1.0 / factor.star_total[:, None]
        if self._shared.shape[1]:
            shared = of.ray_sign[:, :, None] * self._reduced[of.ray]
            result += np.einsum("tki,ij,tkj->tk", shared, self.constants, shared)
            between = with_mean[:, None, width:] - block[:, :width, width:]
            result += 2.0 * (shared * between).sum(axis=2)
        return result

    @cached_property
    def _outer_cross(self) -> Float64s:
        """[constant, core node]: of kept clocks and stars."""
        of = self._of
        k, width = len(of.kept), of.ray.shape[1]
        result = np.zeros((self._shared.shape[1], of.size))
        result[:, of.kept] = self._dense[k:, :k]
        result[:, of.star] = self._stars[2][:, width:].T
        return result

    @cached_property
    def _ends(self) -> Float64s:
        """[reduced edge]: covariance of its two ends."""
        of = self._of
        result = np.zeros(len(of.at_u))
        u, v = of.slot[of.at_u[of.plain]], of.slot[of.at_v[of.plain]]
        result[of.plain] = self._dense[u, v]
        real = of.ray_sign != 0.0
        result[of.ray[real]] = self._stars[2][:, : of.ray.shape[1]][real]
        return result
