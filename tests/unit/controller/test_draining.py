# SPDX-License-Identifier: Apache-2.0
"""Draining a switch: nothing passes through it any more, and all that can be reached still is."""

import pytest

from controller.draining import cut_off_hosts, drainable, drained_links, neighbours
from controller.ecmp import buckets_in_use
from controller.fabric import Fabric, LinkEnd, cabling
from controller.fabric_generate import leaf_spine
from controller.fabric_topologies import rails, three_tier
from controller.findings import NO_FINDINGS, Findings, Target
from controller.routing import Route
from tests.unit.controller.test_multi_homed import dual_homed

FABRICS = {
    "leaf-spine": leaf_spine(leaves=3, spines=3, hosts_per_leaf=1, tenants=["t"]),
    "three-tier": three_tier(pods=2, leaves_per_pod=2, spines_per_pod=2, cores_per_plane=2),
    "rails": rails(units=2, machines_per_unit=2, nics_per_machine=2, spines=2),
    "dual-homed": dual_homed(),
}


def ports_in_use(fabric: Fabric, route: Route) -> set[int]:
    """The ports that its buckets lead to."""
    weights = {hop.port: hop.weight for hop in route.next_hops}
    usable = weights.keys() - set(route.failed_ports)
    return set(buckets_in_use(weights, usable, fabric.ecmp.buckets))


@pytest.mark.parametrize("kind", FABRICS)
def test_nothing_leads_over_a_drained_switch_but_to_what_only_it_serves(kind: str) -> None:
    """For every switch that can be drained, on every other switch, for every prefix."""
    fabric = FABRICS[kind]
    ends = cabling(fabric)
    usual = Target.of(fabric, NO_FINDINGS)
    for drained in drainable(fabric):
        target = Target.of(fabric, Findings(drained_switches=[drained]), before=usual)
        for switch in fabric.switches:
            if switch.name == drained:
                continue
            for route in target.routes.routes[switch.name]:
                over = {
                    ends[end].node
                    for port in ports_in_use(fabric, route)
                    if (end := LinkEnd(node=switch.name, port=port)) in ends
                }
                assert drained not in over or route.apart == (-1,), (drained, switch.name, route)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("leaf-spine", {"spine1", "spine2", "spine3"}),
        # A spine of a three-tier fabric is on all ways out of its pod; leaves are the ends.
        (
            "three-tier",
            {"spine1", "spine2", "spine3", "spine4", *(f"core{n}" for n in range(1, 5))},
        ),
        ("rails", {"spine1", "spine2"}),
    ],
)
def test_switches_that_something_passes_through(kind: str, expected: set[str]) -> None:
    """All but those where every way ends."""
    assert drainable(FABRICS[kind]) == expected


def test_leaves_of_hosts_with_two_cables_can_be_drained() -> None:
    """Their hosts are reached over the other leaf, so nobody is cut off."""
    fabric = FABRICS["dual-homed"]
    leaves = {name for name in drainable(fabric) if name.startswith("leaf")}
    assert leaves
    for name in leaves:
        links = drained_links(fabric, [name])
        assert links
        assert {far for link in links for far in link.replace("-", ":").split(":")} >= {name}


def test_neighbours_are_the_switches_at_the_other_ends() -> None:
    """Hosts and the switch itself are not among them."""
    fabric = FABRICS["leaf-spine"]
    assert neighbours(fabric, ["spine2"]) == ("leaf1", "leaf2", "leaf3")
    assert neighbours(fabric, ["leaf1"]) == ("spine1", "spine2", "spine3")
    assert neighbours(fabric, []) == ()
    assert cut_off_hosts(fabric, "leaf2") == ("h2",)
