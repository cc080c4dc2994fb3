# SPDX-License-Identifier: Apache-2.0
"""True time of a real-time run: nanoseconds of the kernel's clock since the run began.

One kernel has one clock. CLOCK_REALTIME is what packets and ptp4l are stamped with;
CLOCK_MONOTONIC runs at the same rate and is never stepped, so true time counts on it.
"""

import time
from dataclasses import dataclass

BRACKETS = 16
"""Readings of both clocks; the one that took shortest counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBase:
    """Where true time 0 lies on both clocks."""

    start_monotonic_ns: int
    start_realtime_ns: int

    @classmethod
    def now(cls) -> "TimeBase":
        """True time 0 is now."""
        monotonic_ns = time.monotonic_ns()
        return cls(
            start_monotonic_ns=monotonic_ns,
            start_realtime_ns=monotonic_ns + realtime_minus_monotonic_ns(),
        )

    def true_of_realtime(self, realtime_ns: int) -> int:
        """The true time of a kernel stamp."""
        return realtime_ns - self.start_realtime_ns

    def true_now(self) -> int:
        """The true time."""
        return time.monotonic_ns() - self.start_monotonic_ns

    def stepped_ns(self) -> int:
        """By how much CLOCK_REALTIME was stepped since true time 0; some ns of reading noise."""
        start_ns = self.start_realtime_ns - self.start_monotonic_ns
        return realtime_minus_monotonic_ns() - start_ns


def realtime_minus_monotonic_ns() -> int:
    """The difference of both clocks, to within half the time of the fastest of some readings."""
    best: tuple[int, int] | None = None
    for _ in range(BRACKETS):
        before_ns = time.monotonic_ns()
        realtime_ns = time.time_ns()
        after_ns = time.monotonic_ns()
        difference_ns = realtime_ns - (before_ns + after_ns) // 2
        if best is None or after_ns - before_ns < best[0]:
            best = (after_ns - before_ns, difference_ns)
    assert best is not None, "at least one bracket"
    return best[1]
