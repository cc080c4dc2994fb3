# SPDX-License-Identifier: Apache-2.0
"""What decoding and joining reports needs to know of a fabric."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.fabric import Fabric, StampOrigin, Switch, cabling
from controller.telemetry.dialect import DIALECTS, STANDARD, Dialect
from controller.telemetry.packet import NETWORK_ETHERNET, NETWORK_IPV6

PortKey = tuple[int, int]
"""(node id, port)."""
TAI_LESS_UTC_NS = 37_000_000_000
"""Since 2017 (IERS bulletin C). The collector's clock is UTC, the PTP epoch TAI."""
_ORIGIN_NS = {
    StampOrigin.ARBITRARY: None,
    StampOrigin.PTP: TAI_LESS_UTC_NS,
    StampOrigin.UNIX: 0,
}
HOST_END: PortKey = (0, 0)
"""The far end of an access link: a NIC stamps no hop. Node id 0 is never a switch's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryNode:
    """A device that stamps hops or sends reports."""

    node_id: int
    stamp_unit_ns: int
    stamp_width_bits: int
    egress_stamp_width_bits: int | None = None
    """Of egress stamps, where they are narrower (Tofino 1: 18 bits)."""
    stamp_origin_ns: int | None = None
    """What its clock shows less what the collector's shows; None: it counts from any instant."""
    dialect: Dialect = STANDARD


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryFabric:
    """Devices, cables and marking of one fabric, as the collector needs them."""

    nodes: Mapping[int, TelemetryNode]
    neighbours: Mapping[PortKey, PortKey]
    """Per cabled switch port the port at the other end, or HOST_END."""
    report_udp_ports: frozenset[int]
    """Destination ports of report datagrams, over all destinations."""
    original_dscp: Mapping[int, int] = field(default_factory=dict)
    """Per DSCP that marks packets with INT, the DSCP of the same class without it."""
    int_udp_port: int | None = None
    """UDP destination port that marks packets with INT, where the domain uses one."""
    host_ips: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """IPv4 address of the host that (network, address) belongs to: how records name a host."""
    host_ip_at: Mapping[PortKey, int] = field(default_factory=dict)
    """IPv4 address of the host cabled to a switch port: who receives a copy of a multicast."""


def telemetry_fabric(fabric: Fabric) -> TelemetryFabric:
    """The collector's view of a declared fabric; KeyError for a dialect that does not exist."""
    switch_of = {switch.name: switch for switch in fabric.switches}
    neighbours: dict[PortKey, PortKey] = {}
    for end, far in cabling(fabric).items():
        if end.node in switch_of:
            other = switch_of.get(far.node)
            neighbours[switch_of[end.node].node_id, end.port] = (
                HOST_END if other is None else (other.node_id, far.port)
            )
    return TelemetryFabric(
        nodes={switch.node_id: _node(fabric, switch) for switch in fabric.switches},
        neighbours=neighbours,
        report_udp_ports=frozenset(collector.udp_port for collector in fabric.collectors),
        original_dscp={
            traffic_class.marked_dscp: traffic_class.dscp
            for traffic_class in fabric.qos.classes
            if traffic_class.marked_dscp is not None
        },
        int_udp_port=fabric.int_domain.udp_port,
        host_ip_at=_host_ip_at(fabric),
        host_ips={
            **{(NETWORK_ETHERNET, host.mac): host.ip for host in fabric.hosts},
            **{(NETWORK_IPV6, h.ipv6): h.ip for h in fabric.hosts if h.ipv6 is not None},
        },
    )


def _host_ip_at(fabric: Fabric) -> dict[PortKey, int]:
    node_ids = {switch.name: switch.node_id for switch in fabric.switches}
    ips = {host.name: host.ip for host in fabric.hosts}
    return {
        (node_ids[end.node], end.port): ips[far.node]
        for end, far in cabling(fabric).items()
        if end.node in node_ids and far.node in ips
    }


def _node(fabric: Fabric, switch: Switch) -> TelemetryNode:
    model = fabric.model_of(switch)
    return TelemetryNode(
        node_id=switch.node_id,
        stamp_unit_ns=model.stamp_unit_ns,
        stamp_width_bits=model.stamp_width_bits,
        egress_stamp_width_bits=model.egress_stamp_width_bits,
        stamp_origin_ns=_ORIGIN_NS[model.stamp_origin],
        dialect=DIALECTS[model.dialect],
    )
