# SPDX-License-Identifier: Apache-2.0
"""Several collector processes that share their ports; looks like one collector.

Reports are dealt out by their source port (`steering`), so that all reports of a flow meet in one
worker; each worker joins them and writes to outputs of its own. What needs all reports of a sender,
its sequence numbers, comes together here (`loss_merge`).
"""

import multiprocessing
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from controller.collector.arrivals import ArrivalLog
from controller.collector.loss_merge import LossAccount
from controller.collector.receive import bind_udp
from controller.collector.state import CollectorState, LastReports
from controller.collector.steering import steer_by_source_port
from controller.collector.worker_process import (
    ArrivalsTold,
    StateTold,
    WorkerTask,
    run_worker,
    warmed_up,
)
from controller.collector.worker_states import merged_state
from controller.fabric import Fabric
from controller.telemetry.dialect import SEQUENCE_BITS
from controller.telemetry.topology import TelemetryFabric, telemetry_fabric

_LISTEN_S = 0.1
END_S_MAX = 60.0
"""How long workers may take to hand over what they have, once told to end."""


class WorkerGroup:
    """Runs workers until told to end; `state` is their common picture."""

    def __init__(
        self,
        fabric: Fabric | TelemetryFabric,
        addresses: Sequence[tuple[str, int]],
        *,
        workers: int,
        outputs: Sequence[str] = (),
        run: str,
        collector_clock_ns: Callable[[], int],
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Bind and start; OSError when an address cannot be bound.

        `collector_clock_ns` and `monotonic_ns` are called in the workers, too: functions of a
        module.
        """
        view = fabric if isinstance(fabric, TelemetryFabric) else telemetry_fabric(fabric)
        self._fabric = fabric
        self._run = run
        self._outputs = tuple(outputs)
        self._clocks = (collector_clock_ns, monotonic_ns)
        self._started_collector_ns = collector_clock_ns()
        bits = {node.node_id: node.dialect.sequence_bits for node in view.nodes.values()}
        self._account = LossAccount(
            workers, sequence_bits=lambda node_id: bits.get(node_id, SEQUENCE_BITS)
        )
        self._sockets: list[list[socket.socket]] = [[] for _ in range(workers)]
        self.addresses: list[tuple[str, int]] = []
        """What is bound: with port 0, the port that the system chose."""
        try:
            for host, udp_port in addresses:
                self._bind(host, udp_port)
        except OSError:
            self._close_sockets()
            raise
        warmed_up(view, ArrivalLog())  # compiled here once, not in every worker
        self._context = multiprocessing.get_context("spawn")
        self._starts = 0
        self._processes: list[BaseProcess] = []
        self._connections: list[Connection] = []
        self._told: list[StateTold | None] = [None] * workers
        self._gone: list[StateTold] = []
        """Last pictures of workers that ended on their own."""
        self._last_reports = LastReports()
        for _ in range(workers):
            process, connection = self._start(len(self._processes))
            self._processes.append(process)
            self._connections.append(connection)
        self.restarts = 0
        """Workers that ended on their own and were replaced."""

    @property
    def state(self) -> CollectorState:
        """The common picture, as the workers last told."""
        now_ns = self._clocks[0]()
        told = [item.state for item in [*self._gone, *self._told] if item is not None]
        return merged_state(
            told,
            senders=self._account.senders,
            run=self._run,
            started_collector_ns=self._started_collector_ns,
            now_collector_ns=now_ns,
            last_reports=self._last_reports,
        )

    def live_state(self) -> CollectorState:
        """The same, with the workers that had to be replaced."""
        return replace(self.state, worker_restarts=self.restarts)

    @property
    def state_age_ns(self) -> int:
        """How old the oldest of the workers' pictures is."""
        told = [item.state.now_collector_ns for item in self._told if item is not None]
        return self._clocks[0]() - min(told) if told else 0

    @property
    def is_ready(self) -> bool:
        """Whether all workers are at work. What arrives before waits in their sockets."""
        return all(told is not None for told in self._told)

    @property
    def process_ids(self) -> list[int]:
        """Of the workers, by place."""
        return [process.pid or 0 for process in self._processes]

    @property
    def hop_count(self) -> int:
        """Hops handed over so far."""
        return sum(item.hop_count for item in [*self._gone, *self._told] if item is not None)

    def serve(self, *, is_ended: Callable[[], bool]) -> None:
        """Collect until told to end; then let the workers hand over what they have."""
        try:
            while not is_ended():
                self._listen(_LISTEN_S, is_ending=False)
        finally:
            for process in self._processes:
                process.terminate()
            self._close_sockets()
            self._listen_to_the_end()

    def _bind(self, host: str, udp_port: int) -> None:
        for number, own in enumerate(self._sockets):
            sock = bind_udp(host, udp_port, reuse_port=True)
            own.append(sock)
            if number == 0:
                udp_port = sock.getsockname()[1]
                self.addresses.append(sock.getsockname()[:2])
        if len(self._sockets) > 1:
            steer_by_source_port(self._sockets[0][-1], len(self._sockets))

    def _start(self, number: int) -> tuple[BaseProcess, Connection]:
        """A process for a place. Its sockets stay open here, so that a place is never without."""
        here, there = self._context.Pipe(duplex=False)
        task = WorkerTask(
            fabric=self._fabric,
            outputs=self._outputs,
            place=number,
            run=f"{self._run}-{self._starts}",
        )
        self._starts += 1
        process = self._context.Process(
            target=run_worker,
            args=(task, self._sockets[number], there, *self._clocks),
            name=f"collector-{number}",
            daemon=True,
        )
        # a worker that is told to end while it starts shall see that once it can
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        there.close()
        return process, here

    def _listen(self, timeout_s: float, *, is_ending: bool) -> None:
        open_connections = [c for c in self._connections if not c.closed]
        for ready in wait(open_connections, timeout_s):
            assert isinstance(ready, Connection)
            number = self._connections.index(ready)
            try:
                self._take(number, ready.recv())
            except (EOFError, OSError):
                ready.close()
                self._account.end(number)
                if not is_ending:
                    self._replace(number)

    def _take(self, number: int, told: object) -> None:
        if isinstance(told, ArrivalsTold):
            self._account.add(
                number,
                told.arrivals,
                new_senders=told.new_senders,
                complete_until_ns=told.complete_until_ns,
            )
        elif isinstance(told, StateTold):
            self._told[number] = told

    def _replace(self, number: int) -> None:
        """The worker ended on its own: what it had at hand is lost, its sockets are not."""
        self.restarts += 1
        self._processes[number].join()
        last = self._told[number]
        if last is not None:
            self._gone.append(last)
        self._told[number] = None
        self._account.restart(number)
        self._processes[number], self._connections[number] = self._start(number)

    def _listen_to_the_end(self) -> None:
        end = time.monotonic() + END_S_MAX
        while any(not c.closed for c in self._connections) and time.monotonic() < end:
            self._listen(_LISTEN_S, is_ending=True)
        for process in self._processes:
            process.join(timeout=1)
            if process.is_alive():
                process.kill()

    def _close_sockets(self) -> None:
        for own in self._sockets:
            for sock in own:
                sock.close()
