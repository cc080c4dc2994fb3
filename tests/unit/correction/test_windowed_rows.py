# SPDX-License-Identifier: Apache-2.0
"""Rows are gathered by window and group, in bounded memory, and none vanishes uncounted."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from correction.windowed_rows import WindowedRows

_DTYPE = np.dtype([("value", np.int64)])
_WINDOW_NS = 1_000


def _rows(values):
    rows = np.zeros(len(values), _DTYPE)
    rows["value"] = values
    return rows


def _gathered(rows_max=10, late_ns=500):
    return WindowedRows(window_ns=_WINDOW_NS, late_ns=late_ns, rows_per_group_max=rows_max)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4_999)), max_size=80), st.integers(1, 9)
)
def test_every_row_is_in_the_window_and_group_that_it_belongs_to(pairs, chunk):
    """However the stream is cut into batches, nothing is lost and nothing is invented."""
    gathered = _gathered(rows_max=100)
    for first in range(0, len(pairs), chunk):
        part = pairs[first : first + chunk]
        times = np.array([t for _, t in part], np.int64)
        gathered.add(_rows(times), np.array([k for k, _ in part], np.int64), times)
    seen = []
    for window in gathered.rest():
        assert np.all(np.diff(window.keys) > 0)
        assert np.bincount(window.group, minlength=len(window.keys)).tolist() == (
            window.count.tolist()
        )
        for value, group in zip(window.rows["value"].tolist(), window.group.tolist(), strict=True):
            assert window.start_collector_ns <= value < window.end_collector_ns
            seen.append((int(window.keys[group]), value))
    assert sorted(seen) == sorted(pairs)


def test_a_window_closes_when_late_rows_have_had_their_time():
    """Not before its end plus the lateness; what comes after that is counted."""
    gathered = _gathered()
    key = np.zeros(1, np.int64)
    gathered.add(_rows([1]), key, np.array([999]))
    assert list(gathered.closed(1_499)) == []
    gathered.add(_rows([2]), key, np.array([998]))
    (window,) = gathered.closed(1_500)
    assert (window.start_collector_ns, window.end_collector_ns) == (0, 1_000)
    assert sorted(window.rows["value"].tolist()) == [1, 2]
    gathered.add(_rows([3]), key, np.array([997]))
    assert gathered.late_count == 1
    assert list(gathered.rest()) == []


def test_a_busy_group_is_thinned_evenly_and_a_quiet_one_is_not():
    """100,000 rows leave at most ten, spread over the window whatever their values; all count."""
    gathered = _gathered(rows_max=10)
    for first in range(0, 100_000, 1_000):
        order = np.arange(first, first + 1_000)
        gathered.add(_rows(order), np.zeros(1_000, np.int64), np.full(1_000, 5))
        assert sum(map(len, gathered._open[0].rows)) <= 20
    gathered.add(_rows([-1, -2]), np.ones(2, np.int64), np.array([6, 7]))
    (window,) = gathered.rest()
    assert window.count.tolist() == [100_000, 2]
    busy = np.sort(window.rows["value"][window.group == 0])
    assert 5 <= len(busy) <= 10
    assert len(set(np.diff(busy).tolist())) == 1
    assert sorted(window.rows["value"][window.group == 1].tolist()) == [-2, -1]
