# SPDX-License-Identifier: Apache-2.0
"""Links that fail, come back, are drained and taken back, in random sequences on random fabrics."""

import random
from collections.abc import Callable

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.entries import Entry, EntryKey
from controller.fabric import Fabric
from controller.reconcile import Operation, batches, reconcile
from controller.route_entries import route_entries
from controller.routing import attached_hosts, compute_routes
from controller.write_order import Held, write_rounds
from tests.support.small_fabrics import (
    Forwarding,
    check_no_circle,
    check_ways,
    drained,
    fabrics,
    forwarding,
    inner_links,
)

Names = frozenset[str]
State = dict[str, tuple[Entry, ...]]


def routes(fabric: Fabric, out: Names = frozenset()) -> State:
    """The routes of every switch while these links are down."""
    table = compute_routes(fabric, out)
    return {s.name: tuple(route_entries(fabric, table, s.name)) for s in fabric.switches}


@st.composite
def sequences(draw: st.DrawFn) -> tuple[Fabric, list[Names]]:
    """A fabric, and the links that are out of use at each point of a sequence of single changes."""
    fabric = draw(fabrics())
    names = [link.name for link in inner_links(fabric)]
    out: list[Names] = [frozenset()]
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=6)):
        out.append(out[-1] ^ {name})
    return fabric, out


@st.composite
def jumps(draw: st.DrawFn) -> tuple[Fabric, Names, Names]:
    """A fabric, and the links out of use before and after a change of any number of links."""
    fabric = draw(fabrics())
    names = st.frozensets(st.sampled_from([link.name for link in inner_links(fabric)]))
    return fabric, draw(names), draw(names)


def usable_ports(fabric: Fabric, out: Names) -> dict[tuple[str, int], set[int]]:
    """(switch, host address) -> ports at the start of a shortest path, by breadth-first search."""
    links = [link for link in inner_links(fabric) if link.name not in out]
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(switch.name for switch in fabric.switches)
    graph.add_edges_from((link.a.node, link.b.node) for link in links)
    found = {}
    for leaf, hosts in attached_hosts(fabric).items():
        distance = nx.single_source_shortest_path_length(graph, leaf)
        for switch in fabric.switches:
            ports = {
                near.port
                for link in links
                for near, far in ((link.a, link.b), (link.b, link.a))
                if near.node == switch.name
                and distance.get(far.node, 1 << 20) + 1 == distance.get(switch.name)
            }
            found |= {(switch.name, local.host.ip): ports for local in hosts}
    return found


@settings(max_examples=50, deadline=None)
@given(case=sequences())
def test_a_change_moves_only_buckets_of_the_ports_that_it_changes(
    case: tuple[Fabric, list[Names]],
) -> None:
    """Bucket by bucket, for every switch and destination: a flow stays on its port, unless the port
    has dropped out of the shortest paths or the new one has come into them; and it never stays on
    a port that leads nowhere while another one would."""
    fabric, out = case
    before = after = forwarding(fabric, routes(fabric, out[0]))
    usable_before = usable_after = usable_ports(fabric, out[0])
    for failed in out[1:]:
        after = forwarding(fabric, routes(fabric, failed))
        usable_after = usable_ports(fabric, failed)
        for (switch, address), usable in usable_after.items():
            old, new = before[switch][address], after[switch][address]
            if not usable or not usable_before[switch, address]:
                continue
            assert set(new) <= usable
            size = max(len(old), len(new))
            for was, now in zip(old * (size // len(old)), new * (size // len(new)), strict=True):
                assert was == now or was not in usable or now not in usable_before[switch, address]
        before, usable_before = after, usable_after


@settings(max_examples=30, deadline=None)
@given(case=sequences())
def test_what_switches_hold_does_not_depend_on_what_happened_before(
    case: tuple[Fabric, list[Names]],
) -> None:
    """Entries are a function of the links that are down: applied step by step they end up as if
    written at once, and with all links up as at the beginning."""
    fabric, out = case
    held = routes(fabric)
    for failed in (*out[1:], frozenset[str]()):
        wanted = routes(fabric, failed)
        for name, entries in wanted.items():
            state = {entry.key: entry for entry in held[name]}
            for update in reconcile(entries, held[name]):
                _apply(state, update.operation, update.entry)
            assert state == {entry.key: entry for entry in entries}
            held[name] = tuple(state.values())
    assert {name: set(entries) for name, entries in held.items()} == {
        name: set(entries) for name, entries in routes(fabric).items()
    }


def _apply(state: dict[EntryKey, Entry], operation: Operation, entry: Entry) -> None:
    if operation is Operation.DELETE:
        del state[entry.key]
    else:
        state[entry.key] = entry


def walk_rounds(
    fabric: Fabric,
    before: State,
    wanted: State,
    seed: int,
    check: Callable[[Fabric, Forwarding], None],
) -> None:
    """Writes the change in its rounds, the switches of a round in any order, and checks every way
    after each batch of each switch."""
    state = {name: {entry.key: entry for entry in entries} for name, entries in before.items()}
    held = {
        name: Held(entries=before[name], updates=reconcile(wanted[name], before[name]))
        for name in wanted
    }
    now = forwarding(fabric, before)
    check(fabric, now)
    for part in write_rounds(fabric, held):
        for name in random.Random(seed).sample(sorted(part), len(part)):
            for batch in batches(part[name], size_max=3):
                for update in batch:
                    _apply(state[name], update.operation, update.entry)
                changed = forwarding(fabric, {name: state[name].values()})
                if changed[name] != now[name]:
                    now |= changed
                    check(fabric, now)
    for name, entries in wanted.items():
        assert state[name] == {entry.key: entry for entry in entries}


@settings(max_examples=30, deadline=None)
@given(case=jumps(), seed=st.integers(0, 99))
def test_draining_and_taking_back_neither_loops_nor_loses_at_any_moment(
    case: tuple[Fabric, Names, Names], seed: int
) -> None:
    """Any links drained or taken back together, all cables working: after every single batch that a
    switch has taken each packet reaches its host, over old routes or new ones."""
    fabric, first, second = case
    before, wanted = routes(drained(fabric, first)), routes(drained(fabric, second))
    walk_rounds(fabric, before, wanted, seed, check_ways)


@settings(max_examples=30, deadline=None)
@given(case=jumps(), seed=st.integers(0, 99))
def test_failures_and_repairs_never_loop(case: tuple[Fabric, Names, Names], seed: int) -> None:
    """Links that fail or come back, any number at once: no moment has a circle."""
    fabric, first, second = case
    walk_rounds(fabric, routes(fabric, first), routes(fabric, second), seed, check_no_circle)
