# SPDX-License-Identifier: Apache-2.0
"""What every switch of a fabric must hold: a pure function of the fabric description.

Names of tables, actions and parameters are those of `p4src` (docs/p4.md); a test encodes the whole
of it with the compiled p4info. Each group of tables has a file: routes in `route_entries.py`,
what to instrument in `watchlist.py`, reports in `report_entries.py`, PTP in `ptp_entries.py`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

from controller.entries import (
    NO_ACTION,
    ActionCall,
    DefaultEntry,
    Entry,
    MatchValue,
    TableEntry,
    Ternary,
)
from controller.fabric import Fabric, Switch
from controller.fabric_telemetry import (
    IP_ETHER_TYPES,
    PROTOCOL_ICMPV6,
    PROTOCOLS_WITH_PORTS,
    PuntRule,
)
from controller.link_mtu import MtuTable
from controller.ptp_entries import clock_default, ethernet_ptp_entries, link_delay_entries
from controller.report_entries import (
    clone_sessions,
    prefix_match,
    report_defaults,
    report_entries,
)
from controller.route_entries import ecmp_default, route_entries
from controller.routing import AttachedHost, RouteTable, collector_ports, compute_routes
from controller.watchlist import watchlist_entries

LinkDelays = Mapping[str, Mapping[int, int]]
"""Switch -> ingress port -> 2^-16 ns that a transparent clock adds for the cable it came over."""

LINK_DELAY_TABLE = "ptp_link_delay"
QUEUE_DEPTH_MAX = 0xFF_FFFF
MTU_BYTES_MAX = 0xFFFF
NO_INTERFACE = 0xFFFF_FFFF
"""INT's mark for a level 2 interface that is not known."""
PRIORITY_PUNT = 1_000
"""The first rule of the file; the others follow below in order."""

_U8, _U16 = 0xFF, 0xFFFF


def desired_state(
    fabric: Fabric,
    *,
    link_delays: LinkDelays | None = None,
    failed_links: Collection[str] = (),
) -> dict[str, tuple[Entry, ...]]:
    """The desired entries of every switch, by name.

    link_delays: see `desired_entries`. failed_links: names of links that are down.
    """
    routes = compute_routes(fabric, failed_links)
    mtus = MtuTable(fabric)
    return {
        switch.name: desired_entries(
            fabric, switch.name, routes=routes, link_delays=link_delays, mtus=mtus
        )
        for switch in fabric.switches
    }


def desired_entries(
    fabric: Fabric,
    switch_name: str,
    *,
    routes: RouteTable | None = None,
    link_delays: LinkDelays | None = None,
    mtus: MtuTable | None = None,
) -> tuple[Entry, ...]:
    """The desired entries of one switch.

    routes: spares the shortest paths, or has been computed with failed links.
    link_delays: what the correction has found; not part of the file, since it changes by itself.
    mtus: spares a look through the file.
    """
    switch = fabric.switch(switch_name)
    table = routes or compute_routes(fabric)
    attached = table.attached[switch_name]
    delays = (link_delays or {}).get(switch_name, {})
    return (
        *route_entries(fabric, table, switch_name),
        *_classes(fabric),
        *_edge(fabric, switch, attached),
        *_punt(fabric),
        *watchlist_entries(fabric, [local.host for local in attached]),
        *_mtus(mtus or MtuTable(fabric), switch_name),
        *_interfaces(switch),
        *report_entries(fabric, switch),
        *ethernet_ptp_entries(fabric, switch),
        *link_delay_entries(fabric.model_of(switch), switch, delays),
        *_defaults(fabric, switch),
        *report_defaults(fabric, switch),
        ecmp_default(fabric, switch, table.tiers),
        clock_default(fabric, switch),
        *clone_sessions(fabric, switch),
    )


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


def _edge(fabric: Fabric, switch: Switch, attached: Sequence[AttachedHost]) -> Iterator[TableEntry]:
    """INT starts and ends where hosts are; what leads to a collector only loses what it carries."""
    ends = [(local.port, "set_int_sink") for local in attached]
    ends += [(port, "set_int_strip") for port in collector_ports(fabric, switch)]
    for port, sink in ends:
        yield TableEntry.of(
            "int_edge_ports", {"ingress_port": port}, ActionCall.of("set_int_source_edge")
        )
        yield TableEntry.of("int_sink_ports", {"egress_port": port}, ActionCall.of(sink))


def _punt(fabric: Fabric) -> Iterator[TableEntry]:
    for index, rule in enumerate(fabric.punt):
        for match in _punt_matches(rule):
            yield TableEntry.of(
                "punt", match, ActionCall.of("punt_to_cpu"), priority=PRIORITY_PUNT - index
            )


def _punt_matches(rule: PuntRule) -> Iterator[dict[str, MatchValue | int]]:
    """Fields that a packet lacks are 0 in the keys, so the packet must be of a kind that has them:
    one match per EtherType and protocol that the rule can mean."""
    ether_types = [kind for kind, version in IP_ETHER_TYPES.items() if version in rule.ip_versions]
    if not rule.of_ip:
        ether_types = [] if rule.ether_type is None else [rule.ether_type]
    protocols = [] if rule.protocol is None else [rule.protocol]
    if rule.icmp_types:
        protocols = [PROTOCOL_ICMPV6]
    elif rule.l4_dst_port is not None:
        protocols = protocols or list(PROTOCOLS_WITH_PORTS)
    match: dict[str, MatchValue | int] = {}
    if rule.l4_dst_port is not None:
        match["l4_dst_port"] = Ternary(rule.l4_dst_port, _U16)
    if rule.destination is not None:
        key = "dst_addr" if rule.destination.version == 4 else "ipv6_dst_addr"
        match[key] = prefix_match(rule.destination)
    for ether_type, protocol, icmp_type in product(
        _exactly(ether_types, _U16), _exactly(protocols, _U8), _exactly(rule.icmp_types, _U8)
    ):
        yield {**match, "ether_type": ether_type, "protocol": protocol, "icmp_type": icmp_type}


def _exactly(values: Sequence[int], mask: int) -> list[Ternary]:
    """Each of the values, or anything where there is none."""
    return [Ternary(value, mask) for value in values] or [Ternary(0, 0)]


def _mtus(mtus: MtuTable, switch_name: str) -> Iterator[TableEntry]:
    for port, limit in mtus.of_ports(switch_name):
        yield TableEntry.of(
            "int_egress_mtu",
            {"egress_port": port},
            ActionCall.of("set_mtu", mtu_bytes=limit.mtu_bytes),
        )


def _interfaces(switch: Switch) -> Iterator[TableEntry]:
    for port, interface in switch.interfaces:
        yield TableEntry.of(
            "ingress_interface",
            {"ingress_port": port},
            ActionCall.of("set_ingress_interface", interface_id=interface),
        )
        yield TableEntry.of(
            "egress_interface",
            {"egress_port": port},
            ActionCall.of("set_egress_interface", interface_id=interface),
        )


def _defaults(fabric: Fabric, switch: Switch) -> Iterator[DefaultEntry]:
    """Every default that a switch has, so that one changed by somebody else shows as drift.

    `ipv4_lpm` and `ipv6_lpm` have none: the program drops what has no route. Those of the report
    tables, of the hash and of the transparent clock are made where their entries are.
    """
    probes = fabric.probes
    actions = {
        "drop_report": NO_ACTION,
        "ecn_config": ActionCall.of("set_ecn_threshold", depth=QUEUE_DEPTH_MAX),
        "egress_interface": ActionCall.of("set_egress_interface", interface_id=NO_INTERFACE),
        "ingress_interface": ActionCall.of("set_ingress_interface", interface_id=NO_INTERFACE),
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
        "int_watchlist_ipv6": NO_ACTION,
        "l2_ptp": ActionCall.of("drop_l2"),
        "probe_config": (
            NO_ACTION
            if probes is None
            else ActionCall.of("set_probe_config", report_metadata_bits=probes.report_metadata_bits)
        ),
        LINK_DELAY_TABLE: NO_ACTION,
        "ptp_watchlist": NO_ACTION,
        "punt": NO_ACTION,
        "qos_class": ActionCall.of("set_queue", queue_id=fabric.qos.default_queue),
        "queue_report": NO_ACTION,
    }
    yield from (DefaultEntry(table=table, action=action) for table, action in actions.items())
