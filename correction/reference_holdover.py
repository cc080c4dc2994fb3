# SPDX-License-Identifier: Apache-2.0
"""Windows in which the reference shows nothing: its time is carried on by a clock that it had.

A grandmaster that falls silent leaves clocks behind that are tied to each other as well as before,
only to nothing that is published. Each of them can say what the reference reads now, from its own
correction in the last window that had one, as well as rates and wander allow. The one that says so
best becomes a tie to the reference in that window, as long as corrections may be used beyond
theirs. A clock whose links contradict what was predicted of it has moved, and is not asked.
"""

from dataclasses import dataclass, replace

import numpy as np

from correction.model import FabricModel, link_ends
from correction.records import NO_TSTAMP_NS, LinkSamples
from correction.rows import JUDGED, correction_rows
from correction.solution import FabricSolution, SolveOptions
from correction.table import CorrectionTable, Status
from correction.ties import joined, tie, tie_samples
from correction.timebase import Bools, Float64s, Int64s

PACE = np.linspace(-0.5, 0.5, 16)
"""Where in a window, in lengths of it, the tie says what both clocks read."""
SIGMAS = 6.0
TIE_SUFFIX = "~holdover"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Ties to the reference in windows without it."""

    model: FabricModel
    samples: LinkSamples
    windows: Bools
    """[window]: has such a tie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Predicted:
    """What each clock says of the reference at a window's instant; arrays over clocks."""

    reference_ns: Int64s
    """NO_TSTAMP_NS where it has no correction to go by."""
    conditional_ns: Float64s
    hard_ns: Float64s


def hold_reference(
    solution: FabricSolution, samples: LinkSamples, options: SolveOptions
) -> Held | None:
    """Ties for all windows that can have one; None where there is nothing to hold."""
    model, windows = solution.model, solution.windows
    if not windows:
        return None
    judged = np.isin(np.array([one.status for one in windows]), JUDGED)
    judged[:, model.reference] = False
    with_it = [one for n, one in enumerate(windows) if judged[n].any()]
    # a reference that moved is no reference for what was before
    moved = solution.measured.misfits.clock[:, model.reference]
    without = np.flatnonzero(~judged.any(axis=1) & ~moved).tolist()
    if not with_it or not without:
        return None
    table = CorrectionTable(
        rows=correction_rows(with_it, model, options),
        clock_names=tuple(clock.name for clock in model.clocks),
        prior=solution.prior,
    )
    held = np.zeros(len(windows), np.bool_)
    links, made = list(model.links), [samples]
    for w in without:
        found = _predicted(solution, w, table)
        clock = _best(solution, w, found)
        if clock is None:
            continue
        held[w] = True
        made.append(_samples_of(solution, w, table, clock, len(links)))
        links.append(
            tie(
                name=f"{model.clocks[model.reference].name}~{model.clocks[clock].name}{TIE_SUFFIX}",
                a=model.reference,
                b=clock,
                sd_ns=float(found.conditional_ns[clock] / options.sigmas),
                hard_ns=float(found.hard_ns[clock]),
            )
        )
    if not held.any():
        return None
    return Held(model=replace(model, links=tuple(links)), samples=joined(made), windows=held)


def _predicted(solution: FabricSolution, w: int, table: CorrectionTable) -> _Predicted:
    """Bounds are those at the window's ends, since its rate is only predicted too."""
    anchor = solution.windows[w].anchor_local_ns
    half = _half_ns(solution, w)
    count = len(anchor)
    reference = np.full(count, NO_TSTAMP_NS)
    conditional, hard = np.full(count, np.inf), np.full(count, np.inf)
    for clock in np.flatnonzero(anchor != NO_TSTAMP_NS).tolist():
        if clock == solution.model.reference:
            continue
        asked = anchor[clock] + np.array([0, -half, half], np.int64)
        told = table.convert(asked, clock)
        if (told.status == Status.OK).all():
            reference[clock] = told.reference_ns[0]
            conditional[clock] = told.bound_conditional_ns.max()
            hard[clock] = told.bound_hard_ns.max()
    return _Predicted(reference_ns=reference, conditional_ns=conditional, hard_ns=hard)


def _best(solution: FabricSolution, w: int, found: _Predicted) -> int | None:
    """The clock with the smallest bound of those that have not moved, in the largest part."""
    asked = np.flatnonzero(found.reference_ns != NO_TSTAMP_NS)
    if not len(asked):
        return None
    component = solution.measured.instants.component[w]
    labels, sizes = np.unique(component[component >= 0], return_counts=True)
    still = asked[component[asked] == labels[np.argmax(sizes)]]
    still = still[~_moved(solution, w, found)[still]]
    if not len(still):
        return None
    return int(still[np.argmin(found.conditional_ns[still])])


def _moved(solution: FabricSolution, w: int, found: _Predicted) -> Bools:
    """[clock]: at least half of its links contradict what both their ends predict."""
    measured, links = solution.measured, solution.links
    ends = link_ends(measured.model)
    told = found.reference_ns != NO_TSTAMP_NS
    judged = measured.equations.known[w] & told[ends].all(axis=1)
    a, b = ends[judged].T
    # a reads its anchor when the reference reads what it predicts, and so does b: in between
    # lies what the equation shows of both at one instant
    ahead_ns = (found.reference_ns[a] - found.reference_ns[b]).astype(np.float64)
    shown_ns = measured.equations.y_ns[w] - links.a_ns - links.shared_ns
    allowed_ns = SIGMAS * np.hypot(measured.equations.sd_ns[w], links.sd_ns)[judged]
    allowed_ns += found.conditional_ns[a] + found.conditional_ns[b]
    wrong = np.abs(shown_ns[judged] - ahead_ns) > allowed_ns
    count = len(measured.model.clocks)
    of_all = np.bincount(ends[judged].ravel(), minlength=count)
    of_wrong = np.bincount(ends[judged][wrong].ravel(), minlength=count)
    result: Bools = (of_all > 0) & (2 * of_wrong >= of_all)
    return result


def _samples_of(
    solution: FabricSolution, w: int, table: CorrectionTable, clock: int, link: int
) -> LinkSamples:
    window = solution.windows[w]
    away = np.rint(PACE * 2 * _half_ns(solution, w)).astype(np.int64)
    local = window.anchor_local_ns[clock] + away
    middle = (window.start_collector_ns + window.end_collector_ns) // 2
    reference = table.convert(local, clock).reference_ns
    inside = np.clip(middle + away, window.start_collector_ns, window.end_collector_ns - 1)
    return tie_samples(np.full(len(local), link, np.int64), reference, local, inside)


def _half_ns(solution: FabricSolution, w: int) -> int:
    window = solution.windows[w]
    return (window.end_collector_ns - window.start_collector_ns) // 2
