# SPDX-License-Identifier: Apache-2.0
"""INT-MD v2.1 at its end: reports, and the packet as the source got it."""

from typing import Any

import pytest

from bmv2_lab.switch.state import exact_match
from tests.p4.dissect import expect_frame
from tests.p4.frames import ip_frame, roce
from tests.p4.harness import Node
from tests.p4.int_headers import IntStack, expected_hop, int_md
from tests.p4.nodes import (
    HOST_PORT,
    LEAF_UPLINK,
    SINK_IN,
    SINK_PORT,
    SPINE_IN,
    expect_restored,
    local_node,
    sink_node,
    source_node,
    transit_node,
    walk,
)
from tests.p4.reports import ExpectedReport
from tests.p4.rewrite import inserted, ip_packet, routed, with_class
from tests.p4.wire import (
    Offsets,
    added,
    replaced,
)

SHIM_AND_HEADER_BYTES = 16
UNSUPPORTED, NOT_STARTED = 6, 9
"""ingress_events."""

FAMILY = pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])


@FAMILY
def test_source_and_sink_in_one_switch_report_by_postcard_alone(v6: bool) -> None:
    """Between two hosts of one switch no header is inserted; one postcard reports the hop."""
    node = local_node()
    node.watch()
    frame = roce(v6=v6)
    sent = node.send(frame, HOST_PORT)
    expect_restored(frame, sent.frame, hops=1)
    node.expect_reports(
        sent,
        ExpectedReport(
            bits=0x7C00,
            metadata=expected_hop(node, sent, 0x7C00, HOST_PORT, SINK_PORT, 1),
            inner=ip_packet(sent.frame),
        ),
    )


@FAMILY
def test_last_hop_strips_without_watchlist_and_without_reports(v6: bool) -> None:
    """Stripping depends on the port alone; set_int_strip strips without a report."""
    first = source_node()
    first.watch()
    frame = roce(v6=v6)
    marked = first.send(frame, HOST_PORT).frame
    last = Node(2)
    last.add("int_sink_ports", [exact_match(SINK_PORT)], "set_int_strip")
    last.route("10.0.2.1", 32, SINK_PORT)
    last.route("fd00:0:2::1", 128, SINK_PORT)
    sent = last.send(marked, SINK_IN)
    expect_restored(frame, sent.frame, hops=2)
    assert sent.reports == []


def test_silent_sink_port_makes_no_postcard_for_a_local_flow() -> None:
    """set_int_strip silences the sink also where source and sink are one switch."""
    node = Node(1, host_ports=(HOST_PORT,))
    node.add("int_sink_ports", [exact_match(SINK_PORT)], "set_int_strip")
    node.route("10.0.2.1", 32, SINK_PORT)
    node.watch()
    sent = node.send(roce(), HOST_PORT)
    expect_restored(roce(), sent.frame, hops=1)
    assert sent.reports == []


@FAMILY
def test_marked_packet_without_udp_loses_its_mark_at_the_last_hop(v6: bool) -> None:
    """TCP cannot carry INT here: a mark on it is removed, and the packet delivered."""
    addresses: dict[str, Any] = {"src": "fd00:0:1::1", "dst": "fd00:0:2::1"} if v6 else {}
    frame = ip_frame(bytes(20) + b"some data", 6, dscp=27, ecn=1, **addresses)
    last = sink_node()
    sent = last.send(frame, SINK_IN)
    expect_frame(sent.frame, with_class(routed(frame, SINK_PORT), dscp=26))
    assert last.event(UNSUPPORTED) == 1


@FAMILY
@pytest.mark.parametrize("excess", [-4, 4])
def test_source_leaves_contradicting_lengths_alone(excess: int, v6: bool) -> None:
    """UDP and IP length must agree, or the sink could not invert what the source adds."""
    node = source_node()
    node.watch()
    frame = roce(v6=v6)
    frame = added(frame, Offsets.of(frame).l4 + 4, 2, excess)
    expect_frame(node.send(frame, HOST_PORT).frame, routed(frame, LEAF_UPLINK))
    assert node.event(NOT_STARTED) == 1


def test_discard_bit_drops_after_both_reports() -> None:
    """A packet with D set is reported like any other and never reaches the host."""
    first, last = source_node(), sink_node()
    first.watch()
    marked = first.send(roce(), HOST_PORT).frame
    marked = replaced(marked, 46, bytes([marked[46] | 0x08]))
    sent = last.send(marked, SINK_IN)
    assert sent.forwarded == []
    assert [report.hw_id for report in sent.reports] == [0, 1]
    for report in sent.reports:
        report.check_lengths()


def test_sink_takes_the_dscp_from_the_shim() -> None:
    """Two classes may share a mark; each gets its own DSCP back."""
    for dscp in (24, 26):
        path = [source_node(), sink_node()]
        path[0].watch(marked_dscp=27)
        frame = roce(dscp=dscp)
        expect_restored(frame, walk(path, frame)[-1].frame, hops=2)


@pytest.mark.parametrize("interfaces", [False, True], ids=["no interfaces", "interfaces"])
@pytest.mark.parametrize("bitmap", [0x9000, 0xFF81, 0x8000, 0x0200])
def test_own_hop_report_has_available_bits_and_always_the_ingress_stamp(
    bitmap: int, interfaces: bool
) -> None:
    """Unavailable bits are cleared in a report; the stamp joins both reports, so it is there."""
    path = [source_node(), sink_node()]
    path[0].watch(bitmap=bitmap)
    if interfaces:
        path[1].set_interface(SINK_IN, 0x30001)
        path[1].set_interface(SINK_PORT, 0x3000C)
    last = walk(path, roce())[-1]
    report = last.reports[1]
    report.check_lengths()
    bits = bitmap & (0x7E00 if interfaces else 0x7C00) | 0x0800
    assert report.bits == bits
    assert report.metadata == expected_hop(path[1], last, bits, SINK_IN, SINK_PORT, 1)


def test_longest_stack_is_removed_whole() -> None:
    """A stack of 252 words, the most that the shim can count, survives transit (M) and the sink."""
    first, second, last = source_node(), transit_node(), sink_node()
    words = bytes(range(252)) * 4
    frame = roce()
    grown = inserted(
        routed(frame, LEAF_UPLINK),
        int_md(words, bitmap=0x8000, remaining_hop_count=200),
        dscp=27,
    )
    after = second.send(grown, SPINE_IN).frame
    assert IntStack.of(after).mtu_exceeded
    assert len(after) == len(grown)
    sent = last.send(after, SINK_IN)
    expect_restored(frame, sent.frame, hops=3)
    report = sent.reports[0]
    report.check_lengths()
    assert report.length_words == 255
    assert report.inner[44 : 44 + len(words)] == words
    assert first.drops == {}
