# SPDX-License-Identifier: Apache-2.0
"""Where the frames of a piece of a capture lie: pcap records and pcapng packet blocks, compiled.

Numbers in the byte order of a little-endian file are read as the machine's own: as all of the
collector, this needs a little-endian machine.

The walkers stop at the first thing that is rare: damage, a cut record, a block that describes
something. The plain readers of `controller.telemetry` deal with those.
"""

from enum import IntEnum, unique
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.collector.loads import be16, be32, get16, get32
from controller.telemetry.capture_error import CAPTURED_BYTES_MAX, NS_PER_S
from controller.telemetry.pcapng import (
    ENHANCED_PACKET,
    INTERFACE_DESCRIPTION,
    OVERHEAD_BYTES,
    PACKET_OBSOLETE,
    SECTION_HEADER,
    SIMPLE_PACKET,
    TIME_S_MAX,
    Interface,
)
from correction.compiled import compiled

Rows = NDArray[np.void]
"""Of a structured dtype."""

FRAME_DTYPE = np.dtype(
    [
        ("start", np.int64),
        ("byte_count", np.int64),
        ("capture_collector_ns", np.int64),
        ("link_type", np.int32),
    ]
)
"""Where a frame lies in the buffer."""
INTERFACE_DTYPE = np.dtype(
    [
        ("link_type", np.int32),
        ("snap_bytes", np.int64),
        ("base_two", np.bool_),
        ("exponent", np.int64),
        ("per_second", np.uint64),
        ("offset_s", np.int64),
    ]
)
"""`pcapng.Interface` for compiled code; per_second is 0 with base two."""


@unique
class Stop(IntEnum):
    """Why a walker stopped."""

    INCOMPLETE = 0
    """The next record does not end within the data."""
    FULL = 1
    """There is no room for another frame."""
    DESCRIPTION = 2
    """A section header or interface description begins."""
    DAMAGED = 3
    """The next record cannot be one."""
    SKIP = 4
    """A block of no interest ends behind the data."""


_INCOMPLETE, _FULL, _DESCRIPTION = int(Stop.INCOMPLETE), int(Stop.FULL), int(Stop.DESCRIPTION)
_DAMAGED, _SKIP = int(Stop.DAMAGED), int(Stop.SKIP)
_OFFSET_S_MAX = 1 << 40
_PACKET_BLOCK_BYTES_MAX = CAPTURED_BYTES_MAX + (1 << 20)


def interface_rows(interfaces: list[Interface]) -> NDArray[np.void]:
    """The interfaces of a section as a table."""
    rows = np.zeros(len(interfaces), INTERFACE_DTYPE)
    for row, item in zip(rows, interfaces, strict=True):
        row["link_type"] = item.link_type
        row["snap_bytes"] = item.snap_bytes
        row["base_two"] = item.resolution_base == 2
        row["exponent"] = item.resolution_exponent
        row["per_second"] = 0 if item.resolution_base == 2 else 10**item.resolution_exponent
        row["offset_s"] = item.offset_s
    return rows


@compiled
def _u32(at: int, big_endian: bool) -> int:
    value: int = be32(at) if big_endian else get32(at)
    return value


@compiled
def _u16(at: int, big_endian: bool) -> int:
    value: int = be16(at) if big_endian else get16(at)
    return value


@compiled
def walk_pcap(
    data: int, start: int, end: int, header: tuple[bool, int, int], frames: Rows
) -> tuple[int, int, int]:
    """(number of frames, where the next record begins, why stopped) of the bytes [start, end).

    `data` is the buffer's address (`loads.address_of`), `header` is (big endian, ns per fraction,
    link type).
    """
    big_endian, ns_per_fraction, link_type = header
    count = 0
    while True:
        if start + 16 > end:
            return count, start, _INCOMPLETE
        captured_bytes = _u32(data + start + 8, big_endian)
        fraction_ns = _u32(data + start + 4, big_endian) * ns_per_fraction
        if captured_bytes > CAPTURED_BYTES_MAX or fraction_ns >= NS_PER_S:
            return count, start, _DAMAGED
        if start + 16 + captured_bytes > end:
            return count, start, _INCOMPLETE
        if count == len(frames):
            return count, start, _FULL
        frame = frames[count]
        frame["start"] = start + 16
        frame["byte_count"] = captured_bytes
        frame["capture_collector_ns"] = _u32(data + start, big_endian) * NS_PER_S + fraction_ns
        frame["link_type"] = link_type
        count += 1
        start += 16 + captured_bytes


@compiled
def _time_ns(interface: Any, high: int, low: int) -> int:  # noqa: ANN401 - a row of a table
    """Nanoseconds of a time in the interface's units; -1 when they do not fit an int64."""
    units = np.uint64(high) << np.uint64(32) | np.uint64(low)
    billion = np.uint64(NS_PER_S)
    if interface["base_two"]:
        exponent = np.uint64(interface["exponent"])
        seconds = units >> exponent
        rest = units - (seconds << exponent)
        # rest * 10^9 needs up to 93 bits: as two words of 32 bits
        upper = (rest >> np.uint64(32)) * billion
        lower = (rest & np.uint64(0xFFFFFFFF)) * billion
        if exponent < np.uint64(32):
            fraction = lower >> exponent
        else:
            fraction = (upper + (lower >> np.uint64(32))) >> (exponent - np.uint64(32))
    else:
        per_second = interface["per_second"]
        seconds = units // per_second
        rest = units - seconds * per_second
        if per_second <= billion:
            fraction = rest * (billion // per_second)
        else:
            fraction = rest // (per_second // billion)
    offset_s = interface["offset_s"]
    if seconds > np.uint64(_OFFSET_S_MAX) or abs(offset_s) > _OFFSET_S_MAX:
        return -1
    second = np.int64(seconds) + offset_s
    if second < 0 or second > TIME_S_MAX:
        return -1
    time_ns: int = second * NS_PER_S + np.int64(fraction)
    return time_ns


@compiled
def walk_pcapng(
    data: int,
    start: int,
    end: int,
    state: tuple[bool, int],
    interfaces: Rows,
    frames: Rows,
) -> tuple[int, int, int]:
    """The same of bytes [start, end), where a block begins.

    `state` is (big endian, time of the packet before).
    """
    big_endian, time_ns = state
    count = 0
    while True:
        if start + 8 > end:
            return count, start, _INCOMPLETE
        kind = _u32(data + start, big_endian)
        if kind in (SECTION_HEADER, INTERFACE_DESCRIPTION):
            return count, start, _DESCRIPTION
        block_bytes = _u32(data + start + 4, big_endian)
        is_packet = kind in (ENHANCED_PACKET, SIMPLE_PACKET, PACKET_OBSOLETE)
        fixed_bytes = (4 if kind == SIMPLE_PACKET else 20) if is_packet else 0
        if block_bytes % 4 or block_bytes < OVERHEAD_BYTES + fixed_bytes:
            return count, start, _DAMAGED
        if is_packet and block_bytes > _PACKET_BLOCK_BYTES_MAX:
            return count, start, _DAMAGED
        if start + block_bytes > end:
            return count, start, _INCOMPLETE if is_packet else _SKIP
        if _u32(data + start + block_bytes - 4, big_endian) != block_bytes:
            return count, start, _DAMAGED
        if is_packet:
            if count == len(frames):
                return count, start, _FULL
            at = start + 8
            number = 0
            if kind == ENHANCED_PACKET:
                number = _u32(data + at, big_endian)
            elif kind == PACKET_OBSOLETE:
                number = _u16(data + at, big_endian)
            if number >= len(interfaces):
                return count, start, _DAMAGED
            interface = interfaces[number]
            if kind == SIMPLE_PACKET:
                captured_bytes = _u32(data + at, big_endian)
                if interface["snap_bytes"]:
                    captured_bytes = min(captured_bytes, interface["snap_bytes"])
            else:
                captured_bytes = _u32(data + at + 12, big_endian)
                time_ns = _time_ns(
                    interface, _u32(data + at + 4, big_endian), _u32(data + at + 8, big_endian)
                )
            room = block_bytes - OVERHEAD_BYTES - fixed_bytes
            if time_ns < 0 or captured_bytes > min(room, CAPTURED_BYTES_MAX):
                return count, start, _DAMAGED
            frame = frames[count]
            frame["start"] = at + fixed_bytes
            frame["byte_count"] = captured_bytes
            frame["capture_collector_ns"] = time_ns
            frame["link_type"] = interface["link_type"]
            count += 1
        start += block_bytes
