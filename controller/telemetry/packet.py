# SPDX-License-Identifier: Apache-2.0
"""The reported packet: its key, its original length and the INT-MD v2.1 stack that it carries.

A report holds only the packet's first bytes, so lengths come from its headers, not from the data.
"""

from collections.abc import Mapping
from typing import NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode
from controller.telemetry.datagram import (
    IP_FLAG_MORE_FRAGMENTS,
    IP_PROTOCOL_TCP,
    IP_PROTOCOL_UDP,
    UDP_PORT_PTP_EVENT,
    UDP_PORT_ROCEV2,
    frame_bytes_on_wire,
)
from controller.telemetry.dialect import STANDARD, Dialect
from controller.telemetry.layout import (
    BTH,
    INT_MD,
    INT_SHIM,
    IPV4,
    PTP,
    TCP_PORTS,
    UDP,
    IntShim,
    Ipv4,
)
from controller.telemetry.metadata import HopMetadata, bitmap_words, decode_stack_entry
from controller.telemetry.ptp import PTP_VERSION, PtpMessageType
from correction.records import TRAFFIC_PTP, TRAFFIC_ROCE

TRAFFIC_OTHER = 0
"""Neither RoCEv2 nor a PTP event message: decodes, but is no sample of a link."""

SHIM_TYPE_MD = 1
NPT_DSCP = 0
NPT_UDP_PORT = 1
NPT_INSERTED_UDP = 2
INT_VERSION = 2
_SHIM_AND_MD_BYTES = INT_SHIM.byte_count + INT_MD.byte_count


class PacketKey(NamedTuple):
    """What tells one packet from another wherever it is reported; unused parts are 0."""

    traffic: int
    src_ip: int
    dst_ip: int
    protocol: int
    src_port: int
    dst_port: int
    bth_opcode: int = 0
    dest_qp: int = 0
    psn: int = 0
    ptp_domain: int = 0
    ptp_message_type: int = 0
    ptp_clock_identity: int = 0
    ptp_port_number: int = 0
    ptp_sequence_id: int = 0


class IntStack(NamedTuple):
    """The INT-MD header of a reported packet and what the nodes on its way have added."""

    hops: tuple[HopMetadata, ...]
    """Oldest (source) first; on the wire the newest comes first."""
    instruction_bitmap: int
    hop_metadata_bytes: int
    """What every hop adds to the frame."""
    source_bytes: int
    """What the source adds besides its hop: shim, header, source-only metadata, new UDP header."""
    remaining_hop_count: int
    discard: bool
    max_hop_count_exceeded: bool
    mtu_exceeded: bool
    domain_specific_id: int


class ReportedPacket(NamedTuple):
    """The packet that a report is about, as it was before INT touched it."""

    key: PacketKey
    dscp: int
    """The packet's own, marking removed."""
    wire_bytes: int
    """Frame without INT, with FCS, from the IP total length (the report holds only its start)."""
    stack: IntStack | None


class IntMarking(NamedTuple):
    """How packets with INT are recognised in a domain; use one kind only."""

    original_dscp: Mapping[int, int]
    """Marked DSCP -> DSCP of the same class."""
    udp_port: int | None = None
    """INT's UDP destination port."""


def decode_packet(
    data: Buffer, offset: int, marking: IntMarking, dialect: Dialect = STANDARD
) -> ReportedPacket:
    """The IPv4 packet that starts at `offset`, of which `data` may hold only the beginning."""
    ipv4 = decode(IPV4, data, offset)
    header_bytes = ipv4.ihl * 4
    if ipv4.version != 4 or ipv4.ihl < 5 or ipv4.total_length < header_bytes:
        raise DecodeError(DecodeReason.INNER_IP_HEADER, offset)
    if ipv4.fragment_offset or ipv4.flags & IP_FLAG_MORE_FRAGMENTS:
        raise DecodeError(DecodeReason.INNER_IP_HEADER, offset + 6)
    transport = offset + header_bytes
    protocol, dscp = ipv4.protocol, ipv4.dscp
    if protocol == IP_PROTOCOL_UDP:
        src_port, dst_port, _length, _checksum = decode(UDP, data, transport)
        payload = transport + UDP.byte_count
    elif protocol == IP_PROTOCOL_TCP:
        src_port, dst_port = decode(TCP_PORTS, data, transport)
        payload = transport
    else:
        return _other_packet(ipv4, 0, 0)
    stack = None
    removed_bytes = 0
    by_dscp = dscp in marking.original_dscp
    if protocol == IP_PROTOCOL_UDP and (by_dscp or dst_port == marking.udp_port):
        shim, stack = _decode_stack(data, payload, dialect)
        stack_bytes = len(stack.hops) * stack.hop_metadata_bytes + stack.source_bytes
        payload += stack_bytes
        removed_bytes = stack_bytes
        npt_value = shim.reserved2 << 8 | shim.dscp << 2 | shim.reserved3
        if by_dscp:
            dscp = marking.original_dscp[dscp]
        if shim.npt == NPT_UDP_PORT:
            dst_port = npt_value
        elif shim.npt == NPT_INSERTED_UDP:
            # the added UDP header in front of the shim goes too; the original one follows
            removed_bytes += UDP.byte_count
            stack = stack._replace(source_bytes=stack.source_bytes + UDP.byte_count)
            protocol = npt_value & 0xFF
            if protocol not in (IP_PROTOCOL_UDP, IP_PROTOCOL_TCP):
                return _other_packet(ipv4, removed_bytes, protocol, dscp=dscp, stack=stack)
            src_port, dst_port = decode(TCP_PORTS, data, payload)  # first word of UDP too
            payload += UDP.byte_count if protocol == IP_PROTOCOL_UDP else 0
    if removed_bytes > ipv4.total_length - header_bytes:
        raise DecodeError(DecodeReason.INNER_IP_HEADER, offset + 2)
    addresses = (ipv4.src_addr, ipv4.dst_addr, protocol, src_port, dst_port)
    key = _packet_key(data, payload, addresses)
    wire_bytes = frame_bytes_on_wire(ipv4.total_length - removed_bytes)
    return ReportedPacket(key, dscp, wire_bytes, stack)


def _packet_key(data: Buffer, payload: int, addresses: tuple[int, int, int, int, int]) -> PacketKey:
    """The key of the packet whose UDP or TCP payload starts at `payload`."""
    _src_ip, _dst_ip, protocol, _src_port, dst_port = addresses
    if protocol == IP_PROTOCOL_UDP and dst_port == UDP_PORT_ROCEV2:
        bth = decode(BTH, data, payload)
        return PacketKey(TRAFFIC_ROCE, *addresses, bth.opcode, bth.dest_qp, bth.psn)
    if protocol == IP_PROTOCOL_UDP and dst_port == UDP_PORT_PTP_EVENT:
        ptp = decode(PTP, data, payload)
        if ptp.version_ptp != PTP_VERSION:
            raise DecodeError(DecodeReason.PTP_VERSION, payload + 1)
        if ptp.message_type in (PtpMessageType.SYNC, PtpMessageType.DELAY_REQ):
            return PacketKey(
                TRAFFIC_PTP,
                *addresses,
                ptp_domain=ptp.domain_number,
                ptp_message_type=ptp.message_type,
                ptp_clock_identity=ptp.source_clock_identity,
                ptp_port_number=ptp.source_port_number,
                ptp_sequence_id=ptp.sequence_id,
            )
    return PacketKey(TRAFFIC_OTHER, *addresses)


def _other_packet(
    ipv4: Ipv4,
    removed_bytes: int,
    protocol: int,
    *,
    dscp: int | None = None,
    stack: IntStack | None = None,
) -> ReportedPacket:
    """A packet without ports."""
    return ReportedPacket(
        PacketKey(TRAFFIC_OTHER, ipv4.src_addr, ipv4.dst_addr, protocol or ipv4.protocol, 0, 0),
        ipv4.dscp if dscp is None else dscp,
        frame_bytes_on_wire(ipv4.total_length - removed_bytes),
        stack,
    )


def _decode_stack(data: Buffer, offset: int, dialect: Dialect) -> tuple[IntShim, IntStack]:
    """Shim, INT-MD header and stack at `offset` (INT 5.6, 5.7).

    The stack is k * HopML words, plus what the source alone adds under a domain's instructions.
    An unknown domain is no error: its words are kept as bytes.
    """
    shim = decode(INT_SHIM, data, offset)
    if shim.shim_type != SHIM_TYPE_MD or shim.npt > NPT_INSERTED_UDP:
        raise DecodeError(DecodeReason.INT_SHIM_TYPE, offset)
    md_start = offset + INT_SHIM.byte_count
    md = decode(INT_MD, data, md_start)
    if md.version != INT_VERSION:
        raise DecodeError(DecodeReason.INT_VERSION, md_start)
    length_words = shim.length_words - dialect.shim_length_counts_shim
    stack_bytes = length_words * 4 - INT_MD.byte_count
    hop_bytes = md.hop_metadata_len_words * 4
    ds_words = md.hop_metadata_len_words - bitmap_words(md.instruction_bitmap)
    if ds_words < 0 or (ds_words and not md.domain_specific_id):
        raise DecodeError(DecodeReason.INT_HOP_LENGTH, md_start + 2)
    if stack_bytes < 0 or (stack_bytes and not hop_bytes):
        raise DecodeError(DecodeReason.INT_STACK_LENGTH, offset + 1)
    hop_count, source_only_bytes = divmod(stack_bytes, hop_bytes) if hop_bytes else (0, 0)
    if source_only_bytes and not (md.domain_specific_id and hop_count):
        raise DecodeError(DecodeReason.INT_STACK_LENGTH, offset + 1)
    stack_start = md_start + INT_MD.byte_count
    stack_end = stack_start + stack_bytes
    if stack_end > len(data):
        raise DecodeError(DecodeReason.TRUNCATED, len(data))
    hops = tuple(
        decode_stack_entry(md.instruction_bitmap, ds_words, data, stack_start + index * hop_bytes)
        for index in range(hop_count - 1, -1, -1)
    )
    return shim, IntStack(
        hops,
        md.instruction_bitmap,
        hop_bytes,
        _SHIM_AND_MD_BYTES + source_only_bytes,
        md.remaining_hop_count,
        bool(md.discard),
        bool(md.max_hop_count_exceeded),
        bool(md.mtu_exceeded),
        md.domain_specific_id,
    )
