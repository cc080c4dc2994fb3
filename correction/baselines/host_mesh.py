# SPDX-License-Identifier: Apache-2.0
"""A mesh between hosts after Huygens (NSDI 2018): support vectors per pair, then network effect.

Per pair and window two parallel lines support the delays of both directions from below, as far
apart as they can be; their middle is the difference of the two clocks if the fastest packet takes
as long there as back. Around a loop of pairs the differences must add up to zero; spreading what is
left over all pairs of the loops is least squares over the mesh.

Huygens sends coded probes to tell packets that never queued. There are none here: the lines rest on
whatever packets the hosts exchanged (PTP, RoCE), of which the fastest decide.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.baselines.host_packets import Placed
from correction.grouped import group_quantile
from correction.timebase import NS_PER_S, Bools, Float64s

PACKETS_MIN = 4
"""Per direction: with fewer, queues alone decide."""
SLOPE_NS_PER_S_MAX = 200.0
"""Huygens knows rates from windows before; the solution's are good to a few ns/s. Few packets that
queued must not turn their slope into an offset at the window's centre."""
STRAY_SPREADS = 10.0
STRAY_NS = 1_000.0
"""A delay so many quartile distances, and at least this, below its direction's lower quartile has a
wrong stamp (a clock that was just set): a support vector machine's slack, in one step."""
SLOPE_STEPS = 70
"""Each leaves two thirds of the interval: 200 ns/s shrink to below 1e-9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDifferences:
    """Arrays over (window, pair): b - a at the window's instant, less the solution's."""

    window: NDArray[np.int64]
    a: NDArray[np.int64]
    b: NDArray[np.int64]
    difference_ns: Float64s
    half_gap_ns: Float64s
    """Half the distance between the two lines: half the least round trip."""


def support_vector_differences(
    placed: Placed, slope_ns_per_s_max: float, clock_count: int
) -> PairDifferences:
    """One difference per pair of hosts with packets both ways in a window.

    `slope_ns_per_s_max`: the lines' slope is sought within so much of the solution's rates.
    """
    forward = placed.sender < placed.receiver
    a = np.minimum(placed.sender, placed.receiver)
    b = np.maximum(placed.sender, placed.receiver)
    key = (placed.window * clock_count + a) * clock_count + b
    order = np.lexsort((~forward, key))
    key, forward = key[order], forward[order]
    sound = _sound(2 * key + forward, placed.delay_ns[order])
    order, key, forward = order[sound], key[sound], forward[sound]
    keys, group = np.unique(key, return_inverse=True)
    counts = np.zeros((2, len(keys)), np.int64)
    np.add.at(counts, (forward.astype(np.int64), group), 1)
    enough: Bools = np.all(counts >= PACKETS_MIN, axis=0)
    kept = enough[group]
    rows = order[kept]
    forward = forward[kept]
    index = np.cumsum(enough) - 1
    group = index[group[kept]]
    difference, gap = _widest(
        group,
        forward,
        placed.sent_ns[rows] / NS_PER_S,
        placed.delay_ns[rows],
        count=int(enough.sum()),
        limit_ns_per_s=slope_ns_per_s_max,
    )
    keys = keys[enough]
    return PairDifferences(
        window=keys // clock_count**2,
        a=keys // clock_count % clock_count,
        b=keys % clock_count,
        difference_ns=difference,
        half_gap_ns=0.5 * gap,
    )


def _sound(direction: NDArray[np.int64], delay_ns: Float64s) -> Bools:
    """Delays that do not lie far below their direction's others."""
    direction, group = np.unique(direction, return_inverse=True)
    lower = group_quantile(group, delay_ns, 0.25, len(direction))
    upper = group_quantile(group, delay_ns, 0.75, len(direction))
    limit = lower - np.maximum(STRAY_SPREADS * (upper - lower), STRAY_NS)
    sound: Bools = delay_ns >= limit[group]
    return sound


def _widest(
    group: NDArray[np.int64],
    forward: Bools,
    at_s: Float64s,
    delay_ns: Float64s,
    *,
    count: int,
    limit_ns_per_s: float,
) -> tuple[Float64s, Float64s]:
    """Per group b - a midway between two supporting lines that are furthest apart, and how far.

    The distance is a concave function of the lines' common slope: thirds of its interval are cut
    off. Rows are sorted by group, forward ones first.
    """
    if not count:
        return np.zeros(0), np.zeros(0)
    slot = 2 * group + ~forward
    starts = np.searchsorted(slot, np.arange(2 * count))
    sign = np.where(forward, 1.0, -1.0)

    def lines(slope: Float64s) -> tuple[Float64s, Float64s]:
        least = np.minimum.reduceat(delay_ns - sign * slope[group] * at_s, starts)
        return least[0::2], least[1::2]

    low, high = np.full(count, -limit_ns_per_s), np.full(count, limit_ns_per_s)
    for _ in range(SLOPE_STEPS):
        third = (high - low) / 3.0
        left, right = low + third, high - third
        at_left, at_right = sum(lines(left)), sum(lines(right))
        low = np.where(at_left <= at_right, left, low)
        high = np.where(at_left >= at_right, right, high)
    there, back = lines(0.5 * (low + high))
    return 0.5 * (there - back), there + back


def network_effect(pairs: PairDifferences, reference: int, shape: tuple[int, int]) -> Float64s:
    """[window, clock]: offsets less the solution's, all pairs alike; NaN where no pair leads."""
    offsets = np.full(shape, np.nan)
    offsets[:, reference] = 0.0
    for w in np.unique(pairs.window).tolist():
        mine = pairs.window == w
        a, b, y = pairs.a[mine], pairs.b[mine], pairs.difference_ns[mine]
        seen = _reached(a, b, reference, shape[1])
        inside = seen[a]
        a, b, y = a[inside], b[inside], y[inside]
        clocks = np.setdiff1d(np.flatnonzero(seen), [reference])
        column = np.full(shape[1], -1)
        column[clocks] = np.arange(len(clocks))
        incidence = np.zeros((len(y), len(clocks)))
        for end, sign in ((a, -1.0), (b, 1.0)):
            rows = np.flatnonzero(end != reference)
            incidence[rows, column[end[rows]]] += sign
        if len(clocks):
            offsets[w, clocks] = np.linalg.lstsq(incidence, y)[0]
    return offsets


def _reached(a: NDArray[np.int64], b: NDArray[np.int64], reference: int, clock_count: int) -> Bools:
    seen = np.zeros(clock_count, np.bool_)
    seen[reference] = True
    while True:
        touched = seen[a] != seen[b]
        if not touched.any():
            return seen
        seen[a[touched]] = seen[b[touched]] = True
