# SPDX-License-Identifier: Apache-2.0
"""Telemetry reports: sequence numbers, sizes, destinations and routes."""

import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmv2_lab.switch.state import exact_match
from tests.p4.control import COLLECTOR_IP, COLLECTOR_PORT
from tests.p4.dissect import expect_frame
from tests.p4.frames import ptp, roce
from tests.p4.harness import (
    RECIRCULATION_PORT,
    REPORT_PORT,
    Node,
    Sent,
)
from tests.p4.nodes import (
    SINK_IN,
    SINK_PORT,
    marked_frame,
    sink_node,
    source_node,
    transit_node,
    walk,
)
from tests.p4.wire import flow_hash, ip

REPORT_UNSENT = 8
NO_ROUTE = 29


@functools.cache
def traced_path() -> tuple[Node, Node]:
    """A source that traces everything, and a sink; they outlive one example."""
    source = source_node()
    source.watch()
    return source, sink_node()


def leaf() -> Node:
    """A leaf: hosts on ports 11 and 12, the fabric on port 1."""
    node = Node(2, host_ports=(11, 12))
    node.route("10.0.1.0", 24, 1)
    node.route("10.0.2.1", 32, 12)
    node.watch()
    node.watch_ptp()
    return node


# ---- sequence


def test_sequence_numbers_count_per_hw_id_without_gaps() -> None:
    """Each hw id counts its own reports from 0, whatever order the packets come in."""
    node = leaf()
    marked = marked_frame()
    seen: dict[int, list[int]] = {0: [], 1: []}
    for number in range(30):
        frame = ptp(dst="10.0.2.1") if number % 3 == 0 else marked
        for report in node.send(frame, 1).reports:
            seen[report.hw_id].append(report.sequence)
    assert seen == {0: list(range(20)), 1: list(range(30))}


def test_lost_report_shows_as_a_gap() -> None:
    """The number is taken by the original packet, so a clone that the queue drops is missed."""
    node = leaf()
    marked = marked_frame()
    node.send(marked, 1)
    node.send(marked, 1, drop_clones=True)
    last = node.send(marked, 1).reports
    assert [report.sequence for report in last] == [2, 2]


def test_sequence_wraps_at_22_bits() -> None:
    """After 2^22 - 1 comes 0, and the hw id next to it is not touched."""
    node = leaf()
    node.preset_sequences((1 << 22) - 1)
    marked = marked_frame()
    first, second = node.send(marked, 1).reports, node.send(marked, 1).reports
    assert [(r.hw_id, r.sequence) for r in first] == [(0, 0x3FFFFF), (1, 0x3FFFFF)]
    assert [(r.hw_id, r.sequence) for r in second] == [(0, 0), (1, 0)]


# ---- destinations and routes


def test_report_envelope_is_addressed_as_configured() -> None:
    """MACs are those of the route, addresses and ports those of the tables; no UDP checksum."""
    node = leaf()
    node.set_report_config(dscp=46)
    report = node.send(marked_frame(), 1).reports[0]
    frame = report.frame
    assert frame[:12].hex() == f"0200000000{REPORT_PORT:02x}02ee00000002"
    assert frame[26:30] == ip("10.254.0.2").to_bytes(4, "big")
    assert report.dst_ip == ip(COLLECTOR_IP).to_bytes(4, "big")
    assert report.dst_port == COLLECTOR_PORT
    assert frame[40:42] == b"\0\0"
    assert frame[20:22] == b"\x40\x00", "don't fragment"
    assert frame[15] >> 2 == 46


def test_report_waits_in_the_queue_of_its_dscp() -> None:
    """A report is an ordinary packet: qos_class decides."""
    for dscp, queue in ((0, 0), (46, 2)):
        node = leaf()
        node.set_report_config(dscp=dscp)
        sent = node.send(marked_frame(), 1)
        assert sent.queues.count((REPORT_PORT, queue)) == 2
        assert [port for port, _ in sent.queues].count(RECIRCULATION_PORT) == 2


def test_source_port_carries_the_entropy_of_the_flow() -> None:
    """One flow, one source port, on every switch and in both gresses; many flows, many ports."""
    nodes = [leaf(), sink_node(7)]
    ports: list[int] = []
    for number in range(200):
        marked = marked_frame(sport=0x8000 + number, payload=8)
        sent = [node.send(marked, 1).reports for node in nodes]
        of_flow = {report.src_port for reports in sent for report in reports}
        assert len(of_flow) == 1
        ports += of_flow
    assert all(port >= 0xC000 for port in ports)
    assert len(set(ports)) > 190


def test_sink_and_transit_agree_on_the_entropy() -> None:
    """The hash is over the flow's own 5-tuple, so INT and its mark do not change it."""
    path = [source_node(), transit_node(), sink_node()]
    path[0].watch_mx()
    for sport in range(16):
        sent = walk(path, roce(sport=sport))
        assert len({report.src_port for step in sent for report in step.reports}) == 1


def test_flow_goes_to_the_collector_of_its_bucket() -> None:
    """The bucket is the low six bits of the flow hash; the source port has fourteen others."""
    node = leaf()
    for bucket in range(64):
        node.destination(bucket, bucket % 3, f"10.255.0.{bucket % 3 + 1}", 32764 + bucket % 3)
    for number in (2, 3):
        node.route(f"10.255.0.{number}", 32, REPORT_PORT)
    numbers = set()
    for sport in range(100):
        for report in node.send(marked_frame(sport=sport, payload=8), 1).reports:
            hashed = flow_hash(roce(sport=sport))
            number = (hashed & 63) % 3
            assert report.src_port == 0xC000 | hashed >> 6 & 0x3FFF
            assert report.dst_ip == ip(f"10.255.0.{number + 1}").to_bytes(4, "big")
            assert report.dst_port == 32764 + number
            numbers.add(number)
    assert numbers == {0, 1, 2}


def test_sequence_is_per_destination_without_gaps() -> None:
    """Each collector sees 0, 1, 2 ... of each hw id, whatever the others get."""
    node = leaf()
    for bucket in range(64):
        node.destination(bucket, 5 if bucket % 2 else 63, f"10.255.0.{bucket % 2 + 1}", 32764)
    node.route("10.255.0.2", 32, REPORT_PORT)
    seen: dict[tuple[bytes, int], list[int]] = {}
    for sport in range(60):
        for report in node.send(marked_frame(sport=sport, payload=8), 1).reports:
            seen.setdefault((report.dst_ip, report.hw_id), []).append(report.sequence)
    assert len(seen) == 4
    assert all(numbers == list(range(len(numbers))) for numbers in seen.values())


def test_default_destination_takes_the_buckets_without_entry() -> None:
    """One collector needs no entries at all; an entry for one bucket moves that bucket alone."""
    node = leaf()
    node.route("10.255.0.9", 32, REPORT_PORT)
    node.destination(17, 1, "10.255.0.9", 32760)
    for sport in range(150):
        report = node.send(marked_frame(sport=sport, payload=8), 1).reports[0]
        bucket = flow_hash(roce(sport=sport)) & 63
        wanted = "10.255.0.9" if bucket == 17 else COLLECTOR_IP
        assert report.dst_ip == ip(wanted).to_bytes(4, "big")


def test_reports_are_spread_over_the_routes_to_the_collector() -> None:
    """In-band collection uses ECMP like any flow, and all reports of a flow one path."""
    node = Node(9, host_ports=(12,))
    node.route("10.0.2.0", 24, 12)
    node.route("10.254.9.0", 24, 1, 2, 3, 4)
    node.destination_default("10.254.9.9")
    ports: dict[int, set[int]] = {}
    for sport in range(100):
        sent = node.send(marked_frame(sport=sport, payload=8), 1)
        for report in sent.reports:
            report.check_lengths()
            ports.setdefault(report.src_port, set()).add(report.port)
    assert all(len(used) == 1 for used in ports.values())
    assert {port for used in ports.values() for port in used} == {1, 2, 3, 4}


def test_report_leaves_with_the_tag_of_its_route() -> None:
    """A collector behind a VLAN is reached through it."""
    node = Node(9, host_ports=(12,))
    node.route("10.0.2.0", 24, 12)
    node.route("10.254.9.0", 24, 20, vlan=77)
    node.destination_default("10.254.9.9")
    for report in node.send(marked_frame(), 1).reports:
        report.check_lengths()
        assert report.port == 20
        assert report.frame[12:16] == b"\x81\x00\x00\x4d"
        assert report.frame[16:18] == b"\x08\x00"


def test_report_about_a_tagged_packet_is_not_tagged_itself() -> None:
    """The tag of the reported packet says nothing about the way to the collector."""
    node = transit_node()
    node.watch_xd()
    for v6 in (False, True):
        (report,) = node.send(roce(vlan=5, v6=v6), 1).reports
        report.check_lengths()
        assert report.frame[12:14] == b"\x08\x00"


def test_report_without_a_route_is_dropped_and_counted() -> None:
    """No route to the collector: the packet itself is forwarded, the reports are counted drops."""
    node = Node(9, host_ports=(12,))
    node.route("10.0.2.0", 24, 12)
    node.destination_default("192.0.2.1")
    node.add("drop_report", node.ternary("drop_report", {}), "report_drop", priority=1)
    sent = node.send(marked_frame(), 1)
    assert [port for port, _ in sent.emitted] == [12]
    assert node.drops == {NO_ROUTE: 2}


def test_clones_are_dropped_until_the_collector_is_known() -> None:
    """Without report_config no half-made report leaves, and the packet itself is restored."""
    node = leaf()
    node.set_default("report_config", "NoAction")
    sent = node.send(marked_frame(), 1)
    assert [port for port, _ in sent.emitted] == [12]
    assert node.egress_event(REPORT_UNSENT) == 2


def test_no_report_without_a_destination() -> None:
    """A switch that knows no collector for a flow makes no reports about it."""
    node = leaf()
    node.set_default("report_destination", "NoAction")
    assert [port for port, _ in node.send(marked_frame(), 1).emitted] == [12]
    node.destination(0, 0, COLLECTOR_IP, COLLECTOR_PORT)
    count = sum(len(node.send(marked_frame(sport=n, payload=8), 1).reports) for n in range(200))
    assert 0 < count < 40


# ---- size


@settings(max_examples=60, deadline=None)
@given(
    truncate_bytes=st.integers(0, 1500),
    payload=st.integers(0, 600),
    ethernet_padding=st.integers(0, 46),
    v6=st.booleans(),
)
def test_lengths_fit_the_truncated_packet(
    truncate_bytes: int, payload: int, ethernet_padding: int, v6: bool
) -> None:
    """All three lengths describe the frame as cut; INT is never cut, and padding never reported."""
    source, node = traced_path()
    frame = roce(payload=bytes(payload), v6=v6)
    marked = source.send(frame + bytes(ethernet_padding), 11).frame
    node.set_report_config(truncate_bytes)
    sent = node.send(marked, 1)
    expect_frame(sent.frame[54:], frame[54:] + bytes(ethernet_padding))
    whole = (len(frame) - 14) & ~3
    assert len(sent.reports) == 2
    for report, int_bytes in zip(sent.reports, (48, 0), strict=True):
        report.check_lengths()
        limit = max(truncate_bytes, 84 if v6 else 64) + int_bytes & ~3
        assert len(report.inner) == min(limit, whole + int_bytes)


@pytest.mark.parametrize("size", [64, 68, 128, 1020, 1024, 1028, 1500, 9000])
def test_report_length_is_clamped_at_255_words(size: int) -> None:
    """255 means "to the end of the datagram"; UDP and IP length still tell the truth."""
    node = transit_node()
    node.watch_xd()
    node.set_report_config(truncate_bytes=size)
    sent = node.send(roce(payload=bytes(8000)), 1)
    (report,) = sent.reports
    report.check_lengths()
    assert len(report.inner) == min(size, len(sent.frame) - 14) & ~3


def test_truncation_keeps_what_identifies_the_packet() -> None:
    """However small the limit, addresses, ports and the whole BTH or PTP header stay."""
    node = transit_node()
    node.set_report_config(truncate_bytes=0)
    node.watch_xd()
    node.watch_ptp()
    for v6 in (False, True):
        (report,) = node.send(roce(v6=v6, payload=bytes(900)), 1).reports
        assert len(report.inner) == (84 if v6 else 64)
        (report,) = node.send(ptp(over="ipv6" if v6 else "ipv4", length=200), 1).reports
        assert len(report.inner) == (84 if v6 else 64)


def test_sink_port_without_reports_still_reports_ptp() -> None:
    """set_int_strip silences the sink, not the postcards of PTP."""
    node = Node(2)
    node.add("int_sink_ports", [exact_match(SINK_PORT)], "set_int_strip")
    node.route("10.0.2.1", 32, SINK_PORT)
    node.watch_ptp()
    assert node.send(marked_frame(), SINK_IN).reports == []
    assert len(node.send(ptp(), SINK_IN).reports) == 1


def test_no_clone_session_means_no_report_but_a_forwarded_packet() -> None:
    """A controller that has not come so far does no harm."""
    node = leaf()
    node.state.clone_sessions.clear()
    sent: Sent = node.send(marked_frame(), 1)
    assert [port for port, _ in sent.emitted] == [12]
