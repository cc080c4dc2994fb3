# SPDX-License-Identifier: Apache-2.0
"""How long to wait before the next attempt: longer each time, and never all at once."""

from collections.abc import Callable

FIRST_NS = 250_000_000
"""Before the second attempt."""
MAX_NS = 15_000_000_000
"""A switch that boots is seen this late at most, half a minute after the worst luck."""
FACTOR = 2
JITTER = 0.5
"""Up to this part of a wait is left out at random, so that the sessions of a fabric that lost its
controller, or its power, do not come back in the same instant."""


class Backoff:
    """Waits of one switch; draw: a number from [0, 1) at each call."""

    def __init__(
        self, draw: Callable[[], float], *, first_ns: int = FIRST_NS, max_ns: int = MAX_NS
    ) -> None:
        self._draw = draw
        self._first_ns = first_ns
        self._max_ns = max_ns
        self._next_ns = first_ns

    def wait_ns(self) -> int:
        """The next wait."""
        whole_ns = self._next_ns
        self._next_ns = min(whole_ns * FACTOR, self._max_ns)
        return round(whole_ns * (1 - JITTER * self._draw()))

    def reset(self) -> None:
        """It works again: begin with the shortest wait."""
        self._next_ns = self._first_ns
