# SPDX-License-Identifier: Apache-2.0
"""Postcards for PTP event messages: the packet untouched, the hop reported."""

from typing import Any

import pytest

from tests.p4.dissect import expect_frame
from tests.p4.frames import ptp
from tests.p4.harness import Node
from tests.p4.int_headers import IntStack, expected_hop
from tests.p4.nodes import SPINE_IN, SPINE_OUT, sink_node, source_node, transit_node, walk
from tests.p4.reports import ExpectedReport
from tests.p4.rewrite import ip_packet, routed
from tests.p4.wire import Offsets, ip, replaced

PTP_VERSION = 8


def fabric_node() -> Node:
    """A switch with a route to the time receiver on port 2 that traces all of PTP."""
    node = transit_node()
    node.watch_ptp()
    return node


@pytest.mark.parametrize("message_type", [0, 1, 2, 3])
@pytest.mark.parametrize("udp_checksum", [False, True])
@pytest.mark.parametrize("over", ["ipv4", "ipv6"])
def test_event_message_passes_untouched_and_is_reported(
    message_type: int, udp_checksum: bool, over: str
) -> None:
    """Nothing above IP changes, nor length nor DSCP; one postcard has the node's whole hop."""
    node = fabric_node()
    node.set_report_config(truncate_bytes=128)
    frame = ptp(message_type, over=over, udp_checksum=udp_checksum)
    sent = node.send(frame, SPINE_IN)
    expect_frame(sent.frame, routed(frame, SPINE_OUT))
    metadata = expected_hop(node, sent, 0x7C00, SPINE_IN, SPINE_OUT, 0)
    node.expect_reports(
        sent, ExpectedReport(bits=0x7C00, metadata=metadata, inner=ip_packet(sent.frame))
    )


@pytest.mark.parametrize("over", ["ipv4", "ipv6"])
@pytest.mark.parametrize("message_type", [8, 9, 0xA, 0xB, 0xC, 0xD])
def test_general_messages_get_no_postcard(message_type: int, over: str) -> None:
    """Follow_Up, Delay_Resp, Announce and the like pass without a report."""
    node = fabric_node()
    frame = ptp(message_type, over=over)
    sent = node.send(frame, SPINE_IN)
    expect_frame(sent.frame, routed(frame, SPINE_OUT))
    assert sent.reports == []


@pytest.mark.parametrize("over", ["ipv4", "ipv6", "ethernet"])
@pytest.mark.parametrize("version", [0, 1, 3, 15])
def test_unknown_ptp_version_is_counted_and_not_read(version: int, over: str) -> None:
    """Another version is not read as version 2, and shows in the event counter."""
    node = fabric_node()
    node.add("l2_ptp", node.ternary("l2_ptp", {}), "forward_l2", SPINE_OUT, priority=1)
    frame = ptp(0, version=version, over=over)
    sent = node.send(frame, SPINE_IN)
    expect_frame(sent.frame, frame if over == "ethernet" else routed(frame, SPINE_OUT))
    assert sent.reports == []
    assert node.event(PTP_VERSION) == 1


def test_minor_version_does_not_matter() -> None:
    """IEEE 1588-2019 sends minorVersionPTP 1; older senders have 0 there."""
    node = fabric_node()
    frame = replaced(ptp(0), 43, b"\x02")
    assert len(node.send(frame, SPINE_IN).reports) == 1


def test_general_message_type_on_the_event_port_gets_no_postcard() -> None:
    """The port alone does not make an event message, nor does the type alone."""
    node = fabric_node()
    assert node.send(replaced(ptp(0), 42, b"\x08"), SPINE_IN).reports == []
    assert node.send(replaced(ptp(8), 42, b"\x00"), SPINE_IN).reports == []


@pytest.mark.parametrize("bits", [0x7C00, 0x0C00, 0x4000, 0x2800, 0xFFFF, 0x0200])
@pytest.mark.parametrize("interfaces", [False, True], ids=["no interfaces", "interfaces"])
def test_entry_chooses_the_metadata(bits: int, interfaces: bool) -> None:
    """RepMdBits are the entry's, without the bits that this program cannot fill."""
    node = transit_node()
    node.watch_ptp(bits)
    if interfaces:
        node.set_interface(SPINE_IN, 1001)
        node.set_interface(SPINE_OUT, 1002)
    sent = node.send(ptp(), SPINE_IN)
    there = bits & (0x7E00 if interfaces else 0x7C00)
    reports = []
    if there:
        metadata = expected_hop(node, sent, there, SPINE_IN, SPINE_OUT, 0)
        reports = [ExpectedReport(bits=there, metadata=metadata, inner=ip_packet(sent.frame))]
    node.expect_reports(sent, *reports)


KEYS: dict[str, Any] = {
    "domain_number": (24, 0xFF),
    "message_type": (0, 0xF),
    "src_addr": (ip("10.0.1.1"), 0xFFFFFFFF),
    "dst_addr": (ip("10.0.2.1"), 0xFFFFFFFF),
    "sequence_id": (0x0102, 0xFFFF),
}


@pytest.mark.parametrize("name", KEYS)
def test_each_key_selects(name: str) -> None:
    """Every key of the watchlist matches its field, and a wrong value does not."""
    value, mask = KEYS[name]
    for wanted, count in ((value, 1), (value ^ 1, 0)):
        node = transit_node()
        keys: dict[str, Any] = {name: (wanted, mask)}
        node.watch_ptp(**keys)
        assert len(node.send(ptp(), SPINE_IN).reports) == count


def test_sampling_by_sequence_id_is_the_same_at_every_hop() -> None:
    """Low bits of sequenceId choose the same messages on all switches."""
    path = [source_node(), transit_node(), sink_node()]
    for node in path:
        node.watch_ptp(sequence_id=(3, 0x3))
    for number in range(12):
        counts = [len(sent.reports) for sent in walk(path, ptp(sequence_id=number))]
        assert counts == ([1, 1, 1] if number % 4 == 3 else [0, 0, 0])


@pytest.mark.parametrize("over", ["ipv4", "ipv6"])
def test_report_identifies_the_message(over: str) -> None:
    """Domain, message type, source port identity and sequenceId are in every report."""
    node = fabric_node()
    node.set_report_config(truncate_bytes=0)
    (report,) = node.send(ptp(1, over=over, sequence_id=0xBEEF), SPINE_IN).reports
    message = report.inner[48 if over == "ipv6" else 28 :]
    assert message[0] & 15 == 1
    assert message[4] == 24
    assert message[20:30] == bytes.fromhex("aabbccfffeddeeff0001")
    assert message[30:32] == b"\xbe\xef"


@pytest.mark.parametrize("over", ["ipv4", "ipv6"])
def test_packet_with_int_gets_no_postcard_as_well(over: str) -> None:
    """PTP that carries INT-MD is traced once: transit makes no postcard, the sink makes one."""
    path = [source_node(), transit_node(), sink_node()]
    path[0].watch(marked_dscp=1)
    for node in path:
        node.watch_ptp()
    frame = ptp(over=over)
    first, second, last = walk(path, frame)
    assert first.reports == []
    assert second.reports == []
    assert len(IntStack.of(second.frame).hops()) == 2
    assert [report.hw_id for report in last.reports] == [0, 1]
    start = Offsets.of(frame).l4
    assert last.frame[start:] == frame[start:]


def test_length_of_the_frame_at_the_hop_is_derivable() -> None:
    """The inner IP header keeps the packet's own length, however short the report is cut."""
    node = fabric_node()
    node.set_report_config(truncate_bytes=64)
    frame = ptp(length=400)
    (report,) = node.send(frame, SPINE_IN).reports
    assert int.from_bytes(report.inner[2:4], "big") == len(frame) - 14
