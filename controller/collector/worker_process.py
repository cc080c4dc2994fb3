# SPDX-License-Identifier: Apache-2.0
"""One of several collector processes: the whole way from its sockets to its outputs.

It counts no losses: the sequence numbers it sees go to the parent, with its newest picture.
"""

import signal
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple

from controller.collector.arrivals import ArrivalLog
from controller.collector.batch import ReportBatch
from controller.collector.fast_collector import FastCollector
from controller.collector.loss_merge import Arrivals
from controller.collector.outputs.open_output import open_output
from controller.collector.outputs.pump import OutputPump
from controller.collector.receive import BatchReceiver
from controller.collector.running import RunningCollector
from controller.collector.state import CollectorState, ReceiveCounters
from controller.fabric import Fabric
from controller.telemetry.collector import SenderKey
from controller.telemetry.topology import TelemetryFabric

TELL_INTERVAL_NS = 50_000_000
"""How old sequence numbers are at most when the parent learns of them."""
TELL_ARRIVALS_MAX = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTask:
    """What a worker needs; sent to its process."""

    fabric: Fabric | TelemetryFabric
    outputs: tuple[str, ...]
    place: int
    """0, 1, ...: which of the workers."""
    run: str
    """Of this worker: no two may have the same."""


class ArrivalsTold(NamedTuple):
    """From a worker: see `LossAccount.add`."""

    arrivals: Arrivals
    new_senders: list[SenderKey]
    complete_until_ns: int


class StateTold(NamedTuple):
    """From a worker: its picture. The last one is `final`."""

    state: CollectorState
    hop_count: int
    is_final: bool


class WorkerSource:
    """Sockets that the parent has bound."""

    def __init__(
        self, sockets: Sequence[socket.socket], *, collector_clock_ns: Callable[[], int]
    ) -> None:
        self._receiver = BatchReceiver(sockets, collector_clock_ns=collector_clock_ns)
        self._messages = self._receiver.prepare()
        self._counters = ReceiveCounters()
        self._is_open = True

    def receive(self) -> ReportBatch | None:
        """The next batch; its buffer is used again by the next call."""
        return self._messages.batch if self._receiver.receive(self._messages) else None

    def wait(self, timeout_ns: int) -> bool:
        """Sleep until something arrives."""
        return self._receiver.wait(timeout_ns)

    @property
    def complete_until_ns(self) -> int:
        """See `ReportSocket.complete_until_ns`."""
        return self._receiver.complete_until_ns

    @property
    def receive_counters(self) -> ReceiveCounters:
        """What the kernel dropped and what was cut."""
        if self._is_open:
            self._counters = ReceiveCounters(
                kernel_drops=self._receiver.kernel_drops, cut=self._receiver.cut
            )
        return self._counters

    def close(self) -> None:
        """Let go of the sockets; the counters stay."""
        _ = self.receive_counters
        self._is_open = False
        self._receiver.close()


class _Teller:
    """Tells the parent; a parent that does not listen makes the worker wait."""

    def __init__(
        self,
        connection: Connection,
        log: ArrivalLog,
        source: WorkerSource,
        monotonic_ns: Callable[[], int],
    ) -> None:
        self._connection = connection
        self._log = log
        self._source = source
        self._monotonic_ns = monotonic_ns
        self._next_ns = 0
        self._told: CollectorState | None = None

    def tell(self, collector: RunningCollector) -> None:
        """What is new, if it is time to."""
        now_ns = self._monotonic_ns()
        if now_ns < self._next_ns and len(self._log) < TELL_ARRIVALS_MAX:
            return
        self._next_ns = now_ns + TELL_INTERVAL_NS
        self._tell_arrivals()
        if collector.state is not self._told:
            self._told = collector.state
            self._connection.send(StateTold(collector.state, collector.hop_count, False))

    def tell_end(self, collector: RunningCollector) -> None:
        """All that is left."""
        self._tell_arrivals()
        self._connection.send(StateTold(collector.state, collector.hop_count, True))

    def _tell_arrivals(self) -> None:
        arrivals, new_senders = self._log.take()
        self._connection.send(ArrivalsTold(arrivals, new_senders, self._source.complete_until_ns))


def worker_output(text: str, place: int) -> str:
    """The output of one worker: files go to a folder of its own, since writers share none.

    >>> worker_output("file:/var/lib/tempotrace?keep=8", 1)
    'file:/var/lib/tempotrace/worker-1?keep=8'
    """
    if not text.startswith("file:"):
        return text
    location, mark, options = text.partition("?")
    return f"{location.rstrip('/')}/worker-{place}{mark}{options}"


def warmed_up(fabric: Fabric | TelemetryFabric, log: ArrivalLog) -> FastCollector:
    """A collector whose loops are compiled, so that the first reports do not wait for that."""
    collector = FastCollector(fabric, arrivals=log)
    collector.feed_batch(ReportBatch.empty(rows=1, buffer_bytes=1))
    collector.drain()
    return collector


def run_worker(
    task: WorkerTask,
    sockets: Sequence[socket.socket],
    connection: Connection,
    collector_clock_ns: Callable[[], int],
    monotonic_ns: Callable[[], int],
) -> None:
    """A worker's whole life: until SIGTERM, or until the parent is gone."""
    stop = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's: the parent decides
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    log = ArrivalLog()
    source = WorkerSource(sockets, collector_clock_ns=collector_clock_ns)
    core = warmed_up(task.fabric, log)
    outputs = [open_output(worker_output(text, task.place)) for text in task.outputs]
    pump = OutputPump(outputs, run=task.run)
    collector = RunningCollector(
        source,
        core,
        pump,
        run=task.run,
        collector_clock_ns=collector_clock_ns,
        monotonic_ns=monotonic_ns,
    )
    teller = _Teller(connection, log, source, monotonic_ns)

    def is_ended() -> bool:
        try:
            teller.tell(collector)
        except OSError:  # no parent: nobody counts losses any more
            return True
        return stop.is_set()

    collector.serve(is_ended=is_ended)
    teller.tell_end(collector)
    connection.close()
