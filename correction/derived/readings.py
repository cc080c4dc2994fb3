# SPDX-License-Identifier: Apache-2.0
"""Clock pairs: two clocks of a host read at one instant, and what is declared of how they run.

offset = clock - parent: positive when the clock is ahead of its parent. A reading says that while
the clock showed `clock_local_ns`, the parent showed `parent_local_ns`, to within `uncertainty_ns`.
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum, unique

import numpy as np
from numpy.typing import NDArray

from correction.timebase import NS_PER_S, has_stamp

TAI_UTC_S_MIN, TAI_UTC_S_MAX = 30, 50
"""37 since 2017; a table that says less or more is broken (clocks.md 2.10)."""
TAI_UTC_NEAR_NS = 250_000_000
"""A clock that is off by more than this besides is not UTC."""

PAIR_DTYPE = np.dtype(
    [
        ("clock_local_ns", np.int64),
        ("parent_local_ns", np.int64),
        ("uncertainty_ns", np.int64),  # half of the time that the reading took
    ]
)


@unique
class PairReject(StrEnum):
    """Why a reading takes no part."""

    NO_STAMP = "clock_pair_no_stamp"
    DUPLICATE = "clock_pair_duplicate"
    """Both clocks read what they read before."""
    REVERSED = "clock_pair_reversed"
    """The parent is not later than in the reading before, or a clock that nobody sets is not."""
    CONTRADICTED = "clock_pair_contradicted"
    """Readings before and after it agree, and it with neither."""
    PARENT_SHOWN_TWICE = "clock_pair_parent_shown_twice"
    """The parent was set back over this reading: at which of two times it was read is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What is declared of a clock against its parent; hard bounds rest on it."""

    steering_ppb: float
    """Its rate changes by no more than this within a few readings: what the software that steers
    either clock may do; 0 where nobody steers."""
    wander_ns_per_s_sqrt_s: float
    """Random walk of its rate, of both oscillators together."""
    rate_ppb_max: float
    """Its rate is never off by more."""
    settable: bool
    """It may be set (stepped); a counter since boot, or a GPU's, can only stand still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPairs:
    """All readings of one clock against one parent, in the order in which they were taken."""

    clock: str
    parent: str
    rows: NDArray[np.void]
    """Array of `PAIR_DTYPE`."""
    behaviour: Behaviour
    tai_utc_s: tuple[int, ...] = ()
    """`tai_utc_seconds` of the readings, where `rows` have the parent in free-running time."""


def sound_readings(pairs: ClockPairs, rejected: Counter[PairReject]) -> NDArray[np.void]:
    """The readings that can be used, parents ascending; the others are counted."""
    rows = pairs.rows
    usable = has_stamp(rows["clock_local_ns"]) & has_stamp(rows["parent_local_ns"])
    _count(rejected, PairReject.NO_STAMP, int(np.count_nonzero(~usable)))
    rows = rows[usable]
    both = rows[["clock_local_ns", "parent_local_ns"]]
    _, first = np.unique(both, return_index=True)
    _count(rejected, PairReject.DUPLICATE, len(rows) - len(first))
    rows = rows[np.sort(first)]
    kept = _ascending(rows["parent_local_ns"])
    if not pairs.behaviour.settable:
        place = np.flatnonzero(kept)
        kept[place] = _ascending(rows["clock_local_ns"][place])
    _count(rejected, PairReject.REVERSED, int(np.count_nonzero(~kept)))
    return rows[kept]


def tai_utc_seconds(readings: NDArray[np.void]) -> tuple[int, ...]:
    """Whole seconds that a clock is behind its parent, where these look like TAI less UTC.

    Such an offset is an offset like any other; it is named because a clock that is in UTC where TAI
    is expected, or the other way round, is a fault that operators know.
    """
    behind = readings["parent_local_ns"] - readings["clock_local_ns"]
    seconds = (behind + NS_PER_S // 2) // NS_PER_S
    near = np.abs(behind - seconds * NS_PER_S) <= TAI_UTC_NEAR_NS
    found = seconds[(seconds >= TAI_UTC_S_MIN) & (seconds <= TAI_UTC_S_MAX) & near]
    return tuple(np.unique(found).tolist())


def _ascending(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which are above all before them."""
    kept = np.ones(len(values), np.bool_)
    kept[1:] = values[1:] > np.maximum.accumulate(values)[:-1]
    return kept


def _count(rejected: Counter[PairReject], reason: PairReject, number: int) -> None:
    if number:
        rejected[reason] += number
