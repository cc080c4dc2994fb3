# SPDX-License-Identifier: Apache-2.0
"""Timers of a P4Runtime server over a clock that its owner supplies: virtual or real time.

Nothing here waits. In real time an event loop calls `run` when `next_ns` has come; in virtual time
the fabric calls it after it has moved the clock.
"""

import heapq
from collections.abc import Callable
from itertools import count

# Cancelled timers stay in the heap until they are this many, and more than half of it.
CANCELLED_LIMIT = 64


class Timer:
    """One call at one instant; `cancel` forgets it."""

    __slots__ = ("_action", "_owner", "when_ns")

    def __init__(self, owner: "Timers", when_ns: int, action: Callable[[], None]) -> None:
        self._owner = owner
        self._action: Callable[[], None] | None = action
        self.when_ns = when_ns

    @property
    def active(self) -> bool:
        """False once it has run or was cancelled."""
        return self._action is not None

    def cancel(self) -> None:
        """Do not run; harmless if it has run."""
        if self._action is not None:
            self._action = None
            self._owner._cancelled()

    def _fire(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()


class Timers:
    """Timers in the order of their instants, on the clock `clock_ns` (nanoseconds)."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self.clock_ns = clock_ns
        self.on_sooner: Callable[[], None] | None = None  # the next instant has become earlier
        self.after_run: list[Callable[[], None]] = []
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = count()
        self._cancelled_count = 0

    @property
    def next_ns(self) -> int | None:
        """The instant of the next timer."""
        while self._heap and not self._heap[0][2].active:
            heapq.heappop(self._heap)
            self._cancelled_count -= 1
        return self._heap[0][0] if self._heap else None

    def at(self, when_ns: int, action: Callable[[], None]) -> Timer:
        """Call `action` once at `when_ns`, or at the first `run` after it."""
        before = self.next_ns
        timer = Timer(self, when_ns, action)
        heapq.heappush(self._heap, (when_ns, next(self._order), timer))
        if self.on_sooner is not None and (before is None or when_ns < before):
            self.on_sooner()
        return timer

    def after(self, delay_ns: int, action: Callable[[], None]) -> Timer:
        """Call `action` once, `delay_ns` from now."""
        return self.at(self.clock_ns() + delay_ns, action)

    def run(self) -> None:
        """Call what is due now. What is added meanwhile waits for the next run."""
        now_ns = self.clock_ns()
        due = []
        while (when_ns := self.next_ns) is not None and when_ns <= now_ns:
            due.append(heapq.heappop(self._heap)[2])
        for timer in due:
            if timer.active:
                timer._fire()
            else:  # another one of this run has cancelled it
                self._cancelled_count -= 1
        for action in self.after_run:
            action()

    def _cancelled(self) -> None:
        self._cancelled_count += 1
        if self._cancelled_count > max(CANCELLED_LIMIT, len(self._heap) // 2):
            self._heap = [item for item in self._heap if item[2].active]
            heapq.heapify(self._heap)
            self._cancelled_count = 0
