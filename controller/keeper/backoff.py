# SPDX-License-Identifier: Apache-2.0
"""How long to wait before the next attempt: longer each time, and never all at once."""

from collections.abc import Callable
from dataclasses import dataclass

from controller.fabric_controller import RECONNECT_FIRST_MS, RECONNECT_MAX_S

FIRST_NS = RECONNECT_FIRST_MS * 1_000_000
MAX_NS = round(RECONNECT_MAX_S * 1_000_000_000)
FACTOR = 2
JITTER = 0.5
"""Up to this part of a wait is left out at random, so that the sessions of a fabric that lost its
controller, or its power, do not come back in the same instant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLimits:
    """First and longest wait between attempts to reach a switch."""

    first_ns: int = FIRST_NS
    max_ns: int = MAX_NS


RECONNECT_LIMITS = WaitLimits()
"""Unless the fabric file says otherwise."""


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
