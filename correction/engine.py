# SPDX-License-Identifier: Apache-2.0
"""From hop records and exchanges to corrections: the one entry, `solve`."""

import numpy as np
from scipy.special import gammaincc

from correction.bounds import HardInterval, NegativeCycle, hard_intervals
from correction.envelope import fit_envelopes
from correction.equations import Equations, link_equations
from correction.hard import SLOPE_WANDER, sample_constraints
from correction.identifiability import (
    Graph,
    flagged_clocks,
    loop_links,
    reached,
    violated_cuts,
)
from correction.instants import Instants, coarse_lines, common_instants
from correction.links import JoinCounters, Reject, link_samples
from correction.model import FabricModel
from correction.network import Eliminated, clock_log_rates, clock_offsets, constants, eliminate
from correction.prepare import Prepared, prepare
from correction.records import NO_TSTAMP_NS, Exchanges, Hops, LinkSamples, Packets
from correction.rows import correction_rows
from correction.selection import Selection, select_bad_links
from correction.solution import (
    FabricSolution,
    Finding,
    LinkEstimates,
    SolveOptions,
    WindowSolution,
)
from correction.table import CorrectionTable, Status
from correction.timebase import NS_PER_S, Bools, Float64s, Int64s

PRIOR = (
    "fewer than half of every cut's links have a large asymmetry; the others, and all access "
    "cables, are equal in both directions within their declared standard deviation; stamp-point "
    "constants lie within their declared uncertainty and are shared within a group"
)
CENTRE_WANDER = 0.06
"""Sd of (line fitted over a window - clock at its centre) / (wander x length^1.5)."""


def solve(
    packets: Packets,
    hops: Hops,
    exchanges: Exchanges,
    model: FabricModel,
    windows: Int64s,
    options: SolveOptions | None = None,
) -> FabricSolution:
    """Corrections of all clocks from reported hops and PTP exchanges.

    `windows` is an int64 array [window, (start, end)] on the collector's clock, about 1 s each.
    """
    samples, counters = link_samples(packets, hops, exchanges, model)
    return solve_samples(samples, model, windows, counters=counters, options=options)


def solve_samples(
    samples: LinkSamples,
    model: FabricModel,
    windows: Int64s,
    *,
    counters: JoinCounters | None = None,
    options: SolveOptions | None = None,
) -> FabricSolution:
    """The same from link samples."""
    options = options or SolveOptions()
    counters = counters or JoinCounters()
    windows = np.asarray(windows, np.int64).reshape(-1, 2)
    prepared = prepare(samples, model, windows, counters)
    quantum = np.array(
        [
            max(model.clocks[link.a].stamp_unit_ns, model.clocks[link.b].stamp_unit_ns)
            for link in model.links
        ],
        np.float64,
    )
    fit = fit_envelopes(prepared, quantum_ns=quantum)
    counters.reject(Reject.BELOW_ENVELOPE, np.count_nonzero(fit.below))
    usable = np.ones((len(windows), len(model.links)), np.bool_)
    lines = coarse_lines(fit, model, len(windows))
    instants = common_instants(lines, prepared, model, windows, usable)
    equations, class_findings = link_equations(fit, instants, model, usable)
    unknowns = constants(model)
    eliminated = eliminate(equations, instants, model, unknowns)
    ends = np.array([(link.a, link.b) for link in model.links], np.int64).reshape(-1, 2)
    known: Bools = np.any(equations.known, axis=0)
    in_loop = loop_links(ends, known, len(model.clocks))
    selection = select_bad_links(eliminated, unknowns.prior_sd_ns, np.flatnonzero(in_loop))
    graph = Graph(
        ends=ends,
        known=known,
        bad=selection.bad[: len(ends)],
        weight=1.0 / unknowns.prior_sd_ns[: len(ends)],
        clock_count=len(model.clocks),
        reference=model.reference,
    )
    cuts = violated_cuts(graph)
    ambiguous = flagged_clocks(graph, cuts) & _connected(graph)
    windows_s = (windows[:, 1] - windows[:, 0]) / NS_PER_S
    constraints = sample_constraints(prepared, fit, instants, model, windows_s, usable)
    findings: list[Finding] = []
    solutions = []
    for w in range(len(windows)):
        intervals = hard_intervals(constraints[w], model.reference)
        solutions.append(
            _window_solution(
                w,
                windows[w],
                model,
                prepared,
                instants,
                equations,
                eliminated,
                selection,
                ambiguous,
                intervals,
                options,
                findings,
            )  # fmt: skip
        )
    table = CorrectionTable(
        rows=correction_rows(solutions, model, options),
        clock_names=tuple(clock.name for clock in model.clocks),
        prior=PRIOR,
    )
    status = np.array([s.status for s in solutions]).reshape(-1, len(model.clocks))
    return FabricSolution(
        model=model,
        windows=tuple(solutions),
        links=_link_estimates(equations, selection, in_loop, options),
        table=table,
        flagged=(status != Status.OK).any(axis=0),
        cuts=cuts,
        chi2=selection.chi2,
        degrees=selection.degrees,
        p_value=_p_value(selection),
        counters=counters,
        findings=tuple(findings),
        class_findings=class_findings,
        prior=PRIOR,
    )


def _connected(graph: Graph) -> Bools:
    nobody = np.zeros(graph.clock_count, np.bool_)
    return reached(graph.ends, graph.known, graph.reference, graph.clock_count, blocked=nobody)


def _p_value(selection: Selection) -> float:
    if not selection.degrees:
        return 1.0
    return float(gammaincc(selection.degrees / 2.0, selection.chi2 / 2.0))


def _link_estimates(
    equations: Equations, selection: Selection, in_loop: Bools, options: SolveOptions
) -> LinkEstimates:
    count = len(in_loop)
    a = selection.averaged.q_ns[:count]
    sd = np.sqrt(np.maximum(np.diag(selection.averaged.covariance)[:count], 0.0))
    with np.errstate(invalid="ignore"):
        seen = np.isfinite(equations.half_round_trip_ns)
        half = np.where(seen, equations.half_round_trip_ns, 0.0).sum(axis=0)
        half = np.divide(half, seen.sum(axis=0), out=np.full(count, np.nan), where=seen.any(axis=0))
    bad = selection.bad[:count]
    return LinkEstimates(
        a_ns=a,
        sd_ns=sd,
        observable=in_loop,
        rejected=bad,
        bad_probability=selection.bad_probability[:count],
        asymmetric=bad & in_loop & (np.abs(a) >= options.asymmetric_ns),
        half_round_trip_ns=half,
    )


def _window_solution(
    w: int,
    bounds_collector_ns: Int64s,
    model: FabricModel,
    prepared: Prepared,
    instants: Instants,
    equations: Equations,
    eliminated: Eliminated,
    selection: Selection,
    ambiguous: Bools,
    intervals: HardInterval | NegativeCycle,
    options: SolveOptions,
    findings: list[Finding],
) -> WindowSolution:
    n, reference = len(model.clocks), model.reference
    length_s = float(bounds_collector_ns[1] - bounds_collector_ns[0]) / NS_PER_S
    wander = np.sqrt(2.0) * model.wander_ns_per_s_sqrt_s
    system = eliminated.windows[w]
    delta, sd = np.zeros(n), np.full(n, np.inf)
    offsets, covariance = clock_offsets(system, selection.averaged)
    delta[system.clocks] = offsets
    variance = np.maximum(np.diag(covariance), 0.0)
    sd[system.clocks] = np.sqrt(variance + (CENTRE_WANDER * wander * length_s**1.5) ** 2)
    reached_here = instants.component[w] == 0
    solved = reached_here & np.isfinite(sd)
    solved[reference] = reached_here[reference]
    sd[reference] = 0.0
    log_rate, log_rate_sd = clock_log_rates(
        equations, instants, model, w, SLOPE_WANDER * wander * np.sqrt(length_s) / NS_PER_S
    )

    status = np.full(n, Status.FLOATING, np.uint8)
    reason = ["no path of measured links to the reference"] * n
    low, high = np.full(n, -np.inf), np.full(n, np.inf)
    status[solved] = Status.OK
    status[solved & ambiguous] = Status.AMBIGUOUS
    for clock in np.flatnonzero(solved).tolist():
        reason[clock] = "at least half of a cut's links are bad" if ambiguous[clock] else ""
    if isinstance(intervals, NegativeCycle):
        names = " -> ".join(model.clocks[c].name for c in intervals.clocks)
        detail = f"stamps contradict causality by {intervals.excess_ns:.0f} ns"
        findings.append(Finding(kind="impossible-cycle", window=w, subject=names, detail=detail))
        status[reached_here] = Status.INCONSISTENT
        for clock in np.flatnonzero(reached_here).tolist():
            reason[clock] = f"window rejected: impossible data around {names}"
    else:
        low, high = intervals.low_ns, intervals.high_ns
        delta = np.clip(delta, np.minimum(low, high), np.maximum(low, high))
    hard = np.maximum(high - delta, delta - low) + 1.0
    conditional = np.minimum(options.sigmas * sd + 1.0, hard)
    conditional = np.where(status == Status.AMBIGUOUS, hard, conditional)
    hard[reference] = conditional[reference] = 0.0 if status[reference] == Status.OK else np.inf
    for kind in (Status.FLOATING, Status.INCONSISTENT):
        hard[status == kind] = conditional[status == kind] = np.inf
    anchor, offset = _anchored(prepared, instants, model, w, delta, log_rate)
    return WindowSolution(
        window=w,
        start_collector_ns=int(bounds_collector_ns[0]),
        end_collector_ns=int(bounds_collector_ns[1]),
        reference_ns=int(anchor[reference]) if reached_here[reference] else None,
        anchor_local_ns=anchor,
        offset_ns=offset,
        rate_ppb=_local_rate(log_rate) * NS_PER_S,
        rate_sd_ppb=np.nan_to_num(log_rate_sd, nan=2.0 * model.rate_offset_max_ppb / NS_PER_S)
        * NS_PER_S,
        sd_ns=sd,
        bound_hard_ns=hard,
        bound_conditional_ns=conditional,
        status=status,
        reason=tuple(reason),
    )


def _local_rate(log_rate: Float64s) -> Float64s:
    """d(offset)/d(local time) of a clock whose rate ratio to the reference is exp(log_rate)."""
    rate: Float64s = np.nan_to_num(-np.expm1(-log_rate), nan=0.0)
    return rate


def _anchored(
    prepared: Prepared,
    instants: Instants,
    model: FabricModel,
    window: int,
    delta_ns: Float64s,
    log_rate: Float64s,
) -> tuple[Int64s, Int64s]:
    """Whole local readings near the instant, and the whole offsets there."""
    n, reference = len(model.clocks), model.reference
    rest = instants.rest_ns[window]
    known = np.isfinite(rest)
    whole = np.rint(np.where(known, rest, 0.0))
    anchors = prepared.anchors.anchor_local_ns
    anchor = np.where(known, anchors + whole.astype(np.int64), NO_TSTAMP_NS)
    offset = np.zeros(n, np.int64)
    here = known & (instants.component[window] == 0)
    if here[reference]:
        # reading at the instant = rest + delta; the anchor lies `moved` later on this clock
        moved = whole - rest - delta_ns
        small = rest + delta_ns - rest[reference] + _local_rate(log_rate) * moved
        small = np.rint(np.where(here, small, 0.0)).astype(np.int64)
        offset = np.where(here, anchors - anchors[reference] + small, 0)
    return anchor, offset
