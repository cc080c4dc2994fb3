# SPDX-License-Identifier: Apache-2.0
"""Parts to another thread of the same process, through a bounded queue."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from controller.collector.outputs.output import (
    PART_BYTES,
    OutputCounters,
    WhenFull,
    never,
    wait_for_room,
)
from controller.collector.outputs.part import Part

QUEUE_PARTS_MAX = 64
"""32 MiB at most: what a reader may fall behind before the output drops or blocks."""


class QueueOutput:
    """A bounded queue of parts: `write` puts, `read` takes."""

    def __init__(
        self,
        *,
        parts_max: int = QUEUE_PARTS_MAX,
        when_full: WhenFull = WhenFull.BLOCK,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._queue: queue.Queue[Part | None] = queue.Queue()
        self._room = threading.Semaphore(parts_max)
        self._when_full = when_full
        self._monotonic_ns = monotonic_ns
        self._lock = threading.Lock()
        self._counters = OutputCounters()
        self._taken = self._given = 0

    @property
    def name(self) -> str:
        """The label of its metrics."""
        return "queue"

    @property
    def part_bytes_max(self) -> int:
        """Parts stay small, so that the bound on their number is one on memory."""
        return PART_BYTES

    @property
    def counters(self) -> OutputCounters:
        """Totals so far; a part is acknowledged when the reader has taken it."""
        with self._lock:
            return replace(self._counters, waiting_parts=self._taken - self._given)

    def write(self, part: Part, give_up: Callable[[], bool] = never) -> None:
        """Put a part into the queue."""
        if not self._room.acquire(blocking=False) and not self._wait_for_room(give_up):
            with self._lock:
                self._counters = self._counters.dropped(part)
            return
        with self._lock:
            self._taken += 1
        self._queue.put(part)

    def _wait_for_room(self, give_up: Callable[[], bool]) -> bool:
        if self._when_full is WhenFull.DROP:
            return False
        has_room, waited_ns = wait_for_room(self._room, give_up, self._monotonic_ns)
        with self._lock:
            self._counters = self._counters.blocked(waited_ns)
        return has_room

    def read(self, timeout_s: float | None = None) -> Part | None:
        """The next part; None after `close` when nothing is left, or when the time is up."""
        try:
            part = self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if part is None:
            self._queue.put(None)  # for the next call
            return None
        self._room.release()
        with self._lock:
            self._given += 1
            size = sum(rows.nbytes for rows in part.arrays.values())
            self._counters = self._counters.acknowledged(part, size)
        return part

    def close(self) -> None:
        """No more parts will come; what waits can still be read."""
        self._queue.put(None)
