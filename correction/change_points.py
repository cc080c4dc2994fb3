# SPDX-License-Identifier: Apache-2.0
"""Small steps of a clock inside a window: a line with one step against a line without, per link.

A step of clock b shows in b - a: later samples of a -> b rise and those of b -> a fall by the same
amount. Lateness (queues, pauses) only rises, so a step must show in both directions of the link.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from correction.compiled import compiled
from correction.envelope import Fit
from correction.model import FabricModel
from correction.prepare import Prepared
from correction.timebase import NS_PER_S, Bools, Float64s

Array = Any  # numba compiles for what it is given

FRACTIONS = np.linspace(0.03, 0.97, 33)
"""Where in the window a step is looked for; nearer to its ends it moves almost nothing."""
SAMPLES_MIN = 4
"""Per direction; fewer cannot tell a step from noise."""
TYPICAL_DEGREES = 6.0
"""A few samples misjudge their own noise: that of all links counts as so many more."""
SIDE_MIN = 1
"""Samples of each direction before and after the step."""
CLIP_SPREADS = 4.0
CLIP_NS = 100.0
"""Residuals count up to so many median absolute deviations, and at least up to CLIP_NS: a step
near the end of a window moves few samples, which must not be taken for late ones."""
STEP_SIGMAS = 6.0
STEP_NS_MIN = 4.0
STEP_WANDER = 0.137
"""Sd of the best-fitting step to a random walk of the rate / (wander x window length^1.5)."""
STEP_WANDERS = 4.5
AGREEMENT = 0.5
"""Each direction alone must show at least this share of the common step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoints:
    """Arrays [window, link]."""

    tested: Bools
    """Enough samples both ways."""
    step_ns: Float64s
    """Best-fitting step of b - a, positive when b is set ahead; 0 where not tested."""
    stepped: Bools
    """More than noise and declared wander make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Direction:
    """The best step at each tried instant for every directed link; arrays [instant, line]."""

    step_ns: Float64s
    """In x of that direction."""
    weight: Float64s
    """1/variance of the step, 0 where it cannot be tested."""
    degrees: Float64s
    """[line]: degrees of freedom of the variance, the typical noise included."""


def step_limit_ns(model: FabricModel, window_s: Float64s) -> Float64s:
    """Per window the smallest step that is told from declared wander and the stamps' quantum."""
    quantum_ns = max((clock.stamp_unit_ns for clock in model.clocks), default=0)
    wander = np.sqrt(2.0) * model.wander_ns_per_s_sqrt_s * window_s**1.5
    limit: Float64s = STEP_NS_MIN + STEP_WANDERS * STEP_WANDER * wander + quantum_ns
    return limit


def find_change_points(
    prepared: Prepared, fit: Fit, model: FabricModel, window_s: Float64s
) -> ChangePoints:
    """Look for one step per link and window."""
    windows, links = len(window_s), len(model.links)
    shape = (windows, links)
    if not len(prepared):
        nothing = np.zeros(shape, np.bool_)
        return ChangePoints(tested=nothing, step_ns=np.zeros(shape), stepped=nothing.copy())
    pair = prepared.window * links + prepared.link
    count = windows * links
    line = pair * 2 + prepared.reverse
    time_s = prepared.a_rest_ns / NS_PER_S
    low = np.full(count, np.inf)
    high = np.full(count, -np.inf)
    np.minimum.at(low, pair, time_s)
    np.maximum.at(high, pair, time_s)
    at = (time_s - low[pair]) / np.maximum(high - low, 1e-9)[pair]
    quantum_ns = max((clock.stamp_unit_ns for clock in model.clocks), default=1)
    order = fit.order  # envelopes of one line lie side by side
    both = _directions(line[order], at[order], _clipped(fit)[order], 2 * count, float(quantum_ns))
    step = both.step_ns * np.tile([1.0, -1.0], count)  # of b - a
    there, back = step[:, 0::2], step[:, 1::2]
    w_there, w_back = both.weight[:, 0::2], both.weight[:, 1::2]
    usable = (w_there > 0.0) & (w_back > 0.0)
    weight = np.where(usable, w_there + w_back, 0.0)
    safe = np.where(usable, weight, 1.0)
    common = np.where(usable, (there * w_there + back * w_back) / safe, 0.0)
    best = np.argmax(np.abs(common) * np.sqrt(weight), axis=0)
    pick = (best, np.arange(count))
    common, weight = common[pick], weight[pick]
    degrees = np.minimum(both.degrees[0::2], both.degrees[1::2])
    sigmas = STEP_SIGMAS * (1.0 + 6.0 / np.maximum(degrees, 1.0))
    agreed = np.minimum(there[pick] * np.sign(common), back[pick] * np.sign(common))
    stepped = (
        (np.abs(common) * np.sqrt(weight) > sigmas)
        & (np.abs(common) > np.repeat(step_limit_ns(model, window_s), links))
        & (agreed > AGREEMENT * np.abs(common))
    )
    return ChangePoints(
        tested=usable.any(axis=0).reshape(shape),
        step_ns=common.reshape(shape),
        stepped=stepped.reshape(shape),
    )


def _clipped(fit: Fit) -> Float64s:
    """Residuals about each envelope's median, the far ones pulled in."""
    median = fit.quantiles(fit.above_ns, (0.5,))[:, 0]
    centred = fit.above_ns - median[fit.group]
    spread = fit.quantiles(np.abs(centred), (0.5,))[:, 0]
    reach = np.maximum(CLIP_SPREADS * spread, CLIP_NS)[fit.group]
    result: Float64s = np.clip(centred, -reach, reach)
    return result


def _directions(
    line: NDArray[np.int64], at: Float64s, r: Float64s, count: int, quantum_ns: float
) -> _Direction:
    """Least squares of offset, slope and step at each instant, for all directed links at once.

    Samples lie line by line.
    """
    number = np.bincount(line, minlength=count)
    start = np.concatenate([[0], np.cumsum(number)])
    shape = (len(FRACTIONS), count)
    size, rest, strength = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    _best_steps(at, r, start, FRACTIONS, SAMPLES_MIN, SIDE_MIN, size, rest, strength)
    able = strength > 0.0
    degrees = np.maximum(number - 3.0, 0.0)
    own = rest / np.maximum(number - 3.0, 1.0)
    typical = np.array(
        [
            float(np.median(row[can])) if can.any() else 0.0
            for row, can in zip(own, able, strict=True)
        ]
    )
    noise = (rest + TYPICAL_DEGREES * typical[:, None]) / (degrees + TYPICAL_DEGREES)
    variance = np.maximum(noise, quantum_ns**2 / 12.0)
    weight = np.where(able, strength / variance, 0.0)
    return _Direction(step_ns=size, weight=weight, degrees=degrees + TYPICAL_DEGREES)


@compiled
def _best_steps(
    at: Array,
    r: Array,
    start: Array,
    fractions: Array,
    samples_min: int,
    side_min: int,
    size: Array,
    rest: Array,
    strength: Array,
) -> None:
    """[instant, line]: best step there, squares that it leaves, and how well it shows (0: not).

    Samples lie line by line; they are made orthogonal to offset and slope first.
    """
    for line in range(len(start) - 1):
        first, end = start[line], start[line + 1]
        number = end - first
        if number < samples_min:
            continue
        t, left = at[first:end] - np.mean(at[first:end]), r[first:end] - np.mean(r[first:end])
        tt = max(np.sum(t * t), 1e-9)
        left -= np.sum(t * left) / tt * t
        energy = np.sum(left * left)
        for row in range(len(fractions)):
            later, mixed, moved = 0, 0.0, 0.0
            for place in range(number):
                if at[first + place] >= fractions[row]:
                    later += 1
                    mixed += t[place]
                    moved += left[place]
            shows = later - later * later / number - mixed * mixed / tt
            if min(later, number - later) < side_min or shows <= 1e-3:
                rest[row, line] = energy
                continue
            size[row, line] = moved / shows
            rest[row, line] = max(energy - moved * moved / shows, 0.0)
            strength[row, line] = shows
