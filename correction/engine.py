# SPDX-License-Identifier: Apache-2.0
"""From hop records and exchanges to corrections: the one entry, `solve`."""

import numpy as np
from scipy.special import gammaincc

from correction.cross_stamps import CrossStamps
from correction.links import JoinCounters
from correction.measure import Measured, measure
from correction.mixture import half_widths_ns
from correction.model import FabricModel
from correction.publish import window_solution
from correction.records import Exchanges, Hops, LinkSamples, Packets
from correction.reference_holdover import hold_reference
from correction.rows import correction_rows, jump_findings
from correction.selection import Selection, select_bad_links
from correction.solution import FabricSolution, Finding, LinkEstimates, SolveOptions
from correction.sources import gather
from correction.table import CorrectionTable, Status
from correction.timebase import Bools, Int64s
from correction.verdicts import FabricVerdict, fabric_verdict

SURE_SDS = 3.0
"""A link is reported asymmetric if its estimate is so many of its own deviations from 0: with two
explanations that are alike, no link of either is."""
PRIOR = (
    "of every cut's links fewer than half have a large asymmetry that pulls one way; the others, "
    "and all access cables, are equal in both directions within their deviation; stamp-point "
    "constants lie within their declared uncertainty and are shared within a group; what was "
    "measured in one direction only takes a delay between the least and the largest declared"
)


def solve(
    packets: Packets,
    hops: Hops,
    exchanges: Exchanges,
    model: FabricModel,
    windows: Int64s,
    options: SolveOptions | None = None,
    *,
    cross_stamps: CrossStamps | None = None,
) -> FabricSolution:
    """Corrections of all clocks from reported hops and PTP exchanges, and what else there is.

    The solution's model has the clocks and links of `model` first, then those of all ties.

    `windows` is an int64 array [window, (start, end)] on the collector's clock, about 1 s each.
    A client's t2 and t3 must be on a clock that runs free within a window (`servo` undoes what a
    servo did to a PHC).
    """
    all_of = gather(packets, hops, exchanges, model, cross_stamps=cross_stamps)
    return solve_samples(
        all_of.samples, all_of.model, windows, counters=all_of.counters, options=options
    )


def solve_samples(
    samples: LinkSamples,
    model: FabricModel,
    windows: Int64s,
    *,
    counters: JoinCounters | None = None,
    options: SolveOptions | None = None,
) -> FabricSolution:
    """The same from link samples."""
    counters, options = counters or JoinCounters(), options or SolveOptions()
    joined = counters.copy()
    solution = _solve_measured(measure(samples, model, windows, counters), counters, options)
    held = hold_reference(solution, samples, options)
    if held is None:
        return solution
    measured = measure(held.samples, held.model, windows, joined, held.windows)
    return _solve_measured(measured, joined, options)


def _solve_measured(
    measured: Measured, counters: JoinCounters, options: SolveOptions
) -> FabricSolution:
    selection = selected(measured)
    verdict = fabric_verdict(measured, selection)
    return assemble(measured, selection, verdict, counters=counters, options=options)


def selected(measured: Measured) -> Selection:
    """Which links are bad, of those in loops that may be."""
    firm = np.array([link.firm for link in measured.model.links], np.bool_)
    candidates = np.flatnonzero(measured.in_loop & ~firm)
    return select_bad_links(measured.eliminated, measured.unknowns.prior_sd_ns, candidates)


def assemble(
    measured: Measured,
    selection: Selection,
    verdict: FabricVerdict,
    *,
    counters: JoinCounters,
    options: SolveOptions,
) -> FabricSolution:
    """The published answer for judged links."""
    model = measured.model
    solutions, findings = [], list[Finding]()
    for w in range(len(measured.windows)):
        solution, found = window_solution(measured, w, selection, verdict.ambiguous, options)
        solutions.append(solution)
        findings.extend(found)
    status = np.array([one.status for one in solutions]).reshape(-1, len(model.clocks))
    return FabricSolution(
        model=model,
        windows=tuple(solutions),
        links=_link_estimates(measured, selection, options),
        table=CorrectionTable(
            rows=correction_rows(solutions, model, options),
            clock_names=tuple(clock.name for clock in model.clocks),
            prior=PRIOR,
        ),
        flagged=(status != Status.OK).any(axis=0),
        cuts=verdict.cuts,
        certificate=verdict.certificate,
        chi2=selection.chi2,
        degrees=selection.degrees,
        p_value=_chi2_tail(selection.chi2, selection.degrees),
        repeat_p_value=_chi2_tail(selection.repeat_chi2, selection.repeat_degrees),
        counters=counters,
        findings=(
            *findings,
            *jump_findings(solutions, model),
            *_round_trip_findings(measured, selection.bad),
        ),
        class_findings=measured.class_findings,
        prior=PRIOR,
        measured=measured,
    )


def _round_trip_findings(measured: Measured, bad: Bools) -> tuple[Finding, ...]:
    """Too long round trips; a bad link in a loop is reported with its asymmetry instead."""
    return tuple(
        Finding(
            kind="long-round-trip",
            window=one.window,
            subject=measured.model.links[one.link].name,
            detail=f"{one.excess_ns:.0f} ns more than the declared cable takes both ways",
        )
        for one in measured.long_round_trips
        if not (one.in_loop and bad[one.link])
    )


def _chi2_tail(chi2: float, degrees: int) -> float:
    """Probability of a larger chi-square."""
    return float(gammaincc(degrees / 2.0, chi2 / 2.0)) if degrees else 1.0


def _link_estimates(
    measured: Measured, selection: Selection, options: SolveOptions
) -> LinkEstimates:
    in_loop, half_per_window = measured.in_loop, measured.equations.half_round_trip_ns
    count, design = len(in_loop), measured.unknowns.design
    a = selection.averaged.q_ns[:count]
    sd = np.sqrt(np.maximum(np.diag(selection.averaged.covariance)[:count], 0.0))
    likely = half_widths_ns(
        selection.best,
        selection.rivals,
        -np.eye(count, len(selection.averaged.q_ns)),
        np.zeros(count),
        a - selection.best.q_ns[:count],
        options.sigmas,
    )
    seen = np.isfinite(half_per_window)
    half = np.where(seen, half_per_window, 0.0).sum(axis=0)
    number = seen.sum(axis=0)
    bad = selection.bad[:count]
    return LinkEstimates(
        a_ns=a,
        sd_ns=sd,
        likely_ns=np.maximum(likely, options.sigmas * sd),
        observable=in_loop,
        rejected=bad,
        bad_probability=selection.bad_probability[:count],
        asymmetric=bad & in_loop & (np.abs(a) >= np.maximum(options.asymmetric_ns, SURE_SDS * sd)),
        half_round_trip_ns=np.divide(half, number, out=np.full(count, np.nan), where=number > 0),
        shared_ns=design[:, count:] @ selection.averaged.q_ns[count:],
        covariance_ns2=design @ selection.averaged.covariance @ design.T,
    )
