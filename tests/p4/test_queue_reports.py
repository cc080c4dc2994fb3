# SPDX-License-Identifier: Apache-2.0
"""Queue congestion reports: thresholds, quota, and one report where a postcard goes anyway."""

import pytest

from bmv2_lab.switch.state import exact_match
from tests.p4.control import COLLECTOR_IP
from tests.p4.dissect import expect_frame
from tests.p4.frames import ptp, roce, udp_frame
from tests.p4.harness import REPORT_PORT, Node, Sent
from tests.p4.int_headers import expected_hop
from tests.p4.nodes import (
    SINK_IN,
    SINK_PORT,
    SPINE_IN,
    SPINE_OUT,
    sink_node,
    source_node,
    transit_node,
)
from tests.p4.reports import ETHERNET, ExpectedReport
from tests.p4.rewrite import ip_packet, routed

QUOTA_EXCEEDED = 5
DEPTH, LATENCY, QUOTA = 100, 5000, 3
NEVER = (1 << 24) - 1, (1 << 32) - 1
FAMILY = pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])


def watching(
    node: Node | None = None,
    *,
    depth: int = DEPTH,
    latency: int = NEVER[1],
    quota: int = QUOTA,
    **keys: tuple[int, int],
) -> Node:
    """A switch that reports deep queues."""
    node = node or transit_node()
    match = node.ternary("queue_report", keys)
    node.add("queue_report", match, "set_queue_report", depth, latency, quota, priority=1)
    return node


def congestion(
    node: Node,
    sent: Sent,
    *,
    ports: tuple[int, int] = (SPINE_IN, SPINE_OUT),
    queue: int = 1,
    flags: str = "Q",
    int_bytes: int = 0,
    sequence: int = 0,
    bits: int = 0x7C00,
) -> ExpectedReport:
    """A queue congestion report: all the hop's values, Q set."""
    return ExpectedReport(
        bits=bits,
        metadata=expected_hop(node, sent, bits, *ports, queue),
        inner=ip_packet(sent.frame),
        flags=flags,
        int_bytes=int_bytes,
        sequence=sequence,
    )


@FAMILY
def test_deep_queue_is_reported_from_the_threshold_on(v6: bool) -> None:
    """At the threshold and above: one report with Q and without F; below: none."""
    node = watching()
    frame = roce(v6=v6)
    node.queue_depth = DEPTH - 1
    assert node.send(frame, SPINE_IN).reports == []
    for number, depth in enumerate((DEPTH, 0x7FFFF)):
        node.queue_depth = depth
        sent = node.send(frame, SPINE_IN)
        expect_frame(sent.frame, routed(frame, SPINE_OUT))
        node.expect_reports(sent, congestion(node, sent, sequence=number))


def test_long_wait_is_reported_from_the_threshold_on() -> None:
    """The latency threshold works on its own, in stamp units."""
    node = watching(depth=NEVER[0], latency=LATENCY)
    assert node.send(roce(), SPINE_IN, residence=LATENCY - 1).reports == []
    sent = node.send(roce(), SPINE_IN, residence=LATENCY * 2)
    node.expect_reports(sent, congestion(node, sent))


def test_interfaces_are_in_the_report_when_configured() -> None:
    """Level 2 ports (bit 6) appear where there is something to say."""
    node = watching()
    node.set_interface(SPINE_IN, 501)
    node.set_interface(SPINE_OUT, 502)
    node.queue_depth = DEPTH
    sent = node.send(roce(), SPINE_IN)
    (report,) = sent.reports
    assert report.bits in (0x7C00, 0x7E00)
    assert report.metadata == expected_hop(node, sent, report.bits, SPINE_IN, SPINE_OUT, 1)


def test_quota_bounds_the_reports_of_an_episode() -> None:
    """An episode ends with a packet below the thresholds; then the quota is fresh."""
    node = watching()
    for episode in range(2):
        node.queue_depth = DEPTH
        counts = [len(node.send(roce(), SPINE_IN).reports) for _ in range(QUOTA + 4)]
        assert counts == [1] * QUOTA + [0] * 4
        assert node.egress_event(QUOTA_EXCEEDED) == 4 * (episode + 1)
        node.queue_depth = DEPTH - 1
        assert node.send(roce(), SPINE_IN).reports == []


def test_quota_is_per_port_and_queue() -> None:
    """One congested queue does not use up the reports of another."""
    node = watching(quota=1)
    node.route("10.0.3.0", 24, 3)
    node.queue_depth = DEPTH
    frames = [roce(), roce(dscp=0), roce(dst="10.0.3.1"), roce(dst="10.0.3.1", dscp=46)]
    assert [len(node.send(frame, SPINE_IN).reports) for frame in frames] == [1, 1, 1, 1]
    assert [len(node.send(frame, SPINE_IN).reports) for frame in frames] == [0, 0, 0, 0]


def test_keys_are_egress_port_and_queue() -> None:
    """Thresholds can differ per port and queue; without an entry nothing is reported."""
    node = watching(egress_port=(SPINE_OUT, 0x1FF), queue_id=(1, 0xFF))
    node.route("10.0.3.0", 24, 3)
    node.queue_depth = DEPTH
    assert len(node.send(roce(), SPINE_IN).reports) == 1
    assert node.send(roce(dscp=0), SPINE_IN).reports == []
    assert node.send(roce(dst="10.0.3.1"), SPINE_IN).reports == []


def test_watched_flow_gets_one_report_with_both_flags() -> None:
    """A postcard of a congested packet carries F and Q; it is not sent twice."""
    node = watching()
    node.watch_xd()
    node.queue_depth = DEPTH
    sent = node.send(roce(), SPINE_IN)
    node.expect_reports(sent, congestion(node, sent, flags="FQ"))
    node.queue_depth = 0
    sent = node.send(roce(), SPINE_IN)
    node.expect_reports(sent, congestion(node, sent, flags="F", sequence=1))


@FAMILY
def test_packet_with_int_md_is_reported_with_its_stack(v6: bool) -> None:
    """In transit the report shows the packet as it leaves; F, since telemetry is in it."""
    source, node = source_node(), watching()
    source.watch()
    node.queue_depth = DEPTH
    sent = node.send(source.send(roce(v6=v6, payload=bytes(300)), 11).frame, SPINE_IN)
    assert len(sent.frame) == len(roce(v6=v6, payload=bytes(300))) + 80
    node.expect_reports(sent, congestion(node, sent, flags="FQ", int_bytes=80))


def test_sink_has_one_egress_report_with_both_flags() -> None:
    """The sink's own hop and its congestion are one report; the stack comes in the other."""
    source, node = source_node(), watching(sink_node())
    source.watch()
    node.queue_depth = DEPTH
    sent = node.send(source.send(roce(), 11).frame, SINK_IN)
    assert [(report.hw_id, report.flag_letters) for report in sent.reports] == [(0, "F"), (1, "QF")]
    for report in sent.reports:
        report.check_lengths()
    assert sent.reports[1].metadata == expected_hop(node, sent, 0x7C00, SINK_IN, SINK_PORT, 1)


def test_mx_packet_has_one_report_with_both_flags_at_every_node() -> None:
    """MX postcards carry Q as well, and the sink's is of the stripped packet."""
    source, node, sink = source_node(), watching(), watching(sink_node())
    source.watch_mx()
    node.queue_depth = sink.queue_depth = DEPTH
    frame = source.send(roce(), 11).frame
    for switch, ports, int_bytes in (
        (node, (SPINE_IN, SPINE_OUT), 16),
        (sink, (SINK_IN, SINK_PORT), 0),
    ):
        sent = switch.send(frame, SPINE_IN)
        expected = congestion(switch, sent, flags="FQ", ports=ports, int_bytes=int_bytes)
        switch.expect_reports(sent, expected)
        frame = sent.frame


def test_discarded_packet_is_reported_once_with_its_congestion() -> None:
    """A D bit at the sink of a deep queue: both reports, no packet."""
    source, sink = source_node(), watching(sink_node())
    source.watch()
    sink.queue_depth = DEPTH
    marked = source.send(roce(), 11).frame
    marked = marked[:46] + bytes([marked[46] | 0x08]) + marked[47:]
    sent = sink.send(marked, SINK_IN)
    assert sent.forwarded == []
    assert [(report.hw_id, report.flag_letters) for report in sent.reports] == [(0, "F"), (1, "QF")]


@pytest.mark.parametrize("over", ["ipv4", "ipv6", "ethernet"])
def test_ptp_is_reported_too(over: str) -> None:
    """Any packet that meets a deep queue counts, PTP over Ethernet as Ethernet."""
    node = watching()
    node.add("l2_ptp", node.ternary("l2_ptp", {}), "forward_l2", SPINE_OUT, priority=1)
    node.queue_depth = DEPTH
    sent = node.send(ptp(over=over), SPINE_IN)
    l2 = over == "ethernet"
    expected = ExpectedReport(
        bits=0x7C00,
        metadata=expected_hop(node, sent, 0x7C00, SPINE_IN, SPINE_OUT, 0),
        inner=sent.frame if l2 else ip_packet(sent.frame),
        inner_type=ETHERNET if l2 else 0,
        flags="Q",
    )
    node.expect_reports(sent, expected)


def test_report_in_a_deep_queue_is_not_reported() -> None:
    """Neither this switch's reports nor another's make congestion reports."""
    node = watching(depth=0, quota=0xFFFF)
    node.watch_xd()
    sent = node.send(roce(), SPINE_IN)
    assert len(sent.reports) == 1
    other = node.send(sent.reports[0].frame, SPINE_IN)
    assert other.port == REPORT_PORT
    (again,) = watching(transit_node(55), depth=0).send(sent.reports[0].frame, 3).emitted
    assert again[0] == REPORT_PORT


def test_exempt_flow_is_not_reported() -> None:
    """An operator's exclusion holds for congestion as well."""
    node = watching()
    node.exempt(dscp=(26, 0x3F))
    node.queue_depth = DEPTH
    assert node.send(roce(), SPINE_IN).reports == []


def test_collector_traffic_is_not_reported() -> None:
    """Whatever goes to the collector's address is left alone."""
    node = watching(depth=0)
    assert node.send(udp_frame(b"x", sport=1, dport=2, dst=COLLECTOR_IP), SPINE_IN).reports == []


def test_congestion_is_reported_without_a_watchlist_entry_in_every_stage() -> None:
    """Queue and ECN thresholds are independent: a CE mark is in the reported packet."""
    node = watching()
    node.add("ecn_config", [exact_match(1)], "set_ecn_threshold", DEPTH)
    node.queue_depth = DEPTH
    sent = node.send(roce(ecn=2), SPINE_IN)
    assert sent.frame[15] & 3 == 3
    node.expect_reports(sent, congestion(node, sent))
