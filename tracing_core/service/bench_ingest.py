# SPDX-License-Identifier: Apache-2.0
"""Spans a second of one core, from OTLP/HTTP bytes to durable and queryable.

Beside it, in the same run: bare parsing of the same kind of bytes as protobuf, and bare insertion,
from requests in memory to rows. All are processor seconds of all threads of this process, the
store's and its merges included; the sender is another process. The phases alternate, so that a
busy machine disturbs all of them alike.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracing_core.ingest import IngestLimits, LogKeeper, WriteAheadLog
from tracing_core.ingest.load import SPANS_PER_REQUEST, TENANT, Load
from tracing_core.ingest.load_sender import sender
from tracing_core.ingest.warm import keep_freed_memory, warm_up
from tracing_core.service.app import make_ingest
from tracing_core.service.otlp_server import OtlpServer
from tracing_core.store import Store
from tracing_core.store.block_file import BlockFile
from tracing_core.store.blocks import Batch, Record, build_blocks
from tracing_core.store.segments import segment_number
from tracing_core.store.spans import SPAN_TABLES

SPANS = 4_000_000
"""Through the service; as many again are inserted bare."""
ROUND_REQUESTS = 1_000
BATCH_REQUESTS = 400
"""Requests in one bare insert, as many as a segment of the log has under load."""
START_NS = 1_800_000_000_000_000_000
_POLL_S = 0.05
_SETTLE_S = 600.0
_LIMITS = IngestLimits(insert_interval_s=3600.0, settle_bytes_max=2**40)
"""Segments are cut by their size, as they are when a whole core is busy, also where the machine
has less than that to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestBench:
    """What was measured. Rates are spans per processor second of all threads."""

    spans: int
    bytes_per_span: float
    spans_per_s: float
    """OTLP/HTTP bytes to durable and queryable."""
    parse_per_s: float
    """Protobuf parsing alone."""
    insert_per_s: float
    """Insertion alone: requests in memory to rows, nothing received and nothing logged."""
    ratio: float
    """spans_per_s / (1 / (1 / parse_per_s + 1 / insert_per_s))."""
    build_per_s: float
    """The first half of insertion: requests to blocks of columns."""
    store_per_s: float
    """Its other half, in the database: ready blocks to rows."""
    stored_bytes_per_span: float
    repetitions: int
    """Requests that the sender was asked to repeat."""
    rounds: int
    wall_s: float


class _Clock:
    """Processor time and spans of one kind of phase."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self.spans = 0

    def run(self, spans: int, work: Callable[[], None]) -> None:
        begin_s = time.process_time()
        work()
        self.cpu_s += time.process_time() - begin_s
        self.spans += spans

    @property
    def per_s(self) -> float:
        return self.spans / self.cpu_s


def run(*, spans: int = SPANS, step: Callable[[str], None] = lambda _: None) -> IngestBench:
    """Measures in a store and a log of its own on the temporary folder's disk."""
    keep_freed_memory()
    warm_up()
    requests = min(ROUND_REQUESTS, max(1, spans // SPANS_PER_REQUEST))
    rounds = max(1, spans // (requests * SPANS_PER_REQUEST))
    begin_s = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tempotrace-bench-")))
        store = stack.enter_context(Store.open(folder / "store"))
        log = WriteAheadLog(folder / "log", now_ns=time.time_ns)
        keeper = LogKeeper(log, store.spans, limits=_LIMITS)
        stack.callback(keeper.close)
        service = stack.enter_context(OtlpServer(make_ingest(store, keeper=keeper)))
        bench = _Bench(store, keeper, f"{service.url}/v1/traces", requests)
        stack.callback(bench.close)
        for number in range(rounds):
            step(f"round {number + 1} of {rounds}")
            bench.round(number)
        return bench.result(rounds, time.monotonic() - begin_s)


class _Bench:
    """The phases and their clocks."""

    def __init__(self, store: Store, keeper: LogKeeper, url: str, requests: int) -> None:
        self._opened = store
        self._keeper = keeper
        self._url = url
        self._requests = requests
        self._load = Load(np.random.default_rng(1), start_ns=START_NS)
        self._time_ns = START_NS
        self._segment = 0
        self._repetitions = 0
        self._size_bytes = 0
        self.parse, self.build, self.store, self.ingest = _Clock(), _Clock(), _Clock(), _Clock()
        count = -(-requests // BATCH_REQUESTS)
        self._files = [(BlockFile(), BlockFile()) for _ in range(count)]
        for table in SPAN_TABLES:  # tables of their own have merges of their own
            store.engine.command(f"CREATE TABLE bare_{table} AS {table}")

    def round(self, number: int) -> None:
        """Parses, builds, inserts and sends equally many spans."""
        spans = self._requests * SPANS_PER_REQUEST
        bodies = list(self._load.requests(self._requests))
        self._size_bytes += sum(len(body) for body in bodies)
        self.parse.run(spans, lambda: _parse(bodies))
        batches = list(self._batches(bodies))
        files = self._files[: len(batches)]

        def build() -> None:
            for batch, (traces, span_rows) in zip(batches, files, strict=True):
                traces.begin()
                span_rows.begin()
                for blocks in build_blocks(batch):
                    traces.write(blocks.traces)
                    span_rows.write(blocks.spans)
                traces.end()
                span_rows.end()

        def insert() -> None:
            engine = self._opened.engine
            for batch, (traces, span_rows) in zip(batches, files, strict=True):
                token = f"bare-{batch.segment}"
                for table, file in zip(SPAN_TABLES, (traces, traces, span_rows), strict=True):
                    engine.insert_blocks(f"bare_{table}", file, token=token)
            self._settle()

        self.build.run(spans, build)
        self.store.run(spans, insert)
        self._time_ns += 10**12
        with sender(
            self._url, self._requests, seed=1000 + number, start_ns=self._time_ns
        ) as sending:

            def ingest() -> None:
                sending.go()
                sent = sending.wait()
                assert (sent.requests, sent.failed) == (self._requests, 0)
                self._repetitions += sent.repetitions
                assert self._keeper.settle(_SETTLE_S)
                self._settle()

            self.ingest.run(spans, ingest)

    def close(self) -> None:
        """Releases memory."""
        for pair in self._files:
            for file in pair:
                file.close()

    def result(self, rounds: int, wall_s: float) -> IngestBench:
        """All rounds together."""
        rows = self._opened.engine.scalar_int("SELECT count() FROM span_rows")
        assert rows == self.ingest.spans
        size = self._opened.engine.scalar_int(
            "SELECT sum(bytes_on_disk) FROM system.parts"
            " WHERE active AND table IN {tables:Array(String)}",
            {"tables": list(SPAN_TABLES)},
        )
        insert_per_s = 1 / (1 / self.build.per_s + 1 / self.store.per_s)
        bare_per_s = 1 / (1 / self.parse.per_s + 1 / insert_per_s)
        return IngestBench(
            spans=self.ingest.spans,
            bytes_per_span=self._size_bytes / self.parse.spans,
            spans_per_s=self.ingest.per_s,
            parse_per_s=self.parse.per_s,
            insert_per_s=insert_per_s,
            ratio=self.ingest.per_s / bare_per_s,
            build_per_s=self.build.per_s,
            store_per_s=self.store.per_s,
            stored_bytes_per_span=size / rows,
            repetitions=self._repetitions,
            rounds=rounds,
            wall_s=wall_s,
        )

    def _settle(self) -> None:
        """Waits for the merges that a phase caused, so that it pays for them."""
        while self._opened.engine.scalar_int("SELECT count() FROM system.merges"):
            time.sleep(_POLL_S)

    def _batches(self, bodies: list[bytes]) -> list[Batch]:
        batches = []
        for first in range(0, len(bodies), BATCH_REQUESTS):
            chosen = bodies[first : first + BATCH_REQUESTS]
            self._segment = segment_number(time.time_ns(), 7, self._segment)
            records, offset = [], 0
            for body in chosen:
                records.append(Record(offset, len(body), START_NS, TENANT))
                offset += len(body)
            data = np.frombuffer(b"".join(chosen), np.uint8)
            batches.append(Batch(data, records, self._segment))
        return batches


def _parse(bodies: list[bytes]) -> None:
    for body in bodies:
        ExportTraceServiceRequest.FromString(body)
