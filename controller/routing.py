# SPDX-License-Identifier: Apache-2.0
"""Which ports of a switch lead to which prefix: shortest paths, all of equal length together.

Pure. Hosts are leaves of the graph and never on a path between others.
"""

from collections import defaultdict
from dataclasses import dataclass
from ipaddress import IPv4Network

import networkx as nx

from controller.fabric import Fabric, Host, cabling


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class NextHop:
    """A port of this switch and the MAC address at its other end."""

    port: int
    mac: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A destination prefix and the next hops that share its traffic, by port."""

    prefix: IPv4Network
    next_hops: tuple[NextHop, ...]
    group_node_id: int
    """Smallest node id of the switches that are reached over exactly these next hops: a number for
    the ECMP set that stays the same while other destinations come, go or change their paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedHost:
    """A host and the switch port that leads to it."""

    port: int
    host: Host


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTable:
    """Routes and hosts of every switch, by name, computed in one go over one fabric."""

    routes: dict[str, tuple[Route, ...]]
    attached: dict[str, tuple[AttachedHost, ...]]
    """Hosts cabled to the switch, by port."""


def compute_routes(fabric: Fabric) -> RouteTable:
    """Routes of all switches.

    A switch has a /32 for every host cabled to it, and for every other switch that switch's
    prefixes, or /32 routes to its hosts where it declares none.
    """
    ends = cabling(fabric)
    macs = {node.name: node.mac for node in fabric.nodes}
    node_ids = {switch.name: switch.node_id for switch in fabric.switches}
    hosts = {host.name: host for host in fabric.hosts}

    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(node_ids)
    # Ports of each switch that lead to another switch, and the hosts cabled to it.
    uplinks: dict[str, dict[str, list[NextHop]]] = defaultdict(lambda: defaultdict(list))
    attached: dict[str, list[AttachedHost]] = defaultdict(list)
    for near, far in sorted(ends.items()):
        if near.node not in node_ids:
            continue
        hop = NextHop(port=near.port, mac=macs[far.node])
        if far.node in node_ids:
            graph.add_edge(near.node, far.node)
            uplinks[near.node][far.node].append(hop)
        else:
            attached[near.node].append(AttachedHost(port=near.port, host=hosts[far.node]))

    sets: dict[str, dict[str, tuple[NextHop, ...]]] = defaultdict(dict)
    for target in fabric.switches:
        distances = nx.single_source_shortest_path_length(graph, target.name)
        for name, distance in distances.items():
            if name != target.name:
                sets[name][target.name] = tuple(
                    sorted(
                        hop
                        for neighbour, hops in uplinks[name].items()
                        if distances[neighbour] == distance - 1
                        for hop in hops
                    )
                )
    prefixes = {
        switch.name: switch.prefixes
        or tuple(IPv4Network(local.host.ip) for local in attached[switch.name])
        for switch in fabric.switches
    }
    return RouteTable(
        routes={
            switch.name: _routes_of(
                switch.node_id, attached[switch.name], sets[switch.name], prefixes, node_ids
            )
            for switch in fabric.switches
        },
        attached={switch.name: tuple(attached[switch.name]) for switch in fabric.switches},
    )


def _routes_of(
    node_id: int,
    attached: list[AttachedHost],
    sets: dict[str, tuple[NextHop, ...]],
    prefixes: dict[str, tuple[IPv4Network, ...]],
    node_ids: dict[str, int],
) -> tuple[Route, ...]:
    group_node_id: dict[tuple[NextHop, ...], int] = {}
    for target, next_hops in sets.items():
        if prefixes[target]:
            first = group_node_id.get(next_hops, node_ids[target])
            group_node_id[next_hops] = min(first, node_ids[target])
    routes = [
        Route(
            prefix=IPv4Network(local.host.ip),
            next_hops=(NextHop(port=local.port, mac=local.host.mac),),
            group_node_id=node_id,
        )
        for local in attached
    ]
    routes += [
        Route(prefix=prefix, next_hops=next_hops, group_node_id=group_node_id[next_hops])
        for target, next_hops in sets.items()
        for prefix in prefixes[target]
    ]
    return tuple(sorted(routes, key=lambda route: route.prefix))
