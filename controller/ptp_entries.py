# SPDX-License-Identifier: Apache-2.0
"""What a switch does to PTP: corrects event messages on the way, and carries or takes PTP frames.

Pure. A transparent clock adds the residence of each event message to its correctionField
(IEEE 1588-2019 section 10.2). Residence counts from wire to wire, stamps are taken inside.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import networkx as nx

from controller.entries import (
    NO_ACTION,
    ActionCall,
    DefaultEntry,
    Entry,
    MulticastGroup,
    TableEntry,
    Ternary,
)
from controller.fabric import DeviceModel, Fabric, PtpRole, StampPoints, Switch
from controller.fabric_telemetry import EthernetPtp

SCALED_PER_NS = 1 << 16
"""A correctionField counts 2^-16 ns."""
STAMP_UNIT_NS_MAX = 0xFFFF_FFFF // SCALED_PER_NS
"""Coarsest stamp unit whose scale fits the table."""
EVENT_FRAME_BYTES = 90
"""Sync and Delay_Req over UDP/IPv4 with FCS: the frame whose serialisation is corrected for."""

MULTICAST_PEER_DELAY = 0x01_80_C2_00_00_0E
"""Never forwarded by a bridge (IEEE 1588-2019 annex E.3)."""
MULTICAST_PTP = 0x01_1B_19_00_00_00
PTP_MULTICAST_GROUP = 1
"""Multicast group of the ports on the grandmaster's tree."""
UNTAGGED_INSTANCE = 4095
"""Instance of a replica that leaves without a tag; other instances are VLAN ids (docs/p4.md)."""

PRIORITY_PEER_DELAY = 300
PRIORITY_TREE = 200
_MAC, _PORT = (1 << 48) - 1, 0x1FF
_U64 = (1 << 64) - 1


def clock_default(fabric: Fabric, switch: Switch) -> DefaultEntry:
    """`transparent_clock`: scale and offset of the residence, or nothing for other PTP roles."""
    model = fabric.model_of(switch)
    action = NO_ACTION
    if model.ptp_role is PtpRole.TRANSPARENT_CLOCK:
        action = ActionCall.of(
            "set_transparent_clock",
            scaled_ns_per_unit=model.stamp_unit_ns * SCALED_PER_NS,
            residence_offset=residence_offset_scaled(fabric, switch) & _U64,
        )
    return DefaultEntry(table="transparent_clock", action=action)


def residence_offset_scaled(fabric: Fabric, switch: Switch) -> int:
    """What wire-to-wire residence has beyond (egress stamp - ingress stamp), in 2^-16 ns.

    The frame arrives `ingress.latency_ns` before its ingress stamp and leaves `egress.latency_ns`
    after its egress stamp, so both latencies are added. A stamp at the frame's end is one
    serialisation later than PTP's timestamp point, the start: added on the way in, taken off on
    the way out. The table holds one offset per switch; at several speeds it is that of most cables.
    """
    speed_gbps = usual_speed_gbps(fabric, switch)
    points = fabric.model(switch.model).stamp_points_at(speed_gbps)
    return 0 if points is None else offset_of_points_scaled(points)


def offset_of_points_scaled(points: StampPoints) -> int:
    """The offset at one port speed, in 2^-16 ns.

    >>> from correction.model import StampPoint
    >>> point = StampPoint(latency_ns=100, uncertainty_ns=0)
    >>> offset_of_points_scaled(StampPoints(speed_gbps=100, ingress=point, egress=point)) >> 16
    200
    """
    ends = int(points.ingress.at_frame_end) - int(points.egress.at_frame_end)
    serialisation = EVENT_FRAME_BYTES * 8 * SCALED_PER_NS // points.speed_gbps
    latency_ns = points.ingress.latency_ns + points.egress.latency_ns
    return latency_ns * SCALED_PER_NS + ends * serialisation


def usual_speed_gbps(fabric: Fabric, switch: Switch) -> int:
    """The speed of most of the switch's cables, the lower one of two; 0 without cables."""
    speeds = Counter(
        link.speed_gbps
        for link in fabric.links
        for end in (link.a, link.b)
        if end.node == switch.name
    )
    return min(speeds, key=lambda speed: (-speeds[speed], speed), default=0)


def link_delay_entries(
    model: DeviceModel, switch: Switch, delays_scaled: Mapping[int, int]
) -> Iterator[TableEntry]:
    """`ptp_link_delay`: what event messages from each port get on top, in 2^-16 ns, signed."""
    if delays_scaled and model.ptp_role is not PtpRole.TRANSPARENT_CLOCK:
        raise ValueError(f"{switch.name} has link delays, but is no transparent clock")
    for port, delay in sorted(delays_scaled.items()):
        if not -(1 << 63) <= delay < 1 << 63:
            raise ValueError(f"{switch.name} port {port}: link delay {delay} exceeds 64 bits")
        yield TableEntry.of(
            "ptp_link_delay",
            {"ingress_port": port},
            ActionCall.of("set_link_delay", delay=delay & _U64),
        )


def ethernet_ptp_entries(fabric: Fabric, switch: Switch) -> Iterator[Entry]:
    """`l2_ptp`: peer delay goes to the CPU; the rest follows the grandmaster's tree, or nowhere.

    Frames that come in on a port off the tree are dropped, so that nothing goes in circles. Each
    copy gets the tag of the link that it leaves over.
    """
    yield TableEntry.of(
        "l2_ptp",
        {"dst_addr": Ternary(MULTICAST_PEER_DELAY, _MAC)},
        ActionCall.of("punt_l2"),
        priority=PRIORITY_PEER_DELAY,
    )
    if fabric.ptp.ethernet is not EthernetPtp.TREE:
        return
    ports = tree_ports(fabric)[switch.name]
    if len(ports) < 2:
        return
    vlans = {
        end.port: link.vlan
        for link in fabric.links
        for end in (link.a, link.b)
        if end.node == switch.name
    }
    yield MulticastGroup(
        group_id=PTP_MULTICAST_GROUP,
        replicas=tuple((port, vlans[port] or UNTAGGED_INSTANCE) for port in ports),
    )
    for port in ports:
        yield TableEntry.of(
            "l2_ptp",
            {"ingress_port": Ternary(port, _PORT), "dst_addr": Ternary(MULTICAST_PTP, _MAC)},
            ActionCall.of("multicast_l2", multicast_group=PTP_MULTICAST_GROUP),
            priority=PRIORITY_TREE,
        )


def tree_ports(fabric: Fabric) -> dict[str, tuple[int, ...]]:
    """Ports of each switch on the shortest-path tree of the grandmaster, hosts' ports included."""
    graph: nx.Graph[str] = nx.Graph()
    ends: dict[frozenset[str], tuple[tuple[str, int], ...]] = {}
    for link in fabric.links:  # of parallel links the first of the file
        pair = frozenset((link.a.node, link.b.node))
        ends.setdefault(pair, ((link.a.node, link.a.port), (link.b.node, link.b.port)))
        graph.add_edge(link.a.node, link.b.node)
    tree = nx.bfs_edges(graph, fabric.ptp.grandmaster, sort_neighbors=sorted)
    ports: dict[str, list[int]] = {switch.name: [] for switch in fabric.switches}
    for pair in map(frozenset, tree):
        for node, port in ends[pair]:
            if node in ports:
                ports[node].append(port)
    return {name: tuple(sorted(found)) for name, found in ports.items()}
