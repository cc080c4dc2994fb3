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
ROWS_AT_ONCE = 256
EXACT_CELLS = 2_000_000
"""Columns of so many clocks that were eliminated x edges are made; of more, only what matters."""


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
        self._carried = _Carried(factor, self._dense)

    @property
    def constants(self) -> Float64s:
        """[constant, constant]"""
        k = len(self._of.kept)
        return self._dense[k:, k:]

    @cached_property
    def clocks(self) -> Float64s:
        """[core node]: variances; the ground's is 0."""
        return self._carried.diagonal(
            1.0 / self._factor.star_total, 1.0 / self._factor.series_total
        )

    @cached_property
    def cross(self) -> Float64s:
        """[constant, core node]: covariances."""
        of, factor = self._of, self._factor
        result = self._carried.cross.copy()
        middle = self.constants @ factor.series_constants.T
        for end in (0, 1):
            middle += factor.series_share[:, end] * result[:, of.pair_end[:, end]]
        result[:, of.series] = middle
        return result

    @cached_property
    def spread(self) -> Float64s:
        """[core edge]: variance of theta_v - theta_u + shared . c (effective resistance)."""
        of, factor = self._of, self._factor
        result = np.zeros(len(self._at_u))
        result[of.direct] = self._whole[: len(of.direct)]
        # what the ends do not tell of an edge of a pair is shared out by their variances
        own = factor.series_share[:, ::-1]
        whole = self._whole[len(of.direct) :]
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

    def at_ends(self, edges: Ints) -> Float64s:
        """[2, edge]: of each edge's column, what is at its ends u and v."""
        u, v = self._at_u[edges], self._at_v[edges]
        shared = self._shared[edges]
        at_u, at_v = self.cross[:, u].T, self.cross[:, v].T
        # var(difference + shared) less what the constants have in it is var(difference)
        between = self.spread[edges] - np.einsum("ek,kl,el->e", shared, self.constants, shared)
        between -= 2.0 * (shared * (at_v - at_u)).sum(axis=1)
        apart = self.clocks[v] - self.clocks[u]
        return np.stack(
            [
                0.5 * (apart - between) + (shared * at_u).sum(axis=1),
                0.5 * (apart + between) + (shared * at_v).sum(axis=1),
            ]
        )

    def total(self, edges: Ints, amount: Float64s) -> Float64s:
        """[unknown]: sum of the edges' columns, each times its amount."""
        size = self._of.size
        right = np.bincount(self._at_v[edges], amount, size)
        right -= np.bincount(self._at_u[edges], amount, size)
        right[0] = 0.0
        pulled = self._shared[edges].T @ amount
        return self._factor.solve(np.concatenate([right, pulled])[:, None])[:, 0]

    def squares(self, edges: Ints, amount: Float64s) -> Float64s:
        """[unknown]: sum of the squares of the edges' columns, each times its amount.

        Of very many edges those at clocks that were eliminated count at their own clocks alone: a
        NIC's cable says next to nothing of any other clock.
        """
        of = self._of
        gone = of.size - len(of.kept)
        if gone and gone * len(edges) <= EXACT_CELLS:
            result = np.zeros(of.size + self._shared.shape[1])
            for first in range(0, len(edges), COLUMNS_AT_ONCE):
                some = slice(first, first + COLUMNS_AT_ONCE)
                result += self.columns(edges[some]) ** 2 @ amount[some]
            return result
        amounts = np.zeros(len(self._at_u))
        amounts[edges] = amount
        result = self._plain_squares(amounts)
        if gone:
            self._add_own_squares(amounts, result)
        return result

    def _plain_squares(self, amounts: Float64s) -> Float64s:
        """Of the edges between kept clocks. Others go along with these: as a mean of theirs their
        own move is no larger than the mean square."""
        of, factor, k = self._of, self._factor, len(self._of.kept)
        plain = of.plain[of.plain < len(of.direct)]
        plain = plain[amounts[of.direct[plain]] != 0.0]
        u, v = of.slot[of.at_u[plain]], of.slot[of.at_v[plain]]
        amount = amounts[of.direct[plain]]
        dense = np.zeros(len(self._dense))
        for first in range(0, len(plain), ROWS_AT_ONCE):
            some = slice(first, first + ROWS_AT_ONCE)
            rows = self._dense[v[some]] - self._dense[u[some]]
            if self._shared.shape[1]:
                rows += self._reduced[plain[some]] @ self._dense[k:]
            dense += amount[some] @ rows**2
        result = np.zeros(of.size + self._shared.shape[1])
        result[of.kept], result[of.size :] = dense[:k], dense[k:]
        result[of.star] = (factor.star_share * dense[of.ray_slot]).sum(axis=1)
        result[of.series] = (factor.series_share * result[of.pair_end]).sum(axis=1)
        return result

    def _add_own_squares(self, amounts: Float64s, result: Float64s) -> None:
        """Of edges at clocks that were eliminated, at these clocks and their neighbours."""
        of, size = self._of, self._of.size

        def add(node: Ints, amount: Float64s, column: Float64s) -> None:
            result[:size] += np.bincount(node, amount * column**2, size)

        at_u, at_v = self._end_columns
        ray = np.ones(len(of.direct), np.bool_)
        ray[of.plain[of.plain < len(of.direct)]] = False
        direct = np.flatnonzero(ray)
        add(of.at_u[direct], amounts[of.direct[direct]], at_u[direct])
        add(of.at_v[direct], amounts[of.direct[direct]], at_v[direct])
        series = slice(len(of.direct), None)
        for one, sign in ((0, 1.0), (1, -1.0)):
            amount = amounts[of.pair[:, one]]
            # of the series' difference so much is this edge's
            share = self._factor.series_share[:, 1 - one]
            own = sign / self._factor.series_total + share * self._middle_columns
            add(of.at_u[series], amount, share * at_u[series])
            add(of.at_v[series], amount, share * at_v[series])
            add(of.series, amount, own)

    @cached_property
    def _end_columns(self) -> tuple[Float64s, Float64s]:
        """[reduced edge]: covariance of its ends u and v with its own difference."""
        of, clocks = self._of, self.clocks
        between = self._carried.ends
        constant = np.einsum("ek,ke->e", self._reduced, self._carried.cross[:, of.at_u])
        at_u = between - clocks[of.at_u] + constant
        constant = np.einsum("ek,ke->e", self._reduced, self._carried.cross[:, of.at_v])
        return at_u, clocks[of.at_v] - between + constant

    @cached_property
    def _middle_columns(self) -> Float64s:
        """[series]: covariance of the middle with the series' difference."""
        of, factor = self._of, self._factor
        pair = slice(len(of.direct), None)
        at_u, at_v = (one[pair] for one in self._end_columns)
        result = factor.series_share[:, 0] * at_u + factor.series_share[:, 1] * at_v
        # of constants with the difference
        cross, shared = self._carried.cross, self._reduced[pair]
        with_constants = cross[:, of.at_v[pair]] - cross[:, of.at_u[pair]]
        with_constants = with_constants.T + shared @ self.constants
        middle: Float64s = result + (factor.series_constants * with_constants).sum(axis=1)
        return middle

    @cached_property
    def _whole(self) -> Float64s:
        """[reduced edge]: variance of its difference."""
        of, factor = self._of, self._factor
        result = np.zeros(len(of.at_u))
        u, v = of.slot[of.at_u[of.plain]], of.slot[of.at_v[of.plain]]
        diagonal = np.diagonal(self._dense)
        plain = diagonal[u] + diagonal[v] - 2.0 * self._dense[u, v]
        if self._shared.shape[1]:
            k, shared = len(of.kept), self._reduced[of.plain]
            plain += np.einsum("ek,kl,el->e", shared, self.constants, shared)
            between = self._dense[k:][:, v] - self._dense[k:][:, u]
            plain += 2.0 * np.einsum("ek,ke->e", shared, between)
        result[of.plain] = plain
        if not len(of.star):
            return result
        carried, width = self._carried, of.ray.shape[1]
        own = np.diagonal(carried.block, axis1=1, axis2=2)[:, :width]
        rays = carried.mean[:, None] - 2.0 * carried.with_mean[:, :width] + own
        rays += 1.0 / factor.star_total[:, None]
        if self._shared.shape[1]:
            shared = of.ray_sign[:, :, None] * self._reduced[of.ray]
            rays += np.einsum("tki,ij,tkj->tk", shared, self.constants, shared)
            between = carried.with_mean[:, None, width:] - carried.block[:, :width, width:]
            rays += 2.0 * (shared * between).sum(axis=2)
        real = of.ray_sign != 0.0
        result[of.ray[real]] = rays[real]
        return result


class _Carried:
    """A symmetric matrix over kept clocks and constants, carried to the clocks that follow."""

    def __init__(self, factor: Factor, matrix: Float64s) -> None:
        self._factor, self._of, self._matrix = factor, factor.of, matrix
        of, m = factor.of, len(matrix) - len(factor.of.kept)
        constants = np.broadcast_to(len(of.kept) + np.arange(m), (len(of.star), m))
        at = np.concatenate([of.ray_slot, constants], axis=1)
        share = np.concatenate([factor.star_share, factor.star_constants], axis=1)
        self.block = matrix[at[:, :, None], at[:, None, :]]
        """[star, i, j]: of its neighbours, then the constants."""
        self.with_mean = np.einsum("tij,tj->ti", self.block, share)
        """[star, i]: of the mean that these make with each of them."""
        self.mean = (share * self.with_mean).sum(axis=1)
        """[star]"""

    def diagonal(self, star_own: Float64s, series_own: Float64s) -> Float64s:
        """[core node]; stars and middles of series have something of their own besides."""
        of, factor = self._of, self._factor
        result = np.zeros(of.size)
        result[of.kept] = np.diagonal(self._matrix)[: len(of.kept)]
        result[of.star] = self.mean + star_own
        p, q = of.pair_end[:, 0], of.pair_end[:, 1]
        share, through = factor.series_share, factor.series_constants
        middle = share[:, 0] ** 2 * result[p] + share[:, 1] ** 2 * result[q]
        middle += 2.0 * share[:, 0] * share[:, 1] * self.ends[len(of.direct) :]
        ends = share[:, :1] * self.cross[:, p].T + share[:, 1:] * self.cross[:, q].T
        k = len(of.kept)
        middle += np.einsum("sk,kl,sl->s", through, self._matrix[k:, k:], through)
        middle += 2.0 * (through * ends).sum(axis=1)
        result[of.series] = middle + series_own
        return result

    @cached_property
    def cross(self) -> Float64s:
        """[constant, core node]: of kept clocks and stars."""
        of, k = self._of, len(self._of.kept)
        result = np.zeros((len(self._matrix) - k, of.size))
        result[:, of.kept] = self._matrix[k:, :k]
        result[:, of.star] = self.with_mean[:, of.ray.shape[1] :].T
        return result

    @cached_property
    def ends(self) -> Float64s:
        """[reduced edge]: of its two ends."""
        of = self._of
        result = np.zeros(len(of.at_u))
        u, v = of.slot[of.at_u[of.plain]], of.slot[of.at_v[of.plain]]
        result[of.plain] = self._matrix[u, v]
        real = of.ray_sign != 0.0
        result[of.ray[real]] = self.with_mean[:, : of.ray.shape[1]][real]
        return result
