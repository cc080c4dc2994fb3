# SPDX-License-Identifier: Apache-2.0
"""The fabrics that `tempotrace deploy init` generates: which sizes each topology has."""

from collections.abc import Callable, Mapping
from enum import Enum, unique
from functools import partial

from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.fabric_topologies import rails, three_tier

TENANTS = ("alpha", "beta")
"""Tenants of a generated fabric, one host of each per leaf in turn."""


@unique
class InitTopology(Enum):
    """Cablings that can be generated."""

    LEAF_SPINE = "leaf-spine"
    THREE_TIER = "three-tier"
    RAILS = "rails"


_GENERATORS: dict[InitTopology, Callable[..., Fabric]] = {
    InitTopology.LEAF_SPINE: leaf_spine,
    InitTopology.THREE_TIER: three_tier,
    InitTopology.RAILS: rails,
}
SIZES: dict[InitTopology, Mapping[str, int]] = {
    InitTopology.LEAF_SPINE: {"leaves": 8, "spines": 4, "hosts_per_leaf": 2},
    InitTopology.THREE_TIER: {
        "pods": 2,
        "leaves_per_pod": 4,
        "spines_per_pod": 2,
        "cores_per_plane": 2,
        "hosts_per_leaf": 2,
    },
    InitTopology.RAILS: {
        "units": 1,
        "machines_per_unit": 4,
        "nics_per_machine": 8,
        "spines": 4,
    },
}
"""The sizes of each topology and what they are unless given."""


def generate(topology: InitTopology, given: Mapping[str, int | None], *, speed_gbps: int) -> Fabric:
    """The fabric of these sizes; ValueError for one that the topology does not have, or that
    cannot be."""
    usual = SIZES[topology]
    chosen = {name: value for name, value in given.items() if value is not None}
    for name in chosen.keys() - usual.keys():
        known = ", ".join(f"--{one.replace('_', '-')}" for one in usual)
        raise ValueError(
            f"--{name.replace('_', '-')} is no size of {topology.value}; expected {known}"
        )
    sizes = {**usual, **chosen}
    places = sizes.get("hosts_per_leaf", sizes.get("machines_per_unit", 1))
    make = partial(_GENERATORS[topology], speed_gbps=speed_gbps, tenants=TENANTS[:places])
    return make(**sizes)
