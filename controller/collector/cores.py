# SPDX-License-Identifier: Apache-2.0
"""The decoder that a running collector uses."""

from collections.abc import Mapping, Sequence

from controller.collector.batch import ReportBatch
from controller.collector.running import Core
from controller.fabric import Fabric
from controller.telemetry.collector import Collection, Collector, CollectorCounters
from controller.telemetry.topology import TelemetryFabric


class PlainCore:
    """The plain collector, fed with batches row by row."""

    def __init__(self, fabric: Fabric | TelemetryFabric) -> None:
        self._collector = Collector(fabric)

    def feed_batch(self, batch: ReportBatch) -> None:
        """Take a batch."""
        captured_ns = batch.capture_collector_ns[: batch.count].tolist()
        destinations = batch.destination[: batch.count].tolist()
        for row in range(batch.count):
            self._collector.feed_payload(
                bytes(batch.payload(row)), captured_ns[row], batch.destinations[destinations[row]]
            )

    def drain(self) -> Collection:
        """What is finished since the last call."""
        return self._collector.drain()

    def flush(self) -> Collection:
        """The end of the input: what still waits, too."""
        return self._collector.flush()

    @property
    def counters(self) -> CollectorCounters:
        """Totals so far."""
        return self._collector.counters

    @property
    def rejected_samples(self) -> Mapping[int, Sequence[bytes]]:
        """Newest refused payloads by node."""
        return self._collector.rejected_samples


def make_core(fabric: Fabric | TelemetryFabric) -> Core:
    """The core of the commands."""
    return PlainCore(fabric)
