# SPDX-License-Identifier: Apache-2.0
"""INT-MD v2.1 through the committed program: source, transit, sink."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether

from bmv2_lab.switch.state import exact_match
from tests.p4.harness import (
    DOMAIN_ID,
    IntStack,
    Node,
    expected_hop,
    icrc,
    ones_sum,
    roce,
    udp_checksum_is_right,
)

SHIM_AND_HEADER_BYTES = 16


def source_node(node_id: int = 1) -> Node:
    """A leaf with a host on port 11 and a fabric link on port 1."""
    node = Node(node_id, host_ports=(11,))
    node.route("10.0.2.0", 24, 1)
    return node


def transit_node(node_id: int = 101) -> Node:
    """A spine: in on 1, out on 2."""
    node = Node(node_id)
    node.route("10.0.2.0", 24, 2)
    return node


def sink_node(node_id: int = 2) -> Node:
    """A leaf with the addressed host on port 12."""
    node = Node(node_id, host_ports=(12,))
    node.route("10.0.2.1", 32, 12)
    return node


def test_source_inserts_shim_header_and_its_own_hop() -> None:
    """The first switch adds shim, INT-MD header and one stack entry, and nothing else changes."""
    node = source_node()
    node.watch(remaining_hop_count=5)
    frame = roce()
    sent = node.send(frame, 11)
    ((port, out),) = sent.forwarded
    stack = IntStack.of(out[14:])
    assert port == 1
    assert stack.shim == bytes([0x10, 3 + 8, 0, 26 << 2])
    assert stack.bits == 0x20000000 | 8 << 8 | 4
    assert stack.header[4:] == bytes.fromhex("fc00") + DOMAIN_ID.to_bytes(2, "big") + bytes(4)
    assert stack.hops() == [expected_hop(node, sent, 0xFC00, 11, 1, 1)]
    added = SHIM_AND_HEADER_BYTES + 32
    assert out[42 + added :] == frame[42:]
    assert int.from_bytes(out[16:18], "big") == len(frame) - 14 + added
    assert int.from_bytes(out[38:40], "big") == len(frame) - 34 + added
    assert out[15] == 27 << 2 | 2
    assert out[34:38] == frame[34:38]
    assert ones_sum(out[14:34]) == 0xFFFF
    assert sent.reports == []


def test_transit_pushes_on_top() -> None:
    """A later hop's entry stands before the older ones, and only length and hop count change."""
    first, second = source_node(), transit_node()
    first.watch(remaining_hop_count=5)
    before = first.send(roce(), 11).frame
    sent = second.send(before, 1)
    old, new = IntStack.of(before[14:]), IntStack.of(sent.frame[14:])
    assert new.hops() == [expected_hop(second, sent, 0xFC00, 1, 2, 1), *old.hops()]
    assert new.remaining_hop_count == old.remaining_hop_count - 1
    assert new.bits & ~0xFF == old.bits & ~0xFF
    assert new.header[4:] == old.header[4:]
    assert new.shim == bytes([0x10, 3 + 16, 0, 26 << 2])
    assert sent.frame[14 + 44 + 64 :] == before[14 + 44 + 32 :]
    assert sent.reports == []


@pytest.mark.parametrize("bitmap", [0x8000, 0xFF81, 0xFC00, 0x0C00, 0x0E00, 0x4001, 0x0380, 0xD000])
def test_entry_follows_the_bitmap(bitmap: int) -> None:
    """Each instruction bit adds its value, in bit order; what v1model lacks is all ones."""
    node = source_node()
    node.watch(bitmap=bitmap)
    sent = node.send(roce(), 11)
    stack = IntStack.of(sent.frame[14:])
    assert stack.hops() == [expected_hop(node, sent, bitmap, 11, 1, 1)]
    assert stack.hop_words * 4 == len(stack.words)
    assert stack.bitmap == bitmap


@pytest.mark.parametrize("bitmap", [0x0040, 0xFC02, 0x0000])
def test_reserved_or_empty_bitmap_starts_int_without_an_entry(bitmap: int) -> None:
    """A bitmap with reserved bits pushes nothing and leaves the hop count alone."""
    node = source_node()
    node.watch(bitmap=bitmap, remaining_hop_count=5)
    stack = IntStack.of(node.send(roce(), 11).frame[14:])
    assert stack.words == b""
    assert stack.remaining_hop_count == 5


def test_hop_count_zero_sets_e_and_pushes_nothing() -> None:
    """The hop after the last allowed one sets E and changes nothing else."""
    first, second, third = source_node(), transit_node(), transit_node(102)
    first.watch(remaining_hop_count=1)
    before = first.send(roce(udp_checksum=True), 11).frame
    after = second.send(before, 1).frame
    old, new = IntStack.of(before[14:]), IntStack.of(after[14:])
    assert not old.exceeded
    assert old.remaining_hop_count == new.remaining_hop_count == 0
    assert new.exceeded
    assert new.bits == old.bits | 1 << 26
    assert new.words == old.words
    assert len(before) == len(after)
    assert udp_checksum_is_right(after)
    again = third.send(after, 1).frame
    assert again[34:] == after[34:]


def test_entry_that_does_not_fit_the_mtu_sets_m() -> None:
    """A hop that would exceed the egress MTU pushes nothing and sets M."""
    first, second = source_node(), transit_node()
    first.watch()
    before = first.send(roce(udp_checksum=True), 11).frame
    second.add("int_egress_mtu", [exact_match(2)], "set_mtu", len(before) - 14 + 31)
    after = second.send(before, 1).frame
    old, new = IntStack.of(before[14:]), IntStack.of(after[14:])
    assert new.bits == old.bits | 1 << 25
    assert new.words == old.words
    assert udp_checksum_is_right(after)
    exact = transit_node(102)
    exact.add("int_egress_mtu", [exact_match(2)], "set_mtu", len(before) - 14 + 32)
    assert len(exact.send(before, 1).frame) == len(before) + 32


def test_source_with_room_for_the_header_alone_starts_int_with_m() -> None:
    """INT v2.1 lets the source start without its own entry; with less room it does not start."""
    frame = roce()
    node = source_node()
    node.watch()
    mtu = node.add("int_egress_mtu", [exact_match(1)], "set_mtu", len(frame) - 14 + 16)
    stack = IntStack.of(node.send(frame, 11).frame[14:])
    assert stack.mtu_exceeded
    assert stack.words == b""
    mtu.cell[5] -= 1
    untouched = node.send(frame, 11).frame
    assert len(untouched) == len(frame)
    assert untouched[15] == frame[15]


def test_foreign_domain_metadata_passes_unchanged() -> None:
    """A hop length that the bitmap does not explain (domain metadata) makes the node skip INT."""
    first, second = source_node(), transit_node()
    first.watch()
    before = bytearray(first.send(roce(), 11).frame)
    before[48] = 9  # hop_metadata_len_words: one word of domain metadata that we do not know
    after = second.send(bytes(before), 1).frame
    assert after[34:] == bytes(before[34:])


def test_sink_reports_stack_and_own_hop_and_restores_the_packet() -> None:
    """Report A has the received stack, report B the sink's own hop; node and stamp join them."""
    path = [source_node(), transit_node(), sink_node()]
    path[0].watch()
    frame = roce(payload=bytes(range(200)))
    first = path[0].send(frame, 11)
    second = path[1].send(first.frame, 1)
    last = path[2].send(second.frame, 1)
    ((port, out),) = last.forwarded
    assert port == 12
    assert_restored(frame, out)
    stack_report, hop_report = last.reports
    for report in (stack_report, hop_report):
        report.check_lengths()
        assert report.version == 2
        assert report.node_id == 2
        assert report.types == 0x14
        assert report.flags == 0x20
        assert report.sequence == 0
        assert report.domain_id == DOMAIN_ID
    assert (stack_report.hw_id, hop_report.hw_id) == (0, 1)
    assert stack_report.bits == 0x4800
    stamp = last.ingress_tstamp.to_bytes(8, "big")
    assert stack_report.metadata == bytes([0, 1, 0, 12]) + stamp
    received = second.frame[14:]
    assert stack_report.inner == received[: 64 + 16 + 64]
    hops = IntStack.of(stack_report.inner).hops()
    assert hops == [
        expected_hop(path[1], second, 0xFC00, 1, 2, 1),
        expected_hop(path[0], first, 0xFC00, 11, 1, 1),
    ]
    assert hop_report.bits == 0x7C00
    assert hop_report.metadata == expected_hop(path[2], last, 0x7C00, 1, 12, 1)
    assert hop_report.inner == out[14 : 14 + 64]


def test_source_and_sink_in_one_switch_report_by_postcard_alone() -> None:
    """Between two hosts of one switch no header is inserted; one postcard reports the hop."""
    node = Node(1, host_ports=(11, 12))
    node.route("10.0.2.1", 32, 12)
    node.watch()
    frame = roce()
    sent = node.send(frame, 11)
    assert_restored(frame, sent.frame)
    (report,) = sent.reports
    assert (report.hw_id, report.bits) == (1, 0x7C00)
    assert report.metadata == expected_hop(node, sent, 0x7C00, 11, 12, 1)


def test_last_hop_strips_without_watchlist_and_without_reports() -> None:
    """Stripping depends on the port alone; set_int_strip strips without a report."""
    first = source_node()
    first.watch()
    marked = first.send(roce(), 11).frame
    last = Node(2)
    last.add("int_sink_ports", [exact_match(12)], "set_int_strip")
    last.route("10.0.2.1", 32, 12)
    sent = last.send(marked, 1)
    assert_restored(roce(), sent.frame)
    assert sent.reports == []


def test_silent_sink_port_makes_no_postcard_for_a_local_flow() -> None:
    """set_int_strip silences the sink also where source and sink are one switch."""
    node = Node(1, host_ports=(11,))
    node.add("int_sink_ports", [exact_match(12)], "set_int_strip")
    node.route("10.0.2.1", 32, 12)
    node.watch()
    sent = node.send(roce(), 11)
    assert_restored(roce(), sent.frame)
    assert sent.reports == []


def test_marked_packet_without_udp_loses_its_mark_at_the_last_hop() -> None:
    """TCP cannot carry INT here: a mark on it is removed, and the packet delivered."""
    frame = bytes(
        Ether() / IP(src="10.0.1.1", dst="10.0.2.1", tos=27 << 2 | 1) / TCP() / b"some data"
    )
    last = sink_node()
    sent = last.send(frame, 1)
    assert sent.frame[15] == 26 << 2 | 1
    assert sent.frame[26:] == frame[26:]
    assert last.event(6) == 1


@pytest.mark.parametrize("excess", [-4, 4])
def test_source_leaves_contradicting_lengths_alone(excess: int) -> None:
    """UDP and IP length must agree, or the sink could not invert what the source adds."""
    node = source_node()
    node.watch()
    frame = bytearray(roce())
    length = int.from_bytes(frame[38:40], "big") + excess
    frame[38:40] = length.to_bytes(2, "big")
    sent = node.send(bytes(frame), 11)
    assert sent.frame[34:] == bytes(frame[34:])
    assert sent.frame[15] == frame[15]
    assert node.event(9) == 1


def test_discard_bit_drops_after_both_reports() -> None:
    """A packet with D set is reported like any other and never reaches the host."""
    first, last = source_node(), sink_node()
    first.watch()
    marked = bytearray(first.send(roce(), 11).frame)
    marked[46] |= 0x08
    sent = last.send(bytes(marked), 1)
    assert sent.forwarded == []
    assert [report.hw_id for report in sent.reports] == [0, 1]


@pytest.mark.parametrize(
    ("offset", "value"),
    [(46, 0x10), (42, 0x30), (43, 2), (43, 60), (43, 20), (38, 4), (42, 0x14)],
    ids=[
        "int version 1",
        "shim type 3",
        "too short for a header",
        "longer than the frame",
        "longer than the datagram",
        "datagram longer than the IP packet",
        "next protocol type 1",
    ],
)
def test_int_that_cannot_be_stripped_does_not_reach_a_host(offset: int, value: int) -> None:
    """A NIC would take the shim for a transport header, so the sink drops and counts it."""
    first, last = source_node(), sink_node()
    first.watch()
    marked = bytearray(first.send(roce(), 11).frame)
    marked[offset] = value
    sent = last.send(bytes(marked), 1)
    assert sent.emitted == []
    assert last.event(7) == 1


def test_unknown_int_version_passes_a_transit_node_untouched() -> None:
    """A transit node neither pushes onto nor drops INT that it cannot read; it counts it."""
    first, second = source_node(), transit_node()
    first.watch()
    marked = bytearray(first.send(roce(), 11).frame)
    marked[46] = 0x30
    assert second.send(bytes(marked), 1).frame[34:] == bytes(marked[34:])
    assert second.event(6) == 1


def test_marked_dscp_from_a_host_is_cleaned() -> None:
    """A host's marked packet leaves the edge with the unmarked DSCP and its own bytes."""
    node = source_node()
    frame = roce(dscp=27)
    sent = node.send(frame, 11)
    assert sent.frame[15] == 26 << 2 | 2
    assert sent.frame[34:] == frame[34:]
    assert node.event(5) == 1


def test_forged_int_from_a_host_stays_payload() -> None:
    """INT headers that a host made are never extended, reported or stripped: they are payload."""
    first = source_node()
    first.watch()
    forged = first.send(roce(), 11).frame
    edge = Node(3, host_ports=(11, 12))
    edge.watch()
    edge.route("10.0.2.1", 32, 12)
    edge.route("10.0.2.0", 24, 1)
    sent = edge.send(forged, 11)
    assert sent.frame[15] == 26 << 2 | 2
    assert sent.frame[34:] == forged[34:]
    assert sent.reports == []
    assert edge.event(9) == 1


def test_undeclared_odd_dscp_is_no_mark() -> None:
    """Only DSCP values in int_marked_dscp are marks; other odd ones pass as they are."""
    node = sink_node()
    frame = roce(dscp=33)
    sent = node.send(frame, 1)
    assert sent.frame[15] == frame[15]
    assert sent.frame[34:] == frame[34:]


def test_sampling_by_psn_traces_only_matching_packets() -> None:
    """A ternary match on the PSN's low bits picks one packet in 2^n, alike on every switch."""
    node = source_node()
    node.watch(psn=(0, 0x3))
    lengths = [len(node.send(roce(psn=psn), 11).frame) - len(roce(psn=psn)) for psn in range(8)]
    assert lengths == [48, 0, 0, 0, 48, 0, 0, 0]
    assert node.counter("int_watchlist") == 2


def test_fragments_are_never_marked() -> None:
    """Inserting into a fragment would break reassembly, so fragments stay as they are."""
    node = source_node()
    node.watch()
    for flags_and_offset in (b"\x20\x00", b"\x00\x10"):
        frame = bytearray(roce())
        frame[20:22] = flags_and_offset
        frame[24:26] = bytes(2)
        frame[24:26] = (0xFFFF - ones_sum(bytes(frame[14:34]))).to_bytes(2, "big")
        sent = node.send(bytes(frame), 11)
        assert sent.frame[34:] == bytes(frame[34:])
        assert sent.frame[15] == frame[15]
    assert node.event(9) == 2


def test_node_without_configuration_neither_pushes_nor_reports() -> None:
    """A switch whose controller has not named it forwards and stays silent."""
    node = Node(1, host_ports=(11,))
    node.route("10.0.2.0", 24, 1)
    node.watch()
    node.set_default("int_node", "NoAction")
    assert len(node.send(roce(), 11).frame) == len(roce())


@settings(max_examples=80, deadline=None)
@given(
    opcode=st.integers(0, 255),
    payload=st.binary(max_size=300),
    transits=st.integers(0, 4),
    remaining_hop_count=st.integers(0, 6),
    bitmap=st.sampled_from([0xFC00, 0x8000, 0xFF81, 0x0C00, 0xFC40, 0x0000]),
    udp_checksum=st.booleans(),
    ecn=st.integers(0, 3),
    sport=st.integers(0, 0xFFFF),
    queue_depth=st.sampled_from([0, 3, 0x7FFFF]),
)
def test_sink_restores_the_packet_byte_exactly(
    opcode: int,
    payload: bytes,
    transits: int,
    remaining_hop_count: int,
    bitmap: int,
    udp_checksum: bool,
    ecn: int,
    sport: int,
    queue_depth: int,
) -> None:
    """Whatever the packet and the path, only MACs, TTL, ECN and IP checksum differ at the end."""
    frame = roce(opcode=opcode, payload=payload, ecn=ecn, sport=sport, udp_checksum=udp_checksum)
    path = [source_node(), *(transit_node(100 + n) for n in range(transits)), sink_node()]
    path[0].watch(remaining_hop_count=remaining_hop_count, bitmap=bitmap)
    out = frame
    for number, node in enumerate(path):
        node.queue_depth = queue_depth
        out = node.send(out, 11 if number == 0 else 1).frame
        assert udp_checksum_is_right(out)
        assert ones_sum(out[14:34]) == 0xFFFF
    assert_restored(frame, out, hops=len(path))


@settings(max_examples=60, deadline=None)
@given(checksum=st.integers(1, 0xFFFF), node_id=st.integers(0, 0xFFFFFFFF))
def test_wrong_udp_checksum_comes_back_as_it_was(checksum: int, node_id: int) -> None:
    """Incremental updates invert exactly for every checksum but 0: corruption is not repaired."""
    frame = bytearray(roce())
    frame[40:42] = checksum.to_bytes(2, "big")
    path = [source_node(node_id), transit_node(node_id ^ 0xFFFFFFFF), sink_node()]
    path[0].watch()
    out = bytes(frame)
    for number, node in enumerate(path):
        out = node.send(out, 11 if number == 0 else 1).frame
        assert out[40:42] != b"\0\0"
    assert_restored(bytes(frame), out, hops=3)


@pytest.mark.parametrize("through", [1, 2], ids=["source", "source and transit"])
def test_checksum_never_becomes_zero_on_the_way(through: int) -> None:
    """A sum of zero is written as 0xFFFF, since 0 would say that there is no checksum."""

    def carried(checksum: int) -> tuple[int, bytes]:
        frame = bytearray(roce())
        frame[40:42] = checksum.to_bytes(2, "big")
        path = [source_node(), transit_node()]
        path[0].watch()
        out = bytes(frame)
        for number, node in enumerate(path[:through]):
            out = node.send(out, 11 if number == 0 else 1).frame
        return int.from_bytes(out[40:42], "big"), out

    start = 0x1234
    added = start - carried(start)[0]
    checksum = added % 0xFFFF or 0xFFFF
    value, out = carried(checksum)
    assert value == 0xFFFF
    restored = sink_node().send(out, 1).frame
    assert int.from_bytes(restored[40:42], "big") == checksum


def test_sink_takes_the_dscp_from_the_shim() -> None:
    """Two classes may share a mark; each gets its own DSCP back."""
    for dscp in (24, 26):
        source, last = source_node(), sink_node()
        source.watch(marked_dscp=27)
        frame = roce(dscp=dscp)
        assert_restored(frame, last.send(source.send(frame, 11).frame, 1).frame, hops=2)


def test_own_hop_report_always_has_the_ingress_stamp() -> None:
    """The stamp joins both reports, so it is there even if the bitmap does not ask for it."""
    source, last = source_node(), sink_node()
    source.watch(bitmap=0x9000)
    sent = last.send(source.send(roce(), 11).frame, 1)
    report = sent.reports[1]
    report.check_lengths()
    assert report.bits == 0x1800
    assert report.metadata == expected_hop(last, sent, 0x1800, 1, 12, 1)


def test_longest_stack_is_removed_whole() -> None:
    """A stack of 252 words, the most that the shim can count, survives transit (M) and the sink."""
    first, second, last = source_node(), transit_node(), sink_node()
    first.watch(bitmap=0x8000, remaining_hop_count=255)
    one_hop = first.send(roce(), 11).frame
    words = bytes(range(252)) * 4
    grown = bytearray(one_hop[:58] + words + one_hop[62:])
    grown[43] = 255
    for offset in (16, 38):
        length = int.from_bytes(grown[offset : offset + 2], "big") + len(words) - 4
        grown[offset : offset + 2] = length.to_bytes(2, "big")
    grown[24:26] = bytes(2)
    grown[24:26] = (0xFFFF - ones_sum(bytes(grown[14:34]))).to_bytes(2, "big")
    after = second.send(bytes(grown), 1).frame
    assert IntStack.of(after[14:]).mtu_exceeded
    assert len(after) == len(grown)
    sent = last.send(after, 1)
    assert_restored(roce(), sent.frame, hops=3)
    stack_report = sent.reports[0]
    stack_report.check_lengths()
    assert stack_report.length_words == 255
    assert IntStack.of(stack_report.inner).words == words


def assert_restored(before: bytes, after: bytes, *, hops: int | None = None) -> None:
    """Equal but for MACs, TTL, ECN and IP checksum; the ICRC verifies if it did before."""
    assert len(after) == len(before)
    assert after[14] == before[14]
    assert after[15] >> 2 == before[15] >> 2
    assert after[16:22] == before[16:22]
    assert after[23] == before[23]
    assert after[26:] == before[26:]
    assert ones_sum(after[14:34]) == 0xFFFF
    if hops is not None:
        assert after[22] == before[22] - hops
    assert icrc(after) == after[34 + int.from_bytes(after[38:40], "big") - 4 :][:4]
