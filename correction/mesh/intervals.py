# SPDX-License-Identifier: Apache-2.0
"""Hard bounds at any size: shortest paths over what causality allows (`correction.bounds`).

theta_v - theta_u <= limit, one row per direction. Limits may be negative, but an estimate that
breaks none of them, taken as a potential, makes all lengths positive, and Dijkstra serves. Where
the estimate breaks one, relaxation repairs the potential; where that does not end, data contradict.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from correction.bounds import Constraints, HardInterval, NegativeCycle, find_negative_cycle
from correction.mesh.edges import Edges
from correction.timebase import Float64s

REPAIRS_MAX = 200
"""Passes over all rows; one pass repairs every broken limit by one hop."""


def intervals(
    edges: Edges, reference: int, estimate_ns: Float64s, *, parallel: bool = True
) -> HardInterval | NegativeCycle:
    """low <= theta <= high of every node, or a cycle that shows impossible data.

    `estimate_ns`: any values; good ones (a solve's) make it fast. `parallel`: some pair of nodes
    may have several edges.
    """
    tail, head, limit = _rows(edges, parallel)
    potential = np.where(np.isfinite(estimate_ns), estimate_ns, 0.0).copy()
    for _ in range(REPAIRS_MAX):
        offered = potential[tail] + limit
        lower = potential.copy()
        np.minimum.at(lower, head, offered)
        if np.array_equal(lower, potential):
            break
        potential = lower
    else:
        constraints = Constraints(u=tail, v=head, limit_ns=limit, clock_count=edges.node_count)
        cycle = find_negative_cycle(constraints)
        if cycle is not None:
            return cycle
    length = np.maximum(limit - (potential[head] - potential[tail]), 0.0)
    shift = potential - potential[reference]
    high = _shortest(tail, head, length, edges.node_count, reference) + shift
    low = -(_shortest(head, tail, length, edges.node_count, reference) - shift)
    return HardInterval(low_ns=low, high_ns=high)


def _rows(edges: Edges, parallel: bool) -> tuple[NDArray[np.int64], NDArray[np.int64], Float64s]:
    """(tail, head, limit) of all finite limits, the smallest of parallel ones."""
    tail = np.r_[edges.u, edges.v]
    head = np.r_[edges.v, edges.u]
    limit = np.r_[edges.forward_limit_ns, edges.backward_limit_ns]
    finite = np.isfinite(limit)
    tail, head, limit = tail[finite], head[finite], limit[finite]
    if not parallel:
        return tail, head, limit
    pair = tail * edges.node_count + head
    order = np.lexsort((limit, pair))
    first = np.r_[True, pair[order][1:] != pair[order][:-1]]
    kept = order[first]
    return tail[kept], head[kept], limit[kept]


def _shortest(
    tail: NDArray[np.int64], head: NDArray[np.int64], length: Float64s, count: int, start: int
) -> Float64s:
    graph = csr_array((length, (tail, head)), shape=(count, count))
    distance: Float64s = dijkstra(graph, directed=True, indices=start)
    return distance
