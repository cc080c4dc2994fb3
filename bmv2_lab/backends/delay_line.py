# SPDX-License-Identifier: Apache-2.0
"""Frames on their way: each is due at an instant of its own. Pure."""

import heapq
from typing import Generic, TypeVar

T = TypeVar("T")

FRAMES_MAX = 65_536
"""Frames on the way at once; more are lost, as on a wire nobody drains. 64 MB of 1 kB frames."""


class DelayLine(Generic[T]):
    """Gives back what was put in, each at its due time, equal times in the order of arrival.

    Per `lane` order is kept: a frame whose delay got shorter does not overtake.
    """

    def __init__(self) -> None:
        self.lost = 0
        self._queue: list[tuple[int, int, T]] = []
        self._sequence = 0
        self._last_due_ns: dict[int, int] = {}

    def put(self, lane: int, due_ns: int, frame: T) -> None:
        """A frame that is due at `due_ns`."""
        if len(self._queue) >= FRAMES_MAX:
            self.lost += 1
            return
        due_ns = max(due_ns, self._last_due_ns.get(lane, due_ns))
        self._last_due_ns[lane] = due_ns
        self._sequence += 1
        heapq.heappush(self._queue, (due_ns, self._sequence, frame))

    def due_ns(self) -> int | None:
        """When the next frame is due."""
        return self._queue[0][0] if self._queue else None

    def take(self, now_ns: int) -> tuple[int, T] | None:
        """The next frame if it is due, and when it was."""
        if not self._queue or self._queue[0][0] > now_ns:
            return None
        due_ns, _, frame = heapq.heappop(self._queue)
        return due_ns, frame
