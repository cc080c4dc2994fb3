# SPDX-License-Identifier: Apache-2.0
"""Round trips longer than the declared cable explains: evidence against equal directions.

In a loop the solve sees one link's asymmetry itself. On any other link (every access cable), and on
all links of a cut together (a gradient over a tier, a switch that stamps late on every port),
nothing but the declared length can contradict a late stamp or a slow direction: delay that exceeds
the longest cable may lie in one direction alone, so the prior of the conditional bound is refuted
for all clocks that nothing else ties to the reference.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.bounds import shortest_ns
from correction.equations import Equations
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
    hides_ns: float
    """Largest error of the clock difference if all delay beyond the least possible lies in one
    direction."""

    @property
    def widen_ns(self) -> float:
        """What of it nothing else limits: 0 for a link in a loop."""
        return 0.0 if self.in_loop else self.hides_ns


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
            hides_ns=float(half[w, e]) - model.links[e].min_delay_ns,
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
    found: tuple[LongRoundTrip, ...],
    equations: Equations,
    model: FabricModel,
    window: int,
    bad: Bools,
) -> Float64s:
    """[clock]: what the refuted links between a clock and the reference may hide.

    A clock is tied to the reference by its best way: one without a refuted link leaves nothing to
    hide. Where at least half of a clock's links are refuted the others are not believed either.
    `bad` links tie nothing: their asymmetry was found by taking the others to be sound.
    """
    n, count = len(model.clocks), len(model.links)
    hides_ns, in_loop = np.zeros(count), np.zeros(count, np.bool_)
    for one in found:
        if one.window == window:
            hides_ns[one.link] = one.hides_ns
            in_loop[one.link] = one.in_loop
    tying = equations.known[window] & ~bad[:count]
    ends, hides_ns = link_ends(model)[tying], hides_ns[tying]
    if not hides_ns.any():
        return np.zeros(n)
    hides_ns = np.maximum(hides_ns, _disbelieved_ns(ends, hides_ns, in_loop[tying], n))
    total = shortest_ns(
        np.concatenate([ends[:, 0], ends[:, 1]]),
        np.concatenate([ends[:, 1], ends[:, 0]]),
        np.concatenate([hides_ns, hides_ns]),
        n,
        model.reference,
    )
    return np.where(np.isfinite(total), total, 0.0)


def _disbelieved_ns(
    ends: NDArray[np.int64], hides_ns: Float64s, refuted_in_loop: Bools, n: int
) -> Float64s:
    """[link]: the median of what refuted links hide at an end where these are half or more."""
    floor_ns = np.zeros(n)
    for clock in np.unique(ends[refuted_in_loop]).tolist():
        at_it = np.any(ends == clock, axis=1)
        refuted = at_it & refuted_in_loop
        if 2 * np.count_nonzero(refuted) >= np.count_nonzero(at_it):
            floor_ns[clock] = np.median(hides_ns[refuted])
    return np.maximum(floor_ns[ends[:, 0]], floor_ns[ends[:, 1]])
