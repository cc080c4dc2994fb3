# SPDX-License-Identifier: Apache-2.0
"""A window's correction rows: one per clock, end to end with those of the window before.

All readings are free-running. A clock that is not reached is held over: its newest measured row
stands on, and its bounds grow away from the anchor. What a clock may have shown twice, since it was
set back, is covered by a row without a bound; a later version decides, so that also takes back what
had been held over before a step was noticed. No row says anything of readings after its window.
"""

from dataclasses import dataclass, fields

import numpy as np

from correction.model import FabricModel
from correction.records import NO_TSTAMP_NS
from correction.rows import EDGE_NS
from correction.stream.answer import TrackedWindow
from correction.stream.naming import place_of
from correction.table import (
    CONDITIONAL_SIGMAS,
    CORRECTION_DTYPE,
    UNBOUNDED_NS,
    Corrections,
    Status,
    with_worst_bounds,
)
from correction.timebase import NS_PER_S, Bools, Float64s, Int64s

HOLDOVER_NS = 10 * NS_PER_S
"""A clock that is not reached is held over for so long: then its hard bound has grown to a third of
a microsecond at 10 ns/s per square root of a second and a rate known to 1 ppb."""
BEFORE_NS = 2 * NS_PER_S
"""How far back the first row of a clock is used: first packets do not reach all clocks."""
RECALL_NS = 600 * NS_PER_S
"""How far back readings are remembered that a clock which is set back would show again."""


@dataclass(slots=True, kw_only=True)
class Coverage:
    """What rows have said so far; arrays over clocks, and the state that is saved."""

    row: Corrections
    """Newest measured row of each clock."""
    known: Bools
    """`row` may be held over."""
    low_local_ns: Int64s
    """Newest run of readings that rows cover end to end; NO_TSTAMP_NS: none."""
    high_local_ns: Int64s
    measured_local_ns: Int64s
    """Where the newest measured row ended; from there to `high_local_ns` it was held over."""
    end_collector_ns: Int64s
    """End of the newest window with a row of the clock."""
    measured_end_collector_ns: Int64s
    """End of the newest window in which it was measured."""
    moved: Bools
    """It moved in a window, and has not been measured since."""

    @classmethod
    def new(cls, count: int) -> "Coverage":
        """Nothing said yet."""
        return cls(
            row=np.zeros(count, CORRECTION_DTYPE),
            known=np.zeros(count, np.bool_),
            low_local_ns=np.full(count, NO_TSTAMP_NS),
            high_local_ns=np.full(count, NO_TSTAMP_NS),
            measured_local_ns=np.full(count, NO_TSTAMP_NS),
            end_collector_ns=np.full(count, NO_TSTAMP_NS),
            measured_end_collector_ns=np.full(count, NO_TSTAMP_NS),
            moved=np.zeros(count, np.bool_),
        )

    def moved_to(self, before: FabricModel, after: FabricModel) -> "Coverage":
        """The same of another model, by names; nothing where the reference is another clock."""
        moved = Coverage.new(len(after.clocks))
        if before.clocks[before.reference].name != after.clocks[after.reference].name:
            return moved
        place = place_of([c.name for c in before.clocks], [c.name for c in after.clocks])
        old = np.flatnonzero(place >= 0)
        for one in fields(self):
            getattr(moved, one.name)[place[old]] = getattr(self, one.name)[old]
        moved.row["clock"] = np.arange(len(moved.row))
        return moved


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRows:
    """Rows of one window by clock, in free-running time; worst bounds are filled in."""

    rows: Corrections
    held: Bools
    """[row]: the clock was not reached; the row is an older one that still stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlace:
    """Which window, and what its rows are marked with."""

    number: int
    start_collector_ns: int
    end_collector_ns: int
    version: int
    holdover_ns: int


def window_rows(
    coverage: Coverage, tracked: TrackedWindow | None, model: FabricModel, place: WindowPlace
) -> WindowRows:
    """The rows of a window, which are taken into the coverage. None: nothing was measured."""
    count = len(model.clocks)
    measured, moved = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    parts, held = [], []
    if tracked is not None:
        judged = (tracked.status == Status.OK) | (tracked.status == Status.AMBIGUOUS)
        measured = judged & (tracked.anchor_local_ns != NO_TSTAMP_NS)
        moved = tracked.status == Status.INCONSISTENT
        new = measured & (coverage.high_local_ns == NO_TSTAMP_NS) & ~coverage.moved
        parts.append(_void_rows(coverage, tracked, measured, place))
        parts.append(_measured_rows(coverage, tracked, measured, model, place))
        held = [np.zeros(len(part), np.bool_) for part in parts]
        parts.append(_rows_before(coverage, parts[-1], new))
        held.append(np.ones(len(parts[-1]), np.bool_))
        coverage.moved[measured] = False
    coverage.known[moved], coverage.moved[moved] = False, True
    parts.append(_held_rows(coverage, ~measured & ~moved, place))
    held.append(np.ones(len(parts[-1]), np.bool_))
    rows, is_held = np.concatenate(parts), np.concatenate(held)
    rows["correction_version"], rows["window"] = place.version, place.number
    order = np.lexsort((rows["valid_from_local_ns"], rows["clock"]))
    return WindowRows(rows=with_worst_bounds(rows[order]), held=is_held[order])


def _void_rows(
    coverage: Coverage, tracked: TrackedWindow, measured: Bools, place: WindowPlace
) -> Corrections:
    """What was covered and is in doubt now, of the clocks that are measured again."""
    clocks = np.flatnonzero(measured & (coverage.high_local_ns != NO_TSTAMP_NS))
    low, high = coverage.low_local_ns[clocks], coverage.high_local_ns[clocks]
    start, end = _own(tracked, clocks, place)
    apart = start < high - EDGE_NS
    stepped = (tracked.update.stepped | tracked.update.rate_jumped)[clocks]
    back = np.where(stepped, np.minimum(np.nan_to_num(tracked.update.step_ns[clocks]), 0.0), 0.0)
    back_ns = np.ceil(np.minimum(-back, float(RECALL_NS))).astype(np.int64)
    silent = place.start_collector_ns - coverage.measured_end_collector_ns[clocks]
    far_back = coverage.measured_local_ns[clocks] + silent - start
    far_back = np.where(apart & (far_back > EDGE_NS), np.minimum(far_back, RECALL_NS), 0)
    back_ns = np.maximum(back_ns, far_back)
    # set back at the earliest just after it was measured, it has shown everything from there again
    again = coverage.measured_local_ns[clocks] - back_ns
    void_from = np.where(apart, start, high)
    # what was held over is in doubt whenever it was set
    void_from = np.where(stepped | (far_back > 0), np.minimum(void_from, again), void_from)
    void_from = np.maximum(void_from, low)
    void_to = np.where(apart, np.minimum(end, high), high)
    some = void_from < void_to
    rows = np.zeros(np.count_nonzero(some), CORRECTION_DTYPE)
    rows["clock"] = clocks[some]
    rows["valid_from_local_ns"], rows["valid_to_local_ns"] = void_from[some], void_to[some]
    rows["anchor_local_ns"] = void_from[some]
    rows["bound_hard_ns"] = rows["bound_conditional_ns"] = UNBOUNDED_NS
    rows["sigmas"], rows["status"] = CONDITIONAL_SIGMAS, Status.INCONSISTENT
    return rows


def _measured_rows(
    coverage: Coverage,
    tracked: TrackedWindow,
    measured: Bools,
    model: FabricModel,
    place: WindowPlace,
) -> Corrections:
    clocks = np.flatnonzero(measured)
    start, end = _own(tracked, clocks, place)
    high = coverage.high_local_ns[clocks]
    covered = high != NO_TSTAMP_NS
    distance = np.where(covered, start - np.where(covered, high, start), 0)
    adjoins = covered & (np.abs(distance) <= EDGE_NS)
    again = covered & ~adjoins & (distance < 0) & (end > coverage.low_local_ns[clocks])
    first = np.where(adjoins | again, high, start)
    rows = np.zeros(len(clocks), CORRECTION_DTYPE)
    rows["clock"] = clocks
    rows["valid_from_local_ns"], rows["valid_to_local_ns"] = first, end
    rows["anchor_local_ns"] = tracked.anchor_local_ns[clocks]
    rows["offset_ns"] = tracked.offset_ns[clocks]
    rows["rate_ppb"] = np.nan_to_num(tracked.rate_ppb[clocks])
    rows["rate_sd_ppb"] = tracked.rate_sd_ppb[clocks]
    rows["wander_ns_per_s_sqrt_s"] = np.where(
        clocks == model.reference, 0.0, np.sqrt(2.0) * model.wander_ns_per_s_sqrt_s
    )
    rows["bound_hard_ns"] = _whole(tracked.bound_hard_ns[clocks])
    rows["bound_conditional_ns"] = _whole(tracked.bound_conditional_ns[clocks])
    rows["sigmas"], rows["status"] = CONDITIONAL_SIGMAS, tracked.status[clocks]

    told = end > first
    coverage.known[clocks], coverage.row[clocks] = True, rows
    coverage.low_local_ns[clocks] = np.where(
        adjoins | again, np.maximum(coverage.low_local_ns[clocks], end - RECALL_NS), start
    )
    coverage.high_local_ns[clocks] = np.where(told, end, high)
    coverage.measured_local_ns[clocks] = coverage.high_local_ns[clocks]
    coverage.end_collector_ns[clocks] = place.end_collector_ns
    coverage.measured_end_collector_ns[clocks] = place.end_collector_ns
    return rows[told]


def _rows_before(coverage: Coverage, rows: Corrections, new: Bools) -> Corrections:
    """Of clocks that are measured for the first time: a little of what they read before."""
    before: Corrections = rows[new[rows["clock"]]].copy()
    before["valid_to_local_ns"] = before["valid_from_local_ns"]
    before["valid_from_local_ns"] -= BEFORE_NS
    coverage.low_local_ns[before["clock"]] = before["valid_from_local_ns"]
    return before


def _held_rows(coverage: Coverage, silent: Bools, place: WindowPlace) -> Corrections:
    since = place.end_collector_ns - coverage.measured_end_collector_ns
    stands = silent & coverage.known
    stands &= (coverage.end_collector_ns == place.start_collector_ns) & (since <= place.holdover_ns)
    coverage.known[silent & ~stands] = False
    clocks = np.flatnonzero(stands)
    rows = coverage.row[clocks].copy()
    rows["valid_from_local_ns"] = coverage.high_local_ns[clocks]
    length = place.end_collector_ns - place.start_collector_ns
    rows["valid_to_local_ns"] = coverage.high_local_ns[clocks] + length
    coverage.high_local_ns[clocks] += length
    coverage.end_collector_ns[clocks] = place.end_collector_ns
    return rows


def _own(tracked: TrackedWindow, clocks: Int64s, place: WindowPlace) -> tuple[Int64s, Int64s]:
    """Readings of clocks at the window's ends."""
    anchor = tracked.anchor_local_ns[clocks]
    start = anchor + (place.start_collector_ns - tracked.instant_collector_ns)
    return start, anchor + (place.end_collector_ns - tracked.instant_collector_ns)


def _whole(bound_ns: Float64s) -> Int64s:
    """Rounded up; UNBOUNDED_NS for an infinite one."""
    finite = np.isfinite(bound_ns)
    whole = np.ceil(np.where(finite, bound_ns, 0.0)).astype(np.int64)
    result: Int64s = np.where(finite, whole, UNBOUNDED_NS)
    return result
