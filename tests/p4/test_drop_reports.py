# SPDX-License-Identifier: Apache-2.0
"""Drop reports: which drops are reported, with what metadata, and in which form."""

from typing import Any

import pytest

from bmv2_lab.switch.state import exact_match
from tests.p4.frames import ethernet, probe, ptp, roce
from tests.p4.harness import CPU_PORT, Node, Sent
from tests.p4.int_headers import expected_hop
from tests.p4.nodes import SINK_IN, SINK_PORT, SPINE_IN, sink_node, source_node, transit_node
from tests.p4.reports import ETHERNET, ExpectedReport
from tests.p4.rewrite import ip_packet
from tests.p4.wire import ip, refresh_ip, replaced

NO_PORT = 0xFFFF
DROP_BITS = 0x4801
VERSION_INVALID, TTL_EXPIRED, NO_ROUTE, HEADER_LENGTH_INVALID, CHECKSUM_INVALID = 25, 26, 29, 30, 31
LENGTH_INVALID, UNKNOWN_ETHER_TYPE, NOT_STRIPPABLE, ROUTE_ACTION, L2_PTP = 128, 129, 130, 131, 132
PROBE_INVALID = 133
FILTERED = 10


def reporting(node: Node | None = None, **keys: tuple[int, int]) -> Node:
    """A switch that reports its drops."""
    node = node or transit_node()
    node.add("drop_report", node.ternary("drop_report", keys), "report_drop", priority=1)
    return node


def drop(
    node: Node,
    sent: Sent,
    reason: int,
    inner: bytes,
    *,
    egress_port: int = NO_PORT,
    inner_type: int = 0,
    flags: str = "D",
    sequence: int = 0,
    queue: int = 0,
    int_bytes: int = 0,
    ingress_port: int = SPINE_IN,
) -> ExpectedReport:
    """A drop report of the ingress: ports, ingress stamp, queue id and reason."""
    ports = (ingress_port, egress_port)
    return ExpectedReport(
        hw_id=0,
        bits=DROP_BITS,
        metadata=expected_hop(node, sent, DROP_BITS, *ports, 0, drop=(queue, reason)),
        inner=inner,
        inner_type=inner_type,
        flags=flags,
        sequence=sequence,
        int_bytes=int_bytes,
    )


@pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("reason", [TTL_EXPIRED, NO_ROUTE, ROUTE_ACTION])
def test_dropped_ip_packet_is_reported_as_received(reason: int, v6: bool) -> None:
    """D = 1, F = 0, the IP packet as it came in."""
    node = reporting()
    node.route_to_drop("fd00:0:7::" if v6 else "10.0.7.0", 48 if v6 else 24)
    changes: dict[int, dict[str, Any]] = {
        TTL_EXPIRED: {"ttl": 1},
        NO_ROUTE: {"dst": "2001:db8::1" if v6 else "192.0.2.1"},
        ROUTE_ACTION: {"dst": "fd00:0:7::1" if v6 else "10.0.7.1"},
    }
    frame = roce(v6=v6, dscp=0, payload=bytes(200), **changes[reason])
    sent = node.send(frame, SPINE_IN)
    assert sent.forwarded == []
    node.expect_reports(sent, drop(node, sent, reason, ip_packet(frame)))
    assert node.drops == {reason: 1}


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [
        (14, 0x65, VERSION_INVALID),
        (14, 0x44, HEADER_LENGTH_INVALID),
        (24, 0x99, CHECKSUM_INVALID),
        (16, 0x7F, LENGTH_INVALID),
    ],
    ids=["version", "header length", "checksum", "total length"],
)
def test_malformed_ip_is_reported_as_ethernet(offset: int, value: int, reason: int) -> None:
    """What cannot be read as IP is not presented as IP: inner type 3, the whole frame."""
    node = reporting()
    node.set_report_config(truncate_bytes=200)
    frame = replaced(roce(dscp=0), offset, bytes([value]))
    if offset == 16:
        frame = refresh_ip(frame)  # only the length is wrong
    sent = node.send(frame, SPINE_IN)
    node.expect_reports(sent, drop(node, sent, reason, frame, inner_type=ETHERNET))


def test_malformed_ipv6_is_reported_as_ethernet() -> None:
    """The same for IPv6: a payload length beyond the frame, a wrong version."""
    for offset, value, reason in ((18, 0x7F, LENGTH_INVALID), (14, 0x40, VERSION_INVALID)):
        node = reporting()
        frame = replaced(roce(v6=True, dscp=0), offset, bytes([value]))
        sent = node.send(frame, SPINE_IN)
        node.expect_reports(sent, drop(node, sent, reason, frame, inner_type=ETHERNET))


@pytest.mark.parametrize("vlan", [None, 0x0064], ids=["untagged", "tagged"])
@pytest.mark.parametrize("kind", ["unknown", "ptp"])
def test_other_frames_are_reported_as_ethernet(kind: str, vlan: int | None) -> None:
    """Not IP: inner type 3, the tag included."""
    node = reporting()
    node.set_report_config(truncate_bytes=200)
    frame, reason = ethernet(0x88B5, bytes(range(50)), vlan=vlan), UNKNOWN_ETHER_TYPE
    if kind == "ptp":
        frame, reason = ptp(over="ethernet", vlan=vlan), L2_PTP
    sent = node.send(frame, SPINE_IN)
    node.expect_reports(sent, drop(node, sent, reason, frame, inner_type=ETHERNET))


def test_tagged_ip_packet_is_reported_as_ip() -> None:
    """An IP inner starts at IP, whatever was before it."""
    node = reporting()
    frame = roce(dst="192.0.2.1", dscp=0, vlan=0x0064)
    sent = node.send(frame, SPINE_IN)
    node.expect_reports(sent, drop(node, sent, NO_ROUTE, ip_packet(frame)))


def test_padding_is_not_part_of_an_ip_inner() -> None:
    """The report ends with the IP packet."""
    node = reporting()
    node.set_report_config(truncate_bytes=400)
    frame = roce(dst="192.0.2.1", dscp=0, payload=b"")
    sent = node.send(frame + bytes(20), SPINE_IN)
    node.expect_reports(sent, drop(node, sent, NO_ROUTE, ip_packet(frame)))


def test_keys_are_reason_and_addresses() -> None:
    """Only the drops that an entry names are reported; all are counted."""
    node = reporting(reason=(NO_ROUTE, 0xFF), dst_addr=(ip("192.0.2.0"), 0xFFFFFF00))
    assert len(node.send(roce(dst="192.0.2.1"), SPINE_IN).reports) == 1
    assert node.send(roce(dst="198.51.100.1"), SPINE_IN).reports == []
    assert node.send(roce(ttl=1), SPINE_IN).reports == []
    assert node.drops == {NO_ROUTE: 2, TTL_EXPIRED: 1}
    by_source = reporting(src_addr=(ip("10.0.1.1"), 0xFFFFFFFF))
    assert len(by_source.send(roce(dst="192.0.2.1"), SPINE_IN).reports) == 1
    assert by_source.send(roce(dst="192.0.2.1", src="10.0.1.9"), SPINE_IN).reports == []


def test_no_entry_no_report() -> None:
    """Drop reports are off until the controller asks for them."""
    node = transit_node()
    assert node.send(roce(ttl=1), SPINE_IN).emitted == []


def test_queue_of_the_dropped_packet_is_in_the_report() -> None:
    """The drop word has the queue that the packet's class would have used."""
    node = reporting()
    for sequence, (dscp, queue) in enumerate(((26, 1), (46, 2))):
        frame = roce(dst="192.0.2.1", dscp=dscp)
        sent = node.send(frame, SPINE_IN)
        expected = drop(node, sent, NO_ROUTE, ip_packet(frame), queue=queue, sequence=sequence)
        node.expect_reports(sent, expected)


def test_int_that_cannot_be_stripped_is_reported_with_its_port() -> None:
    """The route was chosen, so the egress port is known; F, since telemetry is in the packet."""
    source, node = source_node(), reporting(sink_node())
    source.watch()
    marked = source.send(roce(), 11).frame
    marked = replaced(marked, 46, b"\x30")  # INT version 3
    sent = node.send(marked, SINK_IN)
    assert sent.forwarded == []
    assert node.drops == {NOT_STRIPPABLE: 1}
    (report,) = sent.reports
    report.check_lengths()
    assert (report.bits, report.flag_letters) == (DROP_BITS, "DF")
    ports = (SINK_IN, SINK_PORT)
    metadata = expected_hop(node, sent, DROP_BITS, *ports, 0, drop=(1, NOT_STRIPPABLE))
    assert report.metadata == metadata
    received = ip_packet(marked)
    assert report.inner == received[: len(report.inner)]
    assert len(report.inner) >= 64


def test_packet_with_int_keeps_its_stack_in_the_report() -> None:
    """Dropped in transit, a traced packet is reported whole: D and F, the stack not cut."""
    source, node = source_node(), reporting(Node(101))
    source.watch()
    marked = source.send(roce(payload=bytes(300)), 11).frame
    sent = node.send(marked, SPINE_IN)
    expected = drop(node, sent, NO_ROUTE, ip_packet(marked), flags="DF", queue=1, int_bytes=48)
    node.expect_reports(sent, expected)


def test_f_says_that_telemetry_is_in_the_packet_not_that_it_was_watched() -> None:
    """A dropped packet without INT headers has F = 0, even of a flow that XD reports elsewhere."""
    node = reporting(Node(101))
    node.watch_xd()
    node.route_to_drop("10.0.2.0", 24)
    frame = roce(dscp=0)
    sent = node.send(frame, SPINE_IN)
    node.expect_reports(sent, drop(node, sent, ROUTE_ACTION, ip_packet(frame)))


def test_no_report_entry_keeps_drops_of_foreign_reports_silent() -> None:
    """An entry of higher priority exempts addresses: that of another collector, say."""
    node = reporting(Node(101))
    keys = {"dst_addr": (ip("10.255.0.0"), 0xFFFF0000)}
    node.add("drop_report", node.ternary("drop_report", keys), "NoAction", priority=9)
    assert node.send(roce(dst="10.255.0.7"), SPINE_IN).reports == []
    assert len(node.send(roce(), SPINE_IN).reports) == 1
    assert node.drops == {NO_ROUTE: 2}


def test_invalid_probe_is_reported() -> None:
    """A dropped probe is a dropped packet."""
    node = reporting()
    node.set_default("probe_config", "set_probe_config", 0x7C00)
    frame = probe(version=2, dscp=0)
    sent = node.send(frame, SPINE_IN)
    node.expect_reports(sent, drop(node, sent, PROBE_INVALID, ip_packet(frame)))


def test_punted_and_ended_packets_are_no_drops() -> None:
    """Intended ends are not reported: a punted packet, a packet with D set."""
    node = reporting(sink_node())
    node.add("punt", node.ternary("punt", {"protocol": (1, 0xFF)}), "punt_to_cpu", priority=1)
    source = source_node()
    source.watch()
    marked = source.send(roce(), 11).frame
    marked = replaced(marked, 46, bytes([marked[46] | 0x08]))
    sent = node.send(marked, SINK_IN)
    assert [(report.hw_id, report.flag_letters) for report in sent.reports] == [(0, "F"), (1, "F")]
    assert node.drops == {}


def test_drop_report_takes_a_number_of_the_ingress_sequence() -> None:
    """Stack reports and drop reports count together: hw id 0 is one sequence."""
    source, node = source_node(), reporting(sink_node())
    source.watch()
    marked = source.send(roce(), 11).frame
    assert node.send(marked, SINK_IN).reports[0].sequence == 0
    assert node.send(roce(ttl=1), SINK_IN).reports[0].sequence == 1
    assert node.send(marked, SINK_IN).reports[0].sequence == 2


def test_dropped_packet_of_an_edge_port_names_that_port() -> None:
    """Host ports are reported like fabric ports."""
    node = reporting(source_node())
    frame = roce(dst="192.0.2.1", dscp=0)
    sent = node.send(frame, 11)
    node.expect_reports(sent, drop(node, sent, NO_ROUTE, ip_packet(frame), ingress_port=11))


def test_filtered_drop_is_reported_once_per_interval() -> None:
    """With filter_drops one flow's drops make one report in each interval of the ingress clock."""
    node = reporting()
    node.set_default("report_filter", "set_report_filter", 0, 1, 4, 20)
    frame = roce(dst="192.0.2.1")
    start = 5 << 20
    counts = [len(node.send(frame, SPINE_IN, at=start + n * 1000).reports) for n in range(5)]
    assert counts == [1, 0, 0, 0, 0]
    assert node.event(FILTERED) == 4
    assert len(node.send(roce(dst="192.0.2.1", sport=7), SPINE_IN, at=start + 9000).reports) == 1
    assert len(node.send(frame, SPINE_IN, at=(6 << 20) + 5).reports) == 1
    assert node.drops == {NO_ROUTE: 7}


def test_mtu_is_not_a_reason_to_drop() -> None:
    """A packet that exceeds the MTU only because of INT is sent without it."""
    node = reporting(source_node())
    node.watch()
    node.add("int_egress_mtu", [exact_match(1)], "set_mtu", len(roce()) - 14)
    sent = node.send(roce(), 11)
    assert len(sent.frame) == len(roce())
    assert node.drops == {}


SUBMITTED = (1 << 6).to_bytes(2, "big")
"""Header of a packet-out with submit_to_ingress."""


@pytest.mark.parametrize("vlan", [None, 100], ids=["untagged", "tagged"])
@pytest.mark.parametrize("payload_bytes", [46, 47, 48, 49])
def test_dropped_packet_out_is_reported_as_it_was_submitted(
    payload_bytes: int, vlan: int | None
) -> None:
    """The frame alone, neither with the packet-out header nor with bytes that are not there."""
    node = reporting()
    node.set_report_config(truncate_bytes=200)
    frame = ethernet(0x88B5, bytes(range(payload_bytes)), vlan=vlan)
    sent = node.send(SUBMITTED + frame, CPU_PORT)
    expected = drop(
        node, sent, UNKNOWN_ETHER_TYPE, frame, inner_type=ETHERNET, ingress_port=CPU_PORT
    )
    node.expect_reports(sent, expected)


def test_dropped_ip_packet_out_is_reported_as_it_was_submitted() -> None:
    """An IP packet from the controller is reported from its IP header on, like any other."""
    node = reporting()
    frame = roce(dst="192.0.2.1")
    sent = node.send(SUBMITTED + frame, CPU_PORT)
    node.expect_reports(
        sent, drop(node, sent, NO_ROUTE, ip_packet(frame), queue=1, ingress_port=CPU_PORT)
    )


@pytest.mark.parametrize("missing", [1, 2])
def test_packet_out_whose_last_bytes_are_missing_is_dropped(missing: int) -> None:
    """The header of the packet-out does not stand in for bytes of the IP packet."""
    node = reporting()
    node.set_report_config(truncate_bytes=200)
    frame = roce()[:-missing]
    sent = node.send(SUBMITTED + frame, CPU_PORT)
    assert node.drops == {LENGTH_INVALID: 1}
    expected = drop(node, sent, LENGTH_INVALID, frame, inner_type=ETHERNET, ingress_port=CPU_PORT)
    node.expect_reports(sent, expected)
