# SPDX-License-Identifier: Apache-2.0
"""Routing of IPv4, IPv6 and VLANs, queues, and packets that are dropped."""

from typing import Any

import pytest

from tests.p4.dissect import expect_frame
from tests.p4.frames import HOST_V6, ethernet, ip_frame, roce
from tests.p4.harness import Node
from tests.p4.rewrite import inserted, routed, with_class
from tests.p4.wire import ARP, Offsets, ip_checksum_is_right, refresh_ip, replaced

VERSION_INVALID, TTL_EXPIRED, NO_ROUTE, HEADER_LENGTH_INVALID, CHECKSUM_INVALID = 25, 26, 29, 30, 31
LENGTH_INVALID, UNKNOWN_ETHER_TYPE, ROUTE_ACTION = 128, 129, 131

BETWEEN_V6: dict[str, Any] = {"src": HOST_V6[0], "dst": HOST_V6[1]}


def router() -> Node:
    """A leaf with four uplinks towards 10.0.2.0/24 and fd00:0:2::/48 and a local host."""
    node = Node(1, host_ports=(11, 12))
    node.route("10.0.2.0", 24, 1, 2, 3, 4)
    node.route("fd00:0:2::", 48, 1, 2, 3, 4)
    node.route("10.0.1.2", 32, 12)
    return node


@pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("udp_checksum", [False, True])
def test_longest_prefix_wins_and_only_macs_and_ttl_change(v6: bool, udp_checksum: bool) -> None:
    """The host route beats the prefix; the frame goes on from the address it was sent to."""
    node = router()
    node.route("10.0.2.9", 32, 12)
    node.route("fd00:0:2::9", 128, 12)
    frame = roce(v6=v6, dst="fd00:0:2::9" if v6 else "10.0.2.9", udp_checksum=udp_checksum)
    sent = node.send(frame, 1)
    assert sent.port == 12
    expect_frame(sent.frame, routed(frame, 12))
    assert node.drops == {}


@pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
def test_ethernet_padding_is_forwarded(v6: bool) -> None:
    """Bytes after the IP packet are not the switch's business."""
    node = router()
    frame = roce(v6=v6, payload=b"") + bytes(13)
    sent = node.send(frame, 1)
    expect_frame(sent.frame, routed(frame, sent.port))


@pytest.mark.parametrize(
    "frame",
    [
        ip_frame(bytes.fromhex("0005000600000001") + bytes(12) + b"data", 6),
        ip_frame(bytes.fromhex("0005000600000001") + bytes(12) + b"d", 6, **BETWEEN_V6),
        ip_frame(b"\x08\0\0\0ping", 1),
        ip_frame(b"\x80\0\0\0ping", 58, **BETWEEN_V6),
        ip_frame(b"", 253),
        ip_frame(b"", 59, **BETWEEN_V6),
        ip_frame(bytes.fromhex("1100000000000000") + bytes(16), 0, **BETWEEN_V6),
        ip_frame(bytes.fromhex("1100000100000001") + bytes(16), 44, **BETWEEN_V6),
    ],
    ids=["TCP", "TCP/IPv6", "ICMP", "ICMPv6", "bare IPv4", "bare IPv6", "hop by hop", "fragment"],
)  # fmt: skip
def test_other_protocols_are_routed_untouched(frame: bytes) -> None:
    """Nothing above IP changes, and nothing but UDP is ever marked."""
    node = router()
    node.watch()
    sent = node.send(frame, 11)
    expect_frame(sent.frame, routed(frame, sent.port))


@pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
def test_tagged_packet_leaves_untagged_unless_the_route_has_a_vlan(v6: bool) -> None:
    """The tag is that of one link: `forward` sends without, `forward_vlan` with its own."""
    node = Node(1)
    node.route("10.0.2.0", 24, 2)
    node.route("fd00:0:2::", 48, 2)
    node.route("10.0.2.1", 32, 3, vlan=0x123)
    node.route("fd00:0:2::1", 128, 3, vlan=0x123)
    far = "fd00:0:2::2" if v6 else "10.0.2.2"
    tagged = roce(v6=v6, dst=far, vlan=0x0064)
    expect_frame(node.send(tagged, 1).frame, routed(tagged, 2))
    for frame in (roce(v6=v6), roce(v6=v6, vlan=0x0064)):
        expect_frame(node.send(frame, 1).frame, routed(frame, 3, vlan=0x123))


def test_priority_is_kept_from_tag_to_tag() -> None:
    """The priority bits of a tag go on into the next one; an untagged packet has priority 0."""
    node = Node(1)
    node.route("10.0.2.1", 32, 3, vlan=0x123)
    frame = roce(vlan=0xA064)
    expect_frame(node.send(frame, 1).frame, routed(frame, 3, vlan=0xA123))
    expect_frame(node.send(roce(), 1).frame, routed(roce(), 3, vlan=0x0123))


def test_int_works_behind_a_tag() -> None:
    """A tagged packet is traced like any other; the tag is not INT's business."""
    node = Node(1, host_ports=(11,))
    node.route("10.0.2.1", 32, 3, vlan=0x123)
    node.watch()
    frame = roce(vlan=0x0064)
    out = node.send(frame, 11).frame
    start = Offsets.of(out).payload
    data = out[start : start + 48]
    expect_frame(out, inserted(routed(frame, 3, vlan=0x123), data, dscp=27))


@pytest.mark.parametrize(("dscp", "queue"), [(26, 1), (27, 1), (46, 2), (0, 0), (10, 0)])
@pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
def test_dscp_chooses_the_queue(dscp: int, queue: int, v6: bool) -> None:
    """Marked and unmarked DSCP share a queue; an unknown one is best effort."""
    node = router()
    ((_, queue_id),) = node.send(roce(dscp=dscp, v6=v6), 1).queues
    assert queue_id == queue


def test_udp_with_ip_options_is_routed_and_traced() -> None:
    """Options move the UDP header; checksum, hash and INT still find it."""
    node, sink = router(), Node(2, host_ports=(12,))
    node.watch()
    sink.route("10.0.2.0", 24, 12)
    frame = roce(options=b"\x94\x04\x00\x00\x01\x01\x01\x01", udp_checksum=True)
    sent = node.send(frame, 11)
    start = Offsets.of(frame).payload
    data = sent.frame[start : start + 48]
    expect_frame(sent.frame, inserted(routed(frame, sent.port), data, dscp=27))
    expect_frame(sink.send(sent.frame, 1).frame, routed(routed(frame, sent.port), 12))


# ---- drops


def _broken(offset: int, value: int, frame: bytes = b"") -> bytes:
    changed = replaced(frame or roce(), offset, bytes([value]))
    return changed if offset in (24, 25) else refresh_ip(changed)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (_broken(14, 0x65), VERSION_INVALID),
        (_broken(14, 0x44), HEADER_LENGTH_INVALID),
        (_broken(14, 0x40), HEADER_LENGTH_INVALID),
        (_broken(16, 0x40), LENGTH_INVALID),
        (_broken(17, 0), LENGTH_INVALID),
        (_broken(24, 0xEE), CHECKSUM_INVALID),
        (_broken(22, 1), TTL_EXPIRED),
        (_broken(22, 0), TTL_EXPIRED),
        (roce(dst="192.0.2.1"), NO_ROUTE),
        (roce(v6=True, dst="2001:db8::1"), NO_ROUTE),
        (_broken(14, 0x45, roce(v6=True)), VERSION_INVALID),
        (roce(v6=True, ttl=1), TTL_EXPIRED),
        (roce(v6=True, ttl=0), TTL_EXPIRED),
        (_broken(18, 0x40, roce(v6=True)), LENGTH_INVALID),
        (ethernet(0x88B5, bytes(50)), UNKNOWN_ETHER_TYPE),
        (ethernet(ARP, bytes(28)), UNKNOWN_ETHER_TYPE),
        (ethernet(0x88B5, bytes(50), vlan=5), UNKNOWN_ETHER_TYPE),
    ],
    ids=[
        "version 6 in IPv4",
        "header length 4",
        "header length 0",
        "total length beyond the frame",
        "total length below the header",
        "wrong checksum",
        "TTL 1",
        "TTL 0",
        "no IPv4 route",
        "no IPv6 route",
        "version 4 in IPv6",
        "hop limit 1",
        "hop limit 0",
        "payload length beyond the frame",
        "not IP",
        "ARP without a punt entry",
        "not IP behind a tag",
    ],
)
def test_packet_that_cannot_be_routed_is_dropped_and_counted(frame: bytes, reason: int) -> None:
    """Each reason has its own counter cell, and nothing else is counted."""
    node = router()
    assert node.send(frame, 1).emitted == []
    assert node.drops == {reason: 1}
    assert node.counts("ingress_events") == {}


@pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
def test_route_that_says_drop_has_its_own_reason(v6: bool) -> None:
    """A deliberate black hole is not a missing route."""
    node = router()
    node.route_to_drop("fd00:0:2::7" if v6 else "10.0.2.7", 128 if v6 else 32)
    assert node.send(roce(v6=v6, dst="fd00:0:2::7" if v6 else "10.0.2.7"), 1).emitted == []
    assert node.drops == {ROUTE_ACTION: 1}


def test_ttl_two_is_the_last_that_passes() -> None:
    """A packet leaves with TTL 1, never with 0."""
    node = router()
    for v6 in (False, True):
        frame = roce(v6=v6, ttl=2)
        sent = node.send(frame, 1)
        expect_frame(sent.frame, routed(frame, sent.port))


def test_marked_and_unmarked_class_come_from_the_table() -> None:
    """A host's marked packet leaves with the unmarked DSCP of its class, ECN kept."""
    node = router()
    for marked, unmarked in ((27, 26), (1, 0), (47, 46)):
        for v6 in (False, True):
            frame = roce(dscp=marked, ecn=1, v6=v6)
            sent = node.send(frame, 11)
            expect_frame(sent.frame, routed(with_class(frame, dscp=unmarked), sent.port))
    assert node.event(5) == 6


def test_ip_checksum_update_is_right_for_every_ttl() -> None:
    """The header checksum verifies after every hop, all the way down."""
    node = Node(1)
    node.route("10.0.2.0", 24, 1)
    frame = roce(ttl=64)
    for _ in range(62):
        frame = node.send(frame, 1).frame
        assert ip_checksum_is_right(frame)
    assert frame[22] == 2


def test_default_route_matches_everything() -> None:
    """Prefix length 0 is the route of last resort in both families."""
    node = Node(1)
    node.route("0.0.0.0", 0, 5)
    node.route("::", 0, 6)
    assert node.send(roce(dst="198.51.100.1"), 1).port == 5
    assert node.send(roce(v6=True, dst="2001:db8::1"), 1).port == 6


def test_edge_port_entry_counts_packets() -> None:
    """Direct counters show what an entry saw."""
    node = router()
    node.send(roce(), 11)
    node.send(roce(), 12)
    node.send(roce(), 1)
    assert node.hits("int_edge_ports") == 2
