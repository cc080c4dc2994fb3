# SPDX-License-Identifier: Apache-2.0
"""The answer of one window: offsets with both bounds, status and reason of every clock."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction import publish
from correction.identifiability import reached
from correction.link_windows import Moved
from correction.mesh.solve import MeshSolution, Standing
from correction.model import FabricModel
from correction.publish import CENTRE_WANDER, ROUNDING_NS, ROUNDING_SD_NS
from correction.records import NO_TSTAMP_NS
from correction.round_trips import SIGMAS as ROUND_TRIP_SIGMAS
from correction.stream.clock_filter import ClockStates, Update, update
from correction.stream.motion import Motion
from correction.stream.window_edges import WindowEdges, WindowReader
from correction.table import CONDITIONAL_SIGMAS, Status
from correction.timebase import NS_PER_S, Bools, Float64s, Int64s

REJECTED = "window rejected: impossible data"
UNDECIDED = "two ways of fitting put it apart, or the search for a proof gave up"
REASONS = (
    "",
    publish.NO_PATH,
    publish.AMBIGUOUS_CUT,
    UNDECIDED,
    publish.STEPPED,
    publish.JUMPED,
    publish.STUCK,
    publish.CONTRADICTED,
    REJECTED,
    publish.LONG_ROUND_TRIP,
)
"""What `TrackedWindow.reason` counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedWindow:
    """The answer of one window; arrays over clocks."""

    start_collector_ns: int
    end_collector_ns: int
    instant_collector_ns: int
    """The instant of the offsets by the collector's clock."""
    anchor_local_ns: Int64s
    """Each clock's reading at the window's instant; NO_TSTAMP_NS where not reached."""
    offset_ns: Int64s
    """clock - reference there, rounded."""
    rate_ppb: Float64s
    rate_sd_ppb: Float64s
    sd_ns: Float64s
    bound_conditional_ns: Float64s
    bound_hard_ns: Float64s
    status: Int64s
    """A `correction.table.Status` each."""
    reason: NDArray[np.uint8]
    """Index into REASONS."""
    standing: Int64s
    """A `correction.mesh.solve.Standing` each: why it is not determined."""
    update: Update
    links: Int64s
    """The edges of `solution`, in order: all that were measured lately."""
    links_measured: int
    """Links that this window measured."""
    half_round_trip_ns: Float64s
    """[link]: mean one-way delay of both directions; NaN where not measured now."""
    changed_links: Int64s
    """Links whose asymmetry changed: their average begins anew."""
    long_round_trips: Int64s
    """Links, in no loop, whose round trip their declared cable does not explain."""
    solution: MeshSolution
    """Of what stays: per link its asymmetry and whether it is bad; the certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """One window's equations with their solution."""

    window: WindowEdges
    moved: Motion
    relative_ns: Float64s
    """[clock]: motion since the averages."""
    links: Int64s
    solution: MeshSolution
    contradicted: Bools
    """[clock]: left out, since causality holds without it and not with it."""
    rate_ppb: Float64s
    rate_sd_ppb: Float64s
    changed_links: Int64s


def answer(
    solved: Solved, reader: WindowReader, model: FabricModel, clocks: ClockStates
) -> TrackedWindow:
    """Publish a window, and take it into the clocks' filters."""
    window, solution, reference = solved.window, solved.solution, model.reference
    reading = window.reading_ns
    theta = solved.relative_ns + solution.theta_ns
    here = (reading != NO_TSTAMP_NS) & np.isfinite(theta)
    if solution.cycle is not None:
        here[:] = False
    rest = np.where(here, theta, 0.0)
    base = reading[reference] if reading[reference] != NO_TSTAMP_NS else 0
    offset = np.where(here, reading - base, 0) + np.rint(rest).astype(np.int64)
    length_s = (window.end_collector_ns - window.start_collector_ns) / NS_PER_S
    wander = np.sqrt(2.0) * model.wander_ns_per_s_sqrt_s
    noise = np.hypot(
        np.where(here, solved.moved.sd_ns, np.inf), CENTRE_WANDER * wander * length_s**1.5
    )
    noise = np.where(np.isfinite(noise), noise, solution.sd_ns)
    # what stays is no news of the clock: it changes when another link is called bad
    moves = np.where(here, solved.relative_ns, 0.0)
    done = update(
        clocks,
        reading,
        np.where(here, reading - base, 0) + np.rint(moves).astype(np.int64),
        moves - np.rint(moves),
        np.where(here, noise, 1.0),
        solved.rate_ppb,
        solved.rate_sd_ppb,
        here & np.isfinite(solved.rate_ppb),
        model.wander_ns_per_s_sqrt_s,
    )
    sd = np.hypot(solution.sd_ns, noise)
    sd[reference] = 0.0
    status, reason = _judged(solved, here)
    hard = solution.bound_hard_ns + ROUNDING_NS
    hidden, long = _hidden(solved, reader, model)
    reason[(hidden > 0.0) & (status == Status.OK)] = REASONS.index(publish.LONG_ROUND_TRIP)
    conditional = CONDITIONAL_SIGMAS * np.hypot(sd, ROUNDING_SD_NS) + hidden
    conditional = np.minimum(np.where(status == Status.OK, conditional, hard), hard)
    lost = status >= Status.INCONSISTENT
    hard[lost] = conditional[lost] = np.inf
    if not lost[reference]:
        hard[reference] = conditional[reference] = 0.0
    return TrackedWindow(
        start_collector_ns=window.start_collector_ns,
        end_collector_ns=window.end_collector_ns,
        instant_collector_ns=window.instant_collector_ns,
        anchor_local_ns=np.where(here, reading, NO_TSTAMP_NS),
        offset_ns=offset,
        rate_ppb=solved.rate_ppb,
        rate_sd_ppb=solved.rate_sd_ppb,
        sd_ns=sd,
        bound_conditional_ns=conditional,
        bound_hard_ns=hard,
        status=status,
        reason=reason,
        standing=solution.standing.astype(np.int64),
        update=done,
        links=solved.links,
        links_measured=int(np.count_nonzero(window.known)),
        half_round_trip_ns=window.half_round_trip_ns,
        changed_links=solved.changed_links,
        long_round_trips=long,
        solution=solution,
    )


def _judged(solved: Solved, here: Bools) -> tuple[Int64s, NDArray[np.uint8]]:
    """(status, reason) of every clock."""
    standing, moved = solved.solution.standing, solved.window.moved
    status = np.full(len(standing), int(Status.FLOATING))
    reason = np.full(len(standing), REASONS.index(publish.NO_PATH), np.uint8)

    def mark(which: Bools, is_now: Status, why: str) -> None:
        status[which] = is_now
        reason[which] = REASONS.index(why)

    mark(here & (standing <= Standing.SINGLE_HOMED), Status.OK, "")
    mark(here & (standing == Standing.AMBIGUOUS), Status.AMBIGUOUS, publish.AMBIGUOUS_CUT)
    mark(here & (standing == Standing.UNDECIDED), Status.AMBIGUOUS, UNDECIDED)
    mark(standing == Standing.CONTRADICTED, Status.INCONSISTENT, REJECTED)
    for kind, why in (
        (Moved.STEPPED, publish.STEPPED),
        (Moved.JUMPED, publish.JUMPED),
        (Moved.STUCK, publish.STUCK),
    ):
        mark(moved == kind, Status.INCONSISTENT, why)
    mark(solved.contradicted, Status.INCONSISTENT, publish.CONTRADICTED)
    return status, reason


def _hidden(solved: Solved, reader: WindowReader, model: FabricModel) -> tuple[Float64s, Int64s]:
    """([clock]: what too long round trips on its way may hide in one direction, their links).

    A link in a loop shows its asymmetry itself.
    """
    window, core = solved.window, solved.solution.core
    hidden = np.zeros(len(model.clocks))
    with np.errstate(invalid="ignore"):
        long = window.known & (
            window.half_round_trip_ns - ROUND_TRIP_SIGMAS * window.noise_sd_ns
            > reader.largest_half_ns
        )
    long[solved.links[core.edges]] = False
    nobody = np.zeros(len(model.clocks), np.bool_)
    ends = np.stack([reader.a, reader.b], axis=1)
    for link in np.flatnonzero(long).tolist():
        others = window.known.copy()
        others[link] = False
        behind = ~reached(ends, others, model.reference, len(model.clocks), blocked=nobody)
        hidden[behind] += window.half_round_trip_ns[link] - reader.least_ns[link]
    return hidden, np.flatnonzero(long)
