# SPDX-License-Identifier: Apache-2.0
"""Correction rows from window solutions: validity intervals, and holdover between windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from correction.jumps import WRAP_32_NS, Jump, jump_kinds
from correction.model import FabricModel
from correction.records import NO_TSTAMP_NS
from correction.solution import Finding, SolveOptions, WindowSolution
from correction.table import (
    CORRECTION_DTYPE,
    HARD_SIGMAS,
    UNBOUNDED_NS,
    Corrections,
    Status,
    with_worst_bounds,
)
from correction.timebase import NS_PER_S

EDGE_NS = 20_000_000
"""Reports arrive late, so a window's own packets may lie just outside it on other clocks."""
JUDGED = (Status.OK, Status.AMBIGUOUS)
"""Statuses with a finite bound, which a jump would break."""


def correction_rows(
    windows: Sequence[WindowSolution], model: FabricModel, options: SolveOptions
) -> Corrections:
    """A row per clock and window, and holdover rows around it up to half-way to the next one."""
    parts = []
    in_time = sorted(windows, key=lambda window: window.start_collector_ns)
    for clock in range(len(model.clocks)):
        solved = [at for at, w in enumerate(in_time) if w.anchor_local_ns[clock] != NO_TSTAMP_NS]
        solved.sort(key=lambda at: int(in_time[at].anchor_local_ns[clock]))
        anchors = [int(in_time[at].anchor_local_ns[clock]) for at in solved]
        spans = _disputed_spans(in_time, clock, model, options.holdover_ns)
        for number, at in enumerate(solved):
            window, anchor = in_time[at], anchors[number]
            half = _half_ns(window) + EDGE_NS
            before = _reach_ns(window, in_time[:at][::-1], clock, model, options)
            after = _reach_ns(window, in_time[at + 1 :], clock, model, options)
            if number:
                before = min(before, (anchor - anchors[number - 1]) // 2)
            if number + 1 < len(solved):
                gap = anchors[number + 1] - anchor
                after = min(after, gap - gap // 2)
            if window.status[clock] in JUDGED:
                before, after = _undisputed_ns(anchor, before, after, at, spans)
            if after <= -before:
                continue
            inner = [c for c in (-half, half) if -before < c < after]
            for start, end in pairwise([-before, *inner, after]):
                parts.append(_row(window, clock, model, options, anchor + start, anchor + end))
    rows = np.concatenate(parts) if parts else np.zeros(0, CORRECTION_DTYPE)
    return with_worst_bounds(rows)


def _half_ns(window: WindowSolution) -> int:
    return (window.end_collector_ns - window.start_collector_ns) // 2


def _reach_ns(
    window: WindowSolution,
    neighbours: Sequence[WindowSolution],
    clock: int,
    model: FabricModel,
    options: SolveOptions,
) -> int:
    """How far a row may be used on one side; `neighbours` are the windows there, nearest first.

    Not into a window in which the clock moved, nor across a jump: on which side of it a reading
    lies cannot be told. Not at all where the reference itself is only predicted.
    """
    half = _half_ns(window)
    if neighbours and neighbours[0].status[clock] == Status.INCONSISTENT:
        return half
    if window.held:
        return half + EDGE_NS
    other = next((one for one in neighbours if one.status[clock] in JUDGED), None)
    if other is not None:
        early, late = sorted((window, other), key=lambda one: one.start_collector_ns)
        if jump_ns(early, late, clock, model) is not None:
            return half + EDGE_NS
    return half + EDGE_NS + options.holdover_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Readings of a clock that rows of the windows first..last (in order of time) must not use."""

    low_local_ns: int
    high_local_ns: int
    first: int
    last: int


def _disputed_spans(
    in_time: Sequence[WindowSolution], clock: int, model: FabricModel, holdover_ns: int
) -> list[_Span]:
    """Readings that the clock showed, or may have shown, at another time too.

    In a window in which it moved all its readings are in dispute, those of its rows elsewhere too.
    A clock that was set back between two windows repeats what it had read before.
    """
    last = len(in_time) - 1
    spans = [
        _Span(low_local_ns=int(low), high_local_ns=int(high), first=0, last=last)
        for window in in_time
        if window.status[clock] == Status.INCONSISTENT
        for low, high in window.read_local_ns[clock].tolist()
        if low != NO_TSTAMP_NS
    ]
    judged = [at for at, window in enumerate(in_time) if window.status[clock] in JUDGED]
    start = {at: int(in_time[at].anchor_local_ns[clock]) - _half_ns(in_time[at]) for at in judged}
    end = {at: start[at] + 2 * _half_ns(in_time[at]) for at in judged}
    for i, j in pairwise(judged):
        jump = jump_ns(in_time[i], in_time[j], clock, model)
        if jump is None or jump >= 0:
            continue
        # it may have been set back as early as the end of i and as late as the start of j
        latest = max(end[at] for at in judged if at >= j) + holdover_ns
        earliest = min(start[at] for at in judged if at <= i) - holdover_ns
        spans.append(_Span(low_local_ns=end[i] + jump, high_local_ns=latest, first=0, last=i))
        spans.append(
            _Span(low_local_ns=earliest, high_local_ns=start[j] - jump, first=j, last=last)
        )
    return spans


def _undisputed_ns(
    anchor_local_ns: int, before_ns: int, after_ns: int, at: int, spans: Sequence[_Span]
) -> tuple[int, int]:
    """What spans leave of a row's reach on both sides of its anchor."""
    for span in spans:
        low, high = span.low_local_ns - anchor_local_ns, span.high_local_ns - anchor_local_ns
        if not span.first <= at <= span.last or low > after_ns or high < -before_ns:
            continue
        if low + high > 0:
            after_ns = min(after_ns, low)
        else:
            before_ns = min(before_ns, -high - 1)
    return before_ns, after_ns


def jump_ns(
    before: WindowSolution, after: WindowSolution, clock: int, model: FabricModel
) -> int | None:
    """Change of offset between two windows beyond what rates and wander allow; None if allowed.

    No correction is used across a jump: on which side of it a stamp lies cannot be told.
    """
    if before.status[clock] not in JUDGED or after.status[clock] not in JUDGED:
        return None
    gap_s = (int(after.anchor_local_ns[clock]) - int(before.anchor_local_ns[clock])) / NS_PER_S
    rate = 0.5 * (float(before.rate_ppb[clock]) + float(after.rate_ppb[clock]))
    change = int(after.offset_ns[clock]) - int(before.offset_ns[clock])
    excess_ns = change - round(rate * gap_s)
    wander = np.sqrt(2.0) * model.wander_ns_per_s_sqrt_s * abs(gap_s) ** 1.5 / np.sqrt(3.0)
    rate_sd = float(np.hypot(before.rate_sd_ppb[clock], after.rate_sd_ppb[clock])) * abs(gap_s)
    bounds_ns = float(before.bound_conditional_ns[clock] + after.bound_conditional_ns[clock])
    allowed_ns = HARD_SIGMAS * (wander + rate_sd) + bounds_ns
    return excess_ns if abs(excess_ns) > allowed_ns else None


def jump_findings(windows: Sequence[WindowSolution], model: FabricModel) -> tuple[Finding, ...]:
    """Clocks that were set between windows; multiples of 2^32 ns are a known defect class."""
    ordered = sorted(windows, key=lambda window: window.start_collector_ns)
    findings = []
    for before, after in pairwise(ordered):
        for clock in range(len(model.clocks)):
            jump = jump_ns(before, after, clock, model)
            if jump is None:
                continue
            reading = int(after.anchor_local_ns[clock])
            findings.append(
                Finding(
                    kind="clock-jump",
                    window=after.window,
                    subject=model.clocks[clock].name,
                    detail=f"{jump} ns since window {before.window}{_look_of(jump, reading)}",
                )
            )
    return tuple(findings)


def _look_of(jump: int, reading_ns: int) -> str:
    """What a jump of that size is known as."""
    match Jump(int(jump_kinds(np.array([jump]), np.array([reading_ns]))[0])):
        case Jump.WRAP_32:
            return f", {round(jump / WRAP_32_NS)} x 2^32"
        case Jump.UTC_TAI:
            return ", UTC against TAI"
        case Jump.FROM_1970:
            return ", to 1970"
        case Jump.OTHER:
            return ""


def _row(
    window: WindowSolution,
    clock: int,
    model: FabricModel,
    options: SolveOptions,
    valid_from_local_ns: int,
    valid_to_local_ns: int,
) -> Corrections:
    row = np.zeros(1, CORRECTION_DTYPE)
    row["correction_version"] = options.correction_version
    row["clock"], row["window"] = clock, window.window
    row["valid_from_local_ns"], row["valid_to_local_ns"] = valid_from_local_ns, valid_to_local_ns
    row["anchor_local_ns"] = window.anchor_local_ns[clock]
    row["offset_ns"] = window.offset_ns[clock]
    row["rate_ppb"], row["rate_sd_ppb"] = window.rate_ppb[clock], window.rate_sd_ppb[clock]
    clocks_moving = 0.0 if clock == model.reference else np.sqrt(2.0)
    row["wander_ns_per_s_sqrt_s"] = clocks_moving * model.wander_ns_per_s_sqrt_s
    row["bound_hard_ns"] = whole_ns(float(window.bound_hard_ns[clock]))
    row["bound_conditional_ns"] = whole_ns(float(window.bound_conditional_ns[clock]))
    row["sigmas"] = options.sigmas
    row["status"] = window.status[clock]
    if window.status[clock] in (Status.FLOATING, Status.INCONSISTENT):
        row["bound_hard_ns"] = row["bound_conditional_ns"] = UNBOUNDED_NS
    return row


def whole_ns(bound_ns: float) -> int:
    """A bound rounded up; UNBOUNDED_NS for an infinite one."""
    return int(np.ceil(bound_ns)) if np.isfinite(bound_ns) else UNBOUNDED_NS
