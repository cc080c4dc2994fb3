# SPDX-License-Identifier: Apache-2.0
"""Spans placed on one time line in bulk, and drawn at the detail that a picture has room for."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracing_core.correction_layers import UNCOVERED
from tracing_core.corrections import CorrectionTable
from tracing_core.export import NothingComparableError, TimeLine
from tracing_core.model import ClockStatus, SpanKind
from tracing_core.service.schemas_timeline import (
    TimelineItem,
    TimelineLeftOut,
    TimelineSpan,
    TimelineTrack,
)
from tracing_core.store.timeline import TimelineRows
from tracing_core.timeline import Merged, Totals

NAMED_MAX = 10
"""Clocks named in an error."""
NO_REASON = "the clock's offset is not known here"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRows:
    """Each span's place on the time line; equally long arrays."""

    time: TimeLine
    shown: NDArray[np.bool_]
    """False for spans that are left out of corrected time."""
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    bound_hard_ns: NDArray[np.float64]
    """The larger one of start and end; infinite where unbounded or raw."""
    bound_conditional_ns: NDArray[np.float64]
    correction_row: NDArray[np.int64]
    """Of the start."""
    left_out: tuple[TimelineLeftOut, ...]


def place_rows(rows: TimelineRows, table: CorrectionTable, time: TimeLine) -> PlacedRows:
    """Places all spans, by the same rules as an export.

    Start and end are corrected each by the row that covers it; an end that would come before its
    start, or that no row covers, keeps the raw duration.
    """
    clocks = tuple(dict.fromkeys(track.clock for track in rows.tracks))
    clock_of = np.array([clocks.index(track.clock) for track in rows.tracks] or [0], np.int64)
    clock = clock_of[rows.track]
    start = table.correct(clocks, clock, rows.start_local_ns)
    end = table.correct(clocks, clock, rows.end_local_ns)
    length = np.maximum(rows.end_local_ns - rows.start_local_ns, 0)
    placed = ~start.unknown & (start.corrected_reference_ns >= 0)
    ended = ~end.unknown & (end.corrected_reference_ns >= start.corrected_reference_ns)
    if time is TimeLine.CORRECTED and not placed.any() and len(rows):
        used = sorted({clocks[index] for index in np.unique(clock).tolist()})
        if len(used) > 1 or not used[0]:
            named = ", ".join(name or "unknown clock" for name in used[:NAMED_MAX])
            more = f" and {len(used) - NAMED_MAX} more" if len(used) > NAMED_MAX else ""
            raise NothingComparableError(
                f"stamps of {named}{more}, none of them corrected: together they would be a guess;"
                " time=raw shows them as they are"
            )
        time = TimeLine.RAW
    if time is TimeLine.RAW:
        unbounded = np.full(len(rows), np.inf)
        return PlacedRows(
            time=time,
            shown=np.ones(len(rows), bool),
            start_ns=rows.start_local_ns,
            end_ns=rows.start_local_ns + length,
            bound_hard_ns=unbounded,
            bound_conditional_ns=unbounded,
            correction_row=np.full(len(rows), UNCOVERED, np.int64),
            left_out=(),
        )
    moved_end = np.where(
        ended & (length > 0), end.corrected_reference_ns, start.corrected_reference_ns + length
    )
    return PlacedRows(
        time=time,
        shown=placed,
        start_ns=start.corrected_reference_ns,
        end_ns=moved_end,
        bound_hard_ns=np.maximum(start.bound_hard_ns, np.where(ended, end.bound_hard_ns, 0)),
        bound_conditional_ns=np.maximum(
            start.bound_conditional_ns, np.where(ended, end.bound_conditional_ns, 0)
        ),
        correction_row=start.row,
        left_out=_left_out(rows, table, clocks, clock, placed),
    )


def _left_out(
    rows: TimelineRows,
    table: CorrectionTable,
    clocks: tuple[str, ...],
    clock: NDArray[np.int64],
    placed: NDArray[np.bool_],
) -> tuple[TimelineLeftOut, ...]:
    found = []
    for index in np.unique(clock[~placed]).tolist():
        mine = np.flatnonzero(~placed & (clock == index))
        example = table.correct_one(clocks[index], int(rows.start_local_ns[mine[0]]))
        found.append(
            TimelineLeftOut(
                clock_domain=clocks[index], spans=len(mine), reason=example.reason or NO_REASON
            )
        )
    return tuple(sorted(found, key=lambda item: item.clock_domain))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A picture, and what its parts are found in."""

    rows: TimelineRows
    placed: PlacedRows
    chosen: NDArray[np.int64]
    """Row of each span that was merged."""
    items: Merged
    totals: Totals
    table: CorrectionTable

    @property
    def single_rows(self) -> NDArray[np.int64]:
        """Rows of the spans that stand for themselves."""
        rows: NDArray[np.int64] = self.chosen[self.items.first_row[self.items.count == 1]]
        return rows

    def tracks(self, wanted: list[int], names: dict[int, str]) -> list[TimelineTrack]:
        """Tracks by their numbers, with names of the spans that are shown one by one."""
        items = self._items(names)
        first = np.searchsorted(self.items.track, np.arange(len(self.rows.tracks) + 1))
        statuses = self._statuses()
        return [
            TimelineTrack(
                tenant=track.tenant,
                host=track.host,
                rank=track.rank,
                clock_domain=track.clock,
                statuses=statuses.get(number, []),
                spans=int(self.totals.count[number]),
                busy_ns=int(self.totals.busy_ns[number]),
                longest_ns=int(self.totals.longest_ns[number]),
                total_ns=int(self.totals.total_ns[number]),
                items=items[first[number] : first[number + 1]],
            )
            for number in wanted
            for track in (self.rows.tracks[number],)
        ]

    def _items(self, names: dict[int, str]) -> list[TimelineItem]:
        hard = self._largest(self.placed.bound_hard_ns)
        conditional = self._largest(self.placed.bound_conditional_ns)
        items = self.items
        return [
            TimelineItem(
                start_ns=int(items.start_ns[index]),
                end_ns=int(items.end_ns[index]),
                spans=int(items.count[index]),
                busy_ns=int(items.busy_ns[index]),
                longest_ns=int(items.longest_ns[index]),
                bound_hard_ns=hard[index],
                bound_conditional_ns=conditional[index],
                span=self._span(int(self.chosen[items.first_row[index]]), names)
                if items.count[index] == 1
                else None,
            )
            for index in range(len(items))
        ]

    def _largest(self, bound_ns: NDArray[np.float64]) -> list[int | None]:
        found = np.zeros(len(self.items))
        np.maximum.at(found, self.items.item_of_row, bound_ns[self.chosen])
        return [int(value) if np.isfinite(value) else None for value in found.tolist()]

    def _span(self, row: int, names: dict[int, str]) -> TimelineSpan:
        rows = self.rows
        parent = int(rows.parent_span_id[row])
        return TimelineSpan(
            trace_id=rows.trace_ids[rows.trace[row]],
            span_id=f"{int(rows.span_id[row]):016x}",
            parent_span_id=f"{parent:016x}" if parent else "",
            name=names.get(int(rows.name_key[row]), ""),
            kind=SpanKind(int(rows.kind[row])).name.lower(),
            start_local_ns=int(rows.start_local_ns[row]),
            end_local_ns=int(rows.end_local_ns[row]),
        )

    def _statuses(self) -> dict[int, list[str]]:
        pairs = np.stack([self.rows.track, self.placed.correction_row])[:, self.chosen]
        found: dict[int, set[str]] = {}
        for track, row in np.unique(pairs, axis=1).T.tolist():
            status = ClockStatus.UNKNOWN if row == UNCOVERED else self.table.rows[row].status
            found.setdefault(track, set()).add(status.value)
        return {track: sorted(values) for track, values in found.items()}
