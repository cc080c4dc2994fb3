# SPDX-License-Identifier: Apache-2.0
"""Routes follow shortest paths, and all paths of equal length share the traffic."""

from dataclasses import replace
from ipaddress import IPv4Network

from controller.fabric import Fabric, Link, LinkEnd
from controller.fabric_generate import leaf_spine
from controller.routing import NextHop, Route, compute_routes


def route_to(fabric: Fabric, switch: str, prefix: str) -> Route:
    """The one route of the switch to the prefix."""
    routes = compute_routes(fabric).routes[switch]
    (route,) = [route for route in routes if route.prefix == IPv4Network(prefix)]
    return route


def without(fabric: Fabric, *ends: str) -> Fabric:
    """The fabric without the links at these ends."""
    return replace(fabric, links=tuple(link for link in fabric.links if str(link.a) not in ends))


def test_leaf_reaches_other_leaves_over_all_spines() -> None:
    """A remote leaf's prefix is spread over all uplinks, with each spine's MAC."""
    fabric = leaf_spine()
    route = route_to(fabric, "leaf3", "10.0.5.0/24")
    assert route.next_hops == tuple(
        NextHop(port=spine, mac=fabric.switch(f"spine{spine}").mac) for spine in range(1, 5)
    )


def test_leaf_has_a_host_route_per_local_host() -> None:
    """Local hosts are /32 routes to their port and MAC; the leaf's own prefix is no route."""
    fabric = leaf_spine()
    assert route_to(fabric, "leaf3", "10.0.3.2/32").next_hops == (
        NextHop(port=12, mac=fabric.host("h6").mac),
    )
    prefixes = [route.prefix for route in compute_routes(fabric).routes["leaf3"]]
    assert IPv4Network("10.0.3.0/24") not in prefixes
    assert len(prefixes) == 2 + 7


def test_spine_has_one_port_per_leaf() -> None:
    """A spine reaches each leaf over the cable to it."""
    fabric = leaf_spine()
    routes = compute_routes(fabric).routes["spine2"]
    assert [route.next_hops for route in routes] == [
        (NextHop(port=leaf, mac=fabric.switch(f"leaf{leaf}").mac),) for leaf in range(1, 9)
    ]


def test_missing_cable_takes_its_spine_out_of_that_leafs_set_only() -> None:
    """Without leaf5-spine2 the others reach leaf5 over three spines, and all else over four."""
    fabric = without(leaf_spine(), "leaf5:2")
    ports = [hop.port for hop in route_to(fabric, "leaf1", "10.0.5.0/24").next_hops]
    assert ports == [1, 3, 4]
    assert len(route_to(fabric, "leaf1", "10.0.6.0/24").next_hops) == 4
    # The spine itself goes back up through another leaf, and never through a host.
    assert {hop.port for hop in route_to(fabric, "spine2", "10.0.5.0/24").next_hops} == {
        1, 2, 3, 4, 6, 7, 8
    }  # fmt: skip


def test_parallel_cables_are_members_of_their_own() -> None:
    """Two cables between the same switches are two next hops."""
    fabric = leaf_spine(leaves=2, spines=1, hosts_per_leaf=1, tenants=["t"])
    second = Link(
        a=LinkEnd(node="leaf1", port=9),
        b=LinkEnd(node="spine1", port=9),
        speed_gbps=100,
        asymmetry_sd_ns=5.0,
    )
    fabric = replace(fabric, links=(*fabric.links, second))
    ports = [hop.port for hop in route_to(fabric, "leaf1", "10.0.2.0/24").next_hops]
    assert ports == [1, 9]


def test_switch_without_prefixes_is_reached_by_host_routes() -> None:
    """Where a leaf declares no prefix, the others have its hosts one by one."""
    fabric = leaf_spine()
    fabric = replace(
        fabric,
        switches=tuple(
            replace(switch, prefixes=()) if switch.name == "leaf4" else switch
            for switch in fabric.switches
        ),
    )
    assert len(route_to(fabric, "leaf1", "10.0.4.1/32").next_hops) == 4
    assert len(route_to(fabric, "spine1", "10.0.4.2/32").next_hops) == 1


def test_group_number_survives_the_loss_of_another_path() -> None:
    """Destinations of one ECMP set share a number, and keep it when another one leaves the set."""
    fabric = leaf_spine()
    numbers = {route.group_node_id for route in compute_routes(fabric).routes["leaf1"][2:]}
    assert numbers == {2}
    broken = without(fabric, "leaf5:2")
    assert route_to(broken, "leaf1", "10.0.6.0/24").group_node_id == 2
    assert route_to(broken, "leaf1", "10.0.5.0/24").group_node_id == 5


def test_attached_hosts_are_those_behind_a_port() -> None:
    """Leaves have two, spines none."""
    attached = compute_routes(leaf_spine()).attached
    assert [(local.port, local.host.name) for local in attached["leaf2"]] == [
        (11, "h3"),
        (12, "h4"),
    ]
    assert attached["spine1"] == ()
