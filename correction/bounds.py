# SPDX-License-Identifier: Apache-2.0
"""The hard bound: what causality, declared calibration and cable lengths allow, without a prior.

A frame does not arrive before it left: theta_v - theta_u <= x_uv - (least delay). Shortest paths
over these difference constraints bound every clock against the reference on both sides. A cycle
of negative length cannot happen; it proves impossible data and is named (clocks.md 2.8).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.timebase import Float64s

CYCLE_SLACK_NS = 1e-3
"""Rounding of float sums; a real contradiction is larger."""
PASSES_PER_LOOK = 8
"""Passes over all rows between two looks for a ring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """theta[v] - theta[u] <= limit_ns, one row per directed link with data."""

    u: NDArray[np.int64]
    v: NDArray[np.int64]
    limit_ns: Float64s
    clock_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HardInterval:
    """low <= theta <= high against the reference; infinite where no path constrains it."""

    low_ns: Float64s
    high_ns: Float64s


@dataclass(frozen=True, slots=True, kw_only=True)
class NegativeCycle:
    """Clocks, in order of travel, whose constraints contradict each other by `excess_ns`."""

    clocks: tuple[int, ...]
    excess_ns: float


def hard_intervals(constraints: Constraints, reference: int) -> HardInterval | NegativeCycle:
    """Shortest paths from and to the reference, or the cycle that makes them meaningless."""
    cycle = find_negative_cycle(constraints)
    if cycle is not None:
        return cycle
    n = constraints.clock_count
    high = shortest_ns(constraints.u, constraints.v, constraints.limit_ns, n, reference)
    low = shortest_ns(constraints.v, constraints.u, constraints.limit_ns, n, reference)
    return HardInterval(low_ns=-low, high_ns=high)


def shortest_ns(
    tail: NDArray[np.int64], head: NDArray[np.int64], length_ns: Float64s, n: int, start: int
) -> Float64s:
    """Shortest way to each clock (Bellman-Ford): lengths may be negative, cycles are not."""
    distance = np.full(n, np.inf)
    distance[start] = 0.0
    for _ in range(n):
        offered = distance[tail] + length_ns
        before = distance.copy()
        np.minimum.at(distance, head, offered)
        if np.array_equal(before, distance):
            break
    return distance


def find_negative_cycle(constraints: Constraints) -> NegativeCycle | None:
    """A contradiction among the constraints, if there is one.

    Distances fall without end along a negative cycle, and the rows that they fall by close a ring
    long before every clock has been passed; that is looked for every few passes.
    """
    n = constraints.clock_count
    distance = np.zeros(n)  # as from a virtual clock that is no later than any other
    parent = np.full(n, -1, np.int64)
    for number in range(1, n + 2):
        offered = distance[constraints.u] + constraints.limit_ns
        better = np.flatnonzero(offered < distance[constraints.v] - CYCLE_SLACK_NS)
        if not len(better):
            return None
        order = better[np.argsort(-offered[better], kind="stable")]  # the smallest comes last
        distance[constraints.v[order]] = offered[order]
        parent[constraints.v[order]] = order
        if number % PASSES_PER_LOOK == 0 or number > n:
            found = _ring(constraints, parent)
            if found is not None:
                return found
    raise AssertionError("distances still fall, and nothing that they fall by closes a ring")


def _ring(constraints: Constraints, parent: NDArray[np.int64]) -> NegativeCycle | None:
    """A cycle of the rows that gave each clock its distance."""
    n = constraints.clock_count
    before = np.where(parent >= 0, constraints.u[np.maximum(parent, 0)], n)
    before = np.append(before, n)  # the virtual clock
    ahead = before
    for _ in range(max(n, 2).bit_length()):
        ahead = ahead[ahead]
    endless = np.flatnonzero(ahead[:n] < n)
    if not len(endless):
        return None
    last = int(ahead[endless[0]])  # so far back that it lies on the ring
    clocks, total, here = [last], 0.0, last
    while True:
        row = int(parent[here])
        total += float(constraints.limit_ns[row])
        here = int(constraints.u[row])
        if here == last:
            break
        clocks.append(here)
    if total > -CYCLE_SLACK_NS:
        return None
    return NegativeCycle(clocks=tuple(reversed(clocks)), excess_ns=-total)
