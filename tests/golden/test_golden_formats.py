# SPDX-License-Identifier: Apache-2.0
"""Every report format, INT v1.0 and v0.5, and every dialect, as annotated bytes."""

from dataclasses import replace

import pytest

from controller.telemetry.codec import DecodeError
from controller.telemetry.formats import ReportHeader, decode_datagram
from controller.telemetry.packet import IntMarking
from controller.telemetry.profiles import DIALECTS
from correction.records import TRAFFIC_ROCE
from tests.support.report_vectors import (
    CABLELABS,
    GEANT_BMV2,
    MANDARYOSHI_MX_TRANSIT,
    V05_STACK,
    V1_STACK,
    VECTORS,
)

_MARKING = IntMarking({27: 26}, 5000)
_IDS = [vector.name for vector in VECTORS]


def _decode(vector, wire=None):
    return decode_datagram(
        vector.wire if wire is None else wire, 0, _MARKING, DIALECTS[vector.dialect]
    )


@pytest.mark.parametrize("vector", VECTORS, ids=_IDS)
def test_a_datagram_says_what_its_annotations_say(vector):
    """Sender, number, flags, the node's own values, the stack and the packet without INT."""
    header, (report,) = _decode(vector)
    assert header == ReportHeader(vector.node_id, vector.hw_id, vector.sequence_number)
    assert report.metadata == vector.metadata
    assert (report.dropped, report.tracked_flow) == (vector.dropped, vector.tracked_flow)
    assert not report.congested_queue
    packet = report.packet
    hops = None if packet.stack is None else packet.stack.hops
    assert hops == vector.hops
    assert packet.key.traffic == TRAFFIC_ROCE
    assert packet.key[1:6] == (0x0A000101, 0x0A000201, 17, 50000, 4791)
    assert (packet.key.dest_qp, packet.key.psn) == (0x17, 0x0A0B0C)
    assert (packet.dscp, packet.wire_bytes) == (vector.dscp, vector.wire_bytes)
    assert packet.int_bytes == vector.int_bytes
    assert packet.problem is None


@pytest.mark.parametrize("vector", VECTORS, ids=_IDS)
def test_a_datagram_cut_anywhere_up_to_its_bth_is_refused(vector):
    """Every prefix that cuts a header, the stack or what identifies the packet."""
    wire = vector.wire
    for end in range(len(wire) - vector.extra_bytes):
        with pytest.raises(DecodeError):
            _decode(vector, wire[:end])


def test_every_profile_has_a_vector():
    """Profiles without one would be claims."""
    assert set(DIALECTS) == {vector.dialect for vector in VECTORS}


def test_the_flags_of_old_stacks_are_told():
    """E, M and what is left of the hop count."""
    wire = bytearray(V1_STACK.wire)
    start = wire.index(bytes.fromhex("10000606"))
    wire[start : start + 2] = b"\x11\x80"  # E, M
    stack = _decode(V1_STACK, bytes(wire)).reports[0].packet.stack
    assert (stack.max_hop_count_exceeded, stack.mtu_exceeded) == (True, True)
    assert (stack.remaining_hop_count, stack.hop_metadata_bytes, stack.source_bytes) == (6, 24, 12)
    wire = bytearray(V05_STACK.wire)
    wire[wire.index(bytes.fromhex("00060803"))] = 0x01  # E
    stack = _decode(V05_STACK, bytes(wire)).reports[0].packet.stack
    assert (stack.max_hop_count_exceeded, stack.mtu_exceeded) == (True, False)
    assert (stack.remaining_hop_count, stack.hop_metadata_bytes, stack.source_bytes) == (5, 24, 16)


def test_late_flags_and_the_source_only_words_of_cablelabs():
    """E is read two bits late; 24 bytes of headers, 8 of an added UDP header, 8 of MAC address."""
    (report,) = _decode(CABLELABS).reports
    stack = report.packet.stack
    assert (stack.discard, stack.max_hop_count_exceeded, stack.mtu_exceeded) == (False, True, False)
    assert (stack.hop_metadata_bytes, stack.source_bytes) == (4, 16 + 8 + 8)
    assert (stack.remaining_hop_count, report.domain_specific_id) == (7, 0x5453)


def test_instructions_of_nibble_3_give_hop_latency_and_egress_stamp():
    """0x3800 asks for latency, queue and ingress stamp; the sender pushes its egress stamp too."""
    wire = GEANT_BMV2.wire
    start = wire.index(bytes.fromhex("01002168"))
    entry = bytes.fromhex("000001f4 00000000000f4240 000000000016e360")
    headers = bytes.fromhex("01000868 10000505 38000000")
    bth = wire[-12:]
    (report,) = _decode(GEANT_BMV2, wire[:start] + headers + entry + bth).reports
    (hop,) = report.packet.stack.hops
    assert (hop.hop_latency, hop.queue_id) == (500_000, None)
    assert (hop.ingress_tstamp, hop.egress_tstamp) == (1_000_000, 1_500_000)


def test_the_sinks_entry_is_read_as_it_stands_where_a_profile_says_so():
    """Without the deviation the values of the copy would pass for the packet's."""
    dialect = replace(DIALECTS["geant-bmv2"], sink_entry_clone_fields=())
    (report,) = decode_datagram(GEANT_BMV2.wire, 0, _MARKING, dialect).reports
    sink = report.packet.stack.hops[-1]
    assert (sink.ingress_port, sink.egress_port) == (0, 4)
    assert (sink.hop_latency, sink.egress_tstamp) == (3_002_000, 3_003_000)


def test_the_values_behind_an_mx_header_are_not_the_packets():
    """The shim of a transit node does not count them, that of a source does: both are accepted."""
    wire = bytearray(MANDARYOSHI_MX_TRANSIT.wire)
    shim = wire.index(bytes.fromhex("30036800"))
    wire[shim + 1] = 3 + 8
    counted = _decode(MANDARYOSHI_MX_TRANSIT, bytes(wire))
    assert counted == _decode(MANDARYOSHI_MX_TRANSIT)
    wire[shim + 1] = 3 + 7
    with pytest.raises(DecodeError):
        _decode(MANDARYOSHI_MX_TRANSIT, bytes(wire))
