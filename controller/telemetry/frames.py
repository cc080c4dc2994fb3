# SPDX-License-Identifier: Apache-2.0
"""Encoders of the frames under study: RoCEv2 with a correct ICRC, and PTP over UDP.

Frames are Ethernet without FCS. Header bytes come from the tables of `layout`; per flow the
constant part and its share of the CRC are computed once, since a lab run builds many frames.
"""

import functools
import zlib
from dataclasses import dataclass
from enum import IntEnum, unique

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, encode, packer
from controller.telemetry.datagram import UDP_PORT_ROCEV2, unwrap_udp, wrap_udp
from controller.telemetry.layout import BTH, ETHERNET, IPV4, UDP, Aeth
from controller.telemetry.ptp import (
    PtpAddresses,
    PtpMessage,
    PtpMessageType,
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
    "RoceFlow",
    "icrc",
    "icrc_is_valid",
    "parse_ptp",
    "parse_ptp_addresses",
    "ptp_delay_req",
    "ptp_delay_resp",
    "ptp_follow_up",
    "ptp_frame",
    "ptp_sync",
    "roce_ack_frame",
    "roce_frame",
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


def roce_frame(
    flow: RoceFlow,
    *,
    psn: int,
    opcode: int = BthOpcode.SEND_ONLY,
    payload: bytes = b"",
    ack_request: bool = False,
) -> bytes:
    """A RoCEv2 frame; the payload (extension headers included) is padded to whole words."""
    pad_count = -len(payload) % 4
    body = payload + bytes(pad_count)
    prefix, prefix_crc = _roce_prefix(flow, len(body))
    queue_pair, ack = flow.dest_qp & 0xFFFFFF, int(ack_request)
    key = PARTITION_KEY_DEFAULT
    bth = _pack_bth((opcode, 0, 0, pad_count, 0, key, 0, 0, 0, queue_pair, ack, 0, psn & 0xFFFFFF))
    crc = zlib.crc32(body, zlib.crc32(bth[:4] + b"\xff" + bth[5:], prefix_crc))
    return prefix + bth + body + crc.to_bytes(ICRC_BYTES, "little")


def roce_ack_frame(flow: RoceFlow, *, psn: int, msn: int, syndrome: int = 0) -> bytes:
    """A reliable connection's acknowledgement of all packets up to `psn`."""
    aeth = encode(Aeth(syndrome=syndrome, msn=msn & 0xFFFFFF))
    return roce_frame(flow, psn=psn, opcode=BthOpcode.ACKNOWLEDGE, payload=aeth)


def icrc(frame: Buffer) -> int:
    """The invariant CRC that a RoCEv2 frame over IPv4 should carry (last 4 UDP payload bytes).

    CRC-32 over 8 bytes of ones, the IPv4, UDP and BTH headers with all that routers may change
    set to ones (TOS, TTL, IP and UDP checksums, BTH byte 4), and the rest up to the ICRC, which
    stands where the UDP length says, whatever padding follows. Little-endian on the wire.
    """
    datagram = unwrap_udp(frame, verify_checksums=False)
    if datagram.payload_end - datagram.payload_start < BTH.byte_count + ICRC_BYTES:
        raise DecodeError(DecodeReason.TRUNCATED, datagram.payload_end)
    masked = bytearray(frame[ETHERNET.byte_count : datagram.payload_end - ICRC_BYTES])
    udp_start = datagram.ipv4.ihl * 4
    bth_start = udp_start + UDP.byte_count
    for index in (1, 8, 10, 11, udp_start + 6, udp_start + 7, bth_start + 4):
        masked[index] = 0xFF
    return zlib.crc32(masked, _CRC_OF_ONES)


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
        dscp=flow.dscp,
        ecn=flow.ecn,
        ttl=flow.ttl,
    )
    prefix = frame[: ETHERNET.byte_count + IPV4.byte_count + UDP.byte_count]
    masked = bytearray(prefix[ETHERNET.byte_count :])
    for index in (1, 8, 10, 11, 26, 27):
        masked[index] = 0xFF
    return prefix, zlib.crc32(masked, _CRC_OF_ONES)
