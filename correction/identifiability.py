# SPDX-License-Identifier: Apache-2.0
"""Which clocks the data determine under the prior "fewer than half of every cut's links are bad".

A leaf with S uplinks tolerates ceil(S/2) - 1 bad ones: with half of a cut bad, moving the whole
side by the asymmetry explains the data as well (clocks.md 2.6). Groups of leaves and spines are
cuts too. The side away from the reference is flagged, hosts behind it included; if the
reference's own switch is cut off that way, everything else is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.timebase import Bools, Float64s

EXHAUSTIVE_NODES_MAX = 15
"""Up to 2^14 cuts are all checked; larger fabrics check single nodes and grown groups."""
GROW_NODES_MAX = 64
"""Largest group grown around bad links in large fabrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A violated cut: at least half of its links' weight or number is bad."""

    side: frozenset[int]
    """Clocks away from the reference (hosts behind them not listed)."""
    bad_links: tuple[int, ...]
    kept_links: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Links as pairs of clocks, with what the solve found."""

    ends: NDArray[np.int64]
    known: Bools
    bad: Bools
    weight: Float64s
    """1/sd: the weight of a link in an L1 fit."""
    clock_count: int
    reference: int


def loop_links(ends: NDArray[np.int64], known: Bools, clock_count: int) -> Bools:
    """Links that remain when hosts and other dead ends are stripped: only these lie in loops."""
    alive = known.copy()
    while True:
        degree = np.bincount(ends[alive].ravel(), minlength=clock_count)
        dead = alive & ((degree[ends[:, 0]] == 1) | (degree[ends[:, 1]] == 1))
        if not dead.any():
            return alive
        alive &= ~dead


def violated_cuts(graph: Graph) -> tuple[Cut, ...]:
    """Smallest sides whose cut is at least half bad, as far as searched."""
    core = loop_links(graph.ends, graph.known, graph.clock_count)
    if not (graph.bad & core).any():
        return ()
    nodes = np.unique(graph.ends[core])
    home = _attachment(graph, nodes)
    if len(nodes) <= EXHAUSTIVE_NODES_MAX:
        sides = _all_sides(nodes, home)
    else:
        sides = _grown_sides(graph, core, nodes, home)
    position = np.full(graph.clock_count, -1)
    position[nodes] = np.arange(len(nodes))
    links = np.flatnonzero(core)
    at_a, at_b = position[graph.ends[links, 0]], position[graph.ends[links, 1]]
    crossing = sides[:, at_a] != sides[:, at_b]
    bad = graph.bad[links]
    weight = graph.weight[links]
    counts = crossing.sum(axis=1)
    violated = (counts > 0) & (
        (2 * crossing[:, bad].sum(axis=1) >= counts)
        | (2 * crossing[:, bad] @ weight[bad] >= crossing @ weight)
    )
    adjacency = np.zeros((len(nodes), len(nodes)), np.bool_)
    adjacency[at_a, at_b] = adjacency[at_b, at_a] = True
    # only cuts into two connected parts count: others are unions of such cuts
    violated &= _connected(sides, adjacency) & _connected(~sides, adjacency)
    return _smallest(sides[violated], crossing[violated], nodes, links, bad)


def _connected(sides: Bools, adjacency: Bools) -> Bools:
    """Whether each side (a row of flags) hangs together."""
    first = np.argmax(sides, axis=1)
    seen = np.zeros_like(sides)
    seen[np.arange(len(sides)), first] = True
    steps = adjacency.astype(np.int32)
    while True:
        grown = seen | ((seen.astype(np.int32) @ steps > 0) & sides)
        if np.array_equal(grown, seen):
            result: Bools = np.all(seen == sides, axis=1)
            return result
        seen = grown


def flagged_clocks(graph: Graph, cuts: tuple[Cut, ...]) -> Bools:
    """Clocks on a violated side, and every clock reached only through them."""
    on_side = np.zeros(graph.clock_count, np.bool_)
    for cut in cuts:
        on_side[list(cut.side)] = True
    return ~reached(graph.ends, graph.known, graph.reference, graph.clock_count, blocked=on_side)


def reached(
    ends: NDArray[np.int64], usable: Bools, start: int, clock_count: int, *, blocked: Bools
) -> Bools:
    """Clocks connected to `start` by usable links without passing a blocked one."""
    seen = np.zeros(clock_count, np.bool_)
    seen[start] = True
    pairs = ends[usable]
    pairs = pairs[~(blocked[pairs[:, 0]] | blocked[pairs[:, 1]])]
    while True:
        touched = seen[pairs[:, 0]] != seen[pairs[:, 1]]
        if not touched.any():
            return seen
        seen[pairs[touched].ravel()] = True


def _attachment(graph: Graph, nodes: NDArray[np.int64]) -> int:
    """The core clock nearest to the reference: its switch, if the reference is a host."""
    seen = np.zeros(graph.clock_count, np.bool_)
    seen[graph.reference] = True
    pairs = graph.ends[graph.known]
    while not seen[nodes].any():
        touched = seen[pairs[:, 0]] != seen[pairs[:, 1]]
        if not touched.any():
            return int(nodes[0])  # the reference is not connected: any side is as good
        seen[pairs[touched].ravel()] = True
    return int(nodes[np.flatnonzero(seen[nodes])[0]])


def _all_sides(nodes: NDArray[np.int64], home: int) -> Bools:
    """Every subset of nodes without `home`, but the empty one: [side, node]."""
    others = np.flatnonzero(nodes != home)
    masks = np.arange(1, 2 ** len(others), dtype=np.int64)
    sides = np.zeros((len(masks), len(nodes)), np.bool_)
    sides[:, others] = (masks[:, None] >> np.arange(len(others))) & 1 == 1
    return sides


def _grown_sides(graph: Graph, core: Bools, nodes: NDArray[np.int64], home: int) -> Bools:
    """Single nodes, all but the reference's own, and groups grown where that lowers the margin."""
    links = np.flatnonzero(core)
    at = np.searchsorted(nodes, graph.ends[links])
    gain = np.where(graph.bad[links], -1.0, 1.0) * graph.weight[links]
    adjacency = np.zeros((len(nodes), len(nodes)))
    np.add.at(adjacency, (at[:, 0], at[:, 1]), gain)
    adjacency += adjacency.T
    margin_of_node = adjacency.sum(axis=1)
    home_at = int(np.searchsorted(nodes, home))
    sides = [np.eye(len(nodes), dtype=np.bool_)[np.arange(len(nodes)) != home_at]]
    sides.append((np.arange(len(nodes)) != home_at)[None, :])
    touched = np.unique(at[graph.bad[links]])
    for seed in touched.tolist():
        side = np.zeros(len(nodes), np.bool_)
        side[seed] = True
        for _ in range(GROW_NODES_MAX):
            change = margin_of_node - 2.0 * adjacency[:, side].sum(axis=1)
            change[side] = np.inf
            best = int(np.argmin(change))
            if change[best] >= 0.0:
                break
            side[best] = True
            sides.append((side if not side[home_at] else ~side)[None, :].copy())
    stacked = np.concatenate(sides)
    return stacked[stacked.any(axis=1)]


def _smallest(
    sides: Bools, crossing: Bools, nodes: NDArray[np.int64], links: NDArray[np.int64], bad: Bools
) -> tuple[Cut, ...]:
    """Keep the minimal ones, seen from either end of the cut."""
    if not len(sides):
        return ()
    both = np.concatenate([sides, ~sides])
    away = np.concatenate([np.ones(len(sides), np.bool_), np.zeros(len(sides), np.bool_)])
    source = np.tile(np.arange(len(sides)), 2)
    order = np.argsort(both.sum(axis=1), kind="stable")
    minimal: list[int] = []
    for row in order.tolist():
        if not any((both[row] | ~both[other]).all() for other in minimal):
            minimal.append(row)
    cuts = []
    for row in minimal:
        side = both[row] if away[row] else ~both[row]
        over = crossing[source[row]]
        cuts.append(
            Cut(
                side=frozenset(nodes[side].tolist()),
                bad_links=tuple(links[over & bad].tolist()),
                kept_links=tuple(links[over & ~bad].tolist()),
            )
        )
    return tuple(dict.fromkeys(cuts))
