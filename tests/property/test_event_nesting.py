# SPDX-License-Identifier: Apache-2.0
"""Nesting of profiler events: the fast way finds what a plain search finds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracing_core.importers.trace_events import nesting

events = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 10), st.integers(-1, 2)), max_size=25
)


def plain(start, end, lane):
    """Of the events that were open: the one that started last, of equal ones the shortest."""
    found = []
    order = sorted(range(len(start)), key=lambda i: (start[i], -end[i], i))
    rank = {row: place for place, row in enumerate(order)}
    for row in range(len(start)):
        around = [
            other
            for other in range(len(start))
            if lane[row] >= 0
            and lane[other] == lane[row]
            and rank[other] < rank[row]
            and end[other] > start[row]
        ]
        found.append(max(around, key=rank.__getitem__, default=-1))
    return found


@given(events)
def test_the_parent_is_the_innermost_event_that_is_open(rows):
    """For events that nest properly or overlap in any way, in any order of the file."""
    start = np.array([s for s, _, _ in rows], np.int64)
    end = np.array([s + d for s, d, _ in rows], np.int64)
    lane = np.array([number for _, _, number in rows], np.int64)
    assert nesting(start, end, lane).tolist() == plain(start, end, lane)
