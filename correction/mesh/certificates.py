# SPDX-License-Identifier: Apache-2.0
"""Which clocks the data determine, and a proof of it that others can check.

The sum of weighted absolute residuals is convex in the clocks. A clock is determined when every
way of moving it, alone or with others, makes that sum larger: fewer and lighter edges get better
than get worse. Linear programming duality turns this into flows (a circulation):

- an edge whose residual exceeds its tolerance carries its full weight, against the residual's sign;
- every other edge carries at most its weight, in either direction;
- nothing is created or lost at any clock.

If such a flow exists, no move gains; and what an edge could still carry is what a move of either
end costs. A clock that is connected with the reference through edges with room left, there and
back, is determined. Where no such flow exists, the cut that blocks it is a set of clocks whose move
costs nothing: the two explanations are equally good, and that cut is the proof.

Weights are whole numbers (WEIGHT_UNITS for a typical edge), so that a proof is exact.
`correction.certificate_check` verifies both kinds without any of this.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from correction.timebase import Bools, Float64s

WEIGHT_UNITS = 1_000
TOLERANCE_SCALES = 3.0
"""A residual of more than three standard deviations of a healthy edge is one that would gain."""
ROOM_SHARES = (0.6, 0.9)
"""Flows are first sought that leave 40 % or 10 % of every edge free: then one search suffices."""
ROOM_UNITS_MIN = WEIGHT_UNITS // 20
"""What an edge must be able to carry still, to count as room: a twentieth of an edge."""
MOVES_MAX = 64
"""Sets of clocks that are moved to a smaller sum before giving up; the rest is then undecided."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalCut:
    """Moving `side` by `move_ns` costs `cost_units` (0 or less, or less than an edge's room)."""

    side: Ints
    """Nodes that move together; the ground is not among them."""
    upwards: bool
    cost_units: int
    """Sum of weights that get worse less those that get better, at the start of the move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """For the nodes of a core; node 0 is the ground."""

    determined: Bools
    theta_ns: Float64s
    """Least sum of weighted absolute residuals: where the flow is a proof."""
    flow: Ints
    """[edge]: from u to v, in weight units."""
    weight: Ints
    """[edge]."""
    cuts: tuple[RivalCut, ...]
    """Sets of clocks that can move for nothing, at `theta_ns`."""
    apart: Bools
    """Nodes where `theta_ns` and the estimate differ by more than the slack."""
    rival: bool
    """Whether `theta_ns` explains the data as well as the estimate does: then it is another
    explanation, that puts those nodes elsewhere."""
    complete: bool
    """False: the search gave up, and what is not determined may be so after all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Edges between 0 .. size - 1 with their measurement."""

    size: int
    u: Ints
    v: Ints
    y_ns: Float64s
    scale_ns: Float64s
    """Sd of a healthy edge's residual."""
    parallel: bool = True
    """Some pair of nodes may have several edges."""

    def residual_ns(self, theta_ns: Float64s) -> Float64s:
        """y - (theta_v - theta_u)."""
        return self.y_ns - (theta_ns[self.v] - theta_ns[self.u])


def weights(scale_ns: Float64s) -> Ints:
    """Whole-number weights, WEIGHT_UNITS for the median edge, at least 1."""
    typical = float(np.median(scale_ns)) if len(scale_ns) else 1.0
    units = np.rint(WEIGHT_UNITS * typical / scale_ns)
    return np.clip(units, 1, 100 * WEIGHT_UNITS).astype(np.int64)


def judge(graph: Graph, theta_ns: Float64s, estimate_ns: Float64s, slack_ns: Float64s) -> Verdict:
    """Verdict on every node.

    `theta_ns`: about the least sum of weighted absolute residuals (it is improved here).
    `estimate_ns` is what will be published; a node is determined only if both agree within its
    `slack_ns`.
    """
    theta = theta_ns.copy()
    weight = weights(graph.scale_ns)
    cuts: list[RivalCut] = []
    flow = np.zeros(len(weight), np.int64)
    complete = False
    for _ in range(MOVES_MAX):
        direction = _direction(graph, theta)
        flow, blocked = _circulation(graph, weight, direction)
        if blocked is None:
            complete = True
            break
        rival = _rival(graph, weight, direction, blocked)
        if not _move(graph, weight, theta, blocked, upwards=rival.upwards):
            cuts = [rival]
            break
    determined = np.zeros(graph.size, np.bool_)
    determined[0] = True
    if complete:
        direction = _direction(graph, theta)
        determined = _both_ways(graph, weight, flow, direction)
        cuts = _tight_cuts(graph, weight, flow, direction, determined)
    apart = np.abs(theta - estimate_ns) > slack_ns
    return Verdict(
        determined=determined & ~apart,
        theta_ns=theta,
        flow=flow,
        weight=weight,
        cuts=tuple(cuts),
        apart=apart,
        rival=_excess(graph, weight, theta) <= _excess(graph, weight, estimate_ns),
        complete=complete,
    )


def _excess(graph: Graph, weight: Ints, theta_ns: Float64s) -> float:
    """Sum of weights times residuals beyond the tolerance."""
    beyond = np.abs(graph.residual_ns(theta_ns)) - TOLERANCE_SCALES * graph.scale_ns
    return float((weight * np.maximum(beyond, 0.0)).sum())


def _direction(graph: Graph, theta_ns: Float64s) -> Ints:
    """Slope of an edge's part of the sum in theta_v - theta_u: -1, +1, or 0 for either."""
    residual = graph.residual_ns(theta_ns)
    beyond = np.abs(residual) > TOLERANCE_SCALES * graph.scale_ns
    return np.where(beyond, -np.sign(residual), 0.0).astype(np.int64)


def _circulation(graph: Graph, weight: Ints, direction: Ints) -> tuple[Ints, Bools | None]:
    """(flow, None), or (anything, side of the cut that blocks it)."""
    fixed = weight * direction
    surplus = np.bincount(graph.v, fixed, graph.size) - np.bincount(graph.u, fixed, graph.size)
    surplus = np.rint(surplus).astype(np.int64)
    free = np.flatnonzero(direction == 0)
    flow = fixed.copy()
    if not surplus.any():
        return flow, None
    side = np.zeros(graph.size, np.bool_)
    for share in (*ROOM_SHARES, 1.0):
        capacity = np.maximum((weight[free] * share).astype(np.int64), 0)
        network, reached = _max_flow(graph, free, capacity, surplus)
        if network is not None:
            flow[free] = _on_edges(graph, free, capacity, network)
            return flow, None
        side = reached
    return flow, side if not side[0] else ~side


def _max_flow(
    graph: Graph, free: Ints, capacity: Ints, surplus: Ints
) -> tuple[csr_array | None, Bools]:
    """Send every surplus to the deficits; the net flow, or the nodes that could not send."""
    size, source, sink = graph.size, graph.size, graph.size + 1
    u, v = graph.u[free], graph.v[free]
    gives, takes = np.flatnonzero(surplus > 0), np.flatnonzero(surplus < 0)
    rows = np.r_[u, v, np.full(len(gives), source), takes]
    columns = np.r_[v, u, gives, np.full(len(takes), sink)]
    amounts = np.r_[capacity, capacity, surplus[gives], -surplus[takes]]
    shape = (size + 2, size + 2)
    arcs = coo_array((amounts.astype(np.int32), (rows, columns)), shape=shape).tocsr()
    found = maximum_flow(arcs, source, sink)
    if found.flow_value == int(surplus[gives].sum()):
        return csr_array(found.flow), np.zeros(size, np.bool_)
    left = arcs - found.flow
    left.data = np.maximum(left.data, 0)
    left.eliminate_zeros()
    order = breadth_first_order(left, source, directed=True, return_predecessors=False)
    reached = np.zeros(size + 2, np.bool_)
    reached[order] = True
    return None, reached[:size]


def _on_edges(graph: Graph, free: Ints, capacity: Ints, network: csr_array) -> Ints:
    """Net flow of each pair of nodes spread over its parallel edges."""
    u, v = graph.u[free], graph.v[free]
    net = np.asarray(network[u, v]).ravel().astype(np.int64)
    if not graph.parallel:
        return net
    pair = np.minimum(u, v) * graph.size + np.maximum(u, v)
    flow = np.zeros(len(free), np.int64)
    order = np.argsort(pair, kind="stable")
    left: dict[int, int] = {}
    for row in order.tolist():
        sign = 1 if u[row] < v[row] else -1
        rest = left.setdefault(int(pair[row]), int(net[row]) * sign)
        part = max(-int(capacity[row]), min(int(capacity[row]), rest))
        flow[row] = part * sign
        left[int(pair[row])] = rest - part
    return flow


def _cost(graph: Graph, weight: Ints, direction: Ints, side: Bools, upwards: bool) -> int:
    """What the sum rises by per ns when `side` begins to move."""
    enters = side[graph.v] & ~side[graph.u]
    leaves = side[graph.u] & ~side[graph.v]
    sign = np.where(enters, 1, -1) * (1 if upwards else -1)
    slope = np.where(direction == 0, weight, weight * direction * sign)
    return int(slope[enters | leaves].sum())


def _rival(graph: Graph, weight: Ints, direction: Ints, side: Bools) -> RivalCut:
    costs = {up: _cost(graph, weight, direction, side, up) for up in (True, False)}
    upwards = costs[True] <= costs[False]
    return RivalCut(side=np.flatnonzero(side), upwards=upwards, cost_units=costs[upwards])


def _move(graph: Graph, weight: Ints, theta_ns: Float64s, side: Bools, *, upwards: bool) -> bool:
    """Move `side` to where the sum over its cut is smallest (a weighted median); in place."""
    enters = side[graph.v] & ~side[graph.u]
    crossing = enters | (side[graph.u] & ~side[graph.v])
    residual = graph.residual_ns(theta_ns)[crossing]
    wanted = np.where(enters[crossing], residual, -residual)
    order = np.argsort(wanted, kind="stable")
    half = np.cumsum(weight[crossing][order])
    median = float(wanted[order][np.searchsorted(half, half[-1] / 2.0)])
    if (median > 0.0) != upwards or median == 0.0:
        return False
    theta_ns[side] += median
    return True


def _both_ways(graph: Graph, weight: Ints, flow: Ints, direction: Ints) -> Bools:
    """Nodes that have room from the ground and back to it."""
    free = direction == 0
    up = free & (weight - flow >= ROOM_UNITS_MIN)
    down = free & (weight + flow >= ROOM_UNITS_MIN)
    rows, columns = np.r_[graph.u[up], graph.v[down]], np.r_[graph.v[up], graph.u[down]]
    ones = np.ones(len(rows), np.int8)
    arcs = coo_array((ones, (rows, columns)), shape=(graph.size, graph.size)).tocsr()
    both = np.ones(graph.size, np.bool_)
    for one in (arcs, arcs.T.tocsr()):
        order = breadth_first_order(one, 0, directed=True, return_predecessors=False)
        reached = np.zeros(graph.size, np.bool_)
        reached[order] = True
        both &= reached
    return both


def _tight_cuts(
    graph: Graph, weight: Ints, flow: Ints, direction: Ints, determined: Bools
) -> list[RivalCut]:
    """Of what has no room: the sets that could move, each way, with their cost."""
    if determined.all():
        return []
    free = direction == 0
    cuts = []
    for upwards in (True, False):
        sign = 1 if upwards else -1
        # room to enter a set (upwards) or to leave it: the set that the ground does not reach
        there = free & (weight - sign * flow >= ROOM_UNITS_MIN)
        back = free & (weight + sign * flow >= ROOM_UNITS_MIN)
        rows = np.r_[graph.u[there], graph.v[back]]
        columns = np.r_[graph.v[there], graph.u[back]]
        ones = np.ones(len(rows), np.int8)
        arcs = coo_array((ones, (rows, columns)), shape=(graph.size, graph.size)).tocsr()
        order = breadth_first_order(arcs, 0, directed=True, return_predecessors=False)
        side = np.ones(graph.size, np.bool_)
        side[order] = False
        if side.any():
            cost = _cost(graph, weight, direction, side, upwards)
            cuts.append(RivalCut(side=np.flatnonzero(side), upwards=upwards, cost_units=cost))
    return cuts
