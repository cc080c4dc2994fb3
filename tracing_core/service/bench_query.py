# SPDX-License-Identifier: Apache-2.0
"""Latency of queries on many spans while more come in, and the memory that takes.

Queries are asked one after the other by a thread of the process that takes the spans, as the API
does; latencies are wall time, so they include waiting for a busy machine.
"""

import resource
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tracing_core.ingest import LogKeeper, WriteAheadLog
from tracing_core.ingest.load import HOSTS, OPERATIONS, SPANS_PER_REQUEST, TENANT, Load
from tracing_core.ingest.load_sender import sender
from tracing_core.ingest.warm import keep_freed_memory, warm_up
from tracing_core.service.app import make_ingest
from tracing_core.service.otlp_server import OtlpServer
from tracing_core.store import Store, TraceQuery
from tracing_core.store.blocks import Batch, Record
from tracing_core.store.segments import segment_number
from tracing_core.store.spans import SPAN_TABLES

SPANS = 10_000_000
INGEST_SPANS_PER_S = 125_000.0
"""Half of the rate that one core is to reach."""
QUERIES = 300
BATCH_REQUESTS = 400
START_NS = 1_800_000_000_000_000_000
LIMIT = 20
"""Traces in an answer, a page of a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Of one kind of query, in milliseconds."""

    queries: int
    p50_ms: float
    p99_ms: float
    found_mean: float
    """Spans or traces in an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryBench:
    """What was measured."""

    spans: int
    """Stored before the first query."""
    ingest_spans_per_s: float
    """Reached while queries were asked."""
    trace_by_id: Latency
    search: Latency
    """By service, host, operation, duration and time, in turn."""
    attribute_search: Latency
    """By a number that one span has, and by texts that many have, in turn."""
    memory_mib_max: float
    parts: int
    stored_bytes_per_span: float
    wall_s: float


def run(
    *,
    spans: int = SPANS,
    queries: int = QUERIES,
    ingest_spans_per_s: float = INGEST_SPANS_PER_S,
    step: Callable[[str], None] = lambda _: None,
) -> QueryBench:
    """Measures in a store and a log of its own on the temporary folder's disk."""
    keep_freed_memory()
    warm_up()
    begin_s = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tempotrace-bench-")))
        store = stack.enter_context(Store.open(folder / "store"))
        end_ns = _fill(store, spans, step)
        keeper = LogKeeper(WriteAheadLog(folder / "log", now_ns=time.time_ns), store.spans)
        stack.callback(keeper.close)
        service = stack.enter_context(OtlpServer(make_ingest(store, keeper=keeper)))
        requests = int(ingest_spans_per_s * 3600 / SPANS_PER_REQUEST)
        sending = stack.enter_context(
            sender(
                f"{service.url}/v1/traces", requests, seed=2, start_ns=end_ns,
                spans_per_s=ingest_spans_per_s,
            )
        )  # fmt: skip
        asking = _Queries(store, end_ns, np.random.default_rng(3))
        sending.go()
        first_s, first = time.monotonic(), keeper.state.spans_inserted
        step("queries by trace id")
        trace_by_id = _measure(asking.trace, queries)
        step("searches")
        search = _measure(asking.search, queries)
        step("searches by attribute")
        attribute_search = _measure(asking.attribute, queries)
        rate = (keeper.state.spans_inserted - first) / (time.monotonic() - first_s)
        ((parts, size, rows),) = store.engine.rows(
            "SELECT countIf(table = 'span_rows'), sum(bytes_on_disk),"
            " sumIf(rows, table = 'span_rows') FROM system.parts"
            " WHERE active AND table IN {tables:Array(String)}",
            {"tables": list(SPAN_TABLES)},
        )
        return QueryBench(
            spans=spans,
            ingest_spans_per_s=rate,
            trace_by_id=trace_by_id,
            search=search,
            attribute_search=attribute_search,
            memory_mib_max=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            parts=parts,
            stored_bytes_per_span=size / rows,
            wall_s=time.monotonic() - begin_s,
        )


def _fill(store: Store, spans: int, step: Callable[[str], None]) -> int:
    """Stores spans as the log's segments would be; the time of the last one."""
    load = Load(np.random.default_rng(1), start_ns=START_NS)
    segment = 0
    for first in range(0, spans, BATCH_REQUESTS * SPANS_PER_REQUEST):
        step(f"{first:,} of {spans:,} spans stored")
        records, bodies, offset = [], [], 0
        for body in load.requests(BATCH_REQUESTS):
            records.append(Record(offset, len(body), START_NS, TENANT))
            bodies.append(body)
            offset += len(body)
        segment = segment_number(time.time_ns(), 7, segment)
        batch = Batch(np.frombuffer(b"".join(bodies), np.uint8), records, segment)
        store.spans.insert(batch, token=str(segment))
    return load.time_ns


class _Queries:
    """Chooses and asks."""

    def __init__(self, store: Store, end_ns: int, rng: np.random.Generator) -> None:
        self._store = store
        self._end_ns = end_ns
        self._rng = rng
        rows = store.engine.rows(
            "SELECT lower(hex(trace_id)), attributes_int['psn_first'] FROM span_rows"
            " WHERE cityHash64(span_id) % 1000 = 0 LIMIT 5000"
        )
        self._ids = [str(row[0]) for row in rows]
        self._numbers = [int(row[1]) for row in rows]
        self._turn = 0

    def trace(self) -> int:
        """One trace."""
        return len(self._store.spans.trace(str(self._rng.choice(self._ids)), tenant=TENANT))

    def search(self) -> int:
        """One of five kinds of search."""
        rng = self._rng
        self._turn += 1
        since_ns = int(rng.integers(START_NS, self._end_ns))
        query = (
            TraceQuery(service=f"trainer-{rng.integers(4)}", tenant=TENANT),
            TraceQuery(
                service=f"trainer-{rng.integers(4)}", name=str(rng.choice(OPERATIONS)),
                tenant=TENANT,
            ),
            TraceQuery(
                host=f"h{rng.integers(HOSTS)}", tenant=TENANT, start_min_local_ns=since_ns,
                start_max_local_ns=since_ns + 10**9,
            ),
            TraceQuery(
                service=f"trainer-{rng.integers(4)}", host=f"h{rng.integers(HOSTS)}",
                name=str(rng.choice(OPERATIONS)), duration_min_ns=1_990_000, tenant=TENANT,
            ),
            TraceQuery(tenant=TENANT, start_max_local_ns=since_ns),
        )[self._turn % 5]  # fmt: skip
        return self._found(query)

    def attribute(self) -> int:
        """One of three kinds of search by attribute."""
        rng = self._rng
        self._turn += 1
        query = (
            TraceQuery(attributes={"psn_first": int(rng.choice(self._numbers))}, tenant=TENANT),
            TraceQuery(attributes={"collective": "allreduce"}, tenant=TENANT),
            TraceQuery(
                attributes={"rdma.dst_ip": f"10.0.{rng.integers(8)}.2"}, tenant=TENANT,
                service=f"trainer-{rng.integers(4)}",
            ),
        )[self._turn % 3]  # fmt: skip
        return self._found(query)

    def _found(self, query: TraceQuery) -> int:
        return len(self._store.spans.search(replace(query, limit_count=LIMIT)))


def _measure(ask: Callable[[], int], queries: int) -> Latency:
    times_ms, found = [], []

    def run_all() -> None:
        for _ in range(3):  # what the first one pays for caches belongs to no query
            ask()
        for _ in range(queries):
            begin_s = time.perf_counter()
            found.append(ask())
            times_ms.append(1e3 * (time.perf_counter() - begin_s))

    thread = threading.Thread(target=run_all, name="queries")
    thread.start()
    thread.join()
    return Latency(
        queries=queries,
        p50_ms=float(np.percentile(times_ms, 50)),
        p99_ms=float(np.percentile(times_ms, 99)),
        found_mean=float(np.mean(found)),
    )
