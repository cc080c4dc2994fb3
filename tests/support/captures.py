# SPDX-License-Identifier: Apache-2.0
"""Captures built block by block from the pcapng draft, for tests of the readers."""

import struct

ETHERNET, RAW, SLL, SLL2, NULL = 1, 101, 113, 276, 0


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A block: type, length, body padded to 32 bits, length."""
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def section(order: str = "<", *, major: int = 1) -> bytes:
    """A Section Header Block of unknown section length."""
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, major, 0, -1), order)


def interface(
    link_type: int = ETHERNET,
    order: str = "<",
    *,
    snap_bytes: int = 0,
    resolution: int | None = None,
    offset_s: int | None = None,
) -> bytes:
    """An Interface Description Block; `resolution` is the byte of if_tsresol."""
    options = b""
    if resolution is not None:
        options += struct.pack(order + "HHBxxx", 9, 1, resolution)
    if offset_s is not None:
        options += struct.pack(order + "HHq", 14, 8, offset_s)
    if options:
        options = struct.pack(order + "HH4s", 2, 3, b"eth") + options + struct.pack("HH", 0, 0)
    return block(1, struct.pack(order + "HHI", link_type, 0, snap_bytes) + options, order)


def enhanced(frame: bytes, units: int, order: str = "<", *, number: int = 0) -> bytes:
    """An Enhanced Packet Block with a comment behind the frame."""
    head = struct.pack(
        order + "IIIII", number, units >> 32, units & 0xFFFFFFFF, len(frame), len(frame)
    )
    comment = struct.pack(order + "HH4sHH", 1, 4, b"note", 0, 0)
    return block(6, head + frame + bytes(-len(frame) % 4) + comment, order)


def obsolete(frame: bytes, units: int, order: str = "<", *, number: int = 0) -> bytes:
    """A Packet Block, as captures before 2009 have it."""
    head = struct.pack(
        order + "HHIIII", number, 0, units >> 32, units & 0xFFFFFFFF, len(frame), len(frame)
    )
    return block(2, head + frame, order)


def simple(frame: bytes, order: str = "<", *, wire_bytes: int | None = None) -> bytes:
    """A Simple Packet Block: no interface, no time."""
    return block(3, struct.pack(order + "I", wire_bytes or len(frame)) + frame, order)


def pcap(
    records: list[tuple[int, bytes]],
    *,
    order: str = "<",
    nanoseconds: bool = True,
    link_type: int = ETHERNET,
) -> bytes:
    """A classic pcap of (time in ns, captured bytes)."""
    magic, unit = (0xA1B23C4D, 1) if nanoseconds else (0xA1B2C3D4, 1000)
    data = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link_type)
    for time_ns, frame in records:
        seconds, rest = divmod(time_ns, 10**9)
        data += struct.pack(order + "IIII", seconds, rest // unit, len(frame), len(frame)) + frame
    return data


def cooked(frame: bytes, link_type: int) -> bytes:
    """The Ethernet frame as another link type captures it."""
    protocol, packet = frame[12:14], frame[14:]
    match link_type:
        case 101:
            return packet
        case 113:
            return struct.pack(">HHH8s", 0, 1, 6, bytes(8)) + protocol + packet
        case 276:
            return protocol + struct.pack(">HIHBB8s", 0, 3, 1, 0, 6, bytes(8)) + packet
        case 0:
            family = 2 if protocol == b"\x08\x00" else 10
            return struct.pack("<I", family) + packet
        case _:
            return frame
