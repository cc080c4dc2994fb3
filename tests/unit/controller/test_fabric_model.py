# SPDX-License-Identifier: Apache-2.0
"""The estimator's model of a fabric holds declared values, and only those."""

from dataclasses import replace

from controller.fabric_check import check_fabric
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_generate import leaf_spine
from controller.fabric_model import fabric_model, max_delay_ns, min_delay_ns
from correction.model import ClockKind


def test_clocks_come_hosts_first_then_switches() -> None:
    """The index of a clock follows from the order of the file."""
    model = fabric_model(leaf_spine())
    assert [clock.name for clock in model.clocks[:2]] == ["h1", "h2"]
    assert [clock.name for clock in model.clocks[16:18]] == ["leaf1", "leaf2"]
    assert model.clocks[16].node_id == 1
    assert model.clocks[0].ip == 0x0A000101
    assert {clock.kind for clock in model.clocks[:16]} == {ClockKind.NIC}


def test_links_keep_the_order_and_ends_of_the_file() -> None:
    """Link i of the model is link i of the file, with the clocks at its ends."""
    fabric = leaf_spine()
    model = fabric_model(fabric)
    for declared, link in zip(fabric.links, model.links, strict=True):
        assert link.name == declared.name
        assert model.clocks[link.a].name == declared.a.node
        assert model.clocks[link.b].name == declared.b.node
        assert (link.a_port, link.b_port) == (declared.a.port, declared.b.port)
    assert [link.access for link in model.links] == [False] * 32 + [True] * 16


def test_stamp_points_are_those_of_the_device_at_each_end() -> None:
    """An access link has the switch's points at one end and the NIC's at the other."""
    fabric = leaf_spine()
    link = fabric_model(fabric).links[-1]
    switch_points = fabric.models[0].stamp_points[0]
    nic_points = fabric.models[1].stamp_points[0]
    for found, declared in (
        (link.a_ingress, switch_points.ingress),
        (link.a_egress, switch_points.egress),
        (link.b_ingress, nic_points.ingress),
        (link.b_egress, nic_points.egress),
    ):
        assert replace(found, group="") == declared
    assert link.rate_bps == 100_000_000_000


def test_ports_of_a_model_and_speed_share_their_constants() -> None:
    """Model, speed and direction make the group of a stamp point; kinds of device never share."""
    links = fabric_model(leaf_spine()).links
    assert links[0].a_egress.group == links[0].b_egress.group == links[-1].a_egress.group
    groups = {links[-1].a_ingress.group, links[-1].a_egress.group}
    groups |= {links[-1].b_ingress.group, links[-1].b_egress.group}
    assert len(groups) == 4
    assert "" not in groups


def test_reference_is_the_grandmasters_clock() -> None:
    """The grandmaster's NIC is the reference."""
    fabric = leaf_spine()
    other = replace(fabric, ptp=replace(fabric.ptp, grandmaster="h5"))
    assert fabric_model(fabric).reference == 0
    assert fabric_model(other).reference == 4


def test_minimum_delay_is_certified() -> None:
    """It is the shortest possible cable at the fastest propagation, rounded down; else 0."""
    link = leaf_spine(lengths_m=[10.0] * 48).links[0]
    assert min_delay_ns(link, 4.8) == 43  # (10 - 1) m x 4.8 ns/m = 43.2 ns
    assert min_delay_ns(replace(link, length_m=None), 4.8) == 0
    assert min_delay_ns(replace(link, length_m=1.0), 4.8) == 0


def test_maximum_delay_is_the_longest_cable_with_modules() -> None:
    """(length + tolerance) at its slowest plus the declared rest, rounded up; else 0."""
    link = leaf_spine(lengths_m=[10.0] * 48).links[0]
    assert max_delay_ns(link, 5.2, 100.0) == 158  # (10 + 1) m x 5.2 ns/m + 100 ns = 157.2 ns
    assert max_delay_ns(replace(link, length_m=None), 5.2, 100.0) == 0
    fabric = leaf_spine(lengths_m=[10.0] * 48, link_latency_ns_max=30.0)
    assert {one.max_delay_ns for one in fabric_model(fabric).links} == {88}


def test_slowest_propagation_is_not_below_the_fastest() -> None:
    """The pair is checked; files that declare only a high minimum get it as maximum."""
    fabric = leaf_spine()
    wrong = replace(fabric, propagation_ns_per_m_max=4.0)
    assert [problem.path for problem in check_fabric(wrong)] == [("propagation_ns_per_m_max",)]
    text = dump_fabric(replace(fabric, propagation_ns_per_m_min=6.0, propagation_ns_per_m_max=6.0))
    without = [line for line in text.splitlines() if "_max: 6.0" not in line]
    assert parse_fabric("\n".join(without)).propagation_ns_per_m_max == 6.0
