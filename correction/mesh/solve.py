# SPDX-License-Identifier: Apache-2.0
"""Edges in; clocks with two bounds, verdicts and their certificate out.

Offsets are clock - reference. A clock of the core comes from the weighted least squares of what the
bad edges leave; one that hangs on a tree from its parent and its own edge, whose asymmetry nothing
shows (single home). The hard bound knows no prior; the other one holds under PRIOR.
"""

from dataclasses import dataclass, replace
from enum import IntEnum, unique
from typing import Any

import numpy as np
from numpy.typing import NDArray

from correction.bounds import NegativeCycle
from correction.mesh import certificates
from correction.mesh.core import Core, split
from correction.mesh.edges import Edges
from correction.mesh.graph import Graph
from correction.mesh.growth import MARGIN_UNITS
from correction.mesh.intervals import intervals
from correction.mesh.normal import system
from correction.mesh.selection import Chosen, choose
from correction.mesh.trees import all_clocks, likely_ns
from correction.table import CONDITIONAL_SIGMAS
from correction.timebase import Bools, Float64s

CERTIFICATE_VERSION = 2
PRIOR = (
    "of every cut's edges fewer than half have a large asymmetry that pulls one way; the others, "
    "and all edges outside loops, are equal in both directions within their declared deviation"
)


@unique
class Standing(IntEnum):
    """What is known of a clock, and why not more."""

    DETERMINED = 0
    SINGLE_HOMED = 1
    """Determined but for its own edges, which lie in no loop: their asymmetry is as declared."""
    AMBIGUOUS = 2
    """Its core node can move, alone or in a set, for too little, or has a rival."""
    UNDECIDED = 3
    """Two ways of fitting put it apart, or the search for a proof gave up."""
    FLOATING = 4
    """No path to the reference."""
    CONTRADICTED = 5
    """Data contradict causality; no bound is sound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshSolution:
    """Arrays over nodes, or over edges where it says so."""

    theta_ns: Float64s
    """Offset from the reference; NaN where floating."""
    sd_ns: Float64s
    bound_conditional_ns: Float64s
    low_ns: Float64s
    """Hard interval of the offset; infinite where nothing constrains it."""
    high_ns: Float64s
    bound_hard_ns: Float64s
    """Half-width around theta_ns that covers the hard interval."""
    standing: NDArray[np.uint8]
    """A `Standing` each."""
    a_ns: Float64s
    """[edge]: asymmetry; 0 outside the core, where nothing shows it."""
    a_sd_ns: Float64s
    """[edge]"""
    bad: Bools
    """[edge]"""
    bad_probability: Float64s
    """[edge]"""
    constants_ns: Float64s
    """Shared constants."""
    shared_ns: Float64s
    """[edge]: what they add to half the difference of both directions, beyond a_ns."""
    chi2: float
    """Weighted squared residuals of the kept edges of the core."""
    degrees: int
    cycle: NegativeCycle | None
    core: Core
    chosen: Chosen
    verdict: certificates.Verdict


def solve_mesh(
    edges: Edges,
    reference: int,
    *,
    start: MeshSolution | None = None,
    sigmas: float = CONDITIONAL_SIGMAS,
) -> MeshSolution:
    """One instant. `start`: an earlier solution of the same edges (other y), which saves time."""
    core = split(edges, reference) if start is None else start.core
    of = system(edges, core)
    scale = edges.scale_ns[core.edges]
    chosen = choose(
        of,
        scale,
        edges.may_be_bad[core.edges],
        None if start is None else start.bad[core.edges],
    )
    theta, variance = all_clocks(edges, core, chosen)
    graph = _graph(edges, core, chosen)
    core_theta = chosen.best.theta_ns + chosen.shift_ns[: of.size]
    verdict = certificates.judge(graph, core_theta)
    standing = _standing(edges, core, graph, verdict)
    hard = intervals(edges, reference, theta, parallel=core.parallel)
    sd = np.sqrt(variance)
    conditional = np.maximum(sigmas * sd, likely_ns(core, chosen, variance, sigmas))
    n = edges.node_count
    if isinstance(hard, NegativeCycle):
        low, high, half = np.full(n, -np.inf), np.full(n, np.inf), np.full(n, np.inf)
        conditional = np.full(n, np.inf)
        standing[core.connected] = Standing.CONTRADICTED
    else:
        low, high = hard.low_ns, hard.high_ns
        theta = np.where(np.isnan(theta), theta, np.clip(theta, low, high))
        half = np.maximum(high - theta, theta - low)
        half[np.isnan(half)] = np.inf
        sound = standing <= Standing.SINGLE_HOMED
        conditional = np.minimum(np.where(sound, conditional, np.inf), half)
    a, a_sd, bad, probability = _asymmetries(edges, core, chosen, scale)
    kept = ~chosen.bad
    residual = chosen.best.residual_ns
    return MeshSolution(
        theta_ns=theta,
        sd_ns=sd,
        bound_conditional_ns=conditional,
        low_ns=low,
        high_ns=high,
        bound_hard_ns=half,
        standing=standing,
        a_ns=a,
        a_sd_ns=a_sd,
        bad=bad,
        bad_probability=probability,
        constants_ns=chosen.best.constants_ns,
        shared_ns=edges.shared @ chosen.best.constants_ns,
        chi2=float(((residual[kept] / scale[kept]) ** 2).sum()),
        degrees=max(0, int(kept.sum()) - of.clock_count),
        cycle=hard if isinstance(hard, NegativeCycle) else None,
        core=core,
        chosen=chosen,
        verdict=verdict,
    )


def _graph(edges: Edges, core: Core, chosen: Chosen) -> Graph:
    shared_ns = edges.shared[core.edges] @ chosen.best.constants_ns
    return Graph(
        size=len(core.nodes),
        u=core.at_u,
        v=core.at_v,
        y_ns=edges.y_ns[core.edges] - shared_ns,
        scale_ns=edges.scale_ns[core.edges],
        parallel=core.parallel,
        firm=~edges.may_be_bad[core.edges],
    )


def _standing(
    edges: Edges, core: Core, graph: Graph, verdict: certificates.Verdict
) -> NDArray[np.uint8]:
    standing = np.full(edges.node_count, Standing.FLOATING, np.uint8)
    explained = np.zeros(len(core.nodes), np.bool_)
    for rival in verdict.rivals:
        explained |= rival.in_doubt(graph)
    for cut in verdict.cuts:
        explained[cut.side] = True
    lost = np.where(explained, Standing.AMBIGUOUS, Standing.UNDECIDED)
    of_core = np.where(verdict.determined, Standing.DETERMINED, lost).astype(np.uint8)
    standing[core.nodes] = of_core
    at = core.position[core.attachment[core.tree_node]]
    hanging = np.where(of_core[at] == Standing.DETERMINED, Standing.SINGLE_HOMED, of_core[at])
    standing[core.tree_node] = hanging
    standing[core.reference] = Standing.DETERMINED
    return standing


def _asymmetries(
    edges: Edges, core: Core, chosen: Chosen, scale_ns: Float64s
) -> tuple[Float64s, Float64s, Bools, Float64s]:
    """Per edge: a, its sd, whether it is bad, and how probable that is."""
    count = len(edges)
    a, sd = np.zeros(count), edges.healthy_sd_ns.copy()
    bad, probability = np.zeros(count, np.bool_), np.zeros(count)
    inside = core.edges
    # of a kept edge the residual holds noise too: its share of the variance is the cable's
    share = np.where(chosen.bad, 1.0, (edges.healthy_sd_ns[inside] / scale_ns) ** 2)
    a[inside] = share * chosen.best.residual_ns
    noise = edges.noise_sd_ns[inside]
    spread = chosen.covariance.spread
    kept_sd = np.sqrt(share * (noise**2 + spread))
    sd[inside] = np.minimum(
        np.where(chosen.bad, np.hypot(noise, np.sqrt(spread)), kept_sd),
        np.where(chosen.bad, np.inf, edges.healthy_sd_ns[inside]),
    )
    bad[inside], probability[inside] = chosen.bad, chosen.bad_probability
    return a, sd, bad, probability


def certificate(solution: MeshSolution, edges: Edges, names: tuple[str, ...]) -> dict[str, Any]:
    """What `correction.certificate_check` verifies, over the core; JSON values only."""
    core, chosen = solution.core, solution.chosen
    graph = _graph(edges, core, chosen)
    estimate = chosen.best.theta_ns + chosen.shift_ns[: graph.size]
    labels = [names[node] for node in core.nodes.tolist()]
    return certificate_of(solution.verdict, graph, estimate, labels)


def certificate_of(
    verdict: certificates.Verdict,
    graph: Graph,
    estimate_ns: Float64s,
    labels: list[str],
) -> dict[str, Any]:
    """The same of any graph with its verdict."""
    rows = zip(
        graph.u.tolist(), graph.v.tolist(), graph.y_ns.tolist(), graph.tolerance_ns.tolist(),
        verdict.weight.tolist(), verdict.flow.tolist(), strict=True,
    )  # fmt: skip
    return {
        "version": CERTIFICATE_VERSION,
        "prior": PRIOR,
        "ground": labels[0],
        "margin_units": MARGIN_UNITS,
        "theta_ns": dict(zip(labels, verdict.theta_ns.tolist(), strict=True)),
        "estimate_ns": dict(zip(labels, estimate_ns.tolist(), strict=True)),
        "edges": [
            {
                "u": labels[u],
                "v": labels[v],
                "y_ns": y_ns,
                "tolerance_ns": tolerance_ns,
                "weight": weight,
                "flow": flow,
            }
            for u, v, y_ns, tolerance_ns, weight, flow in rows
        ],
        "determined": [labels[i] for i in verdict.proved[1:].tolist()],
        "cuts": [
            {
                "side": [labels[i] for i in cut.side.tolist()],
                "upwards": cut.upwards,
                "at": "estimate_ns" if cut.at_estimate else "theta_ns",
            }
            for cut in verdict.cuts
        ],
        "rivals": [
            {
                labels[node]: move_ns
                for node, move_ns in zip(rival.nodes.tolist(), rival.moves_ns.tolist(), strict=True)
            }
            for rival in verdict.rivals
        ],
    }


def with_measurement(edges: Edges, y_ns: Float64s) -> Edges:
    """The same edges, measured anew."""
    return replace(edges, y_ns=y_ns)
