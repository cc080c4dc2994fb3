# SPDX-License-Identifier: Apache-2.0
"""One equation per link and window: y = half the difference of both directions at one instant.

y = (theta_b - theta_a) + a_ab, relative to the coarse readings of `instants`, so small numbers.
Only equal queues and length classes of both directions are differenced.
"""

from dataclasses import dataclass

import numpy as np

from correction.envelope import Fit
from correction.instants import Instants
from correction.model import FabricModel, link_ends
from correction.timebase import Bools, Float64s

MEASUREMENT_SD_NS_MIN = 0.4
"""No window measures a link better than this: rounding of stamps and shape of the jitter."""
MIXED_CLASS_SD_NS = 5.0
"""Distrust of a difference between unequal lengths or queues, after declared serialisation."""
SLOPE_MIN = -0.999
"""A clock that nearly stands still against another has no useful rate; keeps the log finite."""
CLASS_SIGMAS = 6.0
CLASS_SLACK_NS = 3.0
"""Length classes that differ by more than CLASS_SIGMAS and this contradict the serialisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equations:
    """Arrays [window, link]; entries count only where `known`."""

    known: Bools
    y_ns: Float64s
    """(x_ab - x_ba)/2 minus the coarse difference b - a."""
    sd_ns: Float64s
    """Measurement noise of y: jitter and quantisation, no cable."""
    half_round_trip_ns: Float64s
    """(x_ab + x_ba)/2: mean of both directions' delays."""
    log_rate: Float64s
    """ln(rate of b / rate of a)."""
    log_rate_sd: Float64s


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassFinding:
    """Two length classes of one directed link disagree after serialisation is removed."""

    window: int
    link: int
    reverse: bool
    difference_ns: float
    sd_ns: float


def edges_at_instant(fit: Fit, instants: Instants, model: FabricModel) -> tuple[Float64s, Float64s]:
    """Each envelope's edge and its sd, moved to its window's instant."""
    rows = fit.envelopes
    ahead_ns = _ahead_ns(fit, instants, model)
    sign = np.where(rows.reverse, -1.0, 1.0)
    edge = rows.edge_ns + sign * fit.slopes.slope[rows.pair] * ahead_ns
    with np.errstate(invalid="ignore"):
        moved_sd = np.where(ahead_ns == 0.0, 0.0, fit.slopes.sd[rows.pair] * ahead_ns)
    return edge, np.hypot(rows.sd_ns, moved_sd)


def _ahead_ns(fit: Fit, instants: Instants, model: FabricModel) -> Float64s:
    """[envelope]: from its own time to its window's instant, on clock a."""
    rows = fit.envelopes
    a_of = np.array([link.a for link in model.links], np.int64)
    ahead: Float64s = instants.rest_ns[rows.window, a_of[rows.link]] - rows.at_a_rest_ns
    return ahead


def link_equations(
    fit: Fit, instants: Instants, model: FabricModel, usable: Bools
) -> tuple[Equations, tuple[ClassFinding, ...]]:
    """Combine matching envelopes of both directions by inverse variance."""
    shape = usable.shape
    rows = fit.envelopes
    edge, sd = edges_at_instant(fit, instants, model)
    key = np.stack([rows.window, rows.link, rows.queue_id, rows.length_class])
    _, match = np.unique(key, axis=1, return_inverse=True)
    match = match.ravel()
    count = int(match.max(initial=-1)) + 1
    value, var, own_var, ahead = (np.full((2, count), np.nan) for _ in range(4))
    direction = rows.reverse.astype(np.int64)
    value[direction, match], var[direction, match] = edge, sd**2
    own_var[direction, match] = rows.sd_ns**2
    ahead[direction, match] = _ahead_ns(fit, instants, model)
    window, link = np.zeros(count, np.int64), np.zeros(count, np.int64)
    window[match], link[match] = rows.window, rows.link
    both = np.isfinite(value).all(axis=0) & np.isfinite(var).all(axis=0)
    weight = np.where(both, 4.0 / np.maximum(var.sum(axis=0), 4 * MEASUREMENT_SD_NS_MIN**2), 0.0)
    value = np.where(both, value, 0.0)

    total, own, moved_ns = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    y, half = np.zeros(shape), np.zeros(shape)
    np.add.at(total, (window, link), weight)
    np.add.at(own, (window, link), weight**2 * np.where(both, own_var.sum(axis=0), 0.0) / 4.0)
    np.add.at(moved_ns, (window, link), weight * np.where(both, ahead.mean(axis=0), 0.0))
    np.add.at(y, (window, link), weight * 0.5 * (value[0] - value[1]))
    np.add.at(half, (window, link), weight * 0.5 * (value[0] + value[1]))
    matched = total > 0.0
    for w, e in np.argwhere(~matched & usable).tolist():
        _difference_anyway(fit, edge, sd, w, e, total, y, half)
    known = (total > 0.0) & usable
    safe = np.where(total > 0.0, total, 1.0)
    ends = link_ends(model)
    coarse = instants.rest_ns[:, ends[:, 1]] - instants.rest_ns[:, ends[:, 0]]
    known &= np.isfinite(coarse) & np.isfinite(y) & np.isfinite(half)

    slope, slope_sd = np.zeros(shape), np.full(shape, np.inf)
    slope[fit.slopes.window, fit.slopes.link] = fit.slopes.slope
    slope_sd[fit.slopes.window, fit.slopes.link] = fit.slopes.sd
    # both directions and all classes were moved along one line, whose error does not average out
    with np.errstate(invalid="ignore"):
        moved_sd = np.where(moved_ns == 0.0, 0.0, slope_sd * np.abs(moved_ns) / safe)
    sd_ns = np.where(matched, np.hypot(np.sqrt(own) / safe, moved_sd), np.sqrt(1.0 / safe))
    equations = Equations(
        known=known,
        y_ns=np.where(known, y / safe - np.where(known, coarse, 0.0), 0.0),
        sd_ns=np.maximum(sd_ns, MEASUREMENT_SD_NS_MIN),
        half_round_trip_ns=np.where(known, half / safe, np.nan),
        log_rate=np.log1p(np.maximum(slope, SLOPE_MIN)),
        log_rate_sd=slope_sd,
    )
    return equations, _class_findings(fit, edge, sd)


def _difference_anyway(
    fit: Fit,
    edge: Float64s,
    sd: Float64s,
    window: int,
    link: int,
    total: Float64s,
    y: Float64s,
    half: Float64s,
) -> None:
    """Directions without a common queue and class: the best of each, with a wide variance."""
    rows = fit.envelopes
    here = (rows.window == window) & (rows.link == link) & np.isfinite(sd)
    there, back = np.flatnonzero(here & ~rows.reverse), np.flatnonzero(here & rows.reverse)
    if not (len(there) and len(back)):
        return
    i, j = there[np.argmin(sd[there])], back[np.argmin(sd[back])]
    weight = 1.0 / ((sd[i] ** 2 + sd[j] ** 2) / 4.0 + MIXED_CLASS_SD_NS**2)
    total[window, link] = weight
    y[window, link] = weight * 0.5 * (edge[i] - edge[j])
    half[window, link] = weight * 0.5 * (edge[i] + edge[j])


def _class_findings(fit: Fit, edge: Float64s, sd: Float64s) -> tuple[ClassFinding, ...]:
    """Neighbouring length classes of one (window, link, direction, queue) that contradict."""
    rows = fit.envelopes
    same = (
        (rows.window[1:] == rows.window[:-1])
        & (rows.link[1:] == rows.link[:-1])
        & (rows.reverse[1:] == rows.reverse[:-1])
        & (rows.queue_id[1:] == rows.queue_id[:-1])
    )
    difference, noise = edge[1:] - edge[:-1], np.hypot(sd[1:], sd[:-1])
    wrong = same & (np.abs(difference) > CLASS_SIGMAS * noise + CLASS_SLACK_NS)
    return tuple(
        ClassFinding(
            window=int(rows.window[i]),
            link=int(rows.link[i]),
            reverse=bool(rows.reverse[i]),
            difference_ns=float(difference[i]),
            sd_ns=float(noise[i]),
        )
        for i in np.flatnonzero(wrong)
    )
