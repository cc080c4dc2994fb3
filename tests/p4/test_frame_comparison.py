# SPDX-License-Identifier: Apache-2.0
"""The comparison that the table tests use: it names the header and field that differ."""

import pytest

from tests.p4.dissect import difference, dissect, expect_frame
from tests.p4.frames import probe, ptp, roce
from tests.p4.int_headers import int_md, int_mx
from tests.p4.nodes import SPINE_IN, sink_node, source_node, transit_node
from tests.p4.rewrite import inserted, removed, with_class
from tests.p4.wire import icrc, icrc_is_right, replaced, udp_checksum_is_right

HOP = bytes(range(32))


@pytest.mark.parametrize(
    ("frame", "offset", "name"),
    [
        (roce(), 0, "ethernet.dst_addr"),
        (roce(), 11, "ethernet.src_addr"),
        (roce(vlan=5), 15, "vlan.vlan_id"),
        (roce(), 15, "ipv4.dscp"),
        (roce(), 22, "ipv4.ttl"),
        (roce(options=bytes(4)), 35, "ipv4_options byte 1"),
        (roce(v6=True), 21, "ipv6.hop_limit"),
        (roce(), 40, "udp.checksum"),
        (roce(), 53, "bth.psn"),
        (roce(), 56, "payload byte 2"),
        (ptp(), 50, "ptp.correction_field"),
        (ptp(over="ethernet"), 14, "ptp.message_type"),
        (probe(), 46, "probe.node_id"),
        (inserted(roce(), int_md(HOP), dscp=27), 42, "int_shim.npt"),
        (inserted(roce(), int_md(HOP), dscp=27), 49, "int_md.remaining_hop_count"),
        (inserted(roce(), int_md(HOP), dscp=27), 60, "int_stack[0].node_id.node_id"),
        (inserted(roce(), int_md(HOP + HOP), dscp=27), 121, "int_stack[1].egress_tstamp"),
        (inserted(roce(), int_mx(), dscp=27), 50, "int_mx.instruction_bitmap"),
    ],
)
def test_first_difference_is_named(frame: bytes, offset: int, name: str) -> None:
    """One changed byte: its header and field are in the message, with both values."""
    changed = replaced(frame, offset, bytes([frame[offset] ^ 0x04]))
    assert difference(frame, frame) is None
    message = difference(changed, frame)
    assert message is not None
    assert message.startswith(name)
    with pytest.raises(AssertionError, match=name.replace("[", r"\[").split(" ")[0]):
        expect_frame(changed, frame)


def test_missing_and_additional_bytes_are_named() -> None:
    """Frames of different length differ in the first header that only one of them has."""
    frame = roce()
    assert difference(frame[:-1], frame) == "payload: 11 bytes, expected 12"
    assert difference(frame[:42], frame) == "bth: missing"
    assert difference(frame, frame[:42]) == "bth: not expected"


def test_report_headers_are_named_down_to_the_inner_packet() -> None:
    """Report, metadata and inner headers have names of their own."""
    source, spine = source_node(), transit_node()
    spine.watch_xd()
    (report,) = spine.send(source.send(roce(), 11).frame, SPINE_IN).reports
    names = [header.name for header in dissect(report.frame)]
    assert names == [
        "ethernet", "ipv4", "udp", "report_group", "report_individual", "report_main",
        "report_level1_ports", "report_hop_latency", "report_queue", "report_ingress_tstamp",
        "report_egress_tstamp", "inner.ipv4", "inner.udp", "inner.bth", "inner.payload",
    ]  # fmt: skip


@pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
def test_insertion_and_removal_are_inverse(v6: bool) -> None:
    """The tests' own INT arithmetic keeps checksums right and is undone exactly."""
    frame = roce(v6=v6, udp_checksum=True)
    grown = inserted(frame, int_md(HOP), dscp=27)
    assert udp_checksum_is_right(grown)
    assert removed(grown, 48, dscp=26) == frame
    assert with_class(with_class(frame, dscp=5, ecn=1), dscp=26, ecn=2) == frame


def test_icrc_covers_what_routers_leave_alone() -> None:
    """RoCEv2 annex A17: masked fields may change, any other bit breaks it."""
    frame = roce(opcode=0x11, extended=b"\x00\x00\x00\x01", payload=b"")
    assert icrc_is_right(frame)
    for offset in (15, 22, 24, 46):  # TOS, TTL, IP checksum, FECN and BECN are not covered
        changed = replaced(frame, offset, bytes([frame[offset] ^ 0xFF]))
        assert icrc(changed) == icrc(frame)
    for offset in (18, 30, 34, 42, 47, 53):
        assert icrc(replaced(frame, offset, bytes([frame[offset] ^ 1]))) != icrc(frame)


def test_nodes_are_independent() -> None:
    """Two switches share the program, and nothing else."""
    one, other = sink_node(1), sink_node(1)
    one.send(roce(ttl=1), 1)
    assert one.drops == {26: 1}
    assert other.drops == {}
