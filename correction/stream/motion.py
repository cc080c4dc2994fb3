# SPDX-License-Identifier: Apache-2.0
"""How the clocks moved since earlier windows: asymmetries are the same in both and cancel.

y[now] - z = (motion of b - motion of a) + noise, where z is a link's average so far. So clocks are
followed to a fraction of a nanosecond whatever the cables do, a clock that is set between windows
moves and spoils nothing, and a link whose own asymmetry changes stands out against all others.
"""

from dataclasses import dataclass

import numpy as np

from correction.mesh.core import Core, split
from correction.mesh.covariance import Covariance
from correction.mesh.edges import Edges, without_shared
from correction.mesh.normal import Solution, System, covariance, solve, system
from correction.timebase import Bools, Float64s, Int64s

CHANGED_SIGMAS = 8.0
"""A link in a loop that departs by more, and by CHANGED_NS, has changed."""
CHANGED_NS = 5.0
ROUNDS = 8
BESIDE_SHARE = 0.6
"""Of the worst departure: a changed link of three at a clock departs by 2/3 and pulls the other two
by 1/3 each."""
OUT_SHARE = 1e-6
"""Weight left to a link that has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Motion:
    """Of all clocks between their averages and now."""

    moved_ns: Float64s
    """[clock]: relative to the reference; NaN where no link with an average reaches."""
    sd_ns: Float64s
    changed: Bools
    """[link]: departs from what all other links say of its clocks."""


def motion(
    u: Int64s,
    v: Int64s,
    departure_ns: Float64s,
    noise_sd_ns: Float64s,
    usable: Bools,
    node_count: int,
    reference: int,
) -> Motion:
    """Least squares over the usable links, without those that turn out to have changed.

    `departure_ns`: y now less the average, [link]; `noise_sd_ns` of that difference.
    """
    rows = np.flatnonzero(usable)
    changed = np.zeros(len(u), np.bool_)
    moved, variance = np.full(node_count, np.nan), np.full(node_count, np.inf)
    moved[reference], variance[reference] = 0.0, 0.0
    if not len(rows):
        return Motion(moved_ns=moved, sd_ns=np.sqrt(variance), changed=changed)
    shared, shared_sd = without_shared(len(rows))
    edges = Edges(
        node_count=node_count,
        u=u[rows],
        v=v[rows],
        y_ns=departure_ns[rows],
        noise_sd_ns=noise_sd_ns[rows],
        healthy_sd_ns=np.zeros(len(rows)),
        may_be_bad=np.zeros(len(rows), np.bool_),
        shared=shared,
        shared_sd_ns=shared_sd,
        forward_limit_ns=np.full(len(rows), np.inf),
        backward_limit_ns=np.full(len(rows), np.inf),
    )
    core = split(edges, reference)
    of = system(edges, core)
    weight = edges.noise_sd_ns[core.edges] ** -2.0
    out = np.zeros(len(weight), np.bool_)
    found, cov, strange = _fit(of, weight, out)
    for _ in range(ROUNDS):
        wrong = (strange > 1.0) & ~out
        if not wrong.any():
            break
        # what lies beside the worst departs only because of it
        out |= wrong & (strange >= BESIDE_SHARE * strange[wrong].max())
        found, cov, strange = _fit(of, weight, out)
    changed[rows[core.edges[out & (strange > 1.0)]]] = True
    moved[core.nodes], variance[core.nodes] = found.theta_ns, cov.clocks
    _down_the_trees(core, edges, moved, variance)
    shift = moved[reference]
    variance += variance[reference]  # they were against the clock that the reference hangs on
    variance[reference] = 0.0
    return Motion(moved_ns=moved - shift, sd_ns=np.sqrt(variance), changed=changed)


def _fit(of: System, weight: Float64s, out: Bools) -> tuple[Solution, Covariance, Float64s]:
    """(clocks, their covariance, how far each link departs as a share of what is allowed)."""
    found = solve(of, np.where(out, OUT_SHARE * weight, weight))
    cov = covariance(of, found)
    expected = np.sqrt(1.0 / weight + cov.spread)
    strange = np.abs(found.residual_ns) / np.maximum(CHANGED_SIGMAS * expected, CHANGED_NS)
    return found, cov, strange


def _down_the_trees(core: Core, edges: Edges, moved: Float64s, variance: Float64s) -> None:
    for group in core.depth_groups:
        node, edge, parent = core.tree_node[group], core.tree_edge[group], core.tree_parent[group]
        moved[node] = moved[parent] + core.tree_sign[group] * edges.y_ns[edge]
        variance[node] = variance[parent] + edges.noise_sd_ns[edge] ** 2
