# SPDX-License-Identifier: Apache-2.0
"""From drained collections to numbered parts in every output."""

from collections.abc import Callable, Sequence

from controller.collector.aggregation import Aggregates, Aggregation
from controller.collector.outputs.output import PART_BYTES, Output, never
from controller.collector.outputs.part import Part, Rows
from controller.collector.outputs.rows import part_arrays
from controller.collector.outputs.statistics_rows import statistics_arrays
from controller.telemetry.collector import Collection, CollectorCounters


class OutputPump:
    """Splits collections into parts and writes each to all outputs, in order."""

    def __init__(
        self, outputs: Sequence[Output], *, run: str, aggregation: Aggregation | None = None
    ) -> None:
        """`run` names this start of the collector: no two starts may have the same.

        With an `aggregation`, statistics of windows go with the packets.
        """
        self.outputs = tuple(outputs)
        self.run = run
        self.aggregation = aggregation
        self._next_part = 0
        self._totals: dict[str, int] = {}

    def write(self, collection: Collection, give_up: Callable[[], bool] = never) -> int:
        """Write what a drain gave; returns the number of parts. Nothing in it: no part."""
        first = self._next_part
        self._totals = part_totals(collection.counters)
        if self.outputs:
            for arrays in part_arrays(collection, bytes_max=self._bytes_max):
                self._write_part(arrays, give_up)
        if self.aggregation is not None:
            self.aggregation.add(collection.packets, collection.hops)
            self._write_statistics(self.aggregation.take(), give_up)
        return self._next_part - first

    def close(self) -> None:
        """Hand over the statistics of the windows that are open, and close every output."""
        if self.aggregation is not None:
            self._write_statistics(self.aggregation.flush(), never)
        for output in self.outputs:
            output.close()

    @property
    def _bytes_max(self) -> int:
        return min((output.part_bytes_max for output in self.outputs), default=PART_BYTES)

    def _write_statistics(self, aggregates: Aggregates, give_up: Callable[[], bool]) -> None:
        for arrays in statistics_arrays(aggregates, bytes_max=self._bytes_max):
            self._write_part(arrays, give_up)

    def _write_part(self, arrays: dict[str, Rows], give_up: Callable[[], bool]) -> None:
        if not self.outputs:
            return
        part = Part(run=self.run, number=self._next_part, arrays=arrays, totals=self._totals)
        self._next_part += 1
        for output in self.outputs:
            output.write(part, give_up)


def part_totals(counters: CollectorCounters) -> dict[str, int]:
    """The counters that a part carries: since the run began."""
    return {
        "received": counters.received,
        "decoded": counters.decoded,
        "duplicates": counters.duplicates,
        "rejected": counters.rejected_total,
        "lost": counters.lost,
        "restarts": counters.restarts,
        "complete": counters.complete,
        "incomplete": counters.incomplete,
    }
