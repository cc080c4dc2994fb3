# SPDX-License-Identifier: Apache-2.0
"""Encoders of the frames under study: RoCEv2 with a correct ICRC, PTP, and link probes.

Frames are Ethernet without FCS. Header bytes come from the tables of `layout`; per flow the
constant part and its share of the CRC are computed once, since a lab run builds many frames.
"""

import functools
import zlib
from dataclasses import dataclass
from enum import IntEnum, unique

from controller.telemetry.codec import (
    Buffer,
    DecodeError,
    DecodeReason,
    decode,
    encode,
    packer,
)
from controller.telemetry.datagram import (
    UDP_PORT_PROBE,
    UDP_PORT_ROCEV2,
    unwrap_udp,
    with_udp_checksum,
    wrap_udp,
)
from controller.telemetry.layout import BTH, ETHERNET, PROBE, UDP, VLAN, Aeth, Cnp, Probe, Reth
from controller.telemetry.packet import PROBE_VERSION
from controller.telemetry.ptp import (
    PtpAddresses,
    PtpMessage,
    PtpMessageType,
    PtpTransport,
    parse_ptp,
    parse_ptp_addresses,
    ptp_delay_req,
    ptp_delay_resp,
    ptp_follow_up,
    ptp_frame,
    ptp_sync,
)

__all__ = [
    "BthOpcode",
    "PtpAddresses",
    "PtpMessage",
    "PtpMessageType",
    "PtpTransport",
    "RoceFlow",
    "icrc",
    "icrc_is_valid",
    "parse_probe",
    "parse_ptp",
    "parse_ptp_addresses",
    "probe_frame",
    "ptp_delay_req",
    "ptp_delay_resp",
    "ptp_follow_up",
    "ptp_frame",
    "ptp_sync",
    "roce_ack_frame",
    "roce_cnp_frame",
    "roce_frame",
    "roce_read_request_frame",
    "roce_write_frame",
    "with_udp_checksum",
]

ICRC_BYTES = 4
PARTITION_KEY_DEFAULT = 0xFFFF
ECN_CAPABLE = 2
"""ECT(0): what a RoCEv2 NIC with congestion control sends."""
_FLOWS_CACHED_MAX = 4096
"""Distinct (flow, frame length) pairs kept prepared: a lab has some hundred queue pairs."""


@unique
class BthOpcode(IntEnum):
    """The BTH opcodes that the lab uses (IBTA, reliable connection unless said)."""

    SEND_FIRST = 0x00
    SEND_MIDDLE = 0x01
    SEND_LAST = 0x02
    SEND_ONLY = 0x04
    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST = 0x08
    WRITE_ONLY = 0x0A
    READ_REQUEST = 0x0C
    READ_RESPONSE_ONLY = 0x10
    ACKNOWLEDGE = 0x11
    CNP = 0x81


@dataclass(frozen=True, slots=True, kw_only=True)
class RoceFlow:
    """One direction of a queue pair: everything that its frames have in common."""

    src_mac: int
    dst_mac: int
    src_ip: int
    dst_ip: int
    src_port: int
    dest_qp: int
    dscp: int = 26
    ecn: int = ECN_CAPABLE
    ttl: int = 64
    ip_version: int = 4
    flow_label: int = 0
    """Of IPv6."""
    vlan_id: int | None = None
    """None: no VLAN tag."""


def roce_frame(
    flow: RoceFlow,
    *,
    psn: int,
    opcode: int = BthOpcode.SEND_ONLY,
    payload: bytes = b"",
    ack_request: bool = False,
    becn: bool = False,
) -> bytes:
    """A RoCEv2 frame; the payload (extension headers included) is padded to whole words."""
    pad_count = -len(payload) % 4
    body = payload + bytes(pad_count)
    prefix, prefix_crc = _roce_prefix(flow, len(body))
    queue_pair, ack = flow.dest_qp & 0xFFFFFF, int(ack_request)
    key = PARTITION_KEY_DEFAULT
    congested = int(becn)
    bth = _pack_bth(
        (opcode, 0, 0, pad_count, 0, key, 0, congested, 0, queue_pair, ack, 0, psn & 0xFFFFFF)
    )
    crc = zlib.crc32(body, zlib.crc32(bth[:4] + b"\xff" + bth[5:], prefix_crc))
    return prefix + bth + body + crc.to_bytes(ICRC_BYTES, "little")


def roce_ack_frame(flow: RoceFlow, *, psn: int, msn: int, syndrome: int = 0) -> bytes:
    """A reliable connection's acknowledgement up to `psn`; syndrome 0x60: a NAK asks for `psn`."""
    aeth = encode(Aeth(syndrome=syndrome, msn=msn & 0xFFFFFF))
    return roce_frame(flow, psn=psn, opcode=BthOpcode.ACKNOWLEDGE, payload=aeth)


def roce_write_frame(
    flow: RoceFlow,
    *,
    psn: int,
    virtual_address: int,
    remote_key: int,
    dma_length: int,
    payload: bytes,
    opcode: int = BthOpcode.WRITE_ONLY,
    ack_request: bool = True,
) -> bytes:
    """The first packet of an RDMA write: it tells where all `dma_length` bytes go."""
    reth = Reth(virtual_address=virtual_address, remote_key=remote_key, dma_length=dma_length)
    body = encode(reth) + payload
    return roce_frame(flow, psn=psn, opcode=opcode, payload=body, ack_request=ack_request)


def roce_read_request_frame(
    flow: RoceFlow, *, psn: int, virtual_address: int, remote_key: int, dma_length: int
) -> bytes:
    """An RDMA read request; the responses come with AETHs."""
    reth = Reth(virtual_address=virtual_address, remote_key=remote_key, dma_length=dma_length)
    return roce_frame(flow, psn=psn, opcode=BthOpcode.READ_REQUEST, payload=encode(reth))


def roce_cnp_frame(flow: RoceFlow) -> bytes:
    """A congestion notification packet to the sender of a marked packet: BECN set, no PSN."""
    return roce_frame(flow, psn=0, opcode=BthOpcode.CNP, payload=encode(Cnp(reserved=0)), becn=True)


def probe_frame(
    *,
    node_id: int,
    egress_port: int,
    sequence_number: int,
    src_mac: int,
    dst_mac: int,
    src_ip: int,
    dst_ip: int,
    dscp: int = 0,
    ttl: int = 255,
    payload_bytes: int = 0,
) -> bytes:
    """A link probe as its sender puts it out of `egress_port`; `payload_bytes` make it longer.

    TTL 255 shows the neighbour that it has crossed one link only (RFC 5082).
    """
    probe = Probe(
        version=PROBE_VERSION,
        returning=0,
        reserved=0,
        egress_port=egress_port,
        node_id=node_id,
        sequence_number=sequence_number & 0xFFFFFFFF,
    )
    return wrap_udp(
        encode(probe) + bytes(payload_bytes),
        src_mac=src_mac,
        dst_mac=dst_mac,
        src_ip=src_ip,
        dst_ip=dst_ip,
        src_port=UDP_PORT_PROBE,
        dst_port=UDP_PORT_PROBE,
        dscp=dscp,
        ttl=ttl,
    )


def parse_probe(frame: Buffer) -> Probe:
    """The probe that a frame carries; `DecodeError` when it carries none."""
    datagram = unwrap_udp(frame)
    if datagram.udp.dst_port != UDP_PORT_PROBE:
        raise DecodeError(DecodeReason.INNER_PROTOCOL, datagram.payload_start - UDP.byte_count)
    probe = decode(PROBE, frame[: datagram.payload_end], datagram.payload_start)
    if probe.version != PROBE_VERSION:
        raise DecodeError(DecodeReason.PROBE_VERSION, datagram.payload_start)
    return probe


def icrc(frame: Buffer) -> int:
    """The invariant CRC that a RoCEv2 frame should carry (last 4 bytes of the UDP payload).

    CRC-32 over 8 bytes of ones, the IP, UDP and BTH headers with all that routers may change set to
    ones (IPv4: TOS, TTL, checksum; IPv6: traffic class, flow label, hop limit; UDP checksum, BTH
    byte 4), and the rest up to the ICRC, which stands where the UDP length says, whatever padding
    follows. Little-endian on the wire.
    """
    datagram = unwrap_udp(frame, verify_checksums=False)
    if datagram.payload_end - datagram.payload_start < BTH.byte_count + ICRC_BYTES:
        raise DecodeError(DecodeReason.TRUNCATED, datagram.payload_end)
    headers = _masked(frame[datagram.ip_start : datagram.payload_start])
    rest = bytearray(frame[datagram.payload_start : datagram.payload_end - ICRC_BYTES])
    rest[4] = 0xFF
    return zlib.crc32(rest, zlib.crc32(headers, _CRC_OF_ONES))


def icrc_is_valid(frame: Buffer) -> bool:
    """Whether the carried ICRC is the right one."""
    end = unwrap_udp(frame, verify_checksums=False).payload_end
    return icrc(frame) == int.from_bytes(frame[end - ICRC_BYTES : end], "little")


_CRC_OF_ONES = zlib.crc32(b"\xff" * 8)
_pack_bth = packer(BTH)


@functools.lru_cache(maxsize=_FLOWS_CACHED_MAX)
def _roce_prefix(flow: RoceFlow, body_bytes: int) -> tuple[bytes, int]:
    """Headers before the BTH, and the ICRC register after them."""
    empty = bytes(BTH.byte_count + body_bytes + ICRC_BYTES)
    frame = wrap_udp(
        empty,
        src_mac=flow.src_mac,
        dst_mac=flow.dst_mac,
        src_ip=flow.src_ip,
        dst_ip=flow.dst_ip,
        src_port=flow.src_port,
        dst_port=UDP_PORT_ROCEV2,
        ip_version=flow.ip_version,
        dscp=flow.dscp,
        ecn=flow.ecn,
        ttl=flow.ttl,
        flow_label=flow.flow_label,
        vlan_id=flow.vlan_id,
    )
    prefix = frame[: -len(empty)]
    ip_start = ETHERNET.byte_count + (0 if flow.vlan_id is None else VLAN.byte_count)
    return prefix, zlib.crc32(_masked(prefix[ip_start:]), _CRC_OF_ONES)


def _masked(headers: Buffer) -> bytes:
    """IP and UDP header with ones where the ICRC does not look."""
    masked = bytearray(headers)
    if masked[0] >> 4 == 4:
        for index in (1, 8, 10, 11):
            masked[index] = 0xFF
    else:
        masked[:4] = b"\x6f\xff\xff\xff"
        masked[7] = 0xFF
    masked[-2:] = b"\xff\xff"
    return bytes(masked)
