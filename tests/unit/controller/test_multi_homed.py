# SPDX-License-Identifier: Apache-2.0
"""Hosts with several cables, and machines with several NICs."""

from dataclasses import replace

from controller.fabric import Fabric, LinkEnd
from controller.fabric_check import check_fabric
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_generate import leaf_spine
from controller.routing import Route, compute_routes


def dual_homed() -> Fabric:
    """Three leaves, two spines; h1 is cabled to leaf1 and leaf2."""
    fabric = leaf_spine(leaves=3, spines=2, hosts_per_leaf=2)
    second = replace(
        fabric.links[-1], a=LinkEnd(node="leaf2", port=20), b=LinkEnd(node="h1", port=2)
    )
    return replace(
        fabric,
        switches=tuple(replace(switch, prefixes=()) for switch in fabric.switches),
        links=(*fabric.links, second),
    )


def route(fabric: Fabric, switch: str, failed: tuple[str, ...] = ()) -> Route:
    """The route to h1."""
    routes = compute_routes(fabric, failed).routes[switch]
    (found,) = [r for r in routes if int(r.prefix.network_address) == fabric.host("h1").ip]
    return found


def test_every_switch_has_one_route_over_all_nearest_leaves() -> None:
    """A spine spreads over both leaves, a leaf of the host's own goes straight."""
    fabric = dual_homed()
    assert check_fabric(fabric) == []
    assert [hop.port for hop in route(fabric, "spine1").next_hops] == [1, 2]
    assert [hop.port for hop in route(fabric, "leaf3").next_hops] == [1, 2]
    assert [hop.port for hop in route(fabric, "leaf1").next_hops] == [11]
    assert [hop.port for hop in route(fabric, "leaf2").next_hops] == [20]


def test_a_failed_cable_leaves_the_other_leaf() -> None:
    """With leaf1's link to spine1 down, spine1's bucket for it goes to leaf2."""
    fabric = dual_homed()
    found = route(fabric, "spine1", ("leaf1:1-spine1:1",))
    assert [hop.port for hop in found.next_hops] == [1, 2]
    assert found.failed_ports == (1,)


def test_group_numbers_differ_where_sets_differ() -> None:
    """Sets of one switch never share a number, whatever they lead to."""
    for routes in compute_routes(dual_homed()).routes.values():
        numbers: dict[int, tuple[object, ...]] = {}
        for one in routes:
            if len(one.next_hops) > 1:
                assert numbers.setdefault(one.group_node_id, one.next_hops) == one.next_hops


def test_prefixes_and_several_cables_exclude_each_other() -> None:
    """A range that one leaf serves would hide the other leaf."""
    fabric = dual_homed()
    with_prefixes = replace(
        fabric, switches=leaf_spine(leaves=3, spines=2, hosts_per_leaf=2).switches
    )
    assert "h1 has several links" in check_fabric(with_prefixes)[0].message


def test_machines_survive_the_file() -> None:
    """`machine` is read back as it was written."""
    fabric = leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=("alpha",))
    named = replace(fabric, hosts=tuple(replace(host, machine="m1") for host in fabric.hosts))
    assert parse_fabric(dump_fabric(named)).hosts == named.hosts
