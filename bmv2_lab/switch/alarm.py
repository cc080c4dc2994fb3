# SPDX-License-Identifier: Apache-2.0
"""Runs timers when they are due, on the clock of an event loop or of a simulation."""

import asyncio
import time
from collections.abc import Callable

from bmv2_lab.switch.timers import Timers

# Real time is not looked at more often than this, whatever timeouts controllers ask for.
TIMER_GAP_S = 0.001

ClockNs = Callable[[], int]
CallAt = Callable[[int, Callable[[], None]], None]
"""`call_at(when_ns, action)`: have the owner of a clock call once at an instant of it."""


def real_clock() -> ClockNs:
    """Nanoseconds since 1970 that never step: the wall clock is read once."""
    epoch_ns = time.time_ns() - time.monotonic_ns()
    return lambda: epoch_ns + time.monotonic_ns()


def loop_call_at(loop: asyncio.AbstractEventLoop, clock_ns: ClockNs) -> CallAt:
    """Calls in real time, never sooner than a little later."""

    def call_at(when_ns: int, action: Callable[[], None]) -> None:
        loop.call_later(max((when_ns - clock_ns()) / 1e9, TIMER_GAP_S), action)

    return call_at


class Alarm:
    """Has `timers.run` called at the instant of the next timer, always one call ahead."""

    def __init__(self, timers: Timers, call_at: CallAt) -> None:
        self._timers = timers
        self._call_at = call_at
        self._asked_ns: int | None = None
        timers.on_sooner = self._ask

    def stop(self) -> None:
        """Calls that are still to come do nothing."""
        self._timers.on_sooner = None
        self._asked_ns = None

    def _ask(self) -> None:
        when_ns = self._timers.next_ns
        if when_ns is None or (self._asked_ns is not None and self._asked_ns <= when_ns):
            return
        self._asked_ns = when_ns
        self._call_at(max(when_ns, self._timers.clock_ns()), lambda: self._called(when_ns))

    def _called(self, when_ns: int) -> None:
        if self._asked_ns != when_ns:  # one that was asked for later came sooner
            return
        self._asked_ns = None
        self._timers.run()
        if self._timers.on_sooner is not None:
            self._ask()
