# SPDX-License-Identifier: Apache-2.0
"""The cabling of a scenario, with the generators that `tempotrace deploy init` has too."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Unpack, assert_never

from bmv2_lab.scenarios import Scenario
from bmv2_lab.scenarios.parameters import Topology
from controller.fabric import Fabric, Link, LinkEnd
from controller.fabric_generate import HOST_PORT_BASE, Declared, leaf_spine
from controller.fabric_topologies import rails, three_tier

POD_SWITCHES = 2
"""Leaves, and spines, of a pod; cores of a plane."""
LEAF_PAIR = 2
Ends = tuple[str, str]


def generated(scenario: Scenario, **declared: Unpack[Declared]) -> Fabric:
    """Switches, hosts and cables of a scenario."""
    match scenario.topology:
        case Topology.LEAF_SPINE:
            return _leaf_spine(scenario, declared)
        case Topology.THREE_TIER:
            pods = scenario.leaves // POD_SWITCHES
            assert pods * POD_SWITCHES == scenario.leaves == scenario.spines, "whole pods"
            return three_tier(
                pods=pods,
                leaves_per_pod=POD_SWITCHES,
                spines_per_pod=POD_SWITCHES,
                cores_per_plane=POD_SWITCHES,
                hosts_per_leaf=scenario.hosts_per_leaf,
                **declared,
            )
        case Topology.DUAL_HOMED:
            return _dual_homed(_leaf_spine(scenario, declared))
        case Topology.RAILS:
            return rails(
                machines_per_unit=scenario.hosts_per_leaf,
                nics_per_machine=scenario.leaves,
                spines=scenario.spines,
                **declared,
            )
    assert_never(scenario.topology)


def _leaf_spine(scenario: Scenario, declared: Declared) -> Fabric:
    return leaf_spine(
        leaves=scenario.leaves,
        spines=scenario.spines,
        hosts_per_leaf=scenario.hosts_per_leaf,
        **declared,
    )


def _dual_homed(fabric: Fabric) -> Fabric:
    """Every NIC is cabled to both leaves of its pair; routes lead to hosts, not to ranges."""
    ends: list[Ends] = []
    for link in _access(fabric):
        leaf, port = int(link.a.node.removeprefix("leaf")), link.a.port
        first = (leaf - 1) // LEAF_PAIR * LEAF_PAIR + 1
        place = 0 if leaf == first else sum(1 for one in _access(fabric) if one.a.node == "leaf1")
        for number in range(LEAF_PAIR):
            ends.append((f"leaf{first + number}:{port + place}", f"{link.b.node}:{number + 1}"))
    uplinks = fabric.links[: len(fabric.links) - len(_access(fabric))]
    return replace(
        fabric,
        switches=tuple(replace(switch, prefixes=()) for switch in fabric.switches),
        links=(*uplinks, *_links(fabric, ends)),
    )


def _access(fabric: Fabric) -> tuple[Link, ...]:
    """Access links of the generated fabric."""
    return tuple(link for link in fabric.links if link.a.port >= HOST_PORT_BASE)


def _links(fabric: Fabric, ends: Sequence[Ends]) -> Iterator[Link]:
    like = fabric.links[0]
    for a, b in ends:
        yield replace(like, a=LinkEnd.parse(a), b=LinkEnd.parse(b))
