# SPDX-License-Identifier: Apache-2.0
"""Routes follow shortest paths, and all paths of equal length share the traffic."""

from dataclasses import replace
from ipaddress import IPv4Network, IPv6Address, IPv6Network

import pytest

from controller.fabric import Fabric, Link, LinkEnd
from controller.fabric_defaults import device_models
from controller.fabric_generate import leaf_spine
from controller.paths import NextHop
from controller.routing import Route, compute_routes, tiers


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
        NextHop(port=spine, mac=fabric.switch(f"spine{spine}").mac, weight=100_000)
        for spine in range(1, 5)
    )


def test_leaf_has_a_host_route_per_local_host() -> None:
    """Local hosts are /32 routes to their port and MAC; the leaf's own prefix is no route."""
    fabric = leaf_spine()
    assert route_to(fabric, "leaf3", "10.0.3.2/32").next_hops == (
        NextHop(port=12, mac=fabric.host("h6").mac, weight=100_000),
    )
    prefixes = [route.prefix for route in compute_routes(fabric).routes["leaf3"]]
    assert IPv4Network("10.0.3.0/24") not in prefixes
    assert len(prefixes) == 2 + 7 + 1  # and the collector


def test_spine_has_one_port_per_leaf() -> None:
    """A spine reaches each leaf over the cable to it."""
    fabric = leaf_spine()
    routes = compute_routes(fabric).routes["spine2"]
    assert [route.next_hops for route in routes if route.collector is None] == [
        (NextHop(port=leaf, mac=fabric.switch(f"leaf{leaf}").mac, weight=100_000),)
        for leaf in range(1, 9)
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
    routes = compute_routes(fabric).routes["leaf1"]
    assert {route.group_node_id for route in routes if len(route.next_hops) > 1} == {2}
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


def test_collector_is_reached_out_of_band_from_every_switch() -> None:
    """Where no cable to the collector is declared, each switch's report port leads to it."""
    fabric = leaf_spine()
    for name in ("leaf1", "spine4"):
        route = route_to(fabric, name, "10.255.0.1/32")
        assert route.next_hops == (NextHop(port=60, mac=fabric.collector.mac),)
        assert route.collector == fabric.collector


def test_cabled_collector_is_routed_like_a_host() -> None:
    """Its switch has the port; other leaves share the traffic over the spines, with its prefix."""
    fabric = in_band(leaf_spine(), "leaf2:20")
    assert route_to(fabric, "leaf2", "10.255.0.1/32").next_hops == (
        NextHop(port=20, mac=fabric.collector.mac),
    )
    far = route_to(fabric, "leaf1", "10.255.0.1/32")
    assert [hop.port for hop in far.next_hops] == [1, 2, 3, 4]
    assert far.group_node_id == route_to(fabric, "leaf1", "10.0.2.0/24").group_node_id
    assert [hop.port for hop in route_to(fabric, "spine1", "10.255.0.1/32").next_hops] == [2]


def in_band(fabric: Fabric, end: str) -> Fabric:
    """The fabric with its collector cabled to a switch port."""
    collector = replace(fabric.collector, attached=LinkEnd.parse(end))
    return replace(fabric, collectors=(collector,))


def test_tiers_are_distances_from_the_hosts() -> None:
    """Leaves 0, spines 1, a switch above them 2; a declared tier stands."""
    fabric = leaf_spine(leaves=2, spines=2)
    spine = fabric.switch("spine1")
    core = replace(spine, name="core", node_id=900, ip=spine.ip + 99, mac=spine.mac + 99)
    up = Link(
        a=LinkEnd(node="core", port=1),
        b=LinkEnd(node="spine1", port=9),
        speed_gbps=100,
        asymmetry_sd_ns=5.0,
    )
    three = replace(fabric, switches=(*fabric.switches, core), links=(*fabric.links, up))
    assert tiers(three) == {"leaf1": 0, "leaf2": 0, "spine1": 1, "spine2": 1, "core": 2}
    declared = tuple(replace(s, tier=7) if s.name == "spine2" else s for s in three.switches)
    assert tiers(replace(three, switches=declared))["spine2"] == 7


def test_weight_is_the_speed_where_none_is_declared() -> None:
    """What a path can carry is the least of its links; a declared weight stands for itself."""
    fabric = leaf_spine(leaves=2, spines=2, models=device_models(speeds_gbps=(100, 400)))
    fast = replace(fabric.links[0], speed_gbps=400)
    chosen = replace(fabric.links[1], weight=7, vlan=12)
    fabric = replace(fabric, links=(fast, chosen, *fabric.links[2:]))
    hops = route_to(fabric, "leaf1", "10.0.2.0/24").next_hops
    assert [(hop.weight, hop.vlan) for hop in hops] == [(100_000, 0), (7_000, 12)]
    hops = route_to(fabric, "spine1", "10.0.1.0/24").next_hops
    assert [hop.weight for hop in hops] == [400_000]


def test_share_of_a_spine_is_what_it_can_carry_to_that_leaf() -> None:
    """Spine1 has 400 Gb/s down to leaf2 and 100 to leaf3: towards leaf2 it gets four times more."""
    fabric = leaf_spine(leaves=3, spines=2, models=device_models(speeds_gbps=(100, 400)))
    fast = {"leaf1:1", "leaf1:2", "leaf2:1"}
    links = tuple(
        replace(link, speed_gbps=400) if str(link.a) in fast else link for link in fabric.links
    )
    fabric = replace(fabric, links=links)

    def weights(prefix: str) -> list[int]:
        return [hop.weight for hop in route_to(fabric, "leaf1", prefix).next_hops]

    assert weights("10.0.2.0/24") == [400_000, 100_000]
    assert weights("10.0.3.0/24") == [100_000, 100_000]


def test_parallel_links_add_up() -> None:
    """Two cables to a spine carry twice as much, shared by both."""
    fabric = leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=["t"])
    extra = [
        Link(
            a=LinkEnd(node=f"leaf{leaf}", port=9),
            b=LinkEnd(node="spine1", port=8 + leaf),
            speed_gbps=100,
            asymmetry_sd_ns=5.0,
        )
        for leaf in (1, 2)
    ]
    both = replace(fabric, links=(*fabric.links, *extra))
    hops = route_to(both, "leaf1", "10.0.2.0/24").next_hops
    assert [(hop.port, hop.weight) for hop in hops] == [(1, 100_000), (2, 100_000), (9, 100_000)]
    failed = compute_routes(both, ["leaf2:9-spine1:10"]).routes["leaf1"]
    assert next(route for route in failed if str(route.prefix) == "10.0.2.0/24").next_hops == hops
    one_down = replace(fabric, links=(*fabric.links, extra[0]))
    hops = route_to(one_down, "leaf1", "10.0.2.0/24").next_hops
    assert [(hop.port, hop.weight) for hop in hops] == [(1, 50_000), (2, 100_000), (9, 50_000)]


def test_failed_link_stays_in_its_sets_and_is_marked() -> None:
    """Routes over other ports of the set keep their order; only the failed port is out of use."""
    fabric = leaf_spine()
    routes = compute_routes(fabric, ["leaf5:2-spine2:5"]).routes["leaf1"]
    by_prefix = {str(route.prefix): route for route in routes}
    assert [hop.port for hop in by_prefix["10.0.5.0/24"].next_hops] == [1, 2, 3, 4]
    assert by_prefix["10.0.5.0/24"].failed_ports == (2,)
    assert by_prefix["10.0.5.0/24"].group_node_id == 2
    assert by_prefix["10.0.5.0/24"].apart == (2,)
    assert by_prefix["10.0.6.0/24"].failed_ports == by_prefix["10.0.6.0/24"].apart == ()
    assert by_prefix["10.0.6.0/24"].group_node_id == 2


def test_own_failed_port_sets_nobody_apart() -> None:
    """All destinations lose the same port and stay one set; what fails elsewhere sets apart."""
    down = ["leaf1:1-spine1:1", "leaf5:2-spine2:5"]
    routes = compute_routes(leaf_spine(), down).routes["leaf1"]
    by_prefix = {str(route.prefix): route for route in routes}
    assert by_prefix["10.0.6.0/24"].failed_ports == (1,)
    assert by_prefix["10.0.6.0/24"].apart == ()
    assert by_prefix["10.0.5.0/24"].failed_ports == (1, 2)
    assert by_prefix["10.0.5.0/24"].apart == (2,)


def test_drained_link_is_avoided_like_a_failed_one() -> None:
    """An operator takes a link out of use in the file; the fabric stays as it is otherwise."""
    fabric = leaf_spine()
    links = tuple(
        replace(link, drained=True) if str(link.a) == "leaf5:2" else link for link in fabric.links
    )
    drained = replace(fabric, links=links)
    assert compute_routes(drained).routes == compute_routes(fabric, ["leaf5:2-spine2:5"]).routes


def test_way_round_is_a_set_of_its_own() -> None:
    """A spine that lost its cable to a leaf goes through the others, which were no set before."""
    routes = compute_routes(leaf_spine(), ["leaf5:2-spine2:5"]).routes["spine2"]
    (route,) = [route for route in routes if str(route.prefix) == "10.0.5.0/24"]
    assert [hop.port for hop in route.next_hops] == [1, 2, 3, 4, 6, 7, 8]
    assert route.failed_ports == ()


def test_destination_without_any_way_keeps_its_route() -> None:
    """With all uplinks of a leaf down nothing better than the usual set exists."""
    fabric = leaf_spine(leaves=2, spines=2)
    down = [link.name for link in fabric.links if link.a.node == "leaf2" and "spine" in link.name]
    routes = compute_routes(fabric, down).routes["leaf1"]
    (route,) = [route for route in routes if str(route.prefix) == "10.0.2.0/24"]
    assert [hop.port for hop in route.next_hops] == [1, 2]
    assert route.failed_ports == ()


def test_unknown_failed_link_is_refused() -> None:
    """A misspelt link would otherwise pass for a sound fabric."""
    with pytest.raises(ValueError, match="there is no link leaf1:1"):
        compute_routes(leaf_spine(), ["leaf1:1"])


def test_ipv6_prefixes_and_hosts_are_routed() -> None:
    """Declared prefixes as a whole, hosts of a switch without prefix one by one."""
    fabric = dual_stack(leaf_spine(leaves=3, spines=2, hosts_per_leaf=1, tenants=["t"]))
    routes = compute_routes(fabric).routes["leaf1"]
    prefixes = [str(route.prefix) for route in routes if route.prefix.version == 6]
    assert prefixes == ["fd00:0:1::1/128", "fd00:0:2::/64", "fd00:0:3::1/128"]
    assert [route.prefix.version for route in routes] == sorted(r.prefix.version for r in routes)


def dual_stack(fabric: Fabric) -> Fabric:
    """IPv6 addresses fd00:0:LEAF::1, and a prefix on leaf2 alone."""
    hosts = tuple(
        replace(host, ipv6=int(IPv6Address(f"fd00:0:{index}::1")))
        for index, host in enumerate(fabric.hosts, 1)
    )
    switches = tuple(
        replace(switch, ipv6_prefixes=(IPv6Network("fd00:0:2::/64"),))
        if switch.name == "leaf2"
        else switch
        for switch in fabric.switches
    )
    return replace(fabric, hosts=hosts, switches=switches)
