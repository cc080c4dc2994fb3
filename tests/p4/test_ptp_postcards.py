# SPDX-License-Identifier: Apache-2.0
"""Postcards for PTP event messages: the packet untouched, the hop reported."""

import pytest

from bmv2_lab.switch.state import ternary_match
from tests.p4.harness import IntStack, Node, expected_hop, ip, ptp


def fabric_node(**kwargs: tuple[int, ...]) -> Node:
    """A switch with a route to the time receiver on port 2 that traces all of PTP."""
    node = Node(101, **kwargs)
    node.route("10.0.2.0", 24, 2)
    node.watch_ptp()
    return node


@pytest.mark.parametrize("message_type", [0, 1, 2, 3])
@pytest.mark.parametrize("udp_checksum", [False, True])
def test_event_message_passes_untouched_and_is_reported(
    message_type: int, udp_checksum: bool
) -> None:
    """Nothing above IP changes, nor length nor DSCP; one postcard has the node's whole hop."""
    node = fabric_node()
    node.set_report_config(truncate_bytes=128)
    frame = ptp(message_type, udp_checksum=udp_checksum)
    sent = node.send(frame, 1)
    ((port, out),) = sent.forwarded
    assert port == 2
    assert out[34:] == frame[34:]
    assert out[14:22] == frame[14:22]
    assert out[22] == frame[22] - 1
    (report,) = sent.reports
    report.check_lengths()
    assert (report.hw_id, report.bits, report.node_id) == (1, 0x7C00, 101)
    assert report.metadata == expected_hop(node, sent, 0x7C00, 1, 2, 0)
    assert report.inner == out[14:]


@pytest.mark.parametrize(
    "frame",
    [ptp(8), ptp(9), ptp(0xB), ptp(0, version=1)],
    ids=["Follow_Up", "Delay_Resp", "Announce", "Sync of PTP version 1"],
)
def test_other_messages_get_no_postcard(frame: bytes) -> None:
    """General messages and unknown versions pass without a report."""
    node = fabric_node()
    sent = node.send(frame, 1)
    assert sent.frame[34:] == frame[34:]
    assert sent.reports == []


def test_unknown_ptp_version_is_counted() -> None:
    """PTP version 1 is not read as version 2, and shows in the event counter."""
    node = fabric_node()
    node.send(ptp(0, version=1), 1)
    node.send(ptp(0), 1)
    assert node.event(8) == 1


def test_general_message_type_on_the_event_port_gets_no_postcard() -> None:
    """The port alone does not make an event message."""
    node = fabric_node()
    frame = bytearray(ptp(0))
    frame[42] = 8
    assert node.send(bytes(frame), 1).reports == []


@pytest.mark.parametrize("bits", [0x7C00, 0x0C00, 0x4000, 0x2800, 0xFFFF])
def test_entry_chooses_the_metadata(bits: int) -> None:
    """RepMdBits are the entry's, without the bits that this program cannot fill."""
    node = Node(101)
    node.route("10.0.2.0", 24, 2)
    node.watch_ptp(bits)
    sent = node.send(ptp(), 1)
    (report,) = sent.reports
    report.check_lengths()
    assert report.bits == bits & 0x7C00
    assert report.metadata == expected_hop(node, sent, bits & 0x7C00, 1, 2, 0)


def test_watchlist_selects_domain_and_addresses() -> None:
    """Only listed domains and addresses are reported."""
    node = Node(101)
    node.route("10.0.2.0", 24, 2)
    match = [ternary_match(24, 0xFF), ternary_match(0, 0xF), ternary_match(0, 0)]
    match.append(ternary_match(ip("10.0.2.1"), 0xFFFFFFFF))
    node.add("ptp_watchlist", match, "ptp_postcard", 0x7C00, priority=1)
    assert len(node.send(ptp(), 1).reports) == 1
    assert node.send(ptp(1), 1).reports == []
    assert node.send(ptp(dst="10.0.2.9"), 1).reports == []
    other_domain = bytearray(ptp())
    other_domain[46] = 25
    assert node.send(bytes(other_domain), 1).reports == []


def test_packet_with_int_gets_no_postcard_as_well() -> None:
    """PTP that carries INT-MD is traced once: transit makes no postcard, the sink makes one."""
    first, second, last = Node(1, host_ports=(11,)), fabric_node(), Node(2, host_ports=(12,))
    first.route("10.0.2.0", 24, 1)
    first.watch(marked_dscp=1)
    first.watch_ptp()
    last.route("10.0.2.1", 32, 12)
    last.watch_ptp()
    frame = ptp()
    sent = first.send(frame, 11)
    assert sent.reports == []
    sent = second.send(sent.frame, 1)
    assert sent.reports == []
    assert len(IntStack.of(sent.frame[14:]).hops()) == 2
    sent = last.send(sent.frame, 1)
    assert [report.hw_id for report in sent.reports] == [0, 1]
    assert sent.frame[34:] == frame[34:]
    assert sent.frame[15] == frame[15]
