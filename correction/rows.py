# SPDX-License-Identifier: Apache-2.0
"""Correction rows from window solutions: validity intervals, and holdover between windows."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from correction.model import FabricModel
from correction.records import NO_TSTAMP_NS
from correction.solution import SolveOptions, WindowSolution
from correction.table import CORRECTION_DTYPE, UNBOUNDED_NS, Corrections, Status, with_worst_bounds


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
            half = (window.end_collector_ns - window.start_collector_ns) // 2 + 1
            before, after = half + options.holdover_ns, half + options.holdover_ns
            if number:
                before = min(before, (anchor - int(solved[number - 1].anchor_local_ns[clock])) // 2)
            if number + 1 < len(solved):
                gap = int(solved[number + 1].anchor_local_ns[clock]) - anchor
                after = min(after, gap - gap // 2)
            cuts = sorted({-before, -min(half, before), min(half, after), after})
            for start, end in pairwise(cuts):
                parts.append(_row(window, clock, model, options, anchor + start, anchor + end))
    rows = np.concatenate(parts) if parts else np.zeros(0, CORRECTION_DTYPE)
    return with_worst_bounds(rows)


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
