# SPDX-License-Identifier: Apache-2.0
"""The event queue: true time in integer nanoseconds, ties broken by order of scheduling."""

import heapq
from collections.abc import Callable
from typing import Any


class Engine:
    """Runs events in order of true time; the same schedule always runs in the same order."""

    __slots__ = ("_queue", "_sequence", "now_ns")

    def __init__(self) -> None:
        self.now_ns = 0
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    def at(self, time_ns: int, action: Callable[..., None], *args: Any) -> None:  # noqa: ANN401
        """Run `action(*args)` at true time `time_ns`, which must not lie in the past."""
        assert time_ns >= self.now_ns, "an event cannot be scheduled in the past"
        self._sequence += 1
        heapq.heappush(self._queue, (time_ns, self._sequence, action, args))

    def run(self, until_ns: int, on_progress: Callable[[int], None] | None = None) -> None:
        """Run every event up to and including `until_ns`; report each virtual second begun."""
        queue = self._queue
        second = -1
        while queue and queue[0][0] <= until_ns:
            time_ns, _, action, args = heapq.heappop(queue)
            self.now_ns = time_ns
            if on_progress is not None and time_ns // 1_000_000_000 != second:
                second = time_ns // 1_000_000_000
                on_progress(time_ns)
            action(*args)
        self.now_ns = until_ns
