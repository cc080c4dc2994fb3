# SPDX-License-Identifier: Apache-2.0
"""Link types of captures: where the EtherType stands and where the network header begins.

Numbers as registered at https://www.tcpdump.org/linktypes.html. Frames of every type are handed on
as Ethernet frames, so that one path judges them all.
"""

from controller.telemetry.datagram import ETHER_TYPE_IPV4, ETHER_TYPE_IPV6

LINKTYPE_NULL = 0
"""BSD loopback: the address family in four bytes, in the byte order of the capturing machine."""
LINKTYPE_ETHERNET = 1
LINKTYPE_RAW = 101
"""IPv4 or IPv6 without anything before it."""
LINKTYPE_LOOP = 108
"""OpenBSD loopback: as NULL, in network byte order."""
LINKTYPE_LINUX_SLL = 113
"""Linux cooked capture (`-i any`): 16 bytes, the protocol last."""
LINKTYPE_IPV4 = 228
LINKTYPE_IPV6 = 229
LINKTYPE_LINUX_SLL2 = 276
"""Linux cooked capture v2: 20 bytes, the protocol first."""

LINK_TYPES = {
    LINKTYPE_NULL: "BSD loopback",
    LINKTYPE_ETHERNET: "Ethernet",
    LINKTYPE_RAW: "raw IP",
    LINKTYPE_LOOP: "OpenBSD loopback",
    LINKTYPE_LINUX_SLL: "Linux cooked",
    LINKTYPE_IPV4: "raw IPv4",
    LINKTYPE_IPV6: "raw IPv6",
    LINKTYPE_LINUX_SLL2: "Linux cooked v2",
}
"""What can be read."""
LOOPBACK_BYTES = 4
SLL_BYTES = 16
SLL_PROTOCOL_OFFSET = 14
SLL2_BYTES = 20
ADDRESS_FAMILY_INET = 2
ADDRESS_FAMILIES_INET6 = (10, 24, 28, 30)
"""Linux; NetBSD and OpenBSD; FreeBSD; macOS."""
NO_ETHER_TYPE = 0
"""Given to a packet that is neither IPv4 nor IPv6, or of a link type that is not read."""


def ethernet_frame(link_type: int, data: bytes) -> bytes:
    """The captured bytes as an Ethernet frame with zero addresses; cut ones come as `b""`."""
    if link_type == LINKTYPE_ETHERNET:
        return data
    if link_type in (LINKTYPE_RAW, LINKTYPE_IPV4, LINKTYPE_IPV6):
        return _framed(_ip_ether_type(data), data, 0)
    if link_type in (LINKTYPE_NULL, LINKTYPE_LOOP):
        return _framed(_family_ether_type(data), data, LOOPBACK_BYTES)
    if link_type == LINKTYPE_LINUX_SLL:
        protocol = data[SLL_PROTOCOL_OFFSET:SLL_BYTES]
        return _framed(int.from_bytes(protocol, "big"), data, SLL_BYTES)
    if link_type == LINKTYPE_LINUX_SLL2:
        return _framed(int.from_bytes(data[:2], "big"), data, SLL2_BYTES)
    return _framed(NO_ETHER_TYPE, data, 0)


def _framed(ether_type: int, data: bytes, header_bytes: int) -> bytes:
    if len(data) <= header_bytes:
        return b""
    return bytes(12) + ether_type.to_bytes(2, "big") + data[header_bytes:]


def _ip_ether_type(data: bytes) -> int:
    version = data[0] >> 4 if data else 0
    return {4: ETHER_TYPE_IPV4, 6: ETHER_TYPE_IPV6}.get(version, NO_ETHER_TYPE)


def _family_ether_type(data: bytes) -> int:
    for family in (int.from_bytes(data[:4], "little"), int.from_bytes(data[:4], "big")):
        if family == ADDRESS_FAMILY_INET:
            return ETHER_TYPE_IPV4
        if family in ADDRESS_FAMILIES_INET6:
            return ETHER_TYPE_IPV6
    return NO_ETHER_TYPE
