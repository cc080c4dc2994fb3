# SPDX-License-Identifier: Apache-2.0
"""Stamps that are not of their time, and what they look like.

A clock's stamps lie at one distance from the collector's capture times, but for what reports take
on their way. Those that do not are damaged, or the clock moved. The usual ways in which they are
wrong have names (clocks.md section 7, rows 6, 9 and 21).
"""

from enum import IntEnum, unique

import numpy as np
from numpy.typing import NDArray

from correction.timebase import NS_PER_S, Bools, Int64s

JUMP_NS = 250_000_000
"""Further than this from its clock's other stamps, a stamp is not of that time: reports take micro-
to milliseconds."""
WRAP_32_NS = 2**32
UTC_TAI_NS = 37 * NS_PER_S
"""TAI is ahead of UTC by so much since 2017."""
NAMED_SLACK_NS = 50_000_000
"""How near to a multiple of 2^32 ns, or to 37 s, a jump must be to be called by that name."""
YEAR_NS = 366 * 86_400 * NS_PER_S
STRAY_COUNT = 3
"""So many damaged stamps in a row are no clock that was set."""
RUNS_MAX = 1
"""A clock that is set and set back inside a window leaves one run of stamps that are off; several
with sound stamps between them are damaged stamps."""


@unique
class Jump(IntEnum):
    """What a stamp that is off looks like."""

    OTHER = 0
    WRAP_32 = 1
    """A multiple of 2^32 ns."""
    UTC_TAI = 2
    """37 s, either way."""
    FROM_1970 = 3
    """Near the epoch, where a clock starts that nobody has set."""


def jump_kinds(jump_ns: Int64s, stamp_ns: Int64s) -> NDArray[np.int64]:
    """A `Jump` for each stamp that is off by `jump_ns`.

    >>> jump_kinds(np.array([17_179_869_180, -37_000_000_000]), np.array([0, 0])).tolist()
    [1, 2]
    """
    size = np.abs(jump_ns)
    rest = (jump_ns + WRAP_32_NS // 2) % WRAP_32_NS - WRAP_32_NS // 2
    kinds = np.full(len(jump_ns), int(Jump.OTHER), np.int64)
    kinds[(size > WRAP_32_NS // 2) & (np.abs(rest) < NAMED_SLACK_NS)] = Jump.WRAP_32
    kinds[np.abs(size - UTC_TAI_NS) < NAMED_SLACK_NS] = Jump.UTC_TAI
    kinds[(size > YEAR_NS) & (np.abs(stamp_ns) < YEAR_NS)] = Jump.FROM_1970
    return kinds


def together(values: Int64s, apart_ns: int) -> NDArray[np.int64]:
    """A number for each value: those that gaps of at most `apart_ns` join have the same one.

    >>> together(np.array([5, 900, 6, 901, 4]), 10).tolist()
    [0, 1, 0, 1, 0]
    """
    order = np.argsort(values, kind="stable")
    number = np.empty(len(values), np.int64)
    number[order] = np.cumsum(np.diff(values[order], prepend=values[order[:1]]) > apart_ns)
    return number


def most_of(values: Int64s, apart_ns: int) -> Bools:
    """The largest group of values that lie together; of equal ones that of the smallest values."""
    group = together(values, apart_ns)
    return np.asarray(group == np.argmax(np.bincount(group, minlength=1)), np.bool_)


def of_their_time(
    clock: Int64s, lag_ns: Int64s, order_key: Int64s, *, apart_ns: int
) -> tuple[Bools, Int64s]:
    """(whether each stamp belongs to its time, how far its lag is above what would).

    lag_ns: some other time less the stamp, one number for a clock but for rates and reports. What
    most stamps of a clock have is right, and of equally many the newest; so is another one that
    more than stray stamps in a row (by `order_key`) have, since a clock may be set at any time.
    """
    fits = np.zeros(len(lag_ns), np.bool_)
    off = np.zeros(len(lag_ns), np.int64)
    strays = _strays(clock, lag_ns, apart_ns, fits, off)
    order = strays[np.lexsort((order_key[strays], clock[strays]))]
    starts = np.flatnonzero(np.diff(clock[order]) != 0) + 1
    for rows in np.split(order, starts) if len(order) else []:
        lag = lag_ns[rows]
        group = together(lag, apart_ns)
        most = group == np.argmax(np.bincount(group))
        middle = int(np.partition(lag[most], most.sum() // 2)[most.sum() // 2])
        first = np.flatnonzero(np.r_[True, np.diff(group) != 0])
        length = np.diff(np.r_[first, len(group)])
        fits[rows] = most | np.repeat(length > STRAY_COUNT, length)
        off[rows] = lag - middle
    return fits, off


def _strays(
    clock: Int64s, lag_ns: Int64s, apart_ns: int, fits: Bools, off: Int64s
) -> NDArray[np.int64]:
    """Rows of clocks whose lags do not all lie together; the others are dealt with here."""
    order = np.lexsort((lag_ns, clock))
    lag = lag_ns[order]
    start = np.flatnonzero(np.diff(clock[order], prepend=-1) != 0) if len(order) else order
    size = np.diff(np.append(start, len(order)))
    near = lag[start + size - 1].astype(np.float64) - lag[start] <= apart_ns
    chosen = np.repeat(near, size)
    rows = order[chosen]
    fits[rows] = True
    off[rows] = lag[chosen] - np.repeat(lag[start + size // 2], size)[chosen]
    return order[~chosen]


def runs(flag: Bools) -> list[tuple[int, int]]:
    """[start, end) of every run of True.

    >>> runs(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flag, [False]]).astype(np.int8)))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]
