# SPDX-License-Identifier: Apache-2.0
"""Weighted sums of directed link delays, with what is certain and what is likely of them.

A path's delay, the difference of two paths and half of that difference are all such sums, so one
place combines their uncertainties. A link that a sum crosses both ways leaves only its asymmetry:
round trips cancel, and links are correlated through the loops they share.

Without a prior: over a path from clock u to clock v the differences telescope, and

    sum of (a + shared) with the signs of travel = sum of the measured y - (theta_v - theta_u)

so that causality between the two ends bounds the sum, however long the path is. Two paths between
the same clocks differ by what was measured, clocks or no clocks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from correction.link_delays import LinkBasis, LinkDelays
from correction.model import FabricModel
from correction.prepare import declared_delay_ns
from correction.table import HARD_SIGMAS
from correction.timebase import Float64s, Int64s

ROUNDING_NS = 1.0
"""Stamps are whole ns."""
ROUNDING_SD_NS = 0.5
EDGE_SHARE = 1.0 - np.log(2.0)
"""How far an envelope's edge, the mean of the lower half of the samples, lies above the least
delay, as a share of the mean of an exponential jitter."""


class DirectedLink(NamedTuple):
    """A link in the direction of travel."""

    link: int
    reverse: bool
    """b -> a as the model lists it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelaySum:
    """half . half_ns + difference . difference_ns + fixed_ns."""

    half: Mapping[int, float]
    difference: Mapping[int, float]
    fixed_ns: float
    """Declared latencies and serialisation."""
    clocks: tuple[int, int]
    """(u, v): between which the differences telescope."""
    flux: float
    """How often (theta_v - theta_u) stands in the sum: 1 for a path u -> v, -1 for v -> u."""

    def plus(self, other: "DelaySum", factor: float = 1.0) -> "DelaySum":
        """self + factor x other, a sum between the same two clocks in either order."""
        if set(self.clocks) != set(other.clocks):
            raise ValueError("the two sums are not between the same clocks")
        sign = 1.0 if self.clocks == other.clocks else -1.0
        return DelaySum(
            half=_merged(self.half, other.half, factor),
            difference=_merged(self.difference, other.difference, factor),
            fixed_ns=self.fixed_ns + factor * other.fixed_ns,
            clocks=self.clocks,
            flux=self.flux + factor * sign * other.flux,
        )

    def times(self, factor: float) -> "DelaySum":
        """factor x self."""
        return DelaySum(
            half={link: factor * weight for link, weight in self.half.items()},
            difference={link: factor * weight for link, weight in self.difference.items()},
            fixed_ns=factor * self.fixed_ns,
            clocks=self.clocks,
            flux=factor * self.flux,
        )

    @property
    def links(self) -> tuple[int, ...]:
        """Links that have a weight."""
        return tuple(sorted(self.half.keys() | self.difference.keys()))


def _merged(
    first: Mapping[int, float], second: Mapping[int, float], factor: float
) -> dict[int, float]:
    total = dict(first)
    for link, weight in second.items():
        total[link] = total.get(link, 0.0) + factor * weight
    return {link: weight for link, weight in total.items() if weight != 0.0}


def sum_of_links(
    links: Iterable[DirectedLink], model: FabricModel, *, frame_bytes: float
) -> DelaySum:
    """The delay of frames of that length over these links, one after the other."""
    half: dict[int, float] = {}
    difference: dict[int, float] = {}
    fixed_ns, ends = 0.0, list[int]()
    length = np.array([frame_bytes], np.float64)
    for number, reverse in links:
        link = model.links[number]
        sign = -1.0 if reverse else 1.0
        half[number] = half.get(number, 0.0) + 1.0
        difference[number] = difference.get(number, 0.0) + sign
        fixed_ns += float(declared_delay_ns(link, reverse=reverse, frame_bytes=length)[0])
        ends += (link.b, link.a) if reverse else (link.a, link.b)
    if not ends:
        raise ValueError("a path crosses at least one link")
    return DelaySum(
        half=half, difference=difference, fixed_ns=fixed_ns, clocks=(ends[0], ends[-1]), flux=1.0
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayEstimate:
    """A value with both bounds; NaN and infinite where `reason` says why nothing is known."""

    value_ns: float
    sd_ns: float
    """Under the prior."""
    bound_conditional_ns: float
    """Half-width around the value, under the prior."""
    hard_low_ns: float
    """Causality and calibration leave nothing below."""
    hard_high_ns: float
    reason: str = ""
    """Why there is no value, or why the conditional bound is as wide as the hard one."""

    @property
    def known(self) -> bool:
        """There is a value."""
        return bool(np.isfinite(self.value_ns))

    @property
    def bound_hard_ns(self) -> float:
        """Half-width around the value that covers the hard interval."""
        return max(self.hard_high_ns - self.value_ns, self.value_ns - self.hard_low_ns)


def unknown(reason: str) -> DelayEstimate:
    """Nothing is known, and why."""
    return DelayEstimate(
        value_ns=np.nan,
        sd_ns=np.inf,
        bound_conditional_ns=np.inf,
        hard_low_ns=-np.inf,
        hard_high_ns=np.inf,
        reason=reason,
    )


def evaluate(total: DelaySum, delays: LinkDelays) -> DelayEstimate:
    """The sum's value, its deviation with all covariances, and both bounds."""
    missing = [e for e in total.links if delays.basis[e] is LinkBasis.UNMEASURED]
    if missing:
        names = ", ".join(delays.model.links[e].name for e in missing)
        return unknown(f"no round trip was measured over {names}")
    value, variance = likely(total, delays)
    half, weight = np.array(list(total.half), np.int64), np.array(list(total.half.values()))
    inner = np.array(list(total.difference), np.int64)
    sign = np.array(list(total.difference.values()))
    low, high, reason = _hard_interval(total, delays)
    value = min(max(value, low), high)
    hard = max(high - value, value - low)
    conditional = delays.sigmas * float(np.hypot(np.sqrt(variance), ROUNDING_SD_NS))
    conditional += float(np.abs(sign) @ delays.widen_ns[inner])
    conditional += abs(float(weight @ _edge_ns(half, delays.model)))
    if total.flux:
        doubts = dict.fromkeys(delays.doubt[e] for e in inner.tolist() if delays.doubt[e])
        if doubts:
            conditional, reason = np.inf, "; ".join(filter(None, (reason, *doubts)))
    return DelayEstimate(
        value_ns=value,
        sd_ns=float(np.sqrt(variance)),
        bound_conditional_ns=min(conditional, hard),
        hard_low_ns=low,
        hard_high_ns=high,
        reason=reason,
    )


def likely(total: DelaySum, delays: LinkDelays) -> tuple[float, float]:
    """(value, variance) under the prior, of links that have been measured."""
    half, weight = np.array(list(total.half), np.int64), np.array(list(total.half.values()))
    inner = np.array(list(total.difference), np.int64)
    sign = np.array(list(total.difference.values()))
    value = float(weight @ delays.half_ns[half] + sign @ delays.difference_ns[inner])
    variance = float(weight**2 @ delays.half_sd_ns[half] ** 2)
    variance += float(sign**2 @ delays.fit_sd_ns[inner] ** 2)
    variance += max(0.0, float(sign @ delays.covariance_ns2[np.ix_(inner, inner)] @ sign))
    return value + total.fixed_ns, variance


def _edge_ns(links: Int64s, model: FabricModel) -> Float64s:
    """What declared jitter leaves in each link's half round trip. It is alike on all links, so it
    cancels between paths of equally many."""
    ends = [(model.links[e].a, model.links[e].b) for e in links.tolist()]
    jitter = [sum(model.clocks[c].stamp_jitter_ns for c in pair) / 2 for pair in ends]
    edge: Float64s = EDGE_SHARE * np.array(jitter, np.float64)
    return edge


def _hard_interval(total: DelaySum, delays: LinkDelays) -> tuple[float, float, str]:
    """The intersection over all windows that measured every link; cables do not change.

    Where no window has them all, the sum of what each link's own windows leave of it.
    """
    links = np.array(total.links, np.int64)
    whole = np.flatnonzero(delays.limits.known[:, links].all(axis=1)).tolist()
    found = [_in_window(total, delays, w) for w in whole]
    if not found:
        found = [_link_by_link(total, delays)]
    low, high = max(one[0] for one in found), min(one[1] for one in found)
    if low > high:
        low, high = min(one[0] for one in found), max(one[1] for one in found)
        return low, high, "windows contradict each other: a cable changed"
    return low, high, ""


def _in_window(total: DelaySum, delays: LinkDelays, window: int) -> tuple[float, float]:
    limits = delays.limits
    centre, variance = total.fixed_ns, 0.0
    for link, weight in total.half.items():
        centre += weight * float(limits.half_ns[window, link])
        variance += (weight * float(limits.sd_ns[window, link])) ** 2
    for link, weight in total.difference.items():
        centre += weight * float(limits.y_ns[window, link])
        variance += (weight * float(limits.sd_ns[window, link])) ** 2
    margin = HARD_SIGMAS * float(np.sqrt(variance)) + ROUNDING_NS
    if total.flux == 0.0:
        return centre - margin, centre + margin
    between = limits.interval_ns(window, *total.clocks)
    ends = [total.flux * one for one in between]
    return centre - max(ends) - margin, centre - min(ends) + margin


def _link_by_link(total: DelaySum, delays: LinkDelays) -> tuple[float, float]:
    low = high = total.fixed_ns
    for number in total.links:
        link = delays.model.links[number]
        one = DelaySum(
            half={number: total.half.get(number, 0.0)},
            difference={number: total.difference.get(number, 0.0)},
            fixed_ns=0.0,
            clocks=(link.a, link.b),
            flux=total.difference.get(number, 0.0),
        )
        windows = np.flatnonzero(delays.limits.known[:, number]).tolist()
        if not windows:
            return -np.inf, np.inf
        found = [_in_window(one, delays, w) for w in windows]
        low += max(each[0] for each in found)
        high += min(each[1] for each in found)
    return low, high
