# SPDX-License-Identifier: Apache-2.0
"""The simulator's engine on the kernel's clock: events when they are due, sockets when readable."""

import heapq
from collections.abc import Callable
from typing import Any

from bmv2_lab.backends.readable import Readable, readable
from bmv2_lab.backends.time_base import TimeBase
from bmv2_lab.simulator.engine import Engine

TURN_NS_MAX = 100_000_000
"""Progress is reported, and an interrupt noticed, at least this often."""


class RealTimeEngine(Engine):
    """True time passes by itself; an action that is due in the past runs at once."""

    __slots__ = ("_readers", "_time")

    def __init__(self, time_base: TimeBase) -> None:
        super().__init__()
        self._time = time_base
        self._readers: dict[Readable, Callable[[], None]] = {}

    def add_reader(self, source: Readable, action: Callable[[], None]) -> None:
        """Call `action` whenever `source` is readable."""
        self._readers[source] = action

    def at(self, time_ns: int, action: Callable[..., None], *args: Any) -> None:  # noqa: ANN401
        """Run `action(*args)` at true time `time_ns`, or now if that is past."""
        self._sequence += 1
        heapq.heappush(self._queue, (time_ns, self._sequence, action, args))

    def run(self, until_ns: int, on_progress: Callable[[int], None] | None = None) -> None:
        """Run until true time `until_ns`; report progress every tenth of a second."""
        self.now_ns = self._time.true_now()
        while self.now_ns < until_ns:
            if on_progress is not None:
                on_progress(self.now_ns)
            turn_end_ns = min(until_ns, self.now_ns + TURN_NS_MAX)
            while self.now_ns < turn_end_ns:
                self._turn(turn_end_ns)

    def _turn(self, end_ns: int) -> None:
        due_ns = min(end_ns, self._queue[0][0]) if self._queue else end_ns
        timeout_s = max(0.0, (due_ns - self._time.true_now()) / 1e9)
        for source in readable(list(self._readers), timeout_s):
            self.now_ns = self._time.true_now()
            self._readers[source]()
        self.now_ns = self._time.true_now()
        while self._queue and self._queue[0][0] <= self.now_ns:
            _, _, action, args = heapq.heappop(self._queue)
            action(*args)
            self.now_ns = self._time.true_now()
