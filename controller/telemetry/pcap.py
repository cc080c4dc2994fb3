# SPDX-License-Identifier: Apache-2.0
"""Captured frames with nanosecond times: pcap written, pcap and pcapng read.

Written files are little-endian with the nanosecond magic and depend on nothing but the frames.
Read files may have either byte order, microsecond or nanosecond times and any of
`link_types.LINK_TYPES`; frames are handed on as Ethernet frames. A malformed file gives one
`PcapError` that names file, offset and what was expected there. A capture that ends inside its
last record, as one does whose writer was killed, gives what there is of that frame: it cannot be a
whole report, so that the collector counts it as truncated.

This is the plain reader, one frame at a time; `controller.collector.captures` reads the same files
in batches.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from controller.telemetry.capture_error import CAPTURED_BYTES_MAX, NS_PER_S, PcapError
from controller.telemetry.link_types import LINK_TYPES, LINKTYPE_ETHERNET, ethernet_frame
from controller.telemetry.pcapng import SECTION_HEADER, decode_pcapng

__all__ = [
    "CapturedFrame",
    "PcapError",
    "decode_pcap",
    "encode_pcap",
    "read_pcap",
    "write_pcap",
]

MAGIC_NS = 0xA1B23C4D
MAGIC_US = 0xA1B2C3D4
FILE_HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16

CapturedFrame = tuple[int, bytes]
"""(capture time in ns on the collector's clock, Ethernet frame without FCS)."""


def write_pcap(path: Path, frames: Iterable[CapturedFrame]) -> int:
    """Write the frames in the given order; returns how many."""
    with path.open("wb") as stream:
        return encode_pcap(stream, frames)


def encode_pcap(stream: BinaryIO, frames: Iterable[CapturedFrame]) -> int:
    """Write file header and records to a binary stream; returns the number of records."""
    header = struct.pack("<IHHiIII", MAGIC_NS, 2, 4, 0, 0, CAPTURED_BYTES_MAX, LINKTYPE_ETHERNET)
    stream.write(header)
    record_count = 0
    pack_record = struct.Struct("<IIII").pack
    for capture_collector_ns, frame in frames:
        seconds, nanoseconds = divmod(capture_collector_ns, NS_PER_S)
        if not 0 <= seconds < 2**32:
            raise ValueError(f"capture time {capture_collector_ns} ns does not fit a pcap record")
        stream.write(pack_record(seconds, nanoseconds, len(frame), len(frame)))
        stream.write(frame)
        record_count += 1
    return record_count


def read_pcap(path: Path) -> Iterator[CapturedFrame]:
    """The frames of a file, one at a time, in file order."""
    with path.open("rb") as stream:
        yield from decode_pcap(stream, str(path))


def decode_pcap(stream: BinaryIO, name: str = "<stream>") -> Iterator[CapturedFrame]:
    """The frames of a binary stream; `name` is what errors call it."""
    magic = stream.read(4)
    if magic == SECTION_HEADER.to_bytes(4, "big"):
        for capture_collector_ns, link_type, data in decode_pcapng(stream, name, magic):
            yield capture_collector_ns, ethernet_frame(link_type, data)
        return
    header = file_header(magic + stream.read(FILE_HEADER_BYTES - 4), name)
    for capture_collector_ns, data in decode_records(stream, name, header):
        yield capture_collector_ns, ethernet_frame(header.link_type, data)


class FileHeader(NamedTuple):
    """What the header of a classic pcap says."""

    byte_order: str
    """As `struct` writes it."""
    ns_per_fraction: int
    """Nanoseconds per unit of the fraction field: 1 or 1000."""
    link_type: int


def file_header(header: bytes, name: str) -> FileHeader:
    """The header of a classic pcap, checked."""
    if len(header) < 4:
        raise PcapError(name, 0, "a pcap file header")
    for byte_order in "<>":
        (magic,) = struct.unpack(byte_order + "I", header[:4])
        if magic in (MAGIC_NS, MAGIC_US):
            break
    else:
        raise PcapError(name, 0, f"a pcap or pcapng magic number, got {header[:4].hex()}")
    if len(header) < FILE_HEADER_BYTES:
        raise PcapError(name, len(header), f"a {FILE_HEADER_BYTES}-byte file header")
    major, minor, _zone, _sigfigs, _snaplen, link_type = struct.unpack(
        byte_order + "HHiIII", header[4:]
    )
    if (major, minor) != (2, 4):
        raise PcapError(name, 4, f"pcap version 2.4, got {major}.{minor}")
    link_type &= 0xFFFF
    if link_type not in LINK_TYPES:
        known = ", ".join(f"{number} ({text})" for number, text in sorted(LINK_TYPES.items()))
        raise PcapError(name, 20, f"a link type of {known}; got {link_type}")
    return FileHeader(byte_order, 1 if magic == MAGIC_NS else 1000, link_type)


def decode_records(
    stream: BinaryIO,
    name: str,
    file: FileHeader,
    *,
    offset: int = FILE_HEADER_BYTES,
    capture_collector_ns: int = 0,
) -> Iterator[CapturedFrame]:
    """(capture time, captured bytes) of the records that begin at `offset`.

    A record that is cut before its time gets the time of the one before it.
    """
    unpack_record = struct.Struct(file.byte_order + "IIII").unpack
    while header := stream.read(RECORD_HEADER_BYTES):
        if len(header) < RECORD_HEADER_BYTES:
            yield capture_collector_ns, b""
            return
        seconds, fraction, captured_bytes, _frame_bytes = unpack_record(header)
        if captured_bytes > CAPTURED_BYTES_MAX:
            raise PcapError(
                name,
                offset + 8,
                f"a captured length of at most {CAPTURED_BYTES_MAX}, got {captured_bytes}",
            )
        if fraction * file.ns_per_fraction >= NS_PER_S:
            raise PcapError(name, offset + 4, "a fraction below one second")
        data = stream.read(captured_bytes)
        offset += RECORD_HEADER_BYTES + captured_bytes
        capture_collector_ns = seconds * NS_PER_S + fraction * file.ns_per_fraction
        yield capture_collector_ns, data
        if len(data) < captured_bytes:
            return
