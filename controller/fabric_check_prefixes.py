# SPDX-License-Identifier: Apache-2.0
"""What declared prefixes must satisfy: they do not overlap, and hold what is behind their switch.

Used by `fabric_check.py` only, over sound cabling.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise
from operator import itemgetter

from controller.fabric import Fabric, Host, Switch
from controller.fabric_check_telemetry import collector_paths
from controller.fabric_problem import ELSEWHERE, LINK_ENDS, SWITCH_NAMES, FabricProblem
from controller.fabric_telemetry import IpNetwork
from controller.yaml_positions import KeyPath


@dataclass(frozen=True, slots=True)
class _Attachment:
    """A switch that a host is cabled to."""

    switch: Switch
    needs: tuple[KeyPath, ...]
    """Where the switch and the link stand in the file."""


def check_prefixes(fabric: Fabric) -> Iterator[FabricProblem]:
    """Prefixes must not overlap, and hosts lie in a prefix of the switch they are cabled to."""
    attached = _attachments(fabric)
    overlaps = [
        *_overlaps("prefixes", [switch.prefixes for switch in fabric.switches]),
        *_overlaps("ipv6_prefixes", [switch.ipv6_prefixes for switch in fabric.switches]),
    ]
    yield from overlaps
    misplaced = [*_several_links(fabric, attached), *_outside_hosts(fabric, attached)]
    yield from misplaced
    if not overlaps:
        told = {problem.path for problem in misplaced}
        found = _elsewhere(fabric, attached)
        yield from (problem for problem in found if problem.path not in told)


def _attachments(fabric: Fabric) -> dict[str, list[_Attachment]]:
    """The switches that each host is cabled to."""
    places = {switch.name: place for place, switch in enumerate(fabric.switches)}
    attached: dict[str, list[_Attachment]] = {host.name: [] for host in fabric.hosts}
    for index, link in enumerate(fabric.links):
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if far.node in places and near.node in attached:
                place = places[far.node]
                needs: tuple[KeyPath, ...] = (
                    ("links", index, "a"),
                    ("links", index, "b"),
                    ("switches", place, "name"),
                )
                attached[near.node].append(_Attachment(fabric.switches[place], needs))
    return attached


def _several_links(
    fabric: Fabric, attached: dict[str, list[_Attachment]]
) -> Iterator[FabricProblem]:
    for index, host in enumerate(fabric.hosts):
        if len(attached[host.name]) < 2:
            continue
        ends = tuple(path for one in attached[host.name] for path in one.needs)
        for one in attached[host.name]:
            if one.switch.prefixes or one.switch.ipv6_prefixes:
                yield FabricProblem(
                    ("hosts", index, "ip"),
                    f"host {host.name} has several links, but {one.switch.name} declares prefixes; "
                    "expected none, so that every switch has a route to the host itself",
                    (*ends, ("hosts", index, "name")),
                )


def _outside_hosts(
    fabric: Fabric, attached: dict[str, list[_Attachment]]
) -> Iterator[FabricProblem]:
    """Hosts outside of their switch's prefixes; if that is all of them, the prefixes are wrong."""
    places = {switch.name: place for place, switch in enumerate(fabric.switches)}
    for key, section in (("ip", "prefixes"), ("ipv6", "ipv6_prefixes")):
        inside: dict[str, int] = {}
        outside: dict[str, list[FabricProblem]] = {}
        for index, host in enumerate(fabric.hosts):
            address = _address(host, key)
            if address is None or len(attached[host.name]) != 1:
                continue
            (one,) = attached[host.name]
            switch = one.switch
            prefixes: Sequence[IpNetwork] = switch.prefixes
            if key == "ipv6":
                prefixes = switch.ipv6_prefixes
            if not prefixes or any(address in prefix for prefix in prefixes):
                inside[switch.name] = inside.get(switch.name, 0) + 1
                continue
            listed = ", ".join(str(prefix) for prefix in prefixes)
            outside.setdefault(switch.name, []).append(
                FabricProblem(
                    ("hosts", index, key),
                    f"{address} is outside the prefixes of {switch.name}; "
                    f"expected an address in {listed}",
                    (*one.needs, ("switches", places[switch.name], section)),
                )
            )
        for name, problems in outside.items():
            if inside.get(name) or len(problems) < 2:
                yield from problems
                continue
            yield FabricProblem(
                ("switches", places[name], section),
                f"none of the {len(problems)} hosts cabled to {name} lies in them; "
                "expected the ranges of its hosts",
                tuple(path for problem in problems for path in problem.depends_on),
            )


def _address(host: Host, key: str) -> IPv4Address | IPv6Address | None:
    if key == "ip":
        return IPv4Address(host.ip)
    return None if host.ipv6 is None else IPv6Address(host.ipv6)


def _elsewhere(fabric: Fabric, attached: dict[str, list[_Attachment]]) -> Iterator[FabricProblem]:
    """What a switch declares as its own is behind that switch."""
    found: list[tuple[KeyPath, IPv4Address | IPv6Address, set[str]]] = []
    for index, host in enumerate(fabric.hosts):
        names = {one.switch.name for one in attached[host.name]}
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
                (
                    *LINK_ENDS,
                    *(("switches", "*", "prefixes"), SWITCH_NAMES),
                    *((*path[:-1], "name"), (*path[:-1], "attached")),
                ),
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
                f"{second[1]} overlaps {ELSEWHERE}; expected prefixes that do not",
                (first[0],),
                first[0],
            )
