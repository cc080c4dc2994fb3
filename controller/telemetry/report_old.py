# SPDX-License-Identifier: Apache-2.0
"""Telemetry Report v1.0 and v0.5: one report per datagram, told in the terms of v2.0.

Both have the ingress stamp, of 32 bits, in their fixed header; it becomes the stamp of the
reporting node's own values. A v0.5 report without drop or switch local header does not say who
sent it: the newest node on its INT stack did, since a sink reports what it has pushed onto.
"""

from typing import NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode
from controller.telemetry.layout import (
    REPORT_V05,
    REPORT_V05_DROP,
    REPORT_V05_LOCAL,
    REPORT_V1,
    ReportV05,
    ReportV1,
)
from controller.telemetry.metadata import (
    BIT_EGRESS_TSTAMP,
    BIT_INGRESS_TSTAMP,
    HopMetadata,
    decode_report_metadata,
)
from controller.telemetry.metadata import (
    REPORT_V1 as REPORT_V1_FORM,
)
from controller.telemetry.packet import NO_MARKING, IntMarking
from controller.telemetry.profiles import Dialect
from controller.telemetry.report import REP_TYPE_INT, Report
from controller.telemetry.report_inner import (
    IN_TYPE_ETHERNET,
    IN_TYPE_IPV4,
    IN_TYPE_IPV6,
    decode_inner,
)

NEXT_ETHERNET = 0
NEXT_IPV4_V1 = 1
NEXT_IPV6_V1 = 2
NEXT_DROP_V05 = 1
NEXT_LOCAL_V05 = 2
_IN_TYPE_V1 = {
    NEXT_ETHERNET: IN_TYPE_ETHERNET,
    NEXT_IPV4_V1: IN_TYPE_IPV4,
    NEXT_IPV6_V1: IN_TYPE_IPV6,
}
_FIXED_WORDS_V1 = REPORT_V1.byte_count // 4
_ONES_16 = 0xFFFF
_ONES_32 = 0xFFFFFFFF


class OldReport(NamedTuple):
    """A datagram of v1.0 or v0.5."""

    node_id: int
    hw_id: int
    sequence_number: int
    report: Report


def decode_header_v1(data: Buffer, offset: int, dialect: Dialect) -> ReportV1:
    """The fixed header of a v1.0 report, its version and length checked."""
    header = decode(REPORT_V1, data, offset)
    if header.version != dialect.report_version:
        raise DecodeError(DecodeReason.REPORT_VERSION, offset)
    if header.length_words != _FIXED_WORDS_V1 + header.report_metadata_bits.bit_count():
        raise DecodeError(DecodeReason.HEADER_LENGTH, offset)
    return header


def decode_report_v1(data: Buffer, offset: int, marking: IntMarking, dialect: Dialect) -> OldReport:
    """The v1.0 report that reaches from `offset` to the end of `data`."""
    header = decode_header_v1(data, offset, dialect)
    in_type = _IN_TYPE_V1.get(header.next_protocol)
    if in_type is None:
        raise DecodeError(DecodeReason.INNER_TYPE, offset + 1)
    metadata_start = offset + REPORT_V1.byte_count
    bits = header.report_metadata_bits
    values = decode_report_metadata(bits, 0, data, metadata_start, REPORT_V1_FORM)
    inner_start = metadata_start + bits.bit_count() * 4
    report = _report(data, inner_start, in_type, header, values, marking, dialect)
    if dialect.sink_entry_clone_fields:
        report = _without_clone_fields(report, header.node_id, dialect)
    return OldReport(header.node_id, header.hw_id, header.sequence_number, report)


def decode_header_v05(data: Buffer, offset: int, dialect: Dialect) -> ReportV05:
    """The fixed header of a v0.5 report, its version checked."""
    header = decode(REPORT_V05, data, offset)
    if header.version != dialect.report_version:
        raise DecodeError(DecodeReason.REPORT_VERSION, offset)
    return header


def decode_report_v05(
    data: Buffer, offset: int, marking: IntMarking, dialect: Dialect
) -> OldReport:
    """The v0.5 report that reaches from `offset` to the end of `data`."""
    header = decode_header_v05(data, offset, dialect)
    start = offset + REPORT_V05.byte_count
    node_id: int | None = None
    values = HopMetadata()
    if header.next_protocol == NEXT_DROP_V05:
        drop = decode(REPORT_V05_DROP, data, start)
        start += REPORT_V05_DROP.byte_count
        node_id = drop.node_id
        values = HopMetadata(
            drop_queue_id=drop.drop_queue_id,
            drop_reason=drop.drop_reason,
        )
        values = _with_ports(values, drop.ingress_port, drop.egress_port)
    elif header.next_protocol == NEXT_LOCAL_V05:
        local = decode(REPORT_V05_LOCAL, data, start)
        start += REPORT_V05_LOCAL.byte_count
        node_id = local.node_id
        values = HopMetadata(
            queue_id=local.queue_id,
            queue_depth=local.queue_depth,
            egress_tstamp=_tstamp(local.egress_tstamp),
            unavailable_bits=_unavailable(local.egress_tstamp, BIT_EGRESS_TSTAMP),
        )
        values = _with_ports(values, local.ingress_port, local.egress_port)
    elif header.next_protocol != NEXT_ETHERNET:
        raise DecodeError(DecodeReason.INNER_TYPE, offset)
    report = _report(data, start, IN_TYPE_ETHERNET, header, values, marking, dialect)
    if node_id is None:
        stack = report.packet.stack
        if stack is None or not stack.hops or stack.hops[-1].node_id is None:
            raise DecodeError(DecodeReason.UNKNOWN_NODE, offset)
        node_id = stack.hops[-1].node_id
    return OldReport(node_id, header.hw_id, header.sequence_number, report)


def _report(
    data: Buffer,
    inner_start: int,
    in_type: int,
    header: ReportV1 | ReportV05,
    values: HopMetadata,
    marking: IntMarking,
    dialect: Dialect,
) -> Report:
    """The report of a decoded header: its stamp joins the node's own values."""
    if not dialect.report_tstamp_ignored:
        unavailable = _unavailable(header.ingress_tstamp, BIT_INGRESS_TSTAMP)
        values = values._replace(
            ingress_tstamp=_tstamp(header.ingress_tstamp),
            unavailable_bits=values.unavailable_bits | unavailable,
        )
    inner = decode_inner(
        data,
        inner_start,
        in_type,
        marking if header.tracked_flow else NO_MARKING,
        dialect,
        outline=bool(header.dropped or (header.congested_queue and not header.tracked_flow)),
    )
    return Report(
        REP_TYPE_INT,
        values,
        inner.packet,
        bool(header.dropped),
        bool(header.congested_queue),
        bool(header.tracked_flow),
        False,
    )


def _without_clone_fields(report: Report, node_id: int, dialect: Dialect) -> Report:
    """The report without what its sender's own stack entry says of the copy."""
    stack = report.packet.stack
    if stack is None or not stack.hops or stack.hops[-1].node_id != node_id:
        return report
    values = stack.hops[-1]._asdict() | dict.fromkeys(dialect.sink_entry_clone_fields)
    stack = stack._replace(hops=(*stack.hops[:-1], HopMetadata(**values)))
    return report._replace(packet=report.packet._replace(stack=stack))


def _tstamp(raw: int) -> int | None:
    return None if _unavailable(raw, 1) else raw


def _unavailable(raw: int, bit: int) -> int:
    """`bit` for a stamp of zero or all ones, else 0."""
    return bit if raw in (0, _ONES_32) else 0


def _with_ports(values: HopMetadata, ingress_port: int, egress_port: int) -> HopMetadata:
    """Both stay None where both are all ones, as in a stack entry."""
    if (ingress_port, egress_port) == (_ONES_16, _ONES_16):
        return values
    return values._replace(ingress_port=ingress_port, egress_port=egress_port)
