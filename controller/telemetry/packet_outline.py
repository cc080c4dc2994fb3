# SPDX-License-Identifier: Apache-2.0
"""What can be told of a reported packet that cannot be read as a whole.

A dropped packet may be malformed, a fragment, of an unknown EtherType, or carry INT that nobody can
strip: the report is good all the same. Only the first header must be there.
"""

from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode
from controller.telemetry.datagram import (
    ETHER_TYPE_IPV4,
    ETHER_TYPE_IPV6,
    IP_FLAG_MORE_FRAGMENTS,
    IP_PROTOCOL_TCP,
    IP_PROTOCOL_UDP,
    frame_bytes_on_wire,
    unwrap_link,
)
from controller.telemetry.layout import IPV4, IPV6, TCP_PORTS
from controller.telemetry.packet import (
    NETWORK_ETHERNET,
    NETWORK_IPV6,
    TRAFFIC_OTHER,
    PacketKey,
    ReportedPacket,
)

_IN_TYPE_ETHERNET = 3
_IN_TYPE_IPV4 = 4


def decode_outline(
    data: Buffer, offset: int, inner_type: int, problem: DecodeReason
) -> ReportedPacket:
    """Addresses, protocol and ports as far as the headers go, and why that is all.

    The inner types 4 and 5 promise an IP header of their version: `DecodeError` without one.
    """
    if inner_type != _IN_TYPE_ETHERNET:
        decoder = _outline_ipv4 if inner_type == _IN_TYPE_IPV4 else _outline_ipv6
        return decoder(data, offset, False)._replace(problem=problem)
    link = unwrap_link(data, offset)
    tagged = link.vlan is not None
    packet = None
    try:
        if link.ether_type == ETHER_TYPE_IPV4:
            packet = _outline_ipv4(data, link.payload_start, tagged)
        elif link.ether_type == ETHER_TYPE_IPV6:
            packet = _outline_ipv6(data, link.payload_start, tagged)
    except DecodeError as error:
        problem = error.reason
    if packet is None:
        src_mac, dst_mac = link.ethernet.src_addr, link.ethernet.dst_addr
        key = PacketKey(
            TRAFFIC_OTHER, src_mac, dst_mac, link.ether_type, 0, 0, network=NETWORK_ETHERNET
        )
        packet = ReportedPacket(key, 0, 0, src_addr=src_mac, dst_addr=dst_mac)
    return packet._replace(
        problem=problem, vlan_id=None if link.vlan is None else link.vlan.vlan_id
    )


def _outline_ipv4(data: Buffer, offset: int, tagged: bool) -> ReportedPacket:
    ipv4 = decode(IPV4, data, offset)
    if ipv4.version != 4 or ipv4.ihl < 5 or ipv4.total_length < ipv4.ihl * 4:
        raise DecodeError(DecodeReason.INNER_IP_HEADER, offset)
    whole = not (ipv4.fragment_offset or ipv4.flags & IP_FLAG_MORE_FRAGMENTS)
    src_port, dst_port = _ports(data, offset + ipv4.ihl * 4, ipv4.protocol) if whole else (0, 0)
    addresses = (ipv4.src_addr, ipv4.dst_addr)
    key = PacketKey(TRAFFIC_OTHER, *addresses, ipv4.protocol, src_port, dst_port)
    return _outline(key, ipv4.dscp, frame_bytes_on_wire(ipv4.total_length, tagged=tagged))


def _outline_ipv6(data: Buffer, offset: int, tagged: bool) -> ReportedPacket:
    ipv6 = decode(IPV6, data, offset)
    if ipv6.version != NETWORK_IPV6:
        raise DecodeError(DecodeReason.INNER_IP_HEADER, offset)
    ports = _ports(data, offset + IPV6.byte_count, ipv6.next_header)
    addresses = (ipv6.src_addr, ipv6.dst_addr)
    key = PacketKey(TRAFFIC_OTHER, *addresses, ipv6.next_header, *ports, network=NETWORK_IPV6)
    ip_bytes = IPV6.byte_count + ipv6.payload_length
    return _outline(key, ipv6.dscp, frame_bytes_on_wire(ip_bytes, tagged=tagged))


def _outline(key: PacketKey, dscp: int, wire_bytes: int) -> ReportedPacket:
    return ReportedPacket(key, dscp, wire_bytes, src_addr=key.src_addr, dst_addr=key.dst_addr)


def _ports(data: Buffer, offset: int, protocol: int) -> tuple[int, int]:
    """UDP and TCP ports; 0 where there are none to be read."""
    if protocol not in (IP_PROTOCOL_UDP, IP_PROTOCOL_TCP):
        return 0, 0
    try:
        return decode(TCP_PORTS, data, offset)
    except DecodeError:
        return 0, 0
