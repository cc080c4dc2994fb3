# SPDX-License-Identifier: Apache-2.0
"""Shortest paths between switches, weighted by what they can carry.

Pure. Used by `routing.py`, which makes routes of them.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TypeAlias

import networkx as nx

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
    macs = {switch.name: switch.mac for switch in fabric.switches}
    uplinks: dict[str, dict[str, list[tuple[Link, NextHop]]]] = {name: {} for name in macs}
    for link in links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.node in macs and far.node in macs:
                hop = next_hop(link, near.port, macs[far.node])
                uplinks[near.node].setdefault(far.node, []).append((link, hop))
    graph = switch_graph(fabric, links)
    hops: dict[str, dict[str, tuple[NextHop, ...]]] = {name: {} for name in macs}
    # Most targets of a switch are reached over the same neighbours: one tuple serves them all.
    over: dict[tuple[str, tuple[tuple[str, int], ...]], tuple[NextHop, ...]] = {}
    width = {
        name: {far: sum(hop.weight for _, hop in ways) for far, ways in by_far.items()}
        for name, by_far in uplinks.items()
    }
    for target in macs:
        distances = nx.single_source_shortest_path_length(graph, target)
        capacity = {target: UNLIMITED_MBPS}
        for name, distance in distances.items():  # nearest first
            if name == target:
                continue
            carried = tuple(
                (far, min(mbps, capacity[far]))
                for far, mbps in width[name].items()
                if distances[far] == distance - 1
            )
            capacity[name] = sum(mbps for _, mbps in carried)
            ways = over.get((name, carried))
            if ways is None:
                ways = tuple(
                    sorted(
                        _narrowed(link, hop, carried_mbps=mbps, width_mbps=width[name][far])
                        for far, mbps in carried
                        for link, hop in uplinks[name][far]
                    )
                )
                over[name, carried] = ways
            hops[name][target] = ways
    return hops


def _narrowed(link: Link, hop: NextHop, *, carried_mbps: int, width_mbps: int) -> NextHop:
    """The next hop with its part of what the switch behind it can carry."""
    if link.weight is not None or carried_mbps == width_mbps:
        return hop
    return replace(hop, weight=max(1, hop.weight * carried_mbps // width_mbps))
