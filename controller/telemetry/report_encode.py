# SPDX-License-Identifier: Apache-2.0
"""Encoders of INT headers and telemetry reports, the inverse of `packet` and `report`.

Every encoder takes a dialect and deviates as it does; what other standards lay out otherwise is in
`report_encode_old`.

For tests, generated loads and senders that are not P4 switches; nothing here is a fast path.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from controller.telemetry.codec import decode, encode
from controller.telemetry.datagram import IP_PROTOCOL_UDP, ipv4_with_checksum
from controller.telemetry.int_headers import INT_VERSION, NPT_DSCP, NPT_INSERTED_UDP, SHIM_TYPE_MX
from controller.telemetry.layout import (
    IPV4,
    IPV6,
    UDP,
    IntMd,
    IntMdLateFlags,
    IntMx,
    IntShim,
    Ipv4,
    Ipv6,
    ReportGroup,
    ReportIndividual,
    ReportMain,
    ReportTlv,
)
from controller.telemetry.metadata import (
    HopMetadata,
    bitmap_words,
    encode_report_metadata,
    encode_stack_entry,
)
from controller.telemetry.profiles import STANDARD, Dialect
from controller.telemetry.report import (
    IN_TYPE_IPV4,
    REP_TYPE_INNER_ONLY,
    REP_TYPE_INT,
    REPORT_LENGTH_TO_END,
)
from controller.telemetry.report_inner import Tlv


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSpec:
    """An INT-MD header and stack to encode; hops oldest (source) first."""

    hops: tuple[HopMetadata, ...]
    instruction_bitmap: int
    remaining_hop_count: int = 8
    npt: int = NPT_DSCP
    npt_value: int = 0
    """Shim bytes 2 and 3 as specified: original DSCP << 2, original port or original protocol."""
    original_dst_port: int = 0
    """Copy of the UDP destination port; INT v0.5 alone has it besides the DSCP."""
    domain_specific_id: int = 0
    ds_instruction: int = 0
    ds_words: int = 0
    """Domain specific words of each hop; `HopMetadata.domain_specific` holds them."""
    source_only: bytes = b""
    """Source-only metadata, below the source's own entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSpec:
    """An individual report to encode; `metadata` None makes it Inner Only (RepType 0)."""

    inner: bytes
    inner_type: int = IN_TYPE_IPV4
    metadata_bits: int = 0
    metadata: HopMetadata | None = None
    domain_specific_id: int = 0
    ds_metadata_bits: int = 0
    ds_metadata_status: int = 0
    dropped: bool = False
    congested_queue: bool = False
    tracked_flow: bool = True
    intermediate_report: bool = False


def encode_stack(spec: StackSpec, dialect: Dialect = STANDARD) -> bytes:
    """Shim, INT-MD header and stack of INT v2.1."""
    hop_words = bitmap_words(spec.instruction_bitmap) + spec.ds_words
    entries = [encode_stack_entry(spec.instruction_bitmap, hop) for hop in reversed(spec.hops)]
    stack = b"".join(entries) + spec.source_only
    assert len(stack) == len(spec.hops) * hop_words * 4 + len(spec.source_only)
    md = IntMd(
        version=INT_VERSION,
        discard=0,
        max_hop_count_exceeded=0,
        mtu_exceeded=0,
        reserved=0,
        hop_metadata_len_words=hop_words,
        remaining_hop_count=spec.remaining_hop_count,
        instruction_bitmap=spec.instruction_bitmap,
        domain_specific_id=spec.domain_specific_id,
        ds_instruction=spec.ds_instruction,
        ds_flags=0,
    )
    header = encode(md)
    if dialect.md_flags_late:
        header = encode(IntMdLateFlags(**md._asdict(), reserved1=0))
    shim = _shim(dialect.shim_type_md, spec.npt, spec.npt_value, 3 + len(stack) // 4, dialect)
    return shim + header + stack


def encode_mx(
    *,
    instruction_bitmap: int,
    original_dscp: int,
    domain_specific_id: int = 0,
    extra: bytes = b"",
    node_values: HopMetadata | None = None,
    dialect: Dialect = STANDARD,
) -> bytes:
    """Shim and INT-MX header; `extra` is the source's domain specific metadata.

    `node_values` is what a dialect with `mx_values_follow` appends; the shim does not count it.
    """
    mx = IntMx(
        version=INT_VERSION,
        discard=0,
        reserved=0,
        instruction_bitmap=instruction_bitmap,
        domain_specific_id=domain_specific_id,
        ds_instruction=0,
        ds_flags=0,
    )
    appended = b""
    if dialect.mx_values_follow:
        appended = encode_stack_entry(instruction_bitmap, node_values or HopMetadata())
    shim = _shim(SHIM_TYPE_MX, NPT_DSCP, original_dscp << 2, 3 + len(extra) // 4, dialect)
    return shim + encode(mx) + extra + appended


def _shim(shim_type: int, npt: int, npt_value: int, length_words: int, dialect: Dialect) -> bytes:
    """An INT v2.1 shim; a dialect may have `npt_value` a byte earlier."""
    early = {
        NPT_DSCP: dialect.shim_dscp_in_byte_2,
        NPT_INSERTED_UDP: dialect.npt2_protocol_in_byte_2,
    }
    if early.get(npt):
        npt_value <<= 8
    return encode(
        IntShim(
            shim_type=shim_type,
            npt=npt,
            reserved1=0,
            length_words=length_words + dialect.shim_length_counts_shim,
            reserved2=npt_value >> 8,
            dscp=npt_value >> 2 & 0x3F,
            reserved3=npt_value & 0x3,
        )
    )


def insert_stack(packet: bytes, spec: StackSpec, *, marked_dscp: int) -> bytes:
    """A UDP packet (from its IP header on) with INT-MD inserted and marked by DSCP."""
    return insert_int(packet, encode_stack(spec), marked_dscp=marked_dscp)


def insert_int(packet: bytes, headers: bytes, *, marked_dscp: int) -> bytes:
    """The same with any shim and what follows it; the UDP checksum becomes 0."""
    growth = len(headers)
    ip: Ipv4 | Ipv6
    if packet[0] >> 4 == 4:
        ip = decode(IPV4, packet, 0)
        assert (ip.protocol, ip.ihl) == (IP_PROTOCOL_UDP, 5)
        ip = ip._replace(dscp=marked_dscp, total_length=ip.total_length + growth)
        header, udp_start = encode(ipv4_with_checksum(ip)), IPV4.byte_count
    else:
        ip = decode(IPV6, packet, 0)
        assert ip.next_header == IP_PROTOCOL_UDP
        ip = ip._replace(dscp=marked_dscp, payload_length=ip.payload_length + growth)
        header, udp_start = encode(ip), IPV6.byte_count
    udp = decode(UDP, packet, udp_start)
    udp = udp._replace(length=udp.length + growth, checksum=0)
    return header + encode(udp) + headers + packet[udp_start + UDP.byte_count :]


def encode_reports(
    *,
    node_id: int,
    hw_id: int,
    sequence_number: int,
    reports: Sequence[ReportSpec],
    dialect: Dialect = STANDARD,
) -> bytes:
    """The UDP payload of v2.0: group header and individual reports.

    ReportLength counts whole words, rounded down, so only the last report may have an inner
    packet that is not a whole number of words.
    """
    group = ReportGroup(
        version=dialect.report_version,
        hw_id=hw_id << dialect.hw_id_shift,
        sequence_number=sequence_number << dialect.sequence_shift,
        node_id=node_id,
    )
    return encode(group) + b"".join(_encode_report(spec, dialect) for spec in reports)


def encode_tlvs(tlvs: Sequence[Tlv]) -> bytes:
    """The inner contents of InType 1; only the last may be off a word."""
    pieces = []
    for tlv in tlvs:
        head = ReportTlv(
            tlv_type=tlv.tlv_type,
            reserved=0,
            length_words=len(tlv.data) // 4,
            template=tlv.template,
        )
        pieces.append(encode(head) + tlv.data)
    return b"".join(pieces)


def _encode_report(spec: ReportSpec, dialect: Dialect) -> bytes:
    if not dialect.individual_header:
        return spec.inner
    metadata = b""
    main = b""
    if spec.metadata is not None or dialect.main_contents_always:
        values = spec.metadata or HopMetadata()
        metadata = encode_report_metadata(spec.metadata_bits, values)
        main = encode(
            ReportMain(
                report_metadata_bits=spec.metadata_bits,
                domain_specific_id=spec.domain_specific_id,
                ds_metadata_bits=spec.ds_metadata_bits,
                ds_metadata_status=spec.ds_metadata_status,
            )
        )
    body = main + metadata + spec.inner
    length_words = min(len(body) // 4, REPORT_LENGTH_TO_END)
    inner_only = spec.metadata is None or dialect.main_contents_always
    header = ReportIndividual(
        report_type=REP_TYPE_INNER_ONLY if inner_only else REP_TYPE_INT,
        inner_type=spec.inner_type,
        report_length_words=0 if dialect.report_length_to_end else length_words,
        metadata_length_words=len(metadata) // 4,
        dropped=spec.dropped,
        congested_queue=spec.congested_queue,
        tracked_flow=spec.tracked_flow,
        intermediate_report=spec.intermediate_report,
        reserved=0,
    )
    return encode(header) + body
