# SPDX-License-Identifier: Apache-2.0
"""What receiving alone costs, and what the whole collector costs, under more than it can take.

Reports come over loopback from another process. Times are processor time of the receiver.
"""

import os
import time
from dataclasses import dataclass
from functools import partial

from controller.collector.bench import SECONDS, Pipeline, warm_up
from controller.collector.bench_reports import ReportKind, ReportLoad, bench_fabric
from controller.collector.bench_send import senders
from controller.collector.receive import BatchReceiver, ReceiveOptions, bind_udp, recvmmsg
from controller.collector.ring import RingSource

OVERLOAD_SHARE = 0.05
"""A run counts as overloaded when the kernel dropped more than this of what was sent."""
_WARM_NS = 1_000_000_000
_WAIT_NS = 100_000_000
_WALL_NS_MAX = 60_000_000_000
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
        warm_up(self.kind)
        return self._run(Pipeline(bench_fabric()))

    def through_ring(self, pipeline: Pipeline | None) -> LoopbackRun | None:
        """The same through an AF_PACKET ring, of reports that are sent one by one; None where that
        is not allowed. Sending costs more than reading the ring, so that nothing is dropped."""
        try:
            ring = RingSource("127.0.0.1", 0, interface="lo")
        except PermissionError:
            return None
        take = _Ring(ring, pipeline)
        sender_core, receiver_core = _cores()
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {receiver_core})
        try:
            fresh = pipeline is not None
            with senders(self.kind, ring.address, cores=[sender_core], fresh=fresh, single=True):
                return _measure(take, self.seconds)
        finally:
            os.sched_setaffinity(0, allowed)
            ring.close()

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
            return _measure(take, load.seconds)
    finally:
        os.sched_setaffinity(0, allowed)
        receiver.close()


class _Bare:
    """Takes messages from the kernel, and counts them and their bytes."""

    def __init__(self, receiver: BatchReceiver, *, report_bytes: float) -> None:
        self._receiver = receiver
        self._file_number = receiver.sockets[0].sock.fileno()
        self._messages = receiver.prepare()
        self._report_bytes = report_bytes
        self._bytes = 0

    @property
    def reports(self) -> int:
        """Reports taken so far."""
        return round(self._bytes / self._report_bytes)

    @property
    def kernel_drops(self) -> int:
        """Messages dropped so far."""
        return self._receiver.kernel_drops

    def wait(self) -> None:
        """Sleep until something arrives."""
        self._receiver.wait(_WAIT_NS)

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
        self.reports = 0

    @property
    def kernel_drops(self) -> int:
        """Messages dropped so far."""
        return self._receiver.kernel_drops

    def wait(self) -> None:
        """Sleep until something arrives."""
        self._receiver.wait(_WAIT_NS)

    def turn(self) -> int:
        """Receive once and work on it; the number of messages."""
        received = self._receiver.receive(self._messages)
        if received:
            self.reports += self._messages.batch.count
            self._pipeline.feed(self._messages.batch)
        self._pipeline.drain_in_time()
        return received


class _Ring:
    """The same from a ring; without a pipeline nobody looks at the reports."""

    def __init__(self, ring: RingSource, pipeline: Pipeline | None) -> None:
        self._ring = ring
        self._pipeline = pipeline
        self.reports = 0

    @property
    def kernel_drops(self) -> int:
        """Reports dropped so far."""
        return self._ring.receive_counters.kernel_drops

    def wait(self) -> None:
        """Sleep until something arrives."""
        self._ring.wait(_WAIT_NS)

    def turn(self) -> int:
        """Receive once and work on it; the number of reports."""
        batch = self._ring.receive()
        if batch is not None:
            self.reports += batch.count
            if self._pipeline is not None:
                self._pipeline.feed(batch)
        if self._pipeline is not None:
            self._pipeline.drain_in_time()
        return 0 if batch is None else batch.count


def _measure(take: _Bare | _Whole | _Ring, seconds: float) -> LoopbackRun:
    """Let the receiver run for some seconds of processor time, after it has warmed up."""
    warm_ns = time.process_time_ns() + _WARM_NS
    while time.process_time_ns() < warm_ns:
        if not take.turn():
            take.wait()
    deadline_ns = time.monotonic_ns() + _WALL_NS_MAX
    drops, reports, messages = take.kernel_drops, take.reports, 0
    started_ns = time.process_time_ns()
    while time.process_time_ns() - started_ns < seconds * 1e9:
        received = take.turn()
        messages += received
        if not received:
            take.wait()
        if time.monotonic_ns() > deadline_ns:
            break
    spent_ns = time.process_time_ns() - started_ns
    drops = take.kernel_drops - drops
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
