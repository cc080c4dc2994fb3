# SPDX-License-Identifier: Apache-2.0
"""Shortest paths between switches, weighted by what they can carry.

Pure. Used by `routing.py`, which makes routes of them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import networkx as nx
import numpy as np
import numpy.typing as npt

from controller.fabric import Fabric, Link

MBPS_PER_GBPS = 1_000
UNLIMITED_MBPS = 1 << 62
"""More than any link: what a switch can carry to itself."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class NextHop:
    """A port of this switch and the MAC address at its other end."""

    port: int
    mac: int
    weight: int = 1
    """Share of the traffic, against the other next hops of the route: Mb/s, or as declared."""
    vlan: int = 0
    """802.1Q tag of the frames; 0: none."""


Paths: TypeAlias = dict[str, dict[str, tuple[NextHop, ...]]]
"""Switch, then target switch -> next hops by port; targets that are not reached are missing."""


def switch_graph(fabric: Fabric, links: Collection[Link]) -> "nx.Graph[str]":
    """The switches, joined by those of the links that join switches."""
    names = {switch.name for switch in fabric.switches}
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(switch.name for switch in fabric.switches)
    graph.add_edges_from(
        (link.a.node, link.b.node) for link in links if {link.a.node, link.b.node} <= names
    )
    return graph


def next_hop(link: Link, port: int, mac: int) -> NextHop:
    """The next hop over a link, weighted by the link alone."""
    return NextHop(port=port, mac=mac, weight=link_weight(link), vlan=link.vlan or 0)


def link_weight(link: Link) -> int:
    """A link's share before anything is known of the way behind it, Mb/s."""
    gbps = link.weight if link.weight is not None else link.speed_gbps
    return gbps * MBPS_PER_GBPS


def shortest_paths(fabric: Fabric, links: Collection[Link]) -> Paths:
    """Shortest paths, their next hops weighted by what the way behind them can carry (WCMP).

    What a switch can carry towards a target is the sum over its next switches of the links to each,
    or of what that one can carry if that is less. Only declared weights are taken as they are.
    """
    names = [switch.name for switch in fabric.switches]
    macs = {switch.name: switch.mac for switch in fabric.switches}
    uplinks: dict[str, dict[str, list[tuple[Link, NextHop]]]] = {name: {} for name in names}
    for link in links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.node in macs and far.node in macs:
                hop = next_hop(link, near.port, macs[far.node])
                uplinks[near.node].setdefault(far.node, []).append((link, hop))
    number = {name: index for index, name in enumerate(names)}
    neighbours = [_Neighbours.of(number, uplinks[name]) for name in names]
    distances = _distances(neighbours)
    capacity = np.zeros(distances.shape, np.int64)
    np.fill_diagonal(capacity, UNLIMITED_MBPS)
    for distance in range(1, int(distances.max(initial=0)) + 1):  # nearest first
        for row, around in enumerate(neighbours):
            targets = np.flatnonzero(distances[row] == distance)
            if len(targets):
                carried = around.carried(distances, capacity, targets, distance)
                capacity[row, targets] = carried.sum(axis=0)
    hops: dict[str, dict[str, tuple[NextHop, ...]]] = {name: {} for name in names}
    for row, (name, around) in enumerate(zip(names, neighbours, strict=True)):
        targets = np.flatnonzero(distances[row] > 0)
        carried = around.carried(distances, capacity, targets, distances[row, targets])
        # Most targets of a switch are reached over the same neighbours: one tuple serves them all.
        over: dict[bytes, tuple[NextHop, ...]] = {}
        for target, column in zip(targets, np.ascontiguousarray(carried.T), strict=True):
            key = column.tobytes()
            if key not in over:
                over[key] = tuple(
                    sorted(
                        _narrowed(link, hop, carried_mbps=mbps, width_mbps=width)
                        for far, mbps, width in zip(
                            around.rows.tolist(),
                            column.tolist(),
                            around.width.tolist(),
                            strict=True,
                        )
                        if mbps
                        for link, hop in uplinks[name][names[far]]
                    )
                )
            hops[name][names[target]] = over[key]
    return hops


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """The neighbours of one switch: their rows, and what the links to each carry, Mb/s."""

    rows: npt.NDArray[np.int64]
    width: npt.NDArray[np.int64]

    @classmethod
    def of(
        cls, number: Mapping[str, int], uplinks: Mapping[str, list[tuple[Link, NextHop]]]
    ) -> "_Neighbours":
        return cls(
            np.array([number[far] for far in uplinks], np.int64),
            np.array([sum(hop.weight for _, hop in ways) for ways in uplinks.values()], np.int64),
        )

    def carried(
        self,
        distances: npt.NDArray[np.int64],
        capacity: npt.NDArray[np.int64],
        targets: npt.NDArray[np.int64],
        distance: "int | npt.NDArray[np.int64]",
    ) -> npt.NDArray[np.int64]:
        """Mb/s by neighbour and target; 0 where no shortest path leads over the neighbour."""
        far = np.ix_(self.rows, targets)
        carried = np.minimum(self.width[:, None], capacity[far])
        return np.where(distances[far] == distance - 1, carried, 0)


def _distances(neighbours: Sequence[_Neighbours]) -> npt.NDArray[np.int64]:
    """Links from each switch to each; -1 where there is no way."""
    count = len(neighbours)
    joined = np.zeros((count, count), np.float32)
    for row, near in enumerate(neighbours):
        joined[row, near.rows] = 1
    distances = np.full((count, count), -1, np.int64)
    border = np.eye(count, dtype=np.float32)
    length = 0
    while border.any():
        distances[border > 0] = length
        length += 1
        border = ((border @ joined > 0) & (distances < 0)).astype(np.float32)
    return distances


def _narrowed(link: Link, hop: NextHop, *, carried_mbps: int, width_mbps: int) -> NextHop:
    """The next hop with its part of what the switch behind it can carry."""
    if link.weight is not None or carried_mbps == width_mbps:
        return hop
    return replace(hop, weight=max(1, hop.weight * carried_mbps // width_mbps))
