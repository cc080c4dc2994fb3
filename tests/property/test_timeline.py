# SPDX-License-Identifier: Apache-2.0
"""Level of detail of a timeline: nothing is lost by merging, nothing is merged when zoomed in."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracing_core.timeline import (
    TrackSpans,
    fitted,
    in_window,
    merged,
    resolution_for,
    sorted_spans,
    totals,
)

EPOCH_NS = 1_800_000_000_000_000_000
drawn_spans = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 5_000),
        st.one_of(st.integers(0, 8), st.integers(0, 5_000)),
    ),
    max_size=60,
)
resolutions = st.sampled_from([0, *(1 << bits for bits in range(14)), 1 << 62])


def tracks(rows: list[tuple[int, int, int]], origin_ns: int = EPOCH_NS) -> TrackSpans:
    """Sorted spans of (track, start, duration)."""
    table = np.array(rows, np.int64).reshape(-1, 3)
    start = table[:, 1] + origin_ns
    order = sorted_spans(table[:, 0], start, start + table[:, 2])
    return TrackSpans(
        track=table[order, 0], start_ns=start[order], end_ns=(start + table[:, 2])[order]
    )


def busy(intervals: list[tuple[int, int]]) -> int:
    """Length of a union, one nanosecond after the other in order of starts."""
    total, reached = 0, -1
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


@given(drawn_spans, resolutions)
def test_totals_are_conserved_at_every_level(
    rows: list[tuple[int, int, int]], resolution: int
) -> None:
    """Counts and sums of a track's items are those of its spans, and so is the longest."""
    spans = tracks(rows)
    picture = merged(spans, resolution)
    for track in range(4):
        mine = [(start, start + length) for one, start, length in rows if one == track]
        items = picture.track == track
        assert picture.count[items].sum() == len(mine)
        assert picture.total_ns[items].sum() == sum(end - start for start, end in mine)
        assert picture.longest_ns[items].max(initial=0) == max(
            (end - start for start, end in mine), default=0
        )


@given(drawn_spans)
def test_totals_of_tracks_are_those_of_the_spans(rows: list[tuple[int, int, int]]) -> None:
    """Count, union of busy time, extent: by brute force over plain integers."""
    found = totals(tracks(rows), 4)
    for track in range(4):
        mine = [
            (EPOCH_NS + start, EPOCH_NS + start + length)
            for one, start, length in rows
            if one == track
        ]
        assert found.count[track] == len(mine)
        assert found.busy_ns[track] == busy(mine)
        if mine:
            assert found.start_ns[track] == min(start for start, _ in mine)
            assert found.end_ns[track] == max(end for _, end in mine)


@given(drawn_spans, resolutions)
def test_an_aggregate_says_what_it_stands_for(
    rows: list[tuple[int, int, int]], resolution: int
) -> None:
    """Items hold short spans of one cell, or one span; busy time is the union of their members."""
    spans = tracks(rows)
    picture = merged(spans, resolution)
    cell = max(resolution, 1)
    for index in range(len(picture)):
        if picture.count[index] == 1:
            row = picture.first_row[index]
            assert spans.start_ns[row] == picture.start_ns[index]
            assert spans.end_ns[row] == picture.end_ns[index]
            continue
        members = [
            (EPOCH_NS + start, EPOCH_NS + start + length)
            for one, start, length in rows
            if one == picture.track[index]
            and length < resolution
            and (EPOCH_NS + start) // cell == picture.start_ns[index] // cell
        ]
        assert len(members) == picture.count[index]
        assert picture.busy_ns[index] == busy(members)
        assert picture.start_ns[index] == min(start for start, _ in members)
        assert picture.end_ns[index] == max(end for _, end in members)


@given(drawn_spans)
def test_zooming_in_fully_gives_the_spans(rows: list[tuple[int, int, int]]) -> None:
    """At a pixel of one nanosecond every span stands for itself, those without length too."""
    spans = tracks(rows)
    picture = fitted(spans, resolution_for(1000, 1000), 100)
    assert picture.resolution_ns == 0
    assert sorted(picture.first_row.tolist()) == list(range(len(rows)))
    assert (picture.count == 1).all()


@given(drawn_spans, resolutions, st.integers(8, 40))
def test_the_answer_is_bounded(
    rows: list[tuple[int, int, int]], resolution: int, items_max: int
) -> None:
    """However many spans there are: at most `items_max` items, where that is two a track or more;
    and no coarser than needed."""
    spans = tracks(rows)
    picture = fitted(spans, resolution, items_max)
    assert len(picture) <= items_max
    assert picture.resolution_ns >= resolution
    assert picture.count.sum() == len(rows)
    if picture.resolution_ns > max(resolution, 1):
        assert len(merged(spans, picture.resolution_ns // 2)) > items_max


@given(drawn_spans, st.integers(0, 5_000), st.integers(0, 5_000))
def test_a_window_holds_what_touches_it(
    rows: list[tuple[int, int, int]], first: int, length: int
) -> None:
    """Spans that begin before it, end after it, or both, are in it."""
    spans = tracks(rows, 0)
    found = in_window(spans, first, first + length)
    expected = sum(start <= first + length and start + long >= first for _, start, long in rows)
    assert found.sum() == expected
