# SPDX-License-Identifier: Apache-2.0
"""Report frames as a three-switch path would send them, for collector tests.

h (port 11) leaf 1 (port 1) - (port 1) spine 101 (port 2) - (port 1) leaf 2 (port 11) h
"""

from dataclasses import dataclass, field, replace

from controller.telemetry.collector import Destination
from controller.telemetry.datagram import wrap_udp
from controller.telemetry.frames import (
    PtpAddresses,
    PtpTransport,
    RoceFlow,
    probe_frame,
    ptp_sync,
    roce_frame,
)
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.report import IN_TYPE_ETHERNET, IN_TYPE_IPV4
from controller.telemetry.report_encode import (
    ReportSpec,
    StackSpec,
    encode_mx,
    encode_reports,
    insert_int,
    insert_stack,
)
from controller.telemetry.topology import HOST_END, TelemetryFabric, TelemetryNode

REPORT_PORT = 32766
COLLECTOR = Destination(0x0AFF0001, REPORT_PORT)
LEAF1, SPINE, LEAF2 = 1, 101, 2
MARKED, UNMARKED = 27, 26
POSTCARD_BITS = 0x7C00
STACK_REPORT_BITS = 0x4800
DROP_BITS = 0x4801
ETHERNET_BYTES = 14


def three_switch_fabric(*, stamp_unit_ns: int = 1, stamp_width_bits: int = 48) -> TelemetryFabric:
    """The path of this module's docstring."""
    cables = {(LEAF1, 1): (SPINE, 1), (SPINE, 2): (LEAF2, 1)}
    return TelemetryFabric(
        nodes={
            node_id: TelemetryNode(
                node_id=node_id, stamp_unit_ns=stamp_unit_ns, stamp_width_bits=stamp_width_bits
            )
            for node_id in (LEAF1, SPINE, LEAF2)
        },
        neighbours={
            **cables,
            **{far: near for near, far in cables.items()},
            (LEAF1, 11): HOST_END,
            (LEAF1, 12): HOST_END,
            (LEAF2, 11): HOST_END,
        },
        report_udp_ports=frozenset({REPORT_PORT}),
        original_dscp={MARKED: UNMARKED},
    )


def hop(
    node_id: int | None,
    ingress_port: int,
    egress_port: int,
    ingress_tstamp: int | None,
    egress_tstamp: int | None,
) -> HopMetadata:
    """A hop with queue 1 at depth 5 and a latency that agrees with its stamps."""
    latency = (
        0 if ingress_tstamp is None or egress_tstamp is None else egress_tstamp - ingress_tstamp
    )
    return HopMetadata(
        node_id=node_id,
        ingress_port=ingress_port,
        egress_port=egress_port,
        hop_latency=latency % 2**32,
        queue_id=1,
        queue_depth=5,
        ingress_tstamp=ingress_tstamp,
        egress_tstamp=egress_tstamp,
    )


SOURCE_HOP = hop(LEAF1, 11, 1, 1_000_000, 1_000_500)
TRANSIT_HOP = hop(SPINE, 1, 2, 7_000_000, 7_000_700)
SINK_HOP = hop(None, 1, 11, 3_000_000, 3_000_900)
PATH_HOPS = ((LEAF1, SOURCE_HOP), (SPINE, TRANSIT_HOP), (LEAF2, SINK_HOP))

FLOW = RoceFlow(
    src_mac=0x020000000101,
    dst_mac=0x020000000201,
    src_ip=0x0A000101,
    dst_ip=0x0A000201,
    src_port=50000,
    dest_qp=0x17,
    dscp=UNMARKED,
)
PTP_ADDRESSES = PtpAddresses(
    src_mac=0x020000000101, dst_mac=0x020000000201, src_ip=0x0A000101, dst_ip=0x0A000201
)
CLOCK_IDENTITY = 0x020000FFFE000101
PTP_GROUP_MAC = 0x011B19000000
"""IEEE 1588-2019 annex E: all messages but those of the peer delay mechanism."""
LOCAL_COPY = hop(LEAF1, 11, 12, 1_000_000, 1_000_300)
COPIES = (*PATH_HOPS, (LEAF1, LOCAL_COPY))
"""A Sync from port 11 of leaf 1 to two hosts: over the spine, and beside the sender."""


def multicast_postcard(metadata: HopMetadata, *, sequence_id: int) -> ReportSpec:
    """A switch's report of one copy of a Sync over Ethernet to the PTP group."""
    addresses = replace(PTP_ADDRESSES, dst_mac=PTP_GROUP_MAC, transport=PtpTransport.ETHERNET)
    frame = ptp_sync(addresses, domain=0, clock_identity=CLOCK_IDENTITY, sequence_id=sequence_id)
    return ReportSpec(
        inner=frame, inner_type=IN_TYPE_ETHERNET, metadata_bits=POSTCARD_BITS, metadata=metadata
    )


@dataclass(slots=True)
class ReportSender:
    """Numbers reports per (node, hw id) and wraps them into frames to the collector."""

    sequence_numbers: dict[tuple[int, int], int] = field(default_factory=dict)

    def frame(self, node_id: int, hw_id: int, *specs: ReportSpec) -> bytes:
        """One datagram with these reports."""
        return report_frame(self.payload(node_id, hw_id, *specs))

    def payload(self, node_id: int, hw_id: int, *specs: ReportSpec) -> bytes:
        """The same without the headers around it."""
        number = self.sequence_numbers.get((node_id, hw_id), 0)
        self.sequence_numbers[node_id, hw_id] = number + 1
        return encode_reports(
            node_id=node_id, hw_id=hw_id, sequence_number=number % 2**22, reports=specs
        )

    def roce_path(self, *, psn: int = 1) -> tuple[bytes, bytes]:
        """(stack report, postcard) of the sink for one RoCEv2 packet over the whole path."""
        return (
            self.frame(LEAF2, 0, stack_report(psn=psn)),
            self.frame(LEAF2, 1, sink_postcard(psn=psn)),
        )

    def ptp_path(self, *, sequence_id: int = 1, later: int = 0) -> list[bytes]:
        """The three postcards of one Sync, in path order, `later` stamp units after."""
        return [
            self.frame(node_id, 1, ptp_postcard(delayed(values, later), sequence_id=sequence_id))
            for node_id, values in PATH_HOPS
        ]

    def xd_path(self, *, psn: int = 1, later: int = 0) -> list[bytes]:
        """The three postcards of one RoCEv2 packet, in path order, `later` stamp units after."""
        return [
            self.frame(node_id, 1, xd_postcard(delayed(values, later), psn=psn))
            for node_id, values in PATH_HOPS
        ]

    def probe_path(self, *, sequence_number: int = 1) -> list[bytes]:
        """Out of leaf 1's port 1, at the spine, and home."""
        out = HopMetadata(ingress_port=510, egress_port=1, queue_id=2, egress_tstamp=1_000_500)
        bounced = hop(None, 1, 1, 7_000_000, 7_000_700)
        home = HopMetadata(ingress_port=1, egress_port=0xFFFF, ingress_tstamp=1_009_000)
        steps = (
            (LEAF1, 1, out, 0x5400, False),
            (SPINE, 1, bounced, POSTCARD_BITS, True),
            (LEAF1, 0, home, STACK_REPORT_BITS, True),
        )
        return [
            self.frame(
                node_id,
                hw_id,
                ReportSpec(
                    inner=probe_packet(sequence_number=sequence_number, returning=returning),
                    metadata_bits=bits,
                    metadata=values,
                ),
            )
            for node_id, hw_id, values, bits, returning in steps
        ]


def report_frame(
    payload: bytes,
    *,
    dst_port: int = REPORT_PORT,
    dst_ip: int = COLLECTOR.ip,
    src_port: int = 0xC123,
    ttl: int = 61,
    vlan_id: int | None = None,
) -> bytes:
    """A report datagram from a switch to the collector, routed and with entropy in its port."""
    return wrap_udp(
        payload,
        src_mac=0x02000000FE01,
        dst_mac=0x02000000FE02,
        src_ip=0x0AFF0002,
        dst_ip=dst_ip,
        src_port=src_port,
        dst_port=dst_port,
        ttl=ttl,
        vlan_id=vlan_id,
    )


def delayed(values: HopMetadata, later: int) -> HopMetadata:
    """The same hop, `later` units of its clock after."""
    ingress, egress = values.ingress_tstamp, values.egress_tstamp
    return values._replace(
        ingress_tstamp=None if ingress is None else ingress + later,
        egress_tstamp=None if egress is None else egress + later,
    )


def probe_packet(*, sequence_number: int = 1, returning: bool = False) -> bytes:
    """A probe that leaf 1 sends out of port 1, from its IP header on."""
    frame = bytearray(
        probe_frame(
            node_id=LEAF1,
            egress_port=1,
            sequence_number=sequence_number,
            src_mac=1,
            dst_mac=2,
            src_ip=0x0AFE0001,
            dst_ip=0x0AFE0065,
            payload_bytes=64,
        )
    )
    if returning:
        frame[26:34] = frame[30:34] + frame[26:30]
        frame[42] |= 0x08
    return bytes(frame[ETHERNET_BYTES:])


def roce_packet(*, psn: int = 1) -> bytes:
    """The RoCEv2 packet under study from its IP header on: 118 bytes on the wire with FCS."""
    return roce_frame(FLOW, psn=psn, payload=bytes(range(56)))[ETHERNET_BYTES:]


def stack_report(
    *,
    psn: int = 1,
    hops: tuple[HopMetadata, ...] = (SOURCE_HOP, TRANSIT_HOP),
    metadata: HopMetadata | None = SINK_HOP,
    metadata_bits: int = STACK_REPORT_BITS,
    cut: int | None = None,
) -> ReportSpec:
    """What the sink's ingress clone reports."""
    spec = StackSpec(hops=hops, instruction_bitmap=0xFC00, npt_value=UNMARKED << 2)
    inner = insert_stack(roce_packet(psn=psn), spec, marked_dscp=MARKED)
    return ReportSpec(inner=inner[:cut], metadata_bits=metadata_bits, metadata=metadata)


def sink_postcard(*, psn: int = 1, metadata: HopMetadata = SINK_HOP) -> ReportSpec:
    """What the sink's egress clone reports: the packet without INT, truncated."""
    inner = roce_packet(psn=psn)[:48]
    return ReportSpec(inner=inner, metadata_bits=POSTCARD_BITS, metadata=metadata)


def ptp_postcard(metadata: HopMetadata, *, sequence_id: int = 1) -> ReportSpec:
    """What each switch reports of a Sync."""
    frame = ptp_sync(
        PTP_ADDRESSES, domain=0, clock_identity=CLOCK_IDENTITY, sequence_id=sequence_id
    )
    inner = frame[ETHERNET_BYTES:]
    return ReportSpec(inner=inner, metadata_bits=POSTCARD_BITS, metadata=metadata)


def xd_postcard(metadata: HopMetadata, *, psn: int = 1) -> ReportSpec:
    """What each switch reports of a RoCEv2 packet that it leaves alone."""
    inner = roce_packet(psn=psn)[:64]
    return ReportSpec(inner=inner, metadata_bits=POSTCARD_BITS, metadata=metadata)


def mx_postcard(metadata: HopMetadata, *, psn: int = 1, stripped: bool = False) -> ReportSpec:
    """What each switch reports of a packet with an INT-MX header; the sink has taken it off."""
    packet = roce_packet(psn=psn)
    if not stripped:
        header = encode_mx(instruction_bitmap=0xFC00, original_dscp=UNMARKED)
        packet = insert_int(packet, header, marked_dscp=MARKED)
    return ReportSpec(inner=packet[:80], metadata_bits=POSTCARD_BITS, metadata=metadata)


def drop_report(
    inner: bytes,
    *,
    reason: int,
    inner_type: int = IN_TYPE_IPV4,
    tracked_flow: bool = False,
    ingress_port: int = 1,
    queue_id: int = 1,
    ingress_tstamp: int = 5_000,
) -> ReportSpec:
    """What a switch reports of a packet that it drops: as received, without an egress port."""
    values = HopMetadata(
        ingress_port=ingress_port,
        egress_port=0xFFFF,
        ingress_tstamp=ingress_tstamp,
        drop_queue_id=queue_id,
        drop_reason=reason,
    )
    return ReportSpec(
        inner=inner,
        inner_type=inner_type,
        metadata_bits=DROP_BITS,
        metadata=values,
        dropped=True,
        tracked_flow=tracked_flow,
    )
