# SPDX-License-Identifier: Apache-2.0
"""The compiled loop over a batch: decode, duplicates, sequence numbers, join - a chunk at a time.

It keeps its place in a row of progress and returns whenever Python has to do something: then it is
called again with the same arguments and goes on where it was.
"""

from typing import Any

from controller.collector import columns as c
from controller.collector.columns import REASON_CODES_END
from controller.collector.decode_reports import BatchView, DecodedRows, decode_chunk
from controller.collector.fabric_tables import FabricTables, node_at, node_row
from controller.collector.join_reports import (
    ASK_ROOM,
    DONE,
    NOTHING,
    add,
    close_overflow,
    expire,
    has_room,
)
from controller.collector.join_state import J_PENDING_MAX
from controller.collector.kernel import SOURCES_DIGEST, entry, part
from controller.collector.loads import be32, count_up, get, get32, put, u8
from controller.collector.seen_table import REPEATED, REPLICA, expect, look
from controller.collector.sequence_numbers import observe
from controller.telemetry.rejected import SAMPLE_BYTES_MAX, SAMPLES_PER_NODE
from controller.telemetry.report_old import NEXT_DROP_V05, NEXT_LOCAL_V05

FINISHED = 0
ASK_SENDER = 5
"""The sender at hand has no row yet."""
ASK_REFERENCE = 6
"""The reference decoder has to take the datagram at hand."""

P_CHUNK_FIRST = 0
"""Datagram of the batch that the chunk begins with."""
P_CHUNK_COUNT = 1
P_NEXT = 2
"""Next datagram of the chunk."""
P_REPORT = 3
"""Address of the next report to join."""
P_REPORTS_LEFT = 4
P_ADDED = 5
"""1: that report has been added, what comes after it is left."""
P_AT_HAND = 6
"""Datagram or sender that Python is asked for."""
P_SENDERS = 7
"""Address: int64 per node, hw id and destination, the sender's row or 0."""
P_DESTINATIONS = 8
"""How many destinations that table has."""
P_DESTINATION_ROWS = 9
"""Address: int64 per destination of the batch, its number in that table."""
P_REJECTED_SAMPLES = 10
"""Address: int64[nodes + 1, 1 + SAMPLES_PER_NODE], how many and which (a ring)."""
P_STRANGERS = 11
"""Row of senders that are not in the fabric, in that table."""
P_DECODED = 12
P_DUPLICATES = 13
P_REPLICAS = 14
P_NO_INGRESS_TSTAMP = 15
P_NO_EGRESS_TSTAMP = 16
P_REJECTED = 17
"""First of REASON_CODES_END counts."""
P_COLUMNS = P_REJECTED + REASON_CODES_END

SAMPLE_COLUMNS = 1 + SAMPLES_PER_NODE
HW_IDS = 64
_AHEAD = 8
"""Datagrams that the table of contents is asked for in advance."""


@part
def _reject(batch: BatchView, tables: FabricTables, progress: int, index: int, code: int) -> None:
    """Count a rejected datagram and note it as its node's newest sample."""
    count_up(progress, P_REJECTED + code)
    byte_count = get32(batch.byte_count + 4 * index)
    if byte_count > SAMPLE_BYTES_MAX:
        return
    row = -1
    at = batch.buffer + get(batch.start, index)
    place = 4
    if byte_count > 0 and u8(at) >> 4 == 0:
        place = 12
        if u8(at) != NEXT_DROP_V05 and u8(at) != NEXT_LOCAL_V05:
            place = SAMPLE_BYTES_MAX
    if byte_count >= place + 4:
        row = node_row(tables, be32(at + place))
    if row < 0:
        row = get(progress, P_STRANGERS)
    samples = get(progress, P_REJECTED_SAMPLES) + row * (8 * SAMPLE_COLUMNS)
    number = get(samples, 0)
    put(samples, 1 + number % SAMPLES_PER_NODE, index)
    put(samples, 0, number + 1)


@part
def _join_reports(joiner: int, tables: FabricTables, rows: DecodedRows, progress: int) -> int:
    """Join the reports of the datagram at hand; FINISHED or what to ask."""
    while get(progress, P_REPORTS_LEFT) != 0:
        report = get(progress, P_REPORT)
        if get(progress, P_ADDED) == 0:
            result = expire(joiner, tables, get(report, c.R_CAPTURE))
            if result != DONE:
                return result
            if not has_room(joiner):
                return ASK_ROOM
            put(progress, P_ADDED, 1)
            result = add(joiner, tables, report, rows.hops + get(report, c.R_FIRST_HOP) * c.H_BYTES)
            if result != DONE and result != NOTHING:
                return result
        result = close_overflow(joiner, tables, get(joiner, J_PENDING_MAX))
        if result != DONE:
            return result
        put(progress, P_ADDED, 0)
        put(progress, P_REPORT, report + c.R_BYTES)
        put(progress, P_REPORTS_LEFT, get(progress, P_REPORTS_LEFT) - 1)
    return FINISHED


@part
def _take(
    batch: BatchView, tables: FabricTables, rows: DecodedRows, progress: int, seen: int
) -> int:
    """Account for the next datagram of the chunk; FINISHED or what to ask."""
    number = get(progress, P_NEXT)
    index = get(progress, P_CHUNK_FIRST) + number
    datagram = rows.datagrams + number * c.D_BYTES
    status = get(datagram, c.D_STATUS)
    if status == c.STATUS_SLOW:
        put(progress, P_AT_HAND, index)
        put(progress, P_NEXT, number + 1)
        return ASK_REFERENCE
    node = get(datagram, c.D_NODE)
    sight = 0
    if node >= 0:
        sender = 0
        counts = get(node_at(tables, node), c.N_SEQUENCE_CONSTANT) == 0
        if counts:
            destination = get(progress, P_DESTINATION_ROWS)
            destination = get(destination, get32(batch.destination + 4 * index))
            key = (node * HW_IDS + get(datagram, c.D_HW_ID)) * get(progress, P_DESTINATIONS)
            sender = get(get(progress, P_SENDERS), key + destination)
            if sender == 0:
                put(progress, P_AT_HAND, key + destination)
                return ASK_SENDER
        sight = look(seen, get(datagram, c.D_CONTENT), get(datagram, c.D_NUMBER))
        if counts:
            observe(sender, get(datagram, c.D_SEQUENCE), sight == REPEATED)
    put(progress, P_NEXT, number + 1)
    if sight == REPEATED:
        count_up(progress, P_DUPLICATES)
    elif status != 0:
        _reject(batch, tables, progress, index, status)
    elif sight == REPLICA and get(datagram, c.D_STAMPS) != 0:
        count_up(progress, P_REPLICAS)
    elif get(datagram, c.D_FAULT) != 0:
        _reject(batch, tables, progress, index, get(datagram, c.D_FAULT))
    else:
        count_up(progress, P_DECODED)
        missing = get(datagram, c.D_NO_INGRESS_TSTAMP)
        put(progress, P_NO_INGRESS_TSTAMP, get(progress, P_NO_INGRESS_TSTAMP) + missing)
        missing = get(datagram, c.D_NO_EGRESS_TSTAMP)
        put(progress, P_NO_EGRESS_TSTAMP, get(progress, P_NO_EGRESS_TSTAMP) + missing)
        first = rows.reports + get(datagram, c.D_FIRST_REPORT) * c.R_BYTES
        put(progress, P_REPORT, first)
        put(progress, P_REPORTS_LEFT, get(datagram, c.D_REPORTS))
    return FINISHED


def _run_entry(digest: int) -> Any:  # noqa: ANN401
    def run_batch(
        batch: BatchView,
        tables: FabricTables,
        rows: DecodedRows,
        progress: int,
        joiner: int,
        seen: int,
    ) -> int:
        """Go on with a batch; FINISHED at its end, else what Python has to do first."""
        if digest == 0:
            return FINISHED
        while True:
            code = _join_reports(joiner, tables, rows, progress)
            if code != FINISHED:
                return code
            number = get(progress, P_NEXT)
            count = get(progress, P_CHUNK_COUNT)
            if number >= count:
                first = get(progress, P_CHUNK_FIRST) + count
                if first >= batch.count:
                    return FINISHED
                put(progress, P_CHUNK_FIRST, first)
                count = decode_chunk(batch, first, tables, rows)
                put(progress, P_CHUNK_COUNT, count)
                put(progress, P_NEXT, 0)
                for ahead in range(min(_AHEAD, count)):
                    expect(seen, get(rows.datagrams + ahead * c.D_BYTES, c.D_CONTENT))
                continue
            if number + _AHEAD < count:
                expect(seen, get(rows.datagrams + (number + _AHEAD) * c.D_BYTES, c.D_CONTENT))
            code = _take(batch, tables, rows, progress, seen)
            if code != FINISHED:
                return code

    return entry(run_batch)


run_batch = _run_entry(SOURCES_DIGEST)


def _close_entry(digest: int) -> Any:  # noqa: ANN401
    def close_all(joiner: int, tables: FabricTables) -> int:
        """Close everything that waits; FINISHED or what Python has to do first."""
        if digest == 0:
            return FINISHED
        code = close_overflow(joiner, tables, 0)
        return FINISHED if code == DONE else code

    return entry(close_all)


close_all = _close_entry(SOURCES_DIGEST)
