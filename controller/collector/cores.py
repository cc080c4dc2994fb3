# SPDX-License-Identifier: Apache-2.0
"""The decoder that a running collector uses."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from controller.collector.batch import ReportBatch, batch_of_payloads
from controller.collector.fast_collector import FastCollector
from controller.fabric import Fabric
from controller.telemetry.collector import Collection, CollectorCounters
from controller.telemetry.topology import TelemetryFabric


class Core(Protocol):
    """Decodes and joins batches."""

    def feed_batch(self, batch: ReportBatch) -> None:
        """Take a batch."""

    def drain(self) -> Collection:
        """What is finished since the last call."""

    def flush(self) -> Collection:
        """The end of the input: what still waits, too."""

    @property
    def counters(self) -> CollectorCounters:
        """Totals so far."""

    @property
    def rejected_samples(self) -> Mapping[int, Sequence[bytes]]:
        """Newest refused payloads by node."""


def make_core(fabric: Fabric | TelemetryFabric) -> Core:
    """The core of the commands, ready to decode.

    On the first start after an installation it is compiled here, which takes half a minute.
    """
    core = FastCollector(fabric)
    core.feed_batch(batch_of_payloads([], []))
    core.drain()
    return core
