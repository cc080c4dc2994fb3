# SPDX-License-Identifier: Apache-2.0
"""The desired entries of a fabric: complete, unique, and expressible in the compiled program."""

from dataclasses import replace

import finsy as fy
import pytest

from controller.desired import desired_entries, desired_state
from controller.entries import (
    ActionCall,
    CloneSession,
    DefaultEntry,
    Group,
    GroupRef,
    Lpm,
    Member,
    MemberRef,
    TableEntry,
    Ternary,
)
from controller.fabric import Fabric
from controller.fabric_generate import leaf_spine
from controller.p4info_codec import decode_entry, encode_entry
from controller.pipeline import load_pipeline
from controller.session import program_schema
from controller.watchlist import PRIORITY_EXEMPT, PRIORITY_TRACED, watchlist_entries


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """The demo's fabric."""
    return leaf_spine()


@pytest.fixture(scope="module")
def schema() -> fy.P4Schema:
    """Of the committed p4info."""
    return program_schema(load_pipeline())


def table(fabric: Fabric, switch: str, name: str) -> list[TableEntry]:
    """The desired entries of one table."""
    return [
        entry
        for entry in desired_entries(fabric, switch)
        if isinstance(entry, TableEntry) and entry.table == name
    ]


def test_every_entry_survives_the_p4info(fabric: Fabric, schema: fy.P4Schema) -> None:
    """Encoded with the compiled p4info and decoded again, each entry is the same."""
    for entries in desired_state(fabric).values():
        for entry in entries:
            assert decode_entry(encode_entry(entry, schema), schema) == entry


def test_every_table_with_a_default_has_a_desired_one(fabric: Fabric, schema: fy.P4Schema) -> None:
    """A default that the program adds later must be added here too, or drift would go unseen."""
    declared = {
        entry.table for entry in desired_entries(fabric, "leaf1") if isinstance(entry, DefaultEntry)
    }
    changeable = {
        table.alias
        for table in schema.tables
        if table.action_profile is None and table.const_default_action is None
    }
    assert declared == changeable


def test_entry_keys_are_unique(fabric: Fabric) -> None:
    """No two desired entries of a switch claim the same place."""
    for entries in desired_state(fabric).values():
        assert len({entry.key for entry in entries}) == len(entries)


def test_one_switch_alone_gives_the_same_as_all(fabric: Fabric) -> None:
    """`desired_state` is `desired_entries` of each switch."""
    state = desired_state(fabric)
    for name in ("leaf1", "spine3"):
        assert state[name] == desired_entries(fabric, name)


def test_ecmp_is_a_group_and_a_single_path_a_member(fabric: Fabric) -> None:
    """Remote leaves go to the group of uplinks, local hosts to a member."""
    routes = {entry.match: entry.action for entry in table(fabric, "leaf1", "ipv4_lpm")}
    assert routes[(("dst_addr", Lpm(0x0A000102, 32)),)] == MemberRef(12)
    assert routes[(("dst_addr", Lpm(0x0A000800, 24)),)] == GroupRef(2)
    entries = desired_entries(fabric, "leaf1")
    assert [e.members for e in entries if isinstance(e, Group)] == [
        ((1, 1), (2, 1), (3, 1), (4, 1))
    ]
    members = {e.member_id: e.action for e in entries if isinstance(e, Member)}
    assert members[1] == ActionCall.of("forward", port=1, dst_mac=fabric.switch("spine1").mac)
    assert sorted(members) == [1, 2, 3, 4, 11, 12]


def test_marked_dscp_has_the_queue_of_its_class(fabric: Fabric) -> None:
    """Marked and unmarked packets of a class share a queue, on every switch."""
    queues = {e.match[0][1]: e.action for e in table(fabric, "spine1", "qos_class")}
    by_dscp = {match.value: action for match, action in queues.items()}
    assert by_dscp[26] == by_dscp[27] == ActionCall.of("set_queue", queue_id=1)
    assert [str(e) for e in table(fabric, "spine1", "int_marked_dscp")] == [
        "int_marked_dscp [dscp=27]: set_marked(unmarked_dscp=26)"
    ]


def test_edge_and_sink_ports_are_the_host_ports(fabric: Fabric) -> None:
    """Leaves start and end INT at their host ports; spines never do."""
    for name, ports in (("leaf7", [11, 12]), ("spine2", [])):
        edge = [e.match[0][1] for e in table(fabric, name, "int_edge_ports")]
        sink = [e.match[0][1] for e in table(fabric, name, "int_sink_ports")]
        assert edge == sink
        assert [match.value for match in edge] == ports


def test_node_and_report_defaults_are_the_switchs_own(fabric: Fabric) -> None:
    """Node id and report addresses come from the switch, the rest from the collector."""
    defaults = {
        entry.table: dict(entry.action.params)
        for entry in desired_entries(fabric, "spine4")
        if isinstance(entry, DefaultEntry)
    }
    switch = fabric.switch("spine4")
    assert defaults["int_node"] == {"node_id": 104, "domain_specific_id": 0}
    assert defaults["report_config"]["switch_ip"] == switch.ip
    assert defaults["report_config"]["collector_mac"] == fabric.collector.mac
    assert defaults["report_config"]["udp_port"] == 32766


def test_both_clone_sessions_go_to_the_report_port(fabric: Fabric) -> None:
    """Exactly one replica each: more would duplicate every report."""
    sessions = [e for e in desired_entries(fabric, "leaf1") if isinstance(e, CloneSession)]
    assert [(s.session_id, s.replicas) for s in sessions] == [(1, ((60, 0),)), (2, ((60, 0),))]


def test_mtu_is_set_where_it_is_declared(fabric: Fabric) -> None:
    """A link's MTU is set at both ends."""
    first = replace(fabric.links[0], mtu_bytes=4200)
    changed = replace(fabric, links=(first, *fabric.links[1:]))
    for name in ("leaf1", "spine1"):
        assert [str(e) for e in table(changed, name, "int_egress_mtu")] == [
            "int_egress_mtu [egress_port=1]: set_mtu(mtu_bytes=4200)"
        ]
    assert table(changed, "leaf2", "int_egress_mtu") == []


def test_collector_flow_is_exempt_first_on_every_switch(fabric: Fabric) -> None:
    """The exemption has the highest priority and stands on switches without hosts too."""
    for switch in fabric.switches:
        entries = table(fabric, switch.name, "int_watchlist")
        first = max(entries, key=lambda entry: entry.priority)
        assert first.action == ActionCall.of("int_exempt")
        assert first.priority == PRIORITY_EXEMPT
        assert dict(first.match)["dst_addr"] == Ternary(fabric.collector.ip, 0xFFFFFFFF)


def test_roce_is_traced_where_hosts_are(fabric: Fabric) -> None:
    """Leaves trace RoCE of the class's DSCP; spines have nothing to start."""
    traced = [e for e in table(fabric, "leaf1", "int_watchlist") if e.priority == PRIORITY_TRACED]
    (entry,) = traced
    assert dict(entry.match) == {
        "protocol": Ternary(17, 0xFF),
        "l4_dst_port": Ternary(4791, 0xFFFF),
        "dscp": Ternary(26, 0x3F),
    }
    assert entry.action == ActionCall.of(
        "int_source", instruction_bitmap=0xFC00, remaining_hop_count=8, marked_dscp=27
    )
    assert len(table(fabric, "spine1", "int_watchlist")) == 1


def test_tenants_limit_a_watchlist_to_their_local_hosts(fabric: Fabric) -> None:
    """Each leaf traces the addresses of its own hosts of those tenants."""
    roce = replace(fabric.watchlists[0], tenants=("beta",), sample_psn_bits=3)
    changed = replace(fabric, watchlists=(roce,))
    entries = watchlist_entries(changed, [fabric.host("h3"), fabric.host("h4")])
    (entry,) = [entry for entry in entries if entry.priority == PRIORITY_TRACED]
    assert dict(entry.match)["src_addr"] == Ternary(0x0A000202, 0xFFFFFFFF)
    assert dict(entry.match)["roce_psn"] == Ternary(0, 0b111)


def test_ptp_events_are_reported_by_every_switch(fabric: Fabric) -> None:
    """One entry per message type of the domain, below the watchlists before it."""
    for name in ("leaf1", "spine1"):
        entries = table(fabric, name, "ptp_watchlist")
        assert [dict(e.match)["message_type"] for e in entries] == [
            Ternary(0, 0xF),
            Ternary(1, 0xF),
        ]
        assert {e.priority for e in entries} == {PRIORITY_TRACED - 1}
