# SPDX-License-Identifier: Apache-2.0
"""A collector at work: receive, decode, hand over to outputs, and keep a picture of it all.

One loop, one thread: what blocks an output blocks receiving, and then the kernel counts what its
buffer has no room for. Other threads read `state`, which is replaced as a whole.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from controller.collector.batch import ReportBatch
from controller.collector.cores import Core
from controller.collector.outputs.output import Output, OutputCounters
from controller.collector.state import (
    CollectorState,
    LastReports,
    Pairing,
    ReceiveCounters,
    SampleRing,
)
from controller.telemetry.collector import Collection

DRAIN_INTERVAL_NS = 100_000_000
"""How long a finished packet waits at most before it goes to the outputs."""
STATE_INTERVAL_NS = 1_000_000_000
"""How old the picture is at most that metrics and status show."""
REST_NS_MAX = 5_000_000_000
"""How long the end may take that reads what had arrived before it."""
WAIT_NS = 50_000_000
"""Sleep while nothing arrives; then also how late a request to stop is seen."""


class Source(Protocol):
    """Where batches come from."""

    def receive(self) -> ReportBatch | None:
        """The next batch, None when nothing waits; valid until the next call."""

    def wait(self, timeout_ns: int) -> bool:
        """Sleep until something arrives."""

    @property
    def receive_counters(self) -> ReceiveCounters:
        """What was dropped before it could be received."""

    def close(self) -> None:
        """Release the ports."""


class Pump(Protocol):
    """Where finished packets go."""

    @property
    def outputs(self) -> Sequence[Output]:
        """Outputs whose counters are shown."""

    def write(self, collection: Collection, give_up: Callable[[], bool]) -> int:
        """Take what a drain gave; called ten times a second, also with nothing."""

    def close(self) -> None:
        """The end of the input."""


class RunningCollector:
    """The loop over one source and one core."""

    def __init__(
        self,
        source: Source,
        core: Core,
        pump: Pump,
        *,
        run: str,
        collector_clock_ns: Callable[[], int],
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._source = source
        self._core = core
        self._pump = pump
        self._run = run
        self._clock_ns = collector_clock_ns
        self._monotonic_ns = monotonic_ns
        self._started_collector_ns = collector_clock_ns()
        self._decode_cpu_ns = self._output_ns = 0
        self._pairing = Pairing()
        self._last_reports = LastReports()
        self._samples = SampleRing()
        self._hops = 0
        self.state = self._picture()
        """The newest picture; safe to read from any thread."""

    def live_state(self) -> CollectorState:
        """The newest picture, outputs as they are now: also while the loop waits for one."""
        return replace(self.state, outputs=self._outputs())

    @property
    def state_age_ns(self) -> int:
        """How old the picture is: it grows while an output makes the loop wait."""
        return self._clock_ns() - self.state.now_collector_ns

    @property
    def hop_count(self) -> int:
        """Hops handed over so far."""
        return self._hops

    def serve(self, *, is_ended: Callable[[], bool]) -> None:
        """Collect until told to end; then hand over what is finished and close everything."""
        try:
            self._loop(is_ended)
            self._take_rest()
        finally:
            self._source.close()
        self._hand_over(self._core.flush(), is_ended)
        self._pump.close()
        self.state = self._picture()

    def change_core(self, core: Core) -> None:
        """Decode with another core from now on; what the present one holds is handed over.

        Call it from within the loop's own thread.
        """
        before, self._core = self._core, core
        self._hand_over(before.flush(), lambda: False)

    def _loop(self, is_ended: Callable[[], bool]) -> None:
        next_drain_ns = next_state_ns = self._monotonic_ns()
        while not is_ended():
            batch = self._source.receive()
            if batch is not None:
                self._take(batch)
            now_ns = self._monotonic_ns()
            if now_ns >= next_drain_ns:
                next_drain_ns = now_ns + DRAIN_INTERVAL_NS
                self._hand_over(self._core.drain(), is_ended)
            if now_ns >= next_state_ns:
                next_state_ns = now_ns + STATE_INTERVAL_NS
                self.state = self._picture()
            if batch is None:
                self._source.wait(WAIT_NS)

    def _take(self, batch: ReportBatch) -> None:
        before_ns = time.thread_time_ns()
        self._core.feed_batch(batch)
        self._decode_cpu_ns += time.thread_time_ns() - before_ns
        self._samples.take(batch)

    def _take_rest(self) -> None:
        """What the kernel had accepted when the end was asked for; not what still comes."""
        asked_ns = self._clock_ns()
        end_ns = self._monotonic_ns() + REST_NS_MAX
        while self._monotonic_ns() < end_ns:
            batch = self._source.receive()
            if batch is None:
                return
            self._take(batch)
            if batch.count and batch.capture_collector_ns[batch.count - 1] > asked_ns:
                return

    def _hand_over(self, collection: Collection, is_ended: Callable[[], bool]) -> None:
        self._hops += len(collection.hops)
        self._pairing = self._pairing.with_collection(collection)
        before_ns = self._monotonic_ns()
        self._pump.write(collection, is_ended)
        self._output_ns += self._monotonic_ns() - before_ns

    def _picture(self) -> CollectorState:
        now_ns = self._clock_ns()
        counters = self._core.counters
        return CollectorState(
            run=self._run,
            started_collector_ns=self._started_collector_ns,
            now_collector_ns=now_ns,
            counters=counters,
            receive=self._source.receive_counters,
            outputs=self._outputs(),
            pairing=self._pairing,
            last_report_ns=self._last_reports.see(counters, now_ns),
            decode_cpu_ns=self._decode_cpu_ns,
            output_ns=self._output_ns,
            samples=self._samples.samples,
            rejected_samples=self._core.rejected_samples,
        )

    def _outputs(self) -> dict[str, OutputCounters]:
        return {output.name: output.counters for output in self._pump.outputs}
