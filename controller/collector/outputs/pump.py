# SPDX-License-Identifier: Apache-2.0
"""From drained collections to numbered parts in every output."""

from collections.abc import Callable, Sequence

from controller.collector.outputs.output import Output, never
from controller.collector.outputs.part import Part
from controller.collector.outputs.rows import part_arrays
from controller.telemetry.collector import Collection, CollectorCounters


class OutputPump:
    """Splits collections into parts and writes each to all outputs, in order."""

    def __init__(self, outputs: Sequence[Output], *, run: str) -> None:
        """`run` names this start of the collector: no two starts may have the same."""
        self.outputs = tuple(outputs)
        self.run = run
        self._next_part = 0

    def write(self, collection: Collection, give_up: Callable[[], bool] = never) -> int:
        """Write what a drain gave; returns the number of parts. Nothing in it: no part."""
        if not self.outputs:
            return 0
        first = self._next_part
        totals = part_totals(collection.counters)
        bytes_max = min(output.part_bytes_max for output in self.outputs)
        for arrays in part_arrays(collection, bytes_max=bytes_max):
            part = Part(run=self.run, number=self._next_part, arrays=arrays, totals=totals)
            self._next_part += 1
            for output in self.outputs:
                output.write(part, give_up)
        return self._next_part - first

    def close(self) -> None:
        """Close every output."""
        for output in self.outputs:
            output.close()


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
