# SPDX-License-Identifier: Apache-2.0
"""Nodes whose margin is proved, grown from the ground.

Cuts that separate a node from the ground either separate a proved node, whose margin they have, or
all of them: then what flows from the proved ones to the node crosses them. So it suffices to find
that flow, and mostly the edges straight from proved nodes carry it. Nodes that edges with room for
the margin hold together, as a machine's cross-stamps do, are proved together: no cut through them
is cheap enough.
"""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, maximum_flow

from correction.mesh.graph import WEIGHT_UNITS, Graph, Ints
from correction.timebase import Bools

MARGIN_UNITS = WEIGHT_UNITS + WEIGHT_UNITS // 2
"""Costs are differences of two sums of weights; with equal weights they are 0, 2, 4 ... or 1, 3,
5 ... edges. One more bad edge takes two away: a clock with less than two is not determined."""
FLOWS_TRIED_MAX = 200
"""Searches for a flow to one clock before giving up."""


class Growth:
    """`flow`: a circulation of `weight`; `direction`: 0 where an edge is free."""

    def __init__(self, graph: Graph, weight: Ints, flow: Ints, direction: Ints) -> None:
        free = np.flatnonzero(direction == 0)
        tail = np.r_[graph.u[free], graph.v[free]]
        head = np.r_[graph.v[free], graph.u[free]]
        room = np.r_[(weight - flow)[free], (weight + flow)[free]]
        strong = np.flatnonzero((weight - np.abs(flow))[free] >= MARGIN_UNITS)
        ones = np.ones(len(strong), np.int8)
        held = coo_array((ones, (tail[strong], head[strong])), shape=(graph.size, graph.size))
        self._size, self._group = connected_components(held, directed=False)
        tail, head = self._group[tail].astype(np.int64), self._group[head].astype(np.int64)
        apart = tail != head
        self._tail, self._head, self._room = tail[apart], head[apart], room[apart]
        """Arcs: all edges one way, then all the other way."""
        self._inside = np.zeros(self._size, np.bool_)
        self._inside[self._group[0]] = True
        self._given_up = np.zeros(self._size, np.bool_)
        self._blocked: list[tuple[Bools, bool]] = []

    @property
    def blocked(self) -> list[tuple[Bools, bool]]:
        """(side, upwards) of the cuts that no margin crosses."""
        return [(side[self._group], upwards) for side, upwards in self._blocked]

    def proved(self) -> Ints:
        """The nodes, in order, the ground first."""
        ground = np.flatnonzero(self._inside[self._group])
        order = [np.zeros(1, np.int64), ground[ground != 0]]
        tries = 0
        while not self._inside.all():
            up, down = self._from_inside()
            direct = ~self._inside & (np.minimum(up, down) >= MARGIN_UNITS)
            if direct.any():
                self._inside |= direct
                order.append(np.flatnonzero(direct[self._group]))
                continue
            self._give_up_hemmed_in(up, down)
            waiting = np.flatnonzero(~self._inside & ~self._given_up)
            if not len(waiting) or tries >= FLOWS_TRIED_MAX:
                break
            tries += 1
            node = int(waiting[np.argmax(np.minimum(up, down)[waiting])])
            if self._flows_to(node):
                self._inside[node] = True
                order.append(np.flatnonzero(self._group == node))
        return np.concatenate(order)

    def _from_inside(self) -> tuple[Ints, Ints]:
        out = self._inside[self._tail]
        back = self._inside[self._head]
        up = np.bincount(self._head[out], self._room[out], self._size)
        down = np.bincount(self._tail[back], self._room[back], self._size)
        return up.astype(np.int64), down.astype(np.int64)

    def _give_up_hemmed_in(self, up: Ints, down: Ints) -> None:
        """Those with edges to proved ones alone: what these carry is all there is."""
        elsewhere = np.bincount(self._head[~self._inside[self._tail]], minlength=self._size)
        alone = ~self._inside & ~self._given_up & (elsewhere == 0)
        for node in np.flatnonzero(alone).tolist():
            side = np.zeros(self._size, np.bool_)
            side[node] = True
            self._blocked.append((side, bool(up[node] <= down[node])))
        self._given_up |= alone

    def _flows_to(self, node: int) -> bool:
        """Whether the margin flows to the node and back; else the blocking cut is taken down."""
        # what fits both ways at once needs one search in place of two
        both = np.tile(self._room.reshape(2, -1).min(axis=0), 2)
        if self._blocking(node, both, upwards=True) is None:
            return True
        for upwards in (True, False):
            side = self._blocking(node, self._room, upwards=upwards)
            if side is not None:
                self._blocked.append((side, upwards))
                self._given_up |= side
                return False
        return True

    def _blocking(self, node: int, room: Ints, *, upwards: bool) -> Bools | None:
        """The side of a cut that the margin does not cross on its way to the node, or from it."""
        tail, head = (self._tail, self._head) if upwards else (self._head, self._tail)
        size, source = self._size, self._size
        inside = np.flatnonzero(self._inside)
        rows = np.r_[tail, np.full(len(inside), source)]
        columns = np.r_[head, inside]
        amounts = np.r_[room, np.full(len(inside), MARGIN_UNITS)]
        arcs = coo_array(
            (amounts.astype(np.int32), (rows, columns)), shape=(size + 1, size + 1)
        ).tocsr()
        found = maximum_flow(arcs, source, node)
        if found.flow_value >= MARGIN_UNITS:
            return None
        left = arcs - found.flow
        left.data = np.maximum(left.data, 0)
        left.eliminate_zeros()
        order = breadth_first_order(left, source, directed=True, return_predecessors=False)
        side = np.ones(size + 1, np.bool_)
        side[order] = False
        return side[:size]
