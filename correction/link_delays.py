# SPDX-License-Identifier: Apache-2.0
"""One-way delays of all links between their stamp points, as a solve left them.

    delay(a -> b) = half round trip + (a + shared) + declared latencies and serialisation
    delay(b -> a) = half round trip - (a + shared) + declared ones of that direction

a is the cable's asymmetry, half the one-way difference; `shared` are stamp-point constants of a
device model. The half round trip is measured, the difference rests on the prior and, without one,
on causality alone.
"""

from dataclasses import dataclass
from enum import StrEnum, unique

import numpy as np

from correction.causal_limits import CausalLimits, fit_sd_ns
from correction.equations import MEASUREMENT_SD_NS_MIN
from correction.model import ClockKind, FabricModel
from correction.solution import FabricSolution, SolveOptions
from correction.table import Status
from correction.timebase import Bools, Float64s

DOUBTFUL_HOST = "a host's stamps contradict causality in some window"
ACROSS_CUT = "lies across a cut with at least half of its links bad"


@unique
class LinkBasis(StrEnum):
    """What a link's one-way delay rests on."""

    MEASURED = "measured"
    """Round trip and difference: the link lies in a loop."""
    ROUND_TRIP = "round-trip"
    """The round trip; the link lies in no loop, so that its cable counts as alike both ways."""
    AMBIGUOUS = "ambiguous"
    """The difference is not determined by the data."""
    UNMEASURED = "unmeasured"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDelays:
    """Arrays indexed by link as in `model.links`."""

    model: FabricModel
    half_ns: Float64s
    """Mean of both directions between the stamps, declared latencies removed; NaN unmeasured."""
    half_sd_ns: Float64s
    difference_ns: Float64s
    """a + shared: half the one-way difference, positive if a -> b is slower."""
    cable_a_ns: Float64s
    """a alone."""
    covariance_ns2: Float64s
    """[link, link]: of `difference_ns`, under the prior."""
    fit_sd_ns: Float64s
    """What clocks that wander leave of each link's measured difference, beyond the covariance:
    links of one clock are sampled at different times."""
    basis: tuple[LinkBasis, ...]
    doubt: tuple[str, ...]
    """Why the prior does not bound a link's difference; empty where it does."""
    widen_ns: Float64s
    """What a round trip longer than its declared cable may hide in one direction."""
    rate_ppb: Float64s
    """[clock]: rate error against the reference, mean over windows; NaN where not known."""
    limits: CausalLimits
    sigmas: float
    """k of the conditional bound."""


def link_delays(solution: FabricSolution, options: SolveOptions | None = None) -> LinkDelays:
    """What the solve says of every link."""
    measured, links = solution.measured, solution.links
    equations = measured.equations
    seen = np.isfinite(equations.half_round_trip_ns)
    number = seen.sum(axis=0)
    variance = np.where(seen, equations.sd_ns**2, 0.0).sum(axis=0)
    wander = np.where(seen, fit_sd_ns(measured)[:, None] ** 2, 0.0).sum(axis=0)
    doubt = _doubt(solution)
    widen = np.zeros(len(solution.model.links))
    for one in measured.long_round_trips:
        widen[one.link] = max(widen[one.link], one.widen_ns)
    return LinkDelays(
        model=solution.model,
        half_ns=links.half_round_trip_ns,
        # what stamps and the shape of the jitter leave is the same in all windows
        half_sd_ns=np.maximum(np.sqrt(variance) / np.maximum(number, 1), MEASUREMENT_SD_NS_MIN),
        difference_ns=links.a_ns + links.shared_ns,
        cable_a_ns=links.a_ns,
        covariance_ns2=links.covariance_ns2,
        fit_sd_ns=np.sqrt(wander) / np.maximum(number, 1),
        basis=tuple(
            _basis(bool(number[e]), doubt[e] == ACROSS_CUT, bool(links.observable[e]))
            for e in range(len(number))
        ),
        doubt=doubt,
        widen_ns=widen,
        rate_ppb=_mean_rates(solution),
        limits=CausalLimits(measured),
        sigmas=(options or SolveOptions()).sigmas,
    )


def _basis(measured: bool, ambiguous: bool, observable: bool) -> LinkBasis:
    if not measured:
        return LinkBasis.UNMEASURED
    if ambiguous:
        return LinkBasis.AMBIGUOUS
    return LinkBasis.MEASURED if observable else LinkBasis.ROUND_TRIP


def _doubt(solution: FabricSolution) -> tuple[str, ...]:
    clocks = solution.model.clocks
    contradicted: Bools = np.any(solution.measured.misfits.contradicted, axis=0)
    across = {link for cut in solution.cuts for link in (*cut.bad_links, *cut.kept_links)}
    result = []
    for index, link in enumerate(solution.model.links):
        hosts = [c for c in (link.a, link.b) if clocks[c].kind is ClockKind.NIC]
        if index in across:
            result.append(ACROSS_CUT)
        else:
            result.append(DOUBTFUL_HOST if contradicted[hosts].any() else "")
    return tuple(result)


def _mean_rates(solution: FabricSolution) -> Float64s:
    count = len(solution.model.clocks)
    total, number = np.zeros(count), np.zeros(count)
    for window in solution.windows:
        sound = (window.status == Status.OK) | (window.status == Status.AMBIGUOUS)
        total += np.where(sound, window.rate_ppb, 0.0)
        number += sound
    mean: Float64s = np.divide(total, number, out=np.full(count, np.nan), where=number > 0)
    return mean
