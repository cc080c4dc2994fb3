# SPDX-License-Identifier: Apache-2.0
"""Spans as tracks: a process per host, service and clock, lanes in which spans nest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tracing_core.export.placement import PlacedSpan


@dataclass(slots=True, kw_only=True)
class Process:
    """Spans of one service on one host, stamped by one clock."""

    number: int
    """From 1."""
    name: str
    """Says the clock, its bound and its status, so that the picture says what it is worth."""
    lanes: list[list[PlacedSpan]] = field(default_factory=list)
    """In each lane spans are in order of start and either nest or do not overlap."""


def processes(placed: Sequence[PlacedSpan]) -> list[Process]:
    """All processes, by host, service and clock."""
    grouped: dict[tuple[str, str, str, bool], list[PlacedSpan]] = {}
    for item in placed:
        span = item.span
        key = (span.host, span.service, span.clock_domain, item.corrected)
        grouped.setdefault(key, []).append(item)
    return [
        Process(number=number, name=_name(key, items), lanes=lanes(items))
        for number, (key, items) in enumerate(sorted(grouped.items(), key=lambda g: g[0]), 1)
    ]


def _name(key: tuple[str, str, str, bool], items: Sequence[PlacedSpan]) -> str:
    host, service, clock, corrected = key
    known = f"{host or 'unknown host'} {service}".strip()
    if not corrected:
        return f"{known} [clock {clock or 'unknown'}, NOT CORRECTED]"
    bounds = [item.start.bound_conditional_ns for item in items]
    finite = [bound for bound in bounds if bound is not None]
    bound = f"±{max(finite)} ns" if len(finite) == len(bounds) else "unbounded"
    statuses = "/".join(sorted({item.start.status.value for item in items}))
    return f"{known} [clock {clock}, {bound}, {statuses}]"


def lanes(placed: Sequence[PlacedSpan]) -> list[list[PlacedSpan]]:
    """Spreads spans over as few lanes as first fit finds; a child goes below its parent if it fits.

    Of spans that start together the longest comes first, so it can hold the others.
    """
    found: list[list[PlacedSpan]] = []
    open_ends: list[list[int]] = []
    lane_of: dict[str, int] = {}
    for item in sorted(placed, key=lambda p: (p.start_ns, -p.end_ns, p.span.span_id)):
        preferred = lane_of.get(item.span.parent_span_id)
        order = range(len(found))
        candidates = order if preferred is None else (preferred, *order)
        for lane in candidates:
            ends = open_ends[lane]
            while ends and ends[-1] <= item.start_ns:
                ends.pop()
            if not ends or item.end_ns <= ends[-1]:
                break
        else:
            lane = len(found)
            found.append([])
            open_ends.append([])
        found[lane].append(item)
        open_ends[lane].append(item.end_ns)
        lane_of[item.span.span_id] = lane
    return found


def begins_and_ends(lane: Sequence[PlacedSpan]) -> Iterator[tuple[int, PlacedSpan | None]]:
    """(instant, span) where a span of the lane begins, (instant, None) where the innermost ends."""
    ends: list[int] = []
    for item in lane:
        while ends and ends[-1] <= item.start_ns:
            yield ends.pop(), None
        yield item.start_ns, item
        ends.append(item.end_ns)
    while ends:
        yield ends.pop(), None
