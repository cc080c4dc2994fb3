# SPDX-License-Identifier: Apache-2.0
"""The compiled loop over a batch: decode, duplicates, sequence numbers, join - a chunk at a time.

It keeps its place in a row of progress and returns whenever Python has to do something: then it is
called again with the same arguments and goes on where it was.
"""

from typing import Any

from controller.collector import columns as c
from controller.collector.arrival_list import note
from controller.collector.columns import REASON_CODES_END
from controller.collector.decode_reports import BatchView, batch_at, rows_at
from controller.collector.fabric_tables import FabricTables, node_at, node_row, tables_at
from controller.collector.join_reports import (
    ANY_TIME_NS,
    ASK_ROOM,
    DONE,
    add,
    close_waiting,
    may_add,
)
from controller.collector.join_state import J_FUNCTIONS, J_PENDING_MAX, J_WINDOW_NS
from controller.collector.kernel import SOURCES_DIGEST, entry, part, routine
from controller.collector.loads import be32, call4, count_up, get, get32, put, u8
from controller.collector.seen_table import NEW, REPEATED, REPLICA, expect, look
from controller.collector.sequence_numbers import observe
from controller.telemetry.rejected import SAMPLE_BYTES_MAX, SAMPLES_PER_NODE
from controller.telemetry.report_old import NEXT_DROP_V05, NEXT_LOCAL_V05

FINISHED = 0
ASK_SENDER = 5
"""The sender at hand has no row yet."""
ASK_REFERENCE = 6
"""The reference decoder has to take the datagram at hand."""

OUTSIDE_BUFFER = 7
"""A datagram of the batch is not in its buffer."""

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
P_ARRIVALS = 12
"""Address of the list that sequence numbers are written down in; 0: they are counted here."""
P_DECODED = 13
P_DUPLICATES = 14
P_REPLICAS = 15
P_NO_INGRESS_TSTAMP = 16
P_NO_EGRESS_TSTAMP = 17
P_REJECTED = 18
"""First of REASON_CODES_END counts."""
P_COLUMNS = P_REJECTED + REASON_CODES_END

SAMPLE_COLUMNS = 1 + SAMPLES_PER_NODE
HW_IDS = 64
_ANY_NUMBER = 1 << 62
_AHEAD = 8
"""Datagrams that the table of contents is asked for in advance."""


@routine
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
def _look(
    batch: BatchView,
    tables: FabricTables,
    datagram: int,
    index: int,
    progress: int,
    seen: int,
    function: int,
) -> int:
    """Look the content up and account for the sequence number; the sight, or -1: no sender row."""
    node = get(datagram, c.D_NODE)
    if node < 0:
        return NEW
    if get(node_at(tables, node), c.N_SEQUENCE_CONSTANT) != 0:
        return look(seen, get(datagram, c.D_CONTENT), get(datagram, c.D_NUMBER))
    rows = get(progress, P_DESTINATION_ROWS)
    destination = get(rows, get32(batch.destination + 4 * index))
    key = (node * HW_IDS + get(datagram, c.D_HW_ID)) * get(progress, P_DESTINATIONS)
    sender = get(get(progress, P_SENDERS), key + destination)
    if sender == 0:
        put(progress, P_AT_HAND, key + destination)
        return -1
    sight = look(seen, get(datagram, c.D_CONTENT), get(datagram, c.D_NUMBER))
    arrivals = get(progress, P_ARRIVALS)
    if arrivals == 0:
        observe(function, sender, get(datagram, c.D_SEQUENCE), sight == REPEATED)
    else:
        captured_ns = get(batch.capture_collector_ns, index)
        note(arrivals, sender, get(datagram, c.D_SEQUENCE), sight == REPEATED, captured_ns)
    return sight


@part
def _is_taken(
    batch: BatchView, tables: FabricTables, datagram: int, index: int, progress: int, sight: int
) -> bool:
    """Count what becomes of a datagram; whether its reports are joined."""
    status = get(datagram, c.D_STATUS)
    fault = get(datagram, c.D_FAULT)
    if (sight != NEW or status != 0 or fault != 0) and not _is_taken_after_all(
        batch, tables, datagram, index, progress, sight
    ):
        return False
    count_up(progress, P_DECODED)
    missing = get(datagram, c.D_NO_INGRESS_TSTAMP)
    put(progress, P_NO_INGRESS_TSTAMP, get(progress, P_NO_INGRESS_TSTAMP) + missing)
    missing = get(datagram, c.D_NO_EGRESS_TSTAMP)
    put(progress, P_NO_EGRESS_TSTAMP, get(progress, P_NO_EGRESS_TSTAMP) + missing)
    return True


@routine
def _is_taken_after_all(
    batch: BatchView, tables: FabricTables, datagram: int, index: int, progress: int, sight: int
) -> bool:
    """Of a datagram that was seen before or has something wrong: whether it is taken all the same.

    The others are counted.
    """
    if sight == REPEATED:
        count_up(progress, P_DUPLICATES)
    elif get(datagram, c.D_STATUS) != 0:
        _reject(batch, tables, progress, index, get(datagram, c.D_STATUS))
    elif sight == REPLICA and get(datagram, c.D_STAMPS) != 0:
        count_up(progress, P_REPLICAS)
    elif get(datagram, c.D_FAULT) != 0:
        _reject(batch, tables, progress, index, get(datagram, c.D_FAULT))
    else:
        return True  # a replica without a stamp may be news
    return False


def _run_entry(digest: int) -> Any:  # noqa: ANN401
    def run_batch(
        batch_row: int, tables_row: int, rows_row: int, progress: int, joiner: int, seen: int
    ) -> int:
        """Go on with a batch; FINISHED at its end, else what Python has to do first.

        All arguments are addresses: of the rows that hold the batch, the fabric's tables and the
        decoded rows, and of the states.
        """
        if digest == 0:
            return FINISHED
        batch, tables, rows = batch_at(batch_row), tables_at(tables_row), rows_at(rows_row)
        functions = get(joiner, J_FUNCTIONS)
        first, count = get(progress, P_CHUNK_FIRST), get(progress, P_CHUNK_COUNT)
        number = get(progress, P_NEXT)
        report, left = get(progress, P_REPORT), get(progress, P_REPORTS_LEFT)
        added = get(progress, P_ADDED)
        code = FINISHED
        while True:
            # the reports of the datagram at hand
            while left != 0:
                if added == 0:
                    oldest_ns = get(report, c.R_CAPTURE) - get(joiner, J_WINDOW_NS)
                    code = close_waiting(joiner, tables, oldest_ns, _ANY_NUMBER)
                    if code != DONE:
                        break
                    if not may_add(joiner):
                        code = ASK_ROOM
                        break
                    added = 1
                    hops = rows.hops + get(report, c.R_FIRST_HOP) * c.H_BYTES
                    code = add(joiner, tables, report, hops)
                    if code > DONE:
                        break
                code = close_waiting(joiner, tables, ANY_TIME_NS, get(joiner, J_PENDING_MAX))
                if code != DONE:
                    break
                added = 0
                left -= 1
                report += c.R_BYTES
            if left != 0:
                break
            # the next datagram
            if number >= count:
                if first + count >= batch.datagrams:
                    # when there will be no more, this closes all that waits
                    code = close_waiting(joiner, tables, ANY_TIME_NS, get(joiner, J_PENDING_MAX))
                    if code == DONE:
                        code = FINISHED
                    break
                first += count
                number = 0
                count = call4(get(functions, c.F_DECODE), batch_row, first, tables_row, rows_row)
                if count < 0:
                    code = OUTSIDE_BUFFER
                    break
                for ahead in range(min(_AHEAD, count)):
                    expect(seen, get(rows.datagrams + ahead * c.D_BYTES, c.D_CONTENT))
                continue
            datagram = rows.datagrams + number * c.D_BYTES
            if get(datagram, c.D_STATUS) == c.STATUS_SLOW:
                put(progress, P_AT_HAND, first + number)
                number += 1
                code = ASK_REFERENCE
                break
            if number + _AHEAD < count:
                expect(seen, get(datagram + _AHEAD * c.D_BYTES, c.D_CONTENT))
            sight = _look(
                batch, tables, datagram, first + number, progress, seen, get(functions, c.F_OBSERVE)
            )
            if sight < 0:
                code = ASK_SENDER
                break
            if _is_taken(batch, tables, datagram, first + number, progress, sight):
                report = rows.reports + get(datagram, c.D_FIRST_REPORT) * c.R_BYTES
                left = get(datagram, c.D_REPORTS)
            number += 1
        put(progress, P_CHUNK_FIRST, first)
        put(progress, P_CHUNK_COUNT, count)
        put(progress, P_NEXT, number)
        put(progress, P_REPORT, report)
        put(progress, P_REPORTS_LEFT, left)
        put(progress, P_ADDED, added)
        return code

    return entry(run_batch)


run_batch = _run_entry(SOURCES_DIGEST)
