# SPDX-License-Identifier: Apache-2.0
"""From estimated constants to published offsets: both bounds, status and reason of every clock."""

from dataclasses import dataclass

import numpy as np

from correction.bounds import HardInterval, NegativeCycle, hard_intervals
from correction.hard import SLOPE_WANDER
from correction.measure import Measured
from correction.mixture import half_widths_ns
from correction.model import ClockKind
from correction.network import clock_log_rates, clock_offsets
from correction.records import NO_TSTAMP_NS
from correction.round_trips import widened_ns
from correction.selection import Selection
from correction.solution import Finding, SolveOptions, WindowSolution
from correction.table import Status
from correction.timebase import NS_PER_S, Bools, Float64s, Int64s

CENTRE_WANDER = 0.06
"""Sd of (line fitted over a window - clock at its centre) / (wander x length^1.5)."""
SMALL_NS = 1e12
"""Differences to coarse readings stay far below; larger ones do not come from clocks."""
ROUNDING_NS = 1.0
"""Offset and anchor are whole ns: the hard bound takes the worst of both."""
ROUNDING_SD_NS = 0.5
"""The same as a standard deviation, rounded up."""

NO_PATH = "no path of measured links to the reference"
AMBIGUOUS_CUT = "at least half of a cut's links are bad"
STEPPED = "stepped, changed rate or ran at an impossible one inside the window"
JUMPED = "jumped inside the window"
STUCK = "stood still inside the window"
CONTRADICTED = "its stamps contradict causality"
LONG_ROUND_TRIP = "a round trip exceeds the declared cable"
CONTRADICTED_ELSEWHERE = "its stamps contradict causality in another window"


@dataclass(slots=True)
class _Clocks:
    """One window's clocks while they are judged; arrays indexed by clock."""

    delta_ns: Float64s
    sd_ns: Float64s
    likely_ns: Float64s
    """Half-width of all explanations together, under the prior."""
    hard_ns: Float64s
    conditional_ns: Float64s
    status: np.ndarray
    reason: list[str]

    def mark(self, which: Bools, status: Status, reason: str) -> None:
        self.status[which] = status
        for clock in np.flatnonzero(which).tolist():
            self.reason[clock] = reason


def window_solution(
    measured: Measured,
    w: int,
    selection: Selection,
    ambiguous: Bools,
    options: SolveOptions,
) -> tuple[WindowSolution, tuple[Finding, ...]]:
    """Publish window `w` given the constants; `ambiguous` clocks keep only the hard bound, bad
    links tie no clock to the reference."""
    model = measured.model
    n, reference = len(model.clocks), model.reference
    wander = np.sqrt(2.0) * model.wander_ns_per_s_sqrt_s
    length_s = float(measured.window_s[w])
    reached = measured.instants.component[w] == 0
    centre_sd_ns = CENTRE_WANDER * wander * length_s**1.5
    clocks = _estimates(measured, w, selection, centre_sd_ns, options)
    solved = reached & (np.isfinite(clocks.sd_ns) | (np.arange(n) == reference))
    clocks.mark(solved, Status.OK, "")
    clocks.mark(solved & ambiguous, Status.AMBIGUOUS, AMBIGUOUS_CUT)
    findings = _bound(measured, w, clocks, reached, selection.bad)
    findings.extend(_withhold(measured, w, clocks))
    lost = (clocks.status == Status.FLOATING) | (clocks.status == Status.INCONSISTENT)
    clocks.hard_ns[lost] = clocks.conditional_ns[lost] = np.inf

    log_rate, log_rate_sd = clock_log_rates(
        measured.equations,
        measured.instants,
        model,
        w,
        SLOPE_WANDER * wander * np.sqrt(length_s) / NS_PER_S,
    )
    anchor, offset = _anchored(measured, w, clocks.delta_ns, log_rate)
    unknown_rate = 2.0 * model.rate_offset_max_ppb
    solution = WindowSolution(
        window=w,
        start_collector_ns=int(measured.windows[w, 0]),
        end_collector_ns=int(measured.windows[w, 1]),
        reference_ns=int(anchor[reference]) if reached[reference] else None,
        anchor_local_ns=anchor,
        offset_ns=offset,
        rate_ppb=_local_rate(log_rate) * NS_PER_S,
        rate_sd_ppb=np.nan_to_num(log_rate_sd * NS_PER_S, nan=unknown_rate),
        sd_ns=clocks.sd_ns,
        bound_hard_ns=clocks.hard_ns,
        bound_conditional_ns=clocks.conditional_ns,
        status=clocks.status,
        reason=tuple(clocks.reason),
        held=bool(measured.held[w]),
        read_local_ns=measured.prepared.disturbed.read_local_ns[w],
    )
    return solution, tuple(findings)


def _estimates(
    measured: Measured, w: int, selection: Selection, centre_sd_ns: float, options: SolveOptions
) -> _Clocks:
    n, reference = len(measured.model.clocks), measured.model.reference
    system = measured.eliminated.windows[w]
    delta, sd, likely = np.zeros(n), np.full(n, np.inf), np.full(n, np.inf)
    offsets, covariance = clock_offsets(system, selection.averaged)
    # a coarse reading is right to a microsecond: an estimate far off it means broken data
    usable = np.isfinite(offsets) & (np.abs(offsets) < SMALL_NS)
    variance = np.where(usable, np.maximum(np.diag(covariance), 0.0), np.inf)
    delta[system.clocks] = np.where(usable, offsets, 0.0)
    sd[system.clocks] = np.hypot(np.sqrt(variance), centre_sd_ns)
    sd[reference] = 0.0
    own = np.diag(system.covariance) + centre_sd_ns**2 + ROUNDING_SD_NS**2
    half_width = half_widths_ns(
        selection.best,
        selection.rivals,
        system.lift,
        own,
        system.lift @ (selection.best.q_ns - selection.averaged.q_ns),
        options.sigmas,
    )
    likely[system.clocks] = np.where(usable, half_width, np.inf)
    return _Clocks(
        delta_ns=delta,
        sd_ns=sd,
        likely_ns=np.maximum(likely, options.sigmas * np.hypot(sd, ROUNDING_SD_NS)),
        hard_ns=np.full(n, np.inf),
        conditional_ns=np.full(n, np.inf),
        status=np.full(n, Status.FLOATING, np.uint8),
        reason=[NO_PATH] * n,
    )


def _bound(
    measured: Measured,
    w: int,
    clocks: _Clocks,
    reached: Bools,
    bad: Bools,
) -> list[Finding]:
    """Both bounds; the estimate is moved into its hard interval where it lies outside."""
    model = measured.model
    rejected = measured.contradictions[w].rejected
    if rejected is not None:
        return [_reject_window(measured, w, clocks, reached, rejected)]
    intervals = hard_intervals(measured.constraints[w], model.reference)
    if isinstance(intervals, NegativeCycle):
        return [_reject_window(measured, w, clocks, reached, intervals)]
    assert isinstance(intervals, HardInterval)
    low, high = intervals.low_ns, intervals.high_ns
    clocks.delta_ns = np.clip(clocks.delta_ns, low, high)
    hard = np.maximum(high - clocks.delta_ns, clocks.delta_ns - low) + ROUNDING_NS
    widened = widened_ns(measured.long_round_trips, measured.equations, model, w, bad)
    for clock in np.flatnonzero((widened > 0.0) & (clocks.status == Status.OK)).tolist():
        clocks.reason[clock] = LONG_ROUND_TRIP
    conditional = clocks.likely_ns + widened
    # a host's only witness of its cable was wrong once: its prior is worth nothing any more
    host = np.array([clock.kind is ClockKind.NIC for clock in model.clocks], np.bool_)
    doubtful = measured.misfits.contradicted.any(axis=0) & host & (clocks.status == Status.OK)
    conditional = np.minimum(np.where(doubtful, np.inf, conditional), hard)
    for clock in np.flatnonzero(doubtful).tolist():
        clocks.reason[clock] = CONTRADICTED_ELSEWHERE
    clocks.hard_ns = hard
    clocks.conditional_ns = np.where(clocks.status == Status.AMBIGUOUS, hard, conditional)
    clocks.hard_ns[model.reference] = clocks.conditional_ns[model.reference] = 0.0
    return []


def _withhold(measured: Measured, w: int, clocks: _Clocks) -> list[Finding]:
    """Mark the clocks that were left out of this window, each with its finding."""
    model, misfits = measured.model, measured.misfits
    disturbed = measured.prepared.disturbed
    findings = []
    for kind, which, reason in (
        ("clock-step", misfits.stepped[w], STEPPED),
        ("clock-jump", misfits.jumped[w], JUMPED),
        ("clock-stuck", misfits.stuck[w], STUCK),
    ):
        clocks.mark(which, Status.INCONSISTENT, reason)
        number = disturbed.jumped[w] if kind == "clock-jump" else disturbed.stuck[w]
        for clock in np.flatnonzero(which).tolist():
            of = f": {number[clock]} of {disturbed.total[w, clock]} stamps"
            name, detail = model.clocks[clock].name, reason + of if number[clock] else reason
            findings.append(Finding(kind=kind, window=w, subject=name, detail=detail))
    clocks.mark(misfits.contradicted[w], Status.INCONSISTENT, CONTRADICTED)
    withheld = ", ".join(model.clocks[c].name for c in np.flatnonzero(misfits.contradicted[w]))
    for cycle in measured.contradictions[w].cycles:
        if cycle is measured.contradictions[w].rejected:
            continue
        names = " -> ".join(model.clocks[c].name for c in cycle.clocks)
        findings.append(
            Finding(
                kind="impossible-cycle",
                window=w,
                subject=names,
                detail=f"stamps contradict causality by {cycle.excess_ns:.0f} ns; "
                f"withheld: {withheld}",
            )
        )
    return findings


def _reject_window(
    measured: Measured, w: int, clocks: _Clocks, reached: Bools, cycle: NegativeCycle
) -> Finding:
    names = " -> ".join(measured.model.clocks[c].name for c in cycle.clocks)
    clocks.mark(reached, Status.INCONSISTENT, f"window rejected: impossible data around {names}")
    return Finding(
        kind="impossible-cycle",
        window=w,
        subject=names,
        detail=f"stamps contradict causality by {cycle.excess_ns:.0f} ns; window rejected",
    )


def _local_rate(log_rate: Float64s) -> Float64s:
    """d(offset)/d(local time) of a clock whose rate ratio to the reference is exp(log_rate)."""
    rate: Float64s = np.nan_to_num(-np.expm1(-log_rate), nan=0.0)
    return rate


def _anchored(
    measured: Measured, w: int, delta_ns: Float64s, log_rate: Float64s
) -> tuple[Int64s, Int64s]:
    """Whole local readings near the instant, and the whole offsets there."""
    reference = measured.model.reference
    rest = measured.instants.rest_ns[w]
    known = np.isfinite(rest)
    whole = np.rint(np.where(known, rest, 0.0))
    slots = slice(w * len(rest), (w + 1) * len(rest))
    anchors = measured.prepared.anchors.anchor_local_ns[slots]
    anchor = np.where(known, anchors + whole.astype(np.int64), NO_TSTAMP_NS)
    here = known & (measured.instants.component[w] == 0)
    if not here[reference]:
        return anchor, np.zeros(len(anchor), np.int64)
    # reading at the instant = rest + delta; the anchor lies `moved` later on this clock
    moved = whole - rest - delta_ns
    small = rest + delta_ns - rest[reference] + _local_rate(log_rate) * moved
    small = np.rint(np.where(here & (np.abs(small) < SMALL_NS), small, 0.0)).astype(np.int64)
    return anchor, np.where(here, anchors - anchors[reference] + small, 0)
