# SPDX-License-Identifier: Apache-2.0
"""Routes as entries: members, groups and prefixes of the ECMP selector, and its hash.

Pure. Ids are chosen so that a change of the fabric changes the entries that it concerns and no
others: a port's member is numbered by the port, a collector's by its destination id, and a group
by a node id; bucket i of group g is member g * 64 + i (`ecmp.py`). A port of the switch itself
that fails has buckets rewritten; a link that fails elsewhere moves the routes it concerns
to a group of their own, and back.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from controller.ecmp import (
    BUCKET_COUNT_MAX,
    COLLECTOR_MEMBER_ID_BASE,
    apart_group_ids,
    bucket_member_id,
    buckets_in_use,
    group_ids,
)
from controller.entries import (
    ActionCall,
    DefaultEntry,
    Entry,
    Group,
    GroupRef,
    Lpm,
    Member,
    MemberRef,
    TableEntry,
)
from controller.fabric import Fabric, Switch
from controller.fabric_telemetry import IpNetwork
from controller.paths import NextHop
from controller.routing import Route, RouteTable

ECMP_SELECTOR = "ecmp_selector"
GROUP_COUNT_MAX = 1_024
"""Groups whose members are remembered: the switches of a tier have many in common."""
ROUTE_COUNT_MAX = 8_192
"""The same for routes."""


def held_ports(entries: Iterable[Entry]) -> dict[int, int]:
    """Where the members that a switch holds lead: port by member id."""
    return {
        entry.member_id: value
        for entry in entries
        if isinstance(entry, Member)
        for name, value in entry.action.params
        if name == "port"
    }


def route_entries(fabric: Fabric, table: RouteTable, switch_name: str) -> Iterator[Entry]:
    """Members, groups, then one table entry per prefix."""
    ids = _group_ids(fabric, table.routes[switch_name])
    members: dict[int, Member] = {}
    groups: dict[int, Group] = {}
    entries: list[TableEntry] = []
    for route in table.routes[switch_name]:
        action: MemberRef | GroupRef
        if len(route.next_hops) == 1:
            member = _single_member(route)
            members[member.member_id] = member
            action = MemberRef(member.member_id)
        else:
            group_id = ids[_group_content(route)]
            if group_id not in groups:
                buckets = _bucket_members(
                    route.next_hops, route.failed_ports, group_id, fabric.ecmp.buckets
                )
                members.update(buckets)
                groups[group_id] = Group(
                    profile=ECMP_SELECTOR,
                    group_id=group_id,
                    max_size=BUCKET_COUNT_MAX,
                    members=tuple((member_id, 1) for member_id in buckets),
                )
            action = GroupRef(group_id)
        entries.append(_route_entry(route.prefix, action))
    yield from (members[member_id] for member_id in sorted(members))
    yield from (groups[group_id] for group_id in sorted(groups))
    yield from entries


@lru_cache(maxsize=ROUTE_COUNT_MAX)
def _route_entry(prefix: IpNetwork, action: MemberRef | GroupRef) -> TableEntry:
    name = "ipv4_lpm" if prefix.version == 4 else "ipv6_lpm"
    destination = Lpm(int(prefix.network_address), prefix.prefixlen)
    return TableEntry.of(name, {"dst_addr": destination}, action)


def _group_content(route: Route) -> tuple[int, ...]:
    """What tells the route's group from the others of its switch, its own failed ports aside."""
    return (route.group_node_id, *((int(route.way_round), *route.apart) if route.apart else ()))


def _group_ids(fabric: Fabric, routes: Sequence[Route]) -> dict[tuple[int, ...], int]:
    by_node = group_ids({switch.node_id for switch in fabric.switches})
    contents = {_group_content(route) for route in routes if len(route.next_hops) > 1}
    usual = {content for content in contents if len(content) == 1}
    return {content: by_node[content[0]] for content in usual} | apart_group_ids(contents - usual)


def ecmp_default(fabric: Fabric, switch: Switch, tiers: Mapping[str, int]) -> DefaultEntry:
    """The switch's hash: its tier is what makes it independent of the tier before.

    The node id goes into the seed, for the second pass through a tier on the way down.
    """
    return DefaultEntry(
        table="ecmp_config",
        action=ActionCall.of(
            "set_ecmp_config",
            tier=tiers[switch.name],
            seed=(fabric.ecmp.seed + switch.node_id) & 0xFFFF_FFFF,
            hash_flow_label=int(fabric.ecmp.hash_flow_label),
        ),
    )


def _single_member(route: Route) -> Member:
    (hop,) = route.next_hops
    member_id = hop.port
    if route.collector is not None:
        member_id = COLLECTOR_MEMBER_ID_BASE + route.collector.destination_id
    return Member(profile=ECMP_SELECTOR, member_id=member_id, action=_forward(hop))


@lru_cache(maxsize=GROUP_COUNT_MAX)
def _bucket_members(
    next_hops: tuple[NextHop, ...], failed_ports: tuple[int, ...], group_id: int, bucket_count: int
) -> Mapping[int, Member]:
    """The members of a group, by id: one per bucket, whether or not a port has failed."""
    hops = {hop.port: hop for hop in next_hops}
    weights = {port: hop.weight for port, hop in hops.items()}
    usable = weights.keys() - set(failed_ports)
    return {
        member_id: Member(profile=ECMP_SELECTOR, member_id=member_id, action=_forward(hops[port]))
        for bucket, port in enumerate(buckets_in_use(weights, usable, bucket_count))
        for member_id in (bucket_member_id(group_id, bucket),)
    }


def _forward(hop: NextHop) -> ActionCall:
    if hop.vlan:
        return ActionCall.of("forward_vlan", port=hop.port, dst_mac=hop.mac, vlan_id=hop.vlan)
    return ActionCall.of("forward", port=hop.port, dst_mac=hop.mac)
