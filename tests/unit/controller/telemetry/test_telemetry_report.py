# SPDX-License-Identifier: Apache-2.0
"""Report decoding: what is accepted, what it means, and why the rest is refused."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.telemetry.codec import DecodeError, DecodeReason, decode, encode
from controller.telemetry.dialect import DIALECTS, STANDARD, Dialect
from controller.telemetry.layout import IPV4, REPORT_GROUP, UDP
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.packet import TRAFFIC_OTHER, IntMarking, decode_packet
from controller.telemetry.report import IN_TYPE_ETHERNET, decode_group, decode_reports
from controller.telemetry.report_encode import (
    ReportSpec,
    StackSpec,
    encode_reports,
    encode_stack,
    insert_stack,
)
from correction.records import TRAFFIC_PTP, TRAFFIC_ROCE
from tests.support.telemetry_reports import (
    CLOCK_IDENTITY,
    FLOW,
    LEAF2,
    MARKED,
    POSTCARD_BITS,
    SINK_HOP,
    SOURCE_HOP,
    TRANSIT_HOP,
    UNMARKED,
    ptp_postcard,
    roce_packet,
    sink_postcard,
    stack_report,
)

_MARKING = IntMarking({MARKED: UNMARKED})


def _payload(*specs, sequence_number=5):
    return encode_reports(node_id=LEAF2, hw_id=1, sequence_number=sequence_number, reports=specs)


def _decode(payload, marking=_MARKING, dialect=STANDARD):
    decode_group(payload, 0, dialect)
    return decode_reports(payload, REPORT_GROUP.byte_count, marking, dialect)


def _reason(payload, **options):
    with pytest.raises(DecodeError) as caught:
        _decode(payload, **options)
    assert 0 <= caught.value.offset <= len(payload)
    return caught.value.reason


def _patched(payload, offset, *values):
    changed = bytearray(payload)
    changed[offset : offset + len(values)] = values
    return bytes(changed)


def test_a_stack_report_gives_path_flow_and_original_length():
    """Hops source first, marking undone, INT's bytes not counted as the packet's."""
    (report,) = _decode(_payload(stack_report(psn=77)))
    packet = report.packet
    assert packet.stack is not None
    assert packet.stack.hops == (SOURCE_HOP, TRANSIT_HOP)
    assert (packet.stack.hop_metadata_bytes, packet.stack.source_bytes) == (32, 16)
    assert packet.key[:6] == (TRAFFIC_ROCE, FLOW.src_ip, FLOW.dst_ip, 17, FLOW.src_port, 4791)
    assert (packet.key.bth_opcode, packet.key.dest_qp, packet.key.psn) == (4, FLOW.dest_qp, 77)
    assert packet.dscp == UNMARKED
    assert packet.wire_bytes == 14 + len(roce_packet()) + 4 == 118
    assert report.metadata == HopMetadata(
        ingress_port=1, egress_port=11, ingress_tstamp=SINK_HOP.ingress_tstamp
    )
    assert report.tracked_flow


def test_the_sinks_postcard_has_the_same_key_and_its_own_hop():
    """The two reports of a packet are joined by exactly this."""
    (stack,) = _decode(_payload(stack_report(psn=5)))
    (postcard,) = _decode(_payload(sink_postcard(psn=5)))
    assert postcard.packet == stack.packet._replace(stack=None, int_bytes=0)
    assert postcard.metadata == SINK_HOP


def test_a_ptp_postcard_is_keyed_by_its_port_identity_and_sequence_id():
    """(domain, message type, source port identity, addresses, sequenceId)."""
    (report,) = _decode(_payload(ptp_postcard(SINK_HOP, sequence_id=0xBEEF)))
    key = report.packet.key
    assert key.traffic == TRAFFIC_PTP
    assert (key.ptp_domain, key.ptp_message_type, key.ptp_port_number) == (0, 0, 1)
    assert (key.ptp_clock_identity, key.ptp_sequence_id) == (CLOCK_IDENTITY, 0xBEEF)
    assert report.packet.wire_bytes == 90


def test_several_reports_share_a_datagram():
    """Each is found by the length of the one before; the last may end off a word."""
    specs = (sink_postcard(psn=1), stack_report(psn=2), replace(sink_postcard(psn=3)))
    payload = _payload(*specs) + b"\x01\x02\x03"
    assert [report.packet.key.psn for report in _decode(payload)] == [1, 2, 3]


def test_an_ethernet_inner_is_skipped_to_its_ip_header():
    """InType 3: 14 bytes of Ethernet, so the length is never a whole number of words."""
    inner = bytes(12) + b"\x08\x00" + roce_packet(psn=9)[:48]
    spec = ReportSpec(inner=inner, inner_type=IN_TYPE_ETHERNET)
    (report,) = _decode(_payload(spec))
    assert (report.packet.key.psn, report.metadata) == (9, None)


def test_report_length_255_reaches_to_the_end():
    """A report of more than 255 words is the last one."""
    inner = roce_packet()[:48] + bytes(1200)
    (report,) = _decode(_payload(ReportSpec(inner=inner)))
    assert report.packet.key.psn == 1


def test_f_zero_means_that_nothing_is_embedded():
    """F = 0 guarantees it, whatever the DSCP says (Telemetry Report v2.0 3.3)."""
    marked = bytearray(roce_packet()[:48])
    marked[1] = MARKED << 2
    spec = ReportSpec(inner=bytes(marked), tracked_flow=False)
    (report,) = _decode(_payload(spec))
    assert (report.packet.stack, report.packet.dscp) == (None, MARKED)


def test_all_flags_are_read():
    """D, Q, F and I each on its own."""
    base = ReportSpec(inner=roce_packet()[:48], tracked_flow=False)
    flags = ("dropped", "congested_queue", "tracked_flow", "intermediate_report")
    for flag in flags:
        (report,) = _decode(_payload(replace(base, **{flag: True})))
        assert [getattr(report, name) for name in flags] == [name == flag for name in flags]


def test_tcp_and_other_packets_decode_but_are_no_link_samples():
    """Their flow key is known; their traffic class is `other`."""
    tcp = bytearray(roce_packet())
    tcp[9] = 6
    icmp = bytearray(roce_packet())
    icmp[9] = 1
    for packet, ports in ((tcp, (FLOW.src_port, 4791)), (icmp, (0, 0))):
        (report,) = _decode(_payload(ReportSpec(inner=bytes(packet))))
        key = report.packet.key
        assert (key.traffic, key.src_port, key.dst_port) == (TRAFFIC_OTHER, *ports)


def test_an_empty_stack_is_a_stack():
    """A source that had no room for its own hop still starts INT."""
    (report,) = _decode(_payload(stack_report(hops=())))
    assert report.packet.stack is not None
    assert report.packet.stack.hops == ()
    assert report.packet.wire_bytes == 118


_STACK = _payload(stack_report())
_STACK_BYTES = 8 + 4 + 8 + 12 + 20 + 8 + 16 + 64 + 12
"""Up to the end of the BTH: what a decoder needs."""


@pytest.mark.parametrize("end", range(len(_STACK)))
def test_a_datagram_cut_anywhere_is_refused(end):
    """Its lengths say more than there is."""
    assert _reason(_STACK[:end]) in (DecodeReason.TRUNCATED, DecodeReason.NO_REPORT)


@pytest.mark.parametrize("cut", range(_STACK_BYTES - 32))
def test_an_inner_packet_cut_before_its_bth_is_refused(cut):
    """Header, stack or BTH incomplete: even where the report's own lengths agree."""
    with pytest.raises(DecodeError) as caught:
        _decode(_payload(stack_report(cut=cut)))
    assert caught.value.reason is DecodeReason.TRUNCATED


def test_an_inner_packet_cut_after_its_bth_is_enough():
    """Truncated reports are the rule."""
    (report,) = _decode(_payload(stack_report(psn=8, cut=_STACK_BYTES - 32)))
    assert report.packet.key.psn == 8


_R0 = 8
_INNER = 8 + 4 + 8 + 12
_SHIM = _INNER + 28
_MD = _SHIM + 4


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (_patched(_STACK, 0, 0x10), DecodeReason.REPORT_VERSION),
        (_patched(_STACK, _R0, 0x24), DecodeReason.REPORT_TYPE),
        (_patched(_STACK, _R0, 0x34), DecodeReason.REPORT_TYPE),
        *((_patched(_STACK, _R0, 0x10 | t), DecodeReason.INNER_TYPE) for t in (6, 15)),
        (_patched(_STACK, _R0, 0x10), DecodeReason.REPORT_LENGTH),
        (_patched(_STACK, _R0, 0x11), DecodeReason.TLV_TYPE),
        (_patched(_STACK, _R0, 0x15), DecodeReason.INNER_IP_HEADER),
        (_patched(_STACK, _R0 + 1, 4), DecodeReason.REPORT_LENGTH),
        (_patched(_STACK, _R0 + 2, 2), DecodeReason.METADATA_LENGTH),
        (_patched(_STACK, _R0 + 2, 4), DecodeReason.METADATA_LENGTH),
        (_patched(_STACK, _R0, 0x04), DecodeReason.METADATA_LENGTH),
        (_patched(_STACK, _R0 + 4, 0xC8), DecodeReason.RESERVED_BITS),
        (_patched(_STACK, _R0 + 5, 0x02), DecodeReason.RESERVED_BITS),
        (_patched(_STACK, _INNER, 0x65), DecodeReason.INNER_IP_HEADER),
        (_patched(_STACK, _INNER, 0x43), DecodeReason.INNER_IP_HEADER),
        (_patched(_STACK, _INNER + 2, 0, 10), DecodeReason.INNER_IP_HEADER),
        (_patched(_STACK, _INNER + 2, 0, 90), DecodeReason.INNER_IP_HEADER),
        (_patched(_STACK, _INNER + 6, 0x20), DecodeReason.INNER_IP_HEADER),
        (_patched(_STACK, _SHIM, 0x20), DecodeReason.INT_SHIM_TYPE),
        (_patched(_STACK, _SHIM, 0x1C), DecodeReason.INT_SHIM_TYPE),
        (_patched(_STACK, _SHIM + 1, 2), DecodeReason.INT_STACK_LENGTH),
        (_patched(_STACK, _SHIM + 1, 18), DecodeReason.INT_STACK_LENGTH),
        (_patched(_STACK, _SHIM + 1, 255), DecodeReason.INT_STACK_LENGTH),
        (_patched(_STACK, _SHIM + 1, 251), DecodeReason.TRUNCATED),
        (_patched(_STACK, _MD, 0x10), DecodeReason.INT_VERSION),
        (_patched(_STACK, _MD + 2, 7), DecodeReason.INT_HOP_LENGTH),
        (_patched(_STACK, _MD + 2, 9), DecodeReason.INT_HOP_LENGTH),
        (_patched(_STACK, _MD + 2, 0), DecodeReason.INT_HOP_LENGTH),
        (_payload(), DecodeReason.NO_REPORT),
        (_payload(ptp_postcard(SINK_HOP))[:-1], DecodeReason.TRUNCATED),
    ],
)
def test_a_wrong_field_is_refused_with_its_reason(payload, reason):
    """One field at a time."""
    assert _reason(payload) is reason


def test_a_ptp_message_of_another_version_is_refused():
    """PTP version 1 has another layout."""
    payload = _payload(ptp_postcard(SINK_HOP))
    assert _reason(_patched(payload, 8 + 4 + 8 + 28 + 28 + 1, 0x01)) is DecodeReason.PTP_VERSION


def test_a_stack_without_instructions_must_be_empty():
    """HopML 0 with a stack is malformed."""
    spec = StackSpec(hops=(), instruction_bitmap=0, source_only=bytes(4), domain_specific_id=5)
    packet = insert_stack(roce_packet(), spec, marked_dscp=MARKED)
    assert _reason(_payload(ReportSpec(inner=packet))) is DecodeReason.INT_STACK_LENGTH


def test_an_unknown_domain_is_tolerated():
    """Its words are kept as bytes, source-only words below the source are skipped."""
    hops = tuple(
        HopMetadata(node_id=node_id, domain_specific=node_id.to_bytes(8, "big"))
        for node_id in (1, 2)
    )
    spec = StackSpec(
        hops=hops,
        instruction_bitmap=0x8000,
        domain_specific_id=0x7777,
        ds_instruction=0xC000,
        ds_words=2,
        source_only=b"only",
    )
    packet = insert_stack(roce_packet(psn=3), spec, marked_dscp=MARKED)
    (report,) = _decode(_payload(ReportSpec(inner=packet)))
    stack = report.packet.stack
    assert stack is not None
    assert (stack.hops, stack.domain_specific_id) == (hops, 0x7777)
    assert (stack.hop_metadata_bytes, stack.source_bytes) == (12, 20)
    assert (report.packet.key.psn, report.packet.wire_bytes) == (3, 118)


def test_domain_specific_words_of_a_report_are_kept():
    """MDLength minus the words of RepMdBits, with a domain id."""
    metadata = HopMetadata(hop_latency=5, domain_specific=b"12345678")
    spec = ReportSpec(
        inner=roce_packet()[:48], metadata_bits=0x2000, metadata=metadata, domain_specific_id=9
    )
    (report,) = _decode(_payload(spec))
    assert report.metadata == metadata


def test_int_by_udp_port_restores_the_original_port():
    """NPT 1: the shim holds the original destination port."""
    packet = roce_packet(psn=6)
    spec = StackSpec(hops=(SOURCE_HOP,), instruction_bitmap=0xFC00, npt=1, npt_value=4791)
    marked = bytearray(insert_stack(packet, spec, marked_dscp=UNMARKED))
    marked[22:24] = (5000).to_bytes(2, "big")
    decoded = decode_packet(bytes(marked), 0, IntMarking({}, 5000))
    assert (decoded.key.dst_port, decoded.key.psn, decoded.dscp) == (4791, 6, UNMARKED)
    assert decoded.wire_bytes == 118


def test_an_inserted_udp_header_is_taken_off_again():
    """NPT 2: the original transport header follows the stack."""
    packet = roce_packet(psn=6)
    stack = encode_stack(
        StackSpec(hops=(SOURCE_HOP,), instruction_bitmap=0xFC00, npt=2, npt_value=17)
    )
    ipv4 = decode(IPV4, packet)
    outer_udp = decode(UDP, packet, 20)._replace(src_port=77, dst_port=5000)
    grown = ipv4._replace(total_length=ipv4.total_length + 8 + len(stack))
    data = encode(grown) + encode(outer_udp) + stack + packet[20:]
    decoded = decode_packet(data, 0, IntMarking({}, 5000))
    assert (decoded.key.src_port, decoded.key.dst_port) == (FLOW.src_port, 4791)
    assert (decoded.key.psn, decoded.wire_bytes) == (6, 118)
    assert decoded.stack is not None
    assert decoded.stack.source_bytes == 24


def test_a_dialect_with_a_four_bit_hw_id_is_shifted_back():
    """Intel's 4 + 24 bits read as 6 + 22 give hw_id << 2."""
    payload = encode_reports(node_id=1, hw_id=3 << 2, sequence_number=9, reports=[])
    group = decode_group(payload, 0, DIALECTS["intel-switch-p4-16"])
    assert (group.hw_id, group.sequence_number) == (3, 9)


def test_a_dialect_may_count_the_shim_in_its_length():
    """INT v1.x habit kept by some v2 senders."""
    dialect = Dialect(name="x", doc="", shim_length_counts_shim=True)
    payload = _patched(_STACK, _SHIM + 1, 3 + 16 + 1)
    (report,) = _decode(payload, dialect=dialect)
    assert report.packet.stack is not None
    assert report.packet.stack.hops == (SOURCE_HOP, TRANSIT_HOP)
    assert _reason(payload) is DecodeReason.INT_STACK_LENGTH


_HOPS = st.tuples(
    st.integers(0, 2**32 - 2),
    st.integers(0, 2**16 - 2),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**32 - 2),
    st.integers(0, 2**8 - 2),
    st.integers(0, 2**24 - 1),
    st.integers(1, 2**64 - 2),
    st.integers(1, 2**64 - 2),
).map(lambda values: HopMetadata(*values))
"""Node id to egress stamp, none of them not available."""


@given(
    hops=st.lists(_HOPS, max_size=8).map(tuple),
    own=_HOPS,
    psn=st.integers(0, 2**24 - 1),
    sequence_number=st.integers(0, 2**22 - 1),
)
@settings(deadline=None)
def test_decoding_inverts_encoding_of_whole_reports(hops, own, psn, sequence_number):
    """Any path and any own hop survive group, individual, metadata, stack and packet."""
    own = own._replace(node_id=None)
    spec = stack_report(psn=psn, hops=hops, metadata=own, metadata_bits=POSTCARD_BITS)
    payload = _payload(spec, sequence_number=sequence_number)
    assert decode_group(payload, 0).sequence_number == sequence_number
    (report,) = _decode(payload)
    assert report.packet.stack is not None
    assert report.packet.stack.hops == hops
    assert (report.metadata, report.packet.key.psn) == (own, psn)
    assert report.packet.wire_bytes == 118
