# SPDX-License-Identifier: Apache-2.0
"""Ethernet, IPv4 and UDP around a payload: checked unwrapping, checksums, wrapping."""

from typing import NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode, encode
from controller.telemetry.layout import ETHERNET, IPV4, UDP, Ethernet, Ipv4, Udp

ETHER_TYPE_IPV4 = 0x0800
IP_PROTOCOL_TCP = 6
IP_PROTOCOL_UDP = 17
IP_FLAG_DONT_FRAGMENT = 0b010
IP_FLAG_MORE_FRAGMENTS = 0b001
UDP_PORT_PTP_EVENT = 319
UDP_PORT_PTP_GENERAL = 320
UDP_PORT_ROCEV2 = 4791

FRAME_BYTES_MIN = 64
"""Smallest Ethernet frame, FCS included: shorter ones are padded (IEEE 802.3 4.2.3.3)."""
FCS_BYTES = 4
"""Frame check sequence: on the wire, never in a captured frame."""


class UdpDatagram(NamedTuple):
    """A UDP datagram inside an Ethernet frame; the payload is frame[payload_start:payload_end]."""

    ethernet: Ethernet
    ipv4: Ipv4
    udp: Udp
    payload_start: int
    payload_end: int


def frame_bytes_on_wire(ip_total_length: int) -> int:
    """Bytes of the Ethernet frame around an IPv4 packet, padding and FCS included."""
    return max(ETHERNET.byte_count + ip_total_length + FCS_BYTES, FRAME_BYTES_MIN)


def internet_checksum(data: Buffer) -> int:
    """RFC 1071 checksum: ones' complement of the ones' complement sum of 16-bit words.

    Summing words modulo 65535 equals reducing the whole as one big number modulo 65535. A sum
    of non-zero words is congruent to 0 exactly when it is 0xFFFF, never the plain 0.

    >>> hex(internet_checksum(bytes.fromhex("0001f203f4f5f6f7")))
    '0x220d'
    """
    number = int.from_bytes(data, "big") << 8 * (len(data) % 2)
    if number == 0:
        return 0xFFFF
    return 0xFFFF - (number % 0xFFFF or 0xFFFF)


def ipv4_with_checksum(header: Ipv4) -> Ipv4:
    """The same header (without options) with its checksum computed."""
    zeroed = header._replace(header_checksum=0)
    return zeroed._replace(header_checksum=internet_checksum(encode(zeroed)))


def unwrap_udp(frame: Buffer, *, verify_checksums: bool = True) -> UdpDatagram:
    """The UDP datagram that a frame holds, with lengths and checksums verified.

    A checksum of 0 counts as not computed (capture before transmit offload); bytes after the IP
    packet are Ethernet padding. Raises `DecodeError`.
    """
    ethernet = decode(ETHERNET, frame, 0)
    if ethernet.ether_type != ETHER_TYPE_IPV4:
        raise DecodeError(DecodeReason.ETHER_TYPE, 12)
    ip_start = ETHERNET.byte_count
    ipv4 = decode(IPV4, frame, ip_start)
    header_bytes = ipv4.ihl * 4
    udp_start = ip_start + header_bytes
    ip_end = ip_start + ipv4.total_length
    if ipv4.version != 4 or ipv4.ihl < 5 or ipv4.total_length < header_bytes:
        raise DecodeError(DecodeReason.IP_HEADER, ip_start)
    if len(frame) < ip_end:
        raise DecodeError(DecodeReason.TRUNCATED, len(frame))
    checked = verify_checksums and ipv4.header_checksum != 0
    if checked and internet_checksum(frame[ip_start:udp_start]) != 0:
        raise DecodeError(DecodeReason.IP_CHECKSUM, ip_start + 10)
    if ipv4.fragment_offset or ipv4.flags & IP_FLAG_MORE_FRAGMENTS:
        raise DecodeError(DecodeReason.IP_FRAGMENT, ip_start + 6)
    if ipv4.protocol != IP_PROTOCOL_UDP:
        raise DecodeError(DecodeReason.NOT_UDP, ip_start + 9)
    udp = decode(UDP, frame[:ip_end], udp_start)
    if udp.length != ip_end - udp_start:
        raise DecodeError(DecodeReason.UDP_LENGTH, udp_start + 4)
    checked = verify_checksums and udp.checksum != 0
    if checked and _udp_checksum(frame, udp_start, ip_end) != 0:
        raise DecodeError(DecodeReason.UDP_CHECKSUM, udp_start + 6)
    return UdpDatagram(ethernet, ipv4, udp, udp_start + UDP.byte_count, ip_end)


def wrap_udp(
    payload: bytes,
    *,
    src_mac: int,
    dst_mac: int,
    src_ip: int,
    dst_ip: int,
    src_port: int,
    dst_port: int,
    dscp: int = 0,
    ecn: int = 0,
    ttl: int = 64,
    identification: int = 0,
) -> bytes:
    """An Ethernet frame (without FCS) that carries the payload over IPv4 and UDP, checksum 0."""
    udp_length = UDP.byte_count + len(payload)
    ipv4 = Ipv4(
        version=4,
        ihl=5,
        dscp=dscp,
        ecn=ecn,
        total_length=IPV4.byte_count + udp_length,
        identification=identification,
        flags=IP_FLAG_DONT_FRAGMENT,
        fragment_offset=0,
        ttl=ttl,
        protocol=IP_PROTOCOL_UDP,
        header_checksum=0,
        src_addr=src_ip,
        dst_addr=dst_ip,
    )
    ethernet = Ethernet(dst_addr=dst_mac, src_addr=src_mac, ether_type=ETHER_TYPE_IPV4)
    udp = Udp(src_port=src_port, dst_port=dst_port, length=udp_length, checksum=0)
    return encode(ethernet) + encode(ipv4_with_checksum(ipv4)) + encode(udp) + payload


def _udp_checksum(frame: Buffer, udp_start: int, ip_end: int) -> int:
    """Checksum over pseudo header, UDP header and payload; 0 when the carried one is right."""
    ip_start = ETHERNET.byte_count
    addresses = bytes(frame[ip_start + 12 : ip_start + 20])
    pseudo = addresses + bytes((0, IP_PROTOCOL_UDP)) + (ip_end - udp_start).to_bytes(2, "big")
    return internet_checksum(pseudo + bytes(frame[udp_start:ip_end]))
