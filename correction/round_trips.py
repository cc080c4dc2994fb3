# SPDX-License-Identifier: Apache-2.0
"""Round trips longer than the declared cable explains: evidence against equal directions.

In a loop the solve sees an asymmetry itself. On any other link (every access cable) nothing but
its declared length can contradict a late stamp or a slow direction: delay that exceeds the longest
cable may lie in one direction alone, so the prior of the conditional bound is refuted there.
"""

from dataclasses import dataclass

import numpy as np

from correction.equations import Equations
from correction.identifiability import reached
from correction.model import FabricModel, Link, link_ends
from correction.timebase import Bools, Float64s

SIGMAS = 6.0
HEALTHY_SDS = 3.0
"""A healthy cable's own asymmetry lengthens its round trip by up to so many sds each way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRoundTrip:
    """One link in one window."""

    window: int
    link: int
    in_loop: bool
    excess_ns: float
    """Round trip beyond twice the declared largest delay."""
    widen_ns: float
    """Largest error of the clock difference if all delay beyond the least possible lies in one
    direction; 0 for a link in a loop."""


def long_round_trips(
    equations: Equations, model: FabricModel, in_loop: Bools
) -> tuple[LongRoundTrip, ...]:
    """All links and windows whose round trip refutes their declaration."""
    largest = np.array([largest_half_ns(link, model) for link in model.links], np.float64)
    half = equations.half_round_trip_ns
    with np.errstate(invalid="ignore"):
        long = equations.known & (half - SIGMAS * equations.sd_ns > largest)
    return tuple(
        LongRoundTrip(
            window=w,
            link=e,
            in_loop=bool(in_loop[e]),
            excess_ns=2.0 * float(half[w, e] - model.links[e].max_delay_ns),
            widen_ns=0.0 if in_loop[e] else float(half[w, e]) - model.links[e].min_delay_ns,
        )
        for w, e in np.argwhere(long).tolist()
    )


def largest_half_ns(link: Link, model: FabricModel) -> float:
    """Mean of both directions at most, with stamp constants and quantum at their worst; infinite
    where no longest cable is declared."""
    if not link.max_delay_ns:
        return float("inf")
    points = (link.a_egress, link.b_ingress, link.b_egress, link.a_ingress)
    quantum = max(model.clocks[link.a].stamp_unit_ns, model.clocks[link.b].stamp_unit_ns)
    stamps = 0.5 * sum(point.uncertainty_ns for point in points) + quantum
    return link.max_delay_ns + stamps + HEALTHY_SDS * link.asymmetry_sd_ns


def widened_ns(
    found: tuple[LongRoundTrip, ...], equations: Equations, model: FabricModel, window: int
) -> Float64s:
    """[clock]: what the refuted links between a clock and the reference may hide."""
    ends = link_ends(model)
    n = len(model.clocks)
    nobody = np.zeros(n, np.bool_)
    total = np.zeros(n)
    for one in found:
        if one.window != window or one.in_loop:
            continue
        others = equations.known[window].copy()
        others[one.link] = False
        behind = ~reached(ends, others, model.reference, n, blocked=nobody)
        total[behind] += one.widen_ns
    return total
