# SPDX-License-Identifier: Apache-2.0
"""Rows of a stream gathered by time window and group, in bounded memory.

Windows are multiples of their length on the collector's clock. One closes when rows have arrived
that lie `late_ns` behind its end; what comes later still is counted, not used. Of a group that
gets more rows than are kept, every second, fourth, eighth ... row is kept: a sample that does not
look at the values.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from correction.timebase import Bools, Int64s

Rows = NDArray[np.void]
WAITING_ROWS = 262_144
"""Put into groups together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedWindow:
    """All that was kept of one window."""

    start_collector_ns: int
    end_collector_ns: int
    rows: Rows
    """Kept rows, in no special order."""
    group: Int64s
    """Of each row: index into `keys`."""
    keys: Int64s
    """Packed group keys, sorted."""
    count: Int64s
    """Rows that each group got, kept or not."""


@dataclass(slots=True)
class _OpenWindow:
    row_of_key: dict[int, int] = field(default_factory=dict)
    count: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    stride: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: list[Rows] = field(default_factory=list)
    group: list[Int64s] = field(default_factory=list)
    ordinal: list[Int64s] = field(default_factory=list)
    waiting: list[tuple[Rows, Int64s]] = field(default_factory=list)
    """Rows with their keys that are not in any group yet: many at once are cheaper."""
    waiting_rows: int = 0
    kept: int = 0
    thinned_at: int = 0
    """`kept` after the last thinning."""


class WindowedRows:
    """Gathers rows of one dtype."""

    def __init__(self, *, window_ns: int, late_ns: int, rows_per_group_max: int) -> None:
        self._window_ns = window_ns
        self._late_ns = late_ns
        self._rows_max = rows_per_group_max
        self._open: dict[int, _OpenWindow] = {}
        self._closed_before = -(2**63)
        """Number of the first window that is not closed."""
        self.late_count = 0
        """Rows whose window was closed already."""

    def add(self, rows: Rows, key: Int64s, at_collector_ns: Int64s) -> None:
        """Take rows with their packed group key and their time."""
        if not len(rows):
            return
        window = at_collector_ns // self._window_ns
        late = window < self._closed_before
        if late.any():
            self.late_count += int(np.count_nonzero(late))
            rows, key, window = rows[~late], key[~late], window[~late]
        for number in np.unique(window).tolist():
            chosen = window == number
            opened = self._open.get(number)
            if opened is None:
                opened = self._open[number] = _OpenWindow()
            opened.waiting.append((rows[chosen], key[chosen]))
            opened.waiting_rows += int(np.count_nonzero(chosen))
            if opened.waiting_rows > max(WAITING_ROWS, self._rows_max):
                _gather_waiting(opened)
            # half as much again before the next pass, so that passes are few
            if opened.kept > max(2 * opened.thinned_at, 2 * self._rows_max):
                _thin(opened, self._rows_max)

    def closed(self, now_collector_ns: int) -> Iterator[ClosedWindow]:
        """Windows that ended more than `late_ns` before now, oldest first."""
        last = (now_collector_ns - self._late_ns) // self._window_ns
        self._closed_before = max(self._closed_before, last)
        for number in sorted(number for number in self._open if number < last):
            yield self._close(number)

    def rest(self) -> Iterator[ClosedWindow]:
        """All windows: nothing more will come."""
        for number in sorted(self._open):
            self._closed_before = max(self._closed_before, number + 1)
            yield self._close(number)

    def open_windows(self) -> list[int]:
        """Numbers of the windows that hold rows, in order."""
        return sorted(self._open)

    def regroup(self, change: Callable[[Rows], tuple[Rows, Int64s]], time_field: str) -> None:
        """Replace what open windows hold by what `change` makes of it: rows and their keys."""
        opened, self._open = self._open, {}
        for number in sorted(opened):
            _gather_waiting(opened[number])
            rows, keys = change(_joined(opened[number].rows))
            self.add(rows, keys, rows[time_field])

    def _close(self, number: int) -> ClosedWindow:
        opened = self._open.pop(number)
        _gather_waiting(opened)
        _thin(opened, self._rows_max)
        keys = np.array(list(opened.row_of_key), np.int64)
        order = np.argsort(keys)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return ClosedWindow(
            start_collector_ns=number * self._window_ns,
            end_collector_ns=(number + 1) * self._window_ns,
            rows=opened.rows[0],
            group=rank[opened.group[0]],
            keys=keys[order],
            count=opened.count[order],
        )


def _gather_waiting(opened: _OpenWindow) -> None:
    if opened.waiting:
        rows, keys = zip(*opened.waiting, strict=True)
        opened.waiting.clear()
        opened.waiting_rows = 0
        _gather(opened, _joined(list(rows)), _joined(list(keys)))


def _gather(opened: _OpenWindow, rows: Rows, key: Int64s) -> None:
    keys, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    new = [one for one in keys.tolist() if one not in opened.row_of_key]
    for one in new:
        opened.row_of_key[one] = len(opened.row_of_key)
    if new:
        opened.count = np.r_[opened.count, np.zeros(len(new), np.int64)]
        opened.stride = np.r_[opened.stride, np.ones(len(new), np.int64)]
    group_of_key = np.array([opened.row_of_key[one] for one in keys.tolist()], np.int64)
    group = group_of_key[inverse]
    # ordinal of each row in its group: those before it, and its rank among these
    order = np.argsort(inverse, kind="stable")
    first = np.cumsum(counts) - counts
    rank = np.empty(len(key), np.int64)
    rank[order] = np.arange(len(key)) - np.repeat(first, counts)
    ordinal = opened.count[group] + rank
    opened.count[group_of_key] += counts
    kept = ordinal % opened.stride[group] == 0
    if not kept.any():
        return
    opened.rows.append(rows[kept])
    opened.group.append(group[kept])
    opened.ordinal.append(ordinal[kept])
    opened.kept += int(np.count_nonzero(kept))


def _thin(opened: _OpenWindow, rows_max: int) -> None:
    """Bring every group to at most `rows_max` rows, and all chunks into one."""
    rows = _joined(opened.rows)
    group, ordinal = _joined(opened.group), _joined(opened.ordinal)
    while True:
        over = -(-opened.count // opened.stride) > rows_max
        if not over.any():
            break
        opened.stride[over] *= 2
    kept: Bools = ordinal % opened.stride[group] == 0
    opened.rows = [rows[kept]]
    opened.group, opened.ordinal = [group[kept]], [ordinal[kept]]
    opened.kept = opened.thinned_at = len(opened.rows[0])


def _joined(chunks: list[Any]) -> Any:  # noqa: ANN401
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
