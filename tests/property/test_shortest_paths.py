# SPDX-License-Identifier: Apache-2.0
"""Shortest paths and their weights, against the definition spelt out switch by switch."""

from dataclasses import replace

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.fabric import Fabric, Link
from controller.fabric_topologies import three_tier
from controller.paths import link_weight, shortest_paths, switch_graph

WHOLE = three_tier(pods=2, leaves_per_pod=2, spines_per_pod=2, cores_per_plane=2)


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    """Some of the links, at several speeds."""
    kept = draw(st.lists(st.booleans(), min_size=len(WHOLE.links), max_size=len(WHOLE.links)))
    links = [
        replace(link, speed_gbps=draw(st.sampled_from([100, 400])))
        for link, keep in zip(WHOLE.links, kept, strict=True)
        if keep
    ]
    return replace(WHOLE, links=tuple(links))


def far_end(link: Link, near: str) -> str:
    """The node at the other end."""
    return link.b.node if link.a.node == near else link.a.node


@settings(deadline=None, max_examples=60)
@given(fabrics())
def test_next_hops_are_those_of_all_shortest_paths(fabric: Fabric) -> None:
    """A port is a next hop exactly if its neighbour is one link nearer; others have none."""
    names = {switch.name for switch in fabric.switches}
    macs = {switch.mac: switch.name for switch in fabric.switches}
    graph = switch_graph(fabric, fabric.links)
    distances = dict(nx.all_pairs_shortest_path_length(graph))
    found = shortest_paths(fabric, fabric.links)
    for name in names:
        assert found[name].keys() == distances[name].keys() - {name}
        for target, hops in found[name].items():
            nearer = [
                far_end(link, name)
                for link in fabric.links
                if name in (link.a.node, link.b.node)
                and far_end(link, name) in names
                and distances[far_end(link, name)].get(target) == distances[name][target] - 1
            ]
            assert sorted(macs[hop.mac] for hop in hops) == sorted(nearer)
            assert [hop.port for hop in hops] == sorted(hop.port for hop in hops)


@settings(deadline=None, max_examples=30)
@given(fabrics())
def test_weights_are_what_the_way_behind_can_carry(fabric: Fabric) -> None:
    """The links to a neighbour together weigh no more than it can carry on, and no more than they
    carry themselves."""
    macs = {switch.mac: switch.name for switch in fabric.switches}
    found = shortest_paths(fabric, fabric.links)

    def carries(name: str, target: str) -> int:
        if name == target:
            return 1 << 62
        width: dict[str, int] = {}
        for link in fabric.links:
            if name in (link.a.node, link.b.node):
                far = far_end(link, name)
                width[far] = width.get(far, 0) + link_weight(link)
        ways = {macs[hop.mac] for hop in found[name][target]}
        return sum(min(width[way], carries(way, target)) for way in ways)

    for name, by_target in found.items():
        for target, hops in by_target.items():
            for way in {macs[hop.mac] for hop in hops}:
                weight = sum(hop.weight for hop in hops if macs[hop.mac] == way)
                assert weight <= carries(way, target)
            assert sum(hop.weight for hop in hops) <= carries(name, target)
            assert sum(hop.weight for hop in hops) > carries(name, target) - len(hops)
