# SPDX-License-Identifier: Apache-2.0
"""Rivals: other places for some clocks at which about as many edges agree.

The sum of absolute residuals is convex, and says what a small move costs. Far from the estimate it
is the number of edges in agreement that tells explanations apart. So clocks are moved to where an
edge that disagrees would agree; a neighbour that is left behind may follow, and so on, as long as
few edges are lost on the way. Where at most one edge fewer agrees in the end, one more bad edge
would be another explanation, and the clocks that moved against the ground are in doubt. The
estimate may lie between two explanations, and agree with fewer edges than either: then it is the
better one that rivals are compared with.

Two bad edges of one loop that cancel show no other way: the clock between them agrees with both
neighbours, and only if one of these has a rival, it has one by going along.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from correction.mesh.graph import Graph, Ints
from correction.timebase import Bools, Float64s

LOST_AT_END = 1
"""A rival leaves so many edges fewer in agreement, at most."""
LOST_ON_THE_WAY = 2
CLOCKS_MAX = 4
"""A rival moves no more."""
STATES_MAX = 2_000
"""Sets of moved clocks that are looked at, from one place."""
BETTER_PLACES_MAX = 16
"""How often more edges are sought before what is left is compared."""

Moves = dict[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """One other explanation."""

    nodes: Ints
    moves_ns: Float64s
    """How far each is moved; all others stay."""

    def in_doubt(self, graph: Graph) -> Bools:
        """[node]: moves against the ground."""
        moved = np.zeros(graph.size)
        moved[self.nodes] = self.moves_ns
        doubt: Bools = np.abs(moved - moved[0]) > graph.tolerance_ns.min(initial=np.inf)
        return doubt


def find_rivals(graph: Graph, theta_ns: Float64s) -> tuple[Rival, ...]:
    """Moves from `theta_ns`, those of few clocks first; only such that put more clocks in doubt."""
    found: list[Rival] = []
    doubt = np.zeros(graph.size, np.bool_)

    def record(moves: Moves) -> None:
        nodes, moves_ns = np.array(list(moves), np.int64), np.array(list(moves.values()))
        rival = Rival(nodes=nodes, moves_ns=moves_ns)
        more = rival.in_doubt(graph)
        if (more & ~doubt).any():
            doubt[more] = True
            found.append(rival)

    better: Moves = {}
    for rest in reversed(range(BETTER_PLACES_MAX)):
        here = theta_ns.copy()
        here[list(better)] += list(better.values())
        search = _Search(graph, here)
        states = search.states()
        gains = search.apart([one for one in states if one.lost_votes < 0])
        if not gains or not rest:
            for state in states:
                if max(state.lost, state.lost_votes) <= LOST_AT_END:
                    record(_added(better, state.moves))
            break
        for state in gains:
            better = _added(better, state.moves)
        record(better)
    return tuple(found)


def _added(moves: Moves, more: Moves) -> Moves:
    """One move after the other."""
    return {node: moves.get(node, 0.0) + more.get(node, 0.0) for node in {**moves, **more}}


@dataclass(frozen=True, slots=True)
class _Option:
    """One clock's move, and what it loses: edges in agreement, and their votes."""

    move_ns: float
    lost: int
    lost_votes: int


@dataclass(frozen=True, slots=True)
class _State:
    """Clocks that were moved, and what is lost in all; negative: gained."""

    moves: Moves
    lost: int
    lost_votes: int


class _Search:
    def __init__(self, graph: Graph, theta_ns: Float64s) -> None:
        self._graph = graph
        self._residual = graph.residual_ns(theta_ns)
        self._tolerance = graph.tolerance_ns
        self._votes = graph.votes
        self._agrees = np.abs(self._residual) <= self._tolerance
        node = np.r_[graph.v, graph.u]
        order = np.argsort(node, kind="stable")
        self._edges = order % max(len(graph.u), 1)
        self._start = np.searchsorted(node[order], np.arange(graph.size + 1))

    def states(self) -> list[_State]:
        """Sets of clocks that can move without losing much, those of few clocks first."""
        waiting: deque[_State] = deque()
        for node in self._beginnings():
            self._extend(waiting, _State({}, 0, 0), node)
        seen: dict[frozenset[tuple[int, int]], _State] = {}
        while waiting and len(seen) < STATES_MAX:
            state = waiting.popleft()
            key = frozenset((node, round(move)) for node, move in state.moves.items())
            if key in seen:
                continue
            seen[key] = state
            if len(state.moves) < CLOCKS_MAX:
                for node in self._left_behind(state.moves):
                    self._extend(waiting, state, node)
        return [state for state in seen.values() if self._may_be_bad(state.moves)]

    def _may_be_bad(self, moves: Moves) -> bool:
        """Between what moves and what stays, hardly more edges agree now than do not.

        A move of the size of tolerances leaves edges in agreement in both places. These must not
        make a rival of what many agree upon now.
        """
        edges = np.unique(np.concatenate([self._of(node) for node in moves]))
        shifted = self._residual[edges] - self._moved_residual(edges, moves)
        crossing = edges[np.abs(shifted) > self._tolerance[edges]]
        ends = np.stack([self._graph.u[edges], self._graph.v[edges]])
        outer = edges[np.isin(ends, list(moves)).sum(axis=0) == 1]
        crossing = np.union1d(crossing, outer)
        agrees, votes = self._agrees[crossing], self._votes[crossing]
        return int(votes[agrees].sum()) <= int(votes[~agrees].sum()) + LOST_AT_END

    def apart(self, states: list[_State]) -> list[_State]:
        """The best ones of which no two share an edge."""
        chosen: list[_State] = []
        touched: set[int] = set()
        for state in sorted(states, key=lambda one: (one.lost_votes, one.lost)):
            edges = {edge for node in state.moves for edge in self._of(node).tolist()}
            if not edges & touched:
                touched |= edges
                chosen.append(state)
        return chosen

    def _beginnings(self) -> list[int]:
        """Clocks with so many edges in disagreement that a move could lose few."""
        graph = self._graph
        ends = np.r_[graph.u, graph.v]
        kept = np.bincount(ends, np.tile(self._votes * self._agrees, 2), graph.size)
        gained = np.bincount(ends, np.tile(self._votes * ~self._agrees, 2), graph.size)
        found = (gained > 0) & (kept <= gained + LOST_ON_THE_WAY)
        nodes: list[int] = np.flatnonzero(found).tolist()
        return nodes

    def _extend(self, waiting: deque[_State], state: _State, node: int) -> None:
        for option in self._options(state.moves, node):
            lost, lost_votes = state.lost + option.lost, state.lost_votes + option.lost_votes
            if max(lost, lost_votes) <= LOST_ON_THE_WAY:
                moves = {**state.moves, node: option.move_ns}
                waiting.append(_State(moves, lost, lost_votes))

    def _options(self, moves: Moves, node: int) -> list[_Option]:
        """Places where some edge agrees that does not, best first of those near one another."""
        edges = self._of(node)
        graph = self._graph
        residual = self._moved_residual(edges, moves)
        # how far the clock itself would have to move for each edge to fit exactly
        wanted = np.where(graph.v[edges] == node, residual, -residual)
        slack, votes = self._tolerance[edges], self._votes[edges]
        within = np.abs(wanted) <= slack
        options: list[_Option] = []
        for move in wanted[~within].tolist():
            there = np.abs(wanted - move) <= slack
            lost = int(within.sum()) - int(there.sum())
            lost_votes = int(votes[within].sum()) - int(votes[there].sum())
            options.append(_Option(move, lost, lost_votes))
        options.sort(key=lambda one: (one.lost_votes, one.lost, abs(one.move_ns)))
        chosen: list[_Option] = []
        for one in options:
            near = float(slack.min())
            if all(abs(one.move_ns - other.move_ns) > near for other in chosen):
                chosen.append(one)
        return chosen

    def _left_behind(self, moves: Moves) -> list[int]:
        """Clocks that have not moved, at edges that agreed before and do not now."""
        graph = self._graph
        found: dict[int, None] = {}
        for node in moves:
            edges = self._of(node)
            broken = np.abs(self._moved_residual(edges, moves)) > self._tolerance[edges]
            for edge in edges[broken & self._agrees[edges]].tolist():
                other = int(graph.u[edge] if graph.v[edge] == node else graph.v[edge])
                if other not in moves:
                    found[other] = None
        return list(found)

    def _moved_residual(self, edges: Ints, moves: Moves) -> Float64s:
        graph = self._graph
        u, v = graph.u[edges].tolist(), graph.v[edges].tolist()
        shift = [moves.get(b, 0.0) - moves.get(a, 0.0) for a, b in zip(u, v, strict=True)]
        residual: Float64s = self._residual[edges] - np.array(shift)
        return residual

    def _of(self, node: int) -> Ints:
        """Edges at a node."""
        return self._edges[self._start[node] : self._start[node + 1]]
