# SPDX-License-Identifier: Apache-2.0
"""What an individual report says after its own words: a packet, TLVs, domain specific data."""

from typing import NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode
from controller.telemetry.layout import REPORT_TLV
from controller.telemetry.packet import (
    NO_PACKET,
    IntMarking,
    ReportedPacket,
    decode_frame,
    decode_ipv6_packet,
    decode_packet,
)
from controller.telemetry.packet_outline import decode_outline
from controller.telemetry.profiles import Dialect

IN_TYPE_NONE = 0
IN_TYPE_TLV = 1
IN_TYPE_DS_EXTENSION = 2
IN_TYPE_ETHERNET = 3
IN_TYPE_IPV4 = 4
IN_TYPE_IPV6 = 5

TLV_DS_EXTENSION = 0
TLV_ETHERNET = 1
TLV_IPV4 = 2
TLV_IPV6 = 3
_IN_TYPE_OF_TLV = {TLV_ETHERNET: IN_TYPE_ETHERNET, TLV_IPV4: IN_TYPE_IPV4, TLV_IPV6: IN_TYPE_IPV6}

_PACKET_DECODERS = {
    IN_TYPE_ETHERNET: decode_frame,
    IN_TYPE_IPV4: decode_packet,
    IN_TYPE_IPV6: decode_ipv6_packet,
}


class Tlv(NamedTuple):
    """One TLV of a report, or all of its domain specific extension data."""

    tlv_type: int
    template: int
    """Format of DS extension data; 0 where the whole inner contents are such data (InType 2)."""
    data: bytes


class Inner(NamedTuple):
    """The inner contents of a report."""

    packet: ReportedPacket
    """NO_PACKET where there is none."""
    extensions: tuple[Tlv, ...] = ()
    """What besides the packet."""


def decode_inner(
    data: Buffer, offset: int, in_type: int, marking: IntMarking, dialect: Dialect, *, outline: bool
) -> Inner:
    """Inner contents from `offset` to the end of `data`, by their InType.

    With `outline`, a packet that cannot be read as a whole is told as far as it goes.
    """
    if in_type == IN_TYPE_TLV:
        return _decode_tlvs(data, offset, marking, dialect, outline)
    if in_type == IN_TYPE_DS_EXTENSION:
        return Inner(NO_PACKET, (Tlv(TLV_DS_EXTENSION, 0, bytes(data[offset:])),))
    if in_type == IN_TYPE_NONE:
        if len(data) - offset >= 4:
            raise DecodeError(DecodeReason.REPORT_LENGTH, offset)
        return Inner(NO_PACKET)
    return Inner(_packet(data, offset, in_type, marking, dialect, outline))


def _packet(
    data: Buffer, offset: int, in_type: int, marking: IntMarking, dialect: Dialect, outline: bool
) -> ReportedPacket:
    decoder = _PACKET_DECODERS[in_type]
    try:
        return decoder(data, offset, marking, dialect)
    except DecodeError as error:
        if not outline:
            raise
        return decode_outline(data, offset, in_type, error.reason)


def _decode_tlvs(
    data: Buffer, offset: int, marking: IntMarking, dialect: Dialect, outline: bool
) -> Inner:
    """TLVs to the end; the first that holds a packet is the report's, others are kept as bytes.

    A remainder of 1 to 3 bytes belongs to the last TLV, as it does to the last report.
    """
    end = len(data)
    packet = None
    extensions = []
    if offset >= end:
        raise DecodeError(DecodeReason.TRUNCATED, end)
    while offset < end:
        head = decode(REPORT_TLV, data, offset)
        if head.tlv_type > TLV_IPV6:
            raise DecodeError(DecodeReason.TLV_TYPE, offset)
        start = offset + REPORT_TLV.byte_count
        offset = start + head.length_words * 4
        if end - 3 <= offset < end:
            offset = end
        if offset > end:
            raise DecodeError(DecodeReason.TLV_LENGTH, start - 3)
        in_type = _IN_TYPE_OF_TLV.get(head.tlv_type)
        if in_type is not None and packet is None:
            part = memoryview(data)[:offset]
            packet = _packet(part, start, in_type, marking, dialect, outline)
        else:
            extensions.append(Tlv(head.tlv_type, head.template, bytes(data[start:offset])))
    return Inner(NO_PACKET if packet is None else packet, tuple(extensions))
