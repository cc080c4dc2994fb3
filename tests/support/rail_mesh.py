# SPDX-License-Identifier: Apache-2.0
"""Leaf-spine edges with machines of several NICs, tied to their machine's counter, for the mesh."""

import numpy as np

from correction.mesh.edges import Edges
from tests.support.mesh_fabric import MeshFabric

TIE_SD_NS = 11.5
"""Of cross-stamps within 20 ns."""
HEALTHY_SD_NS = 5.0
NOISE_SD_NS = 0.5


def rail_mesh(
    leaves: int,
    spines: int,
    *,
    rails: int,
    machines: int,
    dual_homed: int = 0,
    constants: int = 0,
    seed: int = 1,
    bad_share: float = 0.0,
    bad_access_share: float = 0.0,
    bad: dict[str, float] | None = None,
) -> MeshFabric:
    """Nodes: leaves, spines, NICs machine by machine, counters, NICs with a cable to two leaves.

    NIC r of machine m is on leaf (m rails + r) % leaves. The reference is the first NIC; without
    machines the last one of two cables. `bad`: asymmetries by "leaf-spine" or "mMnR", ns.
    """
    rng = np.random.default_rng(seed)
    nics = machines * rails
    first_nic, first_counter = leaves + spines, leaves + spines + nics
    first_dual = first_counter + (machines if rails else 0)
    nodes = first_dual + dual_homed
    nic = np.arange(nics)
    machine = nic // max(rails, 1)
    leaf = (nic % max(rails, 1) + machine * max(rails, 1)) % leaves
    dual = np.arange(dual_homed)
    dual_node = first_dual + dual
    up, down = np.repeat(np.arange(leaves), spines), np.tile(np.arange(spines), leaves)
    u = np.concatenate([up, leaf, first_nic + nic, dual % leaves, (dual + 1) % leaves])
    v = np.concatenate(
        [leaves + down, first_nic + nic, first_counter + machine, dual_node, dual_node]
    )
    count = len(u)
    tie = np.zeros(count, np.bool_)
    tie[leaves * spines + nics : leaves * spines + 2 * nics] = True
    access = np.zeros(count, np.bool_)
    access[leaves * spines :] = True
    access &= ~tie
    healthy = np.where(tie, TIE_SD_NS, HEALTHY_SD_NS)
    a = rng.normal(0.0, healthy)
    drawn = rng.random(count) < np.where(tie, 0.0, np.where(access, bad_access_share, bad_share))
    size = rng.choice([-1.0, 1.0], count) * rng.uniform(20.0, 500.0, count)
    a[drawn] = size[drawn]
    names = [f"{x}-{s}" for x, s in zip(up.tolist(), down.tolist(), strict=True)]
    names += [f"m{m}n{r}" for m in range(machines) for r in range(rails)]
    for name, value in (bad or {}).items():
        a[names.index(name)] = value
    theta = rng.normal(0.0, 500.0, nodes)
    shared = rng.choice([-0.5, 0.0, 0.5], (count, constants))
    shared[tie] = 0.0
    shared_sd = rng.uniform(2.0, 6.0, constants)
    constant = rng.normal(0.0, shared_sd)
    difference = theta[v] - theta[u]
    reach = np.where(tie, 2.5 * TIE_SD_NS, 0.0)
    delay = np.where(tie, 0.0, rng.uniform(600.0, 700.0, count))
    seen = np.clip(a, -reach, reach) * tie + a * ~tie + shared @ constant
    edges = Edges(
        node_count=nodes,
        u=u,
        v=v,
        y_ns=difference + seen + rng.normal(0.0, NOISE_SD_NS, count),
        noise_sd_ns=np.full(count, NOISE_SD_NS),
        healthy_sd_ns=healthy,
        may_be_bad=~tie,
        shared=shared,
        shared_sd_ns=shared_sd,
        forward_limit_ns=difference + seen + np.where(tie, reach, delay),
        backward_limit_ns=-difference - seen + np.where(tie, reach, delay),
    )
    reference = first_nic if nics else nodes - 1
    return MeshFabric(edges, theta, seen, reference, leaves, spines)
