# SPDX-License-Identifier: Apache-2.0
"""Random small fabrics, and where the entries of their switches send a packet."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import networkx as nx
from hypothesis import strategies as st

from controller.entries import Entry, Group, GroupRef, Lpm, Member, MemberRef, TableEntry
from controller.fabric import Fabric, Link, LinkEnd, cabling
from controller.fabric_generate import leaf_spine

BUCKETS = 16
"""Enough for all sets of these fabrics, and quicker than 64."""
EXTRA_PORT_BASE = 100

Forwarding = dict[str, dict[int, tuple[int, ...]]]
"""Switch -> destination address -> port of each bucket (one, where there is no group)."""


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    """Leaf-spine with one host a leaf, and further cables between any switches, some parallel."""
    fabric = leaf_spine(
        leaves=draw(st.integers(2, 4)),
        spines=draw(st.integers(1, 3)),
        hosts_per_leaf=1,
        tenants=["t"],
    )
    fabric = replace(fabric, ecmp=replace(fabric.ecmp, buckets=BUCKETS))
    names = [switch.name for switch in fabric.switches]
    pairs = st.tuples(st.sampled_from(names), st.sampled_from(names)).filter(lambda p: p[0] != p[1])
    extra = [
        Link(
            a=LinkEnd(node=a, port=EXTRA_PORT_BASE + index),
            b=LinkEnd(node=b, port=EXTRA_PORT_BASE + index),
            speed_gbps=100,
            weight=draw(st.none() | st.integers(1, 300)),
            asymmetry_sd_ns=5.0,
        )
        for index, (a, b) in enumerate(draw(st.lists(pairs, max_size=5)))
    ]
    usual = [link for link in fabric.links if draw(st.integers(0, 5)) or not _inner(fabric, link)]
    links = (*usual, *extra)
    graph = nx.Graph([(link.a.node, link.b.node) for link in links])
    if len(graph) < len(names) + len(fabric.hosts) or not nx.is_connected(graph):
        links = (*fabric.links, *extra)
    return replace(fabric, links=links)


def _inner(fabric: Fabric, link: Link) -> bool:
    names = {switch.name for switch in fabric.switches}
    return {link.a.node, link.b.node} <= names


def inner_links(fabric: Fabric) -> list[Link]:
    """The links between switches."""
    return [link for link in fabric.links if _inner(fabric, link)]


def drained(fabric: Fabric, names: Collection[str]) -> Fabric:
    """The fabric with exactly these links drained."""
    links = tuple(replace(link, drained=link.name in names) for link in fabric.links)
    return replace(fabric, links=links)


def forwarding(fabric: Fabric, state: Mapping[str, Iterable[Entry]]) -> Forwarding:
    """What the entries of each switch do to packets to each host."""
    return {name: _of_switch(fabric, list(entries)) for name, entries in state.items()}


def _of_switch(fabric: Fabric, entries: list[Entry]) -> dict[int, tuple[int, ...]]:
    members = {e.member_id: dict(e.action.params)["port"] for e in entries if isinstance(e, Member)}
    groups = {
        e.group_id: tuple(members[member] for member, _ in e.members)
        for e in entries
        if isinstance(e, Group)
    }
    routes = []
    for entry in entries:
        if isinstance(entry, TableEntry) and entry.table == "ipv4_lpm":
            ((_, prefix),) = entry.match
            assert isinstance(prefix, Lpm)
            match entry.action:
                case MemberRef(member_id):
                    routes.append((prefix, (members[member_id],)))
                case GroupRef(group_id):
                    routes.append((prefix, groups[group_id]))
    routes.sort(key=lambda route: -route[0].prefix_len)
    return {
        host.ip: next(
            (ports for prefix, ports in routes if _holds(prefix, host.ip)),
            (),
        )
        for host in fabric.hosts
    }


def _holds(prefix: Lpm, address: int) -> bool:
    gone = 32 - prefix.prefix_len
    return prefix.value >> gone == address >> gone


def ways(fabric: Fabric, ports: Forwarding) -> dict[int, "nx.DiGraph[str]"]:
    """For each host all steps that packets to it may take, from node to node; a packet without a
    route goes to "nowhere"."""
    peers = cabling(fabric)
    graphs = {}
    for host in fabric.hosts:
        graph: nx.DiGraph[str] = nx.DiGraph()
        for name, of_switch in ports.items():
            for port in of_switch[host.ip]:
                far = peers.get(LinkEnd(node=name, port=port))
                graph.add_edge(name, "nowhere" if far is None else far.node)
            if not of_switch[host.ip]:
                graph.add_edge(name, "nowhere")
        graphs[host.ip] = graph
    return graphs


def check_ways(fabric: Fabric, ports: Forwarding) -> None:
    """No packet goes in a circle, and each ends at its host, wherever it starts."""
    names = {host.ip: host.name for host in fabric.hosts}
    for address, graph in ways(fabric, ports).items():
        assert nx.is_directed_acyclic_graph(graph), nx.find_cycle(graph)
        assert {node for node in graph if not graph.out_degree(node)} == {names[address]}


def check_no_circle(fabric: Fabric, ports: Forwarding) -> None:
    """No packet goes in a circle, wherever it starts."""
    for graph in ways(fabric, ports).values():
        assert nx.is_directed_acyclic_graph(graph), nx.find_cycle(graph)
