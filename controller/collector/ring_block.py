# SPDX-License-Identifier: Apache-2.0
"""One block of an AF_PACKET ring split into report rows, compiled.

Packets begin with their IP header. The filter has let through what looks like UDP to the right
port; here lengths and checksums are looked at, as the kernel does for a socket.
"""

from enum import IntEnum, unique

import numpy as np
from numpy.typing import NDArray

from controller.collector.address_index import address_index
from controller.collector.batch import ReportBatch
from controller.collector.loads import address_of, be16, get16, get32, u8
from controller.collector.messages import AddressRows
from correction.compiled import compiled

_NS_PER_S = 1_000_000_000
_HEADER_BYTES = 48
"""struct tpacket3_hdr up to the link address."""
_STATUS_CHECKSUM_LATER, _STATUS_CHECKSUM_VALID = 1 << 3, 1 << 7
_UDP_BYTES = 8


@unique
class RingTold(IntEnum):
    """What a pass over a block tells besides rows: places in an array."""

    REFUSED = 0
    """Packets that are fragments, cut, or have wrong lengths or checksums; they make no rows."""
    NEW_ADDRESS = 1
    """Where an address lies that has no row yet, -1 for none; the pass stopped there."""


def read_block(
    batch: ReportBatch, first: int, packets: int, where: AddressRows, told: NDArray[np.int64]
) -> int:
    """Rows of the `packets` of a block, of which the first is at offset `first` of the buffer."""
    return int(
        _read_block(
            address_of(batch.buffer),
            len(batch.buffer),
            first,
            packets,
            where.addresses.view(np.int64),
            where.rows,
            where.fallback_row,
            batch.start,
            batch.byte_count,
            batch.capture_collector_ns,
            batch.destination,
            told,
        )
    )


@compiled
def _is_checksum_right(data: int, start: int, byte_count: int, is_ipv6: bool) -> bool:
    """Whether the UDP checksum over pseudo header and datagram at `data` is right, or absent."""
    if be16(data + 6) == 0:
        return not is_ipv6
    total = 17 + byte_count
    addresses = start + 8 if is_ipv6 else start + 12
    for at in range(0, 32 if is_ipv6 else 8, 2):
        total += be16(addresses + at)
    for at in range(0, byte_count - 1, 2):
        total += be16(data + at)
    if byte_count % 2:
        total += u8(data + byte_count - 1) << 8
    return total % 65535 == 0


@compiled
def _udp_start(packet: int, byte_count: int) -> int:
    """Where the UDP header begins in a whole, unfragmented packet; -1 if it is none."""
    if byte_count < 1:
        return -1
    version = u8(packet) >> 4
    if version == 4:
        start = (u8(packet) & 0xF) * 4
        if start < 20 or byte_count < start + _UDP_BYTES or be16(packet + 6) & 0x3FFF:
            return -1
        return start if be16(packet + 2) <= byte_count else -1
    if version == 6 and byte_count >= 40 + _UDP_BYTES and be16(packet + 4) + 40 <= byte_count:
        return 40
    return -1


@compiled
def _read_block(
    buffer: int,
    buffer_bytes: int,
    first: int,
    packets: int,
    addresses: NDArray[np.int64],
    address_rows: NDArray[np.int32],
    fallback_row: int,
    starts: NDArray[np.int64],
    byte_counts: NDArray[np.int32],
    captures: NDArray[np.int64],
    destinations: NDArray[np.int32],
    told: NDArray[np.int64],
) -> int:
    told[0] = 0
    told[1] = -1
    row = 0
    last = 0
    at = first
    for _ in range(packets):
        if at + _HEADER_BYTES > buffer_bytes or row >= len(starts):
            break
        header = buffer + at
        captured_ns = get32(header + 4) * _NS_PER_S + get32(header + 8)
        kept_bytes = get32(header + 12)
        status = get32(header + 20)
        packet_at = at + get16(header + 26)
        packet = buffer + packet_at
        step = get32(header)
        at += step
        start = _udp_start(packet, kept_bytes)
        if start < 0:
            told[0] += 1
            continue
        udp_bytes = be16(packet + start + 4)
        is_ipv6 = u8(packet) >> 4 == 6
        if udp_bytes < _UDP_BYTES or start + udp_bytes > kept_bytes:
            told[0] += 1
            continue
        checked = status & (_STATUS_CHECKSUM_LATER | _STATUS_CHECKSUM_VALID) != 0
        if not checked and not _is_checksum_right(packet + start, packet, udp_bytes, is_ipv6):
            told[0] += 1
            continue
        destination = fallback_row
        if fallback_row < 0 or len(addresses):
            low = get32(packet + 16)
            high = 0
            if is_ipv6:
                low = get32(packet + 24) | get32(packet + 28) << 32
                high = get32(packet + 32) | get32(packet + 36) << 32
            index = address_index(addresses, low, high, last)
            if index >= 0:
                last = index
                destination = address_rows[index]
            elif fallback_row < 0:
                told[1] = packet_at + (24 if is_ipv6 else 16)
                return 0
        starts[row] = packet_at + start + _UDP_BYTES
        byte_counts[row] = udp_bytes - _UDP_BYTES
        captures[row] = captured_ns
        destinations[row] = destination
        row += 1
        if step == 0:
            break
    return row
