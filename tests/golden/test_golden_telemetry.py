# SPDX-License-Identifier: Apache-2.0
"""Telemetry reports as annotated bytes, written from the specifications, decoded and encoded.

Lines are one header or value each; what follows # is the reader's. The first two follow the
consistent examples of Telemetry Report v2.0, the others are what this project's switches send.
"""

import pytest

from controller.telemetry.metadata import HopMetadata
from controller.telemetry.packet import (
    NETWORK_ETHERNET,
    NETWORK_IPV6,
    TRAFFIC_OTHER,
    IntMarking,
    PacketKey,
)
from controller.telemetry.report import decode_group, decode_reports
from controller.telemetry.report_encode import (
    ReportSpec,
    StackSpec,
    encode_mx,
    encode_reports,
    encode_stack,
)
from correction.records import TRAFFIC_PROBE, TRAFFIC_PTP, TRAFFIC_ROCE


def _bytes(annotated: str) -> bytes:
    return bytes.fromhex("".join(line.partition("#")[0] for line in annotated.splitlines()))


def _decode(wire, marking):
    group = decode_group(wire, 0)
    (report,) = decode_reports(wire, 8, marking)
    return group, report


_BY_DSCP = IntMarking({27: 26})
_BY_PORT = IntMarking({}, 5000)

_TCP_IPV4 = """
    45 00 05 dc 00 01 40 00 40 06 21 19   # IPv4: 1500 bytes, don't fragment, TCP
    0a 00 00 01 0a 00 00 02               # 10.0.0.1 to 10.0.0.2
"""
_TCP = """
    04 d2 00 50 00 00 00 01 00 00 00 02 50 10 ff ff 00 00 00 00   # TCP, port 1234 to 80
"""

_PORTS_OF_TCP_FLOW = _bytes(
    """
    20 40 00 05                           # Ver 2, hw_id 1, sequence 5
    00 00 00 03                           # node 3
    14 0e 02 20                           # RepType 1, InType 4, ReportLength 14, MDLength 2, F
    50 00 00 00                           # RepMdBits: level 1 ports, queue; no domain
    00 00 00 00                           # DSMdBits, DSMdstatus
    00 07 00 08                           # ingress port 7, egress port 8
    02 00 00 10                           # queue 2, depth 16
    """
    + _TCP_IPV4
    + _TCP
)


def test_example_report_of_a_tcp_flow():
    """r0 = 1/4, ReportLength 14, MDLength 2, RepMdBits 0x5000, F = 1, IPv4 and TCP."""
    group, report = _decode(_PORTS_OF_TCP_FLOW, _BY_DSCP)
    assert (group.version, group.hw_id, group.sequence_number, group.node_id) == (2, 1, 5, 3)
    metadata = HopMetadata(ingress_port=7, egress_port=8, queue_id=2, queue_depth=16)
    assert report.metadata == metadata
    assert report.tracked_flow
    assert not any((report.dropped, report.congested_queue, report.intermediate_report))
    assert report.packet.key == PacketKey(TRAFFIC_OTHER, 0x0A000001, 0x0A000002, 6, 1234, 80)
    assert (report.packet.stack, report.packet.wire_bytes) == (None, 1518)
    spec = ReportSpec(
        inner=_bytes(_TCP_IPV4 + _TCP), metadata_bits=0x5000, metadata=metadata, tracked_flow=True
    )
    encoded = encode_reports(node_id=3, hw_id=1, sequence_number=5, reports=[spec])
    assert encoded == _PORTS_OF_TCP_FLOW


_SHIM_AND_STACK = """
    18 07 00 06                           # shim: INT-MD, NPT 2, 7 words, protocol 6 (TCP)
    20 00 02 06                           # Ver 2, HopML 2, remaining hop count 6
    90 00 00 00                           # instructions: node id, queue; no domain
    00 00 00 00                           # DSInstruction, DSFlags
    00 00 00 02 01 00 00 09               # node 2: queue 1, depth 9
    00 00 00 01 00 00 00 04               # node 1 (source): queue 0, depth 4
"""
_MD_INNER = (
    """
    45 00 05 dc 00 01 40 00 40 11 21 0e   # IPv4: 1500 bytes, UDP
    0a 00 00 01 0a 00 00 02               # 10.0.0.1 to 10.0.0.2
    c0 00 13 88 05 c8 00 00               # UDP to INT's port, here 5000
    """
    + _SHIM_AND_STACK
    + _TCP
)
_MD_OF_TCP_FLOW = _bytes(
    """
    20 00 00 01                           # Ver 2, hw_id 0, sequence 1
    00 00 00 03                           # node 3
    14 17 01 20                           # RepType 1, InType 4, ReportLength 23, MDLength 1, F
    10 00 00 00                           # RepMdBits: queue
    00 00 00 00
    03 00 00 07                           # queue 3, depth 7
    """
    + _MD_INNER
)
_QUEUE_HOPS = (
    HopMetadata(node_id=1, queue_id=0, queue_depth=4),
    HopMetadata(node_id=2, queue_id=1, queue_depth=9),
)


def test_example_report_with_an_int_md_stack_behind_an_inserted_udp_header():
    """r0 = 1/4, ReportLength 23, MDLength 1, RepMdBits 0x1000; NPT 2, HopML 2, two hops."""
    group, report = _decode(_MD_OF_TCP_FLOW, _BY_PORT)
    assert (group.hw_id, group.sequence_number, group.node_id) == (0, 1, 3)
    assert report.metadata == HopMetadata(queue_id=3, queue_depth=7)
    stack = report.packet.stack
    assert stack is not None
    assert stack.hops == _QUEUE_HOPS
    assert (stack.instruction_bitmap, stack.remaining_hop_count) == (0x9000, 6)
    assert (stack.hop_metadata_bytes, stack.source_bytes) == (8, 4 + 12 + 8)
    assert report.packet.key == PacketKey(TRAFFIC_OTHER, 0x0A000001, 0x0A000002, 6, 1234, 80)
    assert report.packet.wire_bytes == 1518 - 4 - 28 - 8
    spec = StackSpec(
        hops=_QUEUE_HOPS, instruction_bitmap=0x9000, remaining_hop_count=6, npt=2, npt_value=6
    )
    assert encode_stack(spec) == _bytes(_SHIM_AND_STACK)
    report_spec = ReportSpec(
        inner=_bytes(_MD_INNER),
        metadata_bits=0x1000,
        metadata=HopMetadata(queue_id=3, queue_depth=7),
    )
    encoded = encode_reports(node_id=3, hw_id=0, sequence_number=1, reports=[report_spec])
    assert encoded == _MD_OF_TCP_FLOW


_ROCE_STACK = """
    10 13 00 68                           # shim: INT-MD, NPT 0, 19 words, original DSCP 26
    20 00 08 06                           # Ver 2, HopML 8, remaining hop count 6
    fc 00 00 00 00 00 00 00               # six instructions, no domain
    00 00 00 65 00 01 00 02               # spine, node 101: port 1 to 2
    00 00 02 bc 01 00 00 05               # latency 700, queue 1, depth 5
    00 00 00 00 00 6a cf c0               # ingress stamp 7,000,000
    00 00 00 00 00 6a d2 7c               # egress stamp 7,000,700
    00 00 00 01 00 0b 00 01               # source, node 1: port 11 to 1
    00 00 01 f4 01 00 00 05               # latency 500, queue 1, depth 5
    00 00 00 00 00 0f 42 40               # ingress stamp 1,000,000
    00 00 00 00 00 0f 44 34               # egress stamp 1,000,500
"""
_ROCE_INNER = (
    """
    45 6e 00 b4 00 00 40 00 40 11 22 ca   # IPv4: 180 bytes, DSCP 27 (marked), ECT(0), UDP
    0a 00 01 01 0a 00 02 01               # 10.0.1.1 to 10.0.2.1
    c3 50 12 b7 00 a0 00 00               # UDP port 50000 to 4791
    """
    + _ROCE_STACK
    + """
    04 00 ff ff 00 00 00 17 00 0a 0b 0c   # BTH: SEND only, queue pair 0x17, PSN 0x0a0b0c
    """
)
_SINK_STACK_REPORT = _bytes(
    """
    20 12 34 56                           # Ver 2, hw_id 0 (ingress), sequence 0x123456
    00 00 00 02                           # node 2, the sink
    14 23 03 20                           # RepType 1, InType 4, 35 words, MDLength 3, F
    48 00 00 00 00 00 00 00               # RepMdBits: level 1 ports, ingress stamp
    00 01 00 0b                           # port 1 to 11
    00 00 00 00 00 2d c6 c0               # ingress stamp 3,000,000
    """
    + _ROCE_INNER
)
_ROCE_KEY = PacketKey(
    TRAFFIC_ROCE, 0x0A000101, 0x0A000201, 17, 50000, 4791, 4, dest_qp=0x17, psn=0x0A0B0C
)


def _hop(node_id, ingress_port, egress_port, latency, ingress_tstamp):
    return HopMetadata(
        node_id=node_id,
        ingress_port=ingress_port,
        egress_port=egress_port,
        hop_latency=latency,
        queue_id=1,
        queue_depth=5,
        ingress_tstamp=ingress_tstamp,
        egress_tstamp=ingress_tstamp + latency,
    )


_ROCE_HOPS = (_hop(1, 11, 1, 500, 1_000_000), _hop(101, 1, 2, 700, 7_000_000))


def test_the_sinks_report_of_a_received_stack():
    """INT-MD by DSCP on RoCEv2, truncated behind the BTH: 118 bytes without INT."""
    group, report = _decode(_SINK_STACK_REPORT, _BY_DSCP)
    assert (group.hw_id, group.sequence_number, group.node_id) == (0, 0x123456, 2)
    own = HopMetadata(ingress_port=1, egress_port=11, ingress_tstamp=3_000_000)
    assert report.metadata == own
    assert report.packet.key == _ROCE_KEY
    assert (report.packet.dscp, report.packet.wire_bytes) == (26, 118)
    assert report.packet.stack is not None
    assert report.packet.stack.hops == _ROCE_HOPS
    spec = StackSpec(
        hops=_ROCE_HOPS, instruction_bitmap=0xFC00, remaining_hop_count=6, npt_value=26 << 2
    )
    assert encode_stack(spec) == _bytes(_ROCE_STACK)
    report_spec = ReportSpec(inner=_bytes(_ROCE_INNER), metadata_bits=0x4800, metadata=own)
    encoded = encode_reports(node_id=2, hw_id=0, sequence_number=0x123456, reports=[report_spec])
    assert encoded == _SINK_STACK_REPORT


_PTP_INNER = """
    45 00 00 48 00 00 40 00 40 11 23 a4   # IPv4: 72 bytes, UDP
    0a 00 01 01 0a 00 02 01
    01 3f 01 3f 00 34 00 00               # UDP port 319, event messages
    00 12 00 2c 03 00 06 00               # Sync, PTP 2.1, 44 bytes, domain 3, two-step unicast
    00 00 00 00 00 00 00 00 00 00 00 00   # correctionField, messageTypeSpecific
    02 00 00 ff fe 00 01 01 00 01         # sourcePortIdentity, port 1
    41 42 00 7f                           # sequenceId, controlField, logMessageInterval
    00 00 00 00 00 00 00 00 00 00         # originTimestamp
"""
_PTP_POSTCARD = _bytes(
    """
    20 7f ff ff                           # Ver 2, hw_id 1 (egress), sequence 4194303, the last
    00 00 00 65                           # node 101
    14 1b 07 20                           # RepType 1, InType 4, 27 words, MDLength 7, F
    7c 00 00 00 00 00 00 00               # ports, latency, queue, both stamps
    00 01 00 02                           # port 1 to 2
    00 00 02 bc                           # latency 700
    01 00 00 05                           # queue 1, depth 5
    00 00 00 00 00 6a cf c0               # ingress stamp 7,000,000
    00 00 00 00 00 6a d2 7c               # egress stamp 7,000,700
    """
    + _PTP_INNER
)


def test_a_postcard_of_a_ptp_sync():
    """INT-XD: the packet is untouched, the node's values stand in the report."""
    group, report = _decode(_PTP_POSTCARD, _BY_DSCP)
    assert (group.hw_id, group.sequence_number, group.node_id) == (1, 2**22 - 1, 101)
    own = _hop(None, 1, 2, 700, 7_000_000)
    assert report.metadata == own
    assert report.packet.key == PacketKey(
        TRAFFIC_PTP,
        0x0A000101,
        0x0A000201,
        17,
        319,
        319,
        ptp_domain=3,
        ptp_message_type=0,
        ptp_clock_identity=0x020000FFFE000101,
        ptp_port_number=1,
        ptp_sequence_id=0x4142,
    )
    assert (report.packet.stack, report.packet.wire_bytes) == (None, 90)
    report_spec = ReportSpec(inner=_bytes(_PTP_INNER), metadata_bits=0x7C00, metadata=own)
    encoded = encode_reports(node_id=101, hw_id=1, sequence_number=2**22 - 1, reports=[report_spec])
    assert encoded == _PTP_POSTCARD


_MX_INNER = """
    45 6e 00 64 00 00 40 00 40 11 23 1a   # IPv4: 100 bytes, DSCP 27 (marked), ECT(0), UDP
    0a 00 01 01 0a 00 02 01               # 10.0.1.1 to 10.0.2.1
    c3 50 12 b7 00 50 00 00               # UDP port 50000 to 4791
    30 03 00 68                           # shim: INT-MX, NPT 0, 3 words, original DSCP 26
    20 00 00 00                           # Ver 2, D 0
    fc 00 00 00 00 00 00 00               # six instructions, no domain
    04 00 ff ff 00 00 00 17 00 0a 0b 0c   # BTH: SEND only, queue pair 0x17, PSN 0x0a0b0c
"""
_MX_POSTCARD = _bytes(
    """
    20 40 00 05                           # Ver 2, hw_id 1 (egress), sequence 5
    00 00 00 65                           # node 101
    14 17 07 60                           # RepType 1, InType 4, 23 words, MDLength 7, Q and F
    7c 00 00 00 00 00 00 00               # ports, latency, queue, both stamps
    00 01 00 02                           # port 1 to 2
    00 00 02 bc                           # latency 700
    01 00 00 05                           # queue 1, depth 5
    00 00 00 00 00 6a cf c0               # ingress stamp 7,000,000
    00 00 00 00 00 6a d2 7c               # egress stamp 7,000,700
    """
    + _MX_INNER
)


def test_a_congested_postcard_of_an_int_mx_packet():
    """The packet has 16 bytes more than it came with: 102 of its own, with Ethernet and FCS."""
    _group, report = _decode(_MX_POSTCARD, _BY_DSCP)
    assert (report.congested_queue, report.tracked_flow, report.dropped) == (True, True, False)
    assert report.metadata == _hop(None, 1, 2, 700, 7_000_000)
    assert report.packet.key == _ROCE_KEY
    assert (report.packet.stack, report.packet.int_bytes) == (None, 16)
    assert (report.packet.dscp, report.packet.wire_bytes) == (26, 102)
    headers = encode_mx(instruction_bitmap=0xFC00, original_dscp=26)
    assert headers == _bytes(_MX_INNER)[28:44]
    spec = ReportSpec(
        inner=_bytes(_MX_INNER),
        metadata_bits=0x7C00,
        metadata=report.metadata,
        congested_queue=True,
    )
    encoded = encode_reports(node_id=101, hw_id=1, sequence_number=5, reports=[spec])
    assert encoded == _MX_POSTCARD


_DROP_REPORT = _bytes(
    """
    20 00 00 09                           # Ver 2, hw_id 0 (ingress), sequence 9
    00 00 00 02                           # node 2
    15 17 04 80                           # RepType 1, InType 5, 23 words, MDLength 4, D
    48 01 00 00 00 00 00 00               # ports, ingress stamp, queue id and drop reason
    00 01 ff ff                           # port 1, no egress port was chosen
    00 00 00 00 00 2d c6 c0               # ingress stamp 3,000,000
    01 1d 00 00                           # queue 1, reason 29: no route
    66 81 23 45 00 1c 11 3e               # IPv6: DSCP 26, label 0x12345, 28 bytes, UDP
    20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01
    20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02
    c3 50 12 b7 00 1c 00 00               # UDP port 50000 to 4791
    11 00 ff ff 00 00 00 17 00 0a 0b 0c   # BTH: acknowledge, queue pair 0x17, PSN 0x0a0b0c
    00 00 00 07 00 00 00 00               # AETH: ACK, MSN 7; room for the ICRC
    """
)


def test_a_drop_report_of_an_acknowledgement_over_ipv6():
    """RepMdBits 0x4801; a port of all ones is none."""
    group, report = _decode(_DROP_REPORT, _BY_DSCP)
    assert (group.hw_id, group.sequence_number, group.node_id) == (0, 9, 2)
    assert (report.dropped, report.congested_queue, report.tracked_flow) == (True, False, False)
    assert report.metadata == HopMetadata(
        ingress_port=1,
        egress_port=0xFFFF,
        ingress_tstamp=3_000_000,
        drop_queue_id=1,
        drop_reason=29,
    )
    prefix = 0x20010DB8 << 96
    assert report.packet.key == PacketKey(
        TRAFFIC_ROCE,
        prefix + 1,
        prefix + 2,
        17,
        50000,
        4791,
        0x11,
        dest_qp=0x17,
        psn=0x0A0B0C,
        network=NETWORK_IPV6,
    )
    assert (report.packet.dscp, report.packet.wire_bytes) == (26, 86)
    spec = ReportSpec(
        inner=_DROP_REPORT[36:],
        inner_type=5,
        metadata_bits=0x4801,
        metadata=report.metadata,
        dropped=True,
        tracked_flow=False,
    )
    encoded = encode_reports(node_id=2, hw_id=0, sequence_number=9, reports=[spec])
    assert encoded == _DROP_REPORT


_L2_PTP_POSTCARD = _bytes(
    """
    20 40 00 01                           # Ver 2, hw_id 1 (egress), sequence 1
    00 00 00 65                           # node 101
    13 12 02 20                           # RepType 1, InType 3, 18 words, MDLength 2, F
    02 00 00 00 00 00 00 00               # level 2 interfaces
    00 00 00 07 ff ff ff ff               # interface 7; the other one is not known
    01 1b 19 00 00 00 02 00 00 00 01 01   # Ethernet: to the PTP group, from 02:00:00:00:01:01
    81 00 00 64 88 f7                     # VLAN 100; PTP
    01 12 00 2c 03 00 02 00               # Delay_Req, PTP 2.1, 44 bytes, domain 3, two-step
    00 00 00 00 00 02 80 00               # correctionField 2.5 ns
    00 00 00 00                           # messageTypeSpecific
    02 00 00 ff fe 00 01 01 00 01         # sourcePortIdentity, port 1
    41 42 01 7f                           # sequenceId, controlField, logMessageInterval
    00 00 00 00                           # first bytes of originTimestamp
    """
)


def test_a_postcard_of_a_tagged_ptp_message_over_ethernet():
    """An Ethernet inner packet keeps its tag; 18 + 44 + 4 bytes on the wire."""
    _group, report = _decode(_L2_PTP_POSTCARD, _BY_DSCP)
    assert report.metadata == HopMetadata(ingress_interface=7, unavailable_bits=0x0200)
    assert report.packet.key == PacketKey(
        TRAFFIC_PTP,
        0x020000000101,
        0x011B19000000,
        0x88F7,
        0,
        0,
        ptp_domain=3,
        ptp_message_type=1,
        ptp_clock_identity=0x020000FFFE000101,
        ptp_port_number=1,
        ptp_sequence_id=0x4142,
        network=NETWORK_ETHERNET,
    )
    assert (report.packet.wire_bytes, report.packet.vlan_id) == (66, 100)


_PROBE_END = _bytes(
    """
    20 00 00 02                           # Ver 2, hw_id 0 (ingress), sequence 2
    00 00 00 01                           # node 1
    14 0f 03 20                           # RepType 1, InType 4, 15 words, MDLength 3, F
    48 00 00 00 00 00 00 00               # ports, ingress stamp
    00 01 ff ff                           # port 1; it goes no further
    00 00 00 00 00 0f 65 68               # ingress stamp 1,009,000
    45 b8 00 28 00 00 40 00 ff 11 a5 71   # IPv4: 40 bytes, DSCP 46, TTL 255, UDP
    0a fe 00 65 0a fe 00 01               # 10.254.0.101 to 10.254.0.1
    7f ff 7f ff 00 14 00 00               # UDP port 32767
    18 00 00 01                           # probe: version 1, returning; port 1
    00 00 00 01 00 00 00 4d               # of node 1, number 77
    """
)


def test_the_report_that_ends_a_probe():
    """Returning: its addresses are told in the direction in which it was sent."""
    _group, report = _decode(_PROBE_END, _BY_DSCP)
    assert report.packet.probe_returning
    assert (report.packet.src_addr, report.packet.dst_addr) == (0x0AFE0001, 0x0AFE0065)
    key = report.packet.key
    assert (key.traffic, key.probe_node_id, key.probe_egress_port) == (TRAFFIC_PROBE, 1, 1)
    assert (key.probe_sequence_number, report.packet.wire_bytes) == (77, 64)


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        (_PORTS_OF_TCP_FLOW, 14),
        (_MD_OF_TCP_FLOW, 23),
        (_SINK_STACK_REPORT, 35),
        (_PTP_POSTCARD, 27),
        (_MX_POSTCARD, 23),
        (_DROP_REPORT, 23),
        (_L2_PTP_POSTCARD, 18),
        (_PROBE_END, 15),
    ],
)
def test_the_vectors_are_as_long_as_they_say(wire, words):
    """ReportLength counts the words after the individual report header."""
    assert len(wire) == 8 + 4 + words * 4
    assert wire[9] == words
