# SPDX-License-Identifier: Apache-2.0
"""Compiled: report datagrams of a batch to rows of reports and hops (`telemetry.report`).

A datagram is taken whole, rejected whole with the reference decoder's reason, or left to it: drop
and congestion events, dialects that deviate further, inner types that hold no packet.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.collector import columns as c
from controller.collector.columns import ReasonCode
from controller.collector.content_hash import content_hash
from controller.collector.decode_int import bitmap_words, decode_report_values
from controller.collector.decode_packet import decode_inner
from controller.collector.fabric_tables import FabricTables, node_at, node_row, tables_at
from controller.collector.kernel import SOURCES_DIGEST, Function, entry, part
from controller.collector.loads import (
    address_of,
    be16,
    be32,
    call4,
    count_up,
    get,
    get32,
    put,
)

DATAGRAMS_PER_CHUNK = 256
"""Decoded before anything else is done with them: their rows stay in the cache."""
_PAYLOAD_BYTES_MAX = 1 << 16
_REPORT_BYTES_MIN = 24
"""Of a report that decodes: its header and an IP header."""
REPORT_ROWS = DATAGRAMS_PER_CHUNK + _PAYLOAD_BYTES_MAX // _REPORT_BYTES_MIN + 1
HOP_ROWS = 4 * DATAGRAMS_PER_CHUNK + _PAYLOAD_BYTES_MAX // 4

_TRUNCATED = int(ReasonCode.TRUNCATED)
_REPORT_VERSION = int(ReasonCode.REPORT_VERSION)
_UNKNOWN_NODE = int(ReasonCode.UNKNOWN_NODE)
_NO_REPORT = int(ReasonCode.NO_REPORT)
_REPORT_TYPE = int(ReasonCode.REPORT_TYPE)
_INNER_TYPE = int(ReasonCode.INNER_TYPE)
_REPORT_LENGTH = int(ReasonCode.REPORT_LENGTH)
_METADATA_LENGTH = int(ReasonCode.METADATA_LENGTH)
_RESERVED_BITS = int(ReasonCode.RESERVED_BITS)


class DecodedRows(NamedTuple):
    """Addresses of the rows of one chunk of a batch, written again for the next."""

    datagrams: int
    """int64[DATAGRAMS_PER_CHUNK, D_COLUMNS]."""
    reports: int
    """int64[REPORT_ROWS, R_COLUMNS]; of datagrams with STATUS_OK only."""
    hops: int
    """int64[HOP_ROWS, H_COLUMNS]."""
    shim: int
    """int64[4], scratch: what a shim said."""


class DecodedArrays(NamedTuple):
    """The rows themselves, and where they are."""

    datagrams: NDArray[np.int64]
    reports: NDArray[np.int64]
    hops: NDArray[np.int64]
    shim: NDArray[np.int64]
    row: NDArray[np.int64]
    """Their addresses, for `rows_at`."""


def decoded_arrays() -> DecodedArrays:
    """Empty rows."""
    datagrams = np.zeros((DATAGRAMS_PER_CHUNK, c.D_COLUMNS), np.int64)
    reports = np.zeros((REPORT_ROWS, c.R_COLUMNS), np.int64)
    hops = np.zeros((HOP_ROWS, c.H_COLUMNS), np.int64)
    shim = np.zeros(4, np.int64)
    arrays = (datagrams, reports, hops, shim)
    row = np.array([address_of(array) for array in arrays], np.int64)
    return DecodedArrays(*arrays, row)


class BatchView(NamedTuple):
    """Addresses of the parts of a `ReportBatch`."""

    buffer: int
    start: int
    """int64 per datagram."""
    byte_count: int
    """int32 per datagram."""
    capture_collector_ns: int
    destination: int
    """int32 per datagram: row of the destination in the sender table."""
    datagrams: int
    buffer_bytes: int


BATCH_COLUMNS = 7
"""A batch as a row of int64: these numbers in their order."""


@part
def batch_at(at: int) -> BatchView:
    """The batch whose row is at an address."""
    return BatchView(
        get(at, 0), get(at, 1), get(at, 2), get(at, 3), get(at, 4), get(at, 5), get(at, 6)
    )


@part
def rows_at(at: int) -> DecodedRows:
    """The rows whose addresses are at an address."""
    return DecodedRows(get(at, 0), get(at, 1), get(at, 2), get(at, 3))


@part
def _decode_chunk(batch: BatchView, first: int, tables: FabricTables, rows: DecodedRows) -> int:
    """Decode datagrams from `first` on; returns how many there was room for.

    -1 for one that is not inside the buffer, which is the caller's mistake.
    """
    report_count = 0
    hop_count = 0
    count = min(batch.datagrams - first, DATAGRAMS_PER_CHUNK)
    for index in range(count):
        start = get(batch.start, first + index)
        byte_count = get32(batch.byte_count + 4 * (first + index))
        if start < 0 or byte_count > _PAYLOAD_BYTES_MAX or start + byte_count > batch.buffer_bytes:
            return -1
        offset = batch.buffer + start
        if (
            report_count + byte_count // _REPORT_BYTES_MIN >= REPORT_ROWS
            or hop_count + byte_count // 4 >= HOP_ROWS
        ):
            return index
        datagram = rows.datagrams + index * c.D_BYTES
        put(datagram, c.D_FIRST_REPORT, report_count)
        _decode_datagram(
            offset,
            offset + byte_count,
            get(batch.capture_collector_ns, first + index),
            tables,
            rows,
            datagram,
            report_count,
            hop_count,
        )
        report_count += get(datagram, c.D_REPORTS)
        hop_count += get(datagram, c.D_HOPS)
    return count


@part
def _decode_datagram(
    offset: int,
    end: int,
    captured_collector_ns: int,
    tables: FabricTables,
    rows: DecodedRows,
    datagram: int,
    first_report: int,
    first_hop: int,
) -> None:
    """The datagram's row; its reports and hops only if it is taken."""
    put(datagram, c.D_NODE, -1)
    put(datagram, c.D_REPORTS, 0)
    put(datagram, c.D_HOPS, 0)
    put(datagram, c.D_NO_INGRESS_TSTAMP, 0)
    put(datagram, c.D_NO_EGRESS_TSTAMP, 0)
    put(datagram, c.D_FAULT, 0)
    put(datagram, c.D_STAMPS, 0)
    if offset + 8 > end:
        put(datagram, c.D_STATUS, _TRUNCATED)
        return
    word = be32(offset)
    if tables.any_v05 != 0 and word >> 28 == 0:
        put(datagram, c.D_STATUS, c.STATUS_SLOW)
        return
    row = node_row(tables, be32(offset + 4))
    if row < 0:
        # a stranger's version is judged first
        put(datagram, c.D_STATUS, _REPORT_VERSION if word >> 28 != 2 else _UNKNOWN_NODE)
        return
    node = node_at(tables, row)
    if get(node, c.N_COMPILED) == 0:
        put(datagram, c.D_STATUS, c.STATUS_SLOW)
        return
    if word >> 28 != 2:
        put(datagram, c.D_STATUS, _REPORT_VERSION)
        return
    put(datagram, c.D_NODE, row)
    put(datagram, c.D_HW_ID, (word >> 22 & 0x3F) >> get(node, c.N_HW_ID_SHIFT))
    put(datagram, c.D_SEQUENCE, word & 0x3FFFFF)
    put(datagram, c.D_NUMBER, word)
    put(datagram, c.D_CONTENT, content_hash(offset + 4, end, tables.seed))
    reports = 0
    hops = 0
    fault = 0
    status = _NO_REPORT if offset + 8 >= end else 0
    at = offset + 8
    while at < end:
        if at + 4 > end:
            status = _TRUNCATED
            break
        head = be32(at)
        body = at + 4
        report_words = head >> 16 & 0xFF
        after = body + report_words * 4
        # a remainder of 1 to 3 bytes belongs to the last report's packet
        if report_words == 0xFF or (after < end and end - 3 <= after):
            after = end
        if after > end:
            status = _TRUNCATED
            break
        report = rows.reports + (first_report + reports) * c.R_BYTES
        put(report, c.R_CAPTURE, captured_collector_ns)
        put(report, c.R_NODE, row)
        put(report, c.R_FIRST_HOP, first_hop + hops)
        put(report, c.R_HOPS, 0)
        hop = rows.hops + (first_hop + hops) * c.H_BYTES
        status = _decode_report(body, after, head, tables, rows, datagram, report, hop)
        if status > 0 or status == c.STATUS_SLOW:
            break
        if status < 0 and fault == 0:
            fault = -1 - status
        status = 0
        hops += get(report, c.R_HOPS)
        reports += 1
        at = after
    put(datagram, c.D_STATUS, status)
    put(datagram, c.D_FAULT, fault)
    if status == 0 and fault == 0:
        put(datagram, c.D_REPORTS, reports)
        put(datagram, c.D_HOPS, hops)


@part
def _decode_report(
    body: int,
    end: int,
    head: int,
    tables: FabricTables,
    rows: DecodedRows,
    datagram: int,
    report: int,
    hops: int,
) -> int:
    """0, STATUS_SLOW, a `ReasonCode`, or -1 less the one of a packet that tells nothing."""
    if head & 0xC0 != 0:
        return c.STATUS_SLOW  # drops and congested queues
    report_type = head >> 28
    inner_type = head >> 24 & 0xF
    metadata_words = head >> 8 & 0xFF
    if report_type > 1:
        return _REPORT_TYPE
    if inner_type < 3:
        return c.STATUS_SLOW  # no packet, or one among TLVs
    if inner_type > 5:
        return _INNER_TYPE
    inner = body
    if report_type == 1:
        inner += 8 + metadata_words * 4
        if inner > end:
            return _REPORT_LENGTH
        bitmap = be16(body)
        if bitmap & 0x807E != 0:
            return _RESERVED_BITS
        ds_words = metadata_words - bitmap_words(bitmap)
        if ds_words < 0 or (ds_words != 0 and be16(body + 2) == 0):
            return _METADATA_LENGTH
        put(report, c.R_FLAGS, c.FLAG_METADATA)
        decode_report_values(body + 8, bitmap, tables, report, datagram)
    else:
        if metadata_words != 0:
            return _METADATA_LENGTH
        put(report, c.R_FLAGS, 0)
        decode_report_values(body, 0, tables, report, datagram)
    tracked = head >> 5 & 1
    result = decode_inner(
        inner, end, inner_type, tracked, tables, report, hops, datagram, rows.shim
    )
    return result - 1 if result < 0 else result


def _decode_function(digest: int) -> Callable[..., int]:
    def decode_chunk(batch: int, first: int, tables: int, rows: int) -> int:
        if digest == 0:
            return -1
        return _decode_chunk(batch_at(batch), first, tables_at(tables), rows_at(rows))

    return decode_chunk


DECODE = Function(_decode_function, 4)
"""(batch, first datagram, tables, rows) -> how many were decoded, -1 for a wrong batch; all by the
addresses of their rows."""


def _decode_all_entry(digest: int) -> Any:  # noqa: ANN401
    def decode_all(function: int, batch: int, tables: int, rows: int, totals: int) -> int:
        """Decode a batch and count by status: totals[0] taken, [1] left, [2] rejected, [3] hops.

        function: the address of DECODE.
        """
        if digest == 0:
            return 0
        done = 0
        count = batch_at(batch).datagrams
        while done < count:
            taken = call4(function, batch, done, tables, rows)
            if taken < 0:
                return taken
            for index in range(taken):
                datagram = rows_at(rows).datagrams + index * c.D_BYTES
                status = get(datagram, c.D_STATUS)
                if status == 0 and get(datagram, c.D_FAULT) == 0:
                    count_up(totals, 0)
                    put(totals, 3, get(totals, 3) + get(datagram, c.D_HOPS))
                elif status < 0:
                    count_up(totals, 1)
                else:
                    count_up(totals, 2)
            done += taken
        return done

    return entry(decode_all)


decode_all = _decode_all_entry(SOURCES_DIGEST)
