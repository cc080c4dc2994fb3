# SPDX-License-Identifier: Apache-2.0
"""Every report format and dialect: what is encoded is decoded; whatever arrives is no surprise."""

import tracemalloc
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.telemetry.codec import DecodeError
from controller.telemetry.collector import Collector
from controller.telemetry.datagram import wrap_link
from controller.telemetry.detect import detect_profiles
from controller.telemetry.formats import ReportHeader, claimed_node_id, decode_datagram
from controller.telemetry.int_headers_old import pushed_bitmap, stack_form_v1
from controller.telemetry.layout import REPORT_DROP
from controller.telemetry.metadata import (
    BITS_RESERVED,
    METADATA_FORMS,
    STACK_V05,
    STACK_V2,
    HopMetadata,
    decode_report_metadata,
    decode_stack_entry,
    encode_report_metadata,
    encode_stack_entry,
)
from controller.telemetry.packet import IntMarking
from controller.telemetry.profiles import DIALECTS, IntFormat, ReportFormat
from controller.telemetry.report_encode import ReportSpec, StackSpec, encode_mx, insert_int
from controller.telemetry.report_encode_old import encode_datagram, encode_int_stack
from tests.support.report_vectors import VECTORS
from tests.support.telemetry_reports import MARKED, UNMARKED, roce_packet, three_switch_fabric

_MARKING = IntMarking({MARKED: UNMARKED}, 5000)
_NOW_NS = 1_800_000_000_000_000_000
_V05 = [dialect for dialect in DIALECTS.values() if dialect.report_format is ReportFormat.V05]
_NAMES = sorted(DIALECTS)
_DATAGRAM_BYTES_MAX = 65_507
"""The longest UDP payload over IPv4."""


def _field(layout, row):
    """A report may hold two queue ids."""
    return "drop_queue_id" if layout is REPORT_DROP and row.name == "queue_id" else row.name


def _hops(bitmap, form):
    """Values for the bits of a bitmap, none of them such that they count as not available."""
    rows = [
        (layout, row)
        for wire_bit, layout, bit in form.items
        if bitmap & wire_bit and not bit & BITS_RESERVED
        for row in layout.fields
        if row.name != "reserved"
    ]
    fields = {_field(layout, row): st.integers(1, row.value_max - 1) for layout, row in rows}
    return st.fixed_dictionaries(fields).map(lambda values: HopMetadata(**values))


@given(st.sampled_from(METADATA_FORMS), st.data())
@settings(deadline=None)
def test_decoding_inverts_encoding_of_any_bitmap(form, data):
    """Every form of hop values, with domain specific words where there is a place for them."""
    bits = sum(item.wire_bit for item in form.items)
    bitmap = data.draw(st.integers(0, bits).map(lambda value: value & bits))
    extra = data.draw(st.binary(max_size=3).map(lambda word: word * 4))
    hop = data.draw(_hops(bitmap, form))._replace(domain_specific=extra)
    is_stack = form.name.startswith("stack")
    encoder, decoder = (
        (encode_stack_entry, decode_stack_entry)
        if is_stack
        else (encode_report_metadata, decode_report_metadata)
    )
    wire = encoder(bitmap, hop, form)
    assert len(wire) == form.words(bitmap) * 4 + len(extra)
    assert decoder(bitmap, len(extra) // 4, wire, 0, form) == hop


def _stack_form(dialect):
    if dialect.int_format is IntFormat.V1:
        return stack_form_v1(dialect)
    return STACK_V2 if dialect.int_format is IntFormat.V2 else STACK_V05


def _inner(dialect, data, hops, bitmap):
    """A RoCEv2 packet with the stack in the dialect's form, or its node's values behind MX."""
    if dialect.mx_values_follow:
        headers = encode_mx(
            instruction_bitmap=bitmap,
            original_dscp=UNMARKED,
            node_values=hops[0] if hops else None,
            dialect=dialect,
        )
    else:
        domain_specific = dialect.source_only_words and hops
        spec = StackSpec(
            hops=hops,
            instruction_bitmap=bitmap,
            npt_value=UNMARKED << 2,
            original_dst_port=4791,
            domain_specific_id=0x5453 if domain_specific else 0,
            ds_instruction=0x8000 if domain_specific else 0,
            source_only=bytes(dialect.source_only_words * 4) if domain_specific else b"",
        )
        headers = encode_int_stack(spec, dialect)
    psn = data.draw(st.integers(0, 2**24 - 1))
    packet = insert_int(roce_packet(psn=psn), headers, marked_dscp=MARKED)
    return psn, wrap_link(packet, src_mac=1, dst_mac=2, ether_type=0x0800)


@pytest.mark.parametrize("name", _NAMES)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_decoding_inverts_encoding_in_every_dialect(name, data):
    """Sender, number, own values, any stack: group header to PSN."""
    dialect = DIALECTS[name]
    form = _stack_form(dialect)
    bitmap = 0x8000 | data.draw(st.integers(0, 0x7F)) << 8
    pushed = pushed_bitmap(bitmap, dialect)
    hops = data.draw(st.lists(_hops(pushed, form), min_size=1, max_size=4).map(tuple))
    if dialect.hop_latency_factor != 1:
        hops = tuple(
            hop._replace(hop_latency=hop.hop_latency and hop.hop_latency * 1000) for hop in hops
        )
    psn, inner = _inner(dialect, data, hops, bitmap)
    node_id = hops[-1].node_id
    own = HopMetadata()
    if not dialect.report_tstamp_ignored and dialect.report_format is not ReportFormat.V2:
        own = own._replace(ingress_tstamp=data.draw(st.integers(1, 2**32 - 2)))
    number = data.draw(st.integers(0, 2**dialect.sequence_bits - 1))
    hw_id = data.draw(st.integers(0, 15))
    spec = ReportSpec(inner=inner, inner_type=3, metadata=own)
    if dialect.metadata_words_fixed is not None:
        own = own._replace(domain_specific=data.draw(st.binary(min_size=4, max_size=4)))
        spec = replace(spec, metadata=own)
    wire = encode_datagram(
        node_id=node_id, hw_id=hw_id, sequence_number=number, reports=[spec], dialect=dialect
    )
    assert claimed_node_id(wire, 0, _MARKING, _V05) == node_id
    header, (report,) = decode_datagram(wire, 0, _MARKING, dialect)
    assert header == ReportHeader(node_id, hw_id, number)
    assert report.packet.key.psn == psn
    assert report.packet.dscp == UNMARKED
    if dialect.mx_values_follow:
        assert report.metadata == hops[0]
        return
    assert report.metadata == (own if dialect.individual_header else None)
    assert report.packet.wire_bytes == 118
    clone_fields = dict.fromkeys(dialect.sink_entry_clone_fields)
    sink = HopMetadata(**(hops[-1]._asdict() | clone_fields))
    assert report.packet.stack.hops == (*hops[:-1], sink)


def _decode_all(data, dialect):
    """Everything that looks at a payload before or after its dialect is known."""
    with suppress(DecodeError):
        claimed_node_id(data, 0, _MARKING, _V05)
    with suppress(DecodeError):
        decode_datagram(data, 0, _MARKING, dialect)


@given(st.binary(max_size=300), st.sampled_from(_NAMES), st.integers(0, 2))
@settings(max_examples=400, deadline=None)
def test_noise_raises_nothing_but_a_decode_error(noise, name, version):
    """Of any version, under any dialect."""
    _decode_all(noise, DIALECTS[name])
    _decode_all(bytes([version << 4 | 4]) + noise, DIALECTS[name])


_DAMAGE = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=6)


@given(st.sampled_from(VECTORS), st.sampled_from(_NAMES), _DAMAGE, st.integers(0, 300))
@settings(max_examples=500, deadline=None)
def test_damaged_reports_raise_nothing_but_a_decode_error(vector, name, damage, end):
    """Reports of every sender, bytes changed and the end cut, under every dialect."""
    changed = bytearray(vector.wire)
    for offset, value in damage:
        changed[offset % len(changed)] = value
    _decode_all(bytes(changed[:end]), DIALECTS[name])


@given(st.sampled_from(VECTORS), st.sampled_from(_NAMES), _DAMAGE, st.integers(0, 300))
@settings(max_examples=200, deadline=None)
def test_the_collector_takes_or_counts_any_datagram(vector, name, damage, end):
    """Whatever its nodes speak: the books balance, and what was refused can be asked about."""
    fabric = three_switch_fabric(stamp_width_bits=64)
    nodes = {n: replace(node, dialect=DIALECTS[name]) for n, node in fabric.nodes.items()}
    fabric = replace(fabric, nodes=nodes)
    changed = bytearray(vector.wire)
    for offset, value in damage:
        changed[offset % len(changed)] = value
    collector = Collector(fabric)
    collector.feed_payload(vector.wire, _NOW_NS)
    collector.feed_payload(bytes(changed[:end]), _NOW_NS)
    counters = collector.flush().counters
    accounted = counters.decoded + counters.duplicates + counters.replicas + counters.rejected_total
    assert accounted == counters.received == 2
    samples = collector.rejected_samples
    assert sum(map(len, samples.values())) == counters.rejected_total
    for payloads in samples.values():
        assert all(match.decoded <= match.of for match in detect_profiles(payloads, fabric))


_WORST = {
    "empty reports": b"\x20"
    + bytes(7)
    + bytes.fromhex("00000080") * (_DATAGRAM_BYTES_MAX // 4 - 2),
    "empty TLVs": b"\x20" + bytes(7) + b"\x01\xff\x00\x20" + bytes(_DATAGRAM_BYTES_MAX - 12),
    "v1.0": b"\x14\x00\x00\x40" + bytes(_DATAGRAM_BYTES_MAX - 4),
    "v0.5": b"\x02\x20" + bytes(_DATAGRAM_BYTES_MAX - 2),
    "noise": bytes(range(256)) * (_DATAGRAM_BYTES_MAX // 256),
}


@pytest.mark.parametrize("payload", _WORST.values(), ids=_WORST)
def test_the_longest_datagram_takes_little_memory(payload):
    """As many reports or TLVs as fit: at most 200 bytes of memory for each of its bytes."""
    tracemalloc.start()
    try:
        for name in ("tempotrace-v2", "telemetry-report-v1.0", "telemetry-report-v0.5"):
            tracemalloc.reset_peak()
            before, _peak = tracemalloc.get_traced_memory()
            _decode_all(payload, DIALECTS[name])
            _now, peak = tracemalloc.get_traced_memory()
            assert peak - before < 200 * _DATAGRAM_BYTES_MAX
    finally:
        tracemalloc.stop()
