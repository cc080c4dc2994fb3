# SPDX-License-Identifier: Apache-2.0
"""Watchlists as entries: modes, keys, and which switch needs them."""

from dataclasses import replace
from ipaddress import IPv4Network, IPv6Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.entries import ActionCall, TableEntry, Ternary
from controller.fabric import Fabric, Host
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import HostOrPrefix, Syndrome, Watchlist, WatchMode
from controller.watchlist import (
    PRIORITY_TRACED,
    roce_entry_count_max,
    watchlist_entries,
)

FABRIC = leaf_spine(leaves=2, spines=1)
ROCE = FABRIC.watchlists[0]
LEAF_1 = (FABRIC.host("h1"), FABRIC.host("h2"))
ALL_32 = 0xFFFFFFFF


def traced(
    watchlist: Watchlist, hosts: tuple[Host, ...], fabric: Fabric = FABRIC
) -> list[TableEntry]:
    """The entries of one watchlist on a switch with these hosts."""
    entries = watchlist_entries(replace(fabric, watchlists=(watchlist,)), hosts)
    return [entry for entry in entries if entry.priority == PRIORITY_TRACED]


def mode(kind: WatchMode) -> Watchlist:
    """The usual watchlist in another mode."""
    return replace(ROCE, mode=kind, remaining_hop_count=8 if kind is WatchMode.MD else None)


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        (
            WatchMode.MD,
            ActionCall.of(
                "int_source", instruction_bitmap=0xFC00, remaining_hop_count=8, marked_dscp=27
            ),
        ),
        (
            WatchMode.MX,
            ActionCall.of("int_source_mx", instruction_bitmap=0xFC00, marked_dscp=27),
        ),
        (
            WatchMode.XD,
            ActionCall.of("int_postcard", report_metadata_bits=0xFC00, change_only=0),
        ),
        (WatchMode.EXEMPT, ActionCall.of("int_exempt")),
    ],
)
def test_each_mode_has_its_action(kind: WatchMode, action: ActionCall) -> None:
    """MD and MX name the marked DSCP, XD the report's bits; all match the unmarked DSCP."""
    (entry,) = traced(mode(kind), LEAF_1)
    assert entry.action == action
    assert dict(entry.match)["dscp"] == Ternary(26, 0x3F)


@pytest.mark.parametrize(
    ("kind", "count"),
    [(WatchMode.MD, 0), (WatchMode.MX, 0), (WatchMode.XD, 1), (WatchMode.EXEMPT, 1)],
)
def test_postcards_come_from_switches_without_hosts_too(kind: WatchMode, count: int) -> None:
    """INT is written where the sender is; XD and exemptions are on every switch of the path."""
    assert len(traced(mode(kind), ())) == count


def test_xd_entries_are_the_same_on_every_switch() -> None:
    """All switches sample the same PSNs of the same flows, or hops could not be paired."""
    watch = replace(mode(WatchMode.XD), tenants=("alpha",), sample_psn_bits=4)
    assert traced(watch, LEAF_1) == traced(watch, ()) != []
    assert {dict(entry.match)["roce_psn"] for entry in traced(watch, ())} == {Ternary(0, 0xF)}
    sources = {dict(entry.match)["src_addr"] for entry in traced(watch, ())}
    assert sources == {Ternary(FABRIC.host(h).ip, ALL_32) for h in ("h1", "h3")}


def test_md_sources_are_those_of_the_switch() -> None:
    """A named host is on its own leaf only; a prefix where a host lies in it."""
    watch = replace(ROCE, sources=("h1", "h3", IPv4Network("10.0.1.0/30")))
    assert [dict(entry.match)["src_addr"] for entry in traced(watch, LEAF_1)] == [
        Ternary(FABRIC.host("h1").ip, ALL_32),
        Ternary(0x0A000100, 0xFFFFFFFC),
    ]
    assert traced(replace(ROCE, sources=("h3",)), LEAF_1) == []


def test_keys_are_combined() -> None:
    """Two opcodes, two queue pairs and a NAK filter make four entries."""
    watch = replace(ROCE, opcodes=(0x11, 0x10), dest_qps=(5, 0xABCDEF), syndromes=(Syndrome.NAK,))
    entries = traced(watch, LEAF_1)
    assert len(entries) == 4 == roce_entry_count_max(FABRIC, watch)
    assert dict(entries[1].match) == {
        "protocol": Ternary(17, 0xFF),
        "l4_dst_port": Ternary(4791, 0xFFFF),
        "dscp": Ternary(26, 0x3F),
        "roce_opcode": Ternary(0x11, 0xFF),
        "roce_dest_qp": Ternary(0xABCDEF, 0xFFFFFF),
        "roce_syndrome": Ternary(0x60, 0x60),
    }


def test_rnr_nak_is_not_nak() -> None:
    """The two kinds differ in the bits that are matched."""
    (entry,) = traced(replace(ROCE, syndromes=(Syndrome.RNR_NAK,)), LEAF_1)
    assert dict(entry.match)["roce_syndrome"] == Ternary(0x20, 0x60)


def test_ipv6_has_a_table_of_its_own() -> None:
    """Dual-stack hosts get both; peers of one version appear in the table of that version."""
    h1 = replace(FABRIC.host("h1"), ipv6=int(IPv6Address("fd00:0:1::1")))
    dual = replace(FABRIC, hosts=(h1, *FABRIC.hosts[1:]))
    peers: tuple[HostOrPrefix, ...] = ("h1", ip_network("10.0.2.0/24"), ip_network("fd00::/16"))
    entries = traced(replace(ROCE, destinations=peers), (h1,), dual)
    assert [(entry.table, dict(entry.match)["dst_addr"]) for entry in entries] == [
        ("int_watchlist", Ternary(h1.ip, ALL_32)),
        ("int_watchlist", Ternary(0x0A000200, 0xFFFFFF00)),
        ("int_watchlist_ipv6", Ternary(int(h1.ipv6 or 0), (1 << 128) - 1)),
        ("int_watchlist_ipv6", Ternary(0xFD00 << 112, 0xFFFF << 112)),
    ]
    only_four = traced(replace(ROCE, destinations=(ip_network("10.0.2.0/24"),)), (h1,), dual)
    assert [entry.table for entry in only_four] == ["int_watchlist"]


def test_ptp_can_be_sampled_alike_on_every_switch() -> None:
    """Low sequenceId bits select the messages; without them every message is reported."""
    watch = replace(FABRIC.watchlists[1], sample_sequence_bits=3, message_types=(0,))
    (entry,) = traced(watch, ())
    assert dict(entry.match) == {
        "domain_number": Ternary(0, 0xFF),
        "message_type": Ternary(0, 0xF),
        "sequence_id": Ternary(0, 7),
    }
    assert traced(watch, LEAF_1) == traced(watch, ())


def test_every_collector_is_exempt() -> None:
    """Each collector's flow has an entry of its own, on a switch without hosts too."""
    first = FABRIC.collector
    second = replace(first, ip=first.ip + 1, mac=first.mac + 1, udp_port=9, destination_id=1)
    entries = watchlist_entries(replace(FABRIC, collectors=(first, second), watchlists=()), ())
    assert [str(entry.action) for entry in entries] == ["int_exempt()"] * 2
    assert [dict(entry.match)["l4_dst_port"] for entry in entries] == [
        Ternary(32766, 0xFFFF),
        Ternary(9, 0xFFFF),
    ]


PEERS = st.lists(
    st.sampled_from(["h1", "h2", "h3", "h4", ip_network("10.0.1.0/24"), ip_network("10.0.0.0/16")]),
    max_size=4,
    unique=True,
).map(tuple)


@given(
    kind=st.sampled_from(list(WatchMode)),
    sources=PEERS,
    destinations=PEERS,
    opcodes=st.lists(st.integers(0, 255), max_size=3, unique=True).map(tuple),
    tenants=st.sampled_from([(), ("alpha",), ("alpha", "beta")]),
)
def test_entries_are_unique_and_within_the_bound(
    kind: WatchMode,
    sources: tuple[HostOrPrefix, ...],
    destinations: tuple[HostOrPrefix, ...],
    opcodes: tuple[int, ...],
    tenants: tuple[str, ...],
) -> None:
    """No switch gets two entries for one key, nor more than the check of the file allows for."""
    watch = replace(
        mode(kind),
        sources=() if tenants else sources,
        destinations=destinations,
        opcodes=opcodes,
        tenants=tenants,
    )
    for hosts in (LEAF_1, ()):
        entries = traced(watch, hosts)
        assert len({entry.key for entry in entries}) == len(entries)
        assert len(entries) <= roce_entry_count_max(FABRIC, watch)
