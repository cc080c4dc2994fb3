# SPDX-License-Identifier: Apache-2.0
"""Robust lower envelopes: per link and window one slope, per direction, queue and class an offset.

What follows the egress stamp (MAC FIFO, pause) only delays, so the lower edge of x against time is
the cable. Both directions of a link see the same clock difference with opposite sign; they share
one slope and are evaluated at one instant of clock a. Queues and length classes keep offsets of
their own, since mixing them between directions looks like asymmetry (int_and_p4 section 9).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.envelope_lines import (
    centre,
    mean_of_lowest,
    moments,
    order_statistics,
    quantile_lines,
)
from correction.grouped import group_mean, group_sum
from correction.model import FabricModel, link_ends
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
    order: NDArray[np.int64]
    """The samples envelope by envelope."""
    start: NDArray[np.int64]
    """Where each envelope begins in `order`, and the end."""

    def quantiles(self, values: Float64s, levels: Sequence[float]) -> Float64s:
        """[envelope, level]: order statistics of values of the samples, levels rounded down."""
        found = np.zeros((len(self.start) - 1, len(levels)))
        order_statistics(values[self.order], self.start, np.array(levels), found)
        return found


def model_envelopes(prepared: Prepared, model: FabricModel) -> Fit:
    """Fit all of them, with the stamp units and jitters that the model declares."""
    ends = link_ends(model)
    unit = np.array([clock.stamp_unit_ns for clock in model.clocks], np.float64)
    jitter = np.array([clock.stamp_jitter_ns for clock in model.clocks], np.float64)
    quantum_ns, jitter_ns = unit[ends].max(axis=1), jitter[ends].max(axis=1)
    return fit_envelopes(prepared, quantum_ns=quantum_ns, jitter_ns=jitter_ns)


def fit_envelopes(prepared: Prepared, *, quantum_ns: Float64s, jitter_ns: Float64s) -> Fit:
    """Fit all of them.

    Per link: `quantum_ns` is the coarser stamp unit of its ends, `jitter_ns` the larger declared
    jitter; few samples cannot show a spread smaller than these.
    """
    packed = (prepared.window * len(quantum_ns) + prepared.link) << 17
    packed |= prepared.reverse.astype(np.int64) << 16
    packed |= prepared.queue_id << 8 | prepared.length_class
    order = np.argsort(packed, kind="stable")
    packed = packed[order]
    start = np.flatnonzero(np.r_[True, packed[1:] != packed[:-1]]) if len(packed) else order
    keys = packed[start]
    start = np.append(start, len(packed))
    window, link = np.divmod(keys >> 17, max(len(quantum_ns), 1))
    of_pair = keys >> 17
    pair_start = (
        np.flatnonzero(np.r_[True, of_pair[1:] != of_pair[:-1]]) if len(keys) else start[:0]
    )
    pair_of_group = np.repeat(np.arange(len(pair_start)), np.diff(np.append(pair_start, len(keys))))
    pair_start = np.append(pair_start, len(keys))
    lines = _lines(
        prepared.a_rest_ns[order] / NS_PER_S,
        prepared.x_ns[order],
        np.where(keys >> 16 & 1, -1.0, 1.0),
        start,
        pair_start,
        quantum=quantum_ns[link],
        jitter=jitter_ns[link],
    )

    # the slope's own noise, from the spread of the samples that carry it
    size = np.diff(start)
    pairs = len(pair_start) - 1
    pair_spread = group_mean(pair_of_group, lines.scale, size.astype(np.float64), pairs)
    slope_sd = np.full(pairs, np.inf)
    np.divide(1.1 * pair_spread, np.sqrt(lines.lever), out=slope_sd, where=lines.lever > 1e-6)
    count = np.maximum(np.diff(start[pair_start]), 1)
    different = lines.lever * lines.moments / count
    rounding = ROUNDING_SD * quantum_ns[link[pair_start[:-1]]]
    slope_sd = np.hypot(slope_sd, rounding / np.sqrt(np.maximum(different, 1e-12)))
    # back into the order of the samples
    group = np.empty(len(order), np.int64)
    group[order] = np.repeat(np.arange(len(keys)), size)
    above, below = np.empty(len(order)), np.empty(len(order), np.bool_)
    above[order], below[order] = lines.above, lines.below
    return Fit(
        envelopes=Envelopes(
            window=window,
            link=link,
            reverse=(keys >> 16 & 1).astype(np.bool_),
            queue_id=keys >> 8 & 0xFF,
            length_class=keys & 0xFF,
            count=size,
            edge_ns=lines.edge + lines.base,
            at_a_rest_ns=lines.middle_s * NS_PER_S,
            sd_ns=_edge_sd_ns(lines.scale, quantum_ns[link], lines.number),
            spread_ns=lines.spread,
            pair=pair_of_group,
        ),
        slopes=Slopes(
            window=window[pair_start[:-1]],
            link=link[pair_start[:-1]],
            slope=lines.slope / NS_PER_S,
            sd=slope_sd / NS_PER_S,
            misfit_ns=lines.misfit,
        ),
        group=group,
        above_ns=above,
        below=below,
        order=order,
        start=start,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    """Arrays over groups, pairs or samples, the latter group by group; ns, s and ns/s."""

    middle_s: Float64s
    base: Float64s
    edge: Float64s
    """Relative to `base`, at `middle_s`."""
    scale: Float64s
    spread: Float64s
    number: Float64s
    """Samples that the edge is the mean of."""
    slope: Float64s
    lever: Float64s
    moments: NDArray[np.int64]
    misfit: Float64s
    above: Float64s
    below: Bools


def _lines(
    time_s: Float64s,
    x_ns: Float64s,
    sign: Float64s,
    start: NDArray[np.int64],
    pair_start: NDArray[np.int64],
    *,
    quantum: Float64s,
    jitter: Float64s,
) -> _Lines:
    groups, pairs = len(start) - 1, len(pair_start) - 1
    size = np.diff(start)
    middle_s, base, edge = (np.zeros(groups) for _ in range(3))
    t, v = np.empty(len(x_ns)), np.empty(len(x_ns))
    centre(time_s, x_ns, start, middle_s, base, t, v)
    slope = np.zeros(pairs)
    quantile_lines(t, v, sign, start, pair_start, QUANTILE, EPSILON_NS, ITERATIONS, slope, edge)
    pair = np.repeat(np.arange(pairs), np.diff(pair_start))
    steep = slope[pair] * sign
    residual = v - np.repeat(edge, size) - np.repeat(steep, size) * t
    levels = np.zeros((groups, 3))
    order_statistics(residual, start, np.array([0.05, 0.25, EDGE_SHARE]), levels)
    low = levels[:, 1]
    under, over = low - levels[:, 0], levels[:, 2] - low
    # one early stamp spoils the distance below the quartile, many late ones that above it
    tight = np.maximum(np.minimum(under, over), 0.0)
    tight = np.maximum(tight, QUARTILE_SHARE * jitter)
    scale = np.maximum(SPREAD_OF_TIGHT * tight, quantum)
    tight = np.maximum(tight, quantum)
    least = low - BELOW_SCALES * scale
    lowest, number = np.zeros(groups), np.zeros(groups, np.int64)
    half = np.ceil(EDGE_SHARE * size).astype(np.int64)
    mean_of_lowest(residual, start, half, least, low + NEAR_SCALES * tight, lowest, number)
    edge = edge + lowest
    above = v - np.repeat(edge, size) - np.repeat(steep, size) * t
    first_row = start[pair_start]
    misfit, spans = np.zeros((pairs, 1)), np.zeros(pairs, np.int64)
    order_statistics(np.abs(above), first_row, np.array([0.8]), misfit)
    moments(time_s, first_row, ALIKE_S, spans)
    return _Lines(
        middle_s=middle_s,
        base=base,
        edge=edge,
        scale=scale,
        spread=scale,
        number=np.maximum(number, 1).astype(np.float64),
        slope=slope,
        lever=group_sum(np.repeat(np.arange(pairs), np.diff(first_row)), t * t, pairs),
        moments=spans,
        misfit=misfit[:, 0],
        above=above,
        below=residual < np.repeat(least, size),
    )


def _edge_sd_ns(scale_ns: Float64s, quantum_ns: Float64s, number: Float64s) -> Float64s:
    """Sd of the mean of the lowest `number` residuals.

    Factors measured on exponential jitter of 0 to 9 quanta and 2 to 60 samples
    (tests/unit/correction/test_envelope.py); few samples misjudge their own spread.
    """
    variance = ((0.6 * scale_ns) ** 2 + quantum_ns**2 / 12.0) / number
    sd: Float64s = (1.0 + 1.2 / number) * np.sqrt(variance)
    return sd
