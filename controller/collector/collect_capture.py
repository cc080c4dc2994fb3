# SPDX-License-Identifier: Apache-2.0
"""A whole capture through a core: packets to outputs, totals and samples for the summary."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from controller.collector.captures import read_capture
from controller.collector.cores import Core
from controller.collector.outputs.pump import OutputPump
from controller.collector.state import CollectorState, LastReports, Pairing, SampleRing
from controller.telemetry.codec import DecodeReason
from controller.telemetry.collector import Collection, CollectorCounters
from controller.telemetry.topology import TelemetryFabric

SAMPLES_PER_PIECE = 512
"""A small capture is one piece: enough of it for every device to be among the samples."""
SAMPLES_MAX = 8192


class CaptureCollector:
    """Feeds one capture file to a core, a piece at a time."""

    def __init__(self, fabric: TelemetryFabric, core: Core) -> None:
        self._fabric = fabric
        self._core = core
        self._refused: Counter[DecodeReason] = Counter()
        self._samples = SampleRing(
            per_batch=SAMPLES_PER_PIECE, interval_ns=0, samples_max=SAMPLES_MAX
        )
        self._pairing = Pairing()
        self.hop_count = 0
        """Hops handed over so far."""

    def collections(
        self, path: Path, *, progress: Callable[[float], None] = lambda _share: None
    ) -> Iterator[Collection]:
        """What each piece of the file finishes, and at last what still waits."""
        for part in read_capture(path, self._fabric, progress=progress):
            self._refused.update(part.refused)
            if part.batch.count:
                self._core.feed_batch(part.batch)
                self._samples.take(part.batch)
                yield self._with_refused(self._core.drain())
        yield self._with_refused(self._core.flush())

    def run(
        self, path: Path, pump: OutputPump, *, progress: Callable[[float], None]
    ) -> CollectorState:
        """All of the file into the outputs; returns the totals."""
        for collection in self.collections(path, progress=progress):
            pump.write(collection)
        pump.close()
        samples = self._samples.samples
        first_ns = samples[0].capture_collector_ns if samples else 0
        last_ns = samples[-1].capture_collector_ns if samples else 0
        counters = self.counters
        return CollectorState(
            run=pump.run,
            started_collector_ns=first_ns,
            now_collector_ns=last_ns,
            counters=counters,
            outputs={output.name: output.counters for output in pump.outputs},
            pairing=self._pairing,
            last_report_ns=LastReports().see(counters, last_ns),
            samples=samples,
            rejected_samples=self._core.rejected_samples,
        )

    @property
    def counters(self) -> CollectorCounters:
        """Those of the core, and the frames that held no report datagram."""
        counters = self._core.counters
        return replace(
            counters,
            received=counters.received + self._refused.total(),
            rejected=dict(Counter(counters.rejected) + self._refused),
        )

    def _with_refused(self, collection: Collection) -> Collection:
        self.hop_count += len(collection.hops)
        self._pairing = self._pairing.with_collection(collection)
        return replace(collection, counters=self.counters)
