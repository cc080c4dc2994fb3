# SPDX-License-Identifier: Apache-2.0
"""pcapng: the blocks of a capture as (time, link type, frame), one block at a time.

Read are Enhanced, Simple and the obsolete Packet Blocks of any number of sections and interfaces,
in either byte order, with `if_tsresol` and `if_tsoffset`; all other blocks are passed over. A
Simple Packet Block has no time: it gets that of the packet before it. Follows
draft-ietf-opsawg-pcapng.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from controller.telemetry.capture_error import (
    CAPTURED_BYTES_MAX,
    NS_PER_S,
    PcapError,
)

SECTION_HEADER = 0x0A0D0D0A
INTERFACE_DESCRIPTION = 1
PACKET_OBSOLETE = 2
SIMPLE_PACKET = 3
ENHANCED_PACKET = 6
PACKET_BLOCKS = (PACKET_OBSOLETE, SIMPLE_PACKET, ENHANCED_PACKET)
BYTE_ORDER_MAGIC = 0x1A2B3C4D
PREFIX_BYTES = 8
"""Block type and total length."""
OVERHEAD_BYTES = 12
"""The same and the total length again, at the end."""
FIXED_BYTES = {PACKET_OBSOLETE: 20, SIMPLE_PACKET: 4, ENHANCED_PACKET: 20}
"""Of a packet block, before the frame."""
DESCRIPTION_BYTES_MAX = 1 << 20
"""Section headers and interface descriptions longer than this are damage."""
TIME_S_MAX = (1 << 63) // NS_PER_S - 1
"""Latest second whose nanoseconds fit an int64: April 2262."""
_OPTION_END = 0
_OPTION_TSRESOL = 9
_OPTION_TSOFFSET = 14
INTERFACES_MAX = 4096
"""Per section. Captures have a handful; the tables that describe them must stay bounded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """What an Interface Description Block says."""

    link_type: int
    snap_bytes: int
    """Longest captured frame; 0: no limit."""
    resolution_base: int = 10
    resolution_exponent: int = 6
    """A time unit is base^-exponent seconds."""
    offset_s: int = 0
    """Added to every time."""

    def to_ns(self, units: int) -> int:
        """A time in the interface's units, since 1970, rounded down to nanoseconds."""
        per_second: int = self.resolution_base**self.resolution_exponent
        return units * NS_PER_S // per_second + self.offset_s * NS_PER_S


@dataclass(slots=True)
class Section:
    """State of one section: its byte order and interfaces."""

    byte_order: str
    interfaces: list[Interface] = field(default_factory=list)


def decode_pcapng(
    stream: BinaryIO,
    name: str,
    prefix: bytes = b"",
    *,
    section: Section | None = None,
    offset: int = 0,
    time_ns: int = 0,
) -> Iterator[tuple[int, int, bytes]]:
    """(capture time in ns, link type, captured bytes); `prefix` was read from the stream already.

    A last block that is cut gives what there is of its frame. To go on in the middle of a file,
    say in which `section`, at which `offset` and after which packet's time.
    """
    section = Section("<") if section is None else section
    while True:
        prefix += stream.read(PREFIX_BYTES - len(prefix))
        if not prefix:
            return
        if len(prefix) < PREFIX_BYTES:
            yield time_ns, 1, b""
            return
        if prefix[:4] == b"\n\r\r\n":
            magic = stream.read(4)
            section = Section(section_byte_order(magic, name, offset))
            kind, block_bytes = SECTION_HEADER, block_length(prefix, section, name, offset)
            body = magic + stream.read(block_bytes - OVERHEAD_BYTES - 4)
            check_version(body, section, name, offset)
        else:
            (kind,) = struct.unpack_from(section.byte_order + "I", prefix)
            block_bytes = block_length(prefix, section, name, offset)
            body = stream.read(block_bytes - OVERHEAD_BYTES)
        trailer = stream.read(4)
        whole = len(body) == block_bytes - OVERHEAD_BYTES and len(trailer) == 4
        if whole:
            check_trailer(trailer, block_bytes, section, name, offset)
        if kind == INTERFACE_DESCRIPTION and whole:
            section.interfaces.append(interface(body, section, name, offset))
        elif kind in PACKET_BLOCKS:
            packet = _packet(kind, body, section, whole, name, offset)
            if packet is None:
                yield time_ns, 1, b""
                return
            packet_ns, link_type, frame = packet
            time_ns = time_ns if packet_ns is None else packet_ns
            yield time_ns, link_type, frame
        if not whole:
            return
        offset += block_bytes
        prefix = b""


def section_byte_order(magic: bytes, name: str, offset: int) -> str:
    """The struct byte order of a section from its magic."""
    for byte_order in "<>":
        if magic == struct.pack(byte_order + "I", BYTE_ORDER_MAGIC):
            return byte_order
    raise PcapError(name, offset + 8, f"byte-order magic {BYTE_ORDER_MAGIC:08x}, got {magic.hex()}")


def check_version(body: bytes, section: Section, name: str, offset: int) -> None:
    """Refuse a section of another major version."""
    if len(body) < 8:
        raise PcapError(name, offset + PREFIX_BYTES + len(body), "a section header of 28 bytes")
    major, minor = struct.unpack_from(section.byte_order + "HH", body, 4)
    if major != 1:
        raise PcapError(name, offset + 12, f"pcapng version 1, got {major}.{minor}")


def block_length(prefix: bytes, section: Section, name: str, offset: int) -> int:
    """The total length of a block, checked."""
    kind, block_bytes = struct.unpack(section.byte_order + "II", prefix)
    least = OVERHEAD_BYTES
    most = 0xFFFFFFFF
    if kind == SECTION_HEADER:
        least, most = 28, DESCRIPTION_BYTES_MAX
    elif kind == INTERFACE_DESCRIPTION:
        least, most = OVERHEAD_BYTES + 8, DESCRIPTION_BYTES_MAX
    elif kind in PACKET_BLOCKS:
        least, most = OVERHEAD_BYTES + FIXED_BYTES[kind], CAPTURED_BYTES_MAX + DESCRIPTION_BYTES_MAX
    if block_bytes % 4 or not least <= block_bytes <= most:
        raise PcapError(
            name,
            offset + 4,
            f"the length of a block of type {kind} (a multiple of 4 from {least} to {most}), "
            f"got {block_bytes}",
        )
    assert isinstance(block_bytes, int)
    return block_bytes


def check_trailer(
    trailer: bytes, block_bytes: int, section: Section, name: str, offset: int
) -> None:
    """A block ends with its length."""
    (again,) = struct.unpack(section.byte_order + "I", trailer)
    if again != block_bytes:
        raise PcapError(
            name, offset + block_bytes - 4, f"the block's length {block_bytes} again, got {again}"
        )


def interface(body: bytes, section: Section, name: str, offset: int) -> Interface:
    """The interface that a description block's body declares."""
    if len(section.interfaces) >= INTERFACES_MAX:
        raise PcapError(name, offset, f"at most {INTERFACES_MAX} interfaces in a section")
    byte_order = section.byte_order
    link_type, _reserved, snap_bytes = struct.unpack_from(byte_order + "HHI", body)
    base, exponent, offset_s = 10, 6, 0
    at = 8
    while at + 4 <= len(body):
        code, byte_count = struct.unpack_from(byte_order + "HH", body, at)
        if code == _OPTION_END:
            break
        value = body[at + 4 : at + 4 + byte_count]
        if code == _OPTION_TSRESOL and len(value) >= 1:
            base, exponent = (2 if value[0] & 0x80 else 10), value[0] & 0x7F
            if exponent > (63 if base == 2 else 18):
                where = offset + PREFIX_BYTES + at + 4
                raise PcapError(name, where, f"a time resolution, got {base}^-{exponent} s")
        elif code == _OPTION_TSOFFSET and len(value) >= 8:
            (offset_s,) = struct.unpack_from(byte_order + "q", value)
        at += 4 + byte_count + (-byte_count) % 4
    return Interface(
        link_type=link_type,
        snap_bytes=snap_bytes,
        resolution_base=base,
        resolution_exponent=exponent,
        offset_s=offset_s,
    )


def _packet(
    kind: int, body: bytes, section: Section, whole: bool, name: str, offset: int
) -> tuple[int | None, int, bytes] | None:
    """(time or None, link type, captured bytes); None when the block is cut before its frame."""
    byte_order = section.byte_order
    fixed_bytes = FIXED_BYTES[kind]
    if len(body) < fixed_bytes:
        return None
    time_ns: int | None = None
    if kind == SIMPLE_PACKET:
        number = 0
        (frame_bytes,) = struct.unpack_from(byte_order + "I", body)
        described = _interface_of(section, number, name, offset)
        captured_bytes = min(frame_bytes, described.snap_bytes or frame_bytes)
    else:
        layout = "IIIII" if kind == ENHANCED_PACKET else "HHIIII"
        fields = struct.unpack_from(byte_order + layout, body)
        number = fields[0]
        high, low, captured_bytes = fields[-4:-1]
        described = _interface_of(section, number, name, offset)
        time_ns = described.to_ns(high << 32 | low)
        if not 0 <= time_ns // NS_PER_S <= TIME_S_MAX:
            raise PcapError(
                name, offset + PREFIX_BYTES + 4, "a time between the years 1970 and 2262"
            )
    room = (len(body) - fixed_bytes) if whole else CAPTURED_BYTES_MAX
    if captured_bytes > min(room, CAPTURED_BYTES_MAX):
        where = offset + PREFIX_BYTES + fixed_bytes - (4 if kind == SIMPLE_PACKET else 8)
        raise PcapError(
            name,
            where,
            f"a captured length of at most {min(room, CAPTURED_BYTES_MAX)}, got {captured_bytes}",
        )
    return time_ns, described.link_type, body[fixed_bytes : fixed_bytes + captured_bytes]


def _interface_of(section: Section, number: int, name: str, offset: int) -> Interface:
    if number >= len(section.interfaces):
        raise PcapError(
            name,
            offset + PREFIX_BYTES,
            f"one of {len(section.interfaces)} described interfaces, got number {number}",
        )
    return section.interfaces[number]
