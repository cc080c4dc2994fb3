# SPDX-License-Identifier: Apache-2.0
"""One instant of a large leaf-spine fabric and its truth, for the solver's bench.

With rails, NIC r of a machine is on rail leaf r of its pod, and tied to the machine's counter by
cross-stamps; cables of NICs are asymmetric then as well, since loops through machines show it.
"""

from dataclasses import dataclass

import numpy as np

from correction.mesh.edges import Edges, without_shared
from correction.priors import UNIFORM_SD

BAD_SHARE = 0.2
"""Of links between switches."""
BAD_ACCESS_SHARE = 0.05
"""Of NICs' cables, with rails."""
BAD_NS = (20.0, 500.0)
HEALTHY_SD_NS = 5.0
NOISE_SD_NS = 0.7
DELAY_NS = (600.0, 700.0)
CROSS_STAMP_NS = 20.0
"""A machine's cross-stamps are within this; a tie's own error is constant and anywhere in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """One instant of a fabric and its truth."""

    edges: Edges
    theta_ns: np.ndarray
    bad: np.ndarray
    reference: int


def draw_edges(
    rng: np.random.Generator, leaves: int, spines: int, hosts: int, rails: int = 0
) -> Drawn:
    """Leaves 0.., then spines, NICs, and with rails a counter per machine; the reference is the
    first NIC. `rails`: NICs per machine; ValueError where they do not fill machines and pods."""
    nic = np.arange(hosts)
    first_nic = leaves + spines
    leaf, spine = np.repeat(np.arange(leaves), spines), np.tile(np.arange(spines), leaves)
    at_leaf = rail_leaves(leaves, hosts, rails) if rails else nic * leaves // hosts
    machines = hosts // rails if rails else 0
    ties = np.arange(hosts if rails else 0)
    counter = first_nic + hosts + ties // max(rails, 1)
    u = np.concatenate([leaf, at_leaf, first_nic + ties])
    v = np.concatenate([leaves + spine, first_nic + nic, counter])
    count, inner = len(u), leaves * spines
    cable = np.arange(count) < inner + hosts
    theta = rng.normal(0.0, 500.0, first_nic + hosts + machines)
    a = np.where(
        cable, rng.normal(0.0, HEALTHY_SD_NS, count), rng.uniform(-1.0, 1.0, count) * CROSS_STAMP_NS
    )
    share = np.where(np.arange(count) < inner, BAD_SHARE, BAD_ACCESS_SHARE if rails else 0.0)
    bad = (rng.random(count) < share) & cable
    number = int(bad.sum())
    a[bad] = rng.choice([-1.0, 1.0], number) * rng.uniform(*BAD_NS, number)
    difference = theta[v] - theta[u]
    delay = np.where(cable, rng.uniform(*DELAY_NS, count), CROSS_STAMP_NS)
    shared, shared_sd = without_shared(count)
    # of a cable, what one direction takes; of a tie, how far its readings may be apart
    least_there, least_back = (np.where(cable, sign * a, 0.0) for sign in (1.0, -1.0))
    seen = np.where(cable, 0.0, a)
    edges = Edges(
        node_count=len(theta),
        u=u,
        v=v,
        y_ns=difference + a + rng.normal(0.0, NOISE_SD_NS, count),
        noise_sd_ns=np.full(count, NOISE_SD_NS),
        healthy_sd_ns=np.where(cable, HEALTHY_SD_NS, UNIFORM_SD * CROSS_STAMP_NS),
        may_be_bad=cable,
        shared=shared,
        shared_sd_ns=shared_sd,
        forward_limit_ns=difference + seen + delay + least_there,
        backward_limit_ns=-difference - seen + delay + least_back,
    )
    return Drawn(edges=edges, theta_ns=theta, bad=bad, reference=first_nic)


def rail_leaves(leaves: int, hosts: int, rails: int) -> np.ndarray:
    """[NIC]: its leaf. A pod is `rails` leaves; its machines have a NIC on each."""
    pods, rest = divmod(leaves, rails)
    machines, more = divmod(hosts, rails)
    if rest or more or machines % pods:
        raise ValueError(
            f"{hosts} NICs on {leaves} leaves are no whole machines of {rails} NICs in whole pods"
        )
    nic = np.arange(hosts)
    pod = nic // rails // (machines // pods)
    leaf: np.ndarray = pod * rails + nic % rails
    return leaf
