# SPDX-License-Identifier: Apache-2.0
"""Who came first and last of several ranks whose stamps are on several clocks, if that is certain.

Stamps of one clock are ordered by themselves, whatever its error; stamps of two clocks only by
their intervals, corrected time +- `bound_conditional_ns`. A stamp whose clock is unknown, disrupted
or flagged, or whose bound is infinite, may be anywhere against other clocks' stamps. Nothing is
decided by midpoints.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracing_core.corrections import CorrectionTable

Int64Array = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ALWAYS_NS = 2**62
"""Stands for an infinite distance; twice it still fits into 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamps:
    """One stamp a member (a rank), equally long arrays."""

    clock: Int64Array
    """Number of the clock; -1 where it is not known."""
    raw_local_ns: Int64Array
    corrected_reference_ns: Int64Array
    """Has a meaning where `usable`."""
    bound_ns: Int64Array
    """Conditional; ALWAYS_NS where infinite or not usable."""
    usable: BoolArray

    def __len__(self) -> int:
        return len(self.clock)

    def take(self, rows: NDArray[np.integer] | BoolArray) -> "Stamps":
        """Some of the members."""
        return Stamps(
            clock=self.clock[rows],
            raw_local_ns=self.raw_local_ns[rows],
            corrected_reference_ns=self.corrected_reference_ns[rows],
            bound_ns=self.bound_ns[rows],
            usable=self.usable[rows],
        )

    def mirrored(self) -> "Stamps":
        """Time reversed: the first of these is the last of those."""
        return Stamps(
            clock=self.clock,
            raw_local_ns=-self.raw_local_ns,
            corrected_reference_ns=-self.corrected_reference_ns,
            bound_ns=self.bound_ns,
            usable=self.usable,
        )

    @property
    def earliest_ns(self) -> Int64Array:
        """Lower ends; -ALWAYS_NS where there is none."""
        return self._end(-1)

    @property
    def latest_ns(self) -> Int64Array:
        """Upper ends; ALWAYS_NS where there is none."""
        return self._end(1)

    def _end(self, sign: int) -> Int64Array:
        bounded = self.usable & (self.bound_ns < ALWAYS_NS)
        ends = self.corrected_reference_ns + sign * np.where(bounded, self.bound_ns, 0)
        return np.where(bounded, ends, sign * ALWAYS_NS)


def stamps_of(
    table: CorrectionTable, clocks: tuple[str, ...], clock: Int64Array, raw_local_ns: Int64Array
) -> Stamps:
    """Corrects stamps of numbered clocks; the empty name is a clock that is not known."""
    known = np.array([bool(name) for name in clocks], bool)
    number = np.where(known[clock] if len(clock) else np.zeros(0, bool), clock, -1)
    corrected = table.correct(clocks, number, raw_local_ns)
    usable = corrected.usable
    finite = usable & np.isfinite(corrected.bound_conditional_ns)
    bound = np.where(finite, corrected.bound_conditional_ns, 0).astype(np.int64)
    return Stamps(
        clock=number,
        raw_local_ns=raw_local_ns,
        corrected_reference_ns=corrected.corrected_reference_ns,
        bound_ns=np.where(finite, bound, ALWAYS_NS),
        usable=usable,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """The first or last of some members."""

    member: int | None
    """The one with the greatest (smallest) corrected time: what a picture shows. None if no
    member can be placed."""
    candidates: tuple[int, ...]
    """Every member that may be it; exactly one if that is certain."""
    earliest_reference_ns: int | None
    latest_reference_ns: int | None
    """Between these the true instant of the first (last) lies; None where unbounded."""

    @property
    def is_certain(self) -> bool:
        """Only one member can be it."""
        return len(self.candidates) == 1


def last_of(stamps: Stamps) -> Extreme:
    """Who was last.

    >>> one_clock = np.zeros(2, np.int64)
    >>> at = np.array([5, 9])
    >>> last_of(Stamps(clock=one_clock, raw_local_ns=at, corrected_reference_ns=at,
    ...     bound_ns=one_clock + 100, usable=one_clock == 0)).candidates
    (1,)
    """
    count = len(stamps)
    earliest, latest = stamps.earliest_ns, stamps.latest_ns
    possible = np.ones(count, bool)
    if count:
        newest = np.full(int(stamps.clock.max()) + 2, -(2**63), np.int64)
        np.maximum.at(newest, stamps.clock, stamps.raw_local_ns)
        possible = (stamps.clock < 0) | (stamps.raw_local_ns == newest[stamps.clock])
        possible &= latest >= earliest.max()
    member: int | None = None
    if stamps.usable.any():
        rows = np.flatnonzero(stamps.usable)
        member = int(rows[np.argmax(stamps.corrected_reference_ns[rows])])
    elif possible.sum() == 1:
        member = int(np.flatnonzero(possible)[0])
    low = int(earliest.max(initial=-ALWAYS_NS))
    high = int(latest.max(initial=-ALWAYS_NS))
    return Extreme(
        member=member,
        candidates=tuple(np.flatnonzero(possible).tolist()),
        earliest_reference_ns=low if low > -ALWAYS_NS else None,
        latest_reference_ns=high if count and high < ALWAYS_NS else None,
    )


def first_of(stamps: Stamps) -> Extreme:
    """Who was first."""
    found = last_of(stamps.mirrored())
    low, high = found.latest_reference_ns, found.earliest_reference_ns
    return Extreme(
        member=found.member,
        candidates=found.candidates,
        earliest_reference_ns=None if low is None else -low,
        latest_reference_ns=None if high is None else -high,
    )


@dataclass(frozen=True, slots=True)
class Distance:
    """A time between two instants; the truth lies within `bound_ns` of it."""

    value_ns: int | None
    """None where it is not known."""
    bound_ns: int | None
    """None where unbounded."""


UNKNOWN = Distance(None, None)


def spread_of(stamps: Stamps) -> Distance:
    """From the first to the last member."""
    return between(stamps, stamps)


def between(starts: Stamps, ends: Stamps) -> Distance:
    """From the first of `starts` to the last of `ends`, which are of the same members."""
    if len(starts) == 0:
        return UNKNOWN
    clocks = {*starts.clock.tolist(), *ends.clock.tolist()}
    if len(clocks) == 1 and -1 not in clocks:
        return Distance(int(ends.raw_local_ns.max()) - int(starts.raw_local_ns.min()), 0)
    if not (starts.usable.all() and ends.usable.all()):
        return UNKNOWN
    value = int(ends.corrected_reference_ns.max()) - int(starts.corrected_reference_ns.min())
    first, last = first_of(starts), last_of(ends)
    if (
        first.earliest_reference_ns is None
        or first.latest_reference_ns is None
        or last.earliest_reference_ns is None
        or last.latest_reference_ns is None
    ):
        return Distance(value, None)
    most = last.latest_reference_ns - first.earliest_reference_ns
    least = max(0, last.earliest_reference_ns - first.latest_reference_ns)
    return Distance(value, max(most - value, value - least))


def from_member(stamps: Stamps, origin: int) -> list[Distance]:
    """Each member's time after the member `origin`; both bounds added, none on its own clock."""
    found: list[Distance] = []
    at, clock = int(stamps.raw_local_ns[origin]), int(stamps.clock[origin])
    placed, bound = int(stamps.corrected_reference_ns[origin]), int(stamps.bound_ns[origin])
    both = stamps.usable & bool(stamps.usable[origin])
    for member in range(len(stamps)):
        if clock >= 0 and stamps.clock[member] == clock:
            found.append(Distance(int(stamps.raw_local_ns[member]) - at, 0))
        elif both[member]:
            total = int(stamps.bound_ns[member]) + bound
            value = int(stamps.corrected_reference_ns[member]) - placed
            found.append(Distance(value, total if total < ALWAYS_NS else None))
        else:
            found.append(UNKNOWN)
    return found


def order_is_certain(stamps: Stamps) -> bool:
    """Whether every two members are ordered: by their clock, or by disjoint intervals."""
    count = len(stamps)
    if count < 2:
        return True
    clock = stamps.clock
    by_clock = np.lexsort((stamps.raw_local_ns, clock))
    one, next_one = by_clock[:-1], by_clock[1:]
    same = (clock[one] == clock[next_one]) & (clock[one] >= 0)
    if (same & (stamps.raw_local_ns[one] == stamps.raw_local_ns[next_one])).any():
        return False
    if same.all():
        return True
    earliest, latest = stamps.earliest_ns, stamps.latest_ns
    # In order of their beginnings, an interval must begin after all of other clocks have ended.
    order = np.argsort(earliest, kind="stable")
    ended = -ALWAYS_NS - 1
    ended_clock = -2
    ended_other = -ALWAYS_NS - 1
    for row in order.tolist():
        mine = int(clock[row])
        before = ended_other if mine == ended_clock and mine >= 0 else ended
        if int(earliest[row]) <= before:
            return False
        until = int(latest[row])
        if mine == ended_clock and mine >= 0:
            ended = max(ended, until)
        elif until >= ended:
            ended_other, ended, ended_clock = ended, until, mine
        else:
            ended_other = max(ended_other, until)
    return True
