# SPDX-License-Identifier: Apache-2.0
"""Inner contents of a v2.0 report that are not just a packet: none, TLVs, domain specific data."""

from dataclasses import replace

import pytest

from controller.telemetry.codec import DecodeError, DecodeReason
from controller.telemetry.collector import Collector
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.packet import NO_PACKET, IntMarking
from controller.telemetry.report import decode_reports
from controller.telemetry.report_encode import ReportSpec, encode_reports, encode_tlvs
from controller.telemetry.report_inner import Tlv
from tests.support.report_vectors import from_annotated
from tests.support.telemetry_reports import LEAF2, ReportSender, roce_packet, three_switch_fabric

_MARKING = IntMarking({27: 26})
_NOW_NS = 1_800_000_000_000_000_000

_GROUP = """
    20 00 00 01 00 00 00 02               # Ver 2, hw_id 0, sequence 1; node 2
"""
_IPV4_TLV = """
    20 0b 00 00                           # TLV: IPv4, 11 words
    45 68 00 64 00 00 40 00 40 11 00 00   # IPv4: 100 bytes, DSCP 26, UDP
    0a 00 01 01 0a 00 02 01               # 10.0.1.1 to 10.0.2.1
    c3 50 12 b7 00 50 00 00               # UDP port 50000 to 4791
    04 00 ff ff 00 00 00 17 00 0a 0b 0c   # BTH: SEND only, queue pair 0x17, PSN 0x0a0b0c
    11 22 33 44                           # first bytes of the payload
"""
_TLVS = from_annotated(
    _GROUP
    + """
    11 14 02 20                           # RepType 1, InType 1, 20 words, MDLength 2, F
    20 00 00 2a 80 00 00 05               # hop latency; domain 42, DSMdBits, DSMdstatus
    00 00 02 bc                           # latency 700
    de ad be ef                           # a word of domain 42
    00 02 00 07                           # TLV: DS extension, 2 words, template 7
    01 02 03 04 05 06 07 08
    """
    + _IPV4_TLV
    + """
    0f 00 00 09                           # TLV: DS extension, reserved bits set, empty, template 9
    """
)


def _reason(payload):
    with pytest.raises(DecodeError) as caught:
        decode_reports(payload, 8, _MARKING)
    return caught.value.reason


def test_a_tlv_list_holds_the_packet_and_the_domains_data():
    """The first packet TLV is the report's packet; templates and data of others are kept."""
    (report,) = decode_reports(_TLVS, 8, _MARKING)
    assert report.packet.key.psn == 0x0A0B0C
    assert report.packet.wire_bytes == 118
    assert report.metadata == HopMetadata(hop_latency=700, domain_specific=b"\xde\xad\xbe\xef")
    assert report.domain_specific_id == 42
    assert (report.ds_metadata_bits, report.ds_metadata_status) == (0x8000, 5)
    assert report.extensions == (Tlv(0, 7, bytes(range(1, 9))), Tlv(0, 9, b""))


def test_a_tlv_list_is_encoded_as_it_is_decoded():
    """Without the reserved bits, which are sent as 0."""
    packet = _TLVS[8 + 4 + 16 + 12 + 4 :][:44]
    inner = encode_tlvs([Tlv(0, 7, bytes(range(1, 9))), Tlv(2, 0, packet), Tlv(0, 9, b"")])
    spec = ReportSpec(
        inner=inner,
        inner_type=1,
        metadata_bits=0x2000,
        metadata=HopMetadata(hop_latency=700, domain_specific=b"\xde\xad\xbe\xef"),
        domain_specific_id=42,
        ds_metadata_bits=0x8000,
        ds_metadata_status=5,
    )
    encoded = encode_reports(node_id=2, hw_id=0, sequence_number=1, reports=[spec])
    assert encoded == _TLVS.replace(bytes.fromhex("0f000009"), bytes.fromhex("00000009"))


@pytest.mark.parametrize(("tlv_type", "head"), [(1, bytes(12) + b"\x08\x00"), (2, b"")])
def test_a_packet_in_the_last_tlv_may_be_off_a_word(tlv_type, head):
    """Ethernet and odd packets: a remainder of 1 to 3 bytes belongs to the last TLV."""
    packet = head + roce_packet(psn=9)[:49]
    spec = ReportSpec(inner=encode_tlvs([Tlv(tlv_type, 0, packet)]), inner_type=1)
    payload = encode_reports(node_id=2, hw_id=0, sequence_number=0, reports=[spec])
    (report,) = decode_reports(payload, 8, _MARKING)
    assert report.packet.key.psn == 9


def test_a_second_packet_is_kept_as_bytes():
    """A report is about one packet."""
    first, second = roce_packet(psn=1)[:48], roce_packet(psn=2)[:48]
    spec = ReportSpec(inner=encode_tlvs([Tlv(2, 0, first), Tlv(2, 0, second)]), inner_type=1)
    payload = encode_reports(node_id=2, hw_id=0, sequence_number=0, reports=[spec])
    (report,) = decode_reports(payload, 8, _MARKING)
    assert report.packet.key.psn == 1
    assert report.extensions == (Tlv(2, 0, second),)


def test_extension_data_and_no_inner_contents_hold_no_packet():
    """InType 2 is kept as bytes; InType 0 is nothing."""
    extension = ReportSpec(inner=b"12345678", inner_type=2)
    nothing = ReportSpec(
        inner=b"", inner_type=0, metadata_bits=0x2000, metadata=HopMetadata(hop_latency=5)
    )
    payload = encode_reports(
        node_id=2, hw_id=0, sequence_number=0, reports=[extension, nothing, extension]
    )
    reports = decode_reports(payload, 8, _MARKING)
    assert [report.packet for report in reports] == [NO_PACKET] * 3
    assert [report.extensions for report in reports] == [
        (Tlv(0, 0, b"12345678"),),
        (),
        (Tlv(0, 0, b"12345678"),),
    ]
    assert reports[1].metadata == HopMetadata(hop_latency=5)


@pytest.mark.parametrize("end", range(8, len(_TLVS)))
def test_a_tlv_list_cut_anywhere_is_refused(end):
    """The report's own length says how much there must be."""
    with pytest.raises(DecodeError):
        decode_reports(_TLVS[:end], 8, _MARKING)


@pytest.mark.parametrize(
    ("offset", "value", "reason"),
    [
        (28, 0x40, DecodeReason.TLV_TYPE),
        (28, 0xF0, DecodeReason.TLV_TYPE),
        (29, 3, DecodeReason.TLV_TYPE),
        (29, 200, DecodeReason.TLV_LENGTH),
        (41, 14, DecodeReason.TLV_LENGTH),
        (40, 0x30, DecodeReason.INNER_IP_HEADER),
        (41, 10, DecodeReason.TLV_LENGTH),
        (8, 0x10, DecodeReason.REPORT_LENGTH),
        (8, 0x16, DecodeReason.INNER_TYPE),
        (8, 0x21, DecodeReason.REPORT_TYPE),
    ],
)
def test_a_wrong_byte_is_refused_with_its_reason(offset, value, reason):
    """One byte at a time, in heads of TLVs and of the report."""
    changed = bytearray(_TLVS)
    changed[offset] = value
    assert _reason(bytes(changed)) is reason


def test_a_report_of_nothing_is_refused():
    """RepType 0 and InType 0; with D or Q it says at least that."""
    nothing = ReportSpec(inner=b"", inner_type=0)
    dropped = replace(nothing, dropped=True, tracked_flow=False)
    one, other = (
        encode_reports(node_id=2, hw_id=0, sequence_number=0, reports=[spec])
        for spec in (nothing, dropped)
    )
    assert _reason(one) is DecodeReason.NO_PACKET
    (report,) = decode_reports(other, 8, _MARKING)
    assert (report.dropped, report.packet, report.metadata) == (True, NO_PACKET, None)


def test_an_empty_tlv_list_is_refused():
    """InType 1 promises at least one."""
    payload = encode_reports(
        node_id=2, hw_id=0, sequence_number=0, reports=[ReportSpec(inner=b"", inner_type=1)]
    )
    assert _reason(payload) is DecodeReason.TRUNCATED


def test_the_collector_counts_reports_without_a_packet():
    """They tell of no link; a drop is news all the same."""
    sender = ReportSender()
    collector = Collector(three_switch_fabric())
    for spec in (
        ReportSpec(inner=b"", inner_type=0),
        ReportSpec(inner=b"1234", inner_type=2),
        ReportSpec(inner=encode_tlvs([Tlv(0, 1, b"1234")]), inner_type=1),
    ):
        collector.feed(sender.frame(LEAF2, 0, spec), _NOW_NS)
    values = HopMetadata(ingress_port=1, egress_port=0xFFFF, drop_queue_id=1, drop_reason=29)
    drop = ReportSpec(
        inner=b"",
        inner_type=0,
        metadata_bits=0x4001,
        metadata=values,
        dropped=True,
        tracked_flow=False,
    )
    collector.feed(sender.frame(LEAF2, 0, drop), _NOW_NS)
    collection = collector.flush()
    assert collection.counters.rejected == {DecodeReason.NO_PACKET: 3}
    assert [(event.node_id, event.reason) for event in collection.drops] == [(LEAF2, "no_route")]
    assert len(collection.packets) == 0


def test_a_tlv_report_is_a_postcard_like_any_other():
    """What the packet stands in makes no difference to the path."""
    sender = ReportSender()
    collector = Collector(three_switch_fabric())
    packet = roce_packet(psn=3)[:48]
    values = HopMetadata(ingress_port=1, egress_port=11, ingress_tstamp=10, egress_tstamp=30)
    spec = ReportSpec(
        inner=encode_tlvs([Tlv(0, 1, b"1234"), Tlv(2, 0, packet)]),
        inner_type=1,
        metadata_bits=0x4C00,
        metadata=values,
    )
    collector.feed(sender.frame(LEAF2, 1, spec), _NOW_NS)
    collection = collector.flush()
    assert collection.counters.decoded == 1
    assert collection.packets["psn"].tolist() == [3]
    assert collection.hops["egress_tstamp_local_ns"].tolist() == [30]
