# SPDX-License-Identifier: Apache-2.0
"""Transparent clocks and PTP over Ethernet as entries."""

from dataclasses import replace

import networkx as nx
import pytest

from controller.entries import MulticastGroup, TableEntry
from controller.fabric import Fabric, PtpRole, StampPoints
from controller.fabric_defaults import device_models
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import EthernetPtp
from controller.ptp_entries import (
    clock_default,
    ethernet_ptp_entries,
    link_delay_entries,
    offset_of_points_scaled,
    residence_offset_scaled,
    tree_ports,
    usual_speed_gbps,
)
from correction.model import StampPoint


def as_clocks(fabric: Fabric, role: PtpRole = PtpRole.TRANSPARENT_CLOCK) -> Fabric:
    """The fabric with switches of that PTP role."""
    return replace(fabric, models=(replace(fabric.models[0], ptp_role=role), *fabric.models[1:]))


@pytest.mark.parametrize("role", [PtpRole.NONE, PtpRole.BOUNDARY_CLOCK])
def test_other_roles_correct_nothing(role: PtpRole) -> None:
    """Only a transparent clock touches the correctionField."""
    fabric = as_clocks(leaf_spine(), role)
    assert str(clock_default(fabric, fabric.switches[0]).action) == "NoAction()"


@pytest.mark.parametrize(("unit_ns", "scale"), [(1, 65_536), (1000, 65_536_000)])
def test_scale_is_the_stamp_unit(unit_ns: int, scale: int) -> None:
    """One stamp unit in 2^-16 ns."""
    fabric = as_clocks(replace(leaf_spine(), models=device_models(stamp_unit_ns=unit_ns)))
    params = dict(clock_default(fabric, fabric.switches[0]).action.params)
    assert params["scaled_ns_per_unit"] == scale


def test_wire_to_wire_residence_is_stamps_plus_offset() -> None:
    """Stamps 1000 ns apart, taken 120 ns after the last bit and 360 ns before the first: the first
    bit was in the switch for 1000 + 120 + 360 ns and the 7.2 ns that 90 bytes take at 100 Gb/s."""
    first_bit_in_ns = 5_000.0
    ingress_stamp_ns = first_bit_in_ns + 90 * 8 / 100 + 120
    egress_stamp_ns = ingress_stamp_ns + 1_000
    first_bit_out_ns = egress_stamp_ns + 360
    fabric = leaf_spine()
    offset_ns = residence_offset_scaled(fabric, fabric.switches[0]) / 65_536
    residence_ns = egress_stamp_ns - ingress_stamp_ns + offset_ns
    assert residence_ns == pytest.approx(first_bit_out_ns - first_bit_in_ns, abs=1e-4)


def test_stamp_at_the_end_on_the_way_out_takes_serialisation_off() -> None:
    """The last bit leaves later than the first: the offset gets smaller, and may be negative."""
    start = StampPoint(latency_ns=0, uncertainty_ns=0)
    end = replace(start, at_frame_end=True)
    late_out = StampPoints(speed_gbps=10, ingress=start, egress=end)
    assert offset_of_points_scaled(late_out) == -72 * 65_536
    assert offset_of_points_scaled(replace(late_out, ingress=end)) == 0


def test_negative_offset_is_written_in_two_s_complement() -> None:
    """The table's parameter has 64 bits; people read the signed number."""
    fabric = as_clocks(leaf_spine())
    points = StampPoints(
        speed_gbps=100,
        ingress=StampPoint(latency_ns=0, uncertainty_ns=0),
        egress=StampPoint(latency_ns=0, uncertainty_ns=0, at_frame_end=True),
    )
    model = replace(fabric.models[0], stamp_points=(points,))
    fabric = replace(fabric, models=(model, fabric.models[1]))
    entry = clock_default(fabric, fabric.switches[0])
    assert dict(entry.action.params)["residence_offset"] == (1 << 64) - 471_859
    assert "residence_offset=-471859" in str(entry)


def test_offset_is_that_of_most_cables() -> None:
    """Two of four cables at 400 Gb/s are no majority over two at 100: the lower speed counts."""
    fabric = leaf_spine(leaves=1, spines=2, models=device_models(speeds_gbps=(100, 400)))
    fast = tuple(
        replace(link, speed_gbps=400) if "spine" in link.name else link for link in fabric.links
    )
    assert usual_speed_gbps(replace(fabric, links=fast), fabric.switch("leaf1")) == 100
    assert usual_speed_gbps(replace(fabric, links=fast), fabric.switch("spine1")) == 400
    assert usual_speed_gbps(replace(fabric, links=()), fabric.switch("leaf1")) == 0


def test_link_delays_are_signed() -> None:
    """A delay less the common constant may be negative."""
    fabric = as_clocks(leaf_spine())
    entries = link_delay_entries(fabric.models[0], fabric.switches[0], {2: -1, 1: 65_536})
    assert [str(entry) for entry in entries] == [
        "ptp_link_delay [ingress_port=1]: set_link_delay(delay=65536)",
        "ptp_link_delay [ingress_port=2]: set_link_delay(delay=-1)",
    ]


def test_link_delays_of_other_switches_are_refused() -> None:
    """A switch that corrects nothing cannot add a delay; nor can a delay have 65 bits."""
    fabric = leaf_spine()
    leaf = fabric.switches[0]
    assert list(link_delay_entries(fabric.models[0], leaf, {})) == []
    with pytest.raises(ValueError, match="leaf1 has link delays, but is no transparent clock"):
        list(link_delay_entries(fabric.models[0], leaf, {1: 5}))
    clock = as_clocks(fabric).models[0]
    with pytest.raises(ValueError, match="exceeds 64 bits"):
        list(link_delay_entries(clock, leaf, {1: 1 << 63}))


def test_peer_delay_goes_to_the_cpu() -> None:
    """Link-local PTP is never forwarded, whatever else the switch does."""
    for choice in EthernetPtp:
        fabric = with_ethernet(leaf_spine(), choice)
        first, *_ = ethernet_ptp_entries(fabric, fabric.switch("spine1"))
        assert str(first) == "l2_ptp [dst_addr=01:80:c2:00:00:0e] priority 300: punt_l2()"


def with_ethernet(fabric: Fabric, choice: EthernetPtp) -> Fabric:
    """The fabric with another choice for PTP over Ethernet."""
    return replace(fabric, ptp=replace(fabric.ptp, ethernet=choice))


def test_tree_reaches_every_host_once() -> None:
    """The flooding ports of all switches form a tree over all nodes: no loop, nobody left out."""
    fabric = leaf_spine()
    ports = tree_ports(fabric)
    graph: nx.Graph[str] = nx.Graph()
    for link in fabric.links:
        used = [end.node not in ports or end.port in ports[end.node] for end in (link.a, link.b)]
        if all(used):
            graph.add_edge(link.a.node, link.b.node)
    assert nx.is_tree(graph)
    reached = set(graph)
    assert {host.name for host in fabric.hosts} <= reached
    assert len(graph.edges) == len(reached) - 1


def test_flooding_starts_on_tree_ports_only() -> None:
    """One group of all tree ports; the ingress port gets no copy, other ports start nothing."""
    fabric = with_ethernet(leaf_spine(), EthernetPtp.TREE)
    entries = list(ethernet_ptp_entries(fabric, fabric.switch("leaf2")))
    (group,) = [entry for entry in entries if isinstance(entry, MulticastGroup)]
    assert group.replicas == ((1, 4095), (11, 4095), (12, 4095))
    assert [str(entry) for entry in entries if isinstance(entry, TableEntry)][1:] == [
        f"l2_ptp [dst_addr=01:1b:19:00:00:00, ingress_port={port}] priority 200: "
        "multicast_l2(multicast_group=1)"
        for port in (1, 11, 12)
    ]


def test_copies_get_the_tag_of_their_link() -> None:
    """The replica's instance is the VLAN of the link behind its port; 4095 where it has none."""
    fabric = with_ethernet(leaf_spine(), EthernetPtp.TREE)
    tagged = tuple(
        replace(link, vlan=100) if str(link.a) == "leaf2:1" else link for link in fabric.links
    )
    entries = ethernet_ptp_entries(replace(fabric, links=tagged), fabric.switch("leaf2"))
    (group,) = [entry for entry in entries if isinstance(entry, MulticastGroup)]
    assert group.replicas == ((1, 100), (11, 4095), (12, 4095))
