# SPDX-License-Identifier: Apache-2.0
"""How fast the collector is, beside the limit that receiving alone sets, in the same run.

All times are processor time of the measured process, so that a machine that is busy with something
else gives about the same figures. What is sent over loopback is received from another process.
"""

import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from controller.collector.batch import ReportBatch
from controller.collector.bench_reports import ReportKind, ReportLoad, Rows, bench_fabric
from controller.collector.bench_send import senders
from controller.collector.fast_collector import FastCollector
from controller.collector.receive import BatchReceiver, ReceiveOptions, bind_udp, recvmmsg
from controller.fabric import Fabric
from controller.fabric_model import fabric_model
from controller.telemetry.topology import telemetry_fabric
from correction.links import JoinCounters, fabric_samples, port_index

OVERLOAD_SHARE = 0.05
"""A run counts as overloaded when the kernel dropped more than this of what was sent."""
SECONDS = 4.0
"""Processor time of each measurement."""
DRAIN_INTERVAL_NS = 100_000_000
_BATCH_ROWS = 2048
_MEMORY_BATCHES = 64
_WARM_NS = 300_000_000
_WAIT_NS = 100_000_000
_WALL_NS_MAX = 60_000_000_000
_MIB = 1 << 20
_REAL_TIME_NS = partial(time.clock_gettime_ns, time.CLOCK_REALTIME)
"""Only for messages that the kernel did not stamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopbackRun:
    """Receiving from sockets that get more than can be taken."""

    cpu_ns: float
    """Processor time per report received."""
    kernel_drop_share: float
    """Of the messages that reached the socket, those that found its buffer full."""
    reports: int

    @property
    def is_overloaded(self) -> bool:
        """Whether the receiver never had to wait for the sender."""
        return self.kernel_drop_share > OVERLOAD_SHARE


class Pipeline:
    """Everything from a batch to link samples: decode, account, join, sample."""

    def __init__(self, fabric: Fabric) -> None:
        self.collector = FastCollector(telemetry_fabric(fabric))
        self._model = fabric_model(fabric)
        self._ports = port_index(self._model)
        self._rejects = JoinCounters()
        self.samples = 0

    def feed(self, batch: ReportBatch) -> None:
        """Take a batch."""
        self.collector.feed_batch(batch)

    def drain(self) -> None:
        """Make link samples of what is finished."""
        finished = self.collector.drain()
        found = fabric_samples(
            finished.packets, finished.hops, self._model, self._ports, self._rejects
        )
        self.samples += len(found)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """What is sent, and for how long it is received."""

    kind: ReportKind
    coalesce: bool = True
    """Whether the kernel may hand over runs of reports as one message."""
    seconds: float = SECONDS

    def receive_only(self) -> LoopbackRun:
        """The fastest way to get reports out of the kernel: nobody looks at them."""
        return self._run(None)

    def end_to_end(self) -> LoopbackRun:
        """The whole collector, from the socket to link samples."""
        return self._run(Pipeline(bench_fabric()))

    def _run(self, pipeline: Pipeline | None) -> LoopbackRun:
        """A run in which the kernel has to drop; where one sender is not enough, two send."""
        sender_core, receiver_core = _cores()
        run = _loopback(self, pipeline, [sender_core])
        return run if run.is_overloaded else _loopback(self, pipeline, [sender_core, receiver_core])


def _loopback(load: Overload, pipeline: Pipeline | None, cores: list[int]) -> LoopbackRun:
    sock = bind_udp("127.0.0.1", 0)
    address = sock.getsockname()[:2]
    options = ReceiveOptions(coalesce=load.coalesce)
    receiver = BatchReceiver([sock], collector_clock_ns=_REAL_TIME_NS, options=options)
    take: _Bare | _Whole
    if pipeline is None:
        take = _Bare(receiver, report_bytes=_mean_bytes(load.kind))
    else:
        take = _Whole(receiver, pipeline)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {_cores()[1]})
    try:
        with senders(load.kind, address, cores=cores, fresh=pipeline is not None):
            return _measure(receiver, take, load.seconds)
    finally:
        os.sched_setaffinity(0, allowed)
        receiver.close()


class _Bare:
    """Takes messages from the kernel, and counts them and their bytes."""

    def __init__(self, receiver: BatchReceiver, *, report_bytes: float) -> None:
        self._file_number = receiver.sockets[0].sock.fileno()
        self._messages = receiver.prepare()
        self._report_bytes = report_bytes
        self._bytes = 0

    @property
    def reports(self) -> int:
        """Reports taken so far."""
        return round(self._bytes / self._report_bytes)

    def turn(self) -> int:
        """Receive once; the number of messages."""
        received = recvmmsg(self._file_number, self._messages)
        if received:
            byte_count = self._messages.bytes_of(received)
            self._messages.offer_again(received, byte_count)
            self._bytes += byte_count
        return received


class _Whole:
    """Takes reports all the way to link samples."""

    def __init__(self, receiver: BatchReceiver, pipeline: Pipeline) -> None:
        self._receiver = receiver
        self._messages = receiver.prepare()
        self._pipeline = pipeline
        self._next_drain_ns = 0
        self.reports = 0

    def turn(self) -> int:
        """Receive once and work on it; the number of messages."""
        received = self._receiver.receive(self._messages)
        if received:
            batch = self._messages.batch
            self._pipeline.feed(batch)
            self.reports += batch.count
        now_ns = time.monotonic_ns()
        if now_ns >= self._next_drain_ns:
            self._next_drain_ns = now_ns + DRAIN_INTERVAL_NS
            self._pipeline.drain()
        return received


def _measure(receiver: BatchReceiver, take: _Bare | _Whole, seconds: float) -> LoopbackRun:
    """Let the receiver run for some seconds of processor time, after it has warmed up."""
    warm_ns = time.process_time_ns() + _WARM_NS
    while time.process_time_ns() < warm_ns:
        if not take.turn():
            receiver.wait(_WAIT_NS)
    deadline_ns = time.monotonic_ns() + _WALL_NS_MAX
    drops, reports, messages = receiver.kernel_drops, take.reports, 0
    started_ns = time.process_time_ns()
    while time.process_time_ns() - started_ns < seconds * 1e9:
        received = take.turn()
        messages += received
        if not received:
            receiver.wait(_WAIT_NS)
        if time.monotonic_ns() > deadline_ns:
            break
    spent_ns = time.process_time_ns() - started_ns
    drops = receiver.kernel_drops - drops
    reports = take.reports - reports
    return LoopbackRun(
        cpu_ns=spent_ns / max(reports, 1),
        kernel_drop_share=drops / max(drops + messages, 1),
        reports=reports,
    )


def _cores() -> tuple[int, int]:
    """(the sender's, the receiver's): two of those that this process may use, if it has two."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


def _mean_bytes(kind: ReportKind) -> float:
    return float(ReportLoad(kind).room(1).byte_count.mean())


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
