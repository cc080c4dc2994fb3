# SPDX-License-Identifier: Apache-2.0
"""Spans in the store: raw stamps exactly as they were reported."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracing_core.model import (
    DEFAULT_TENANT,
    RESOURCE_CLOCK_DOMAIN,
    RESOURCE_HOST,
    RESOURCE_SERVICE,
    RESOURCE_TENANT,
    Attributes,
    Span,
    SpanKind,
)
from tracing_core.otlp.encode import encode_spans
from tracing_core.store.block_file import BlockFile
from tracing_core.store.blocks import Batch, Record, build_blocks
from tracing_core.store.engine import Engine, Row
from tracing_core.store.segments import segment_number
from tracing_core.store.span_rows import SELECTED, distinct_rows, request_of_rows, spans_of_rows
from tracing_core.store.span_schema import SEGMENT_TIME
from tracing_core.store.trace_search import TraceQuery, TraceSummary, search_traces

NAMES_LIMIT_MAX = 10_000
"""Services or operations in one answer; more than a menu can show."""

EXACT_COUNT_ROWS_MAX = 1_000_000
"""Up to here spans are counted without their repetitions, which takes memory for each of them."""

SPAN_TABLES = ("trace_parts", "trace_times", "span_rows")
"""What an insert writes, in this order; the first two take the same block."""

_SEGMENTS_SQL = """
SELECT DISTINCT tenant, segment FROM trace_parts
PREWHERE ({tenant:String} = '' OR tenant = {tenant:String})
    AND trace_id = toFixedString(unhex({trace_id:String}), 16)
SETTINGS max_threads = 1
"""
"""A few rows of an index: starting threads would take longer."""

_TRACE_SQL = f"""
SELECT {SELECTED} FROM span_rows
PREWHERE tenant IN {{tenants:Array(String)}} AND segment IN {{segments:Array(UInt64)}}
    AND trace_id = toFixedString(unhex({{trace_id:String}}), 16)
"""


class SpanStore:
    """Inserts and reads spans."""

    def __init__(self, engine: Engine, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._engine = engine
        self._now_ns = now_ns
        self._segment = 0
        self._insert_lock = threading.Lock()
        self._traces, self._spans = BlockFile(), BlockFile()
        self.revision = 0
        """Rises with every insert; caches and ETags are keyed by it."""

    def append(self, spans: Sequence[Span]) -> None:
        """Stores spans of this process as a segment of their own before it returns."""
        if not spans:
            return
        body = encode_spans(_with_identity(spans)).SerializeToString()
        now_ns = self._now_ns()
        self._segment = segment_number(now_ns, 0, self._segment)
        record = Record(offset=0, size=len(body), received_ns=now_ns, tenant=DEFAULT_TENANT)
        self.insert(
            Batch(np.frombuffer(body, np.uint8), [record], self._segment), token=str(self._segment)
        )

    def insert(self, batch: Batch, *, token: str, deduplicate: bool = True) -> int:
        """Stores a batch of canonical requests as a whole; returns its number of spans.

        The rows of its traces come first: a span that is visible has its trace's row.
        """
        with self._insert_lock:
            self._traces.begin()
            self._spans.begin()
            row_count = 0
            for blocks in build_blocks(batch):
                row_count += blocks.row_count
                self._traces.write(blocks.traces)
                self._spans.write(blocks.spans)
            if row_count:
                for file in (self._traces, self._spans):
                    file.end()
                for table, file in zip(
                    SPAN_TABLES, (self._traces, self._traces, self._spans), strict=True
                ):
                    self._engine.insert_blocks(table, file, token=token, deduplicate=deduplicate)
                for file in (self._traces, self._spans):
                    file.release()
                self.revision += 1
        return row_count

    def close(self) -> None:
        """Releases memory; the engine is the caller's."""
        with self._insert_lock:
            self._traces.close()
            self._spans.close()

    def set_retention(self, days: int | None) -> None:
        """Lets the database drop segments that came more than `days` ago; None keeps all."""
        for table in SPAN_TABLES:
            current = str(
                self._engine.rows(
                    "SELECT create_table_query FROM system.tables"
                    " WHERE database = currentDatabase() AND name = {table:String}",
                    {"table": table},
                )[0][0]
            )
            if days is None:
                if "TTL" in current:
                    self._engine.command(f"ALTER TABLE {table} REMOVE TTL")
            elif f"toIntervalDay({int(days)})" not in current:
                self._engine.command(
                    f"ALTER TABLE {table} MODIFY TTL {SEGMENT_TIME} + toIntervalDay({int(days)})"
                )

    def segment_rows(self, segment: int) -> int:
        """Rows that are stored of a segment: all of them or none."""
        return self._engine.scalar_int(
            "SELECT count() FROM span_rows WHERE segment = {segment:UInt64}", {"segment": segment}
        )

    def count(self, *, tenant: str = "") -> int:
        """Number of distinct spans; beyond a million, of rows, repeated spans included."""
        # Without a condition the number of rows is known without reading any.
        of_tenant = "FROM span_rows" + (" WHERE tenant = {tenant:String}" if tenant else "")
        rows = self._engine.scalar_int(f"SELECT count() {of_tenant}", {"tenant": tenant})
        if rows > EXACT_COUNT_ROWS_MAX:
            return rows
        return self._engine.scalar_int(
            f"SELECT uniqExact(tenant, trace_id, span_id, kind) {of_tenant}", {"tenant": tenant}
        )

    def trace(self, trace_id: str, *, tenant: str = "") -> list[Span]:
        """All spans of a trace, by raw start, then id; empty if there is none."""
        return spans_of_rows(self._rows(trace_id, tenant))

    def request(self, trace_id: str, *, tenant: str = "") -> ExportTraceServiceRequest:
        """A trace as the OTLP messages it came in, nothing left out."""
        return request_of_rows(self._rows(trace_id, tenant))

    def search(self, query: TraceQuery) -> list[TraceSummary]:
        """Traces that match, newest raw start first."""
        return search_traces(self._engine, query)

    def services(self, *, tenant: str = "") -> list[str]:
        """Names of all services, in order."""
        rows = self._engine.rows(
            "SELECT DISTINCT arrayJoin(services) AS service FROM trace_parts"
            " WHERE service != '' AND ({tenant:String} = '' OR tenant = {tenant:String})"
            " ORDER BY service LIMIT {limit:UInt32}",
            {"tenant": tenant, "limit": NAMES_LIMIT_MAX},
        )
        return [row[0] for row in rows]

    def operations(self, service: str, *, tenant: str = "") -> list[tuple[str, SpanKind]]:
        """Names of a service's spans with their kinds, in order."""
        rows = self._engine.rows(
            "SELECT DISTINCT name, kind FROM span_rows WHERE service = {service:String}"
            " AND ({tenant:String} = '' OR tenant = {tenant:String})"
            " ORDER BY name, kind LIMIT {limit:UInt32}",
            {"service": service, "tenant": tenant, "limit": NAMES_LIMIT_MAX},
        )
        return [(row[0], SpanKind(row[1])) for row in rows]

    def _rows(self, trace_id: str, tenant: str) -> list[Row]:
        found = self._engine.rows(_SEGMENTS_SQL, {"trace_id": trace_id, "tenant": tenant})
        if not found:
            return []
        tenants = sorted({str(row[0]) for row in found})
        segments = sorted({int(row[1]) for row in found})
        rows = self._engine.raw_rows(
            _TRACE_SQL, {"trace_id": trace_id, "tenants": tenants, "segments": segments}
        )
        return distinct_rows(rows)


def _with_identity(spans: Sequence[Span]) -> Iterator[Span]:
    """The spans with all that says whose they are in their resource, where OTLP has it."""
    resources: dict[tuple[object, ...], Attributes] = {}
    for span in spans:
        key = (id(span.resource), span.tenant, span.clock_domain, span.host, span.service)
        if key not in resources:
            known = {
                RESOURCE_SERVICE: span.service,
                RESOURCE_HOST: span.host,
                RESOURCE_TENANT: span.tenant,
                RESOURCE_CLOCK_DOMAIN: span.clock_domain,
            }
            missing = {name: text for name, text in known.items() if text}
            resources[key] = {**missing, **span.resource}
        yield replace(span, resource=resources[key])
