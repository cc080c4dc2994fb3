# SPDX-License-Identifier: Apache-2.0
"""From the core to all clocks: those on trees follow from their parents and their own edges."""

import numpy as np
from scipy.special import erfc

from correction.mesh.core import Core
from correction.mesh.edges import Edges
from correction.mesh.selection import Chosen
from correction.mixture import likely_half_widths, outside
from correction.timebase import Float64s

LIKELY_HALVINGS = 10
"""Of some tens of nanoseconds."""


def all_clocks(edges: Edges, core: Core, chosen: Chosen) -> tuple[Float64s, Float64s]:
    """(offsets from the reference, their variances); NaN and infinite where floating."""
    n, m = edges.node_count, edges.shared.shape[1]
    size = len(core.nodes)
    theta, own = np.full(n, np.nan), np.zeros(n)
    through = np.zeros((n, m))
    """Shared constants on the way from the attachment."""
    constants = chosen.best.constants_ns + chosen.shift_ns[size:]
    theta[core.nodes] = chosen.best.theta_ns + chosen.shift_ns[:size]
    variance_of_edge = edges.scale_ns**2
    chain = np.zeros(n, np.bool_)
    chain[_way_up(core)] = True
    meets = np.where(core.attachment >= 0, core.attachment, 0)
    meets[core.nodes] = core.nodes
    for group in core.depth_groups:
        node, edge, parent = core.tree_node[group], core.tree_edge[group], core.tree_parent[group]
        sign = core.tree_sign[group]
        theta[node] = theta[parent] + sign * (edges.y_ns[edge] - edges.shared[edge] @ constants)
        own[node] = own[parent] + variance_of_edge[edge]
        through[node] = through[parent] - sign[:, None] * edges.shared[edge]
        meets[node] = np.where(chain[node], node, meets[parent])
    reference = core.reference
    at = np.where(core.attachment >= 0, core.position[core.attachment], 0)
    difference = through - through[reference]
    cov = chosen.covariance
    variance = cov.clocks[at] + own + own[reference] - 2.0 * own[meets]
    if m:
        variance = variance + np.einsum("nk,kl,nl->n", difference, cov.constants, difference)
        variance = variance + 2.0 * np.einsum("nk,kn->n", difference, cov.cross[:, at])
    variance = np.maximum(variance, 0.0) + chosen.extra_variance[:size][at]
    variance[~core.connected] = np.inf
    variance[reference] = 0.0
    return theta - theta[reference], variance


def likely_ns(core: Core, chosen: Chosen, variance: Float64s, sigmas: float) -> Float64s:
    """[node]: half-width that is as probable with the rival of its core node; 0 without one."""
    rival = chosen.rival
    number = np.full(len(core.nodes), -1, np.int64)
    number[rival.node] = np.arange(len(rival.node))
    at = np.where(core.attachment >= 0, core.position[core.attachment], 0)
    nodes = np.flatnonzero((number[at] >= 0) & np.isfinite(variance) & (variance > 0.0))
    at, row = at[nodes], number[at[nodes]]
    main = np.maximum(variance[nodes] - chosen.extra_variance[at], 0.0)
    other = np.maximum(main + rival.variance[row], 0.0)
    shift, share = chosen.shift_ns[at], rival.probability[row]
    away = np.stack([-shift, rival.move_ns[row] - shift], axis=1)
    spread = np.sqrt(np.stack([main, other], axis=1))
    weight = np.stack([1.0 - share, share], axis=1)
    alone = sigmas * np.sqrt(variance[nodes])
    more = outside(alone, away, spread, weight) > float(erfc(sigmas / np.sqrt(2.0)))
    result = np.zeros(len(variance))
    result[nodes[more]] = likely_half_widths(
        away[more],
        spread[more],
        weight[more],
        sigmas,
        too_little_ns=alone[more],
        halvings=LIKELY_HALVINGS,
    )
    return result


def _way_up(core: Core) -> list[int]:
    """The reference and its parents up to the core, the core node left out."""
    parent = dict(zip(core.tree_node.tolist(), core.tree_parent.tolist(), strict=True))
    way, here = [], core.reference
    while here in parent:
        way.append(here)
        here = parent[here]
    return way
