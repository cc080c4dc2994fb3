# SPDX-License-Identifier: Apache-2.0
"""Frames over IPv6, VLAN and Ethernet: as an independent encoder makes them, and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.ptp_v2 import PTP as SCAPY_PTP
from scapy.contrib.roce import BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether

from controller.telemetry.codec import DecodeError, DecodeReason, decode
from controller.telemetry.datagram import (
    unwrap_udp,
    with_udp_checksum,
    wrap_link,
    wrap_udp,
)
from controller.telemetry.frames import (
    BthOpcode,
    PtpAddresses,
    PtpTransport,
    RoceFlow,
    icrc_is_valid,
    parse_probe,
    parse_ptp,
    parse_ptp_addresses,
    probe_frame,
    ptp_delay_req,
    ptp_delay_resp,
    ptp_sync,
    roce_ack_frame,
    roce_cnp_frame,
    roce_frame,
    roce_read_request_frame,
    roce_write_frame,
)
from controller.telemetry.layout import AETH, RETH, Probe, Reth
from controller.telemetry.layout import BTH as BTH_LAYOUT

_SRC6, _DST6 = 0x20010DB8_00000000_00000001_00000001, 0x20010DB8_00000000_00000002_00000001
_MACS = {"src_mac": 0x020000000101, "dst_mac": 0x020000000201}
_FLOW6 = RoceFlow(
    **_MACS,
    src_ip=_SRC6,
    dst_ip=_DST6,
    src_port=0xC001,
    dest_qp=0x17,
    ip_version=6,
    flow_label=0xABCDE,
)
_FLOW4 = RoceFlow(**_MACS, src_ip=0x0A000101, dst_ip=0x0A000201, src_port=0xC001, dest_qp=0x17)
_IPV6_START, _BTH6 = 14, 14 + 40 + 8


def _ether():
    return Ether(dst="02:00:00:00:02:01", src="02:00:00:00:01:01")


@given(psn=st.integers(0, 2**24 - 1), payload=st.binary(max_size=120))
def test_scapy_rebuilds_a_roce_frame_over_ipv6(psn, payload):
    """Every field, the padding and the ICRC."""
    body = payload + bytes(-len(payload) % 4)
    expected = (
        _ether()
        / IPv6(src="2001:db8::1:0:1", dst="2001:db8::2:0:1", tc=26 << 2 | 2, fl=0xABCDE, hlim=64)
        / UDP(sport=0xC001, dport=4791, chksum=0)
        / BTH(opcode=4, padcount=len(body) - len(payload), dqpn=0x17, psn=psn)
        / body
    )
    frame = roce_frame(_FLOW6, psn=psn, payload=payload)
    assert frame == bytes(expected)
    assert icrc_is_valid(frame)


_FRAME6 = roce_frame(_FLOW6, psn=0x123456, payload=bytes(range(20)))
_MUTABLE6 = {15, 16, 17, 21, 60, 61, _BTH6 + 4}
"""Traffic class (low half), flow label, hop limit, UDP checksum, BTH byte 4."""
_DEFINING6 = {14, 18, 19, 20, 56, 57, 58, 59}
"""Version, lengths, next header, UDP destination port's place in the frame."""


@pytest.mark.parametrize("offset", sorted(set(range(14, len(_FRAME6))) - _DEFINING6))
def test_the_icrc_over_ipv6_survives_exactly_what_routers_may_change(offset):
    """Addresses and ports count; traffic class, flow label and hop limit do not."""
    mutated = bytearray(_FRAME6)
    mutated[offset] ^= 0x01
    assert icrc_is_valid(bytes(mutated)) is (offset in _MUTABLE6)


def test_the_icrc_does_not_see_the_dscp_of_ipv6():
    """The traffic class lies across the first two bytes."""
    mutated = bytearray(_FRAME6)
    mutated[14] ^= 0x0F
    assert icrc_is_valid(bytes(mutated))


@pytest.mark.parametrize("flow", [_FLOW4, _FLOW6], ids=["IPv4", "IPv6"])
def test_a_vlan_tag_and_a_udp_checksum_leave_the_icrc_alone(flow):
    """Same ICRC, one tag more; the checksum is right afterwards."""
    plain = roce_frame(flow, psn=9, payload=b"abcd")
    fields = {name: getattr(flow, name) for name in RoceFlow.__slots__}
    tagged = roce_frame(RoceFlow(**{**fields, "vlan_id": 7}), psn=9, payload=b"abcd")
    assert tagged[18:] == plain[14:]
    scapy = Ether(tagged)
    assert (scapy[Dot1Q].vlan, scapy[Dot1Q].type) == (7, 0x86DD if flow is _FLOW6 else 0x0800)
    assert icrc_is_valid(tagged)
    summed = with_udp_checksum(tagged)
    datagram = unwrap_udp(summed)
    assert datagram.udp.checksum != 0
    assert datagram.vlan is not None
    assert icrc_is_valid(summed)
    rebuilt = Ether(summed)
    del rebuilt[UDP].chksum
    assert bytes(rebuilt) == summed


def test_a_write_request_and_a_read_request_carry_a_reth():
    """Behind the BTH, before the payload."""
    write = roce_write_frame(
        _FLOW4,
        psn=1,
        virtual_address=0x1122334455667788,
        remote_key=7,
        dma_length=4,
        payload=b"data",
    )
    read = roce_read_request_frame(
        _FLOW4, psn=2, virtual_address=0x1122334455667788, remote_key=7, dma_length=4
    )
    expected = Reth(virtual_address=0x1122334455667788, remote_key=7, dma_length=4)
    for frame, opcode in ((write, BthOpcode.WRITE_ONLY), (read, BthOpcode.READ_REQUEST)):
        assert decode(BTH_LAYOUT, frame, 42).opcode == opcode
        assert decode(RETH, frame, 54) == expected
        assert icrc_is_valid(frame)
    assert write[70:74] == b"data"


def test_a_nak_carries_its_syndrome():
    """0x60: PSN sequence error."""
    assert decode(AETH, roce_ack_frame(_FLOW4, psn=1, msn=2, syndrome=0x60), 54) == (0x60, 2)


def test_a_cnp_is_scapys():
    """Opcode 0x81, BECN, 16 reserved bytes, no PSN."""
    expected = (
        _ether()
        / IP(src="10.0.1.1", dst="10.0.2.1", tos=26 << 2 | 2, flags="DF", id=0, ttl=64)
        / UDP(sport=0xC001, dport=4791, chksum=0)
        / BTH(opcode=0x81, becn=1, dqpn=0x17)
        / CNPPadding()
    )
    frame = roce_cnp_frame(_FLOW4)
    assert frame == bytes(expected)
    assert icrc_is_valid(frame)


# ---------------------------------------------------------------- PTP

_OVER = {
    "UDP over IPv4": PtpAddresses(**_MACS, src_ip=0x0A000101, dst_ip=0x0A000201),
    "UDP over IPv6": PtpAddresses(
        **_MACS, src_ip=_SRC6, dst_ip=_DST6, dscp=46, ttl=9, transport=PtpTransport.UDP_IPV6
    ),
    "Ethernet": PtpAddresses(**_MACS, transport=PtpTransport.ETHERNET),
    "tagged Ethernet": PtpAddresses(**_MACS, transport=PtpTransport.ETHERNET, vlan_id=5),
    "tagged IPv6": PtpAddresses(
        **_MACS, src_ip=_SRC6, dst_ip=_DST6, transport=PtpTransport.UDP_IPV6, vlan_id=5
    ),
}


@pytest.mark.parametrize("addresses", _OVER.values(), ids=_OVER)
def test_the_same_message_travels_on_every_transport(addresses):
    """What is built is read back, correctionField and addresses included."""
    frame = ptp_sync(
        addresses,
        domain=3,
        clock_identity=0x1122,
        sequence_id=77,
        timestamp_ns=1_800_000_000_123_456_789,
        correction_scaled_ns=-(5 << 16) - 1,
    )
    message = parse_ptp(frame)
    assert (message.domain, message.sequence_id, message.correction_scaled_ns) == (
        3,
        77,
        -(5 << 16) - 1,
    )
    assert message.correction_ns == -6
    assert message.timestamp_ns == 1_800_000_000_123_456_789
    assert parse_ptp_addresses(frame) == addresses
    bare = ptp_sync(
        _OVER["Ethernet"],
        domain=3,
        clock_identity=0x1122,
        sequence_id=77,
        timestamp_ns=1_800_000_000_123_456_789,
        correction_scaled_ns=-(5 << 16) - 1,
    )[14:]
    assert frame.endswith(bare)


def test_scapy_reads_ptp_over_ipv6_with_a_right_checksum():
    """IPv6 has no header checksum, so UDP's is not optional."""
    frame = ptp_sync(_OVER["UDP over IPv6"], domain=0, clock_identity=1, sequence_id=2)
    packet = Ether(frame)
    assert packet[SCAPY_PTP].sequenceId == 2
    del packet[UDP].chksum
    assert bytes(packet) == frame


def test_a_message_to_a_group_is_not_unicast():
    """The unicastFlag follows the destination MAC address."""
    group = PtpAddresses(src_mac=1, dst_mac=0x011B19000000, transport=PtpTransport.ETHERNET)
    one = PtpAddresses(src_mac=1, dst_mac=2, transport=PtpTransport.ETHERNET)
    flags = [
        ptp_sync(addresses, domain=0, clock_identity=1, sequence_id=2)[20:22]
        for addresses in (group, one)
    ]
    assert flags == [b"\x02\x00", b"\x06\x00"]


def test_padding_behind_ptp_over_ethernet_is_no_part_of_it():
    """62 bytes are padded to 64 on the wire; messageLength says where the message ends."""
    frame = ptp_sync(_OVER["Ethernet"], domain=0, clock_identity=1, sequence_id=2)
    assert parse_ptp(frame + bytes(6)) == parse_ptp(frame)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_delay_resp_hands_back_the_delay_reqs_correction(correction_scaled_ns):
    """IEEE 1588-2019 11.3.2: whatever the Delay_Req collected on its way."""
    addresses = _OVER["UDP over IPv4"]
    request = parse_ptp(
        ptp_delay_req(
            addresses,
            domain=0,
            clock_identity=1,
            sequence_id=2,
            correction_scaled_ns=correction_scaled_ns,
        )
    )
    response = ptp_delay_resp(
        addresses,
        domain=0,
        clock_identity=9,
        sequence_id=request.sequence_id,
        timestamp_ns=5,
        requesting_clock_identity=request.clock_identity,
        correction_scaled_ns=request.correction_scaled_ns,
    )
    assert parse_ptp(response).correction_scaled_ns == correction_scaled_ns


# ---------------------------------------------------------------- probes and tags

_PROBE = probe_frame(
    node_id=101, egress_port=3, sequence_number=9, **_MACS, src_ip=1, dst_ip=2, payload_bytes=64
)


def test_a_probe_is_read_back():
    """TTL 255, no checksum, 126 bytes with its payload."""
    assert parse_probe(_PROBE) == Probe(1, 0, 0, 3, 101, 9)
    datagram = unwrap_udp(_PROBE)
    assert (datagram.ip.ttl, datagram.udp.checksum, datagram.udp.dst_port) == (255, 0, 32767)
    assert len(_PROBE) == 14 + 20 + 8 + 12 + 64


def test_what_is_no_probe_is_refused():
    """Another port, another version, or cut."""
    for end in range(14 + 20 + 8 + 12):
        with pytest.raises(DecodeError):
            parse_probe(_PROBE[:end])
    other = bytearray(_PROBE)
    other[42] = 0x20
    with pytest.raises(DecodeError) as caught:
        parse_probe(bytes(other))
    assert caught.value.reason is DecodeReason.PROBE_VERSION
    with pytest.raises(DecodeError) as caught:
        parse_probe(roce_frame(_FLOW4, psn=1))
    assert caught.value.reason is DecodeReason.INNER_PROTOCOL


def test_four_tags_are_looked_through_and_five_are_too_many():
    """Provider bridges and captures stack them; a frame of nothing but tags ends nowhere."""
    frame = wrap_udp(b"x", **_MACS, src_ip=1, dst_ip=2, src_port=3, dst_port=4, vlan_id=5)
    assert unwrap_udp(frame).payload_end == 14 + 4 + 20 + 8 + 1
    for count in range(1, 4):
        more = frame[:12] + b"\x81\x00\x00\x06" * count + frame[12:]
        assert unwrap_udp(more).payload_end == 14 + 4 * (1 + count) + 20 + 8 + 1
    with pytest.raises(DecodeError) as caught:
        unwrap_udp(frame[:12] + b"\x81\x00\x00\x06" * 4 + frame[12:])
    assert caught.value.reason is DecodeReason.ETHER_TYPE


@pytest.mark.parametrize("end", range(len(_FRAME6)))
def test_an_ipv6_frame_cut_anywhere_is_refused(end):
    """Every prefix is a DecodeError."""
    with pytest.raises(DecodeError):
        unwrap_udp(_FRAME6[:end])


def test_a_wrong_udp_checksum_over_ipv6_is_told():
    """Its pseudo header holds both addresses."""
    frame = bytearray(with_udp_checksum(_FRAME6))
    frame[30] ^= 1
    with pytest.raises(DecodeError) as caught:
        unwrap_udp(bytes(frame))
    assert caught.value.reason is DecodeReason.UDP_CHECKSUM


def test_an_odd_payload_is_summed_with_a_zero_byte():
    """RFC 768; scapy agrees."""
    addresses = {"src_ip": _SRC6, "dst_ip": _DST6, "src_port": 1, "dst_port": 2}
    frame = wrap_udp(b"odd", **_MACS, **addresses, ip_version=6, udp_checksum=True)
    packet = Ether(frame)
    del packet[UDP].chksum
    assert bytes(packet) == frame


def test_the_ether_type_of_a_tagged_frame_stands_behind_the_tag():
    """0x8100, then priority 0 and the VLAN id, then what the payload is."""
    plain = wrap_link(b"x", src_mac=1, dst_mac=2, ether_type=0x88F7)
    tagged = wrap_link(b"x", src_mac=1, dst_mac=2, ether_type=0x88F7, vlan_id=0xABC)
    assert plain == bytes.fromhex("000000000002 000000000001 88f7") + b"x"
    assert tagged == plain[:12] + bytes.fromhex("8100 0abc 88f7") + b"x"
