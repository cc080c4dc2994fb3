# SPDX-License-Identifier: Apache-2.0
"""Report sockets as the source of a running collector's batches."""

from collections.abc import Callable, Sequence

from controller.collector.batch import ReportBatch
from controller.collector.receive import BatchReceiver, bind_udp
from controller.collector.state import ReceiveCounters


class SocketSource:
    """Receives on one or more addresses."""

    def __init__(
        self, addresses: Sequence[tuple[str, int]], *, collector_clock_ns: Callable[[], int]
    ) -> None:
        """Bind every (host, port); OSError when one cannot be bound."""
        sockets = []
        try:
            for host, udp_port in addresses:
                sockets.append(bind_udp(host, udp_port))
        except OSError:
            for sock in sockets:
                sock.close()
            raise
        self._receiver = BatchReceiver(sockets, collector_clock_ns=collector_clock_ns)
        self._messages = self._receiver.prepare()
        self._counters = ReceiveCounters()
        self._is_open = True

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """What is bound: with port 0, the port that the system chose."""
        return [sock.sock.getsockname()[:2] for sock in self._receiver.sockets]

    def receive(self) -> ReportBatch | None:
        """The next batch; its buffer is used again by the next call."""
        if not self._receiver.receive(self._messages):
            return None
        return self._messages.batch

    def wait(self, timeout_ns: int) -> bool:
        """Sleep until something arrives."""
        return self._receiver.wait(timeout_ns)

    @property
    def receive_counters(self) -> ReceiveCounters:
        """What the kernel dropped and what was cut."""
        if self._is_open:
            self._counters = ReceiveCounters(
                kernel_drops=self._receiver.kernel_drops, cut=self._receiver.cut
            )
        return self._counters

    def close(self) -> None:
        """Release the ports; the counters stay. A second time does nothing."""
        if self._is_open:
            _ = self.receive_counters
            self._is_open = False
            self._receiver.close()
