# SPDX-License-Identifier: Apache-2.0
"""Which clocks the data determine, and a proof of it that others can check.

The sum of weighted absolute residuals is convex in the clocks. A clock is determined when every
way of moving it, alone or with others, makes that sum larger by more than one edge's weight, so
that one more bad edge would not change the answer. Linear programming duality turns this into a
flow (a circulation):

- an edge whose residual exceeds its tolerance carries its full weight, against the residual's sign;
- every other edge carries at most its weight, in either direction;
- nothing is created or lost at any clock.

If such a flow exists, no move gains; and what the edges across a cut could still carry is what
moving one side of it costs. So a clock is determined if MARGIN_UNITS more can flow to it from the
ground, and back. Where no such flow exists, the cut that blocks it is the proof of the contrary.

The sum can be least with fewer than half of a clock's edges in agreement. So a clock is also in
doubt if it has a rival: another place, of it alone or of a few together, where at most one edge
fewer agrees (`rivals`).

Weights are whole numbers (WEIGHT_UNITS for a typical edge), so that a proof is exact.
`correction.certificate_check` verifies all of it without this.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from correction.mesh.graph import Graph, Ints
from correction.mesh.growth import Growth
from correction.mesh.rivals import Rival, find_rivals
from correction.timebase import Bools, Float64s

ROOM_SHARES = (0.6, 0.9)
"""Flows are first sought that leave 40 % or 10 % of every edge free: then one search suffices."""
MOVES_MAX = 64
"""Sets of clocks that are moved to a smaller sum before giving up; the rest is then undecided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalCut:
    """Moving `side` costs `cost_units`, less than MARGIN_UNITS."""

    side: Ints
    """Nodes that move together; the ground is not among them."""
    upwards: bool
    cost_units: int
    """Sum of weights that get worse less those that get better, at the start of the move."""
    at_estimate: bool = False
    """The move starts from the published estimate instead of `Verdict.theta_ns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """For the nodes of a core; node 0 is the ground."""

    determined: Bools
    theta_ns: Float64s
    """The estimate, but for what is apart: where the flow is a proof."""
    flow: Ints
    """[edge]: from u to v, in weight units."""
    weight: Ints
    """[edge]."""
    proved: Ints
    """Nodes in the order in which their margin is proved, each from those before it."""
    rivals: tuple[Rival, ...]
    """Moves that leave at most one edge fewer in agreement."""
    cuts: tuple[RivalCut, ...]
    """Sets of clocks that can move for too little."""
    apart: Bools
    """Nodes that were moved from the estimate to make the sum least."""
    complete: bool
    """False: the search gave up, and what is not determined may be so after all."""


def judge(graph: Graph, estimate_ns: Float64s) -> Verdict:
    """Verdict on every node, if `estimate_ns` is what will be published.

    Where the estimate does not have the least sum, the sets that block it are moved until it has,
    so that the others can be judged; what was moved is apart from the estimate, and in doubt.
    """
    theta = estimate_ns.copy()
    weight = graph.weight
    cuts: list[RivalCut] = []
    flow, direction = np.zeros(len(weight), np.int64), np.zeros(len(weight), np.int64)
    complete = False
    for moves in range(MOVES_MAX):
        direction = _direction(graph, theta)
        flow, blocked = _circulation(graph, weight, direction)
        if blocked is None:
            complete = True
            break
        rival = _rival_cut(graph, weight, direction, blocked, at_estimate=not moves)
        if not moves:
            cuts.append(rival)
        if not _move(graph, weight, theta, blocked, upwards=rival.upwards):
            break
    proved = np.zeros(1, np.int64)
    rivals: tuple[Rival, ...] = ()
    if complete:
        growth = Growth(graph, weight, flow, direction)
        proved = growth.proved()
        cuts += [_side_cut(graph, weight, direction, side, up) for side, up in growth.blocked]
        rivals = find_rivals(graph, theta)
    apart = theta != estimate_ns
    determined = np.zeros(graph.size, np.bool_)
    determined[proved] = True
    for one in rivals:
        determined[one.in_doubt(graph)] = False
    return Verdict(
        determined=determined & ~apart,
        theta_ns=theta,
        flow=flow,
        weight=weight,
        proved=proved,
        rivals=rivals,
        cuts=tuple(cuts),
        apart=apart,
        complete=complete,
    )


def _direction(graph: Graph, theta_ns: Float64s) -> Ints:
    """Slope of an edge's part of the sum in theta_v - theta_u: -1, +1, or 0 for either."""
    residual = graph.residual_ns(theta_ns)
    beyond = np.abs(residual) > graph.tolerance_ns
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


def _rival_cut(
    graph: Graph, weight: Ints, direction: Ints, side: Bools, at_estimate: bool
) -> RivalCut:
    costs = {up: _cost(graph, weight, direction, side, up) for up in (True, False)}
    upwards = costs[True] <= costs[False]
    return RivalCut(
        side=np.flatnonzero(side),
        upwards=upwards,
        cost_units=costs[upwards],
        at_estimate=at_estimate,
    )


def _side_cut(graph: Graph, weight: Ints, direction: Ints, side: Bools, upwards: bool) -> RivalCut:
    cost = _cost(graph, weight, direction, side, upwards)
    return RivalCut(side=np.flatnonzero(side), upwards=upwards, cost_units=cost)


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
