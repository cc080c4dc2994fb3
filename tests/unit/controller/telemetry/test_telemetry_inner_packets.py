# SPDX-License-Identifier: Apache-2.0
"""Reported packets of every kind: their key, their length, and what is refused."""

from dataclasses import replace

import pytest

from controller.telemetry.codec import DecodeError, DecodeReason
from controller.telemetry.frames import (
    PtpAddresses,
    PtpTransport,
    RoceFlow,
    probe_frame,
    ptp_follow_up,
    ptp_sync,
    roce_frame,
)
from controller.telemetry.packet import (
    NETWORK_ETHERNET,
    NETWORK_IPV4,
    NETWORK_IPV6,
    TRAFFIC_OTHER,
    IntMarking,
    PacketKey,
    decode_frame,
    decode_ipv6_packet,
    decode_packet,
)
from controller.telemetry.report import IN_TYPE_ETHERNET, IN_TYPE_IPV4, IN_TYPE_IPV6, decode_reports
from controller.telemetry.report_encode import (
    ReportSpec,
    StackSpec,
    encode_mx,
    encode_reports,
    insert_int,
    insert_stack,
)
from correction.records import TRAFFIC_PROBE, TRAFFIC_PTP, TRAFFIC_ROCE
from tests.support.telemetry_reports import FLOW, MARKED, SOURCE_HOP, TRANSIT_HOP, UNMARKED

_MARKING = IntMarking({MARKED: UNMARKED})
_SRC6, _DST6 = 0x20010DB8 << 96 | 1, 0x20010DB8 << 96 | 2
_FLOW6 = replace(FLOW, src_ip=_SRC6, dst_ip=_DST6, ip_version=6)
_MACS = {"src_mac": 0x020000000101, "dst_mac": 0x020000000201}
_PTP_L2 = PtpAddresses(**_MACS, transport=PtpTransport.ETHERNET)
_PTP6 = PtpAddresses(**_MACS, src_ip=_SRC6, dst_ip=_DST6, transport=PtpTransport.UDP_IPV6)
_SYNC = {"domain": 3, "clock_identity": 0x1122, "sequence_id": 77}


def _probe(returning=False):
    frame = bytearray(
        probe_frame(node_id=101, egress_port=3, sequence_number=9, **_MACS, src_ip=10, dst_ip=20)
    )
    if returning:
        frame[26:34] = frame[30:34] + frame[26:30]
        frame[42] |= 0x08
    return bytes(frame[14:])


def test_roce_over_ipv6_has_the_same_key_parts():
    """Addresses are 128 bits wide, the rest is as over IPv4; the frame is 20 bytes longer."""
    frame = roce_frame(_FLOW6, psn=7, payload=bytes(56))
    packet = decode_ipv6_packet(frame[14:], 0, _MARKING)
    assert packet.key == PacketKey(
        TRAFFIC_ROCE, _SRC6, _DST6, 17, FLOW.src_port, 4791, 4, 0x17, 7, network=NETWORK_IPV6
    )
    assert (packet.dscp, packet.wire_bytes, packet.int_bytes) == (UNMARKED, 138, 0)
    assert (packet.src_addr, packet.dst_addr) == (_SRC6, _DST6)


def test_a_stack_over_ipv6_is_read_and_taken_off_the_length():
    """INT-MD stands behind UDP whatever is below it."""
    spec = StackSpec(hops=(SOURCE_HOP, TRANSIT_HOP), instruction_bitmap=0xFC00)
    inner = insert_stack(
        roce_frame(_FLOW6, psn=7, payload=bytes(56))[14:], spec, marked_dscp=MARKED
    )
    packet = decode_ipv6_packet(inner, 0, _MARKING)
    assert packet.stack is not None
    assert packet.stack.hops == (SOURCE_HOP, TRANSIT_HOP)
    assert (packet.dscp, packet.wire_bytes, packet.int_bytes) == (UNMARKED, 138, 80)


@pytest.mark.parametrize("flow", [FLOW, _FLOW6], ids=["IPv4", "IPv6"])
def test_an_mx_header_is_taken_off(flow):
    """The key is that of the packet without it; there is no stack."""
    bare = roce_frame(flow, psn=7, payload=bytes(56))[14:]
    inner = insert_int(
        bare, encode_mx(instruction_bitmap=0xFC00, original_dscp=UNMARKED), marked_dscp=MARKED
    )
    decoder = decode_packet if flow is FLOW else decode_ipv6_packet
    with_int, without = decoder(inner, 0, _MARKING), decoder(bare, 0, _MARKING)
    assert with_int == without._replace(int_bytes=16)
    assert with_int.stack is None


def test_mx_metadata_of_the_source_counts():
    """Domain specific words behind the header; without a domain there can be none."""
    bare = roce_frame(FLOW, psn=7)[14:]
    for domain_specific_id in (5, 0):
        header = encode_mx(
            instruction_bitmap=0xFC00,
            original_dscp=UNMARKED,
            domain_specific_id=domain_specific_id,
            extra=bytes(8),
        )
        inner = insert_int(bare, header, marked_dscp=MARKED)
        if domain_specific_id:
            assert decode_packet(inner, 0, _MARKING).int_bytes == 24
            with pytest.raises(DecodeError) as caught:
                decode_packet(inner[: 28 + 16], 0, _MARKING)
            assert caught.value.reason is DecodeReason.TRUNCATED
        else:
            with pytest.raises(DecodeError) as caught:
                decode_packet(inner, 0, _MARKING)
            assert caught.value.reason is DecodeReason.INT_STACK_LENGTH


def test_an_mx_header_of_another_version_is_refused():
    """Nothing is known of what follows it."""
    header = encode_mx(instruction_bitmap=0xFC00, original_dscp=UNMARKED)
    header = header[:4] + b"\x30" + header[5:]
    inner = insert_int(roce_frame(FLOW, psn=7)[14:], header, marked_dscp=MARKED)
    with pytest.raises(DecodeError) as caught:
        decode_packet(inner, 0, _MARKING)
    assert caught.value.reason is DecodeReason.INT_VERSION


@pytest.mark.parametrize("vlan_id", [None, 5])
def test_ptp_over_ethernet_is_keyed_by_its_mac_addresses(vlan_id):
    """Its length is that of the message: 62 bytes are padded to 64, with a tag they are 66."""
    frame = ptp_sync(replace(_PTP_L2, vlan_id=vlan_id), **_SYNC)
    packet = decode_frame(frame, 0, _MARKING)
    assert packet.key == PacketKey(
        TRAFFIC_PTP,
        _MACS["src_mac"],
        _MACS["dst_mac"],
        0x88F7,
        0,
        0,
        ptp_domain=3,
        ptp_clock_identity=0x1122,
        ptp_port_number=1,
        ptp_sequence_id=77,
        network=NETWORK_ETHERNET,
    )
    assert (packet.wire_bytes, packet.vlan_id) == (64 if vlan_id is None else 66, vlan_id)
    assert (packet.src_addr, packet.dst_addr) == (_MACS["src_mac"], _MACS["dst_mac"])


def test_ptp_over_ipv6_is_keyed_like_over_ipv4():
    """Domain, type, source port identity, sequenceId and addresses."""
    packet = decode_ipv6_packet(ptp_sync(_PTP6, **_SYNC)[14:], 0, _MARKING)
    assert packet.key.traffic == TRAFFIC_PTP
    assert packet.key.network == NETWORK_IPV6
    assert (packet.key.ptp_domain, packet.key.ptp_sequence_id) == (3, 77)
    assert packet.wire_bytes == 110


@pytest.mark.parametrize("message_type", range(16))
def test_event_messages_are_timed_and_general_ones_are_not(message_type):
    """Types 0 to 3, the peer delay messages among them."""
    frame = bytearray(ptp_sync(_PTP_L2, **_SYNC))
    frame[14] = message_type
    packet = decode_frame(bytes(frame), 0, _MARKING)
    assert packet.key.traffic == (TRAFFIC_PTP if message_type <= 3 else TRAFFIC_OTHER)
    assert packet.key.ptp_message_type == (message_type if message_type <= 3 else 0)


def test_general_messages_over_udp_are_no_event_messages():
    """Port 320 is not looked into."""
    frame = ptp_follow_up(replace(_PTP6, dscp=1), **_SYNC, timestamp_ns=1)
    assert decode_ipv6_packet(frame[14:], 0, _MARKING).key.traffic == TRAFFIC_OTHER


def test_a_probe_has_one_key_both_ways():
    """Sender, port and number; the addresses are those of the way out."""
    out, back = (decode_packet(_probe(returning), 0, _MARKING) for returning in (False, True))
    assert out.key == back.key
    assert out.key == PacketKey(
        TRAFFIC_PROBE,
        0,
        0,
        17,
        32767,
        32767,
        network=NETWORK_IPV4,
        probe_node_id=101,
        probe_egress_port=3,
        probe_sequence_number=9,
    )
    assert (out.probe_returning, back.probe_returning) == (False, True)
    assert (out.src_addr, out.dst_addr) == (back.src_addr, back.dst_addr) == (10, 20)


def test_a_probe_of_another_version_is_refused():
    """It may have other fields."""
    probe = bytearray(_probe())
    probe[28] = 0x20
    with pytest.raises(DecodeError) as caught:
        decode_packet(bytes(probe), 0, _MARKING)
    assert caught.value.reason is DecodeReason.PROBE_VERSION


def test_an_ether_type_that_is_neither_ip_nor_ptp_is_refused():
    """Nothing in it could be followed through the fabric."""
    with pytest.raises(DecodeError) as caught:
        decode_frame(bytes(12) + b"\x08\x06" + bytes(46), 0, _MARKING)
    assert caught.value.reason is DecodeReason.INNER_ETHER_TYPE


def test_a_tagged_ip_frame_counts_its_tag():
    """In an Ethernet inner packet the tag shows."""
    flow = replace(FLOW, vlan_id=9)
    packet = decode_frame(roce_frame(flow, psn=1, payload=bytes(56)), 0, _MARKING)
    assert (packet.wire_bytes, packet.vlan_id, packet.key.psn) == (122, 9, 1)


def test_behind_an_ipv6_extension_header_nothing_is_read():
    """A fragment header, say: addresses and protocol are all there is."""
    packet = bytearray(roce_frame(_FLOW6, psn=1)[14:])
    packet[6] = 44
    assert decode_ipv6_packet(bytes(packet), 0, _MARKING).key == PacketKey(
        TRAFFIC_OTHER, _SRC6, _DST6, 44, 0, 0, network=NETWORK_IPV6
    )


_INNER = {
    "RoCEv2 over IPv6": (IN_TYPE_IPV6, roce_frame(_FLOW6, psn=7)[14:], 60),
    "PTP over IPv6": (IN_TYPE_IPV6, ptp_sync(_PTP6, **_SYNC)[14:], 82),
    "PTP over Ethernet": (IN_TYPE_ETHERNET, ptp_sync(_PTP_L2, **_SYNC), 48),
    "tagged": (IN_TYPE_ETHERNET, ptp_sync(replace(_PTP_L2, vlan_id=5), **_SYNC), 52),
    "probe": (IN_TYPE_IPV4, _probe(), 40),
}


@pytest.mark.parametrize(("inner_type", "inner", "needed"), _INNER.values(), ids=_INNER)
def test_an_inner_packet_cut_before_its_key_is_refused(inner_type, inner, needed):
    """Where the key ends the report may end, and not a byte before."""
    for cut in range(len(inner) + 1):
        spec = ReportSpec(inner=inner[:cut], inner_type=inner_type)
        payload = encode_reports(node_id=1, hw_id=1, sequence_number=1, reports=[spec])
        if cut >= needed:
            assert len(decode_reports(payload, 8, _MARKING)) == 1
        else:
            with pytest.raises(DecodeError) as caught:
                decode_reports(payload, 8, _MARKING)
            assert caught.value.reason is DecodeReason.TRUNCATED


def test_an_inner_packet_of_the_other_ip_version_is_refused():
    """InType says which header comes."""
    for inner_type, frame in (
        (IN_TYPE_IPV4, roce_frame(_FLOW6, psn=7)),
        (
            IN_TYPE_IPV6,
            roce_frame(RoceFlow(**_MACS, src_ip=1, dst_ip=2, src_port=3, dest_qp=4), psn=7),
        ),
    ):
        spec = ReportSpec(inner=frame[14:] + bytes(20), inner_type=inner_type)
        payload = encode_reports(node_id=1, hw_id=1, sequence_number=1, reports=[spec])
        with pytest.raises(DecodeError) as caught:
            decode_reports(payload, 8, _MARKING)
        assert caught.value.reason is DecodeReason.INNER_IP_HEADER
