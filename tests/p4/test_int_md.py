# SPDX-License-Identifier: Apache-2.0
"""INT-MD v2.1 through the committed program: source, transit, sink."""

import pytest

from bmv2_lab.switch.state import exact_match
from tests.p4.dissect import expect_frame
from tests.p4.frames import roce
from tests.p4.harness import Node
from tests.p4.int_headers import DOMAIN_ID, IntStack, expected_hop, hop_words, int_md
from tests.p4.nodes import (
    HOST_PORT,
    LEAF_UPLINK,
    SINK_IN,
    SINK_PORT,
    SPINE_IN,
    SPINE_OUT,
    expect_restored,
    sink_node,
    source_node,
    transit_node,
    walk,
)
from tests.p4.reports import ExpectedReport
from tests.p4.rewrite import inserted, ip_packet, routed, with_class, with_udp_field
from tests.p4.wire import (
    Offsets,
    ip,
    refresh_ip,
    replaced,
    udp_checksum_is_right,
)

SHIM_AND_HEADER_BYTES = 16
UNSUPPORTED, NOT_STARTED = 6, 9
"""ingress_events."""
HOP_LIMIT, MTU, UNKNOWN, NO_ROOM = 0, 1, 2, 3
"""egress_events."""

FAMILY = pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
CHECKSUM = pytest.mark.parametrize("udp_checksum", [False, True], ids=["no sum", "UDP sum"])


@FAMILY
@CHECKSUM
def test_source_inserts_shim_header_and_its_own_hop(v6: bool, udp_checksum: bool) -> None:
    """The first switch adds shim, INT-MD header and one stack entry, and nothing else changes."""
    node = source_node()
    node.watch(remaining_hop_count=5)
    frame = roce(v6=v6, udp_checksum=udp_checksum)
    sent = node.send(frame, HOST_PORT)
    hop = expected_hop(node, sent, 0xFC00, HOST_PORT, LEAF_UPLINK, 1)
    data = int_md(hop, remaining_hop_count=4)
    expect_frame(sent.frame, inserted(routed(frame, LEAF_UPLINK), data, dscp=27))
    assert udp_checksum_is_right(sent.frame)
    assert sent.reports == []
    table = "int_watchlist_ipv6" if v6 else "int_watchlist"
    assert node.hits(table) == 1


@FAMILY
@CHECKSUM
def test_transit_pushes_on_top(v6: bool, udp_checksum: bool) -> None:
    """A later hop's entry stands before the older ones, and only length and hop count change."""
    path = [source_node(), transit_node()]
    path[0].watch(remaining_hop_count=5)
    frame = roce(v6=v6, udp_checksum=udp_checksum)
    first, second = walk(path, frame)
    stack = expected_hop(path[1], second, 0xFC00, SPINE_IN, SPINE_OUT, 1)
    stack += expected_hop(path[0], first, 0xFC00, HOST_PORT, LEAF_UPLINK, 1)
    data = int_md(stack, remaining_hop_count=3)
    plain = routed(routed(frame, LEAF_UPLINK), SPINE_OUT)
    expect_frame(second.frame, inserted(plain, data, dscp=27))
    assert udp_checksum_is_right(second.frame)
    assert second.reports == []


@FAMILY
def test_sink_reports_stack_and_own_hop_and_restores_the_packet(v6: bool) -> None:
    """Report A has the received stack, report B the sink's own hop; node and stamp join them."""
    path = [source_node(), transit_node(), sink_node()]
    path[0].watch()
    frame = roce(v6=v6, payload=bytes(range(200)))
    first, second, last = walk(path, frame)
    assert last.port == SINK_PORT
    expect_restored(frame, last.frame, hops=3)
    received, left = ip_packet(second.frame), ip_packet(last.frame)
    ports = SINK_IN << 16 | SINK_PORT
    stamp = last.ingress_tstamp.to_bytes(8, "big")
    path[2].expect_reports(
        last,
        ExpectedReport(
            hw_id=0,
            bits=0x4800,
            metadata=ports.to_bytes(4, "big") + stamp,
            inner=received,
            int_bytes=SHIM_AND_HEADER_BYTES + 64,
        ),
        ExpectedReport(
            bits=0x7C00,
            metadata=expected_hop(path[2], last, 0x7C00, SINK_IN, SINK_PORT, 1),
            inner=left,
        ),
    )
    inner = last.reports[0].inner
    start = Offsets.of(second.frame).payload - 14
    hops = inner[start + 16 : start + 16 + 64]
    assert hops[:32] == expected_hop(path[1], second, 0xFC00, SPINE_IN, SPINE_OUT, 1)
    assert hops[32:] == expected_hop(path[0], first, 0xFC00, HOST_PORT, LEAF_UPLINK, 1)


@pytest.mark.parametrize(
    "bitmap", [0x8000, 0xFF81, 0xFC00, 0x0C00, 0x0E00, 0x4001, 0x0380, 0xD000, 0x0001, 0x0200]
)
@pytest.mark.parametrize("interfaces", [False, True], ids=["no interfaces", "interfaces"])
def test_entry_follows_the_bitmap(bitmap: int, interfaces: bool) -> None:
    """Each instruction bit adds its value, in bit order; what is not available is all ones."""
    path = [source_node(), transit_node()]
    if interfaces:
        path[0].set_interface(HOST_PORT, 0x10011)
        path[1].set_interface(SPINE_IN, 0x20001)
        path[1].set_interface(SPINE_OUT, 0x20002)
    path[0].watch(bitmap=bitmap)
    first, second = walk(path, roce(udp_checksum=True))
    stack = expected_hop(path[1], second, bitmap, SPINE_IN, SPINE_OUT, 1)
    stack += expected_hop(path[0], first, bitmap, HOST_PORT, LEAF_UPLINK, 1)
    data = int_md(stack, bitmap=bitmap, remaining_hop_count=6)
    start = Offsets.of(second.frame).payload
    assert second.frame[start : start + len(data)] == data
    assert len(stack) == 8 * hop_words(bitmap)
    assert udp_checksum_is_right(second.frame)


@pytest.mark.parametrize("bitmap", [0x0040, 0xFC02, 0x807E, 0x0000])
def test_reserved_or_empty_bitmap_starts_int_without_an_entry(bitmap: int) -> None:
    """Reserved bits count in the hop length, nothing is pushed, the hop count stays as it is."""
    node = source_node()
    node.watch(bitmap=bitmap, remaining_hop_count=5)
    data = int_md(bitmap=bitmap, remaining_hop_count=5)
    out = node.send(roce(), HOST_PORT).frame
    expect_frame(out, inserted(routed(roce(), LEAF_UPLINK), data, dscp=27))
    assert node.egress_event(UNKNOWN) == 1


# ---- remaining hop count and MTU


@FAMILY
def test_hop_count_zero_sets_e_and_pushes_nothing(v6: bool) -> None:
    """The hop after the last allowed one sets E and changes nothing else."""
    first, second, third = source_node(), transit_node(), transit_node(102)
    first.watch(remaining_hop_count=1)
    before = first.send(roce(udp_checksum=True, v6=v6), HOST_PORT).frame
    after = second.send(before, SPINE_IN).frame
    word = IntStack.of(before).bits | 1 << 26
    assert word & 0xFF == 0
    expect_frame(after, with_udp_field(routed(before, SPINE_OUT), 4, word.to_bytes(4, "big")))
    assert second.egress_event(HOP_LIMIT) == 1
    again = third.send(after, SPINE_IN).frame
    expect_frame(again, routed(after, SPINE_OUT))


def test_source_with_hop_count_zero_sets_e() -> None:
    """A hop count of 0 in the entry lets nobody push, the source included."""
    node = source_node()
    node.watch(remaining_hop_count=0)
    stack = IntStack.of(node.send(roce(), HOST_PORT).frame)
    assert stack.words == b""
    assert stack.exceeded
    assert stack.remaining_hop_count == 0


@FAMILY
def test_entry_that_does_not_fit_the_mtu_sets_m(v6: bool) -> None:
    """The IP packet would exceed the egress MTU: push nothing, set M; one byte more and it fits."""
    first, second, exact = source_node(), transit_node(), transit_node(102)
    first.watch()
    before = first.send(roce(v6=v6), HOST_PORT).frame
    needed = len(before) - 14 + 32
    second.add("int_egress_mtu", [exact_match(SPINE_OUT)], "set_mtu", needed - 1)
    after = second.send(before, SPINE_IN).frame
    word = IntStack.of(before).bits | 1 << 25
    expect_frame(after, with_udp_field(routed(before, SPINE_OUT), 4, word.to_bytes(4, "big")))
    assert second.egress_event(MTU) == 1
    exact.add("int_egress_mtu", [exact_match(SPINE_OUT)], "set_mtu", needed)
    assert len(exact.send(before, SPINE_IN).frame) == len(before) + 32


@FAMILY
def test_source_with_room_for_the_header_alone_starts_int_with_m(v6: bool) -> None:
    """INT v2.1 lets the source start without its own entry; with less room it does not start."""
    frame = roce(v6=v6)
    room = len(frame) - 14 + SHIM_AND_HEADER_BYTES
    node = source_node()
    node.watch()
    node.add("int_egress_mtu", [exact_match(LEAF_UPLINK)], "set_mtu", room)
    data = int_md(flags=1)
    expect_frame(
        node.send(frame, HOST_PORT).frame, inserted(routed(frame, LEAF_UPLINK), data, dscp=27)
    )
    tight = source_node()
    tight.watch()
    tight.add("int_egress_mtu", [exact_match(LEAF_UPLINK)], "set_mtu", room - 1)
    expect_frame(tight.send(frame, HOST_PORT).frame, routed(frame, LEAF_UPLINK))
    assert tight.egress_event(NO_ROOM) == 1


def test_foreign_domain_metadata_passes_unchanged() -> None:
    """A hop length that the bitmap does not explain (domain metadata) makes the node skip INT."""
    first, second = source_node(), transit_node()
    first.watch()
    before = first.send(roce(), HOST_PORT).frame
    # hop_metadata_len_words: one word of domain metadata that we do not know
    before = replaced(before, Offsets.of(before).payload + 6, b"\x09")
    expect_frame(second.send(before, SPINE_IN).frame, routed(before, SPINE_OUT))
    assert second.egress_event(UNKNOWN) == 1


# ---- who starts INT, and on what


@FAMILY
def test_forged_int_from_a_host_stays_payload(v6: bool) -> None:
    """INT headers that a host made are never extended, reported or stripped: they are payload."""
    first = source_node()
    first.watch()
    forged = first.send(roce(v6=v6), HOST_PORT).frame
    edge = Node(3, host_ports=(HOST_PORT, SINK_PORT))
    edge.watch()
    edge.route("10.0.2.1", 32, SINK_PORT)
    edge.route("fd00:0:2::1", 128, SINK_PORT)
    sent = edge.send(forged, HOST_PORT)
    expect_frame(sent.frame, with_class(routed(forged, SINK_PORT), dscp=26))
    assert sent.reports == []
    assert edge.event(NOT_STARTED) == 1


def test_undeclared_odd_dscp_is_no_mark() -> None:
    """Only DSCP values in int_marked_dscp are marks; other odd ones pass as they are."""
    frame = roce(dscp=33)
    expect_frame(sink_node().send(frame, SINK_IN).frame, routed(frame, SINK_PORT))


def test_fabric_ports_do_not_start_int() -> None:
    """Only packets from listed edge ports become traced by MD."""
    node = source_node()
    node.watch()
    frame = roce()
    expect_frame(node.send(frame, 5).frame, routed(frame, LEAF_UPLINK))


@FAMILY
def test_sampling_by_psn_traces_only_matching_packets(v6: bool) -> None:
    """A ternary match on the PSN's low bits picks one packet in 2^n, alike on every switch."""
    node = source_node()
    node.watch(roce_psn=(0, 0x3))
    frames = [roce(psn=psn, v6=v6) for psn in range(8)]
    grown = [len(node.send(frame, HOST_PORT).frame) - len(frame) for frame in frames]
    assert grown == [48, 0, 0, 0, 48, 0, 0, 0]


def test_fragments_are_never_marked() -> None:
    """Inserting into a fragment would break reassembly, so fragments stay as they are."""
    node = source_node()
    node.watch()
    for flags_and_offset in (b"\x20\x00", b"\x00\x10"):
        frame = refresh_ip(replaced(roce(), 20, flags_and_offset))
        expect_frame(node.send(frame, HOST_PORT).frame, routed(frame, LEAF_UPLINK))
    assert node.event(NOT_STARTED) == 2


def test_exempt_entry_wins_by_priority() -> None:
    """An exempt flow is not traced although another entry names it."""
    node = source_node()
    node.watch()
    node.exempt(dst_addr=(ip("10.0.2.1"), 0xFFFFFFFF))
    node.exempt(dst_addr=(ip("fd00:0:2::1"), (1 << 128) - 1))
    for v6 in (False, True):
        frame = roce(v6=v6)
        expect_frame(node.send(frame, HOST_PORT).frame, routed(frame, LEAF_UPLINK))


def test_node_without_configuration_neither_pushes_nor_reports() -> None:
    """A switch whose controller has not named it forwards and stays silent."""
    node = source_node()
    node.watch()
    node.set_default("int_node", "NoAction")
    frame = roce()
    expect_frame(node.send(frame, HOST_PORT).frame, routed(frame, LEAF_UPLINK))


def test_one_entry_has_its_bitmap_mark_and_hop_count() -> None:
    """Instructions are per watchlist entry: each class its own bitmap and its own mark."""
    node = source_node()
    node.watch(bitmap=0x8C00, marked_dscp=27, remaining_hop_count=9, dscp=(26, 0x3F), priority=2)
    node.watch(bitmap=0xC000, marked_dscp=47, remaining_hop_count=3, dscp=(46, 0x3F), priority=1)
    for dscp, bitmap, marked, count in ((26, 0x8C00, 27, 8), (46, 0xC000, 47, 2)):
        frame = roce(dscp=dscp)
        sent = node.send(frame, HOST_PORT)
        hop = expected_hop(node, sent, bitmap, HOST_PORT, LEAF_UPLINK, dscp // 20)
        data = int_md(hop, bitmap=bitmap, dscp=dscp, remaining_hop_count=count)
        expect_frame(sent.frame, inserted(routed(frame, LEAF_UPLINK), data, dscp=marked))


def test_domain_id_of_the_header_is_that_of_the_source() -> None:
    """The sink's own report names the domain of the packet's header."""
    path = [source_node(), sink_node()]
    path[0].watch()
    last = walk(path, roce())[-1]
    assert [report.domain_id for report in last.reports] == [DOMAIN_ID, DOMAIN_ID]


# ---- UDP checksum


@FAMILY
def test_wrong_udp_checksum_comes_back_as_it_was(v6: bool) -> None:
    """Incremental updates invert exactly for every checksum but 0: corruption is not repaired."""
    path = [source_node(), transit_node(0xFFFFFFFE), sink_node()]
    path[0].watch()
    for checksum in (1, 0x1234, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF):
        frame = roce(v6=v6)
        frame = replaced(frame, Offsets.of(frame).l4 + 6, checksum.to_bytes(2, "big"))
        sent = walk(path, frame)
        for step in sent:
            assert step.frame[Offsets.of(frame).l4 + 6 :][:2] != b"\0\0"
        expect_restored(frame, sent[-1].frame, hops=3)


@pytest.mark.parametrize("through", [1, 2], ids=["source", "source and transit"])
def test_checksum_never_becomes_zero_on_the_way(through: int) -> None:
    """A sum of zero is written as 0xFFFF, since 0 would say that there is no checksum."""

    def carried(checksum: int) -> tuple[int, bytes]:
        frame = replaced(roce(), 40, checksum.to_bytes(2, "big"))
        path = [source_node(), transit_node()]
        path[0].watch()
        out = walk(path[:through], frame)[-1].frame
        return int.from_bytes(out[40:42], "big"), out

    start = 0x1234
    change = start - carried(start)[0]
    checksum = change % 0xFFFF or 0xFFFF
    value, out = carried(checksum)
    assert value == 0xFFFF
    restored = sink_node().send(out, SINK_IN).frame
    assert int.from_bytes(restored[40:42], "big") == checksum
