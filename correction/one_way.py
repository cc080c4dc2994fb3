# SPDX-License-Identifier: Apache-2.0
"""Equations of links that were measured in one direction only.

    x_ab = theta_b - theta_a + d_ab, so y = x_ab - (mean of both delays) = theta_b - theta_a + a_ab

The mean of both delays is known where another window has both directions: cables do not change.
Where none has, an access cable's delay is anything that is declared of it, the same in all windows:
an error of the link's constant, not of its noise. A NIC with two cables may receive PTP over one
and send it over the other for good. (Cables between switches may be bad; traffic goes both ways.)
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from correction.envelope import Fit
from correction.equations import MIXED_CLASS_SD_NS, Equations, edges_at_instant
from correction.instants import Instants
from correction.model import FabricModel, Link, link_ends
from correction.priors import UNIFORM_SD
from correction.timebase import Bools, Float64s


def with_one_way(
    equations: Equations, fit: Fit, instants: Instants, model: FabricModel, usable: Bools
) -> tuple[Equations, Float64s]:
    """The equations with those of one direction, and [link] the sd of a constant error of theirs,
    0 where both directions are known in some window."""
    row = _best_rows(equations, fit, instants, model, usable)
    constant_ns = np.zeros(len(model.links))
    if not len(row):
        return equations, constant_ns
    rows = fit.envelopes
    edge, sd = edges_at_instant(fit, instants, model)
    w, e = rows.window[row], rows.link[row]
    half, half_sd = _known_halves(equations)
    alone = np.isnan(half)
    declared = np.array([_declared(link) for link in model.links], np.float64).reshape(-1, 2)
    constant_ns[e[alone[e]]] = declared[e[alone[e]], 1]
    delay = np.where(alone, declared[:, 0], half)[e]
    noise = np.hypot(sd[row], np.where(alone, 0.0, np.hypot(half_sd, MIXED_CLASS_SD_NS))[e])
    ends = link_ends(model)
    coarse = instants.rest_ns[w, ends[e, 1]] - instants.rest_ns[w, ends[e, 0]]
    y = np.where(rows.reverse[row], -1.0, 1.0) * (edge[row] - delay) - coarse
    good = np.isfinite(y)
    w, e, y, noise = w[good], e[good], y[good], noise[good]
    known, y_ns, sd_ns = equations.known.copy(), equations.y_ns.copy(), equations.sd_ns.copy()
    known[w, e], y_ns[w, e], sd_ns[w, e] = True, y, noise
    return replace(equations, known=known, y_ns=y_ns, sd_ns=sd_ns), constant_ns


def with_firm_links(model: FabricModel, one_way: Bools) -> FabricModel:
    """The model in which these links cannot be bad: what was measured in one direction only rests
    on the declared delay, of which there is no bad kind."""
    if not one_way.any():
        return model
    links = tuple(
        replace(link, firm=link.firm or bool(one_way[number]))
        for number, link in enumerate(model.links)
    )
    return replace(model, links=links)


def _best_rows(
    equations: Equations, fit: Fit, instants: Instants, model: FabricModel, usable: Bools
) -> NDArray[np.int64]:
    """The sharpest envelope of each cable and window without an equation, where its delay is told
    by other windows or declared."""
    rows = fit.envelopes
    _, sd = edges_at_instant(fit, instants, model)
    cable = np.array([link.cable for link in model.links], np.bool_)
    declared = np.array([link.access and link.max_delay_ns > 0 for link in model.links], np.bool_)
    told = cable & (declared | equations.known.any(axis=0))
    here = (usable & ~equations.known)[rows.window, rows.link] & told[rows.link] & np.isfinite(sd)
    chosen = np.flatnonzero(here)
    chosen = chosen[np.argsort(sd[chosen], kind="stable")]
    key = rows.window[chosen] * len(model.links) + rows.link[chosen]
    _, first = np.unique(key, return_index=True)
    return chosen[first]


def _known_halves(equations: Equations) -> tuple[Float64s, Float64s]:
    """[link] mean of both directions' delays over all windows, and its sd; NaN without any."""
    seen = equations.known & np.isfinite(equations.half_round_trip_ns)
    weight = np.where(seen, equations.sd_ns**-2.0, 0.0)
    total = weight.sum(axis=0)
    value = (weight * np.where(seen, equations.half_round_trip_ns, 0.0)).sum(axis=0)
    nothing = np.full(len(total), np.nan)
    half = np.divide(value, total, out=nothing.copy(), where=total > 0.0)
    return half, np.divide(1.0, np.sqrt(total), out=nothing, where=total > 0.0)


def _declared(link: Link) -> tuple[float, float]:
    """(middle, sd) of a delay anywhere between the least and the largest that is declared; what
    both stamp points may be off does not halve as it does between two directions."""
    middle = 0.5 * (link.min_delay_ns + link.max_delay_ns)
    stamps = max(
        np.hypot(link.a_egress.uncertainty_ns, link.b_ingress.uncertainty_ns),
        np.hypot(link.b_egress.uncertainty_ns, link.a_ingress.uncertainty_ns),
    )
    spread = 0.5 * (link.max_delay_ns - link.min_delay_ns)
    return middle, float(UNIFORM_SD * np.hypot(spread, stamps))
