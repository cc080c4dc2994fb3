# SPDX-License-Identifier: Apache-2.0
"""Jobs, steps, ranks and collectives as answers of the API: raw rows corrected and compared."""

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tracing_core.arrivals import (
    ALWAYS_NS,
    UNKNOWN,
    Distance,
    Extreme,
    Stamps,
    between,
    first_of,
    from_member,
    last_of,
    order_is_certain,
    spread_of,
    stamps_of,
)
from tracing_core.corrections import CorrectionTable
from tracing_core.export.placement import correct_all
from tracing_core.service import schemas, views
from tracing_core.service.schemas_jobs import (
    CollectiveItem,
    CollectiveRank,
    CommunicatorItem,
    JobItem,
    RankItem,
    RankPlace,
    RankStep,
    RankVerdict,
    StepEdge,
    StepItem,
    StepRank,
)
from tracing_core.store.collectives import NO_RANK, CollectiveRow, CommunicatorSummary
from tracing_core.store.jobs import JobSummary, RankIntervals, RankSummary, StepRow

CANDIDATES_MAX = 64
"""Ranks named of those that can have been first or last; the count says how many there are."""


def job_item(value: JobSummary) -> JobItem:
    """One job of a list."""
    return JobItem(
        tenant=value.tenant,
        job=value.job,
        first_local_ns=value.first_local_ns,
        last_local_ns=value.last_local_ns,
        ranks=value.rank_count,
        steps=value.step_count,
        traces=value.trace_count,
        spans=value.span_count,
    )


def communicator_item(value: CommunicatorSummary) -> CommunicatorItem:
    """One communicator of a list."""
    return CommunicatorItem(
        communicator=value.communicator,
        ranks=value.rank_count,
        collectives=value.collective_count,
        unnumbered_spans=value.unnumbered_span_count,
        first_local_ns=value.first_local_ns,
        last_local_ns=value.last_local_ns,
    )


def instants(table: CorrectionTable, places: Iterable[tuple[str, int]]) -> list[schemas.Instant]:
    """(clock, raw stamp) each corrected with its reason."""
    wanted = list(places)
    by_clock: dict[str, list[int]] = {}
    for index, (clock, _) in enumerate(wanted):
        by_clock.setdefault(clock, []).append(index)
    found: dict[int, schemas.Instant] = {}
    for clock, rows in by_clock.items():
        corrected = correct_all(table, clock, [wanted[row][1] for row in rows])
        found.update(
            (row, views.instant(value)) for row, value in zip(rows, corrected, strict=True)
        )
    return [found[index] for index in range(len(wanted))]


class StepIntervals:
    """Rank intervals of some steps, corrected; per rank one row is compared with the others."""

    def __init__(self, rows: RankIntervals, table: CorrectionTable) -> None:
        self.rows = rows
        self._table = table
        self._clocks = tuple(dict.fromkeys(clock for _, clock in rows.places))
        number = {clock: index for index, clock in enumerate(self._clocks)}
        clock_of = np.array([number[clock] for _, clock in rows.places] or [0], np.int64)
        self.clock = clock_of[rows.place]
        self.start = stamps_of(table, self._clocks, self.clock, rows.start_local_ns)
        self.end = stamps_of(table, self._clocks, self.clock, rows.end_local_ns)
        self.compared = _one_per_rank(rows, self.start)

    def step(self, row: StepRow) -> StepItem:
        """One step summed up."""
        mine = slice(
            int(np.searchsorted(self.rows.step, row.step, side="left")),
            int(np.searchsorted(self.rows.step, row.step, side="right")),
        )
        chosen = np.arange(mine.start, mine.stop)[self.compared[mine]]
        ranks = self.rows.rank[chosen]
        starts, ends = self.start.take(chosen), self.end.take(chosen)
        ended = bool(self.rows.has_end[chosen].all())
        first, last = first_of(starts), last_of(ends)
        duration = between(starts, ends) if ended else UNKNOWN
        spread = spread_of(ends) if ended else UNKNOWN
        return StepItem(
            step=row.step,
            ranks=len(chosen),
            traces=row.trace_count,
            spans=row.span_count,
            start=self._edge(chosen, self.rows.start_local_ns, first, known=True),
            end=self._edge(chosen, self.rows.end_local_ns, last, known=ended),
            duration_ns=duration.value_ns,
            duration_bound_conditional_ns=duration.bound_ns,
            slowest=verdict(ranks.tolist(), last, known=ended),
            end_spread_ns=spread.value_ns,
            end_spread_bound_conditional_ns=spread.bound_ns,
            order=_order(ends) if ended else "unknown",
        )

    def _edge(
        self, chosen: NDArray[np.int64], stamps: NDArray[np.int64], extreme: Extreme, *, known: bool
    ) -> StepEdge:
        if extreme.member is None or not known:
            return StepEdge(
                rank=None, time=None, earliest_reference_ns=None, latest_reference_ns=None
            )
        row = int(chosen[extreme.member])
        (shown,) = instants(self._table, [(self._clocks[self.clock[row]], int(stamps[row]))])
        return StepEdge(
            rank=int(self.rows.rank[row]),
            time=shown,
            earliest_reference_ns=extreme.earliest_reference_ns,
            latest_reference_ns=extreme.latest_reference_ns,
        )

    def ranks(self) -> list[RankStep]:
        """Every row, compared with the others of its step."""
        rows = self.rows
        clocks = [self._clocks[index] for index in self.clock.tolist()]
        starts = instants(self._table, zip(clocks, rows.start_local_ns.tolist(), strict=True))
        ends = instants(self._table, zip(clocks, rows.end_local_ns.tolist(), strict=True))
        after: list[Distance] = [UNKNOWN] * len(rows)
        before: list[Distance] = [UNKNOWN] * len(rows)
        for step in np.unique(rows.step).tolist():
            chosen = np.flatnonzero((rows.step == step) & self.compared & rows.has_end)
            both = _from_extremes(self.end.take(chosen))
            for row, distance_after, distance_before in zip(chosen.tolist(), *both, strict=True):
                after[row], before[row] = distance_after, distance_before
        return [
            RankStep(
                step=int(rows.step[row]),
                rank=int(rows.rank[row]),
                host=rows.places[rows.place[row]][0],
                clock_domain=clocks[row],
                compared=bool(self.compared[row]),
                start=starts[row],
                end=ends[row] if rows.has_end[row] else None,
                duration_raw_ns=int(rows.end_local_ns[row] - rows.start_local_ns[row])
                if rows.has_end[row]
                else None,
                spans=int(rows.span_count[row]),
                end_after_first_ns=after[row].value_ns,
                end_after_first_bound_conditional_ns=after[row].bound_ns,
                end_before_last_ns=before[row].value_ns,
                end_before_last_bound_conditional_ns=before[row].bound_ns,
            )
            for row in range(len(rows))
        ]


def step_rank(value: RankStep) -> StepRank:
    """The same in an answer that is about one step."""
    return StepRank(**{name: getattr(value, name) for name in StepRank.model_fields})


def alone(value: RankStep) -> RankStep:
    """A rank's step without the distances to others, which were not read."""
    return value.model_copy(
        update={
            name: None
            for name in RankStep.model_fields
            if name.startswith(("end_after", "end_before"))
        }
    )


def _one_per_rank(rows: RankIntervals, start: Stamps) -> NDArray[np.bool_]:
    """Of a rank's rows of one step the corrected one with the smallest bound, then the longest."""
    order = np.lexsort(
        (
            rows.start_local_ns - rows.end_local_ns,
            np.where(start.usable, start.bound_ns, ALWAYS_NS),
            rows.rank,
            rows.step,
        )
    )
    step, rank = rows.step[order], rows.rank[order]
    leads = np.ones(len(order), bool)
    leads[1:] = (step[1:] != step[:-1]) | (rank[1:] != rank[:-1])
    compared = np.zeros(len(order), bool)
    compared[order[leads]] = True
    return compared


def verdict(ranks: Sequence[int], extreme: Extreme, *, known: bool = True) -> RankVerdict:
    """Who it was; undecided if several can have been it, or a rank is not known."""
    candidates = [ranks[member] for member in extreme.candidates] if known else list(ranks)
    certain = known and extreme.is_certain and candidates[0] != NO_RANK
    return RankVerdict(
        rank=candidates[0] if certain else None,
        verdict="certain" if certain else "undecided",
        candidates=[rank for rank in candidates if rank != NO_RANK][:CANDIDATES_MAX],
        candidate_count=len(candidates),
    )


def _order(stamps: Stamps) -> str:
    if order_is_certain(stamps):
        return "certain"
    one_clock = len(np.unique(stamps.clock)) == 1 and int(stamps.clock[0]) >= 0
    return "within_bounds" if one_clock or stamps.usable.all() else "unknown"


def _from_extremes(stamps: Stamps) -> tuple[list[Distance], list[Distance]]:
    """Per member its time after the first one, and before the last one."""
    unknown = [UNKNOWN] * len(stamps)
    first, last = first_of(stamps).member, last_of(stamps).member
    after = unknown if first is None else from_member(stamps, first)
    until = unknown if last is None else from_member(stamps, last)
    before = [
        Distance(None if one.value_ns is None else -one.value_ns, one.bound_ns) for one in until
    ]
    return after, before


def collectives(rows: Sequence[CollectiveRow], table: CorrectionTable) -> list[CollectiveItem]:
    """Rows of ranks as collectives, in their order."""
    return [
        _collective(list(members), table)
        for _, members in groupby(rows, key=lambda row: (row.communicator, row.sequence))
    ]


def _collective(rows: list[CollectiveRow], table: CorrectionTable) -> CollectiveItem:
    clocks = tuple(dict.fromkeys(row.clock for row in rows))
    clock = np.array([clocks.index(row.clock) for row in rows], np.int64)
    enter_ns = np.array([row.start_local_ns for row in rows], np.int64)
    leave_ns = np.array([row.end_local_ns for row in rows], np.int64)
    enter = stamps_of(table, clocks, clock, enter_ns)
    leave = stamps_of(table, clocks, clock, leave_ns)
    chosen = np.flatnonzero(_compared(rows, enter))
    ended = all(rows[row].has_end for row in chosen)
    ranks = [rows[row].rank for row in chosen]
    entered, left = enter.take(chosen), leave.take(chosen)
    after, before = [UNKNOWN] * len(rows), [UNKNOWN] * len(rows)
    for row, distance_after, distance_before in zip(
        chosen.tolist(), *_from_extremes(entered), strict=True
    ):
        after[row], before[row] = distance_after, distance_before
    compared = set(chosen.tolist())
    shown_enter = instants(table, [(row.clock, row.start_local_ns) for row in rows])
    shown_leave = instants(table, [(row.clock, row.end_local_ns) for row in rows])
    enter_spread = spread_of(entered)
    leave_spread = spread_of(left) if ended else UNKNOWN
    return CollectiveItem(
        communicator=rows[0].communicator,
        sequence=rows[0].sequence,
        name=rows[0].name,
        step=max(row.step for row in rows) if any(row.step >= 0 for row in rows) else None,
        ranks=[
            CollectiveRank(
                rank=None if row.rank == NO_RANK else row.rank,
                host=row.host,
                clock_domain=row.clock,
                compared=index in compared,
                enter=shown_enter[index],
                leave=shown_leave[index] if row.has_end else None,
                enter_after_first_ns=after[index].value_ns,
                enter_after_first_bound_conditional_ns=after[index].bound_ns,
                enter_before_last_ns=before[index].value_ns,
                enter_before_last_bound_conditional_ns=before[index].bound_ns,
            )
            for index, row in enumerate(rows)
        ],
        first_to_enter=verdict(ranks, first_of(entered)),
        last_to_enter=verdict(ranks, last_of(entered)),
        last_to_leave=verdict(ranks, last_of(left), known=ended),
        enter_spread_ns=enter_spread.value_ns,
        enter_spread_bound_conditional_ns=enter_spread.bound_ns,
        leave_spread_ns=leave_spread.value_ns,
        leave_spread_bound_conditional_ns=leave_spread.bound_ns,
    )


def _compared(rows: Sequence[CollectiveRow], enter: Stamps) -> list[bool]:
    """One row a rank as in a step; every row without a rank may be another rank's."""
    best: dict[int, tuple[int, int]] = {}
    for index, row in enumerate(rows):
        size = int(enter.bound_ns[index]) if enter.usable[index] else ALWAYS_NS
        if row.rank != NO_RANK and (row.rank not in best or size < best[row.rank][0]):
            best[row.rank] = (size, index)
    chosen = {index for _, index in best.values()}
    return [index in chosen or row.rank == NO_RANK for index, row in enumerate(rows)]


def rank_items(rows: Sequence[RankSummary], table: CorrectionTable) -> list[RankItem]:
    """Ranks with their hosts and clocks, in order."""
    firsts = instants(table, [(row.clock, row.first_local_ns) for row in rows])
    lasts = instants(table, [(row.clock, row.last_local_ns) for row in rows])
    places: dict[int, list[RankPlace]] = {}
    for row, first, last in zip(rows, firsts, lasts, strict=True):
        places.setdefault(row.rank, []).append(
            RankPlace(
                host=row.host,
                clock_domain=row.clock,
                first=first,
                last=last,
                steps=row.step_count,
                spans=row.span_count,
            )
        )
    return [RankItem(rank=rank, places=found) for rank, found in places.items()]
