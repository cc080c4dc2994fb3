# SPDX-License-Identifier: Apache-2.0
"""Frames of other projects decode to the values that their origins state.

The vectors are not part of this repository; their folder is named by TEMPOTRACE_SHARED_DATA or
stands next to the repository as shared/data.
"""

import json
import os
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path

import pytest

from controller.telemetry.codec import DecodeError, DecodeReason, decode
from controller.telemetry.datagram import internet_checksum, unwrap_udp
from controller.telemetry.detect import detect_profiles
from controller.telemetry.formats import decode_datagram
from controller.telemetry.frames import icrc, icrc_is_valid
from controller.telemetry.layout import BTH, INT_MD, INT_SHIM
from controller.telemetry.packet import IntMarking, decode_packet
from controller.telemetry.profiles import DIALECTS
from controller.telemetry.report import decode_group, decode_reports
from controller.telemetry.report_encode import ReportSpec, encode_reports
from controller.telemetry.topology import TelemetryFabric, TelemetryNode

_REPO = Path(__file__).parents[2]
_FOLDER = Path(os.environ.get("TEMPOTRACE_SHARED_DATA", _REPO.parent / "shared" / "data")) / "int"

pytestmark = pytest.mark.skipif(
    not _FOLDER.is_dir(), reason=f"the vectors of other projects are not at hand ({_FOLDER})"
)

_INT_START = 42
_MARKING = IntMarking({0x20: 0}, 0x4568)
"""The frames' own: tos 0x80 is DSCP 0x20; scapy's INT port."""


def _load(name):
    return json.loads((_FOLDER / name).read_text())


@pytest.mark.parametrize("index", [0, 1], ids=["NPT 0", "NPT 1"])
def test_int_md_v21_frames_decode_to_the_stated_header_and_hops(index):
    """Two hops of ten words; zero stamps are none; arbitrary domain words are tolerated."""
    document = _load("int_v21_md_udp_scapy.json")
    frame = bytes.fromhex(document["vectors"][index]["frame_hex"])
    stated = document["decode"]
    shim = decode(INT_SHIM, frame, _INT_START)
    md = decode(INT_MD, frame, _INT_START + 4)
    assert (shim.shim_type, shim.length_words) == (1, stated["shim_length_words"])
    assert (md.version, md.hop_metadata_len_words) == (stated["version"], stated["hop_ml"])
    assert md.remaining_hop_count == stated["remaining_hop_count"]
    assert md.instruction_bitmap == int(stated["instruction_bitmap"], 16)
    assert md.domain_specific_id == int(stated["ds_id"], 16)
    assert md.ds_instruction == int(stated["ds_instruction"], 16)
    assert md.ds_flags == int(stated["ds_flags"], 16)
    packet = decode_packet(frame, 14, _MARKING)
    assert packet.stack is not None
    assert (packet.key.dst_port, packet.dscp) == (9028, 0)
    assert packet.wire_bytes == len(frame) + 4 - 4 - 23 * 4
    hops = list(reversed(packet.stack.hops))
    for hop, expected in zip(hops, stated["hops"], strict=True):
        assert hop.node_id == expected["node_id"]
        assert (hop.ingress_port, hop.egress_port) == (expected["l1_in"], expected["l1_out"])
        assert hop.hop_latency == expected["hop_latency"]
        assert (hop.queue_id, hop.queue_depth) == (0, 0)
        assert (hop.ingress_tstamp, hop.egress_tstamp) == (None, None)
        assert hop.unavailable_bits == 0x0C00
        assert hop.ingress_interface == expected["l2_in"]
        assert hop.egress_interface == expected["l2_out"]


@pytest.mark.parametrize("index", [0, 1], ids=["NPT 0", "NPT 1"])
def test_int_md_v21_frames_have_the_stated_checksums(index):
    """IP and UDP checksums are verified, not only read, and a report may carry the packet."""
    vector = _load("int_v21_md_udp_scapy.json")["vectors"][index]
    frame = bytes.fromhex(vector["frame_hex"])
    datagram = unwrap_udp(frame)
    assert datagram.ip.header_checksum == int(vector["ip_checksum"], 16)
    assert datagram.udp.checksum == int(vector["udp_checksum"], 16)
    spec = ReportSpec(inner=frame[14:])
    payload = encode_reports(node_id=1, hw_id=0, sequence_number=0, reports=[spec])
    (report,) = decode_reports(payload, 8, _MARKING)
    assert report.packet == decode_packet(frame, 14, _MARKING)


def _geant_payload(document):
    return bytes.fromhex(next(v for v in _strings(document) if len(v) == 2 * 191))


def test_a_report_of_version_1_is_refused_by_its_version():
    """A BMv2 report in the v1.0 format: not misread as v2.0, whatever follows."""
    payload = _geant_payload(_load("bmv2_geant_report_v1_from_finsy.json"))
    with pytest.raises(DecodeError) as caught:
        decode_group(payload, 0)
    assert caught.value.reason is DecodeReason.REPORT_VERSION


def test_a_report_of_geants_program_on_bmv2_decodes_to_the_stated_values():
    """Three hops of 40 bytes; read as it stands, then without what the sink says of its clone."""
    document = _load("bmv2_geant_report_v1_from_finsy.json")
    payload, stated = _geant_payload(document), document["expected"]
    dialect = DIALECTS["geant-bmv2"]
    as_it_stands = replace(dialect, sink_entry_clone_fields=(), hop_latency_factor=1)
    header, (report,) = decode_datagram(payload, 0, _MARKING, as_it_stands)
    assert (header.node_id, header.sequence_number) == (
        stated["report_switch_id"],
        stated["seq_num"],
    )
    key, stack = report.packet.key, report.packet.stack
    assert (key.src_addr, key.dst_addr) == tuple(
        int(ip_address(stated[name])) for name in ("ipv4_src", "ipv4_dst")
    )
    assert (key.src_port, key.dst_port) == (stated["udp_sport"], stated["udp_dport"])
    assert report.packet.int_bytes == 4 * stated["shim_len_words"]
    assert stack.hop_metadata_bytes == 4 * stated["hop_metadata_len"]
    assert stack.remaining_hop_count == stated["remaining_hop_cnt"]
    assert stack.instruction_bitmap == int(stated["instruction_mask"], 16)
    for hop, expected in zip(reversed(stack.hops), stated["hops_top_first"], strict=True):
        assert (hop.node_id, hop.hop_latency) == (expected["switch_id"], expected["hop_latency"])
        assert hop.ingress_port == expected["ingress_port"]
        assert hop.egress_port == expected["egress_port"]
        assert hop.ingress_tstamp == expected["ingress_ts"]
        assert hop.egress_tstamp == expected["egress_ts"]
    (report,) = decode_datagram(payload, 0, _MARKING, dialect).reports
    *others, sink = report.packet.stack.hops
    assert [hop.hop_latency for hop in others] == [
        hop.egress_tstamp - hop.ingress_tstamp for hop in others
    ]
    assert (sink.node_id, sink.ingress_tstamp) == (2, 153559969000)
    assert (sink.ingress_port, sink.egress_port, sink.egress_tstamp) == (None, None, None)
    assert report.metadata.ingress_tstamp is None


def test_no_other_profile_makes_sense_of_geants_report():
    """Detection names its profile where its nodes are in the fabric."""
    payload = _geant_payload(_load("bmv2_geant_report_v1_from_finsy.json"))
    nodes = {n: TelemetryNode(node_id=n, stamp_unit_ns=1, stamp_width_bits=64) for n in (1, 2, 3)}
    fabric = TelemetryFabric(nodes=nodes, neighbours={}, report_udp_ports=frozenset())
    assert [m.profile for m in detect_profiles([payload], fabric)] == ["geant-bmv2"]


def _strings(node):
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for item in node.values() if isinstance(node, dict) else node:
            yield from _strings(item)


@pytest.mark.parametrize("index", [0, 1], ids=["CNP", "UC SEND only"])
def test_the_icrc_of_captured_rocev2_frames_is_ours(index):
    """Computed over the frame, it equals the bytes that the NIC sent."""
    vector = _load("rocev2_icrc_vectors.json")["vectors"][index]
    frame = bytes.fromhex(vector["frame_hex"])
    assert len(frame) == vector["frame_bytes"]
    assert icrc(frame).to_bytes(4, "little").hex() == vector["icrc_hex"]
    assert internet_checksum(frame[14:34]) == 0
    assert unwrap_udp(frame).udp.checksum == int(vector["udp_checksum"], 16)


_FIELD_BITS = {
    "ip.tos (dscp+ecn)": (15, 0x04),
    "ip.id": (19, 0x01),
    "ip.ttl": (22, 0x01),
    "ip.checksum": (25, 0x01),
    "ip.src": (29, 0x01),
    "ip.dst": (33, 0x01),
    "udp.sport": (35, 0x01),
    "udp.dport": (37, 0x01),
    "udp.checksum": (41, 0x01),
    "bth.opcode": (42, 0x01),
    "bth.se/migreq/pad/tver": (43, 0x80),
    "bth.pkey": (45, 0x01),
    "bth.fecn/becn/resv6": (46, 0x80),
    "bth.destqp": (49, 0x01),
    "bth.ackreq/resv7": (50, 0x80),
    "bth.psn": (53, 0x01),
    "payload": (54, 0x01),
    "ethernet.dst": (0, 0x01),
}


@pytest.mark.parametrize("field", sorted(_FIELD_BITS))
@pytest.mark.parametrize("index", [0, 1], ids=["CNP", "UC SEND only"])
def test_a_changed_field_keeps_or_breaks_the_icrc_as_stated(index, field):
    """One bit of one field inverted, for every field whose change leaves the extent alone."""
    document = _load("rocev2_icrc_vectors.json")
    frame = bytearray.fromhex(document["vectors"][index]["frame_hex"])
    offset, bit = _FIELD_BITS[field]
    frame[offset] ^= bit
    keeps = document["single_field_mutation_keeps_icrc_valid"][field]
    assert icrc_is_valid(bytes(frame)) is keeps


def test_the_cnp_is_a_cnp():
    """Opcode 0x81 with BECN set."""
    frame = bytes.fromhex(_load("rocev2_icrc_vectors.json")["vectors"][0]["frame_hex"])
    bth = decode(BTH, frame, 42)
    assert (bth.opcode, bth.becn, bth.dest_qp) == (0x81, 1, 0x118)
