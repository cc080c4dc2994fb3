# SPDX-License-Identifier: Apache-2.0
"""Tables of telemetry reports: v2.0 with TLVs, v1.0, v0.5.

Clauses: TR = "Telemetry Report Format Specification" v2.0 unless another is named.
"""

from typing import Annotated, NamedTuple

from controller.telemetry.layout_table import Wire, header_layout


class ReportDrop(NamedTuple):
    """RepMdBits bit 15 of a report: why a packet was dropped (TR 3.4)."""

    queue_id: Annotated[int, Wire(8, "Queue that the packet was meant for")]
    drop_reason: Annotated[int, Wire(8, "Why it did not leave: docs/p4.md")]
    reserved: Annotated[int, Wire(16, "0")]


class ReportGroup(NamedTuple):
    """Report group header, first in the UDP payload (TR 3.2)."""

    version: Annotated[int, Wire(4, "2 in Telemetry Report v2.0")]
    hw_id: Annotated[int, Wire(6, "Part of the device that counts the sequence")]
    sequence_number: Annotated[int, Wire(22, "Per node, hw_id and destination; wraps")]
    node_id: Annotated[int, Wire(32, "The reporting device")]


class ReportIndividual(NamedTuple):
    """Individual report header; one or more follow the group header (TR 3.3)."""

    report_type: Annotated[int, Wire(4, "0 inner only, 1 INT, 2 IOAM")]
    inner_type: Annotated[int, Wire(4, "0 none, 1 TLV, 2 DS extension, 3 Ethernet, 4 IPv4, 5 IPv6")]
    report_length_words: Annotated[int, Wire(8, "Words after this header; 255 = to the end")]
    metadata_length_words: Annotated[int, Wire(8, "Words of metadata after report_main_t")]
    dropped: Annotated[int, Wire(1, "D: dropped packet")]
    congested_queue: Annotated[int, Wire(1, "Q: congested queue")]
    tracked_flow: Annotated[int, Wire(1, "F: tracked; 0 = no telemetry embedded in the packet")]
    intermediate_report: Annotated[int, Wire(1, "I: intermediate report")]
    reserved: Annotated[int, Wire(4, "0")]


class ReportMain(NamedTuple):
    """Fixed words of an INT report (RepType 1); baseline and DS metadata follow (TR 3.4)."""

    report_metadata_bits: Annotated[int, Wire(16, "Which metadata follow; bit 0 is the highest")]
    domain_specific_id: Annotated[int, Wire(16, "0 = no domain specific metadata")]
    ds_metadata_bits: Annotated[int, Wire(16, "Domain specific metadata bitmap")]
    ds_metadata_status: Annotated[int, Wire(16, "Domain specific status")]


class ReportTlv(NamedTuple):
    """Head of a TLV in a report of InType 1; its data follow (TR 3.5)."""

    tlv_type: Annotated[int, Wire(4, "0 DS extension, 1 Ethernet, 2 IPv4, 3 IPv6")]
    reserved: Annotated[int, Wire(4, "0; ignored")]
    length_words: Annotated[int, Wire(8, "Words of data after this header")]
    template: Annotated[int, Wire(16, "Format of DS extension data; ignored for other types")]


# ---------------------------------------------------------------- reports v1.0 and v0.5


class ReportV1(NamedTuple):
    """Telemetry Report v1.0, first in the UDP payload; optional metadata follow (TR v1.0 3.2)."""

    version: Annotated[int, Wire(4, "1 in Telemetry Report v1.0")]
    length_words: Annotated[int, Wire(4, "Words of this header and the optional metadata")]
    next_protocol: Annotated[int, Wire(3, "Packet that follows: 0 Ethernet, 1 IPv4, 2 IPv6")]
    report_metadata_bits: Annotated[int, Wire(6, "Optional metadata, a word each; bit 0 highest")]
    reserved: Annotated[int, Wire(6, "0")]
    dropped: Annotated[int, Wire(1, "D: dropped packet")]
    congested_queue: Annotated[int, Wire(1, "Q: congested queue")]
    tracked_flow: Annotated[int, Wire(1, "F: tracked; 0 = no telemetry embedded in the packet")]
    hw_id: Annotated[int, Wire(6, "Part of the device that counts the sequence")]
    node_id: Annotated[int, Wire(32, "The reporting device (Switch id)")]
    sequence_number: Annotated[int, Wire(32, "Per node, hw_id and destination; wraps")]
    ingress_tstamp: Annotated[int, Wire(32, "On the node's local clock, ns in the standard")]


class ReportV05(NamedTuple):
    """Telemetry Report v0.5, first in the UDP payload (TR v0.5 3.2.1)."""

    version: Annotated[int, Wire(4, "0 in Telemetry Report v0.5")]
    next_protocol: Annotated[int, Wire(4, "0 Ethernet, 1 drop header, 2 switch local header")]
    dropped: Annotated[int, Wire(1, "D: dropped packet")]
    congested_queue: Annotated[int, Wire(1, "Q: congested queue")]
    tracked_flow: Annotated[int, Wire(1, "F: tracked; 0 = no telemetry embedded in the packet")]
    reserved: Annotated[int, Wire(15, "0")]
    hw_id: Annotated[int, Wire(6, "Part of the device that counts the sequence")]
    sequence_number: Annotated[int, Wire(32, "Per hw_id and destination; wraps")]
    ingress_tstamp: Annotated[int, Wire(32, "On the node's local clock, ns in the standard")]


class ReportV05Drop(NamedTuple):
    """Telemetry drop report header of v0.5; Ethernet follows (TR v0.5 3.2.2)."""

    node_id: Annotated[int, Wire(32, "The reporting device (Switch id)")]
    ingress_port: Annotated[int, Wire(16, "Ingress port")]
    egress_port: Annotated[int, Wire(16, "Egress port")]
    drop_queue_id: Annotated[int, Wire(8, "Queue that the packet was meant for")]
    drop_reason: Annotated[int, Wire(8, "Why it did not leave, in the device's terms")]
    pad: Annotated[int, Wire(16, "0")]


class ReportV05Local(NamedTuple):
    """Telemetry switch local report header of v0.5; Ethernet follows (TR v0.5 3.2.3)."""

    node_id: Annotated[int, Wire(32, "The reporting device (Switch id)")]
    ingress_port: Annotated[int, Wire(16, "Ingress port")]
    egress_port: Annotated[int, Wire(16, "Egress port")]
    queue_id: Annotated[int, Wire(8, "Egress queue")]
    queue_depth: Annotated[int, Wire(24, "In the device's unit: bytes, cells or packets")]
    egress_tstamp: Annotated[int, Wire(32, "On the node's local clock, ns in the standard")]


REPORT_DROP = header_layout("report_drop_t", ReportDrop)
REPORT_GROUP = header_layout("report_group_t", ReportGroup)
REPORT_INDIVIDUAL = header_layout("report_individual_t", ReportIndividual)
REPORT_MAIN = header_layout("report_main_t", ReportMain)
REPORT_TLV = header_layout("report_tlv_t", ReportTlv)
REPORT_V1 = header_layout("report_v1_t", ReportV1)
REPORT_V05 = header_layout("report_v05_t", ReportV05)
REPORT_V05_DROP = header_layout("report_v05_drop_t", ReportV05Drop)
REPORT_V05_LOCAL = header_layout("report_v05_local_t", ReportV05Local)
