# SPDX-License-Identifier: Apache-2.0
"""The desired entries of a fabric: complete, unique, and expressible in the compiled program."""

from collections import Counter
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from pathlib import Path
from typing import Any

import finsy as fy
import pytest

from controller.desired import desired_entries, desired_state
from controller.ecmp import COLLECTOR_MEMBER_ID_BASE, GROUP_ID_BASE
from controller.entries import (
    ActionCall,
    CloneSession,
    DefaultEntry,
    Exact,
    Group,
    GroupRef,
    Kind,
    Lpm,
    Member,
    MemberRef,
    TableEntry,
    Ternary,
)
from controller.fabric import Fabric, LinkEnd, PtpRole
from controller.fabric_dump import dump_fabric
from controller.fabric_file import load_fabric, parse_fabric
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import (
    DropReport,
    Ecmp,
    EthernetPtp,
    Probes,
    PuntRule,
    QueueReport,
    Reports,
    WatchMode,
)
from controller.p4info_codec import decode_entry, encode_entry, overfull
from controller.pipeline import load_pipeline
from controller.route_entries import held_ports
from controller.routing import compute_routes
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
    group_id = 2 + GROUP_ID_BASE
    assert routes[(("dst_addr", Lpm(0x0A000800, 24)),)] == GroupRef(group_id)
    entries = desired_entries(fabric, "leaf1")
    buckets = tuple((group_id * 64 + bucket, 1) for bucket in range(64))
    assert [e.members for e in entries if isinstance(e, Group)] == [buckets]
    members = {e.member_id: e.action for e in entries if isinstance(e, Member)}
    assert set(members) == {11, 12, COLLECTOR_MEMBER_ID_BASE, *(m for m, _ in buckets)}
    spines = [fabric.switch(f"spine{port}").mac for port in range(1, 5)]
    for port, mac in enumerate(spines, 1):
        forward = ActionCall.of("forward", port=port, dst_mac=mac)
        assert sum(members[member_id] == forward for member_id, _ in buckets) == 16


def test_marked_dscp_has_the_queue_of_its_class(fabric: Fabric) -> None:
    """Marked and unmarked packets of a class share a queue, on every switch."""
    queues = {e.match[0][1]: e.action for e in table(fabric, "spine1", "qos_class")}
    by_dscp = {match.value: action for match, action in queues.items()}
    assert by_dscp[26] == by_dscp[27] == ActionCall.of("set_queue", queue_id=1)
    assert [str(e) for e in table(fabric, "spine1", "int_marked_dscp")] == [
        "int_marked_dscp [dscp=27]: set_marked(unmarked_dscp=26)"
    ]


def test_edge_and_sink_ports_are_the_host_ports(fabric: Fabric) -> None:
    """Leaves start and end INT at host ports; what leads to the collector strips it, unreported."""
    for name, ports in (("leaf7", [11, 12]), ("spine2", [])):
        edge = [e.match[0][1] for e in table(fabric, name, "int_edge_ports")]
        sink = {e.match[0][1]: e.action for e in table(fabric, name, "int_sink_ports")}
        assert edge == list(sink) == [Exact(port) for port in (*ports, 60)]
        assert [
            match.value for match, action in sink.items() if str(action) == "set_int_sink()"
        ] == ports
        assert str(sink[Exact(60)]) == "set_int_strip()"


def test_node_and_report_defaults_are_the_switchs_own(fabric: Fabric) -> None:
    """Node id and report addresses come from the switch, the rest from the collector."""
    defaults = {
        entry.table: dict(entry.action.params)
        for entry in desired_entries(fabric, "spine4")
        if isinstance(entry, DefaultEntry)
    }
    switch = fabric.switch("spine4")
    assert defaults["int_node"] == {"node_id": 104, "domain_specific_id": 0}
    assert defaults["report_config"] == {
        "switch_ip": switch.ip,
        "switch_mac": switch.mac,
        "dscp": 0,
        "truncate_bytes": 96,
    }
    assert defaults["report_destination"] == {
        "destination_id": 0,
        "collector_ip": fabric.collector.ip,
        "udp_port": 32766,
    }


def test_both_clone_sessions_come_back_as_reports(fabric: Fabric) -> None:
    """Exactly one replica each: more would duplicate every report."""
    sessions = [e for e in desired_entries(fabric, "leaf1") if isinstance(e, CloneSession)]
    assert [(s.session_id, s.replicas) for s in sessions] == [
        (1, ((509, 1),)),
        (2, ((509, 1),)),
    ]


@pytest.mark.parametrize(
    ("target", "sessions"),
    [
        # 27 bytes of mirror header, 18 Ethernet, 16 INT headers, 96 kept, 8 hops of 8 words; at
        # egress 32, and 8 that the MAC would take off
        ("tofino", [(1, 68, 27 + 18 + 16 + 96 + 256), (2, 68, 32 + 8 + 18 + 96)]),
        ("tofino2", [(1, 6, 27 + 18 + 16 + 96 + 256), (2, 6, 32 + 8 + 18 + 96)]),
    ],
)
def test_sessions_of_a_tofino_cut_their_copies(
    fabric: Fabric, target: str, sessions: list[tuple[int, int, int]]
) -> None:
    """Mirror sessions lead to the target's recirculation port and never cut a stack."""
    models = tuple(replace(model, target=target) for model in fabric.models)
    entries = desired_entries(replace(fabric, models=models), "leaf1")
    found = [e for e in entries if isinstance(e, CloneSession)]
    assert [(s.session_id, s.replicas[0][0], s.packet_bytes) for s in found] == sessions


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


def test_failed_link_rewrites_members_and_never_a_group(fabric: Fabric) -> None:
    """leaf5 gets its own group: the buckets of spine2 lead elsewhere, all others as before."""
    usual = {entry.key: entry for entry in desired_entries(fabric, "leaf1")}
    routes = compute_routes(fabric, ["leaf5:2-spine2:5"])
    now = {entry.key: entry for entry in desired_entries(fabric, "leaf1", routes=routes)}
    (moved,) = [usual[key] for key in usual if now.get(key) != usual[key]]
    assert moved == TableEntry.of("ipv4_lpm", {"dst_addr": Lpm(0x0A000500, 24)}, GroupRef(18))
    (group_id,) = {e.group_id for e in now.values() if isinstance(e, Group)} - {18}
    assert now[moved.key] == replace(moved, action=GroupRef(group_id))
    old = [e.action for e in usual.values() if isinstance(e, Member) and e.member_id // 64 == 18]
    new = [
        e.action for e in now.values() if isinstance(e, Member) and e.member_id // 64 == group_id
    ]
    assert len(old) == len(new) == 64
    for before, after in zip(old, new, strict=True):
        port = dict(before.params)["port"]
        assert (after == before) == (port != 2)
        assert dict(after.params)["port"] != 2


def test_own_failed_port_changes_members_alone(fabric: Fabric) -> None:
    """At the switch that lost the port only members change: those of a quarter of the buckets."""
    usual = {entry.key: entry for entry in desired_entries(fabric, "leaf5")}
    routes = compute_routes(fabric, ["leaf5:2-spine2:5"])
    now = {entry.key: entry for entry in desired_entries(fabric, "leaf5", routes=routes)}
    assert now.keys() == usual.keys()
    changed = [key for key in usual if now[key] != usual[key]]
    assert len(changed) == 16
    assert {key[0] for key in changed} == {Kind.MEMBER}


def test_tier_and_seed_differ_where_they_must(fabric: Fabric) -> None:
    """Leaves are tier 0 and spines tier 1; seeds differ by node; options are passed on."""
    chosen = replace(fabric, ecmp=Ecmp(seed=1000, hash_flow_label=True, buckets=8))
    configs = {name: default(chosen, name, "ecmp_config") for name in ("leaf1", "leaf2", "spine1")}
    assert configs["leaf1"] == {"tier": 0, "seed": 1001, "hash_flow_label": 1}
    assert configs["leaf2"] == {"tier": 0, "seed": 1002, "hash_flow_label": 1}
    assert configs["spine1"] == {"tier": 1, "seed": 1101, "hash_flow_label": 1}
    (group,) = [e for e in desired_entries(chosen, "leaf1") if isinstance(e, Group)]
    assert len(group.members) == 8


def default(fabric: Fabric, switch: str, name: str) -> dict[str, int]:
    """Parameters of a table's default action."""
    (entry,) = [
        entry
        for entry in desired_entries(fabric, switch)
        if isinstance(entry, DefaultEntry) and entry.table == name
    ]
    return dict(entry.action.params)


def test_vlan_of_a_link_is_put_on_at_both_ends(fabric: Fabric) -> None:
    """A tagged link's next hops use the action that writes the tag."""
    tagged = replace(fabric, links=(*fabric.links[:-1], replace(fabric.links[-1], vlan=42)))
    members = [e for e in desired_entries(tagged, "leaf8") if isinstance(e, Member)]
    assert [str(e) for e in members if e.action.name == "forward_vlan"] == [
        "ecmp_selector member 12: forward_vlan(dst_mac=02:00:00:00:08:02, port=12, vlan_id=42)"
    ]


def test_ipv6_routes_share_the_groups_of_ipv4(fabric: Fabric, schema: fy.P4Schema) -> None:
    """A dual-stack fabric has IPv6 routes and watchlists, and not one group more."""
    dual = dual_stack(fabric)
    routes = {e.match: e.action for e in table(dual, "leaf1", "ipv6_lpm")}
    assert len(routes) == 2 + 7
    assert GroupRef(18) in routes.values()
    assert MemberRef(11) in routes.values()
    assert sum(isinstance(e, Group) for e in desired_entries(dual, "leaf1")) == 1
    assert len(table(dual, "leaf1", "int_watchlist_ipv6")) == 1
    assert table(fabric, "leaf1", "int_watchlist_ipv6") == []
    for entry in desired_entries(dual, "leaf1"):
        assert decode_entry(encode_entry(entry, schema), schema) == entry
    assert "ipv6_lpm [dst_addr=fd00:0:1::1/128]: member 11" in {
        str(e) for e in table(dual, "leaf1", "ipv6_lpm")
    }


def dual_stack(fabric: Fabric) -> Fabric:
    """fd00:0:LEAF::HOST for every host, fd00:0:LEAF::/64 for every leaf."""
    hosts = tuple(
        replace(host, ipv6=int(IPv6Address(f"fd00:0:{index // 2 + 1}::{index % 2 + 1}")))
        for index, host in enumerate(fabric.hosts)
    )
    switches = tuple(
        replace(switch, ipv6_prefixes=(IPv6Network(f"fd00:0:{switch.node_id}::/64"),))
        if switch.prefixes
        else switch
        for switch in fabric.switches
    )
    return replace(fabric, hosts=hosts, switches=switches)


def test_neighbours_are_punted_by_default(fabric: Fabric) -> None:
    """LLDP, ARP and the five messages of IPv6 neighbour discovery reach the CPU."""
    assert [e.where for e in table(fabric, "spine1", "punt")] == [
        "punt [ether_type=0x88cc] priority 1000",
        "punt [ether_type=0x806] priority 999",
        *(
            f"punt [ether_type=0x86dd, icmp_type={icmp_type}, protocol=58] priority 998"
            for icmp_type in range(133, 138)
        ),
    ]
    quiet = replace(fabric, punt=())
    assert table(quiet, "spine1", "punt") == []


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ({"ether_type": 0x88CC}, ["ether_type=0x88cc"]),
        ({"protocol": 1}, ["ether_type=0x800, protocol=1", "ether_type=0x86dd, protocol=1"]),
        (
            {"l4_dst_port": 179},
            [
                f"ether_type={kind}, l4_dst_port=179, protocol={protocol}"
                for kind in ("0x800", "0x86dd")
                for protocol in (6, 17)
            ],
        ),
        (
            {"l4_dst_port": 179, "protocol": 6, "destination": ip_network("10.254.0.0/16")},
            [
                "dst_addr=10.254.0.0 & 0xffff0000, ether_type=0x800, l4_dst_port=179, protocol=6",
            ],
        ),
        ({"destination": ip_network("0.0.0.0/0")}, ["ether_type=0x800"]),
        ({"destination": ip_network("0.0.0.0/8")},
         ["dst_addr=0.0.0.0 & 0xff000000, ether_type=0x800"]),
        ({"destination": ip_network("::/0")}, ["ether_type=0x86dd"]),
        (
            {"destination": ip_network("fd00::/16")},
            [f"ether_type=0x86dd, ipv6_dst_addr=fd00:: & {0xFFFF << 112:#x}"],
        ),
        (
            {"icmp_types": (128, 129)},
            [f"ether_type=0x86dd, icmp_type={kind}, protocol=58" for kind in (128, 129)],
        ),
    ],
)  # fmt: skip
def test_punt_rule_matches_only_packets_that_have_its_fields(
    fabric: Fabric, schema: fy.P4Schema, rule: dict[str, Any], matches: list[str]
) -> None:
    """Absent headers read as 0, so addresses, protocols, ports and types come with the EtherType
    and the protocol of packets that have them."""
    entries = table(replace(fabric, punt=(PuntRule(name="x", **rule),)), "leaf1", "punt")
    assert [e.where for e in entries] == [f"punt [{match}] priority 1000" for match in matches]
    for entry in entries:
        assert decode_entry(encode_entry(entry, schema), schema) == entry


def test_level_2_interfaces_are_set_both_ways(fabric: Fabric) -> None:
    """A port's interface id holds for packets that come in and that leave there."""
    leaf = replace(fabric.switches[0], interfaces=((1, 7001),))
    chosen = replace(fabric, switches=(leaf, *fabric.switches[1:]))
    assert [str(e) for e in table(chosen, "leaf1", "ingress_interface")] == [
        "ingress_interface [ingress_port=1]: set_ingress_interface(interface_id=7001)"
    ]
    assert [str(e) for e in table(chosen, "leaf1", "egress_interface")] == [
        "egress_interface [egress_port=1]: set_egress_interface(interface_id=7001)"
    ]
    assert default(fabric, "leaf1", "egress_interface") == {"interface_id": 0xFFFFFFFF}


def test_probes_are_handled_only_where_they_are_declared(fabric: Fabric) -> None:
    """Without `probes` the switch does nothing with them; with it, all report alike."""
    assert default(fabric, "leaf1", "probe_config") == {}
    probing = replace(fabric, probes=Probes(budget_pps=1000))
    assert default(probing, "leaf1", "probe_config") == {"report_metadata_bits": 0x7C00}


def test_everything_at_once_fits_the_program(fabric: Fabric, schema: fy.P4Schema) -> None:
    """With every optional section in use each entry survives the p4info, and no key repeats."""
    full = everything(fabric)
    delays = {"leaf1": {1: -5, 2: 1 << 20}}
    for name, entries in desired_state(full, link_delays=delays).items():
        assert len({entry.key for entry in entries}) == len(entries), name
        for entry in entries:
            assert decode_entry(encode_entry(entry, schema), schema) == entry
    used = {
        e.table
        for e in desired_state(full, link_delays=delays)["leaf1"]
        if isinstance(e, TableEntry)
    }
    keyed = {table.alias for table in schema.tables if table.match_fields}
    assert used == keyed


def everything(fabric: Fabric) -> Fabric:
    """The fabric with every optional section in use."""
    dual = dual_stack(fabric)
    roce = dual.watchlists[0]
    modes = [
        replace(roce, name="no", mode=WatchMode.EXEMPT, sources=("h3",)),
        roce,
        replace(roce, name="mx", mode=WatchMode.MX, opcodes=(0x81,), remaining_hop_count=None),
        replace(roce, name="xd", mode=WatchMode.XD, instruction_bitmap=0x7E00, change_only=True),
    ]
    collector = dual.collector
    second = replace(collector, ip=collector.ip + 1, mac=collector.mac + 1, destination_id=1)
    leaf = replace(dual.switches[0], interfaces=((1, 7001),))
    return replace(
        dual,
        switches=(leaf, *dual.switches[1:]),
        links=(replace(dual.links[0], mtu_bytes=9000, vlan=5), *dual.links[1:]),
        models=(replace(dual.models[0], ptp_role=PtpRole.TRANSPARENT_CLOCK), dual.models[1]),
        ptp=replace(dual.ptp, ethernet=EthernetPtp.TREE),
        collectors=(collector, replace(second, attached=LinkEnd(node="leaf1", port=20))),
        watchlists=(*modes, *dual.watchlists[1:]),
        reports=Reports(
            dscp=46,
            queues=(QueueReport(queue=1, depth_packets=10), QueueReport(queue=0, latency_ns=5)),
            drops=(
                DropReport(),
                DropReport(reasons=("no_route",), source=IPv4Network("10.0.0.0/8")),
            ),
        ),
        probes=Probes(budget_pps=100),
        ecmp=Ecmp(buckets=60, seed=9, hash_flow_label=True),
    )


EXAMPLES = sorted((Path(__file__).parents[3] / "docs" / "examples").glob("fabric*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_files_can_be_deployed(path: Path, schema: fy.P4Schema) -> None:
    """Each example loads, fits the program's tables, and survives being written."""
    fabric = load_fabric(path)
    assert parse_fabric(dump_fabric(fabric)) == fabric
    for entries in desired_state(fabric).values():
        assert list(overfull(entries, schema)) == []
        for entry in entries:
            assert decode_entry(encode_entry(entry, schema), schema) == entry


def test_older_cable_gets_a_fifth_of_the_flows() -> None:
    """As the example says: 400 and 100 Gb/s share 64 buckets 51 to 13, both ways."""
    (path,) = EXAMPLES
    fabric = load_fabric(path)
    ports = Counter(held_ports(desired_entries(fabric, "leaf1")).values())
    assert (ports[1], ports[2]) == (51, 13)
