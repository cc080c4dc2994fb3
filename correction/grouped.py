# SPDX-License-Identifier: Apache-2.0
"""Sums, order statistics and robust lines over many groups at once (numpy, no loop over groups)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.timebase import Float64s, Int64s


def group_sum(group: Int64s, values: Float64s, count: int) -> Float64s:
    """Sum of `values` per group."""
    total = np.bincount(group, weights=values, minlength=count)
    return total.astype(np.float64, copy=False)


def group_mean(group: Int64s, values: Float64s, weights: Float64s, count: int) -> Float64s:
    """Weighted mean per group; 0 for an empty one."""
    weight = group_sum(group, weights, count)
    mean: Float64s = group_sum(group, values * weights, count) / np.maximum(weight, 1e-300)
    return mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Rank of each value in its group (0 = smallest) and the size of each group."""

    rank: NDArray[np.int64]
    size: NDArray[np.int64]


def group_ranks(group: Int64s, values: Float64s, count: int) -> Ranks:
    """Ranks within groups, ties in order of appearance."""
    order = np.lexsort((values, group))
    size = np.bincount(group, minlength=count)
    start = np.cumsum(size) - size
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values)) - start[group[order]]
    return Ranks(rank=rank, size=size)


def group_quantile(group: Int64s, values: Float64s, quantile: float, count: int) -> Float64s:
    """The order statistic at `quantile` (rounded down) per group; NaN for an empty one."""
    ranks = group_ranks(group, values, count)
    wanted = np.floor(quantile * np.maximum(ranks.size - 1, 0)).astype(np.int64)
    result = np.full(count, np.nan)
    chosen = ranks.rank == wanted[group]
    result[group[chosen]] = values[chosen]
    return result


def group_quantiles(
    group: Int64s, values: Float64s, quantiles: Sequence[float], count: int
) -> Float64s:
    """[group, quantile] order statistics, each at its level rounded down; no group is empty."""
    order = np.lexsort((values, group))
    size = np.bincount(group, minlength=count)
    first = np.cumsum(size) - size
    wanted = first[:, None] + np.floor(np.outer(size - 1, quantiles)).astype(np.int64)
    result: Float64s = values[order][wanted]
    return result
