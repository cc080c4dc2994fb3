# SPDX-License-Identifier: Apache-2.0
"""No report about a report: whatever is watched, a report makes no further one."""

import pytest

from tests.p4.control import COLLECTOR_IP
from tests.p4.dissect import expect_frame
from tests.p4.frames import ptp, roce, udp_frame
from tests.p4.harness import (
    REPORT_PORT,
    Node,
)
from tests.p4.nodes import SINK_IN, marked_frame, sink_node, transit_node
from tests.p4.rewrite import routed
from tests.p4.wire import ip


def leaf() -> Node:
    """A leaf: hosts on ports 11 and 12, the fabric on port 1."""
    node = Node(2, host_ports=(11, 12))
    node.route("10.0.1.0", 24, 1)
    node.route("10.0.2.1", 32, 12)
    node.watch()
    node.watch_ptp()
    return node


def nosy(node: Node) -> Node:
    """Everything that could cause a report, and no exempt entry."""
    node.watch(priority=3)
    node.watch_xd(priority=2)
    node.watch_ptp(domain_number=(0, 0), message_type=(0, 0xC))
    node.add("drop_report", node.ternary("drop_report", {}), "report_drop", priority=1)
    match = node.ternary("queue_report", {})
    node.add("queue_report", match, "set_queue_report", 0, 0, 1000, priority=1)
    return node


@pytest.mark.parametrize("port", [1, 11], ids=["fabric", "host port"])
def test_report_of_another_switch_is_never_reported(port: int) -> None:
    """A report in transit makes no report, is not traced and keeps every byte above IP."""
    other = sink_node(50)
    report = other.send(marked_frame(), SINK_IN).reports[0].frame
    node = nosy(leaf())
    sent = node.send(report, port)
    assert sent.reports == []
    expect_frame(sent.frame, routed(report, REPORT_PORT))


def test_report_to_any_of_several_collectors_is_never_reported() -> None:
    """With several collectors the exempt entries of the watchlist say which they are."""
    other = sink_node(50)
    node = nosy(leaf())
    for switch in (other, node):
        for bucket in range(64):
            switch.destination(bucket, bucket % 3, f"10.255.0.{bucket % 3 + 1}", 32764)
    node.exempt(dst_addr=(ip("10.255.0.0"), 0xFFFF0000))
    node.route("10.255.0.0", 16, REPORT_PORT)
    other.route("10.255.0.0", 16, REPORT_PORT)
    for sport in range(40):
        for report in other.send(marked_frame(sport=sport, payload=8), SINK_IN).reports:
            sent = node.send(report.frame, 1)
            assert sent.reports == []
            expect_frame(sent.frame, routed(report.frame, REPORT_PORT))


def test_dropped_report_of_another_switch_is_not_reported() -> None:
    """A report that finds no route must not cause another one, here or further on."""
    other = sink_node(50)
    report = other.send(marked_frame(), SINK_IN).reports[0].frame
    node = nosy(Node(3))
    node.destination_default(COLLECTOR_IP)
    frame = report[:22] + bytes([1]) + report[23:]  # the TTL runs out here
    total = int.from_bytes(frame[24:26], "big") + (report[22] - 1 << 8)
    frame = frame[:24] + ((total & 0xFFFF) + (total >> 16)).to_bytes(2, "big") + frame[26:]
    sent = node.send(frame, 1)
    assert sent.emitted == []
    assert node.drops == {26: 1}


@pytest.mark.parametrize("frame", [roce(dst=COLLECTOR_IP), ptp(dst=COLLECTOR_IP)])
def test_collector_address_is_exempt_without_its_watchlist_entry(frame: bytes) -> None:
    """A forgotten exempt entry does not make reports of reports: the node knows its collector."""
    node = nosy(Node(1, host_ports=(11, 12)))
    sent = node.send(frame, 11)
    assert sent.reports == []
    expect_frame(sent.frame, routed(frame, REPORT_PORT))


def test_own_report_is_not_reported_wherever_it_leaves() -> None:
    """Even out of a host port that is a sink, a report is forwarded as it is."""
    node = nosy(Node(9, host_ports=(12, 13)))
    node.route("10.0.2.0", 24, 12)
    node.route("10.254.9.0", 24, 13)
    node.destination_default("10.254.9.9")
    sent = node.send(marked_frame(), 1)
    assert [report.port for report in sent.reports] == [13, 13]


def test_packet_from_the_controller_is_not_reported_twice() -> None:
    """Each copy of a packet makes at most one egress report."""
    node = nosy(transit_node())
    sent = node.send(udp_frame(bytes(40), sport=5, dport=6), 1)
    assert len(sent.reports) == 1
