# SPDX-License-Identifier: Apache-2.0
"""What declared prefixes must satisfy: they do not overlap, and hold what is behind their switch.

Used by `fabric_check.py` only, over sound cabling.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise
from operator import itemgetter

from controller.fabric import Fabric, Switch
from controller.fabric_check_telemetry import collector_paths
from controller.fabric_problem import FabricProblem
from controller.fabric_telemetry import IpNetwork
from controller.yaml_positions import KeyPath, format_key


def check_prefixes(fabric: Fabric) -> Iterator[FabricProblem]:
    """Prefixes must not overlap, and hosts lie in a prefix of the switch they are cabled to."""
    switches = {switch.name: switch for switch in fabric.switches}
    attached: dict[str, list[Switch]] = {}
    for link in fabric.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if far.node in switches and near.node not in switches:
                attached.setdefault(near.node, []).append(switches[far.node])
    yield from _overlaps("prefixes", [switch.prefixes for switch in fabric.switches])
    yield from _overlaps("ipv6_prefixes", [switch.ipv6_prefixes for switch in fabric.switches])
    yield from _elsewhere(fabric, attached)
    for index, host in enumerate(fabric.hosts):
        for switch in attached[host.name]:
            path: KeyPath = ("hosts", index, "ip")
            if len(attached[host.name]) > 1 and (switch.prefixes or switch.ipv6_prefixes):
                yield FabricProblem(
                    path,
                    f"host {host.name} has several links, but {switch.name} declares prefixes; "
                    "expected none, so that every switch has a route to the host itself",
                )
                continue
            yield from _outside(path, IPv4Address(host.ip), switch, switch.prefixes)
            if host.ipv6 is not None:
                address = IPv6Address(host.ipv6)
                yield from _outside(("hosts", index, "ipv6"), address, switch, switch.ipv6_prefixes)


def _elsewhere(fabric: Fabric, attached: dict[str, list[Switch]]) -> Iterator[FabricProblem]:
    """What a switch declares as its own is behind that switch."""
    found: list[tuple[KeyPath, IPv4Address | IPv6Address, set[str]]] = []
    for index, host in enumerate(fabric.hosts):
        names = {switch.name for switch in attached[host.name]}
        found.append((("hosts", index, "ip"), IPv4Address(host.ip), names))
        if host.ipv6 is not None:
            found.append((("hosts", index, "ipv6"), IPv6Address(host.ipv6), names))
    for path, collector in zip(collector_paths(fabric), fabric.collectors, strict=True):
        end = collector.attached
        names = set() if end is None else {end.node}
        found.append(((*path, "ip"), IPv4Address(collector.ip), names))
    # Prefixes do not overlap: what an address can be in is the last one that starts before it.
    starts: dict[int, list[tuple[int, IpNetwork, str]]] = {
        version: sorted(
            ((int(prefix.network_address), prefix, switch.name) for prefix, switch in of_version),
            key=itemgetter(0),
        )
        for version, of_version in (
            (4, [(p, s) for s in fabric.switches for p in s.prefixes]),
            (6, [(p, s) for s in fabric.switches for p in s.ipv6_prefixes]),
        )
    }
    for path, address, names in found:
        declared = starts[address.version]
        place = bisect_right(declared, int(address), key=itemgetter(0)) - 1
        if place < 0:
            continue
        _, prefix, name = declared[place]
        if name not in names and address in prefix:
            yield FabricProblem(
                path,
                f"{address} is in a prefix of {name}, but not cabled to it; "
                "expected an address outside",
            )


def _overlaps(key: str, prefixes: Sequence[Sequence[IpNetwork]]) -> Iterator[FabricProblem]:
    declared = sorted(
        (int(prefix.network_address), prefix.prefixlen, ("switches", index, key, position), prefix)
        for index, of_switch in enumerate(prefixes)
        for position, prefix in enumerate(of_switch)
    )
    for (_, _, before_path, before), (_, _, path, prefix) in pairwise(declared):
        if prefix.network_address in before:  # sorted: a prefix overlaps its neighbour if any
            first, second = sorted(((before_path, str(before)), (path, str(prefix))))
            yield FabricProblem(
                second[0],
                f"{second[1]} overlaps {format_key(first[0])}; expected prefixes that do not",
            )


def _outside(
    path: KeyPath,
    address: IPv4Address | IPv6Address,
    switch: Switch,
    prefixes: Sequence[IpNetwork],
) -> Iterator[FabricProblem]:
    if prefixes and not any(address in prefix for prefix in prefixes):
        listed = ", ".join(str(prefix) for prefix in prefixes)
        yield FabricProblem(
            path,
            f"{address} is outside the prefixes of {switch.name}; expected an address in {listed}",
        )
