# SPDX-License-Identifier: Apache-2.0
"""Spans of many tracks for a picture of limited width: what is too short to be seen is merged.

A track is one rank or host on one clock. Spans shorter than the resolution are merged with those
that start in the same cell of its grid; cells are powers of two nanoseconds, counted from 1970, so
that a finer grid splits cells and moves none. An aggregate keeps what it stands for: how many
spans, the time in which at least one of them ran, the longest. Totals of a track are those of its
spans, whatever the resolution. A resolution of 0 merges nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]

RESOLUTION_BITS_MAX = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackSpans:
    """Spans of one time line, equally long arrays, by track and start."""

    track: Int64Array
    """Number of the track, from 0 on."""
    start_ns: Int64Array
    end_ns: Int64Array
    """Not before the start."""

    def __len__(self) -> int:
        return len(self.track)

    def take(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> "TrackSpans":
        """Some of the spans, in the order given."""
        return TrackSpans(
            track=self.track[rows], start_ns=self.start_ns[rows], end_ns=self.end_ns[rows]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Items of a picture by track and start: aggregates, and spans that stand for themselves."""

    resolution_ns: int
    """0 if nothing was merged."""
    first_row: Int64Array
    """Row of the item's first span among the spans that were merged."""
    item_of_row: Int64Array
    """The item that each of those spans is in."""
    track: Int64Array
    start_ns: Int64Array
    end_ns: Int64Array
    count: Int64Array
    """Spans in the item; 1 is a span itself."""
    busy_ns: Int64Array
    """Time in which at least one of the item's spans ran."""
    longest_ns: Int64Array
    total_ns: Int64Array
    """Sum of the spans' durations."""

    def __len__(self) -> int:
        return len(self.track)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Of each track, whatever is merged: equally long arrays."""

    count: Int64Array
    busy_ns: Int64Array
    longest_ns: Int64Array
    total_ns: Int64Array
    start_ns: Int64Array
    end_ns: Int64Array


def sorted_spans(track: Int64Array, start_ns: Int64Array, end_ns: Int64Array) -> Int64Array:
    """Rows by track, start and, of those that start together, the longest first."""
    return np.lexsort((-end_ns, start_ns, track))


def in_window(spans: TrackSpans, from_ns: int, to_ns: int) -> NDArray[np.bool_]:
    """Spans that touch [from, to]."""
    return (spans.start_ns <= to_ns) & (spans.end_ns >= from_ns)


def resolution_for(window_ns: int, width_px: int) -> int:
    """A pixel's time, rounded up to a power of two; 0 where a pixel is no more than 1 ns.

    >>> resolution_for(1000, 10), resolution_for(1000, 1000), resolution_for(1000, 999)
    (128, 0, 2)
    """
    pixel_ns = -(-window_ns // width_px)
    return 0 if pixel_ns <= 1 else 1 << (pixel_ns - 1).bit_length()


def merged(spans: TrackSpans, resolution_ns: int) -> Merged:
    """One picture at one resolution, 0 or a power of two. `spans` are sorted."""
    duration = spans.end_ns - spans.start_ns
    short = duration < resolution_ns
    # A long span is an item of its own; short ones share the item of their cell.
    bits = max(resolution_ns, 1).bit_length() - 1
    cell = spans.start_ns >> bits
    order = np.concatenate([np.flatnonzero(short), np.flatnonzero(~short)])
    leads = np.ones(len(order), bool)
    count_short = int(short.sum())
    joined = order[:count_short]
    leads[1:count_short] = (spans.track[joined[1:]] != spans.track[joined[:-1]]) | (
        cell[joined[1:]] != cell[joined[:-1]]
    )
    item = np.cumsum(leads) - 1
    first = order[leads]
    found = _summed(spans.take(order), item, len(first))
    shown = np.lexsort((-found.end_ns, found.start_ns, spans.track[first]))
    place = np.empty(len(first), np.int64)
    place[shown] = np.arange(len(first))
    item_of_row = np.empty(len(spans), np.int64)
    item_of_row[order] = place[item]
    return Merged(
        resolution_ns=resolution_ns,
        first_row=first[shown],
        item_of_row=item_of_row,
        track=spans.track[first][shown],
        start_ns=found.start_ns[shown],
        end_ns=found.end_ns[shown],
        count=found.count[shown],
        busy_ns=found.busy_ns[shown],
        longest_ns=found.longest_ns[shown],
        total_ns=found.total_ns[shown],
    )


def fitted(spans: TrackSpans, resolution_ns: int, items_max: int) -> Merged:
    """The finest picture from `resolution_ns` on with at most `items_max` items.

    At the coarsest one a track has a few items; what has more than `items_max` even then is the
    coarsest picture. A coarser picture never has more items, so halving finds it.
    """
    if _item_count(spans, resolution_ns) <= items_max:
        return merged(spans, resolution_ns)
    few = RESOLUTION_BITS_MAX
    many = resolution_ns.bit_length() - 1
    while few - many > 1:
        middle = (few + many) // 2
        if _item_count(spans, 1 << middle) <= items_max:
            few = middle
        else:
            many = middle
    return merged(spans, 1 << few)


def _item_count(spans: TrackSpans, resolution_ns: int) -> int:
    """Number of items that `merged` makes."""
    short = spans.end_ns - spans.start_ns < resolution_ns
    track = spans.track[short]
    cell = spans.start_ns[short] >> (max(resolution_ns, 1).bit_length() - 1)
    joined = (track[1:] == track[:-1]) & (cell[1:] == cell[:-1])
    return len(spans) - int(joined.sum())


def totals(spans: TrackSpans, track_count: int) -> Totals:
    """Sums over each track's spans. `spans` are sorted."""
    return _summed(spans, spans.track, track_count)


def _summed(spans: TrackSpans, item: Int64Array, count: int) -> Totals:
    """Sums over items; spans of an item are adjacent and by start."""
    duration = spans.end_ns - spans.start_ns
    start = np.full(count, np.iinfo(np.int64).max)
    end = np.full(count, np.iinfo(np.int64).min)
    longest = np.zeros(count, np.int64)
    total = np.zeros(count, np.int64)
    busy = np.zeros(count, np.int64)
    np.minimum.at(start, item, spans.start_ns)
    np.maximum.at(end, item, spans.end_ns)
    np.maximum.at(longest, item, duration)
    np.add.at(total, item, duration)
    if len(spans):
        # The part of each span after everything before it in its item has ended.
        reached = _ended_before(spans, item)
        added = spans.end_ns - np.maximum(spans.start_ns, reached)
        np.add.at(busy, item, np.maximum(added, 0))
    return Totals(
        count=np.bincount(item, minlength=count).astype(np.int64),
        busy_ns=busy,
        longest_ns=longest,
        total_ns=total,
        start_ns=start,
        end_ns=end,
    )


def _ended_before(spans: TrackSpans, item: Int64Array) -> Int64Array:
    """For each span the latest end of those before it in its item; the lowest number without.

    A running maximum that begins anew with each item: ends become ranks, items lift them.
    """
    lowest = np.iinfo(np.int64).min
    values, rank = np.unique(spans.end_ns, return_inverse=True)
    lift = item * np.int64(len(values) + 1)
    running = np.maximum.accumulate(rank.astype(np.int64) + 1 + lift) - lift
    before = np.zeros(len(spans), np.int64)
    same = item[1:] == item[:-1]
    before[1:] = np.where(same, running[:-1], 0)
    return np.where(before > 0, values[np.maximum(before - 1, 0)], lowest)
