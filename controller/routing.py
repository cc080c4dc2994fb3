# SPDX-License-Identifier: Apache-2.0
"""Which ports of a switch lead to which prefix: shortest paths, all of equal length together.

Pure. Hosts and collectors are leaves of the graph and never on a path between others. A link that
has failed takes its ports out of use but not out of their ECMP set, so that the flows of the other
ports stay where they are (`ecmp.py`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
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
    """Routes and hosts of every switch, by name."""

    routes: Mapping[str, tuple[Route, ...]]
    """Those of a switch are computed when they are asked for."""
    attached: dict[str, tuple[AttachedHost, ...]]
    """Hosts cabled to the switch, by port."""
    tiers: dict[str, int]
    usual: Paths
    """Shortest paths with all links up."""


def compute_routes(
    fabric: Fabric, failed_links: Collection[str] = (), *, usual: Paths | None = None
) -> RouteTable:
    """Routes of all switches while the links of these names are down.

    A switch has a route for every host cabled to it and for every collector, and for every other
    switch that switch's prefixes, or host routes where it declares none.
    usual: those of an earlier table of the same fabric, to spare computing them.
    """
    unknown = set(failed_links) - {link.name for link in fabric.links}
    if unknown:
        raise ValueError(f"there is no link {min(unknown)}")
    attached = attached_hosts(fabric)
    usual = now = usual or shortest_paths(fabric, fabric.links)
    up = [link for link in fabric.links if not link.drained and link.name not in failed_links]
    if len(up) < len(fabric.links):
        now = shortest_paths(fabric, up)
    return RouteTable(
        routes=_Routes(fabric, attached, usual, now),
        attached=attached,
        tiers=tiers(fabric),
        usual=usual,
    )


class _Routes(Mapping[str, tuple[Route, ...]]):
    """The routes of each switch, computed at the first look."""

    def __init__(
        self,
        fabric: Fabric,
        attached: Mapping[str, tuple[AttachedHost, ...]],
        usual: Paths,
        now: Paths,
    ) -> None:
        self._fabric = fabric
        self._attached = attached
        self._usual = usual
        self._now = now
        self._switches = {switch.name: switch for switch in fabric.switches}
        self._found: dict[str, tuple[Route, ...]] = {}
        servers: dict[IpNetwork, list[str]] = {}
        for switch in fabric.switches:
            for prefix in _served(fabric, switch, attached[switch.name]):
                servers.setdefault(prefix, []).append(switch.name)
        self._served_by: dict[tuple[str, ...], list[IpNetwork]] = {}
        for prefix, targets in servers.items():
            self._served_by.setdefault(tuple(targets), []).append(prefix)

    def __getitem__(self, name: str) -> tuple[Route, ...]:
        if name not in self._found:
            switch = self._switches[name]
            routes = [
                *_local_routes(switch, self._attached[name]),
                *_collector_routes(self._fabric, switch),
            ]
            local = {route.prefix for route in routes}
            remote = _remote_routes(self._fabric, name, self._usual, self._now, self._served_by)
            routes += [route for route in remote if route.prefix not in local]
            self._found[name] = tuple(sorted(routes, key=_by_prefix))
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._switches)

    def __len__(self) -> int:
        return len(self._switches)


def _by_prefix(route: Route) -> tuple[int, int, int]:
    prefix = route.prefix
    return (prefix.version, int(prefix.network_address), prefix.prefixlen)


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


def _remote_routes(
    fabric: Fabric,
    name: str,
    usual: Paths,
    now: Paths,
    served_by: Mapping[tuple[str, ...], Sequence[IpNetwork]],
) -> Iterator[Route]:
    """Routes to what other switches serve; what several serve (a host with several links) is
    reached over all that are nearest."""
    names = {switch.mac: switch.name for switch in fabric.switches}
    reachable = usual[name]
    served = [
        (left, prefixes)
        for targets, prefixes in served_by.items()
        if (left := tuple(target for target in targets if target in reachable))
    ]
    sets = [to_nearest(name, targets, usual, names) for targets, _ in served]
    # Most of the sets are one and the same object, and hashing one takes long.
    objects = {id(hops): hops for hops in sets}
    values: dict[tuple[NextHop, ...], int] = {}
    places = {number: values.setdefault(hops, len(values)) for number, hops in objects.items()}
    reached: list[set[str]] = [set() for _ in values]
    for hops, (targets, _) in zip(sets, served, strict=True):
        reached[places[id(hops)]].update(targets)
    numbers = _group_node_ids(fabric, reached)
    same = _Same(name, usual, now)
    for hops, (targets, prefixes) in zip(sets, served, strict=True):
        way = Way(next_hops=hops)
        if not same.next_hops(targets):
            way = way_of(fabric, name, targets, usual, now, names)
        for prefix in prefixes:
            yield Route(
                prefix=prefix,
                next_hops=way.next_hops,
                group_node_id=numbers[places[id(hops)]],
                failed_ports=way.failed_ports,
                apart=way.apart,
                way_round=way.way_round,
            )


class _Same:
    """Whether failures have left the next hops of a switch as they are. Most targets of a switch
    share one tuple, so few of them are compared."""

    def __init__(self, name: str, usual: Paths, now: Paths) -> None:
        self._is_all = now is usual
        self._usual, self._now = usual[name], now[name]
        self._compared: dict[tuple[int, int], bool] = {}

    def next_hops(self, targets: Sequence[str]) -> bool:
        """To what one switch serves; of several switches distances count as well."""
        if self._is_all or len(targets) > 1:
            return self._is_all
        before, after = self._usual.get(targets[0]), self._now.get(targets[0])
        key = (id(before), id(after))
        if key not in self._compared:
            self._compared[key] = before == after
        return self._compared[key]


def _group_node_ids(fabric: Fabric, reached: Sequence[set[str]]) -> list[int]:
    """A node id for each set of what it leads to: the smallest that no other set has taken.

    Two sets contend only where hosts have several links; a set that finds all of its own taken gets
    one that leads nowhere else.
    """
    node_ids = {switch.name: switch.node_id for switch in fabric.switches}
    spare = sorted(node_ids.values())
    numbers = [0] * len(reached)
    taken: set[int] = set()
    owned = [sorted(node_ids[target] for target in targets) for targets in reached]
    # those with fewest targets have the least choice
    for index in sorted(range(len(owned)), key=lambda one: (len(owned[one]), owned[one][0])):
        own = owned[index]
        number = next((one for one in (*own, *spare) if one not in taken), None)
        if number is None:
            raise ValueError(f"more than {len(spare)} ECMP sets on one switch")
        numbers[index] = number
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
