# SPDX-License-Identifier: Apache-2.0
"""Which ports of a switch lead to which prefix: shortest paths, all of equal length together.

Pure. Hosts and collectors are leaves of the graph and never on a path between others. A link that
has failed takes its ports out of use but not out of their ECMP set, so that the flows of the other
ports stay where they are (`ecmp.py`).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

import networkx as nx

from controller.fabric import Collector, Fabric, Host, Link, Switch
from controller.fabric_telemetry import IpNetwork
from controller.paths import NextHop, Paths, next_hop, shortest_paths, switch_graph
from controller.ways import Way, to_nearest, way_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A destination prefix and the next hops that share its traffic, by port."""

    prefix: IpNetwork
    next_hops: tuple[NextHop, ...]
    group_node_id: int
    """Smallest node id of the switches that are usually reached over the same next hops: a number
    for the ECMP set that stays the same whatever fails."""
    failed_ports: tuple[int, ...] = ()
    """Ports of the next hops that lead there no more; never all of them."""
    apart: tuple[int, ...] = ()
    """What sets the destination apart from others of the ECMP set: ports behind which no shortest
    path goes on, because of a failure elsewhere. Of a way round: all of its failed ports, and 0;
    -1 where nothing leads there."""
    way_round: bool = False
    """None of the usual next hops leads there: these are all others of the switch."""
    collector: Collector | None = None
    """The collector that the only next hop leads straight to, if it is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedHost:
    """A host and the switch port that leads to it."""

    port: int
    host: Host
    link: Link


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTable:
    """Routes and hosts of every switch, by name, computed in one go over one fabric."""

    routes: dict[str, tuple[Route, ...]]
    attached: dict[str, tuple[AttachedHost, ...]]
    """Hosts cabled to the switch, by port."""
    tiers: dict[str, int]


def compute_routes(fabric: Fabric, failed_links: Collection[str] = ()) -> RouteTable:
    """Routes of all switches while the links of these names are down.

    A switch has a route for every host cabled to it and for every collector, and for every other
    switch that switch's prefixes, or host routes where it declares none.
    """
    unknown = set(failed_links) - {link.name for link in fabric.links}
    if unknown:
        raise ValueError(f"there is no link {min(unknown)}")
    attached = attached_hosts(fabric)
    usual = now = shortest_paths(fabric, fabric.links)
    up = [link for link in fabric.links if not link.drained and link.name not in failed_links]
    if len(up) < len(fabric.links):
        now = shortest_paths(fabric, up)
    prefixes = {
        switch.name: _served(fabric, switch, attached[switch.name]) for switch in fabric.switches
    }
    return RouteTable(
        routes={
            switch.name: _routes_of(fabric, switch, attached[switch.name], usual, now, prefixes)
            for switch in fabric.switches
        },
        attached=attached,
        tiers=tiers(fabric),
    )


def attached_hosts(fabric: Fabric) -> dict[str, tuple[AttachedHost, ...]]:
    """The hosts cabled to each switch, by port."""
    hosts = {host.name: host for host in fabric.hosts}
    found: dict[str, list[AttachedHost]] = {switch.name: [] for switch in fabric.switches}
    for link in fabric.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.node in found and far.node in hosts:
                found[near.node].append(
                    AttachedHost(port=near.port, host=hosts[far.node], link=link)
                )
    return {name: tuple(sorted(local, key=lambda one: one.port)) for name, local in found.items()}


def collector_ports(fabric: Fabric, switch: Switch) -> tuple[int, ...]:
    """Ports of the switch that lead straight to a collector, and so out of the fabric."""
    ports = set()
    for collector in fabric.collectors:
        if collector.attached is None:
            assert switch.report_port is not None, "checked with the file"
            ports.add(switch.report_port)
        elif collector.attached.node == switch.name:
            ports.add(collector.attached.port)
    return tuple(sorted(ports))


def tiers(fabric: Fabric) -> dict[str, int]:
    """The tier of each switch: as declared, else its distance from the nearest one with hosts.

    Switches of different tiers hash differently, so that flows which share a choice in one tier
    spread over all choices of the next.
    """
    graph = switch_graph(fabric, fabric.links)
    with_hosts = [name for name, local in attached_hosts(fabric).items() if local]
    distances = nx.multi_source_dijkstra_path_length(graph, set(with_hosts)) if with_hosts else {}
    return {
        switch.name: switch.tier if switch.tier is not None else int(distances.get(switch.name, 0))
        for switch in fabric.switches
    }


def _served(
    fabric: Fabric, switch: Switch, attached: tuple[AttachedHost, ...]
) -> tuple[IpNetwork, ...]:
    """What other switches route to this one."""
    served: list[IpNetwork] = list(switch.prefixes)
    if not switch.prefixes:
        served += [IPv4Network(local.host.ip) for local in attached]
    served += switch.ipv6_prefixes
    if not switch.ipv6_prefixes:
        served += [
            IPv6Network(local.host.ipv6) for local in attached if local.host.ipv6 is not None
        ]
    served += [
        IPv4Network(collector.ip)
        for collector in fabric.collectors
        if collector.attached is not None and collector.attached.node == switch.name
    ]
    return tuple(dict.fromkeys(served))


def _routes_of(
    fabric: Fabric,
    switch: Switch,
    attached: tuple[AttachedHost, ...],
    usual: Paths,
    now: Paths,
    prefixes: Mapping[str, tuple[IpNetwork, ...]],
) -> tuple[Route, ...]:
    routes = [*_local_routes(switch, attached), *_collector_routes(fabric, switch)]
    local = {route.prefix for route in routes}
    routes += [
        route
        for route in _remote_routes(fabric, switch.name, usual, now, prefixes)
        if route.prefix not in local
    ]
    return tuple(
        sorted(
            routes,
            key=lambda route: (
                route.prefix.version,
                int(route.prefix.network_address),
                route.prefix.prefixlen,
            ),
        )
    )


def _remote_routes(
    fabric: Fabric,
    name: str,
    usual: Paths,
    now: Paths,
    prefixes: Mapping[str, tuple[IpNetwork, ...]],
) -> Iterator[Route]:
    """Routes to what other switches serve; what several serve (a host with several links) is
    reached over all that are nearest."""
    servers: dict[IpNetwork, list[str]] = {}
    for target in usual[name]:
        for prefix in prefixes[target]:
            servers.setdefault(prefix, []).append(target)
    names = {switch.mac: switch.name for switch in fabric.switches}
    ways: dict[tuple[str, ...], Way] = {}
    sets: dict[tuple[str, ...], tuple[NextHop, ...]] = {}
    reached: dict[tuple[NextHop, ...], set[str]] = {}
    for targets in dict.fromkeys(tuple(targets) for targets in servers.values()):
        sets[targets] = to_nearest(name, targets, usual, names)
        reached.setdefault(sets[targets], set()).update(targets)
        ways[targets] = Way(next_hops=sets[targets])
        if now is not usual:
            ways[targets] = way_of(fabric, name, targets, usual, now, names)
    numbers = _group_node_ids(fabric, reached)
    for prefix, served_by in servers.items():
        targets = tuple(served_by)
        way = ways[targets]
        yield Route(
            prefix=prefix,
            next_hops=way.next_hops,
            group_node_id=numbers[sets[targets]],
            failed_ports=way.failed_ports,
            apart=way.apart,
            way_round=way.way_round,
        )


def _group_node_ids(
    fabric: Fabric, reached: Mapping[tuple[NextHop, ...], set[str]]
) -> dict[tuple[NextHop, ...], int]:
    """A node id for each set: the smallest that it leads to and that no other set has taken.

    Two sets contend only where hosts have several links; a set that finds all of its own taken gets
    one that leads nowhere else.
    """
    node_ids = {switch.name: switch.node_id for switch in fabric.switches}
    numbers: dict[tuple[NextHop, ...], int] = {}
    taken: set[int] = set()
    # those with fewest targets have the least choice
    for ecmp_set, targets in sorted(
        reached.items(), key=lambda one: (len(one[1]), min(node_ids[name] for name in one[1]))
    ):
        own = sorted(node_ids[target] for target in targets)
        spare = sorted(node_ids.values())
        number = next((one for one in (*own, *spare) if one not in taken), None)
        if number is None:
            raise ValueError(f"more than {len(spare)} ECMP sets on one switch")
        numbers[ecmp_set] = number
        taken.add(number)
    return numbers


def _local_routes(switch: Switch, attached: tuple[AttachedHost, ...]) -> list[Route]:
    routes = []
    for local in attached:
        addresses: list[IpNetwork] = [IPv4Network(local.host.ip)]
        if local.host.ipv6 is not None:
            addresses.append(IPv6Network(local.host.ipv6))
        routes += [
            Route(
                prefix=address,
                next_hops=(next_hop(local.link, local.port, local.host.mac),),
                group_node_id=switch.node_id,
            )
            for address in addresses
        ]
    return routes


def _collector_routes(fabric: Fabric, switch: Switch) -> list[Route]:
    """Collectors that this switch reaches without another one: out of band, or cabled to it."""
    routes = []
    for collector in fabric.collectors:
        if collector.attached is None:
            assert switch.report_port is not None, "checked with the file"
            port = switch.report_port
        elif collector.attached.node == switch.name:
            port = collector.attached.port
        else:
            continue
        routes.append(
            Route(
                prefix=IPv4Network(collector.ip),
                next_hops=(NextHop(port=port, mac=collector.mac),),
                group_node_id=switch.node_id,
                collector=collector,
            )
        )
    return routes
