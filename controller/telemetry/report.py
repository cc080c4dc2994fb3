# SPDX-License-Identifier: Apache-2.0
"""Telemetry Report v2.0 with INT-MD v2.1 stacks: UDP payload -> reports, or `DecodeError`.

A datagram holds a group header and one or more individual reports; each ends with the first bytes
of the reported packet, on which the INT stack may still stand. Nothing outside the datagram is
read, and every length on the wire is checked before it is used.
"""

from typing import NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode
from controller.telemetry.datagram import ETHER_TYPE_IPV4
from controller.telemetry.dialect import STANDARD, Dialect
from controller.telemetry.layout import (
    ETHERNET,
    REPORT_GROUP,
    REPORT_INDIVIDUAL,
    REPORT_MAIN,
    ReportGroup,
    ReportIndividual,
)
from controller.telemetry.metadata import (
    REPORT_BITS_UNDEFINED,
    HopMetadata,
    bitmap_words,
    decode_report_metadata,
)
from controller.telemetry.packet import IntMarking, ReportedPacket, decode_packet

REP_TYPE_INNER_ONLY = 0
REP_TYPE_INT = 1
IN_TYPE_ETHERNET = 3
IN_TYPE_IPV4 = 4
REPORT_LENGTH_TO_END = 0xFF
"""ReportLength of a report that reaches to the end of the datagram."""


class Report(NamedTuple):
    """One individual report."""

    report_type: int
    metadata: HopMetadata | None
    """The reporting node's own values; None for RepType 0."""
    packet: ReportedPacket
    dropped: bool
    congested_queue: bool
    tracked_flow: bool
    intermediate_report: bool


def decode_group(data: Buffer, offset: int, dialect: Dialect = STANDARD) -> ReportGroup:
    """The group header at `offset` under the sender's dialect."""
    group = decode(REPORT_GROUP, data, offset)
    if group.version != dialect.report_version:
        raise DecodeError(DecodeReason.REPORT_VERSION, offset)
    if dialect.hw_id_shift:
        group = group._replace(hw_id=group.hw_id >> dialect.hw_id_shift)
    return group


def decode_reports(
    data: Buffer, offset: int, marking: IntMarking, dialect: Dialect = STANDARD
) -> list[Report]:
    """The individual reports from `offset` (after the group header) to the end of `data`.

    A remainder of 1 to 3 bytes belongs to the last report's packet: lengths are in whole words,
    an Ethernet frame is not, and senders round down.
    """
    end = len(data)
    if offset >= end:
        raise DecodeError(DecodeReason.NO_REPORT, offset)
    reports = []
    while offset < end:
        header = decode(REPORT_INDIVIDUAL, data, offset)
        main_start = offset + REPORT_INDIVIDUAL.byte_count
        report_end = main_start + header.report_length_words * 4
        if header.report_length_words == REPORT_LENGTH_TO_END or end - 3 <= report_end < end:
            report_end = end
        if report_end > end:
            raise DecodeError(DecodeReason.TRUNCATED, end)
        reports.append(_decode_report(data, main_start, report_end, header, marking, dialect))
        offset = report_end
    return reports


def _decode_report(
    data: Buffer,
    offset: int,
    end: int,
    header: ReportIndividual,
    marking: IntMarking,
    dialect: Dialect,
) -> Report:
    """The report whose part after the individual header is data[offset:end]."""
    if header.report_type not in (REP_TYPE_INNER_ONLY, REP_TYPE_INT):
        raise DecodeError(DecodeReason.REPORT_TYPE, offset - 4)
    if header.inner_type not in (IN_TYPE_ETHERNET, IN_TYPE_IPV4):
        raise DecodeError(DecodeReason.INNER_TYPE, offset - 4)
    metadata = None
    inner_start = offset
    if header.report_type == REP_TYPE_INT:
        inner_start += REPORT_MAIN.byte_count + header.metadata_length_words * 4
        if inner_start > end:
            raise DecodeError(DecodeReason.REPORT_LENGTH, offset - 3)
        metadata = _decode_metadata(data, offset, header.metadata_length_words)
    elif header.metadata_length_words:
        raise DecodeError(DecodeReason.METADATA_LENGTH, offset - 2)
    inner = data[:end]
    if header.inner_type == IN_TYPE_ETHERNET:
        ethernet = decode(ETHERNET, inner, inner_start)
        inner_start += ETHERNET.byte_count
        if ethernet.ether_type != ETHER_TYPE_IPV4:
            raise DecodeError(DecodeReason.INNER_IP_HEADER, inner_start - 2)
    packet = decode_packet(
        inner, inner_start, marking if header.tracked_flow else _NO_MARKING, dialect
    )
    return Report(
        header.report_type,
        metadata,
        packet,
        bool(header.dropped),
        bool(header.congested_queue),
        bool(header.tracked_flow),
        bool(header.intermediate_report),
    )


_NO_MARKING = IntMarking({})
"""F = 0 guarantees that the reported packet holds no telemetry (TR 3.3)."""


def _decode_metadata(data: Buffer, offset: int, metadata_words: int) -> HopMetadata:
    main = decode(REPORT_MAIN, data, offset)
    if main.report_metadata_bits & REPORT_BITS_UNDEFINED:
        raise DecodeError(DecodeReason.RESERVED_BITS, offset)
    ds_words = metadata_words - bitmap_words(main.report_metadata_bits)
    if ds_words < 0 or (ds_words and not main.domain_specific_id):
        raise DecodeError(DecodeReason.METADATA_LENGTH, offset - 2)
    return decode_report_metadata(
        main.report_metadata_bits, ds_words, data, offset + REPORT_MAIN.byte_count
    )
