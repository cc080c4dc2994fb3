# SPDX-License-Identifier: Apache-2.0
"""Stretches of readings between which a clock was set, stood still, or changed its rate at once.

A reading belongs to the stretch before it if its window meets what that stretch's last readings
foresee. One that does not, while the next one does again, is damaged; otherwise a new stretch
begins, and between the two nothing is said.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from correction.derived.feasible import Slack, earlier_readings, feasible_ns
from correction.derived.readings import Behaviour, PairReject
from correction.table import HARD_SIGMAS
from correction.timebase import Bools, Float64s, Int64s

UNSEEN_STEP_SHARE = 0.5
"""Of the steering that is allowed: a smaller step inside a gap is within the bound of that gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Readings as windows of the offset, by the parent's time since the first reading."""

    times_ns: Float64s
    low_ns: Float64s
    high_ns: Float64s

    def __len__(self) -> int:
        return len(self.times_ns)

    def of(self, chosen: Int64s) -> "Windows":
        """Some of them."""
        return Windows(
            times_ns=self.times_ns[chosen],
            low_ns=self.low_ns[chosen],
            high_ns=self.high_ns[chosen],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Between two readings the clock did something else than run."""

    before: int
    """Index of the last reading of the stretch that ends."""
    after: int
    step_ns: int
    """By how much the clock is ahead of what was foreseen."""


def find_stretches(
    windows: Windows, behaviour: Behaviour, rejected: Counter[PairReject]
) -> tuple[list[Int64s], list[Break]]:
    """Indices of the readings of each stretch, and what is between them."""
    slack = Slack(
        steering_ppb=behaviour.steering_ppb * UNSEEN_STEP_SHARE,
        wander_ns_per_s_sqrt_s=behaviour.wander_ns_per_s_sqrt_s,
        sigmas=HARD_SIGMAS,
        rate_ppb_max=behaviour.rate_ppb_max,
    )
    count = len(windows)
    index, exists = earlier_readings(count)
    fits = _fits(windows, np.arange(count), index, exists, slack)
    stretch: list[int] = [0] if count else []
    stretches: list[Int64s] = []
    breaks: list[Break] = []
    untouched = 0
    """Readings whose earlier ones are all in the stretch since this one."""
    for number in range(1, count):
        if untouched <= number - index.shape[1] or untouched == 0:
            good = bool(fits[number])
        else:
            good = _fits_one(windows, number, stretch, slack)
        if good:
            stretch.append(number)
            continue
        untouched = number + 1
        if number + 1 < count and _fits_one(windows, number + 1, stretch, slack):
            rejected[PairReject.CONTRADICTED] += 1
            continue
        breaks.append(Break(before=stretch[-1], after=number, step_ns=0))
        breaks[-1] = _with_step(windows, breaks[-1], stretch, slack)
        stretches.append(np.array(stretch, np.int64))
        stretch = [number]
    if stretch:
        stretches.append(np.array(stretch, np.int64))
    return stretches, breaks


def _fits(windows: Windows, numbers: Int64s, index: Int64s, exists: Bools, slack: Slack) -> Bools:
    low, high = feasible_ns(
        windows.times_ns[numbers],
        (index, exists),
        times_ns=windows.times_ns,
        low_ns=windows.low_ns,
        high_ns=windows.high_ns,
        slack=slack,
    )
    meets: Bools = (windows.high_ns[numbers] >= low) & (windows.low_ns[numbers] <= high)
    return meets


def _fits_one(windows: Windows, number: int, stretch: list[int], slack: Slack) -> bool:
    index, exists = _last_of(stretch)
    return bool(_fits(windows, np.array([number]), index, exists, slack)[0])


def _last_of(stretch: list[int]) -> tuple[Int64s, Bools]:
    width = earlier_readings(1)[0].shape[1]
    index = np.array([stretch[-width:]], np.int64)
    return index, np.ones(index.shape, np.bool_)


def _with_step(windows: Windows, found: Break, stretch: list[int], slack: Slack) -> Break:
    low, high = feasible_ns(
        windows.times_ns[[found.after]],
        _last_of(stretch),
        times_ns=windows.times_ns,
        low_ns=windows.low_ns,
        high_ns=windows.high_ns,
        slack=slack,
    )
    reading = (windows.low_ns[found.after] + windows.high_ns[found.after]) / 2
    return Break(
        before=found.before,
        after=found.after,
        step_ns=round(float(reading - (low[0] + high[0]) / 2)),
    )
