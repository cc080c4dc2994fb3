# SPDX-License-Identifier: Apache-2.0
"""INT-XD: the packet untouched, a postcard from every switch whose watchlist names it."""

from typing import Any

import pytest

from tests.p4.dissect import expect_frame
from tests.p4.frames import ip_frame, roce, udp_frame
from tests.p4.harness import Node
from tests.p4.int_headers import expected_hop
from tests.p4.nodes import (
    HOST_PORT,
    LEAF_UPLINK,
    SINK_IN,
    SINK_PORT,
    SPINE_IN,
    SPINE_OUT,
    sink_node,
    source_node,
    transit_node,
    walk,
)
from tests.p4.reports import ExpectedReport
from tests.p4.rewrite import ip_packet, routed
from tests.p4.wire import ip

FAMILY = pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
PORTS = [(HOST_PORT, LEAF_UPLINK), (SPINE_IN, SPINE_OUT), (SINK_IN, SINK_PORT)]


def fabric() -> list[Node]:
    """Source leaf, spine, sink leaf."""
    return [source_node(), transit_node(), sink_node()]


@FAMILY
def test_every_hop_reports_and_nothing_is_inserted(v6: bool) -> None:
    """Each node sends one postcard with the packet as it leaves; F = 1."""
    path = fabric()
    frame = roce(v6=v6, payload=bytes(300))
    for node in path:
        node.watch_xd()
    before = frame
    for node, sent, (ingress, egress) in zip(path, walk(path, frame), PORTS, strict=True):
        expect_frame(sent.frame, routed(before, egress))
        metadata = expected_hop(node, sent, 0x7C00, ingress, egress, 1)
        node.expect_reports(
            sent, ExpectedReport(bits=0x7C00, metadata=metadata, inner=ip_packet(sent.frame))
        )
        before = sent.frame


@FAMILY
def test_every_hop_reports_the_same_packets(v6: bool) -> None:
    """Sampling by the PSN's low bits is consistent: a packet is reported everywhere or nowhere."""
    path = fabric()
    for node in path:
        node.watch_xd(roce_psn=(5, 0x7))
    reporters = {
        psn: [len(sent.reports) for sent in walk(path, roce(psn=psn, v6=v6))] for psn in range(24)
    }
    assert {psn for psn, counts in reporters.items() if counts == [1, 1, 1]} == {5, 13, 21}
    assert all(counts in ([1, 1, 1], [0, 0, 0]) for counts in reporters.values())


@pytest.mark.parametrize("interfaces", [False, True], ids=["no interfaces", "interfaces"])
@pytest.mark.parametrize("bits", [0x7C00, 0xFFFF, 0x4000, 0x2800, 0x0200, 0x0600])
def test_entry_chooses_the_metadata(bits: int, interfaces: bool) -> None:
    """RepMdBits are the entry's, without what this switch does not have."""
    node = transit_node()
    node.watch_xd(bits=bits)
    if interfaces:
        node.set_interface(SPINE_IN, 0xABCD0001)
        node.set_interface(SPINE_OUT, 0xABCD0002)
    sent = node.send(roce(), SPINE_IN)
    there = bits & (0x7E00 if interfaces else 0x7C00)
    reports = []
    if there:
        metadata = expected_hop(node, sent, there, SPINE_IN, SPINE_OUT, 1)
        reports = [ExpectedReport(bits=there, metadata=metadata, inner=ip_packet(sent.frame))]
    node.expect_reports(sent, *reports)


KEYS: dict[str, Any] = {
    "src_addr": (ip("10.0.1.1"), 0xFFFFFFFF),
    "dst_addr": (ip("10.0.2.0"), 0xFFFFFF00),
    "protocol": (17, 0xFF),
    "l4_src_port": (0xC123, 0xFFFF),
    "l4_dst_port": (4791, 0xFFFF),
    "dscp": (26, 0x3F),
    "roce_opcode": (4, 0xFF),
    "roce_psn": (7, 0xFFFFFF),
    "roce_dest_qp": (0x1234, 0xFFFFFF),
    "roce_syndrome": (0, 0xFF),
}
V6_KEYS = KEYS | {
    "src_addr": (ip("fd00:0:1::1"), (1 << 128) - 1),
    "dst_addr": (ip("fd00:0:2::"), (1 << 128) - (1 << 80)),
}


@FAMILY
@pytest.mark.parametrize("name", KEYS)
def test_each_key_selects(name: str, v6: bool) -> None:
    """Every key of the watchlist matches its field, and a wrong value does not."""
    value, mask = (V6_KEYS if v6 else KEYS)[name]
    lowest = mask & -mask
    for wanted, count in ((value, 1), (value ^ lowest, 0)):
        node = transit_node()
        table = "int_watchlist_ipv6" if v6 else "int_watchlist"
        match = node.ternary(table, {name: (wanted, mask)})
        node.add(table, match, "int_postcard", 0x7C00, 0, priority=1)
        assert len(node.send(roce(v6=v6), SPINE_IN).reports) == count


@FAMILY
def test_all_keys_together_select(v6: bool) -> None:
    """An entry that names everything still hits."""
    node = transit_node()
    node.watch_xd(**(V6_KEYS if v6 else KEYS))
    assert len(node.send(roce(v6=v6), SPINE_IN).reports) == 1
    assert node.send(roce(v6=v6, psn=8), SPINE_IN).reports == []


V6: dict[str, Any] = {"src": "fd00:0:1::1", "dst": "fd00:0:2::1"}


@FAMILY
def test_exempt_flow_is_not_reported(v6: bool) -> None:
    """An exempt entry of higher priority silences a flow."""
    node = transit_node()
    node.watch_xd()
    node.exempt(dscp=(26, 0x3F))
    assert node.send(roce(v6=v6), SPINE_IN).reports == []
    assert len(node.send(roce(v6=v6, dscp=0), SPINE_IN).reports) == 1


@pytest.mark.parametrize(
    "frame",
    [
        ip_frame(bytes.fromhex("0005000600000001") + bytes(40), 6, dscp=26),
        ip_frame(b"\x08\0\0\0" + bytes(40), 1, dscp=26),
        udp_frame(bytes(40), sport=5, dport=6, dscp=26),
        ip_frame(bytes.fromhex("0005000600000001") + bytes(40), 6, dscp=26, **V6),
        ip_frame(b"\x80\0\0\0" + bytes(40), 58, dscp=26, **V6),
        ip_frame(bytes.fromhex("1100000100000001") + bytes(48), 44, dscp=26, **V6),
        ip_frame(bytes.fromhex("1100000000000000") + bytes(48), 0, dscp=26, **V6),
        ip_frame(b"", 59, dscp=26, **V6),
        ip_frame(b"abc", 253, dscp=26),
    ],
    ids=["TCP", "ICMP", "UDP", "TCP/6", "ICMPv6", "fragment", "hop by hop", "none", "3 bytes"],
)
def test_any_ip_packet_can_be_reported(frame: bytes) -> None:
    """Postcards need no header in the packet, so any protocol will do."""
    node = transit_node()
    node.watch_xd()
    sent = node.send(frame, SPINE_IN)
    expect_frame(sent.frame, routed(frame, SPINE_OUT))
    metadata = expected_hop(node, sent, 0x7C00, SPINE_IN, SPINE_OUT, 1)
    node.expect_reports(
        sent, ExpectedReport(bits=0x7C00, metadata=metadata, inner=ip_packet(sent.frame))
    )


def test_fragments_are_reported_without_being_touched() -> None:
    """A fragment cannot carry INT, but it can be reported."""
    node = transit_node()
    node.watch_xd()
    frame = bytearray(roce())
    frame[20:22] = b"\x20\x00"
    frame[24:26] = bytes(2)
    frame[24:26] = (0xFFFF - _sum(bytes(frame[14:34]))).to_bytes(2, "big")
    sent = node.send(bytes(frame), SPINE_IN)
    expect_frame(sent.frame, routed(bytes(frame), SPINE_OUT))
    assert len(sent.reports) == 1


def _sum(header: bytes) -> int:
    total = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, len(header), 2))
    return (total & 0xFFFF) + (total >> 16)


@pytest.mark.parametrize("mode", ["md", "mx"])
def test_packet_with_int_is_not_reported_by_xd_too(mode: str) -> None:
    """One mode per packet: MD in transit makes no postcard, MX exactly its own."""
    path = fabric()
    if mode == "md":
        path[0].watch(priority=20)
    else:
        path[0].watch_mx(priority=20, bitmap=0x4000)
    for node in path:
        node.watch_xd(priority=10)
    sent = walk(path, roce())
    bits = [[report.bits for report in step.reports] for step in sent]
    assert bits == ([[], [], [0x4800, 0x7C00]] if mode == "md" else [[0x4000]] * 3)


def test_postcard_of_a_packet_between_two_hosts_of_one_switch() -> None:
    """XD does not depend on edge or sink ports."""
    node = Node(1, host_ports=(HOST_PORT, SINK_PORT))
    node.route("10.0.2.1", 32, SINK_PORT)
    node.watch_xd()
    sent = node.send(roce(), HOST_PORT)
    metadata = expected_hop(node, sent, 0x7C00, HOST_PORT, SINK_PORT, 1)
    node.expect_reports(
        sent, ExpectedReport(bits=0x7C00, metadata=metadata, inner=ip_packet(sent.frame))
    )
