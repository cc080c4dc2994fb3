# SPDX-License-Identifier: Apache-2.0
"""What a component usually takes: robust medians over the transfers that share it.

The usual value of a component is the median over its own entity and size class. Two cases
differ: an entity that is slow as a rule is held to what its peers take (`capped`), and a
component between clocks whose offset is not determined is compared only within one correction
interval, where the unknown offsets cancel (`within_window`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracing_core.attribution.components import ComponentKind, Components

FloatArray = NDArray[np.float64]

SAMPLES_MIN = 5
"""Fewer values make no median worth comparing with."""
MAD_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, for a normal distribution."""
SPREAD_FLOOR_NS = 10.0
"""Smallest spread: quantisation and stamp jitter, so that constant values don't look exact."""
PEER_SPREADS_MAX = 6.0
"""An entity's usual value may exceed its peers' median by this many of their spreads."""
WINDOW_SPREADS = 4.0
"""Bound of an excess that is only known relative to its own correction interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Per component row: its usual value and scatter. NaN where too few values exist."""

    usual_ns: FloatArray
    spread_ns: FloatArray
    samples: NDArray[np.int64]
    excess_bound_ns: FloatArray
    """Bound of value - usual; infinite where it says nothing."""
    capped: NDArray[np.bool_]
    within_window: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """Robust statistics per row's group."""

    median: FloatArray
    spread: FloatArray
    count: NDArray[np.int64]

    def head(self, rows: int) -> "_Groups":
        """The first `rows` rows."""
        return _Groups(
            median=self.median[:rows], spread=self.spread[:rows], count=self.count[:rows]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """More values to compare with, beyond the components' own."""

    entity: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    value_ns: FloatArray


def baseline_of(components: Components, more: Samples) -> Baseline:
    """Baselines of all components."""
    count, value_ns = len(components.value_ns), components.value_ns
    values = np.concatenate([value_ns, more.value_ns])
    entity = np.concatenate([components.entity, more.entity])
    size = np.concatenate([components.size_bytes, more.size_bytes])
    own = _group_statistics(values, np.column_stack([entity, size])).head(count)
    any_size = _group_statistics(values, entity).head(count)
    entity = components.entity
    usual, spread, samples = own.median.copy(), own.spread.copy(), own.count.copy()
    few = samples < SAMPLES_MIN
    usual[few], spread[few] = any_size.median[few], any_size.spread[few]
    samples[few] = any_size.count[few]

    limit_ns = _peer_limit_ns(components, usual)
    capped = usual > limit_ns
    usual = np.where(capped, limit_ns, usual)

    undetermined = np.isinf(components.bound_ns) & ~np.isnan(value_ns)
    window = _group_statistics(
        value_ns, np.column_stack([entity, components.size_bytes, components.rows])
    )
    within = undetermined & (window.count >= SAMPLES_MIN)
    usual[within], spread[within] = window.median[within], window.spread[within]
    samples[within] = window.count[within]
    excess_bound = np.where(within, WINDOW_SPREADS * spread, components.bound_ns)

    none = samples < SAMPLES_MIN
    usual[none], spread[none], excess_bound[none] = np.nan, np.nan, np.inf
    return Baseline(
        usual_ns=usual,
        spread_ns=spread,
        samples=samples,
        excess_bound_ns=excess_bound,
        capped=capped & ~within & ~none,
        within_window=within,
    )


def _peer_limit_ns(components: Components, usual_ns: FloatArray) -> FloatArray:
    """Largest usual value that peers allow: hosts among hosts, hops among hops of one queue."""
    limit = np.full(len(usual_ns), np.inf)
    kind, entity = components.entity[:, 0], components.entity
    comparable = (kind != ComponentKind.LINK) & (kind != ComponentKind.NETWORK)
    rows = np.flatnonzero(comparable & ~np.isnan(usual_ns))
    if len(rows) == 0:
        return limit
    queue = np.where(kind == ComponentKind.HOP, entity[:, 3], 0)
    peers = np.column_stack([kind, queue, components.size_bytes])[rows]
    keys = np.column_stack([peers, entity[rows]])
    _, representative, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    statistics = _group_statistics(usual_ns[rows][representative], peers[representative])
    allowed = statistics.median + PEER_SPREADS_MAX * statistics.spread
    allowed[statistics.count < SAMPLES_MIN] = np.inf
    limit[rows] = allowed[inverse.reshape(-1)]
    return limit


def _group_statistics(values: FloatArray, keys: NDArray[np.int64]) -> _Groups:
    """Median, spread and count of each row's group, NaN values ignored."""
    count = np.zeros(len(values), np.int64)
    median = np.full(len(values), np.nan)
    spread = np.full(len(values), np.nan)
    rows = np.flatnonzero(~np.isnan(values))
    if len(rows):
        _, group = np.unique(keys[rows], axis=0, return_inverse=True)
        group = group.reshape(-1)
        size = np.bincount(group)
        middle = _group_medians(values[rows], group, size)
        deviation = _group_medians(np.abs(values[rows] - middle[group]), group, size)
        median[rows] = middle[group]
        spread[rows] = np.maximum(MAD_TO_SIGMA * deviation, SPREAD_FLOOR_NS)[group]
        count[rows] = size[group]
    return _Groups(median=median, spread=spread, count=count)


def _group_medians(
    values: FloatArray, group: NDArray[np.int64], size: NDArray[np.int64]
) -> FloatArray:
    ordered = values[np.lexsort((values, group))]
    first = np.cumsum(size) - size
    result: FloatArray = (ordered[first + (size - 1) // 2] + ordered[first + size // 2]) / 2
    return result
