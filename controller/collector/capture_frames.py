# SPDX-License-Identifier: Apache-2.0
"""Captured frames to report payloads, compiled: what `datagram.unwrap_udp` does one at a time.

The order of the checks is that of the plain path, so that a frame is refused for the same reason.
"""

import numpy as np
from numpy.typing import NDArray

from controller.collector.capture_records import Rows
from controller.collector.loads import be16, be32, be64, u8
from controller.telemetry.codec import DecodeReason
from controller.telemetry.datagram import (
    ETHER_TYPE_IPV4,
    ETHER_TYPE_IPV6,
    ETHER_TYPE_VLAN,
    ETHER_TYPES_TAG,
    IP_PROTOCOL_UDP,
    TAGS_MAX,
)
from controller.telemetry.link_types import (
    ADDRESS_FAMILIES_INET6,
    ADDRESS_FAMILY_INET,
    LINKTYPE_ETHERNET,
    LINKTYPE_IPV4,
    LINKTYPE_IPV6,
    LINKTYPE_LINUX_SLL,
    LINKTYPE_LINUX_SLL2,
    LINKTYPE_LOOP,
    LINKTYPE_NULL,
    LINKTYPE_RAW,
    LOOPBACK_BYTES,
    NO_ETHER_TYPE,
    SLL2_BYTES,
    SLL_BYTES,
    SLL_PROTOCOL_OFFSET,
)
from controller.telemetry.report_old import NEXT_DROP_V05, NEXT_LOCAL_V05
from correction.compiled import compiled

BatchArrays = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]
"""`start`, `byte_count`, `capture_collector_ns` and `destination` of a `ReportBatch`."""

FRAME_REASONS = (
    DecodeReason.TRUNCATED,
    DecodeReason.ETHER_TYPE,
    DecodeReason.IP_HEADER,
    DecodeReason.IP_CHECKSUM,
    DecodeReason.IP_FRAGMENT,
    DecodeReason.NOT_UDP,
    DecodeReason.UDP_LENGTH,
    DecodeReason.UDP_CHECKSUM,
    DecodeReason.UDP_PORT,
)
"""Why a frame is refused before its payload is looked at: reason i is counted in row i."""
_TRUNCATED, _ETHER_TYPE, _IP_HEADER, _IP_CHECKSUM, _IP_FRAGMENT = 0, 1, 2, 3, 4
_NOT_UDP, _UDP_LENGTH, _UDP_CHECKSUM, _UDP_PORT = 5, 6, 7, 8
_TAG_SERVICE, _TAG_OLD = ETHER_TYPES_TAG[1:]
_FAMILY_A, _FAMILY_B, _FAMILY_C, _FAMILY_D = ADDRESS_FAMILIES_INET6
DESTINATIONS_MAX = 1024
"""Distinct destinations of one batch; with one more, a batch ends early."""

DESTINATION_DTYPE = np.dtype([("high", np.int64), ("low", np.int64), ("udp_port", np.int32)])
"""An IPv4 or IPv6 address as a 128-bit number in two (signed) words, and a port."""


@compiled
def _word_sum(data: int, start: int, end: int) -> int:
    """The sum of big-endian 16-bit words, a last odd byte padded with zero."""
    total = 0
    for at in range(start, end - 1, 2):
        total += be16(data + at)
    if (end - start) % 2:
        total += u8(data + end - 1) << 8
    return total


@compiled
def _is_right(total: int) -> bool:
    """Whether words that hold their own checksum add up (RFC 1071); all zeros do not."""
    return total != 0 and total % 65535 == 0


@compiled
def _network_header(data: int, start: int, end: int, link_type: int) -> tuple[int, int]:
    """(EtherType, start of what follows the link header); (-1, 0) when the frame is too short."""
    if link_type == LINKTYPE_ETHERNET:
        return (be16(data + start + 12), start + 14) if end >= start + 14 else (-1, 0)
    header_bytes = 0
    if link_type in (LINKTYPE_NULL, LINKTYPE_LOOP):
        header_bytes = LOOPBACK_BYTES
    elif link_type == LINKTYPE_LINUX_SLL:
        header_bytes = SLL_BYTES
    elif link_type == LINKTYPE_LINUX_SLL2:
        header_bytes = SLL2_BYTES
    after = start + header_bytes
    if end <= after:
        return -1, 0
    ether_type = NO_ETHER_TYPE
    if link_type in (LINKTYPE_RAW, LINKTYPE_IPV4, LINKTYPE_IPV6):
        version = u8(data + start) >> 4
        if version == 4:
            ether_type = ETHER_TYPE_IPV4
        elif version == 6:
            ether_type = ETHER_TYPE_IPV6
    elif header_bytes == LOOPBACK_BYTES:
        high, low = be16(data + start), be16(data + start + 2)
        family = -1
        if high == 0:
            family = low
        elif low == 0:
            family = high >> 8 | (high & 0xFF) << 8
        if family == ADDRESS_FAMILY_INET:
            ether_type = ETHER_TYPE_IPV4
        elif family in (_FAMILY_A, _FAMILY_B, _FAMILY_C, _FAMILY_D):
            ether_type = ETHER_TYPE_IPV6
    elif link_type == LINKTYPE_LINUX_SLL:
        ether_type = be16(data + start + SLL_PROTOCOL_OFFSET)
    elif link_type == LINKTYPE_LINUX_SLL2:
        ether_type = be16(data + start)
    return ether_type, after


@compiled
def _unwrap(data: int, start: int, end: int, link_type: int) -> tuple[int, int, int, int]:
    """(reason or -1, payload start, payload end, start of the IP header) of one frame."""
    ether_type, at = _network_header(data, start, end, link_type)
    if ether_type < 0:
        return _TRUNCATED, 0, 0, 0
    for _tag in range(TAGS_MAX):
        if ether_type not in (ETHER_TYPE_VLAN, _TAG_SERVICE, _TAG_OLD):
            break
        if at + 4 > end:
            return _TRUNCATED, 0, 0, 0
        ether_type = be16(data + at + 2)
        at += 4
    if ether_type == ETHER_TYPE_IPV4:
        if at + 20 > end:
            return _TRUNCATED, 0, 0, 0
        header_bytes = (u8(data + at) & 0xF) * 4
        udp_start = at + header_bytes
        ip_end = at + be16(data + at + 2)
        if u8(data + at) >> 4 != 4 or header_bytes < 20 or ip_end < udp_start:
            return _IP_HEADER, 0, 0, 0
        if end < ip_end:
            return _TRUNCATED, 0, 0, 0
        if be16(data + at + 10) != 0 and not _is_right(_word_sum(data, at, udp_start)):
            return _IP_CHECKSUM, 0, 0, 0
        if be16(data + at + 6) & 0x3FFF:
            return _IP_FRAGMENT, 0, 0, 0
        protocol = u8(data + at + 9)
        addresses_start, addresses_end = at + 12, at + 20
    elif ether_type == ETHER_TYPE_IPV6:
        if at + 40 > end:
            return _TRUNCATED, 0, 0, 0
        if u8(data + at) >> 4 != 6:
            return _IP_HEADER, 0, 0, 0
        udp_start = at + 40
        ip_end = udp_start + be16(data + at + 4)
        if end < ip_end:
            return _TRUNCATED, 0, 0, 0
        protocol = u8(data + at + 6)
        addresses_start, addresses_end = at + 8, at + 40
    else:
        return _ETHER_TYPE, 0, 0, 0
    if protocol != IP_PROTOCOL_UDP:
        return _NOT_UDP, 0, 0, 0
    udp_bytes = ip_end - udp_start
    if udp_bytes < 8:
        return _TRUNCATED, 0, 0, 0
    if be16(data + udp_start + 4) != udp_bytes:
        return _UDP_LENGTH, 0, 0, 0
    if be16(data + udp_start + 6) != 0:
        total = _word_sum(data, addresses_start, addresses_end) + _word_sum(data, udp_start, ip_end)
        if not _is_right(total + IP_PROTOCOL_UDP + udp_bytes):
            return _UDP_CHECKSUM, 0, 0, 0
    return -1, udp_start + 8, ip_end, at


@compiled
def _address(data: int, ip_start: int) -> tuple[int, int]:
    """The destination address in two words, as signed numbers."""
    if u8(data + ip_start) >> 4 == 4:
        return 0, be32(data + ip_start + 16)
    return be64(data + ip_start + 24), be64(data + ip_start + 32)


@compiled
def _named_node(data: int, start: int, end: int) -> int:
    """As `rejected.named_node_id`; 0 where there is none."""
    at = start + 4
    if end > start and u8(data + start) >> 4 == 0:
        if u8(data + start) & 0xF not in (NEXT_DROP_V05, NEXT_LOCAL_V05):
            return 0
        at = start + 12
    if at + 4 > end:
        return 0
    node_id: int = be32(data + at)
    return node_id


@compiled
def unwrap_frames(
    data: int,
    frames: Rows,
    fabric: tuple[NDArray[np.int64], NDArray[np.int64]],
    tables: tuple[Rows, NDArray[np.int64]],
    rows: BatchArrays,
) -> tuple[int, int, int]:
    """(frames used, rows filled, destinations) of captured frames.

    `data` is the buffer's address (`loads.address_of`); `fabric` is (report UDP ports, ids of nodes
    whose reports reach to the end of their frames); `tables` is (destinations, refused by reason);
    `rows` are the arrays of a `ReportBatch`.
    """
    report_udp_ports, beyond_nodes = fabric
    destinations, refused = tables
    row_start, row_bytes, row_ns, row_destination = rows
    count = 0
    destination_count = 0
    recent = 0
    for index in range(len(frames)):
        frame = frames[index]
        start = frame["start"]
        reason, payload_start, payload_end, ip_start = _unwrap(
            data, start, start + frame["byte_count"], frame["link_type"]
        )
        if reason >= 0:
            refused[reason] += 1
            continue
        udp_port = be16(data + payload_start - 6)
        if udp_port not in report_udp_ports:
            refused[_UDP_PORT] += 1
            continue
        high, low = _address(data, ip_start)
        found = -1
        for step in range(destination_count):
            candidate = (recent + step) % destination_count
            known = destinations[candidate]
            if known["low"] == low and known["high"] == high and known["udp_port"] == udp_port:
                found = candidate
                break
        if found < 0:
            if destination_count == len(destinations):
                return index, count, destination_count
            found = destination_count
            destinations[found]["high"] = high
            destinations[found]["low"] = low
            destinations[found]["udp_port"] = udp_port
            destination_count += 1
        recent = found
        if len(beyond_nodes) and _named_node(data, payload_start, payload_end) in beyond_nodes:
            payload_end = start + frame["byte_count"]
        row_start[count] = payload_start
        row_bytes[count] = payload_end - payload_start
        row_ns[count] = frame["capture_collector_ns"]
        row_destination[count] = found
        count += 1
    return len(frames), count, destination_count
