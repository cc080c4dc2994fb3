# SPDX-License-Identifier: Apache-2.0
"""Partitions by day of arrival, retention, and what one insert is."""

import time

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracing_core.store import Store, TraceQuery
from tracing_core.store.blocks import Batch, Record
from tracing_core.store.segments import segment_number, segment_time_ns

DAY_NS = 86_400 * 10**9
NOW_NS = 1_796_000_000 * 10**9
"""Late in November 2026."""


def body(number: int, count: int = 1, start_ns: int = 7) -> bytes:
    message = ExportTraceServiceRequest()
    spans = message.resource_spans.add().scope_spans.add().spans
    for i in range(count):
        spans.add(
            trace_id=number.to_bytes(16, "big"),
            span_id=(i + 1).to_bytes(8, "big"),
            name="step",
            start_time_unix_nano=start_ns,
        )
    return message.SerializeToString()


def insert(store: Store, now_ns: int, *bodies: bytes) -> int:
    records, offset = [], 0
    for content in bodies:
        records.append(Record(offset, len(content), now_ns, "alpha"))
        offset += len(content)
    segment = segment_number(now_ns, 5)
    data = np.frombuffer(b"".join(bodies), np.uint8)
    store.spans.insert(Batch(data, records, segment), token=str(segment))
    return segment


def partitions(store: Store, table: str = "span_rows") -> list[tuple[str, int, int]]:
    """Name, parts and rows of each."""
    return [
        (str(name), parts, rows)
        for name, parts, rows in store.engine.rows(
            "SELECT partition, count(), sum(rows) FROM system.parts"
            " WHERE active AND table = {table:String} GROUP BY partition ORDER BY partition",
            {"table": table},
        )
    ]


def test_a_segment_number_is_time_and_writer() -> None:
    """Microseconds in front, the writer behind; the time can be read back."""
    number = segment_number(NOW_NS + 1999, 4097)
    assert (number & 4095, segment_time_ns(number)) == (1, NOW_NS + 1000)
    assert segment_number(NOW_NS, 4097, previous=number) == number + 4096


def test_rows_are_partitioned_by_the_day_of_their_arrival(store: Store) -> None:
    """Whatever the spans' own clocks say: a stamp of 1970 does not make a partition of 1970."""
    insert(store, NOW_NS, body(1, start_ns=0), body(2, start_ns=2**62))
    insert(store, NOW_NS + DAY_NS, body(3))
    for table in ("span_rows", "trace_parts", "trace_times"):
        assert partitions(store, table) == [("20261130", 1, 2), ("20261201", 1, 1)]


def test_a_large_batch_is_one_part(store: Store) -> None:
    """It is inserted, deduplicated and found as a whole, though it was built in pieces."""
    segment = insert(store, NOW_NS, *(body(number, count=5000) for number in range(1, 41)))
    assert partitions(store) == [("20261130", 1, 200_000)]
    assert store.spans.segment_rows(segment) == 200_000


def test_old_segments_go_and_new_ones_stay(store: Store) -> None:
    """Retention counts from arrival; without it everything stays."""
    now_ns = time.time_ns()
    insert(store, now_ns - 40 * DAY_NS, body(1))
    insert(store, now_ns - DAY_NS, body(2))
    assert store.spans.count() == 2
    store.spans.set_retention(30)
    store.spans.set_retention(30)
    for table in ("span_rows", "trace_parts", "trace_times"):
        store.engine.command(f"OPTIMIZE TABLE {table} FINAL")
        assert store.engine.scalar_int(f"SELECT count() FROM {table}") == 1
    (left,) = store.spans.search(TraceQuery())
    assert left.trace_id == f"{2:032x}"
    store.spans.set_retention(None)
    insert(store, now_ns - 39 * DAY_NS, body(1))
    store.engine.command("OPTIMIZE TABLE span_rows FINAL")
    assert store.spans.count() == 2


def test_a_trace_of_several_segments_is_one(store: Store) -> None:
    """Its spans are together, its list entry counts each span once, though one was sent again."""
    insert(store, NOW_NS, body(1, count=3, start_ns=10))
    insert(store, NOW_NS + 10**9, body(1, count=4, start_ns=10))
    assert len(store.spans.trace(f"{1:032x}")) == 4
    (found,) = store.spans.search(TraceQuery())
    assert found.span_count == 4
    assert store.spans.count() == 4
