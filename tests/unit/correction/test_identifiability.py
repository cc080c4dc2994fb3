# SPDX-License-Identifier: Apache-2.0
"""Cuts that are at least half bad leave the side away from the reference undetermined."""

import numpy as np
import pytest

from correction.identifiability import (
    Graph,
    _grown_sides,
    flagged_clocks,
    loop_links,
    violated_cuts,
)


def _leaf_spine(leaves: int, spines: int, bad: list[tuple[int, int]], hosts: int = 1) -> Graph:
    """Clocks: hosts, leaves, spines; host 0 on leaf 0 is the reference."""
    n_hosts = leaves * hosts
    ends = [(n_hosts + x, n_hosts + leaves + s) for x in range(leaves) for s in range(spines)]
    is_bad = [(x, s) in bad for x in range(leaves) for s in range(spines)]
    ends += [(h, n_hosts + h // hosts) for h in range(n_hosts)]
    is_bad += [False] * n_hosts
    return Graph(
        ends=np.array(ends),
        known=np.ones(len(ends), np.bool_),
        bad=np.array(is_bad),
        weight=np.ones(len(ends)),
        clock_count=n_hosts + leaves + spines,
        reference=0,
    )


def _flagged(graph: Graph) -> set[int]:
    return set(np.flatnonzero(flagged_clocks(graph, violated_cuts(graph))).tolist())


def test_access_links_lie_in_no_loop() -> None:
    """Stripping dead ends leaves exactly the fabric links."""
    graph = _leaf_spine(4, 2, [])
    assert (
        loop_links(graph.ends, graph.known, graph.clock_count).tolist() == [True] * 8 + [False] * 4
    )


def test_one_bad_uplink_of_four_is_determined() -> None:
    """ceil(4/2) - 1 = 1 bad uplink is tolerated, on several leaves at once."""
    assert _flagged(_leaf_spine(8, 4, [(1, 0), (2, 0), (3, 1)])) == set()


def test_two_bad_uplinks_of_four_flag_the_leaf_and_its_hosts() -> None:
    """Half of the cut is not fewer than half."""
    assert _flagged(_leaf_spine(8, 4, [(3, 0), (3, 2)], hosts=2)) == {16 + 3, 6, 7}


def test_reference_leaf_in_doubt_flags_everything_beyond_it() -> None:
    """Only the reference, its own leaf and the hosts on that leaf stay determined."""
    graph = _leaf_spine(8, 4, [(0, 0), (0, 1)], hosts=2)
    assert _flagged(graph) == set(range(graph.clock_count)) - {0, 1, 16}


def test_spine_with_half_its_links_bad_is_flagged_alone() -> None:
    """Leaves hold together through the other spines."""
    bad = [(x, 2) for x in range(1, 5)]
    graph = _leaf_spine(8, 4, bad)
    assert _flagged(graph) == {8 + 8 + 2}


def test_any_bad_uplink_of_two_flags_its_leaf() -> None:
    """Two uplinks tolerate no bad one (clocks.md 2.6: 4 x 2 is not identifiable)."""
    assert _flagged(_leaf_spine(4, 2, [(2, 1)])) >= {4 + 2, 2}


def test_a_violated_leaf_does_not_drag_in_its_neighbours() -> None:
    """Unions with a violated leaf are violated too, but only the smallest sides count."""
    cuts = violated_cuts(_leaf_spine(8, 4, [(3, 0), (3, 1), (3, 2), (3, 3), (5, 0)]))
    assert [sorted(cut.side) for cut in cuts] == [[8 + 3]]


def test_grown_groups_find_what_exhaustive_search_finds() -> None:
    """On a fabric small enough for both, the search for large fabrics flags the same clocks."""
    rng = np.random.default_rng(5)
    for _ in range(30):
        bad = [(x, s) for x in range(5) for s in range(4) if rng.random() < 0.25]
        graph = _leaf_spine(5, 4, bad)
        core = loop_links(graph.ends, graph.known, graph.clock_count)
        nodes = np.unique(graph.ends[core])
        sides = _grown_sides(graph, core, nodes, int(nodes[0]))
        at = np.searchsorted(nodes, graph.ends[core])
        crossing = sides[:, at[:, 0]] != sides[:, at[:, 1]]
        found = (2 * crossing[:, graph.bad[core]].sum(axis=1) >= crossing.sum(axis=1)).any()
        assert found == bool(violated_cuts(graph))


@pytest.mark.parametrize("spines", [3, 5, 8])
def test_tolerance_is_fewer_than_half(spines: int) -> None:
    """(spines - 1) // 2 bad uplinks are tolerated, one more is not."""
    fine = (spines - 1) // 2
    assert _flagged(_leaf_spine(6, spines, [(2, s) for s in range(fine)])) == set()
    assert 2 in _flagged(_leaf_spine(6, spines, [(2, s) for s in range(fine + 1)]))
