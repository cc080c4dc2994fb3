# SPDX-License-Identifier: Apache-2.0
"""Link probes: out of one switch, turned round by its neighbour, back and gone."""

import pytest

from tests.p4.dissect import expect_frame
from tests.p4.frames import probe, udp_frame
from tests.p4.harness import CPU_PORT, Node, Sent
from tests.p4.int_headers import expected_hop
from tests.p4.nodes import local_node
from tests.p4.reports import ExpectedReport
from tests.p4.rewrite import ip_packet, routed
from tests.p4.wire import refresh_ip, replaced

BOUNCED, ENDED = 11, 12
PROBE_INVALID = 133
U_PORT, V_PORT = 3, 5
"""The link: port 3 of u leads to port 5 of v."""


def switch(node_id: int, bits: int = 0x7C00) -> Node:
    """One end of a link that takes part in probing."""
    node = Node(node_id, host_ports=(11,))
    node.route("10.254.0.0", 16, 9)
    node.set_default("probe_config", "set_probe_config", bits)
    return node


def turned(frame: bytes) -> bytes:
    """What the neighbour makes of a probe: MACs and addresses swapped, `returning` set."""
    out = frame[6:12] + frame[0:6] + frame[12:26] + frame[30:34] + frame[26:30] + frame[34:]
    return replaced(out, 42, bytes([out[42] | 0x08]))


def round_trip(u: Node, v: Node, frame: bytes) -> tuple[Sent, Sent, Sent]:
    """Out of u, round at v, back at u."""
    out = u.packet_out(frame, U_PORT)
    assert out.port == U_PORT
    back = v.send(out.frame, V_PORT)
    assert back.port == V_PORT
    return out, back, u.send(back.frame, U_PORT)


def test_probe_goes_round_and_ends() -> None:
    """u sends it as it is, v swaps the ends and sets returning, u drops it."""
    u, v = switch(1), switch(101)
    frame = probe(egress_port=U_PORT)
    out, back, end = round_trip(u, v, frame)
    expect_frame(out.frame, frame)
    expect_frame(back.frame, turned(frame))
    assert len(back.frame) == len(out.frame)
    assert end.forwarded == []
    assert v.event(BOUNCED) == 1
    assert u.event(ENDED) == 1
    assert u.drops == {}
    assert v.drops == {}


def test_every_pass_is_reported() -> None:
    """Sender, neighbour and end each make one report with the probe in it."""
    u, v = switch(1), switch(101)
    frame = probe(egress_port=U_PORT)
    out, back, end = round_trip(u, v, frame)
    bits = 0x7C00 & ~0x2800  # a packet-out has no ingress stamp and no latency
    (report,) = out.reports
    report.check_lengths()
    assert (report.hw_id, report.bits, report.flag_letters) == (1, bits, "F")
    metadata = expected_hop(u, out, bits, 0, U_PORT, 2)
    assert report.metadata[2:] == metadata[2:]
    assert int.from_bytes(report.metadata[:2], "big") in (CPU_PORT, 0xFFFF)
    assert report.inner == ip_packet(out.frame)[: len(report.inner)]
    metadata = expected_hop(v, back, 0x7C00, V_PORT, V_PORT, 2)
    v.expect_reports(
        back, ExpectedReport(bits=0x7C00, metadata=metadata, inner=ip_packet(back.frame))
    )
    (report,) = end.reports
    report.check_lengths()
    assert (report.hw_id, report.bits, report.flag_letters) == (0, 0x4800, "F")
    assert report.metadata[:2] == U_PORT.to_bytes(2, "big")
    assert report.metadata[4:] == end.ingress_tstamp.to_bytes(8, "big")
    assert report.inner == ip_packet(back.frame)[: len(report.inner)]


def test_both_directions_have_the_same_length_and_queue() -> None:
    """Equal length and queue, or the two directions could not be compared."""
    u, v = switch(1), switch(101)
    out, back, _ = round_trip(u, v, probe(egress_port=U_PORT, dscp=46, length=200))
    assert len(out.frame) == len(back.frame)
    assert out.queues[0][1] == back.queues[0][1] == 2


@pytest.mark.parametrize("bits", [0x7C00, 0x0C00, 0x4C00, 0xFFFF, 0x0400])
def test_configuration_chooses_the_metadata(bits: int) -> None:
    """The postcards have the configured bits, as far as there is something to say."""
    u, v = switch(1, bits), switch(101, bits)
    out, back, _ = round_trip(u, v, probe(egress_port=U_PORT))
    there = bits & 0x7C00
    assert [report.bits for report in out.reports] == [there & ~0x2800]
    assert [report.bits for report in back.reports] == [there]


def test_ttl_of_a_probe_is_not_used_up() -> None:
    """A probe crosses one link twice; routing and its TTL have no part in it."""
    u, v = switch(1), switch(101)
    _, back, _ = round_trip(u, v, probe(egress_port=U_PORT, ttl=255))
    assert back.frame[22] == 255


def test_probe_from_a_host_is_an_ordinary_datagram() -> None:
    """A host cannot make the fabric answer: on edge ports the UDP port means nothing."""
    for node in (switch(1), local_node()):
        node.route("10.0.2.0", 24, 7)
        for returning in (0, 1):
            frame = probe(dst="10.0.2.9", returning=returning, dscp=0)
            sent = node.send(frame, 11)
            expect_frame(sent.frame, routed(frame, 7))
            assert sent.reports == []
        assert node.event(BOUNCED) == node.event(ENDED) == 0


def test_switch_without_probe_configuration_routes_it() -> None:
    """Without probe_config nothing is turned round."""
    node = Node(101)
    node.route("10.254.0.0", 16, 9)
    frame = probe()
    sent = node.send(frame, V_PORT)
    expect_frame(sent.frame, routed(frame, 9))
    assert sent.reports == []


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (probe(version=0), "version 0"),
        (probe(version=2), "version 2"),
        (probe(version=15, returning=1), "version 15"),
        (replaced(probe(), 40, b"\x12\x34"), "a checksum that swapped addresses would need"),
    ],
    ids=["version 0", "version 2", "version 15", "UDP checksum"],
)
def test_invalid_probe_is_dropped_and_counted(frame: bytes, why: str) -> None:
    """What is not a fresh probe of our version from the neighbour is not turned round."""
    node = switch(101)
    sent = node.send(frame, V_PORT)
    assert sent.emitted == [], why
    assert node.drops == {PROBE_INVALID: 1}


@pytest.mark.parametrize(("ttl", "returning"), [(254, 0), (64, 1), (64, 0)])
def test_datagram_that_was_routed_is_no_probe(ttl: int, returning: int) -> None:
    """A host's datagram to this port crosses the fabric: only a neighbour can send TTL 255."""
    node = switch(101)
    frame = probe(ttl=ttl, returning=returning)
    sent = node.send(frame, V_PORT)
    expect_frame(sent.frame, routed(frame, 9))
    assert node.drops == {}


def test_returning_probe_ends_wherever_it_arrives() -> None:
    """Turned round once, never twice; the report says who sent it, for the collector to compare."""
    node = switch(1)
    sent = node.send(probe(returning=1, node_id=2, egress_port=7), U_PORT)
    assert sent.forwarded == []
    (report,) = sent.reports
    assert report.inner[32:36] == (2).to_bytes(4, "big")


@pytest.mark.parametrize("size", range(12))
def test_probe_cut_short_is_not_turned_round(size: int) -> None:
    """A datagram to the port that is too short for a probe is dropped, or routed as it is."""
    node = switch(101)
    frame = udp_frame(probe()[42 : 42 + size], sport=32767, dport=32767, dst="10.254.0.9", dscp=46)
    sent = node.send(frame, V_PORT)
    if sent.emitted:
        expect_frame(sent.frame, routed(frame, 9))
    else:
        assert sum(node.drops.values()) == 1
    assert node.event(BOUNCED) == 0


def test_damaged_probe_is_dropped_as_any_packet() -> None:
    """The IP header checksum protects the addresses of a probe too."""
    node = switch(101)
    assert node.send(replaced(probe(), 30, b"\x55"), V_PORT).emitted == []
    assert node.drops == {31: 1}
    good = refresh_ip(replaced(probe(), 30, b"\x55"))
    assert node.send(good, V_PORT).port == V_PORT


def test_probes_are_not_traced_by_watchlists() -> None:
    """A probe has its own reports, once each, whatever the watchlists say."""
    u, v = switch(1), switch(101)
    for node in (u, v):
        node.watch(priority=3)
        node.watch_xd(priority=2)
    out, back, end = round_trip(u, v, probe(egress_port=U_PORT))
    assert [len(sent.reports) for sent in (out, back, end)] == [1, 1, 1]


def test_link_delay_needs_the_four_stamps_only() -> None:
    """Round trip less turnaround: egress u, ingress v, egress v, ingress u are all reported."""
    u, v = switch(1, 0x0C00), switch(101, 0x0C00)
    out, back, end = round_trip(u, v, probe(egress_port=U_PORT))
    assert int.from_bytes(out.reports[0].metadata, "big") == out.egress_tstamp
    v_stamps = back.reports[0].metadata
    assert int.from_bytes(v_stamps[:8], "big") == back.ingress_tstamp
    assert int.from_bytes(v_stamps[8:], "big") == back.egress_tstamp
    assert int.from_bytes(end.reports[0].metadata[4:], "big") == end.ingress_tstamp


def test_all_reports_of_a_probe_go_to_one_collector() -> None:
    """Sender and neighbour choose the same destination and source port, though addresses swap."""
    u, v = switch(1), switch(101)
    for node in (u, v):
        for bucket in range(64):
            node.destination(bucket, bucket % 4, f"10.255.0.{bucket % 4 + 1}", 32764)
        node.route("10.255.0.0", 16, 60)
    seen = set()
    for port in range(1, 9):
        out = u.packet_out(probe(egress_port=port), port)
        back = v.send(out.frame, V_PORT)
        end = u.send(back.frame, port)
        reports = [report for sent in (out, back, end) for report in sent.reports]
        assert len(reports) == 3
        assert len({(report.dst_ip, report.src_port) for report in reports}) == 1
        seen.add(reports[0].src_port)
    assert len(seen) > 4
