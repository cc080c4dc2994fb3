# SPDX-License-Identifier: Apache-2.0
"""RoCEv2: what the watchlist reads of it, ECN marking, and packets that must stay as they are."""

from typing import Any

import pytest

from bmv2_lab.switch.state import exact_match
from tests.p4.dissect import expect_frame
from tests.p4.frames import ACKNOWLEDGE, CNP, aeth, cnp, reth, roce
from tests.p4.harness import Node
from tests.p4.nodes import SINK_IN, SPINE_IN, SPINE_OUT, sink_node, source_node, transit_node, walk
from tests.p4.rewrite import routed, with_class
from tests.p4.wire import Offsets, icrc_is_right, ip_checksum_is_right

FAMILY = pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
RDMA_WRITE_FIRST, RDMA_WRITE_ONLY, RDMA_READ_REQUEST, RDMA_READ_RESPONSE_ONLY = (
    0x06,
    0x0A,
    0x0C,
    0x10,
)
ATOMIC_ACKNOWLEDGE = 0x12
NAK_SEQUENCE_ERROR = 0x60
PACKETS: dict[str, dict[str, Any]] = {
    "send only": {"opcode": 0x04},
    "write first": {"opcode": RDMA_WRITE_FIRST, "extended": reth(), "payload": bytes(512)},
    "write only": {"opcode": RDMA_WRITE_ONLY, "extended": reth(length=8)},
    "write only, immediate": {"opcode": 0x0B, "extended": reth() + b"imme"},
    "read request": {"opcode": RDMA_READ_REQUEST, "extended": reth(), "payload": b""},
    "read response": {"opcode": RDMA_READ_RESPONSE_ONLY, "extended": aeth(0x1F)},
    "acknowledge": {"opcode": ACKNOWLEDGE, "extended": aeth(0x0A), "payload": b""},
    "NAK": {"opcode": ACKNOWLEDGE, "extended": aeth(NAK_SEQUENCE_ERROR), "payload": b""},
    "atomic acknowledge": {"opcode": ATOMIC_ACKNOWLEDGE, "extended": aeth(0) + bytes(8)},
    "unreliable datagram": {"opcode": 0x64, "extended": bytes(8)},
}  # fmt: skip


def packet(name: str, v6: bool, **changes: int) -> bytes:
    """One of PACKETS, or a CNP."""
    if name == "CNP":
        return cnp(v6=v6, **changes)
    return roce(v6=v6, **(PACKETS[name] | changes))


@FAMILY
@pytest.mark.parametrize("name", [*PACKETS, "CNP"])
@pytest.mark.parametrize("mode", ["plain", "md", "mx", "xd"])
def test_every_kind_arrives_as_it_was_sent(name: str, mode: str, v6: bool) -> None:
    """Whatever the transport headers and the INT mode, the ICRC verifies at the receiver."""
    path = [source_node(), transit_node(), sink_node()]
    if mode == "md":
        path[0].watch()
    elif mode == "mx":
        path[0].watch_mx()
    elif mode == "xd":
        for node in path:
            node.watch_xd()
    frame = packet(name, v6)
    assert icrc_is_right(frame)
    sent = walk(path, frame)
    out = sent[-1].frame
    expect_frame(out[12:], _delivered(frame)[12:])
    assert icrc_is_right(out)
    grown = [len(step.frame) - len(frame) for step in sent]
    assert grown == {"md": [48, 80, 0], "mx": [16, 16, 0]}.get(mode, [0, 0, 0])


def _delivered(frame: bytes) -> bytes:
    return routed(frame, 12, hops=3)


@FAMILY
@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({"roce_opcode": (CNP, 0xFF)}, {"CNP"}),
        ({"roce_opcode": (ACKNOWLEDGE, 0xFF)}, {"acknowledge", "NAK"}),
        (
            {"roce_opcode": (ACKNOWLEDGE, 0xFF), "roce_syndrome": (0x60, 0xE0)},
            {"NAK"},
        ),
        ({"roce_syndrome": (0x60, 0x60)}, {"NAK"}),
        ({"roce_syndrome": (0x1F, 0xFF)}, {"read response"}),
        ({"roce_opcode": (RDMA_WRITE_FIRST, 0xFF)}, {"write first"}),
    ],
    ids=["CNP", "ACK and NAK", "NAK", "NAK by syndrome", "read response", "write first"],
)
def test_watchlist_reads_the_transport_headers(
    keys: dict[str, Any], wanted: set[str], v6: bool
) -> None:
    """Opcode and syndrome select; the syndrome of a packet without AETH counts as 0."""
    node = transit_node()
    node.watch_xd(**keys)
    names = [*PACKETS, "CNP"]
    reported = {name for name in names if node.send(packet(name, v6), SPINE_IN).reports}
    assert reported == wanted


@FAMILY
def test_queue_pair_and_sequence_number_select(v6: bool) -> None:
    """All 24 bits of DestQP and of the PSN are there."""
    node = transit_node()
    node.watch_xd(roce_dest_qp=(0xABCDEF, 0xFFFFFF), roce_psn=(0xFEDCBA, 0xFFFFFF))
    hit: dict[str, Any] = {"dest_qp": 0xABCDEF, "psn": 0xFEDCBA}
    assert len(node.send(roce(v6=v6, **hit), SPINE_IN).reports) == 1
    for name in hit:
        for bit in (0, 23):
            other = hit | {name: hit[name] ^ 1 << bit}
            assert node.send(roce(v6=v6, **other), SPINE_IN).reports == []


def test_other_udp_has_no_transport_fields() -> None:
    """Port 4791 makes RoCEv2; elsewhere the roce keys are 0."""
    node = transit_node()
    node.watch_xd(roce_opcode=(4, 0xFF))
    frame = bytearray(roce())
    frame[36:38] = (4792).to_bytes(2, "big")
    assert node.send(bytes(frame), SPINE_IN).reports == []


@FAMILY
@pytest.mark.parametrize("opcode", [RDMA_WRITE_ONLY, RDMA_READ_REQUEST, ACKNOWLEDGE, CNP])
def test_extended_header_that_is_not_there_harms_nothing(opcode: int, v6: bool) -> None:
    """A packet too short for what its opcode promises is forwarded, and traced, all the same."""
    path = [source_node(), transit_node(), sink_node()]
    path[0].watch()
    for size in (0, 1, 3, 8):
        frame = roce(opcode=opcode, payload=bytes(size), v6=v6)
        out = walk(path, frame)[-1].frame
        expect_frame(out[12:], _delivered(frame)[12:])


@FAMILY
def test_datagram_to_4791_shorter_than_a_bth_is_forwarded(v6: bool) -> None:
    """Not every packet to the port is RoCEv2."""
    node = transit_node()
    frame = roce(v6=v6)
    at = Offsets.of(frame)
    for size in (0, 4, 11):
        short = bytearray(frame[: at.payload + size])
        short[at.l4 + 4 : at.l4 + 6] = (8 + size).to_bytes(2, "big")
        place, length = (at.l3 + 4, 8 + size) if v6 else (at.l3 + 2, 28 + size)
        short[place : place + 2] = length.to_bytes(2, "big")
        if not v6:
            short[24:26] = bytes(2)
            total = sum(int.from_bytes(short[i : i + 2], "big") for i in range(14, 34, 2))
            short[24:26] = (0xFFFF - (total & 0xFFFF) - (total >> 16)).to_bytes(2, "big")
        expect_frame(node.send(bytes(short), SPINE_IN).frame, routed(bytes(short), SPINE_OUT))


# ---- ECN


def marking_node() -> Node:
    """Marks from a depth of 100 on in queue 1."""
    node = transit_node()
    node.add("ecn_config", [exact_match(1)], "set_ecn_threshold", 100)
    return node


@FAMILY
@pytest.mark.parametrize(
    ("ecn", "depth", "expected"),
    [(2, 100, 3), (1, 100, 3), (2, 99, 2), (0, 500, 0), (3, 0, 3), (2, 0x7FFFF, 3)],
)
def test_ce_is_marked_from_the_threshold_on(ecn: int, depth: int, expected: int, v6: bool) -> None:
    """ECN-capable packets get CE at or above the queue's depth; others are left alone."""
    node = marking_node()
    node.queue_depth = depth
    frame = roce(ecn=ecn, v6=v6)
    out = node.send(frame, SPINE_IN).frame
    expect_frame(out, with_class(routed(frame, SPINE_OUT), ecn=expected))
    assert ip_checksum_is_right(out)
    assert icrc_is_right(out)


def test_queue_without_a_threshold_is_never_marked() -> None:
    """No entry, no marking, however deep the queue."""
    node = marking_node()
    node.queue_depth = 0x7FFFF
    frame = roce(ecn=2, dscp=0)
    expect_frame(node.send(frame, SPINE_IN).frame, routed(frame, SPINE_OUT))


@FAMILY
@pytest.mark.parametrize("mode", ["md", "mx"])
def test_ce_mark_survives_the_sink(mode: str, v6: bool) -> None:
    """A CE mark set inside the fabric reaches the host; the DSCP is restored around it."""
    path = [source_node(), marking_node(), sink_node()]
    path[1].queue_depth = 200
    if mode == "md":
        path[0].watch()
    else:
        path[0].watch_mx()
    frame = roce(ecn=2, v6=v6, udp_checksum=True)
    sent = walk(path, frame)
    expect_frame(sent[-1].frame[12:], with_class(_delivered(frame), ecn=3)[12:])


@FAMILY
def test_marked_class_has_the_threshold_of_its_queue(v6: bool) -> None:
    """DSCP 27 stands for 26, so ECN treats a traced packet as it treats the others."""
    source, node = source_node(), marking_node()
    node.queue_depth = 200
    source.watch()
    marked = source.send(roce(ecn=1, v6=v6), 11).frame
    out = node.send(marked, SPINE_IN).frame
    at = Offsets.of(out)
    byte = (out[at.l3] & 15) << 4 | out[at.l3 + 1] >> 4 if v6 else out[at.l3 + 1]
    assert byte == 27 << 2 | 3


def test_report_has_the_depth_that_marked_the_packet() -> None:
    """The sink's postcard shows the queue depth of the same moment."""
    node = sink_node()
    node.add("ecn_config", [exact_match(1)], "set_ecn_threshold", 100)
    node.queue_depth = 12345
    node.watch_xd(bits=0x1000)
    sent = node.send(roce(ecn=2), SINK_IN)
    assert sent.frame[15] & 3 == 3
    (report,) = sent.reports
    assert report.metadata == (1 << 24 | 12345).to_bytes(4, "big")
