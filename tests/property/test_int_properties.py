# SPDX-License-Identifier: Apache-2.0
"""INT over random RoCEv2 packets: neutral to the receiver, exact to the collector.

The packets are made and compared by the table tests' own code; only the last step, from a report
to values, is the product's decoder, which is what it is compared with.
"""

import functools
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmv2_lab.switch.state import exact_match
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.packet import IntMarking
from controller.telemetry.report import Report, decode_group, decode_reports
from tests.p4.dissect import expect_frame
from tests.p4.frames import aeth, reth, roce
from tests.p4.harness import Node, Sent
from tests.p4.int_headers import IntStack, expected_hop, hop_words
from tests.p4.reports import ReportBytes
from tests.p4.rewrite import routed, with_class
from tests.p4.wire import icrc_is_right, ip_checksum_is_right, replaced, udp_checksum_is_right

pytestmark = pytest.mark.usefixtures("mirrored")

HOPS_MAX = 8
HOST_PORT, FABRIC_PORT, SINK_PORT = 11, 7, 12
UPLINKS = (1, 2, 3, 4)
MARKED = {26: 27, 46: 47, 0: 1}
"""DSCP of each class -> its marked DSCP."""
QUEUES = {26: 1, 46: 2, 0: 0}
MARKING = IntMarking({marked: plain for plain, marked in MARKED.items()})
CE_DEPTH = 1000
AVAILABLE, UNAVAILABLE, RESERVED = 0xFC00, 0x0381, 0x007E
"""Instruction bits of this program without level 2 interfaces."""
WATCHLISTS = ("int_watchlist", "int_watchlist_ipv6")


@dataclass(frozen=True)
class Hop:
    """What one switch goes through while it has the packet."""

    at: int
    residence: int
    queue_depth: int


hops = st.builds(
    Hop,
    at=st.integers(1, (1 << 48) - (1 << 32)),
    residence=st.integers(0, (1 << 32) - 2),
    queue_depth=st.one_of(st.integers(0, 2 * CE_DEPTH), st.integers(0, (1 << 19) - 1)),
)
extended_headers = st.one_of(
    st.just(b""),
    st.builds(reth, st.integers(0, (1 << 64) - 1)),
    st.builds(aeth, st.integers(0, 255)),
    st.just(bytes(16)),
)
frames = st.builds(
    roce,
    v6=st.booleans(),
    opcode=st.integers(0, 255),
    psn=st.integers(0, (1 << 24) - 1),
    dest_qp=st.integers(0, (1 << 24) - 1),
    extended=extended_headers,
    payload=st.binary(max_size=200),
    sport=st.integers(0, 0xFFFF),
    udp_checksum=st.booleans(),
    ecn=st.integers(0, 3),
    dscp=st.sampled_from(sorted(MARKED)),
    flow_label=st.integers(0, 0xFFFFF),
    ttl=st.integers(HOPS_MAX + 1, 255),
)
bitmaps = st.one_of(
    st.just(0xFC00), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF).map(lambda b: b & ~RESERVED)
)


def ecmp_node(node_id: int, tier: int, host_ports: tuple[int, ...] = ()) -> Node:
    """A switch with four uplinks, which marks ECN."""
    node = Node(node_id, host_ports=host_ports)
    node.set_default("ecmp_config", "set_ecmp_config", tier, 0, 0)
    node.route("10.0.2.0", 24, *UPLINKS)
    node.route("fd00:0:2::", 48, *UPLINKS)
    for queue in QUEUES.values():
        node.add("ecn_config", [exact_match(queue)], "set_ecn_threshold", CE_DEPTH)
    return node


@functools.cache
def fabric() -> list[Node]:
    """Source leaf, transit switches, sink leaf."""
    source = ecmp_node(1, 0, host_ports=(HOST_PORT,))
    transits = [ecmp_node(100 + number, number) for number in range(1, HOPS_MAX - 1)]
    sink = ecmp_node(2, 0, host_ports=(HOST_PORT, SINK_PORT))
    sink.route("10.0.2.1", 32, SINK_PORT)
    sink.route("fd00:0:2::1", 128, SINK_PORT)
    return [source, *transits, sink]


def path_of(hop_count: int) -> list[Node]:
    """The switches of a path; of one hop: source and sink in one."""
    nodes = fabric()
    return [*nodes[: hop_count - 1], nodes[-1]]


def watch(path: list[Node], mode: str, bitmap: int, remaining_hop_count: int, dscp: int) -> None:
    """Trace in one mode from now on, in no other."""
    for node in fabric():
        node.clear(*WATCHLISTS)
    match mode:
        case "md":
            path[0].watch(
                bitmap=bitmap, remaining_hop_count=remaining_hop_count, marked_dscp=MARKED[dscp]
            )
        case "mx":
            path[0].watch_mx(bitmap=bitmap, marked_dscp=MARKED[dscp])
        case "xd":
            for node in path:
                node.watch_xd(bits=bitmap)


def walk(path: list[Node], frame: bytes, at: list[Hop]) -> list[Sent]:
    """Send a frame through the path; each switch has the given time, depth and residence."""
    steps = []
    for number, (node, hop) in enumerate(zip(path, at, strict=False)):
        node.queue_depth = hop.queue_depth
        steps.append(node.send(frame, _ingress_port(number), at=hop.at, residence=hop.residence))
        frame = steps[-1].frame
    return steps


def decoded(report: ReportBytes) -> Report:
    """What the product reads from a report's UDP payload."""
    payload = report.frame[report.at.payload :]
    assert decode_group(payload, 0).node_id == report.node_id
    (one,) = decode_reports(payload, 8, MARKING)
    return one


def expected_values(
    node: Node, sent: Sent, hop: Hop, bits: int, number: int, dscp: int
) -> HopMetadata:
    """What the decoder must say about one hop."""
    found = HopMetadata(unavailable_bits=bits & UNAVAILABLE)
    if bits & 0x8000:
        found = found._replace(node_id=node.node_id)
    if bits & 0x4000:
        found = found._replace(ingress_port=_ingress_port(number), egress_port=sent.port)
    if bits & 0x2000:
        found = found._replace(hop_latency=hop.residence)
    if bits & 0x1000:
        found = found._replace(queue_id=QUEUES[dscp], queue_depth=hop.queue_depth)
    if bits & 0x0800:
        found = found._replace(ingress_tstamp=hop.at)
    if bits & 0x0400:
        found = found._replace(egress_tstamp=hop.at + hop.residence)
    return found


@settings(max_examples=400, deadline=None)
@given(
    frame=frames,
    bitmap=bitmaps,
    mode=st.sampled_from(["md", "md", "mx", "xd"]),
    remaining_hop_count=st.integers(0, 10),
    at=st.lists(hops, min_size=1, max_size=HOPS_MAX),
)
def test_int_is_neutral_to_the_receiver_and_exact_to_the_collector(
    frame: bytes, bitmap: int, mode: str, remaining_hop_count: int, at: list[Hop]
) -> None:
    """Any packet, any instructions, 1 to 8 hops, all three modes.

    The ICRC verifies at the receiver; the received frame is the sent one but for MACs, TTL, ECN
    and IP checksum; every switch chooses the port that it chooses without INT; the stack has the
    newest hop first; the decoder returns exactly what each hop stamped.
    """
    path = path_of(len(at))
    dscp = _dscp(frame)
    watch(path, "none", 0, 0, dscp)
    plain = walk(path, frame, at)
    watch(path, mode, bitmap, remaining_hop_count, dscp)
    traced = walk(path, frame, at)

    out = traced[-1].frame
    ce = any(hop.queue_depth >= CE_DEPTH for hop in at) and _ecn(frame) != 0
    expected = with_class(routed(frame, SINK_PORT, hops=len(at)), ecn=3 if ce else None)
    expect_frame(out, replaced(expected, 6, out[6:12]))
    assert icrc_is_right(out)
    assert [step.port for step in traced] == [step.port for step in plain]
    for step in traced:
        assert udp_checksum_is_right(step.frame)
        assert ip_checksum_is_right(step.frame)

    match mode:
        case "md":
            check_md(path, traced, at, bitmap, remaining_hop_count, dscp)
        case "mx" | "xd":
            check_postcards(path, traced, at, bitmap, dscp)


def check_md(
    path: list[Node],
    sent: list[Sent],
    at: list[Hop],
    bitmap: int,
    remaining_hop_count: int,
    dscp: int,
) -> None:
    """Stack order on the wire, and both reports of the sink through the decoder."""
    last = len(path) - 1
    own_bits = bitmap & 0x7C00 | 0x0800
    own = expected_values(path[-1], sent[-1], at[-1], own_bits, last, dscp)
    if len(path) == 1:
        (own_report,) = map(decoded, sent[0].reports)
        assert own_report.metadata == own
        return
    pushes = hop_words(bitmap) > 0 and not bitmap & RESERVED
    pushed = min(remaining_hop_count, last) if pushes else 0
    steps = range(pushed)
    stack = IntStack.of(sent[-2].frame)
    assert stack.hops() == [
        expected_hop(path[i], sent[i], bitmap, _ingress_port(i), sent[i].port, QUEUES[dscp])
        for i in reversed(steps)
    ]
    stack_report, own_report = map(decoded, sent[-1].reports)
    assert own_report.metadata == own
    assert stack_report.metadata is not None
    assert stack_report.metadata.ingress_tstamp == at[-1].at
    assert stack_report.packet.stack is not None
    found = stack_report.packet.stack
    assert (
        found.hops
        == tuple(expected_values(path[i], sent[i], at[i], bitmap, i, dscp) for i in steps)
        or not pushed
    )
    assert len(found.hops) == pushed
    if pushes:
        assert found.max_hop_count_exceeded == (remaining_hop_count < last)
    assert stack_report.packet.dscp == own_report.packet.dscp == dscp
    assert stack_report.packet.key == own_report.packet.key
    assert stack_report.packet.wire_bytes == own_report.packet.wire_bytes


def check_postcards(
    path: list[Node], sent: list[Sent], at: list[Hop], bitmap: int, dscp: int
) -> None:
    """Every hop's postcard through the decoder."""
    bits = bitmap & 0x7C00
    keys = set()
    for number, (node, step, hop) in enumerate(zip(path, sent, at, strict=True)):
        assert len(step.reports) == (bits != 0)
        for report in map(decoded, step.reports):
            assert report.metadata == expected_values(node, step, hop, bits, number, dscp)
            assert report.packet.dscp == dscp
            keys.add((report.packet.key, report.packet.wire_bytes))
    assert len(keys) == (bits != 0)


def _ingress_port(number: int) -> int:
    """Where a packet comes in: from the host at the first switch, from the fabric after that."""
    return FABRIC_PORT if number else HOST_PORT


def _class_byte(frame: bytes) -> int:
    return (frame[14] & 15) << 4 | frame[15] >> 4 if frame[14] >> 4 == 6 else frame[15]


def _dscp(frame: bytes) -> int:
    return _class_byte(frame) >> 2


def _ecn(frame: bytes) -> int:
    return _class_byte(frame) & 3
