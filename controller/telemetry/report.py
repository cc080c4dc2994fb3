# SPDX-License-Identifier: Apache-2.0
"""Telemetry Report v2.0: UDP payload -> reports, or `DecodeError`. Older ones: `report_old`.

A datagram holds a group header and one or more individual reports; each ends with the first bytes
of the reported packet, on which the INT stack may still stand. Nothing outside the datagram is
read, and every length on the wire is checked before it is used.

A packet that was dropped may be one that nobody can read, and a congested one may be of any flow:
of those, what can be read is told, and why not more (`ReportedPacket.problem`).
"""

from typing import NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode
from controller.telemetry.layout import (
    REPORT_GROUP,
    REPORT_INDIVIDUAL,
    REPORT_MAIN,
    ReportGroup,
    ReportIndividual,
    ReportMain,
)
from controller.telemetry.metadata import (
    REPORT_BITS_UNDEFINED,
    HopMetadata,
    bitmap_words,
    decode_report_metadata,
)
from controller.telemetry.packet import NO_MARKING, IntMarking, ReportedPacket
from controller.telemetry.profiles import STANDARD, Dialect
from controller.telemetry.report_inner import (
    IN_TYPE_ETHERNET,
    IN_TYPE_IPV4,
    IN_TYPE_IPV6,
    IN_TYPE_NONE,
    Tlv,
    decode_inner,
)

__all__ = [
    "IN_TYPE_ETHERNET",
    "IN_TYPE_IPV4",
    "IN_TYPE_IPV6",
    "REPORT_LENGTH_TO_END",
    "REP_TYPE_INNER_ONLY",
    "REP_TYPE_INT",
    "Report",
    "decode_group",
    "decode_reports",
]

REP_TYPE_INNER_ONLY = 0
REP_TYPE_INT = 1
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
    domain_specific_id: int = 0
    ds_metadata_bits: int = 0
    ds_metadata_status: int = 0
    """Of the domain's own metadata, whose words are `metadata.domain_specific`."""
    extensions: tuple[Tlv, ...] = ()
    """TLVs and extension data besides the packet."""

    @property
    def is_event(self) -> bool:
        """Whether the report tells of a drop (D) or a congested queue (Q)."""
        return self.dropped or self.congested_queue

    @property
    def has_tstamp(self) -> bool:
        """Whether any stamp is in it: of two equal reports with stamps one is a copy."""
        stack = self.packet.stack
        hops = () if stack is None else stack.hops
        own = () if self.metadata is None else (self.metadata,)
        return any(
            hop.ingress_tstamp is not None or hop.egress_tstamp is not None for hop in (*own, *hops)
        )

    @property
    def is_path_evidence(self) -> bool:
        """Whether the report belongs to a followed packet: its hops are samples of links.

        A packet that is reported because its queue was congested, and for nothing else (Q without
        F), is one hop that no neighbour reports; a dropped one (D) was followed when F says so. On
        its way (Q) a packet's INT stack is not whole: the sink reports it again.
        """
        if self.packet.problem is not None:
            return False
        if self.congested_queue and self.packet.stack is not None and not self.dropped:
            return False
        return self.tracked_flow or not self.is_event


def decode_group(data: Buffer, offset: int, dialect: Dialect = STANDARD) -> ReportGroup:
    """The group header at `offset` under the sender's dialect."""
    group = decode(REPORT_GROUP, data, offset)
    if group.version != dialect.report_version:
        raise DecodeError(DecodeReason.REPORT_VERSION, offset)
    if dialect.hw_id_shift or dialect.sequence_shift:
        group = group._replace(
            hw_id=group.hw_id >> dialect.hw_id_shift,
            sequence_number=group.sequence_number >> dialect.sequence_shift,
        )
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
    if not dialect.individual_header:
        inner = decode_inner(data, offset, IN_TYPE_ETHERNET, marking, dialect, outline=False)
        return [Report(REP_TYPE_INNER_ONLY, None, inner.packet, False, False, True, False)]
    reports = []
    while offset < end:
        header = decode(REPORT_INDIVIDUAL, data, offset)
        main_start = offset + REPORT_INDIVIDUAL.byte_count
        report_end = main_start + header.report_length_words * 4
        to_end = dialect.report_length_to_end or header.report_length_words == REPORT_LENGTH_TO_END
        if to_end or end - 3 <= report_end < end:
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
    _check_types(header, offset)
    if dialect.flags_meaningless:
        header = header._replace(
            dropped=0, congested_queue=0, tracked_flow=1, intermediate_report=0
        )
    metadata, main = None, None
    inner_start = offset
    if header.report_type == REP_TYPE_INT or dialect.main_contents_always:
        fixed_words = dialect.metadata_words_fixed
        metadata_words = header.metadata_length_words if fixed_words is None else fixed_words
        metadata_start = offset + REPORT_MAIN.byte_count
        inner_start = metadata_start + metadata_words * 4
        if inner_start > end:
            raise DecodeError(DecodeReason.REPORT_LENGTH, offset - 3)
        main = decode(REPORT_MAIN, data, offset)
        if fixed_words is None:
            metadata = _decode_metadata(data, offset, main, metadata_words)
        else:
            metadata = HopMetadata(domain_specific=bytes(data[metadata_start:inner_start]))
    elif header.metadata_length_words:
        raise DecodeError(DecodeReason.METADATA_LENGTH, offset - 2)
    inner_type = header.inner_type
    if dialect.inner_is_ethernet and inner_type >= IN_TYPE_ETHERNET:
        inner_type = IN_TYPE_ETHERNET
    packet, extensions = decode_inner(
        # a view: a copy per report would make many small reports in one datagram expensive
        data if end == len(data) else memoryview(data)[:end],
        inner_start,
        inner_type,
        # F = 0 guarantees that the reported packet holds no telemetry (TR 3.3)
        marking if header.tracked_flow else NO_MARKING,
        dialect,
        outline=bool(header.dropped or (header.congested_queue and not header.tracked_flow)),
    )
    if packet.node_values is not None:
        metadata, packet = packet.node_values, packet._replace(node_values=None)
    report = Report(
        header.report_type,
        metadata,
        packet,
        bool(header.dropped),
        bool(header.congested_queue),
        bool(header.tracked_flow),
        bool(header.intermediate_report),
    )
    if main is not None and main.domain_specific_id:
        report = report._replace(
            domain_specific_id=main.domain_specific_id,
            ds_metadata_bits=main.ds_metadata_bits,
            ds_metadata_status=main.ds_metadata_status,
        )
    return report._replace(extensions=extensions) if extensions else report


def _check_types(header: ReportIndividual, offset: int) -> None:
    """Refuse the types that are not defined, and a report that says nothing at all."""
    if header.report_type not in (REP_TYPE_INNER_ONLY, REP_TYPE_INT):
        raise DecodeError(DecodeReason.REPORT_TYPE, offset - 4)
    if header.inner_type > IN_TYPE_IPV6:
        raise DecodeError(DecodeReason.INNER_TYPE, offset - 4)
    empty = header.report_type == REP_TYPE_INNER_ONLY and header.inner_type == IN_TYPE_NONE
    if empty and not (header.dropped or header.congested_queue):
        raise DecodeError(DecodeReason.NO_PACKET, offset - 4)


def _decode_metadata(
    data: Buffer, offset: int, main: ReportMain, metadata_words: int
) -> HopMetadata:
    """The metadata behind the main words at `offset`."""
    if main.report_metadata_bits & REPORT_BITS_UNDEFINED:
        raise DecodeError(DecodeReason.RESERVED_BITS, offset)
    ds_words = metadata_words - bitmap_words(main.report_metadata_bits)
    if ds_words < 0 or (ds_words and not main.domain_specific_id):
        raise DecodeError(DecodeReason.METADATA_LENGTH, offset - 2)
    return decode_report_metadata(
        main.report_metadata_bits, ds_words, data, offset + REPORT_MAIN.byte_count
    )
