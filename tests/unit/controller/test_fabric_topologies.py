# SPDX-License-Identifier: Apache-2.0
"""Generated three-tier and rail-optimised fabrics: their cables, paths and files."""

from collections import Counter

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.desired import desired_state
from controller.fabric import Fabric, LinkEnd, cabling
from controller.fabric_check import check_fabric
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_topologies import rails, three_tier
from controller.paths import switch_graph


def degree(fabric: Fabric, name: str) -> Counter[str]:
    """What a node is cabled to, by the kind of its name."""
    return Counter(
        far.node.rstrip("0123456789") for near, far in cabling(fabric).items() if near.node == name
    )


def test_three_tiers_have_pods_and_planes() -> None:
    """Each leaf is cabled to the spines of its pod, spine n of each pod to the cores of plane n."""
    fabric = three_tier(pods=3, leaves_per_pod=4, spines_per_pod=2, cores_per_plane=5)
    ends = cabling(fabric)
    assert len(fabric.switches) == 3 * 4 + 3 * 2 + 2 * 5
    assert len(fabric.links) == 3 * 4 * 2 + 3 * 2 * 5 + 3 * 4 * 2
    assert degree(fabric, "leaf7") == {"spine": 2, "h": 2}
    assert degree(fabric, "spine4") == {"leaf": 4, "core": 5}
    assert degree(fabric, "core9") == {"spine": 3}
    assert ends[LinkEnd(node="leaf7", port=2)].node == "spine4"
    assert {ends[LinkEnd(node="core9", port=pod)].node for pod in (1, 2, 3)} == {
        "spine2",
        "spine4",
        "spine6",
    }


def test_three_tier_paths_cross_a_core_between_pods_only() -> None:
    """Two links within a pod, four between pods, over every spine and core that leads there."""
    fabric = three_tier(pods=2, leaves_per_pod=2, spines_per_pod=3, cores_per_plane=2)
    graph = switch_graph(fabric, fabric.links)
    assert nx.shortest_path_length(graph, "leaf1", "leaf2") == 2
    assert nx.shortest_path_length(graph, "leaf1", "leaf3") == 4
    assert len(list(nx.all_shortest_paths(graph, "leaf1", "leaf3"))) == 3 * 2


def test_rails_put_a_nic_of_every_machine_on_each_leaf_of_its_unit() -> None:
    """NIC n of the machines of unit u is on leaf (u - 1) * NICs + n; all leaves meet at spines."""
    fabric = rails(units=2, machines_per_unit=3, nics_per_machine=4, spines=2)
    leaf_of = {far.node: near.node for near, far in cabling(fabric).items() if far.port == 1}
    assert {leaf_of[f"m{machine}n2"] for machine in (1, 2, 3)} == {"leaf2"}
    assert {leaf_of[f"m{machine}n2"] for machine in (4, 5, 6)} == {"leaf6"}
    assert Counter(host.machine for host in fabric.hosts) == {f"m{n}": 4 for n in range(1, 7)}
    assert [host.name for host in fabric.hosts[:5]] == ["m1n1", "m1n2", "m1n3", "m1n4", "m2n1"]
    assert degree(fabric, "spine1") == {"leaf": 8}


@settings(max_examples=12, deadline=None)
@given(sizes=st.lists(st.integers(1, 4), min_size=5, max_size=5), rail=st.booleans())
def test_every_size_is_sound_reads_back_and_can_be_deployed(sizes: list[int], rail: bool) -> None:
    """Fabrics of any size pass their own checks, survive the file, and give entries."""
    a, b, c, d, e = sizes
    if rail:
        fabric = rails(units=a, machines_per_unit=b, nics_per_machine=c, spines=d, tenants=["t"])
    else:
        fabric = three_tier(
            pods=a,
            leaves_per_pod=b,
            spines_per_pod=c,
            cores_per_plane=d,
            hosts_per_leaf=e,
            tenants=["t"],
        )
    assert check_fabric(fabric) == []
    assert parse_fabric(dump_fabric(fabric)) == fabric
    assert all(desired_state(fabric).values())


def test_large_fabrics_keep_addresses_and_ports_apart() -> None:
    """Beyond 255 leaves the address plan carries over into the second byte."""
    fabric = three_tier(
        pods=20, leaves_per_pod=15, spines_per_pod=8, cores_per_plane=4, hosts_per_leaf=1,
        tenants=["t"],
    )  # fmt: skip
    assert str(fabric.switch("leaf300").prefixes[0]) == "10.1.44.0/24"
    assert fabric.host("h300").ip == 0x0A012C01


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (three_tier, {"pods": 0}, "pods is 0; expected 1 to"),
        (three_tier, {"pods": 508}, "a switch would have 508 ports"),
        (three_tier, {"spines_per_pod": 600}, "a switch would have"),
        (rails, {"nics_per_machine": 0}, "is 0; expected 1 to"),
        (rails, {"machines_per_unit": 300}, "hosts_per_leaf is 300; expected 1 to 254"),
    ],
)
def test_impossible_sizes_are_refused(make, arguments, message) -> None:
    """A ValueError names the size."""
    with pytest.raises(ValueError, match=message):
        make(**arguments)
