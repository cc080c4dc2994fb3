# SPDX-License-Identifier: Apache-2.0
"""Stamps that are not of their time, window by window: damaged ones, and clocks that moved.

Narrow stamps are unwrapped by the way: what they are near to is the same question.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.jumps import (
    JUMP_NS,
    RUNS_MAX,
    STRAY_COUNT,
    Jump,
    jump_kinds,
    most_of,
    runs,
)
from correction.links import JoinCounters, Reject
from correction.model import FabricModel
from correction.records import NO_TSTAMP_NS
from correction.timebase import Bools, Int64s, unwrap

STUCK_NS = 10_000_000
"""A clock whose stamps stay the same for longer stands still."""
STUCK_COUNT = 3
"""So many equal stamps make it sure."""
STRAY_SHARE = 0.02
"""Stamps of this share of a window's packets, or of STRAY_COUNT, may be damaged one by one; more
that are off by over JUMP_NS are a clock that jumped, unless sound ones lie between them (RUNS_MAX).
"""
REJECT_OF_JUMP = {
    Jump.OTHER: Reject.CLOCK_JUMP,
    Jump.WRAP_32: Reject.CLOCK_JUMP_2_32,
    Jump.UTC_TAI: Reject.CLOCK_JUMP_UTC_TAI,
    Jump.FROM_1970: Reject.STAMP_FROM_1970,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """Clocks whose stamps inside a window contradict each other; arrays [window, clock]."""

    total: NDArray[np.int64]
    """Stamps of the clock in the window."""
    jumped: NDArray[np.int64]
    """How many of them were off by more than JUMP_NS; 0 for stray ones."""
    stuck: NDArray[np.int64]
    """How many stood still; 0 for stray ones."""
    read_local_ns: Int64s
    """[window, clock, 2, 2]: first and last reading of the majority and of the stamps that
    jumped; NO_TSTAMP_NS where there are none."""

    @classmethod
    def none(cls, windows: int, clocks: int) -> "Disturbed":
        """No stamps, nothing disturbed."""
        shape = (windows, clocks)
        return cls(
            total=np.zeros(shape, np.int64),
            jumped=np.zeros(shape, np.int64),
            stuck=np.zeros(shape, np.int64),
            read_local_ns=np.full((*shape, 2, 2), NO_TSTAMP_NS),
        )


def judged_stamps(
    clock: Int64s,
    local_ns: Int64s,
    capture_collector_ns: Int64s,
    window: NDArray[np.int64],
    *,
    model: FabricModel,
    window_count: int,
    counters: JoinCounters,
) -> tuple[Int64s, Bools, Disturbed]:
    """Stamps unwrapped by capture time, and which do not belong to their time.

    Judged per clock and window against the largest group of stamps that belong together, so that a
    clock that was set between windows is no fault, and the most are right inside one.
    """
    result = local_ns.copy()
    bad = np.zeros(len(local_ns), np.bool_)
    disturbed = Disturbed.none(window_count, len(model.clocks))
    number = window * len(model.clocks) + clock
    doubtful = _doubtful(number, local_ns, capture_collector_ns, model, disturbed)
    chosen = np.flatnonzero(doubtful[number])
    order = chosen[np.argsort(number[chosen], kind="stable")]
    starts = np.flatnonzero(np.diff(number[order]) != 0) + 1
    for rows in np.split(order, starts) if len(order) else []:
        where = (int(window[rows[0]]), int(clock[rows[0]]))
        one = model.clocks[where[1]]
        capture = capture_collector_ns[rows]
        stuck = _stuck(local_ns[rows], capture, one.stamp_unit_ns)
        lag = local_ns[rows] - capture
        middle = _middle(lag[~stuck] if not stuck.all() else lag)
        near = capture + middle
        if one.stamp_bits < 64:
            result[rows] = unwrap(local_ns[rows], near, bits=one.stamp_bits)
        jump = result[rows] - near
        far = np.abs(jump) > JUMP_NS
        # a clock that stands still shows what it read in this window; other repeated stamps are
        # damaged ones
        stuck &= np.abs(jump) <= JUMP_NS + np.ptp(capture)
        far &= ~stuck
        bad[rows] = stuck | far
        counters.reject(Reject.CLOCK_STUCK, np.count_nonzero(stuck))
        disturbed.total[where] = len(rows)
        if not _stray(stuck, capture):
            disturbed.stuck[where] = np.count_nonzero(stuck)
        disturbed.read_local_ns[*where, 0] = _span(result[rows[~(far | stuck)]])
        if not far.any():
            continue
        kinds = jump_kinds(jump[far], result[rows[far]])
        for kind, reason in REJECT_OF_JUMP.items():
            counters.reject(reason, np.count_nonzero(kinds == kind))
        moving = ~stuck
        if _is_jump(far[moving], jump[moving], capture[moving]):
            disturbed.jumped[where] = np.count_nonzero(far)
            same = np.abs(jump[far] - np.median(jump[far])) <= JUMP_NS
            disturbed.read_local_ns[*where, 1] = _span(result[rows[far]][same])
    return result, bad, disturbed


def _doubtful(
    number: NDArray[np.int64],
    local_ns: Int64s,
    capture_collector_ns: Int64s,
    model: FabricModel,
    disturbed: Disturbed,
) -> Bools:
    """[window x clocks + clock]: stamps that must be looked at one by one.

    The others keep so close to the collector's clock that none jumped, and none can have stood
    still: they are counted here.
    """
    count = disturbed.total.size
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    first, last = low.copy(), high.copy()
    lag = local_ns - capture_collector_ns
    np.minimum.at(low, number, lag)
    np.maximum.at(high, number, lag)
    np.minimum.at(first, number, local_ns)
    np.maximum.at(last, number, local_ns)
    seen = low <= high
    narrow = np.array([clock.stamp_bits < 64 for clock in model.clocks], np.bool_)
    spread = np.where(seen, high.astype(np.float64) - low, 0.0)
    doubtful: Bools = (spread > STUCK_NS) | np.tile(narrow, len(disturbed.total))
    clean = seen & ~doubtful
    disturbed.total.reshape(-1)[clean] = np.bincount(number, minlength=count)[clean]
    spans = disturbed.read_local_ns.reshape(count, 2, 2)
    spans[clean, 0, 0], spans[clean, 0, 1] = first[clean], last[clean]
    return doubtful


def _middle(lag_ns: Int64s) -> int:
    """Median of the largest group of values that lie together."""
    most = lag_ns[most_of(lag_ns, JUMP_NS)]
    return int(np.partition(most, len(most) // 2)[len(most) // 2])


def _stuck(local_ns: Int64s, capture_collector_ns: Int64s, unit_ns: int) -> Bools:
    """Stamps of one clock that show the same value again and again while time goes on."""
    _, which, count = np.unique(local_ns, return_inverse=True, return_counts=True)
    if count.max(initial=0) < STUCK_COUNT:
        return np.zeros(len(local_ns), np.bool_)
    first = np.full(len(count), np.iinfo(np.int64).max)
    last = np.full(len(count), np.iinfo(np.int64).min)
    np.minimum.at(first, which, capture_collector_ns)
    np.maximum.at(last, which, capture_collector_ns)
    still: Bools = (count >= STUCK_COUNT) & (last - first > max(STUCK_NS, 4 * unit_ns))
    result: Bools = still[which]
    return result


def _stray(wrong: Bools, capture_collector_ns: Int64s) -> bool:
    """Few enough of a clock's packets to be damaged one by one."""
    packets = len(np.unique(capture_collector_ns[wrong]))
    return packets <= max(STRAY_COUNT, STRAY_SHARE * len(np.unique(capture_collector_ns)))


def _is_jump(far: Bools, jump_ns: Int64s, capture_collector_ns: Int64s) -> bool:
    """The clock was set inside the window: stamps that are off are more than stray ones, and no
    sound ones lie between them again and again; or a few that all lie at one end, off alike."""
    if _one_sided(far, jump_ns, capture_collector_ns):
        return True
    if _stray(far, capture_collector_ns):
        return False
    order = np.argsort(capture_collector_ns, kind="stable")
    return len(runs(far[order])) <= RUNS_MAX or 2 * int(np.count_nonzero(far)) > len(far)


def _one_sided(far: Bools, jump_ns: Int64s, capture_collector_ns: Int64s) -> bool:
    """A few stamps that all lie at one end of the window, off by the same: a late or early jump."""
    if not far.any() or far.all() or np.ptp(jump_ns[far]) > JUMP_NS:
        return False
    off, kept = capture_collector_ns[far], capture_collector_ns[~far]
    several = off.min() != off.max()
    return bool(several and (off.min() > kept.max() or off.max() < kept.min()))


def _span(readings_ns: Int64s) -> tuple[int, int]:
    """First and last reading."""
    if not len(readings_ns):
        return NO_TSTAMP_NS, NO_TSTAMP_NS
    return int(readings_ns.min()), int(readings_ns.max())
