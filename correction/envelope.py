# SPDX-License-Identifier: Apache-2.0
"""Robust lower envelopes: per link and window one slope, per direction, queue and class an offset.

What follows the egress stamp (MAC FIFO, pause) only delays, so the lower edge of x against time is
the cable. Both directions of a link see the same clock difference with opposite sign; they share
one slope and are evaluated at one instant of clock a. Queues and length classes keep offsets of
their own, since mixing them between directions looks like asymmetry (int_and_p4 section 9).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.grouped import group_mean, group_quantile, group_ranks, group_sum
from correction.model import FabricModel
from correction.prepare import Prepared
from correction.timebase import NS_PER_S, Bools, Float64s

QUANTILE = 0.3
"""Level of the regression that finds the slope: low, yet far from what one bad stamp can move."""
EDGE_SHARE = 0.5
"""The offset is the mean of the lowest half (less noisy than the minimum, blind to the tail)."""
ITERATIONS = 25
EPSILON_NS = 0.5
"""Residuals below this count alike in the reweighting: about the quantum of a good stamp."""
NEAR_SCALES = 6.0
"""Above the first quartile by more than this many of its own distances from the lowest, a sample
is late even if it is in the lower half: up to three quarters of the packets may be."""
QUARTILE_SHARE = 0.24
"""Distance of the 5 % from the 25 % quantile of exponential jitter, as a share of its mean."""
SPREAD_OF_TIGHT = 2.7
"""From that distance to the one between the 5 % and the 50 % quantile."""
ALIKE_S = 1e-3
"""Stamps within such a time are rounded alike, however many they are: clocks that differ by 1 ppm
move by 1 ns in it. So a burst of a few ms says little of a second."""
ROUNDING_SD = 6.0**-0.5
"""Sd of a difference of two rounded stamps, in quanta."""
BELOW_SCALES = 12.0
"""Further below the edge than this many spreads, a stamp is wrong, not early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelopes:
    """One row per (window, link, direction, queue, length class), sorted by that key."""

    window: NDArray[np.int64]
    link: NDArray[np.int64]
    reverse: Bools
    queue_id: NDArray[np.int64]
    length_class: NDArray[np.int64]
    count: NDArray[np.int64]
    edge_ns: Float64s
    """Lower edge of x at `at_a_rest_ns`."""
    at_a_rest_ns: Float64s
    """Instant on clock a (minus its anchor) the edge refers to: the samples' mean."""
    sd_ns: Float64s
    """Standard deviation of the edge at that instant."""
    spread_ns: Float64s
    """Width of the lower half of the residuals: the size of the jitter."""
    pair: NDArray[np.int64]
    """Row of `Slopes` of each envelope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slopes:
    """One row per (window, link): rate of clock b against clock a, minus 1."""

    window: NDArray[np.int64]
    link: NDArray[np.int64]
    slope: Float64s
    """d(b - a)/da, dimensionless."""
    sd: Float64s
    """Its standard deviation from the jitter; infinite where the window gives none."""
    misfit_ns: Float64s
    """Half-width of the residuals about the line: far above the jitter when a clock stepped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Envelopes, slopes and each sample's height above its envelope."""

    envelopes: Envelopes
    slopes: Slopes
    group: NDArray[np.int64]
    """Envelope of each sample."""
    above_ns: Float64s
    """Sample minus envelope at the sample's own instant."""
    below: Bools
    """So far below the envelope that the stamp must be wrong."""


def model_envelopes(prepared: Prepared, model: FabricModel) -> Fit:
    """Fit all of them, with the stamp units and jitters that the model declares."""
    units = [clock.stamp_unit_ns for clock in model.clocks]
    quantum_ns = np.array([max(units[link.a], units[link.b]) for link in model.links], np.float64)
    jitters = [clock.stamp_jitter_ns for clock in model.clocks]
    jitter_ns = np.array([max(jitters[link.a], jitters[link.b]) for link in model.links], float)
    return fit_envelopes(prepared, quantum_ns=quantum_ns, jitter_ns=jitter_ns)


def fit_envelopes(prepared: Prepared, *, quantum_ns: Float64s, jitter_ns: Float64s) -> Fit:
    """Fit all of them.

    Per link: `quantum_ns` is the coarser stamp unit of its ends, `jitter_ns` the larger declared
    jitter; few samples cannot show a spread smaller than these.
    """
    key = np.stack(
        [
            prepared.window,
            prepared.link,
            prepared.reverse.astype(np.int64),
            prepared.queue_id,
            prepared.length_class,
        ]
    )
    keys, group = np.unique(key, axis=1, return_inverse=True)
    group = group.ravel()
    groups = keys.shape[1]
    pair_keys, pair_of_group = np.unique(keys[:2], axis=1, return_inverse=True)
    pair_of_group = pair_of_group.ravel()
    pairs = pair_keys.shape[1]
    sign = np.where(prepared.reverse, -1.0, 1.0)
    pair = pair_of_group[group]
    time_s, x = prepared.a_rest_ns / NS_PER_S, prepared.x_ns
    even = np.ones(len(x))
    middle_s = group_mean(group, time_s, even, groups)
    base_ns = group_quantile(group, x, 0.5, groups)  # keeps sums of squares small
    t, v = time_s - middle_s[group], x - base_ns[group]

    slope, edge = _quantile_lines(t, v, sign, group, pair, groups, pairs)
    residual = v - edge[group] - slope[pair] * sign * t
    ranks = group_ranks(group, residual, groups)
    quantum = quantum_ns[keys[1]]
    low = group_quantile(group, residual, 0.25, groups)
    under = low - group_quantile(group, residual, 0.05, groups)
    over = group_quantile(group, residual, EDGE_SHARE, groups) - low
    # one early stamp spoils the distance below the quartile, many late ones that above it
    tight = np.maximum(np.minimum(under, over), 0.0)
    tight = np.maximum(tight, QUARTILE_SHARE * jitter_ns[keys[1]])
    scale = spread = np.maximum(SPREAD_OF_TIGHT * tight, quantum)
    tight = np.maximum(tight, quantum)
    below = residual < low[group] - BELOW_SCALES * scale[group]
    near = residual <= (low + NEAR_SCALES * tight)[group]
    lower_half = (ranks.rank < np.ceil(EDGE_SHARE * ranks.size)[group]) & near & ~below
    used = lower_half.astype(np.float64)
    edge = edge + group_mean(group, residual, used, groups)
    number = np.maximum(group_sum(group, used, groups), 1.0)
    above = v - edge[group] - slope[pair] * sign * t

    # the slope's own noise, from the spread of the samples that carry it
    pair_spread = group_mean(pair_of_group, scale, ranks.size.astype(np.float64), pairs)
    lever = group_sum(pair, t * t, pairs)
    slope_sd = np.full(pairs, np.inf)
    np.divide(1.1 * pair_spread, np.sqrt(lever), out=slope_sd, where=lever > 1e-6)
    count = np.maximum(np.bincount(pair, minlength=pairs), 1)
    different = lever * _moments(pair, time_s, pairs) / count
    rounding = ROUNDING_SD * quantum_ns[pair_keys[1]]
    slope_sd = np.hypot(slope_sd, rounding / np.sqrt(np.maximum(different, 1e-12)))
    misfit = group_quantile(pair, np.abs(above), 0.8, pairs)
    return Fit(
        envelopes=Envelopes(
            window=keys[0],
            link=keys[1],
            reverse=keys[2].astype(np.bool_),
            queue_id=keys[3],
            length_class=keys[4],
            count=ranks.size,
            edge_ns=edge + base_ns,
            at_a_rest_ns=middle_s * NS_PER_S,
            sd_ns=_edge_sd_ns(scale, quantum, number),
            spread_ns=spread,
            pair=pair_of_group,
        ),
        slopes=Slopes(
            window=pair_keys[0],
            link=pair_keys[1],
            slope=slope / NS_PER_S,
            sd=slope_sd / NS_PER_S,
            misfit_ns=misfit,
        ),
        group=group,
        above_ns=above,
        below=below,
    )


def _moments(pair: NDArray[np.int64], time_s: Float64s, pairs: int) -> NDArray[np.int64]:
    """Per pair, in how many spans of ALIKE_S it has samples."""
    moment = np.floor(time_s / ALIKE_S).astype(np.int64)
    moment -= moment.min(initial=0)
    moments = int(moment.max(initial=0)) + 1
    return np.bincount(np.unique(pair * moments + moment) // moments, minlength=pairs)


def _edge_sd_ns(scale_ns: Float64s, quantum_ns: Float64s, number: Float64s) -> Float64s:
    """Sd of the mean of the lowest `number` residuals.

    Factors measured on exponential jitter of 0 to 9 quanta and 2 to 60 samples
    (tests/unit/correction/test_envelope.py); few samples misjudge their own spread.
    """
    variance = ((0.6 * scale_ns) ** 2 + quantum_ns**2 / 12.0) / number
    sd: Float64s = (1.0 + 1.2 / number) * np.sqrt(variance)
    return sd


def _quantile_lines(
    t: Float64s,
    v: Float64s,
    sign: Float64s,
    group: NDArray[np.int64],
    pair: NDArray[np.int64],
    groups: int,
    pairs: int,
) -> tuple[Float64s, Float64s]:
    """Slope per pair (ns/s) and offset per group: quantile regression by reweighting."""
    pair_of, sign_of = np.zeros(groups, np.int64), np.ones(groups)
    pair_of[group], sign_of[group] = pair, sign
    weight = np.ones(len(v))
    slope, edge = np.zeros(pairs), np.zeros(groups)
    floor = np.maximum(group_quantile(pair, np.abs(v), 0.5, pairs), EPSILON_NS)
    for _ in range(ITERATIONS):
        t_mean = group_mean(group, t, weight, groups)
        v_mean = group_mean(group, v, weight, groups)
        dt, dv = t - t_mean[group], v - v_mean[group]
        over = group_sum(pair, weight * sign * dt * dv, pairs)
        under = group_sum(pair, weight * dt * dt, pairs)
        slope = np.divide(over, under, out=np.zeros(pairs), where=under > 1e-12)
        edge = v_mean - slope[pair_of] * sign_of * t_mean
        residual = v - edge[group] - slope[pair] * sign * t
        floor = np.maximum(0.5 * floor, EPSILON_NS)
        weight = np.where(residual >= 0.0, QUANTILE, 1.0 - QUANTILE) / np.maximum(
            np.abs(residual), floor[pair]
        )
    return slope, edge
