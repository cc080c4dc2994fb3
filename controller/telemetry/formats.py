# SPDX-License-Identifier: Apache-2.0
"""One entrance to all report formats: who sent a datagram, and the reports in it."""

from collections.abc import Sequence
from typing import NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode
from controller.telemetry.layout import REPORT_GROUP, REPORT_V05, REPORT_V05_DROP, REPORT_V05_LOCAL
from controller.telemetry.packet import IntMarking
from controller.telemetry.profiles import STANDARD, Dialect, ReportFormat
from controller.telemetry.report import Report, decode_group, decode_reports
from controller.telemetry.report_old import (
    NEXT_DROP_V05,
    NEXT_ETHERNET,
    NEXT_LOCAL_V05,
    decode_header_v1,
    decode_report_v05,
    decode_report_v1,
)


class ReportHeader(NamedTuple):
    """Whose report a datagram is and which one."""

    node_id: int
    hw_id: int
    sequence_number: int


class Datagram(NamedTuple):
    """A whole datagram, decoded."""

    header: ReportHeader
    reports: list[Report]


def decode_header(
    data: Buffer, offset: int, marking: IntMarking, dialect: Dialect = STANDARD
) -> ReportHeader:
    """Sender and number of the datagram at `offset`; its reports are decoded only if need be."""
    if dialect.report_format is ReportFormat.V2:
        group = decode_group(data, offset, dialect)
        return ReportHeader(group.node_id, group.hw_id, group.sequence_number)
    if dialect.report_format is ReportFormat.V1:
        v1 = decode_header_v1(data, offset, dialect)
        return ReportHeader(v1.node_id, v1.hw_id, v1.sequence_number)
    v05 = decode_report_v05(data, offset, marking, dialect)
    return ReportHeader(v05.node_id, v05.hw_id, v05.sequence_number)


def decode_contents(
    data: Buffer, offset: int, marking: IntMarking, dialect: Dialect = STANDARD
) -> list[Report]:
    """The reports of the datagram at `offset`, which ends with `data`."""
    if dialect.report_format is ReportFormat.V2:
        return decode_reports(data, offset + REPORT_GROUP.byte_count, marking, dialect)
    if dialect.report_format is ReportFormat.V1:
        return [decode_report_v1(data, offset, marking, dialect).report]
    return [decode_report_v05(data, offset, marking, dialect).report]


def decode_datagram(
    data: Buffer, offset: int, marking: IntMarking, dialect: Dialect = STANDARD
) -> Datagram:
    """Header and reports of the datagram at `offset`, which ends with `data`."""
    header = decode_header(data, offset, marking, dialect)
    return Datagram(header, decode_contents(data, offset, marking, dialect))


def claimed_node_id(
    data: Buffer, offset: int, marking: IntMarking, dialects_v05: Sequence[Dialect]
) -> int:
    """The node that a datagram names as its sender, before the sender's dialect is known.

    Versions 1 and 2 have it in the second word, whatever follows. Version 0 counts only where one
    of `dialects_v05` is in use; without drop or switch local header the stack tells.
    """
    node_id = decode(REPORT_GROUP, data, offset).node_id
    if not dialects_v05 or data[offset] >> 4:
        return node_id
    next_protocol = decode(REPORT_V05, data, offset).next_protocol
    second = offset + REPORT_V05.byte_count
    if next_protocol == NEXT_DROP_V05:
        return decode(REPORT_V05_DROP, data, second).node_id
    if next_protocol == NEXT_LOCAL_V05:
        return decode(REPORT_V05_LOCAL, data, second).node_id
    if next_protocol != NEXT_ETHERNET:
        raise DecodeError(DecodeReason.INNER_TYPE, offset)
    first_error: DecodeError | None = None
    for dialect in dialects_v05:
        try:
            return decode_report_v05(data, offset, marking, dialect).node_id
        except DecodeError as error:
            first_error = first_error or error
    assert first_error is not None
    raise first_error
