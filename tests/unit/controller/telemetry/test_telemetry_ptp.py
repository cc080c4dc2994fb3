# SPDX-License-Identifier: Apache-2.0
"""PTP messages: byte for byte as IEEE 1588-2019 lays them out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.ptp_v2 import PTP as SCAPY_PTP
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from controller.telemetry.codec import DecodeError, DecodeReason
from controller.telemetry.ptp import (
    PTP_CORRECTION_TOO_BIG,
    PtpAddresses,
    PtpMessage,
    PtpMessageType,
    parse_ptp,
    parse_ptp_addresses,
    ptp_delay_req,
    ptp_delay_resp,
    ptp_follow_up,
    ptp_frame,
    ptp_sync,
)

_ADDRESSES = PtpAddresses(
    src_mac=0x020000000101, dst_mac=0x020000000201, src_ip=0x0A000101, dst_ip=0x0A000201
)
_IDENTITY = 0x020000FFFE000101
_MESSAGES = st.builds(
    PtpMessage,
    message_type=st.sampled_from(PtpMessageType),
    domain=st.integers(0, 255),
    clock_identity=st.integers(0, 2**64 - 1),
    port_number=st.integers(0, 2**16 - 1),
    sequence_id=st.integers(0, 2**16 - 1),
    timestamp_ns=st.integers(0, 2**48 * 10**9 - 1),
    correction_scaled_ns=st.integers(-(2**63), 2**63 - 1),
    two_step=st.booleans(),
)


@given(_MESSAGES, st.integers(0, 2**64 - 1), st.integers(0, 2**16 - 1))
def test_parsing_inverts_building(message, requesting_clock_identity, requesting_port_number):
    """Any message of the four types survives the wire, nanoseconds and sign included."""
    if message.message_type is PtpMessageType.DELAY_RESP:
        message = PtpMessage(
            **{name: getattr(message, name) for name in PtpMessage.__slots__[:-2]},
            requesting_clock_identity=requesting_clock_identity,
            requesting_port_number=requesting_port_number,
        )
    frame = ptp_frame(_ADDRESSES, message)
    assert parse_ptp(frame) == message
    assert parse_ptp_addresses(frame) == _ADDRESSES


def test_a_sync_is_these_bytes():
    """The 44 bytes of a two-step unicast Sync, written out by hand from clause 13."""
    frame = ptp_sync(
        _ADDRESSES,
        domain=3,
        clock_identity=_IDENTITY,
        port_number=1,
        sequence_id=0x1234,
        timestamp_ns=(2**32 + 5) * 10**9 + 7,
    )
    assert frame[42:].hex(" ") == (
        "00 12 00 2c 03 00 06 00 "  # Sync, 2.1, 44 bytes, domain 3, twoStep and unicast
        "00 00 00 00 00 00 00 00 00 00 00 00 "  # correctionField, message type specific
        "02 00 00 ff fe 00 01 01 00 01 "  # sourcePortIdentity
        "12 34 00 7f "  # sequenceId, controlField, logMessageInterval
        "00 01 00 00 00 05 00 00 00 07"  # originTimestamp
    )


@pytest.mark.parametrize(
    ("frame", "udp_port", "message_type", "control", "length"),
    [
        (ptp_sync(_ADDRESSES, domain=0, clock_identity=1, sequence_id=1), 319, 0, 0, 44),
        (ptp_delay_req(_ADDRESSES, domain=0, clock_identity=1, sequence_id=1), 319, 1, 1, 44),
        (
            ptp_follow_up(_ADDRESSES, domain=0, clock_identity=1, sequence_id=1, timestamp_ns=5),
            320,
            8,
            2,
            44,
        ),
        (
            ptp_delay_resp(
                _ADDRESSES,
                domain=0,
                clock_identity=1,
                sequence_id=1,
                timestamp_ns=5,
                requesting_clock_identity=9,
            ),
            320,
            9,
            3,
            54,
        ),
    ],
)
def test_scapy_reads_each_message_type(frame, udp_port, message_type, control, length):
    """Ports, types and lengths as an independent decoder sees them; source port = destination."""
    packet = Ether(frame)
    assert (packet[UDP].sport, packet[UDP].dport) == (udp_port, udp_port)
    message = SCAPY_PTP(bytes(packet[UDP].payload))
    assert (message.messageType, message.controlField) == (message_type, control)
    assert (message.version, message.messageLength, message.sequenceId) == (2, length, 1)
    assert packet[IP].len == 28 + length


def test_two_and_a_half_nanoseconds_of_correction():
    """2.5 ns is 0x28000 in the correctionField; whole ns round towards minus infinity."""
    frame = ptp_follow_up(
        _ADDRESSES,
        domain=0,
        clock_identity=1,
        sequence_id=1,
        timestamp_ns=0,
        correction_scaled_ns=5 << 15,
    )
    assert frame[42 + 8 : 42 + 16] == bytes.fromhex("0000000000028000")
    assert parse_ptp(frame).correction_ns == 2
    negative = ptp_follow_up(
        _ADDRESSES,
        domain=0,
        clock_identity=1,
        sequence_id=1,
        timestamp_ns=0,
        correction_scaled_ns=-(5 << 15),
    )
    assert parse_ptp(negative).correction_ns == -3


def test_a_saturated_correction_is_no_number():
    """The largest correctionField says only that it was too big (13.3.2.9)."""
    frame = ptp_follow_up(
        _ADDRESSES,
        domain=0,
        clock_identity=1,
        sequence_id=1,
        timestamp_ns=0,
        correction_scaled_ns=PTP_CORRECTION_TOO_BIG,
    )
    assert parse_ptp(frame).correction_ns is None


_RESPONSE = ptp_delay_resp(
    _ADDRESSES,
    domain=0,
    clock_identity=1,
    sequence_id=1,
    timestamp_ns=5,
    requesting_clock_identity=9,
)


@pytest.mark.parametrize("end", range(len(_RESPONSE)))
def test_a_cut_message_is_a_decode_error(end):
    """Every prefix is refused."""
    with pytest.raises(DecodeError):
        parse_ptp(_RESPONSE[:end])


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [
        (36, b"\x01\x41", DecodeReason.INNER_PROTOCOL),  # UDP destination port 321
        (42, b"\x0b", DecodeReason.INNER_PROTOCOL),  # Announce
        (43, b"\x11", DecodeReason.PTP_VERSION),
        (44, b"\x00\x21", DecodeReason.TRUNCATED),  # messageLength below the header's
        (44, b"\x00\x37", DecodeReason.TRUNCATED),  # messageLength beyond the datagram
        (44, b"\x00\x2c", DecodeReason.TRUNCATED),  # Delay_Resp of a Sync's length
    ],
)
def test_a_wrong_field_is_refused_with_its_reason(offset, value, reason):
    """One field at a time."""
    frame = _RESPONSE[:offset] + value + _RESPONSE[offset + len(value) :]
    with pytest.raises(DecodeError) as caught:
        parse_ptp(frame)
    assert caught.value.reason is reason
