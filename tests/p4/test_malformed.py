# SPDX-License-Identifier: Apache-2.0
"""Malformed frames: passed on unchanged, or dropped with a counted reason."""

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmv2_lab.switch.state import exact_match
from tests.p4.dissect import expect_frame
from tests.p4.frames import ethernet, ip_frame, probe, ptp, roce, udp_frame
from tests.p4.harness import Node
from tests.p4.int_headers import int_md, int_mx
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
)
from tests.p4.rewrite import inserted, routed, with_class
from tests.p4.wire import ARP, Offsets, added, refresh_ip, replaced

NOT_STRIPPABLE = 130
UNSUPPORTED = 6
HOP = bytes.fromhex("00000001000b0001000005dc0100000300000000000f424000000000000f481c")
FAMILY = pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])


def everything(node: Node) -> Node:
    """All features on, without reports of drops."""
    node.watch_xd(priority=1)
    node.watch(priority=2)
    node.watch_ptp()
    node.set_default("probe_config", "set_probe_config", 0x7C00)
    node.set_default("transparent_clock", "set_transparent_clock", 65536, 0)
    node.add("l2_ptp", node.ternary("l2_ptp", {}), "forward_l2", SPINE_OUT, priority=1)
    node.add("ecn_config", [exact_match(1)], "set_ecn_threshold", 1)
    return node


def marked(data: bytes, *, v6: bool = False, udp_checksum: bool = False) -> bytes:
    """A RoCEv2 packet with INT inserted and marked, as it is on a fabric link."""
    frame = routed(roce(v6=v6, udp_checksum=udp_checksum, payload=bytes(40)), LEAF_UPLINK)
    return inserted(frame, data, dscp=27)


FRAMES = {
    "RoCEv2": roce(payload=bytes(12)),
    "RoCEv2 over IPv6": roce(v6=True, payload=bytes(12)),
    "INT-MD": marked(int_md(HOP)),
    "INT-MD over IPv6": marked(int_md(HOP), v6=True),
    "INT-MX": marked(int_mx()),
    "PTP": ptp(),
    "PTP over IPv6": ptp(over="ipv6"),
    "PTP over Ethernet": ptp(over="ethernet"),
    "tagged PTP": ptp(over="ethernet", vlan=5),
    "tagged RoCEv2": roce(vlan=5),
    "probe": probe(),
    "IPv4 with options": roce(options=b"\x94\x04\0\0\1\1\1\1"),
    "TCP": ip_frame(bytes(24), 6),
    "ICMPv6": ip_frame(bytes([135]) + bytes(23), 58, src="fd00:0:1::1", dst="fd00:0:2::1"),
    "ARP": ethernet(ARP, bytes(28)),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frame_cut_at_any_length_is_dropped_with_a_counted_reason(name: str) -> None:
    """An IP packet shorter than it says never leaves; nothing is ever sent that was not there."""
    frame = FRAMES[name]
    leaf, spine, sink = (everything(node) for node in (source_node(), transit_node(), sink_node()))
    l2 = name in ("PTP over Ethernet", "tagged PTP")
    for size in range(len(frame)):
        for node, port in ((leaf, HOST_PORT), (spine, SPINE_IN), (sink, SINK_IN)):
            before = sum(node.drops.values())
            sent = node.send(frame[:size], port)
            if l2 and sent.forwarded:
                # a PTP header cut short is bridged as it is, a whole one is corrected
                start = 18 if name == "tagged PTP" else 14
                assert sent.port == SPINE_OUT
                assert len(sent.frame) == size
                assert sent.frame[: start + 8] == frame[: min(size, start + 8)]
                continue
            assert sent.emitted == [], f"cut to {size} bytes"
            assert sum(node.drops.values()) == before + 1, f"cut to {size} bytes"


@FAMILY
@pytest.mark.parametrize("tail", range(1, 12))
def test_ip_packet_that_ends_inside_its_headers_is_passed_on(tail: int, v6: bool) -> None:
    """An IP packet that says its true length is routed, however little is in it."""
    node = everything(transit_node())
    for protocol in (17, 6, 58 if v6 else 1):
        body = bytes.fromhex("c12312b7001200000400ffff")[:tail]
        if v6:
            frame = ip_frame(body, protocol, src="fd00:0:1::1", dst="fd00:0:2::1")
        else:
            frame = ip_frame(body, protocol)
        sent = node.send(frame, SPINE_IN)
        expect_frame(sent.frame, routed(frame, SPINE_OUT))


BAD_INT = {
    "INT version 0": (4, 0x00),
    "INT version 1": (4, 0x10),
    "INT version 3": (4, 0x30),
    "INT version 15": (4, 0xF0),
    "shim type 0": (0, 0x00),
    "shim type 2": (0, 0x20),
    "shim type 4": (0, 0x40),
    "NPT 1": (0, 0x14),
    "NPT 2": (0, 0x18),
    "no room for a header": (1, 2),
    "no words at all": (1, 0),
    "longer than the frame": (1, 200),
    "longer than the datagram": (1, 30),
}


@FAMILY
@pytest.mark.parametrize("name", BAD_INT)
def test_int_that_cannot_be_read_passes_transit_and_stops_at_the_sink(name: str, v6: bool) -> None:
    """Transit touches nothing and counts; a sink must not let a NIC read a shim as BTH."""
    offset, value = BAD_INT[name]
    frame = marked(int_md(HOP), v6=v6)
    frame = replaced(frame, Offsets.of(frame).payload + offset, bytes([value]))
    spine, sink = everything(transit_node()), everything(sink_node())
    sent = spine.send(frame, SPINE_IN)
    expect_frame(sent.frame, with_class(routed(frame, SPINE_OUT), ecn=3))
    assert sent.reports == []
    assert spine.event(UNSUPPORTED) == 1
    sent = sink.send(frame, SINK_IN)
    assert sent.forwarded == []
    assert sink.drops == {NOT_STRIPPABLE: 1}


@FAMILY
def test_udp_length_beyond_the_ip_packet_is_not_believed(v6: bool) -> None:
    """Lengths that contradict each other would wrap when INT is added or removed."""
    frame = marked(int_md(HOP), v6=v6)
    frame = added(frame, Offsets.of(frame).l4 + 4, 2, 4)
    spine, sink = transit_node(), sink_node()
    expect_frame(spine.send(frame, SPINE_IN).frame, routed(frame, SPINE_OUT))
    assert spine.event(UNSUPPORTED) == 1
    assert sink.send(frame, SINK_IN).forwarded == []
    assert sink.drops == {NOT_STRIPPABLE: 1}


@pytest.mark.parametrize(
    ("offset", "value"),
    [(6, 0x00), (6, 0x07), (6, 0x1F), (8, 0x00), (9, 0x41), (9, 0x02)],
    ids=["hop length 0", "hop length 7", "hop length 31", "bitmap 0000", "reserved bit", "bit 14"],
)
@FAMILY
def test_hop_that_does_not_fit_the_instructions_is_not_extended(
    offset: int, value: int, v6: bool
) -> None:
    """A stack of a domain that we do not know is passed on, and the sink can still remove it."""
    frame = marked(int_md(HOP), v6=v6, udp_checksum=True)
    frame = replaced(frame, Offsets.of(frame).payload + offset, bytes([value]))
    expect_frame(transit_node().send(frame, SPINE_IN).frame, routed(frame, SPINE_OUT))
    sent = sink_node().send(frame, SINK_IN)
    assert len(sent.frame) == len(frame) - 48


@FAMILY
def test_packet_too_large_for_the_mtu_with_int_passes_without(v6: bool) -> None:
    """A source never makes a packet that the next link would drop."""
    frame = roce(v6=v6, payload=bytes(1400))
    for mode in ("md", "mx"):
        node = source_node()
        if mode == "md":
            node.watch()
        else:
            node.watch_mx()
        node.add("int_egress_mtu", [exact_match(LEAF_UPLINK)], "set_mtu", len(frame) - 14 + 8)
        sent = node.send(frame, HOST_PORT)
        expect_frame(sent.frame, routed(frame, LEAF_UPLINK))
        assert node.egress_event(3) == 1


@FAMILY
def test_hop_by_hop_growth_stops_at_the_mtu_and_arrives(v6: bool) -> None:
    """Every hop that does not fit is skipped, the packet is delivered as it was sent."""
    frame = roce(v6=v6, payload=bytes(300))
    path = [source_node(), transit_node(101), transit_node(102), transit_node(103), sink_node()]
    path[0].watch()
    room = len(frame) - 14 + 16 + 70
    for node in path[:-1]:
        for port in (LEAF_UPLINK, SPINE_OUT):
            node.add("int_egress_mtu", [exact_match(port)], "set_mtu", room)
    out = frame
    for number, node in enumerate(path):
        out = node.send(out, HOST_PORT if number == 0 else SPINE_IN).frame
        assert len(out) - 14 <= room
    expect_frame(out[12:], routed(frame, SINK_PORT, hops=5)[12:])


@functools.cache
def fabric() -> tuple[Node, Node, Node]:
    """Leaf, spine and sink with all features on; they outlive one example."""
    return everything(source_node()), everything(transit_node()), everything(sink_node())


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(FRAMES)),
    changes=st.lists(st.tuples(st.integers(12, 90), st.integers(0, 255)), min_size=1, max_size=3),
    repair=st.booleans(),
)
def test_damaged_frame_is_sent_once_or_dropped_once(
    name: str, changes: list[tuple[int, int]], repair: bool
) -> None:
    """Any damage: at most one packet leaves, else one drop is counted; a host never gets INT."""
    frame = FRAMES[name]
    for offset, value in changes:
        if offset < len(frame):
            frame = replaced(frame, offset, bytes([value]))
    if repair and frame[12:15] in (b"\x08\x00\x45", b"\x08\x00\x47"):
        frame = refresh_ip(frame)
    for node, port in zip(fabric(), (HOST_PORT, SPINE_IN, SINK_IN), strict=True):
        before, ended = sum(node.drops.values()), node.event(12)
        sent = node.send(frame, port)
        gone = sum(node.drops.values()) - before + node.event(12) - ended
        assert len(sent.forwarded) + gone == 1 or _was_discarded(frame, node)
        for out_port, out in sent.forwarded:
            growth = len(out) - len(frame)
            assert growth <= (0 if out_port == SINK_PORT else 48)
            if out_port == SPINE_OUT and node is fabric()[1]:
                assert growth in (0, 32, -4), "only a tag may go and a hop may come"


def _was_discarded(frame: bytes, node: Node) -> bool:
    """A sink drops a packet whose D bit is set, after its report, and that is no drop."""
    at = Offsets.of(frame)
    return (
        node is fabric()[2] and len(frame) > at.payload + 4 and bool(frame[at.payload + 4] & 0x08)
    )


def test_empty_and_tiny_frames_do_no_harm() -> None:
    """Shorter than Ethernet: dropped and counted."""
    node = everything(transit_node())
    for size in range(14):
        assert node.send(bytes(size), SPINE_IN).emitted == []
    assert sum(node.drops.values()) == 14


def test_double_tag_is_not_read_as_ip() -> None:
    """A second tag is a type we do not know."""
    node = transit_node()
    frame = roce()
    double = frame[:12] + b"\x81\x00\x00\x05" + b"\x81\x00\x00\x06" + frame[12:]
    assert node.send(double, SPINE_IN).emitted == []
    assert node.drops == {129: 1}


def test_jumbo_udp_in_a_small_ip_packet_is_routed_untouched() -> None:
    """UDP's own length is the receiver's business unless INT is involved."""
    node = transit_node()
    frame = udp_frame(bytes(30), sport=5, dport=6)
    frame = replaced(frame, Offsets.of(frame).l4 + 4, b"\xff\xff")
    expect_frame(node.send(frame, SPINE_IN).frame, routed(frame, SPINE_OUT))
