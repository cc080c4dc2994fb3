# SPDX-License-Identifier: Apache-2.0
"""Ethernet, VLAN tag, IP and UDP around a payload: checked unwrapping, checksums, wrapping."""

from typing import NamedTuple

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode, encode
from controller.telemetry.layout import (
    ETHERNET,
    IPV4,
    IPV6,
    UDP,
    VLAN,
    Ethernet,
    Ipv4,
    Ipv6,
    Udp,
    Vlan,
)

ETHER_TYPE_IPV4 = 0x0800
ETHER_TYPE_IPV6 = 0x86DD
ETHER_TYPE_VLAN = 0x8100
ETHER_TYPES_TAG = (ETHER_TYPE_VLAN, 0x88A8, 0x9100)
"""Tag protocol identifiers: customer tag, service tag (802.1ad), and what QinQ used before it."""
TAGS_MAX = 4
"""Tags looked through around a report; networks use up to two."""
ETHER_TYPE_PTP = 0x88F7
IP_PROTOCOL_TCP = 6
IP_PROTOCOL_UDP = 17
IP_FLAG_DONT_FRAGMENT = 0b010
IP_FLAG_MORE_FRAGMENTS = 0b001
UDP_PORT_PTP_EVENT = 319
UDP_PORT_PTP_GENERAL = 320
UDP_PORT_ROCEV2 = 4791
UDP_PORT_PROBE = 32767

FRAME_BYTES_MIN = 64
"""Smallest Ethernet frame, FCS included: shorter ones are padded (IEEE 802.3 4.2.3.3)."""
FCS_BYTES = 4
"""Frame check sequence: on the wire, never in a captured frame."""


class Link(NamedTuple):
    """The Ethernet header of a frame and its VLAN tag, if it has one."""

    ethernet: Ethernet
    vlan: Vlan | None
    ether_type: int
    """Of the payload."""
    payload_start: int


class UdpDatagram(NamedTuple):
    """A UDP datagram inside an Ethernet frame; the payload is frame[payload_start:payload_end]."""

    ethernet: Ethernet
    vlan: Vlan | None
    ip: Ipv4 | Ipv6
    udp: Udp
    ip_start: int
    payload_start: int
    payload_end: int


def frame_bytes_on_wire(ip_bytes: int, *, tagged: bool = False) -> int:
    """Bytes of the Ethernet frame around an IP packet, tag, padding and FCS included."""
    tag_bytes = VLAN.byte_count if tagged else 0
    return max(ETHERNET.byte_count + tag_bytes + ip_bytes + FCS_BYTES, FRAME_BYTES_MIN)


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


def unwrap_link(frame: Buffer, offset: int = 0) -> Link:
    """The Ethernet header at `offset`, one VLAN tag looked through."""
    ethernet = decode(ETHERNET, frame, offset)
    start = offset + ETHERNET.byte_count
    if ethernet.ether_type != ETHER_TYPE_VLAN:
        return Link(ethernet, None, ethernet.ether_type, start)
    vlan = decode(VLAN, frame, start)
    return Link(ethernet, vlan, vlan.ether_type, start + VLAN.byte_count)


def unwrap_tags(frame: Buffer) -> Link:
    """The Ethernet header, up to `TAGS_MAX` VLAN tags of any kind looked through.

    `vlan` is the outermost tag.
    """
    ethernet = decode(ETHERNET, frame)
    ether_type, start = ethernet.ether_type, ETHERNET.byte_count
    outermost: Vlan | None = None
    for _tag in range(TAGS_MAX):
        if ether_type not in ETHER_TYPES_TAG:
            break
        vlan = decode(VLAN, frame, start)
        outermost = outermost or vlan
        ether_type = vlan.ether_type
        start += VLAN.byte_count
    return Link(ethernet, outermost, ether_type, start)


def wrap_link(
    payload: bytes, *, src_mac: int, dst_mac: int, ether_type: int, vlan_id: int | None = None
) -> bytes:
    """An Ethernet frame (without padding and FCS), tagged if there is a `vlan_id`."""
    if vlan_id is not None:
        payload = encode(Vlan(pcp=0, dei=0, vlan_id=vlan_id, ether_type=ether_type)) + payload
        ether_type = ETHER_TYPE_VLAN
    return encode(Ethernet(dst_addr=dst_mac, src_addr=src_mac, ether_type=ether_type)) + payload


def unwrap_udp(frame: Buffer, *, verify_checksums: bool = True) -> UdpDatagram:
    """The UDP datagram that a frame holds, with lengths and checksums verified.

    MAC addresses, VLAN tags and TTL may be any: reports and test packets are routed. A checksum of
    0 counts as not computed (capture before transmit offload); bytes after the IP packet are
    Ethernet padding. Raises `DecodeError`.
    """
    link = unwrap_tags(frame)
    ip_start = link.payload_start
    ip: Ipv4 | Ipv6
    if link.ether_type == ETHER_TYPE_IPV4:
        ip = decode(IPV4, frame, ip_start)
        udp_start, ip_end = _check_ipv4(ip, frame, ip_start, verify_checksums)
        protocol, protocol_offset = ip.protocol, 9
    elif link.ether_type == ETHER_TYPE_IPV6:
        ip = decode(IPV6, frame, ip_start)
        if ip.version != 6:
            raise DecodeError(DecodeReason.IP_HEADER, ip_start)
        udp_start = ip_start + IPV6.byte_count
        ip_end = udp_start + ip.payload_length
        if len(frame) < ip_end:
            raise DecodeError(DecodeReason.TRUNCATED, len(frame))
        protocol, protocol_offset = ip.next_header, 6
    else:
        raise DecodeError(DecodeReason.ETHER_TYPE, ip_start - 2)
    if protocol != IP_PROTOCOL_UDP:
        raise DecodeError(DecodeReason.NOT_UDP, ip_start + protocol_offset)
    udp = decode(UDP, frame[:ip_end], udp_start)
    if udp.length != ip_end - udp_start:
        raise DecodeError(DecodeReason.UDP_LENGTH, udp_start + 4)
    checked = verify_checksums and udp.checksum != 0
    if checked and _udp_checksum(_addresses(frame, ip_start), frame[udp_start:ip_end]) != 0:
        raise DecodeError(DecodeReason.UDP_CHECKSUM, udp_start + 6)
    return UdpDatagram(
        link.ethernet, link.vlan, ip, udp, ip_start, udp_start + UDP.byte_count, ip_end
    )


def _check_ipv4(ipv4: Ipv4, frame: Buffer, ip_start: int, verify_checksum: bool) -> tuple[int, int]:
    """(start of the transport header, end of the packet) of a whole IPv4 packet."""
    transport_start = ip_start + ipv4.ihl * 4
    ip_end = ip_start + ipv4.total_length
    if ipv4.version != 4 or ipv4.ihl < 5 or ip_end < transport_start:
        raise DecodeError(DecodeReason.IP_HEADER, ip_start)
    if len(frame) < ip_end:
        raise DecodeError(DecodeReason.TRUNCATED, len(frame))
    checked = verify_checksum and ipv4.header_checksum != 0
    if checked and internet_checksum(frame[ip_start:transport_start]) != 0:
        raise DecodeError(DecodeReason.IP_CHECKSUM, ip_start + 10)
    if ipv4.fragment_offset or ipv4.flags & IP_FLAG_MORE_FRAGMENTS:
        raise DecodeError(DecodeReason.IP_FRAGMENT, ip_start + 6)
    return transport_start, ip_end


def wrap_udp(
    payload: bytes,
    *,
    src_mac: int,
    dst_mac: int,
    src_ip: int,
    dst_ip: int,
    src_port: int,
    dst_port: int,
    ip_version: int = 4,
    dscp: int = 0,
    ecn: int = 0,
    ttl: int = 64,
    identification: int = 0,
    flow_label: int = 0,
    vlan_id: int | None = None,
    udp_checksum: bool = False,
) -> bytes:
    """An Ethernet frame (without FCS) that carries the payload over IPv4 or IPv6 and UDP.

    The UDP checksum is 0 (none) unless asked for; `identification` is IPv4's, `flow_label` IPv6's.
    """
    udp_length = UDP.byte_count + len(payload)
    ip: Ipv4 | Ipv6
    if ip_version == 4:
        ip = ipv4_with_checksum(
            Ipv4(
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
        )
    else:
        assert ip_version == 6
        ip = Ipv6(
            version=6,
            dscp=dscp,
            ecn=ecn,
            flow_label=flow_label,
            payload_length=udp_length,
            next_header=IP_PROTOCOL_UDP,
            hop_limit=ttl,
            src_addr=src_ip,
            dst_addr=dst_ip,
        )
    udp = Udp(src_port=src_port, dst_port=dst_port, length=udp_length, checksum=0)
    frame = wrap_link(
        encode(ip) + encode(udp) + payload,
        src_mac=src_mac,
        dst_mac=dst_mac,
        ether_type=ETHER_TYPE_IPV4 if ip_version == 4 else ETHER_TYPE_IPV6,
        vlan_id=vlan_id,
    )
    return with_udp_checksum(frame) if udp_checksum else frame


def with_udp_checksum(frame: bytes) -> bytes:
    """The same frame with its UDP checksum computed; `DecodeError` when it is not UDP."""
    datagram = unwrap_udp(frame, verify_checksums=False)
    start = datagram.payload_start - UDP.byte_count
    zeroed = frame[: start + 6] + bytes(2) + frame[start + 8 :]
    addresses = _addresses(zeroed, datagram.ip_start)
    checksum = _udp_checksum(addresses, zeroed[start : datagram.payload_end]) or 0xFFFF
    return zeroed[: start + 6] + checksum.to_bytes(2, "big") + zeroed[start + 8 :]


def _addresses(frame: Buffer, ip_start: int) -> bytes:
    """Source and destination address of the IP header at `ip_start`."""
    first, byte_count = (12, 8) if frame[ip_start] >> 4 == 4 else (8, 32)
    return bytes(frame[ip_start + first : ip_start + first + byte_count])


def _udp_checksum(addresses: bytes, datagram: Buffer) -> int:
    """Checksum over pseudo header, UDP header and payload; 0 when the carried one is right.

    The pseudo headers of IPv4 and IPv6 hold the same words, zeros apart (RFC 768, RFC 8200 8.1).
    """
    pseudo = addresses + IP_PROTOCOL_UDP.to_bytes(2, "big") + len(datagram).to_bytes(2, "big")
    return internet_checksum(pseudo + bytes(datagram))
