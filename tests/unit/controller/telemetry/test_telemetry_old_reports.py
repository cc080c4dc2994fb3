# SPDX-License-Identifier: Apache-2.0
"""Reports of old standards and of other dialects in the collector: joined and accounted for."""

from dataclasses import replace

import pytest

from controller.telemetry.codec import DecodeReason
from controller.telemetry.collector import UNKNOWN_DESTINATION, Collector, SenderKey
from controller.telemetry.datagram import UDP, wrap_link
from controller.telemetry.layout import IPV4
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.profiles import DIALECTS, STANDARD
from controller.telemetry.report_encode import ReportSpec, StackSpec, insert_int
from controller.telemetry.report_encode_old import encode_datagram, encode_int_stack
from correction.records import NO_TSTAMP_NS
from tests.support.report_vectors import (
    GEANT_BMV2,
    MANDARYOSHI_MX_TRANSIT,
    V05_STACK,
    V1_STACK,
    VECTORS,
)
from tests.support.telemetry_reports import (
    LEAF1,
    LEAF2,
    MARKED,
    PATH_HOPS,
    SINK_HOP,
    SOURCE_HOP,
    SPINE,
    TRANSIT_HOP,
    UNMARKED,
    report_frame,
    roce_packet,
    three_switch_fabric,
)

_NOW_NS = 1_800_000_000_000_000_000
_V1 = DIALECTS["telemetry-report-v1.0"]
_V05 = DIALECTS["telemetry-report-v0.5"]


def _fabric(*dialects, **options):
    """All nodes speak the first dialect, the spine the second if there is one."""
    fabric = three_switch_fabric(**{"stamp_width_bits": 32} | options)
    nodes = {
        node_id: replace(node, dialect=dialects[-1 if node_id == SPINE else 0])
        for node_id, node in fabric.nodes.items()
    }
    return replace(fabric, nodes=nodes, int_udp_port=5000)


def _frame(packet):
    return wrap_link(packet, src_mac=0x020000000101, dst_mac=0x020000000201, ether_type=0x0800)


def _postcard(node_id, values, *, dialect, sequence_number=0, psn=1):
    """A report of one node about a RoCEv2 packet that it leaves alone."""
    spec = ReportSpec(
        inner=_frame(roce_packet(psn=psn)[:64]),
        inner_type=3,
        metadata_bits=0x3C if dialect is _V1 else 0x7C00,
        metadata=values._replace(node_id=None),
    )
    return encode_datagram(
        node_id=node_id, hw_id=1, sequence_number=sequence_number, reports=[spec], dialect=dialect
    )


def _stack_report(dialect, *, hops=(SOURCE_HOP, TRANSIT_HOP), values=SINK_HOP, bits=0x3C):
    """The sink's report of a received stack."""
    spec = StackSpec(hops=hops, instruction_bitmap=0xFC00, npt_value=UNMARKED << 2)
    spec = replace(spec, original_dst_port=4791)
    packet = insert_int(roce_packet(), encode_int_stack(spec, dialect), marked_dscp=MARKED)
    report = ReportSpec(inner=_frame(packet), inner_type=3, metadata_bits=bits, metadata=values)
    return encode_datagram(
        node_id=LEAF2, hw_id=0, sequence_number=1, reports=[report], dialect=dialect
    )


def _collect(fabric, payloads):
    collector = Collector(fabric)
    for k, payload in enumerate(payloads):
        collector.feed_payload(payload, _NOW_NS + k)
    return collector.flush()


def _stamps(collection):
    hops = collection.hops
    names = ("node_id", "ingress_tstamp_local_ns", "egress_tstamp_local_ns")
    return list(zip(*(hops[name].tolist() for name in names), strict=True))


_PATH_STAMPS = [
    (LEAF1, 1_000_000, 1_000_500),
    (SPINE, 7_000_000, 7_000_700),
    (LEAF2, 3_000_000, 3_000_900),
]


@pytest.mark.parametrize("dialect", [_V1, _V05], ids=["v1.0", "v0.5"])
def test_postcards_of_old_reports_are_joined_to_a_path(dialect):
    """The stamp of the fixed header is the node's ingress stamp."""
    payloads = [_postcard(node_id, values, dialect=dialect) for node_id, values in PATH_HOPS]
    collection = _collect(_fabric(dialect), payloads)
    assert collection.counters.decoded == 3
    assert collection.packets["complete"].tolist() == [True]
    assert _stamps(collection) == _PATH_STAMPS
    assert collection.hops["queue_depth"].tolist() == [5, 5, 5]


def test_postcards_of_different_standards_are_joined():
    """Devices of one fabric may speak different ones."""
    payloads = [
        _postcard(node_id, values, dialect=STANDARD if node_id == SPINE else _V05)
        for node_id, values in PATH_HOPS
    ]
    collection = _collect(_fabric(_V05, STANDARD), payloads)
    assert collection.packets["complete"].tolist() == [True]
    assert _stamps(collection) == _PATH_STAMPS


def test_a_v1_report_gives_the_sinks_hop_and_the_stack_the_others():
    """Frame lengths: shim and header are 12 bytes, an entry is 24."""
    collection = _collect(_fabric(_V1), [_stack_report(_V1)])
    assert collection.packets["complete"].tolist() == [True]
    assert _stamps(collection) == _PATH_STAMPS
    assert collection.hops["ingress_bytes"].tolist() == [118, 118 + 12 + 24, 118 + 12 + 48]
    assert collection.hops["egress_bytes"].tolist() == [118 + 12 + 24, 118 + 12 + 48, 118]


@pytest.mark.parametrize("dialect", [_V1, _V05], ids=["v1.0", "v0.5"])
def test_a_sink_that_has_pushed_onto_the_stack_is_not_counted_twice(dialect):
    """Its entry has the ingress stamp of the report; in v0.5 it also says who reports."""
    sink = SINK_HOP._replace(node_id=LEAF2)
    own = HopMetadata(ingress_tstamp=SINK_HOP.ingress_tstamp)
    payload = _stack_report(dialect, hops=(SOURCE_HOP, TRANSIT_HOP, sink), values=own, bits=0)
    collection = _collect(_fabric(dialect), [payload])
    assert collection.packets["complete"].tolist() == [True]
    assert _stamps(collection) == _PATH_STAMPS
    assert list(collection.counters.senders) == [SenderKey(LEAF2, 0, UNKNOWN_DESTINATION)]


def test_stamps_in_microseconds_become_nanoseconds():
    """BMv2 senders put microseconds where the standard says nanoseconds: the model declares it."""
    payload = _stack_report(_V1)
    collection = _collect(_fabric(_V1, stamp_unit_ns=1000), [payload])
    assert _stamps(collection) == [
        (node_id, ingress * 1000, egress * 1000) for node_id, ingress, egress in _PATH_STAMPS
    ]


def test_a_clones_values_reach_no_estimator():
    """GEANT on BMv2: of the sink's hop the ingress stamp is left, and the path is incomplete."""
    collection = _collect(_fabric(DIALECTS["geant-bmv2"], stamp_width_bits=64), [GEANT_BMV2.wire])
    assert collection.counters.decoded == 1
    assert collection.packets["complete"].tolist() == [False]
    assert _stamps(collection) == [
        (LEAF1, 1_000_000, 1_500_000),
        (SPINE, 7_000_000, 7_700_000),
        (LEAF2, 3_000_000, NO_TSTAMP_NS),
    ]


def test_sequence_numbers_of_32_bits_wrap():
    """2^32 - 2, then 1: two of the four numbers in between are lost."""
    numbers = (2**32 - 2, 2**32 - 1, 1, 2)
    payloads = [
        _postcard(SPINE, TRANSIT_HOP, dialect=_V1, sequence_number=number, psn=number % 2**24)
        for number in numbers
    ]
    counters = _collect(_fabric(_V1), payloads).counters
    assert (counters.decoded, counters.lost, counters.unconfirmed) == (4, 1, 0)


def test_a_constant_sequence_number_is_no_loss_and_no_duplication():
    """The sender never advances it: nothing is accounted for."""
    wire = MANDARYOSHI_MX_TRANSIT.wire
    payloads = [wire[:-1] + bytes([psn]) for psn in range(5)]
    counters = _collect(_fabric(DIALECTS["mandaryoshi-int-mx"], stamp_width_bits=48), payloads)
    counters = counters.counters
    assert (counters.decoded, counters.duplicates, counters.lost) == (5, 0, 0)
    assert counters.senders == {}


def test_a_report_behind_its_ip_length_is_read_from_a_captured_frame():
    """The sender's IP and UDP lengths stop 54 bytes early: a socket would lose the values."""
    wire = MANDARYOSHI_MX_TRANSIT.wire
    frame = report_frame(wire[:-54]) + wire[-54:]
    fabric = _fabric(DIALECTS["mandaryoshi-int-mx"], stamp_width_bits=48)
    collector = Collector(fabric)
    collector.feed(frame, _NOW_NS)
    assert collector.counters.decoded == 1
    collector.feed_payload(wire[:-54], _NOW_NS)
    assert collector.counters.rejected == {DecodeReason.TRUNCATED: 1}
    standard = Collector(_fabric(_V1))
    standard.feed(report_frame(V1_STACK.wire[:-2]) + V1_STACK.wire[-2:], _NOW_NS)
    assert standard.counters.rejected == {DecodeReason.TRUNCATED: 1}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_every_cut_report_is_a_counted_rejection(vector):
    """In the collector of a fabric that declares the sender's dialect."""
    collector = Collector(_fabric(DIALECTS[vector.dialect], stamp_width_bits=64))
    wire = vector.wire
    ends = range(len(wire) - vector.extra_bytes)
    for end in ends:
        collector.feed_payload(wire[:end], _NOW_NS)
    counters = collector.counters
    assert (counters.received, counters.rejected_total) == (len(ends), len(ends))
    collector.feed_payload(wire, _NOW_NS)
    assert collector.counters.decoded == 1


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
def test_a_report_of_another_version_is_refused_by_its_version(vector):
    """Under a dialect of another first nibble; a v0.5 report names its sender elsewhere."""
    wire = vector.wire
    version = wire[0] >> 4
    for name in ("tempotrace-v2", "telemetry-report-v1.0"):
        if DIALECTS[name].report_version == version:
            continue
        collector = Collector(_fabric(DIALECTS[name]))
        collector.feed_payload(wire, _NOW_NS)
        assert collector.counters.rejected == {DecodeReason.REPORT_VERSION: 1}


def test_a_stack_report_without_a_stack_names_nobody_in_v05():
    """NProto 0 without INT: the datagram does not say who sent it."""
    wire = V05_STACK.wire
    start = wire.index(bytes.fromhex("01001600"))
    plain = bytearray(wire[:start] + wire[-12:])
    plain[12 + 14 + 1] = UNMARKED << 2
    assert len(plain) == 12 + 14 + IPV4.byte_count + UDP.byte_count + 12
    counters = _collect(_fabric(_V05), [bytes(plain)]).counters
    assert counters.rejected == {DecodeReason.UNKNOWN_NODE: 1}
