# SPDX-License-Identifier: Apache-2.0
"""Ethernet, IPv4 and UDP around a report: every wrong field is a named rejection."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import checksum

from controller.telemetry.codec import DecodeError, DecodeReason
from controller.telemetry.datagram import (
    frame_bytes_on_wire,
    internet_checksum,
    unwrap_udp,
    wrap_udp,
)

_ADDRESSES = {"src_mac": 1, "dst_mac": 2, "src_ip": 0x0A000001, "dst_ip": 0x0A000002}
_FRAME = wrap_udp(b"payload", **_ADDRESSES, src_port=10, dst_port=20, dscp=26, ecn=1)


def _reason(frame):
    with pytest.raises(DecodeError) as caught:
        unwrap_udp(frame)
    return caught.value.reason


def _patched(offset, *values):
    frame = bytearray(_FRAME)
    frame[offset : offset + len(values)] = values
    return bytes(frame)


@given(st.binary(max_size=200))
def test_the_checksum_is_scapys(data):
    """RFC 1071, odd lengths included; all-zero data has no carry and sums to 0."""
    assert internet_checksum(data) == checksum(data)


def test_a_wrapped_payload_is_what_scapy_reads():
    """An independent decoder sees the same fields and finds the checksum right."""
    packet = Ether(_FRAME)
    assert (packet[IP].src, packet[IP].dst, packet[IP].tos >> 2) == ("10.0.0.1", "10.0.0.2", 26)
    assert (packet[UDP].sport, packet[UDP].dport, packet[UDP].chksum) == (10, 20, 0)
    assert bytes(packet[UDP].payload) == b"payload"
    rebuilt = packet[IP].copy()
    del rebuilt.chksum
    assert bytes(rebuilt)[:20] == _FRAME[14:34]


def test_scapys_frame_with_a_udp_checksum_unwraps():
    """A non-zero UDP checksum is verified over pseudo header, header and odd payload."""
    frame = bytes(Ether() / IP(src="10.1.2.3", dst="10.4.5.6") / UDP(sport=1, dport=2) / b"odd")
    datagram = unwrap_udp(frame)
    assert datagram.udp.checksum != 0
    assert frame[datagram.payload_start : datagram.payload_end] == b"odd"


def test_ip_options_and_ethernet_padding_are_skipped():
    """The payload ends where the IP total length says."""
    ip = IP(src="10.1.2.3", dst="10.4.5.6", options=b"\x01" * 4)
    frame = bytes(Ether() / ip / UDP(sport=1, dport=2) / b"x") + bytes(20)
    datagram = unwrap_udp(frame)
    assert datagram.ip.ihl == 6
    assert frame[datagram.payload_start : datagram.payload_end] == b"x"


def test_a_zero_header_checksum_counts_as_not_computed():
    """Captures before transmit offload hold none."""
    assert unwrap_udp(_patched(24, 0, 0)).udp.dst_port == 20


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (_patched(12, 0x08, 0x06), DecodeReason.ETHER_TYPE),
        (_patched(12, 0x86, 0xDD), DecodeReason.TRUNCATED),
        (_patched(12, 0x81, 0x00), DecodeReason.ETHER_TYPE),
        (_patched(14, 0x65), DecodeReason.IP_HEADER),
        (_patched(14, 0x44), DecodeReason.IP_HEADER),
        (_patched(16, 0, 19), DecodeReason.IP_HEADER),
        (_patched(22, 63), DecodeReason.IP_CHECKSUM),
        (_patched(20, 0x20, 0, 64, 17, 0, 0), DecodeReason.IP_FRAGMENT),
        (_patched(20, 0x00, 1, 64, 17, 0, 0), DecodeReason.IP_FRAGMENT),
        (_patched(23, 6, 0, 0), DecodeReason.NOT_UDP),
        (_patched(38, 0, 16), DecodeReason.UDP_LENGTH),
        (_patched(40, 0xBE, 0xEF), DecodeReason.UDP_CHECKSUM),
        (_patched(16, 0, 24, 0, 0, 0x40, 0, 64, 17, 0, 0), DecodeReason.TRUNCATED),
    ],
)
def test_a_wrong_field_is_rejected_with_its_reason(frame, reason):
    """One field at a time; nothing falls through to the report decoder."""
    assert _reason(frame) is reason


@pytest.mark.parametrize("end", range(len(_FRAME)))
def test_a_frame_cut_anywhere_is_rejected(end):
    """Every prefix is TRUNCATED."""
    assert _reason(_FRAME[:end]) is DecodeReason.TRUNCATED


def test_frame_length_on_the_wire_includes_fcs_and_padding():
    """14 bytes of header and 4 of FCS, and never less than 64."""
    assert frame_bytes_on_wire(100) == 118
    assert frame_bytes_on_wire(28) == 64
