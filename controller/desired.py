# SPDX-License-Identifier: Apache-2.0
"""What every switch of a fabric must hold: a pure function of the fabric description.

Names of tables, actions and parameters are those of `p4src` (docs/p4.md); a test encodes the whole
of it with the compiled p4info.
"""

from collections.abc import Iterator, Sequence

from controller.entries import (
    NO_ACTION,
    ActionCall,
    CloneSession,
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
from controller.routing import AttachedHost, RouteTable, compute_routes
from controller.watchlist import watchlist_entries

ECMP_SELECTOR = "ecmp_selector"
ECMP_GROUP_SIZE_MAX = 64
"""`ECMP_GROUP_SIZE_MAX` of p4src."""
CLONE_SESSION_INGRESS = 1
"""Reports of a sink: the packet as it was received, with its INT stack."""
CLONE_SESSION_EGRESS = 2
"""Postcards: this node's own view of a packet."""
QUEUE_DEPTH_MAX = 0xFF_FFFF
MTU_BYTES_MAX = 0xFFFF


def desired_state(fabric: Fabric) -> dict[str, tuple[Entry, ...]]:
    """The desired entries of every switch, by name."""
    routes = compute_routes(fabric)
    return {
        switch.name: desired_entries(fabric, switch.name, routes=routes)
        for switch in fabric.switches
    }


def desired_entries(
    fabric: Fabric, switch_name: str, *, routes: RouteTable | None = None
) -> tuple[Entry, ...]:
    """The desired entries of one switch; `routes` spares the shortest paths for the next one."""
    switch = fabric.switch(switch_name)
    table = routes or compute_routes(fabric)
    return (
        *_routing(table, switch_name),
        *_classes(fabric),
        *_edge(table.attached[switch_name]),
        *watchlist_entries(fabric, [local.host for local in table.attached[switch_name]]),
        *_mtus(fabric, switch_name),
        *_defaults(fabric, switch),
        *_clone_sessions(switch),
    )


def _routing(routes: RouteTable, switch_name: str) -> Iterator[Entry]:
    """One member per port, one group per set of ports, and a table entry per prefix.

    A member's id is its port and a group's id is a node id, so that a change of the fabric
    changes the entries that it concerns and no others.
    """
    members: dict[int, Member] = {}
    groups: dict[int, Group] = {}
    entries: list[TableEntry] = []
    for route in routes.routes[switch_name]:
        for hop in route.next_hops:
            if hop.port not in members:
                members[hop.port] = Member(
                    profile=ECMP_SELECTOR,
                    member_id=hop.port,
                    action=ActionCall.of("forward", port=hop.port, dst_mac=hop.mac),
                )
        ports = tuple(hop.port for hop in route.next_hops)
        action: MemberRef | GroupRef
        if len(ports) == 1:
            action = MemberRef(ports[0])
        else:
            groups[route.group_node_id] = Group(
                profile=ECMP_SELECTOR,
                group_id=route.group_node_id,
                max_size=ECMP_GROUP_SIZE_MAX,
                members=tuple((port, 1) for port in ports),
            )
            action = GroupRef(route.group_node_id)
        destination = Lpm(int(route.prefix.network_address), route.prefix.prefixlen)
        entries.append(TableEntry.of("ipv4_lpm", {"dst_addr": destination}, action))
    yield from (members[port] for port in sorted(members))
    yield from (groups[group_id] for group_id in sorted(groups))
    yield from entries


def _classes(fabric: Fabric) -> Iterator[TableEntry]:
    """A class's marked DSCP gets the same queue, so that PFC and ECN treat both alike."""
    for traffic_class in fabric.qos.classes:
        queue = ActionCall.of("set_queue", queue_id=traffic_class.queue)
        yield TableEntry.of("qos_class", {"dscp": traffic_class.dscp}, queue)
        if traffic_class.marked_dscp is not None:
            yield TableEntry.of("qos_class", {"dscp": traffic_class.marked_dscp}, queue)
            yield TableEntry.of(
                "int_marked_dscp",
                {"dscp": traffic_class.marked_dscp},
                ActionCall.of("set_marked", unmarked_dscp=traffic_class.dscp),
            )
    for ecn in fabric.qos.ecn:
        yield TableEntry.of(
            "ecn_config",
            {"queue_id": ecn.queue},
            ActionCall.of("set_ecn_threshold", depth=ecn.threshold_packets),
        )


def _edge(attached: Sequence[AttachedHost]) -> Iterator[TableEntry]:
    for port in (local.port for local in attached):
        yield TableEntry.of(
            "int_edge_ports", {"ingress_port": port}, ActionCall.of("set_int_source_edge")
        )
        yield TableEntry.of("int_sink_ports", {"egress_port": port}, ActionCall.of("set_int_sink"))


def _mtus(fabric: Fabric, switch_name: str) -> Iterator[TableEntry]:
    for link in fabric.links:
        for end in (link.a, link.b):
            if end.node == switch_name and link.mtu_bytes is not None:
                yield TableEntry.of(
                    "int_egress_mtu",
                    {"egress_port": end.port},
                    ActionCall.of("set_mtu", mtu_bytes=link.mtu_bytes),
                )


def _defaults(fabric: Fabric, switch: Switch) -> Iterator[DefaultEntry]:
    """Every default that a switch has, so that one changed by somebody else shows as drift.

    `ipv4_lpm` has none: the program drops what has no route.
    """
    collector = fabric.collector
    actions = {
        "ecn_config": ActionCall.of("set_ecn_threshold", depth=QUEUE_DEPTH_MAX),
        "int_edge_ports": NO_ACTION,
        "int_egress_mtu": ActionCall.of("set_mtu", mtu_bytes=MTU_BYTES_MAX),
        "int_marked_dscp": NO_ACTION,
        "int_node": ActionCall.of(
            "set_int_node",
            node_id=switch.node_id,
            domain_specific_id=fabric.int_domain.domain_id,
        ),
        "int_sink_ports": NO_ACTION,
        "int_watchlist": NO_ACTION,
        "ptp_watchlist": NO_ACTION,
        "punt": NO_ACTION,
        "qos_class": ActionCall.of("set_queue", queue_id=fabric.qos.default_queue),
        "report_config": ActionCall.of(
            "set_report_config",
            collector_mac=collector.mac,
            collector_ip=collector.ip,
            switch_mac=switch.mac,
            switch_ip=switch.ip,
            udp_port=collector.udp_port,
            truncate_bytes=fabric.int_domain.truncate_bytes,
        ),
    }
    yield from (DefaultEntry(table=table, action=action) for table, action in actions.items())


def _clone_sessions(switch: Switch) -> Iterator[CloneSession]:
    for session_id in (CLONE_SESSION_INGRESS, CLONE_SESSION_EGRESS):
        yield CloneSession(session_id=session_id, replicas=((switch.report_port, 0),))
