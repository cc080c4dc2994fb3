# SPDX-License-Identifier: Apache-2.0
"""Where a span lies in time, for those who draw it or pass it on.

Start and end are corrected each by the row that covers them; both move. Where rows meet, a short
span's ends may be corrected by rows that differ by more than the span is long: then the end is the
corrected start plus the raw duration, since one clock's order and short durations are better known
than its offset. What has no correction keeps its raw stamps and says why.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum, unique

import numpy as np

from tracing_core.clock_domains import RESOURCE_CLOCK_QUANTUM_NS
from tracing_core.correction_layers import UNCOVERED
from tracing_core.corrections import CorrectionTable
from tracing_core.model import AttributeValue, ClockStatus, CorrectedInstant, Span

TIME_KEYS = frozenset(
    (
        "tempotrace.correction_version",
        *(
            f"tempotrace.time.{name}"
            for name in ("shown", "status", "method", "reason", "duration")
        ),
        *(
            f"tempotrace.{end}.{name}"
            for end in ("start", "end")
            for name in (
                "raw_local_ns",
                "corrected_reference_ns",
                "bound_hard_ns",
                "bound_conditional_ns",
                "earliest_reference_ns",
                "latest_reference_ns",
            )
        ),
    )
)
"""Every attribute that says how a span's time is known."""


@unique
class TimeLine(StrEnum):
    """Which time a picture shows. The other one stands beside it, as attributes."""

    CORRECTED = "corrected"
    RAW = "raw"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedSpan:
    """A span with its place on a time line."""

    span: Span
    start: CorrectedInstant
    end: CorrectedInstant
    corrected: bool
    """`start_ns` and `end_ns` are on the reference clock; else they are the raw stamps."""
    start_ns: int
    end_ns: int
    """Not before the start: an end that was stamped before its start has no length."""
    correction_version: int

    @property
    def quantum_ns(self) -> int:
        """Resolution of the stamps: each may be off by as much, whatever the clock."""
        quantum = self.span.resource.get(RESOURCE_CLOCK_QUANTUM_NS)
        return quantum if type(quantum) is int and quantum > 1 else 0

    @property
    def duration_known(self) -> bool:
        """False where the end was stamped before the start."""
        return self.span.end_local_ns >= self.span.start_local_ns

    def instant_ns(self, raw_local_ns: int) -> int:
        """Place of an event of the span: it moves with the start, to 1970 at most."""
        return max(raw_local_ns + self.start_ns - self.span.start_local_ns, 0)


def place(
    spans: Sequence[Span], table: CorrectionTable, time_line: TimeLine = TimeLine.CORRECTED
) -> list[PlacedSpan]:
    """Places spans, in their order."""
    by_clock: dict[str, list[int]] = {}
    for index, span in enumerate(spans):
        by_clock.setdefault(span.clock_domain, []).append(index)
    placed: list[PlacedSpan | None] = [None] * len(spans)
    for clock, indices in by_clock.items():
        starts = correct_all(table, clock, [spans[i].start_local_ns for i in indices])
        ends = correct_all(table, clock, [spans[i].end_local_ns for i in indices])
        for index, start, end in zip(indices, starts, ends, strict=True):
            placed[index] = _placed(spans[index], start, end, time_line, table.version)
    return [item for item in placed if item is not None]


def correct_all(
    table: CorrectionTable, clock: str, raw_local_ns: Sequence[int]
) -> list[CorrectedInstant]:
    """Corrects many stamps of one clock, with reasons."""
    if not raw_local_ns:
        return []
    raw = np.array(raw_local_ns, np.int64)
    rows = table.row_indices(clock, raw)
    values = table.apply(rows, raw).corrected_reference_ns.tolist()
    missing: CorrectedInstant | None = None
    found: list[CorrectedInstant] = []
    for stamp, index, value in zip(raw_local_ns, rows.tolist(), values, strict=True):
        if index == UNCOVERED:
            missing = missing or table.correct_one(clock, stamp)
            found.append(replace(missing, raw_local_ns=stamp))
            continue
        row = table.rows[index]
        found.append(
            CorrectedInstant(
                raw_local_ns=stamp,
                corrected_reference_ns=value,
                bound_hard_ns=row.bound_hard_ns,
                bound_conditional_ns=row.bound_conditional_ns,
                status=row.status,
                method=row.method,
                reason=row.reason,
            )
        )
    return found


def _placed(
    span: Span, start: CorrectedInstant, end: CorrectedInstant, time_line: TimeLine, version: int
) -> PlacedSpan:
    raw_length_ns = max(span.end_local_ns - span.start_local_ns, 0)
    corrected = time_line is TimeLine.CORRECTED and is_corrected(start)
    start_ns = span.start_local_ns
    if corrected:
        assert start.corrected_reference_ns is not None
        start_ns = start.corrected_reference_ns
    end_ns = start_ns + raw_length_ns
    if corrected and raw_length_ns and is_corrected(end):
        assert end.corrected_reference_ns is not None
        if end.corrected_reference_ns >= start_ns:
            end_ns = end.corrected_reference_ns
    return PlacedSpan(
        span=span,
        start=start,
        end=end,
        corrected=corrected,
        start_ns=start_ns,
        end_ns=end_ns,
        correction_version=version,
    )


def is_corrected(instant: CorrectedInstant) -> bool:
    """Whether the instant has a place on the reference's time line that means something.

    The reference counts from 1970: an instant before that is a correction gone wrong.
    """
    return (
        instant.corrected_reference_ns is not None
        and instant.corrected_reference_ns >= 0
        and instant.status in (ClockStatus.SYNCHRONISED, ClockStatus.FLAGGED)
    )


def time_attributes(placed: PlacedSpan) -> dict[str, AttributeValue]:
    """Everything known of a span's time, beside whichever stamps it is drawn with."""
    shown = TimeLine.CORRECTED if placed.corrected else TimeLine.RAW
    return {
        "tempotrace.time.shown": shown.value,
        **known_time(
            placed.start,
            placed.end,
            quantum_ns=placed.quantum_ns,
            correction_version=placed.correction_version,
        ),
    }


def known_time(
    start: CorrectedInstant, end: CorrectedInstant, *, quantum_ns: int, correction_version: int
) -> dict[str, AttributeValue]:
    """Status, method, reason, and raw and corrected start and end with bounds and interval.

    What is unknown is left out and `tempotrace.time.reason` says why: it is never a zero.
    """
    found: dict[str, AttributeValue] = {
        "tempotrace.time.status": start.status.value,
        "tempotrace.correction_version": correction_version,
    }
    if start.method:
        found["tempotrace.time.method"] = start.method
    if start.reason:
        found["tempotrace.time.reason"] = start.reason
    if end.raw_local_ns < start.raw_local_ns:
        found["tempotrace.time.duration"] = "unknown: the end is stamped before the start"
    for name, instant in (("start", start), ("end", end)):
        found.update(instant_attributes(name, instant, quantum_ns))
    return found


def instant_attributes(
    name: str, instant: CorrectedInstant, quantum_ns: int = 0
) -> dict[str, AttributeValue]:
    """Raw, corrected, bounds and interval of a start or end."""
    prefix = f"tempotrace.{name}."
    found: dict[str, AttributeValue] = {f"{prefix}raw_local_ns": instant.raw_local_ns}
    if not is_corrected(instant):
        return found
    found[f"{prefix}corrected_reference_ns"] = instant.corrected_reference_ns
    if instant.bound_hard_ns is not None:
        found[f"{prefix}bound_hard_ns"] = instant.bound_hard_ns
    if instant.bound_conditional_ns is not None:
        found[f"{prefix}bound_conditional_ns"] = instant.bound_conditional_ns
    earliest, latest = instant.earliest_reference_ns, instant.latest_reference_ns
    if earliest is not None and latest is not None:
        found[f"{prefix}earliest_reference_ns"] = earliest - quantum_ns
        found[f"{prefix}latest_reference_ns"] = latest + quantum_ns
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Spans of one clock that have no place in a picture of corrected time."""

    clock: str
    span_count: int
    reason: str


class NothingComparableError(ValueError):
    """Several clocks and no correction: drawing them together would be a guess."""


def for_picture(
    placed: Sequence[PlacedSpan], time_line: TimeLine
) -> tuple[list[PlacedSpan], list[LeftOut]]:
    """What may be drawn on one time line, and what is left out of it.

    Raw time is drawn as it is when that is asked for, or when all stamps are of one clock.
    """
    shown = [item for item in placed if item.corrected]
    if time_line is TimeLine.RAW or len(shown) == len(placed):
        return list(placed), []
    clocks: dict[str, list[PlacedSpan]] = {}
    for item in placed:
        if not item.corrected:
            clocks.setdefault(item.span.clock_domain, []).append(item)
    if not shown and len(clocks) == 1 and next(iter(clocks)):
        return list(placed), []
    if not shown:
        named = ", ".join(sorted(clock or "unknown clock" for clock in clocks))
        raise NothingComparableError(
            f"stamps of {named}, none of them corrected: together they would be a guess;"
            " time=raw shows them as they are"
        )
    left_out = [
        LeftOut(clock=clock, span_count=len(items), reason=items[0].start.reason)
        for clock, items in clocks.items()
    ]
    return shown, left_out


def with_time_attributes(placed: PlacedSpan) -> Span:
    """The span with what is known of its time; what it said of that before is replaced."""
    kept = {k: v for k, v in placed.span.attributes.items() if k not in TIME_KEYS}
    return replace(placed.span, attributes={**kept, **time_attributes(placed)})


def children_elsewhere(placed: Iterable[PlacedSpan]) -> dict[str, list[PlacedSpan]]:
    """By parent span id, the children that other clocks stamped."""
    items = list(placed)
    by_id = {item.span.span_id: item for item in items}
    found: dict[str, list[PlacedSpan]] = {}
    for item in items:
        parent = by_id.get(item.span.parent_span_id)
        if parent is not None and parent.span.clock_domain != item.span.clock_domain:
            found.setdefault(parent.span.span_id, []).append(item)
    return found
