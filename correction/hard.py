# SPDX-License-Identifier: Apache-2.0
"""Difference constraints of one window from its samples, at the window's common instant.

Each sample bounds the clock difference at its own instant. Moving it to the common instant uses
the measured slope and costs a margin: six standard deviations of that slope and of the declared
wander over the distance. The smallest sum wins, so near samples and quiet ones count.
"""

import numpy as np
from numpy.typing import NDArray

from correction.bounds import Constraints
from correction.envelope import Fit
from correction.equations import edges_at_instant
from correction.instants import Instants
from correction.model import FabricModel, Link, link_ends
from correction.prepare import Prepared
from correction.table import HARD_SIGMAS
from correction.timebase import NS_PER_S, Bools, Float64s

SLOPE_WANDER = 0.27
"""Sd of (mean slope over a window - rate at its centre) / (wander x sqrt(window length))."""


def stamp_slack_ns(link: Link, model: FabricModel, *, reverse: bool) -> float:
    """How much smaller than the truth x may be by calibration and quantisation.

    A declared asymmetry was taken off x and is given back: causality knows nothing of it.
    """
    egress = link.b_egress if reverse else link.a_egress
    ingress = link.a_ingress if reverse else link.b_ingress
    quantum = max(model.clocks[link.a].stamp_unit_ns, model.clocks[link.b].stamp_unit_ns)
    taken_ns = -link.asymmetry_ns if reverse else link.asymmetry_ns
    return egress.uncertainty_ns + ingress.uncertainty_ns + quantum + taken_ns


def moving_margin_ns(
    away_s: Float64s, slope_sd: Float64s, window_s: Float64s, model: FabricModel
) -> Float64s:
    """What moving a difference of two clocks by `away_s` along their fitted line may be wrong by.

    `slope_sd` is the line's (dimensionless), `window_s` the length that it was fitted over.
    """
    away_s = np.abs(away_s)
    wander = np.sqrt(2.0) * model.wander_ns_per_s_sqrt_s
    slope_ns_per_s = np.minimum(
        HARD_SIGMAS * (slope_sd * NS_PER_S + SLOPE_WANDER * wander * np.sqrt(window_s)),
        4.0 * model.rate_offset_max_ppb,
    )
    margin: Float64s = slope_ns_per_s * away_s
    margin += HARD_SIGMAS * wander * away_s**1.5 / np.sqrt(3.0)
    return margin


def sample_constraints(
    prepared: Prepared,
    fit: Fit,
    instants: Instants,
    model: FabricModel,
    windows_s: Float64s,
    usable: Bools,
) -> list[Constraints]:
    """Per window: theta_v - theta_u <= limit, relative to the coarse readings."""
    edge, _ = edges_at_instant(fit, instants, model)
    ends = link_ends(model)
    a_ns = instants.rest_ns[prepared.window, ends[prepared.link, 0]]
    margin = moving_margin_ns(
        (prepared.a_rest_ns - a_ns) / NS_PER_S,
        fit.slopes.sd[fit.envelopes.pair[fit.group]],
        windows_s[prepared.window],
        model,
    )
    value = edge[fit.group] + fit.above_ns + margin
    value[fit.below | ~np.isfinite(value)] = np.inf

    shape = (*usable.shape, 2)
    links = model.links
    least = np.full(shape, np.inf)
    np.minimum.at(least, (prepared.window, prepared.link, prepared.reverse.astype(np.int64)), value)
    slack: Float64s = np.array(
        [[stamp_slack_ns(link, model, reverse=back) for back in (False, True)] for link in links],
        np.float64,
    ).reshape(-1, 2)
    slack -= np.array([link.min_delay_ns for link in links], np.float64)[:, None]
    coarse = instants.rest_ns[:, ends[:, 1]] - instants.rest_ns[:, ends[:, 0]]
    limit = least + slack[None, :, :] - np.stack([coarse, -coarse], axis=2)
    result = []
    for w in range(usable.shape[0]):
        forward = np.flatnonzero(np.isfinite(limit[w, :, 0]) & usable[w])
        backward = np.flatnonzero(np.isfinite(limit[w, :, 1]) & usable[w])
        result.append(
            Constraints(
                u=_join(ends[forward, 0], ends[backward, 1]),
                v=_join(ends[forward, 1], ends[backward, 0]),
                limit_ns=np.concatenate([limit[w, forward, 0], limit[w, backward, 1]]),
                clock_count=len(model.clocks),
            )
        )
    return result


def _join(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([first, second])
