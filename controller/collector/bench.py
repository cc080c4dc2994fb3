# SPDX-License-Identifier: Apache-2.0
"""How fast the collector is from memory, up to link samples; see `bench_loopback` for the rest.

All times are processor time of the measured process, so that a machine that is busy with something
else gives about the same figures.
"""

import resource
import time
from collections.abc import Callable

import numpy as np

from controller.collector.batch import ReportBatch
from controller.collector.bench_reports import ReportKind, ReportLoad, Rows, bench_fabric
from controller.collector.fast_collector import FastCollector
from controller.fabric import Fabric
from controller.fabric_model import fabric_model
from controller.telemetry.topology import telemetry_fabric
from correction.links import JoinCounters
from correction.links_fast import FabricSampler

SECONDS = 4.0
"""Processor time of each measurement."""
DRAIN_INTERVAL_NS = 100_000_000
_BATCH_ROWS = 2048
_MEMORY_BATCHES = 64
_MIB = 1 << 20


class Pipeline:
    """Everything from a batch to link samples: decode, account, join, sample."""

    def __init__(self, fabric: Fabric) -> None:
        self.collector = FastCollector(telemetry_fabric(fabric))
        self._sampler = FabricSampler(fabric_model(fabric))
        self._rejects = JoinCounters()
        self._next_drain_ns = 0
        self.samples = 0

    def feed(self, batch: ReportBatch) -> None:
        """Take a batch."""
        self.collector.feed_batch(batch)

    def drain(self) -> None:
        """Make link samples of what is finished."""
        finished = self.collector.drain()
        found = self._sampler.samples(finished.packets, finished.hops, self._rejects)
        self.samples += len(found)

    def drain_in_time(self) -> None:
        """The same, as often as a running collector does it."""
        now_ns = time.monotonic_ns()
        if now_ns >= self._next_drain_ns:
            self._next_drain_ns = now_ns + DRAIN_INTERVAL_NS
            self.drain()


def warm_up(kind: ReportKind) -> None:
    """Have everything compiled or loaded that reports of a kind need."""
    load = ReportLoad(kind)
    rows = load.room(1)
    pipeline = Pipeline(bench_fabric())
    for _ in range(3):
        load.fill(rows, now_ns=time.monotonic_ns())
        pipeline.feed(_batch(rows))
        pipeline.drain()


def from_memory_per_s(kind: ReportKind, *, seconds: float = SECONDS) -> tuple[float, float]:
    """(reports a second, the same up to link samples) of one core, reports lying in memory."""
    load = ReportLoad(kind)
    rounds = max(1, _BATCH_ROWS // load.reports_per_round)
    rows = [load.room(rounds) for _ in range(_MEMORY_BATCHES)]
    batches = [_batch(item) for item in rows]
    pipeline = Pipeline(bench_fabric())
    feed_ns = drain_ns = reports = 0
    first = True
    while feed_ns + drain_ns < seconds * 1e9:
        for item, batch in zip(rows, batches, strict=True):
            now_ns = time.monotonic_ns()
            load.fill(item, now_ns=now_ns)
            batch.capture_collector_ns[:] = now_ns
        started_ns = time.process_time_ns()
        for batch in batches:
            pipeline.feed(batch)
        fed_ns = time.process_time_ns()
        pipeline.drain()
        drained_ns = time.process_time_ns()
        if first:  # compiles
            first = False
            continue
        feed_ns += fed_ns - started_ns
        drain_ns += drained_ns - fed_ns
        reports += sum(batch.count for batch in batches)
    counters = pipeline.collector.counters
    assert counters.received == counters.decoded, counters
    return reports / feed_ns * 1e9, reports / (feed_ns + drain_ns) * 1e9


def payloads(kind: ReportKind) -> list[bytes]:
    """Some reports, one by one."""
    load = ReportLoad(kind)
    rows = load.room(1)
    load.fill(rows, now_ns=time.monotonic_ns())
    contents = rows.buffer.tobytes()
    places = zip(rows.start.tolist(), rows.byte_count.tolist(), strict=True)
    return [contents[start : start + size] for start, size in places]


def per_s(decode: Callable[[bytes], object], reports: list[bytes], *, seconds: float) -> float:
    """How many reports a second a function takes, one core."""
    done = 0
    started_ns = time.process_time_ns()
    while (spent_ns := time.process_time_ns() - started_ns) < seconds * 1e9:
        for report in reports:
            decode(report)
        done += len(reports)
    return done / spent_ns * 1e9


def _batch(rows: Rows) -> ReportBatch:
    count = len(rows.start)
    return ReportBatch(
        buffer=rows.buffer,
        start=rows.start,
        byte_count=rows.byte_count,
        capture_collector_ns=np.zeros(count, np.int64),
        destination=np.zeros(count, np.int32),
        count=count,
    )


def peak_mib() -> float:
    """Most memory that this process has used so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MIB
