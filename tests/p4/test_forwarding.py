# SPDX-License-Identifier: Apache-2.0
"""Routing, ECMP, queues, ECN, controller packets, and packets that must be dropped."""

from collections import Counter

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw

from bmv2_lab.switch.state import exact_match, ternary_match
from tests.p4.harness import CPU_PORT, Node, ones_sum, ptp, roce


def router() -> Node:
    """A leaf with four uplinks towards 10.0.2.0/24 and a local host."""
    node = Node(1, host_ports=(11, 12))
    node.route("10.0.2.0", 24, 1, 2, 3, 4)
    node.route("10.0.1.2", 32, 12)
    return node


def test_longest_prefix_wins_and_macs_and_ttl_are_rewritten() -> None:
    """The /32 beats the /24; the frame is sent on from the address that it was sent to."""
    node = router()
    node.route("10.0.2.9", 32, 12)
    frame = roce(dst="10.0.2.9")
    ((port, out),) = node.send(frame, 1).forwarded
    assert port == 12
    assert out[0:6] == bytes.fromhex("02000000000c")
    assert out[6:12] == frame[0:6]
    assert out[22] == frame[22] - 1
    assert ones_sum(out[14:34]) == 0xFFFF
    assert out[26:] == frame[26:]


def test_ecmp_spreads_flows_over_all_members() -> None:
    """512 source ports use each of four uplinks for 15 to 35 percent of the flows."""
    node = router()
    ports = Counter(node.send(roce(sport=0xC000 + n), 11).forwarded[0][0] for n in range(512))
    assert set(ports) == {1, 2, 3, 4}
    assert all(512 * 0.15 < count < 512 * 0.35 for count in ports.values())


@pytest.mark.parametrize(
    "change",
    [{"psn": 99}, {"opcode": 17}, {"payload": bytes(900)}, {"ecn": 3}, {"ttl": 9}, {"dscp": 0}],
)
def test_ecmp_keeps_a_flow_on_its_path(change: dict[str, int | bytes]) -> None:
    """Nothing outside the 5-tuple moves a packet to another member."""
    node = router()
    for number in range(20):
        flow = {"sport": 0xC000 + number}
        first = node.send(roce(**flow), 11).forwarded[0][0]
        assert node.send(roce(**flow, **change), 11).forwarded[0][0] == first


def test_marking_does_not_move_a_flow() -> None:
    """A packet takes the same member with and without INT, at the source and in transit."""
    plain, marking, transit = router(), router(), Node(101)
    marking.watch()
    transit.route("10.0.2.0", 24, 1, 2, 3, 4)
    for number in range(40):
        frame = roce(sport=0xC000 + number)
        before = plain.send(frame, 11).forwarded[0][0]
        ((port, marked),) = marking.send(frame, 11).forwarded
        assert port == before
        plain_out = transit.send(frame, 7).forwarded[0][0]
        assert transit.send(marked, 7).forwarded[0][0] == plain_out


def test_each_element_of_the_5_tuple_takes_part_in_the_hash() -> None:
    """Changing one of addresses, ports or protocol alone reaches several members."""
    node = router()
    node.route("10.0.0.0", 16, 1, 2, 3, 4)

    def members(packets: list[bytes]) -> set[int]:
        return {node.send(packet, 11).forwarded[0][0] for packet in packets}

    eth, body, some = Ether(), Raw(b"x" * 20), range(1, 33)
    variants = [
        [eth / IP(src=f"10.0.1.{n}", dst="10.0.2.1") / UDP(sport=1, dport=2) / body for n in some],
        [eth / IP(src="10.0.1.1", dst=f"10.0.2.{n}") / UDP(sport=1, dport=2) / body for n in some],
        [eth / IP(src="10.0.1.1", dst="10.0.2.1") / UDP(sport=n, dport=2) / body for n in some],
        [eth / IP(src="10.0.1.1", dst="10.0.2.1") / UDP(sport=1, dport=n) / body for n in some],
        [eth / IP(src="10.0.1.1", dst="10.0.2.1") / TCP(sport=n, dport=2) / body for n in some],
        [eth / IP(src="10.0.1.1", dst="10.0.2.1", proto=n) / body for n in range(100, 132)],
    ]
    for packets in variants:
        assert len(members([bytes(packet) for packet in packets])) == 4


@pytest.mark.parametrize(("dscp", "queue"), [(26, 1), (27, 1), (46, 2), (0, 0), (10, 0)])
def test_dscp_chooses_the_queue(dscp: int, queue: int) -> None:
    """Marked and unmarked DSCP share a queue; an unknown one is best effort."""
    node = router()
    ((_, queue_id),) = node.send(roce(dscp=dscp), 1).queues
    assert queue_id == queue


@pytest.mark.parametrize(
    ("ecn", "depth", "expected"),
    [(2, 100, 3), (1, 100, 3), (2, 99, 2), (0, 500, 0), (3, 0, 3), (2, 0x7FFFF, 3)],
)
def test_ce_is_marked_from_the_threshold_on(ecn: int, depth: int, expected: int) -> None:
    """ECN-capable packets get CE at or above the queue's depth; others are left alone."""
    node = router()
    node.add("ecn_config", [exact_match(1)], "set_ecn_threshold", 100)
    node.queue_depth = depth
    out = node.send(roce(ecn=ecn), 11).frame
    assert out[15] & 3 == expected
    assert ones_sum(out[14:34]) == 0xFFFF


def test_queue_without_a_threshold_is_never_marked() -> None:
    """No entry, no marking, however deep the queue."""
    node = router()
    node.queue_depth = 0x7FFFF
    assert node.send(roce(ecn=2), 11).frame[15] & 3 == 2


def test_ce_mark_survives_the_sink() -> None:
    """A CE mark set inside the fabric reaches the host; the DSCP is restored around it."""
    source, sink = router(), Node(2, host_ports=(12,))
    source.watch()
    source.add("ecn_config", [exact_match(1)], "set_ecn_threshold", 1)
    sink.route("10.0.2.0", 24, 12)
    marked = source.send(roce(ecn=2), 11).frame
    assert marked[15] == 27 << 2 | 3
    assert sink.send(marked, 1).frame[15] == 26 << 2 | 3


def test_udp_with_ip_options_is_routed_and_traced() -> None:
    """Options move the UDP header; checksum, hash and INT still find it."""
    node, sink = router(), Node(2, host_ports=(12,))
    node.watch()
    sink.route("10.0.2.0", 24, 12)
    options = b"\x94\x04\x00\x00\x01\x01\x01\x01"
    frame = bytes(
        Ether() / IP(src="10.0.1.1", dst="10.0.2.1", options=[]) / UDP(sport=9, dport=9) / b"abcd"
    )
    packet = bytearray(frame[:34] + options + frame[34:])
    packet[14] = 0x47
    packet[16:18] = (len(packet) - 14).to_bytes(2, "big")
    packet[24:26] = bytes(2)
    packet[24:26] = (0xFFFF - ones_sum(bytes(packet[14:42]))).to_bytes(2, "big")
    out = node.send(bytes(packet), 11).frame
    assert len(out) == len(packet) + 48
    assert ones_sum(out[14:42]) == 0xFFFF
    restored = sink.send(out, 1).frame
    assert restored[26:] == bytes(packet[26:])
    assert ones_sum(restored[14:42]) == 0xFFFF


def _broken(offset: int, value: int) -> bytes:
    frame = bytearray(roce())
    frame[offset] = value
    if offset not in (24, 25):
        frame[24:26] = bytes(2)
        frame[24:26] = (0xFFFF - ones_sum(bytes(frame[14:34]))).to_bytes(2, "big")
    return bytes(frame)


@pytest.mark.parametrize(
    ("frame", "event"),
    [
        (_broken(14, 0x65), 0),
        (_broken(14, 0x44), 0),
        (_broken(14, 0x40), 0),
        (_broken(16, 0x40), 0),
        (_broken(17, 0), 0),
        (_broken(24, 0xEE), 1),
        (_broken(22, 1), 2),
        (_broken(22, 0), 2),
        (roce(dst="192.0.2.1"), 3),
        (bytes(Ether(type=0x88B5) / Raw(bytes(50))), 4),
    ],
    ids=[
        "version 6",
        "header length 4",
        "header length 0",
        "total length beyond the frame",
        "total length below the header",
        "wrong checksum",
        "TTL 1",
        "TTL 0",
        "no route",
        "not IPv4",
    ],
)
def test_packet_that_cannot_be_routed_is_dropped_and_counted(frame: bytes, event: int) -> None:
    """Each reason has its own counter."""
    node = router()
    sent = node.send(frame, 1)
    assert sent.emitted == []
    assert [node.event(index) for index in range(16)] == [int(i == event) for i in range(16)]


@pytest.mark.parametrize("size", range(64))
def test_frame_cut_anywhere_is_forwarded_or_dropped_but_harmless(size: int) -> None:
    """A truncated frame never makes the switch fail, nor send what was not there."""
    node = router()
    node.watch()
    node.watch_ptp()
    for frame in (roce()[:size], roce(dscp=27)[:size], ptp()[:size]):
        for port in (1, 11):
            sent = node.send(frame, port)
            assert sent.emitted == []


def test_packet_out_leaves_on_its_port_as_it_is() -> None:
    """A packet-out names its egress port; nothing in it is changed."""
    node = router()
    frame = roce()
    sent = node.send((7 << 7).to_bytes(2, "big") + frame, CPU_PORT)
    assert sent.forwarded == [(7, frame)]


def test_packet_out_submitted_to_ingress_is_routed() -> None:
    """With submit_to_ingress the packet takes its route and is traced like a host's packet."""
    node = router()
    node.watch_ptp()
    sent = node.send((1 << 6).to_bytes(2, "big") + ptp(dst="10.0.1.2"), CPU_PORT)
    assert [port for port, _ in sent.forwarded] == [12]
    assert len(sent.reports) == 1


def test_punted_packet_reaches_the_controller_with_its_port() -> None:
    """ARP goes to the CPU port with the ingress port in front, unchanged otherwise."""
    node = router()
    match = [ternary_match(0, 0), ternary_match(0x0806, 0xFFFF), *[ternary_match(0, 0)] * 3]
    node.add("punt", match, "punt_to_cpu", priority=1)
    frame = bytes(Ether(dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.0.1.1", pdst="10.0.1.254"))
    sent = node.send(frame, 11)
    assert sent.forwarded == [(CPU_PORT, (11 << 7).to_bytes(2, "big") + frame)]
    assert node.counter("punt") == 1


def test_tcp_is_routed_untouched() -> None:
    """TCP is forwarded by the same hash, with nothing above IP changed and never marked."""
    node = router()
    node.watch()
    frame = bytes(Ether() / IP(src="10.0.1.1", dst="10.0.2.1") / TCP(sport=5, dport=6) / b"data")
    out = node.send(frame, 11).frame
    assert out[34:] == frame[34:]
    assert out[15] == frame[15]
