# SPDX-License-Identifier: Apache-2.0
"""Leaf-spine edges with a chosen asymmetry on each, for tests of the mesh solve."""

from dataclasses import dataclass, replace

import numpy as np

from correction.mesh.edges import Edges, without_shared


@dataclass(frozen=True)
class MeshFabric:
    """Edges and their truth; nodes: leaves, spines, hosts; the reference is host 0 on leaf 0."""

    edges: Edges
    theta_ns: np.ndarray
    a_ns: np.ndarray
    reference: int
    leaves: int
    spines: int

    def edge(self, leaf: int, spine: int) -> int:
        """Number of the edge from a leaf to a spine."""
        return leaf * self.spines + spine

    def error_ns(self, theta_ns: np.ndarray) -> np.ndarray:
        """Estimated offsets from the reference less the true ones."""
        return theta_ns - (self.theta_ns - self.theta_ns[self.reference])


def leaf_spine_mesh(
    leaves: int = 8,
    spines: int = 4,
    hosts: int = 16,
    *,
    seed: int = 1,
    bad: dict[tuple[int, int], float] | None = None,
    bad_share: float = 0.0,
    healthy_sd_ns: float = 5.0,
    noise_sd_ns: float = 0.5,
    exact: bool = False,
) -> MeshFabric:
    """`bad`: asymmetry by (leaf, spine); `exact`: no noise, and healthy edges without asymmetry."""
    rng = np.random.default_rng(seed)
    nodes = leaves + spines + hosts
    leaf, spine = np.repeat(np.arange(leaves), spines), np.tile(np.arange(spines), leaves)
    u = np.concatenate([leaf, np.arange(hosts) * leaves // hosts])
    v = np.concatenate([leaves + spine, leaves + spines + np.arange(hosts)])
    theta = rng.normal(0.0, 500.0, nodes)
    a = np.zeros(len(u)) if exact else rng.normal(0.0, healthy_sd_ns, len(u))
    fabric_count = leaves * spines
    drawn = rng.random(fabric_count) < bad_share
    size = rng.choice([-1.0, 1.0], fabric_count) * rng.uniform(20.0, 500.0, fabric_count)
    a[:fabric_count][drawn] = size[drawn]
    for (x, s), value in (bad or {}).items():
        a[x * spines + s] = value
    difference = theta[v] - theta[u]
    noise = np.zeros(len(u)) if exact else rng.normal(0.0, noise_sd_ns, len(u))
    delay = rng.uniform(600.0, 700.0, len(u))
    shared, shared_sd = without_shared(len(u))
    edges = Edges(
        node_count=nodes,
        u=u,
        v=v,
        y_ns=difference + a + noise,
        noise_sd_ns=np.full(len(u), noise_sd_ns),
        healthy_sd_ns=np.full(len(u), healthy_sd_ns),
        may_be_bad=np.ones(len(u), np.bool_),
        shared=shared,
        shared_sd_ns=shared_sd,
        forward_limit_ns=difference + delay + a,
        backward_limit_ns=-difference + delay - a,
    )
    return MeshFabric(edges, theta, a, leaves + spines, leaves, spines)


def chosen_rows(edges: Edges, rows: np.ndarray) -> Edges:
    """The same fabric with its edges in another order, or fewer or repeated."""
    return replace(
        edges,
        u=edges.u[rows],
        v=edges.v[rows],
        y_ns=edges.y_ns[rows],
        noise_sd_ns=edges.noise_sd_ns[rows],
        healthy_sd_ns=edges.healthy_sd_ns[rows],
        may_be_bad=edges.may_be_bad[rows],
        shared=edges.shared[rows],
        forward_limit_ns=edges.forward_limit_ns[rows],
        backward_limit_ns=edges.backward_limit_ns[rows],
    )
