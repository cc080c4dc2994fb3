# SPDX-License-Identifier: Apache-2.0
"""Where a clock can be at an instant, given the windows of readings around it.

Each reading i holds the offset at its time within [low_i, high_i]. Seen from an instant tau, the
offset there is v and its rate r, and at reading i it was v + r (t_i - tau), give or take what the
rate may have changed meanwhile (`Slack`). All pairs (v, r) that fit every reading are a convex
polygon; eliminating r (Fourier and Motzkin) leaves the exact interval of v: the smallest of what
each pair of readings allows.
"""

from dataclasses import dataclass

import numpy as np

from correction.timebase import NS_PER_S, Bools, Float64s, Int64s

NEIGHBOURS = 24
"""Readings that an instant is judged by: the nearest. Those further away are loosened by wander."""
NEIGHBOURS_STEERED = 10
"""The same where somebody steers: what is further away is loosened by microseconds."""
CHUNK = 512
"""Instants at once: 24 x 24 pairs each are 2 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slack:
    """How far the offset may leave a straight line."""

    steering_ppb: float | Float64s
    """One number, or one per instant."""
    wander_ns_per_s_sqrt_s: float
    sigmas: float
    """Standard deviations of wander."""
    rate_ppb_max: float

    def away_ns(self, distance_ns: Float64s) -> Float64s:
        """At a distance in time from where offset and rate are taken."""
        seconds = np.abs(distance_ns) / NS_PER_S
        steering = np.asarray(self.steering_ppb, np.float64)
        if steering.ndim and seconds.ndim > steering.ndim:
            steering = steering[:, None]
        wander = self.sigmas * self.wander_ns_per_s_sqrt_s / np.sqrt(3.0)
        away: Float64s = steering * seconds + wander * seconds**1.5
        return away


def nearest_readings(
    at_ns: Float64s, times_ns: Float64s, width: int = NEIGHBOURS
) -> tuple[Int64s, Bools]:
    """[instant, neighbour]: indices of the nearest readings, ascending, and which exist."""
    count = len(times_ns)
    width = min(width, count)
    place = np.searchsorted(times_ns, at_ns)
    first = np.clip(place - width // 2, 0, count - width)
    index = first[:, None] + np.arange(width)[None, :]
    return index, np.ones(index.shape, np.bool_)


def earlier_readings(count: int) -> tuple[Int64s, Bools]:
    """[reading, neighbour]: the half as many just before each reading, and which exist."""
    index = np.arange(count)[:, None] - 1 - np.arange(NEIGHBOURS // 2)[None, :]
    return np.maximum(index, 0), index >= 0


def feasible_ns(
    at_ns: Float64s,
    neighbours: tuple[Int64s, Bools],
    *,
    times_ns: Float64s,
    low_ns: Float64s,
    high_ns: Float64s,
    slack: Slack,
) -> tuple[Float64s, Float64s]:
    """(lowest, highest) offset per instant; lowest > highest: the readings contradict each other.

    >>> slack = Slack(steering_ppb=0.0, wander_ns_per_s_sqrt_s=0.0, sigmas=6.0, rate_ppb_max=1e9)
    >>> times = np.array([0.0, 1e9])
    >>> middle = np.array([0.5e9])
    >>> low, high = feasible_ns(middle, nearest_readings(middle, times), times_ns=times,
    ...     low_ns=np.array([0.0, 10.0]), high_ns=np.array([2.0, 14.0]), slack=slack)
    >>> low.tolist(), high.tolist()
    ([5.0], [8.0])
    """
    index, exists = neighbours
    away = times_ns[index] - at_ns[:, None]
    loose = slack.away_ns(away)
    low, high = low_ns[index] - loose, high_ns[index] + loose
    lowest, highest = np.empty(len(at_ns)), np.empty(len(at_ns))
    for start in range(0, len(at_ns), CHUNK):
        part = slice(start, start + CHUNK)
        here = (away[part], exists[part], slack.rate_ppb_max)
        highest[part] = _highest(low[part], high[part], *here)
        lowest[part] = -_highest(-high[part], -low[part], *here)
    return lowest, highest


def _highest(
    low: Float64s, high: Float64s, away: Float64s, exists: Bools, rate_ppb_max: float
) -> Float64s:
    """Largest v such that some r has low <= v + r * away <= high everywhere."""
    # |r| limited: v <= high_i + R |t_i - tau|
    cone = np.where(exists, high + rate_ppb_max * np.abs(away) / NS_PER_S, np.inf)
    best: Float64s = cone.min(axis=1, initial=np.inf)
    d_i, d_j = away[:, :, None], away[:, None, :]
    apart = d_j - d_i
    both = exists[:, :, None] & exists[:, None, :] & (apart != 0)
    divisor = np.where(both, apart, 1.0)
    # an upper limit on either side of tau: between two readings
    between = both & (d_i <= 0) & (d_j >= 0)
    value = (high[:, :, None] * d_j - high[:, None, :] * d_i) / divisor
    best = np.minimum(best, np.where(between, value, np.inf).min(axis=(1, 2)))
    # a lower limit behind an upper one on the same side: extrapolated
    beyond = both & (d_i * d_j >= 0) & (np.abs(d_i) < np.abs(d_j))
    value = (high[:, :, None] * d_j - low[:, None, :] * d_i) / divisor
    best = np.minimum(best, np.where(beyond, value, np.inf).min(axis=(1, 2)))
    return best
