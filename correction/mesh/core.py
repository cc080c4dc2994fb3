# SPDX-License-Identifier: Apache-2.0
"""Trees stripped off: only what lies in loops needs a system of equations.

A clock that hangs on one edge follows from its parent: most hosts do. What remains when such clocks
are taken away again and again is the core. The reference is mostly a host, so it hangs too.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from correction.mesh.edges import Edges
from correction.mesh.reduction import Reduction, reduction
from correction.timebase import Bools, Float64s


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The part of a fabric that is connected to the reference, cut into core and trees."""

    reference: int
    connected: Bools
    """[node]: reached from the reference over any edges."""
    nodes: NDArray[np.int64]
    """Nodes of the core; the first is the one that the reference hangs on (or is)."""
    position: NDArray[np.int64]
    """[node]: index into `nodes`, -1 outside the core."""
    edges: NDArray[np.int64]
    """Edges of the core."""
    at_u: NDArray[np.int64]
    """Of each core edge: position of its end u."""
    at_v: NDArray[np.int64]
    tree_node: NDArray[np.int64]
    """Nodes of the trees, parents before children."""
    tree_edge: NDArray[np.int64]
    """The edge to each one's parent."""
    tree_sign: Float64s
    """+1: the node is the edge's end v."""
    tree_parent: NDArray[np.int64]
    attachment: NDArray[np.int64]
    """[node]: the core node that it hangs on; itself in the core; -1 if not connected."""
    parallel: bool
    """Some pair of nodes has several edges."""
    depth_groups: tuple[slice, ...]
    """Rows of the tree arrays whose parents all stand before them."""
    reduction: Reduction
    """What of the core needs no dense matrix."""


def split(edges: Edges, reference: int) -> Core:
    """Core and trees of the component that holds the reference."""
    n = edges.node_count
    ones = np.ones(len(edges), np.int8)
    graph = coo_array((ones, (edges.u, edges.v)), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    connected: Bools = label == label[reference]
    alive = connected[edges.u] & (edges.u != edges.v)
    rounds: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
    remaining = connected.copy()
    while True:
        degree = np.bincount(edges.u[alive], minlength=n)
        degree += np.bincount(edges.v[alive], minlength=n)
        hangs = remaining & (degree == 1)
        if not hangs.any():
            break
        rows = np.flatnonzero(alive & (hangs[edges.u] | hangs[edges.v]))
        # two nodes that hang on one another: one of them stays as the core
        child = np.where(hangs[edges.v[rows]], edges.v[rows], edges.u[rows])
        parent = np.where(hangs[edges.v[rows]], edges.u[rows], edges.v[rows])
        rounds.append((child, rows, parent))
        remaining[child] = False
        alive[rows] = False
    nodes = np.flatnonzero(remaining)
    position = np.full(n, -1, np.int64)
    empty = np.zeros(0, np.int64)
    rounds.reverse()
    tree_node = np.concatenate([empty, *(child for child, _, _ in rounds)])
    tree_edge = np.concatenate([empty, *(rows for _, rows, _ in rounds)])
    tree_parent = np.concatenate([empty, *(parent for _, _, parent in rounds)])
    sizes = np.cumsum([0, *(len(child) for child, _, _ in rounds)])
    groups = tuple(slice(a, b) for a, b in pairwise(sizes.tolist()))
    attachment = np.full(n, -1, np.int64)
    attachment[nodes] = nodes
    for group in groups:
        attachment[tree_node[group]] = attachment[tree_parent[group]]
    home = attachment[reference]
    nodes = np.r_[home, nodes[nodes != home]]
    position[nodes] = np.arange(len(nodes))
    inside = np.flatnonzero(alive)
    at_u, at_v = position[edges.u[inside]], position[edges.v[inside]]
    return Core(
        reference=reference,
        connected=connected,
        nodes=nodes,
        position=position,
        edges=inside,
        at_u=at_u,
        at_v=at_v,
        tree_node=tree_node,
        tree_edge=tree_edge,
        tree_sign=np.where(edges.v[tree_edge] == tree_node, 1.0, -1.0),
        tree_parent=tree_parent,
        attachment=attachment,
        parallel=_has_parallel(edges),
        depth_groups=groups,
        reduction=reduction(at_u, at_v, len(nodes)),
    )


def _has_parallel(edges: Edges) -> bool:
    pair = np.minimum(edges.u, edges.v) * edges.node_count + np.maximum(edges.u, edges.v)
    pair = np.sort(pair)
    return bool((pair[1:] == pair[:-1]).any())
