# SPDX-License-Identifier: Apache-2.0
"""INT-MX v2.1: sixteen fixed bytes in the packet, a report of its own from every node."""

import pytest

from bmv2_lab.switch.state import exact_match
from tests.p4.dissect import expect_frame
from tests.p4.frames import roce
from tests.p4.harness import Node, Sent
from tests.p4.int_headers import expected_hop, int_mx
from tests.p4.nodes import (
    HOST_PORT,
    LEAF_UPLINK,
    SINK_IN,
    SINK_PORT,
    SPINE_IN,
    SPINE_OUT,
    local_node,
    sink_node,
    source_node,
    transit_node,
    walk,
)
from tests.p4.reports import ExpectedReport
from tests.p4.rewrite import inserted, ip_packet, removed, routed, with_class
from tests.p4.wire import Offsets, replaced, udp_checksum_is_right

MX_BYTES = 16
NOT_STRIPPABLE = 130
UNSUPPORTED, NOT_STARTED = 6, 9
NO_ROOM = 3

FAMILY = pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])


def hop_report(
    node: Node,
    sent: Sent,
    ports: tuple[int, int],
    bits: int = 0x7C00,
    *,
    int_bytes: int = 0,
    sequence: int = 0,
) -> ExpectedReport:
    """What every node says about an MX packet, with the packet as it leaves."""
    return ExpectedReport(
        bits=bits,
        metadata=expected_hop(node, sent, bits, *ports, 1),
        inner=ip_packet(sent.frame),
        int_bytes=int_bytes,
        sequence=sequence,
    )


@FAMILY
@pytest.mark.parametrize("udp_checksum", [False, True], ids=["no sum", "UDP sum"])
def test_every_node_reports_and_the_packet_is_restored(v6: bool, udp_checksum: bool) -> None:
    """Source, transit and sink each send one postcard; only the source and the sink change it."""
    path = [source_node(), transit_node(), sink_node()]
    path[0].watch_mx()
    frame = roce(v6=v6, udp_checksum=udp_checksum, payload=bytes(range(100)))
    first, second, last = walk(path, frame)
    marked = inserted(routed(frame, LEAF_UPLINK), int_mx(), dscp=27)
    expect_frame(first.frame, marked)
    assert udp_checksum_is_right(first.frame)
    expect_frame(second.frame, routed(marked, SPINE_OUT))
    expect_frame(last.frame, routed(removed(second.frame, MX_BYTES, dscp=26), SINK_PORT))
    assert last.frame[34:] == frame[34:] or v6
    path[0].expect_reports(
        first, hop_report(path[0], first, (HOST_PORT, LEAF_UPLINK), int_bytes=MX_BYTES)
    )
    path[1].expect_reports(
        second, hop_report(path[1], second, (SPINE_IN, SPINE_OUT), int_bytes=MX_BYTES)
    )
    path[2].expect_reports(last, hop_report(path[2], last, (SINK_IN, SINK_PORT)))


@pytest.mark.parametrize("interfaces", [False, True], ids=["no interfaces", "interfaces"])
@pytest.mark.parametrize("bitmap", [0xFC00, 0x4000, 0xFFFF, 0x8C00, 0x0E00, 0x3000])
def test_report_bits_are_the_bitmap_without_what_is_not_there(
    bitmap: int, interfaces: bool
) -> None:
    """Node id, reserved and unavailable bits are cleared in the report; no all-ones padding."""
    path = [source_node(), transit_node()]
    path[0].watch_mx(bitmap=bitmap)
    if interfaces:
        path[1].set_interface(SPINE_IN, 7)
        path[1].set_interface(SPINE_OUT, 8)
    first, second = walk(path, roce())
    expect_frame(first.frame, inserted(routed(roce(), LEAF_UPLINK), int_mx(bitmap=bitmap), dscp=27))
    bits = bitmap & (0x7E00 if interfaces else 0x7C00)
    expected = hop_report(path[1], second, (SPINE_IN, SPINE_OUT), bits, int_bytes=MX_BYTES)
    path[1].expect_reports(second, expected)


@pytest.mark.parametrize("bitmap", [0x8000, 0x0000, 0x807E])
def test_bitmap_without_a_reportable_bit_makes_no_report(bitmap: int) -> None:
    """The packet still carries the header, and nobody has anything to say."""
    path = [source_node(), transit_node(), sink_node()]
    path[0].watch_mx(bitmap=bitmap)
    frame = roce()
    sent = walk(path, frame)
    assert [step.reports for step in sent] == [[], [], []]
    assert sent[-1].frame[34:] == frame[34:]


@FAMILY
def test_source_and_sink_in_one_switch_report_by_postcard_alone(v6: bool) -> None:
    """Between two hosts of one switch no header is inserted; one postcard reports the hop."""
    node = local_node()
    node.watch_mx()
    frame = roce(v6=v6)
    sent = node.send(frame, HOST_PORT)
    expect_frame(sent.frame, routed(frame, SINK_PORT))
    node.expect_reports(sent, hop_report(node, sent, (HOST_PORT, SINK_PORT)))


@pytest.mark.parametrize("bitmap", [0x4000, 0x8000, 0x0000, 0xFFFF])
def test_local_postcard_has_the_bits_of_the_entry(bitmap: int) -> None:
    """Where no header is needed the report still says what the entry asked for, and no more."""
    node = local_node()
    node.watch_mx(bitmap=bitmap)
    sent = node.send(roce(), HOST_PORT)
    bits = bitmap & 0x7C00
    expected = [hop_report(node, sent, (HOST_PORT, SINK_PORT), bits)] if bits else []
    node.expect_reports(sent, *expected)


def test_source_without_room_for_the_header_does_not_start() -> None:
    """Nothing is inserted rather than too much; the packet keeps its DSCP and is counted."""
    frame = roce()
    for missing in (0, 1):
        node = source_node()
        node.watch_mx()
        mtu = len(frame) - 14 + MX_BYTES - missing
        node.add("int_egress_mtu", [exact_match(LEAF_UPLINK)], "set_mtu", mtu)
        sent = node.send(frame, HOST_PORT)
        plain = routed(frame, LEAF_UPLINK)
        expect_frame(sent.frame, plain if missing else inserted(plain, int_mx(), dscp=27))
        assert node.egress_event(NO_ROOM) == missing
        assert len(sent.reports) == 1 - missing


def test_fabric_port_does_not_start_mx() -> None:
    """Only packets from listed edge ports get a header."""
    node = source_node()
    node.watch_mx()
    sent = node.send(roce(), 5)
    expect_frame(sent.frame, routed(roce(), LEAF_UPLINK))
    assert sent.reports == []


def test_silent_sink_strips_without_a_report() -> None:
    """set_int_strip restores the packet and says nothing."""
    first = source_node()
    first.watch_mx()
    frame = roce()
    last = Node(2)
    last.add("int_sink_ports", [exact_match(SINK_PORT)], "set_int_strip")
    last.route("10.0.2.1", 32, SINK_PORT)
    sent = last.send(first.send(frame, HOST_PORT).frame, SINK_IN)
    assert sent.frame[34:] == frame[34:]
    assert sent.frame[15] == frame[15]
    assert sent.reports == []


@FAMILY
def test_sink_strips_domain_specific_metadata_as_well(v6: bool) -> None:
    """What the source added after the header is counted in the shim and goes with it."""
    frame = roce(v6=v6, udp_checksum=True)
    metadata = bytes.fromhex("0123456789abcdef55aa55aa")
    marked = inserted(routed(frame, LEAF_UPLINK), int_mx(metadata=metadata), dscp=27)
    transit, last = transit_node(), sink_node()
    second = transit.send(marked, SPINE_IN)
    expect_frame(second.frame, routed(marked, SPINE_OUT))
    sent = last.send(second.frame, SINK_IN)
    expect_frame(sent.frame, routed(removed(second.frame, MX_BYTES + 12, dscp=26), SINK_PORT))
    assert udp_checksum_is_right(sent.frame)
    last.expect_reports(sent, hop_report(last, sent, (SINK_IN, SINK_PORT)))


def test_discard_bit_drops_after_the_report() -> None:
    """A packet with D set is reported by the sink and never reaches the host."""
    marked = inserted(routed(roce(), LEAF_UPLINK), int_mx(discard=1), dscp=27)
    last = sink_node()
    sent = last.send(marked, SINK_IN)
    assert sent.forwarded == []
    (report,) = sent.reports
    report.check_lengths()
    assert (report.hw_id, report.bits) == (1, 0x7C00)
    assert report.metadata == expected_hop(last, sent, 0x7C00, SINK_IN, SINK_PORT, 1)


@pytest.mark.parametrize("version", [0, 1, 3, 15])
def test_other_version_passes_transit_and_stops_at_the_sink(version: int) -> None:
    """Nobody reads what he does not understand, and a NIC never gets it."""
    marked = inserted(routed(roce(), LEAF_UPLINK), int_mx(), dscp=27)
    place = Offsets.of(marked).payload + 4
    marked = replaced(marked, place, bytes([version << 4]))
    transit, last = transit_node(), sink_node()
    sent = transit.send(marked, SPINE_IN)
    expect_frame(sent.frame, routed(marked, SPINE_OUT))
    assert sent.reports == []
    assert transit.event(UNSUPPORTED) == 1
    sent = last.send(marked, SINK_IN)
    assert sent.emitted == []
    assert last.drops == {NOT_STRIPPABLE: 1}


def test_forged_header_from_a_host_stays_payload() -> None:
    """An edge port's shim is the host's own bytes, and no node reports because of it."""
    forged = inserted(roce(), int_mx(), dscp=27)
    node = source_node()
    node.watch_mx()
    sent = node.send(forged, HOST_PORT)
    expect_frame(sent.frame, with_class(routed(forged, LEAF_UPLINK), dscp=26))
    assert sent.reports == []
    assert node.event(NOT_STARTED) == 1


def test_sampling_is_the_sources_alone() -> None:
    """Transit and sink report what is marked, so all hops report the same packets."""
    path = [source_node(), transit_node(), sink_node()]
    path[0].watch_mx(roce_psn=(2, 0x3))
    reported = {psn: [len(s.reports) for s in walk(path, roce(psn=psn))] for psn in range(8)}
    assert {psn for psn, counts in reported.items() if counts == [1, 1, 1]} == {2, 6}
    assert all(counts in ([1, 1, 1], [0, 0, 0]) for counts in reported.values())
