# SPDX-License-Identifier: Apache-2.0
"""What a solve's data determine: the verdict of `mesh.certificates` on its averaged residuals.

A link's asymmetry is the same in all windows and the clocks are published, so the verdict is one
for all windows: each link's measurement less the published clocks, averaged, is an edge, and the
published answer is the origin. Moving clocks away from it must cost more than it gains.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from correction.identifiability import Cut
from correction.measure import Measured
from correction.mesh import certificates
from correction.mesh.core import Core, split
from correction.mesh.edges import Edges, without_shared
from correction.mesh.graph import Graph
from correction.mesh.normal import system
from correction.mesh.solve import certificate_of
from correction.network import clock_offsets
from correction.selection import Selection
from correction.timebase import Bools, Float64s, Int64s


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricVerdict:
    """Which clocks are not determined, why, and the proof."""

    ambiguous: Bools
    """[clock]: connected with the reference, but not determined."""
    cuts: tuple[Cut, ...]
    certificate: dict[str, Any]
    """JSON values; `correction.certificate_check` verifies it."""


def fabric_verdict(measured: Measured, selection: Selection) -> FabricVerdict:
    """Verdict on every clock under the selection's published estimate."""
    model = measured.model
    edges, links = averaged_edges(measured, selection)
    core = split(edges, model.reference)
    of = system(edges, core)
    scale = edges.scale_ns[core.edges]
    graph = Graph(
        size=of.size,
        u=of.at_u,
        v=of.at_v,
        y_ns=of.y_ns,
        scale_ns=scale,
        parallel=core.parallel,
        firm=~edges.may_be_bad[core.edges],
    )
    published = np.zeros(of.size)
    verdict = certificates.judge(graph, published)
    ambiguous = np.zeros(len(model.clocks), np.bool_)
    ambiguous[core.nodes] = ~verdict.determined
    ambiguous[core.tree_node] = ambiguous[core.attachment[core.tree_node]]
    ambiguous[model.reference] = False
    return FabricVerdict(
        ambiguous=ambiguous,
        cuts=_cuts(core, graph, verdict, links, selection.bad),
        certificate=certificate_of(
            verdict, graph, published, [model.clocks[c].name for c in core.nodes.tolist()]
        ),
    )


def averaged_edges(measured: Measured, selection: Selection) -> tuple[Edges, Int64s]:
    """Averaged residuals of all links that were measured, and which links they are."""
    model, equations = measured.model, measured.equations
    ends = measured.ends
    count = len(model.links)
    total, weight = np.zeros(count), np.zeros(count)
    for w, one in enumerate(measured.eliminated.windows):
        theta = np.full(len(model.clocks), np.nan)
        theta[model.reference] = 0.0
        theta[one.clocks], _ = clock_offsets(one, selection.averaged)
        residual = equations.y_ns[w] - (theta[ends[:, 1]] - theta[ends[:, 0]])
        known = equations.known[w] & np.isfinite(residual)
        share = np.where(known, equations.sd_ns[w] ** -2.0, 0.0)
        total += share * np.where(known, residual, 0.0)
        weight += share
    links = np.flatnonzero(weight > 0.0)
    shared_ns = measured.unknowns.design[:, count:] @ selection.averaged.q_ns[count:]
    nothing, nothing_sd = without_shared(len(links))
    unlimited: Float64s = np.full(len(links), np.inf)
    edges = Edges(
        node_count=len(model.clocks),
        u=ends[links, 0],
        v=ends[links, 1],
        y_ns=total[links] / weight[links] - shared_ns[links],
        noise_sd_ns=weight[links] ** -0.5,
        healthy_sd_ns=measured.unknowns.prior_sd_ns[links],
        may_be_bad=np.array([not link.firm for link in model.links], np.bool_)[links],
        shared=nothing,
        shared_sd_ns=nothing_sd,
        forward_limit_ns=unlimited,
        backward_limit_ns=unlimited,
    )
    return edges, links


def _cuts(
    core: Core, graph: Graph, verdict: certificates.Verdict, links: Int64s, bad: Bools
) -> tuple[Cut, ...]:
    """Sets that can move for nothing, with the links that they cross."""
    sides = [cut.side for cut in verdict.cuts]
    sides += [np.flatnonzero(rival.in_doubt(graph)) for rival in verdict.rivals]
    if verdict.apart.any():
        sides.append(np.flatnonzero(verdict.apart))
    cuts = []
    for side in sides:
        inside = np.zeros(len(core.nodes), np.bool_)
        inside[side] = True
        crossing = links[core.edges[inside[core.at_u] != inside[core.at_v]]]
        cuts.append(
            Cut(
                side=frozenset(core.nodes[side].tolist()),
                bad_links=tuple(crossing[bad[crossing]].tolist()),
                kept_links=tuple(crossing[~bad[crossing]].tolist()),
            )
        )
    return tuple(dict.fromkeys(cuts))
