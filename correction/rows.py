# SPDX-License-Identifier: Apache-2.0
"""Correction rows from window solutions: validity intervals, and holdover between windows."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from correction.model import FabricModel
from correction.prepare import WRAP_32_NS, WRAP_SLACK_NS
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


def correction_rows(
    windows: Sequence[WindowSolution], model: FabricModel, options: SolveOptions
) -> Corrections:
    """A row per clock and window, and holdover rows around it up to half-way to the next one."""
    parts = []
    for clock in range(len(model.clocks)):
        solved = [w for w in windows if w.anchor_local_ns[clock] != NO_TSTAMP_NS]
        solved.sort(key=lambda w: int(w.anchor_local_ns[clock]))
        for number, window in enumerate(solved):
            anchor = int(window.anchor_local_ns[clock])
            half = (window.end_collector_ns - window.start_collector_ns) // 2 + EDGE_NS
            before, after = half + options.holdover_ns, half + options.holdover_ns
            if number:
                gap = anchor - int(solved[number - 1].anchor_local_ns[clock])
                before = min(before, gap // 2)
                if jump_ns(solved[number - 1], window, clock, model) is not None:
                    before = min(before, half)
            if number + 1 < len(solved):
                gap = int(solved[number + 1].anchor_local_ns[clock]) - anchor
                after = min(after, gap - gap // 2)
                if jump_ns(window, solved[number + 1], clock, model) is not None:
                    after = min(after, half)
            cuts = sorted({-before, -min(half, before), min(half, after), after})
            for start, end in pairwise(cuts):
                parts.append(_row(window, clock, model, options, anchor + start, anchor + end))
    rows = np.concatenate(parts) if parts else np.zeros(0, CORRECTION_DTYPE)
    return with_worst_bounds(rows)


def jump_ns(
    before: WindowSolution, after: WindowSolution, clock: int, model: FabricModel
) -> int | None:
    """Change of offset between two windows beyond what rates and wander allow; None if allowed.

    No correction is used across a jump: on which side of it a stamp lies cannot be told.
    """
    if before.status[clock] != Status.OK or after.status[clock] != Status.OK:
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
            wraps = round(jump / WRAP_32_NS)
            wrapped = wraps and abs(jump - wraps * WRAP_32_NS) < WRAP_SLACK_NS
            detail = f"{jump} ns since window {before.window}"
            findings.append(
                Finding(
                    kind="clock-jump",
                    window=after.window,
                    subject=model.clocks[clock].name,
                    detail=f"{detail}, {wraps} x 2^32" if wrapped else detail,
                )
            )
    return tuple(findings)


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
