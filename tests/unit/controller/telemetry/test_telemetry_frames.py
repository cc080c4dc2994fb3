# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 frames carry the ICRC that a NIC would compute; scapy is the independent decoder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from controller.telemetry.codec import DecodeError, decode
from controller.telemetry.datagram import internet_checksum
from controller.telemetry.frames import (
    BthOpcode,
    RoceFlow,
    icrc,
    icrc_is_valid,
    roce_ack_frame,
    roce_frame,
)
from controller.telemetry.layout import AETH
from controller.telemetry.layout import BTH as BTH_LAYOUT

_FLOW = RoceFlow(
    src_mac=0x020000000101,
    dst_mac=0x020000000201,
    src_ip=0x0A000101,
    dst_ip=0x0A000201,
    src_port=49152,
    dest_qp=0xABCDE,
)
_FRAME = roce_frame(_FLOW, psn=0x123456, payload=bytes(range(30)), ack_request=True)
_BTH_START = 42


@given(
    psn=st.integers(0, 2**24 - 1),
    opcode=st.sampled_from([BthOpcode.SEND_FIRST, BthOpcode.SEND_LAST, BthOpcode.SEND_ONLY]),
    payload=st.binary(max_size=300),
    ack_request=st.booleans(),
)
def test_scapy_rebuilds_the_same_frame(psn, opcode, payload, ack_request):
    """Every header field, the padding and the ICRC are what scapy computes on its own."""
    frame = roce_frame(_FLOW, psn=psn, opcode=opcode, payload=payload, ack_request=ack_request)
    body = payload + bytes(-len(payload) % 4)
    scapy_frame = (
        Ether(dst="02:00:00:00:02:01", src="02:00:00:00:01:01")
        / IP(src="10.0.1.1", dst="10.0.2.1", tos=26 << 2 | 2, flags="DF", id=0, ttl=64)
        / UDP(sport=49152, dport=4791, chksum=0)
        / BTH(
            opcode=int(opcode),
            padcount=len(body) - len(payload),
            dqpn=_FLOW.dest_qp,
            psn=psn,
            ackreq=ack_request,
        )
        / body
    )
    assert frame == bytes(scapy_frame)
    assert icrc_is_valid(frame)


def test_the_ip_header_checksum_is_right():
    """A switch would drop the frame otherwise."""
    assert internet_checksum(_FRAME[14:34]) == 0


def test_an_acknowledgement_carries_an_aeth():
    """ACK of PSN 7 with MSN 3: 66 bytes on the wire with FCS."""
    frame = roce_ack_frame(_FLOW, psn=7, msn=3, syndrome=0x1F)
    bth = decode(BTH_LAYOUT, frame, _BTH_START)
    aeth = decode(AETH, frame, _BTH_START + 12)
    assert (bth.opcode, bth.psn, aeth.syndrome, aeth.msn) == (0x11, 7, 0x1F, 3)
    assert len(frame) + 4 == 66
    assert icrc_is_valid(frame)


_MUTABLE_BYTES = {15, 22, 24, 25, 40, 41, _BTH_START + 4}
"""TOS, TTL, IP checksum, UDP checksum, BTH byte 4."""
_DEFINING_BYTES = {14, 16, 17, 20, 21, 23, 38, 39}
"""Version, lengths, fragment bits and protocol: the frame would be another or none."""


@pytest.mark.parametrize("offset", sorted(set(range(14, len(_FRAME))) - _DEFINING_BYTES))
def test_the_icrc_survives_exactly_the_fields_that_routers_may_change(offset):
    """One bit flipped in a mutable byte keeps it valid, in any other byte breaks it."""
    mutated = bytearray(_FRAME)
    mutated[offset] ^= 0x01
    assert icrc_is_valid(bytes(mutated)) is (offset in _MUTABLE_BYTES)


def test_ethernet_and_padding_are_outside_the_icrc():
    """MAC addresses change at every hop; short frames get padding."""
    assert icrc(bytes(12) + _FRAME[12:] + bytes(9)) == icrc(_FRAME)


@pytest.mark.parametrize("end", range(len(_FRAME)))
def test_a_cut_frame_has_no_icrc(end):
    """Every prefix is a DecodeError."""
    with pytest.raises(DecodeError):
        icrc(_FRAME[:end])


def test_a_datagram_too_short_for_a_bth_has_no_icrc():
    """UDP length 20 leaves no room for BTH and ICRC."""
    frame = roce_frame(_FLOW, psn=0)
    cut = bytearray(frame[:54])
    cut[16:18] = (40).to_bytes(2, "big")
    cut[38:40] = (20).to_bytes(2, "big")
    with pytest.raises(DecodeError):
        icrc(bytes(cut))
