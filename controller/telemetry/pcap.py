# SPDX-License-Identifier: Apache-2.0
"""Captured frames with nanosecond times, in the classic pcap format.

Written files are little-endian with the nanosecond magic and depend on nothing but the frames.
Read files may have either byte order and microsecond or nanosecond times. A malformed file gives
one `PcapError` that names file, offset and what was expected there. A capture that ends inside its
last record, as one does whose writer was killed, gives what there is of that frame: it cannot be a
whole report, so that the collector counts it as truncated.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

MAGIC_NS = 0xA1B23C4D
MAGIC_US = 0xA1B2C3D4
_MAGIC_PCAPNG = 0x0A0D0D0A
_LINKTYPE_ETHERNET = 1
_SNAPLEN_MAX = 262_144
"""Longest frame accepted, libpcap's own limit: a larger length means a damaged file."""
_NS_PER_S = 1_000_000_000
_FILE_HEADER_BYTES = 24
_RECORD_HEADER_BYTES = 16

CapturedFrame = tuple[int, bytes]
"""(capture time in ns on the collector's clock, Ethernet frame without FCS)."""


class PcapError(ValueError):
    """A file that is not a readable pcap: where, and what was expected there."""

    def __init__(self, name: str, offset: int, expected: str) -> None:
        super().__init__(f"{name}: byte {offset}: expected {expected}")
        self.name = name
        self.offset = offset
        self.expected = expected


def write_pcap(path: Path, frames: Iterable[CapturedFrame]) -> int:
    """Write the frames in the given order; returns how many."""
    with path.open("wb") as stream:
        return encode_pcap(stream, frames)


def encode_pcap(stream: BinaryIO, frames: Iterable[CapturedFrame]) -> int:
    """Write file header and records to a binary stream; returns the number of records."""
    header = struct.pack("<IHHiIII", MAGIC_NS, 2, 4, 0, 0, _SNAPLEN_MAX, _LINKTYPE_ETHERNET)
    stream.write(header)
    record_count = 0
    pack_record = struct.Struct("<IIII").pack
    for capture_collector_ns, frame in frames:
        seconds, nanoseconds = divmod(capture_collector_ns, _NS_PER_S)
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
    byte_order, ns_per_fraction = _read_file_header(stream, name)
    unpack_record = struct.Struct(byte_order + "IIII").unpack
    offset = _FILE_HEADER_BYTES
    capture_collector_ns = 0
    while header := stream.read(_RECORD_HEADER_BYTES):
        if len(header) < _RECORD_HEADER_BYTES:
            yield capture_collector_ns, b""
            return
        seconds, fraction, captured_bytes, _frame_bytes = unpack_record(header)
        if captured_bytes > _SNAPLEN_MAX:
            raise PcapError(
                name,
                offset + 8,
                f"a captured length of at most {_SNAPLEN_MAX}, got {captured_bytes}",
            )
        if fraction * ns_per_fraction >= _NS_PER_S:
            raise PcapError(name, offset + 4, "a fraction below one second")
        frame = stream.read(captured_bytes)
        offset += _RECORD_HEADER_BYTES + captured_bytes
        capture_collector_ns = seconds * _NS_PER_S + fraction * ns_per_fraction
        yield capture_collector_ns, frame
        if len(frame) < captured_bytes:
            return


def _read_file_header(stream: BinaryIO, name: str) -> tuple[str, int]:
    """(struct byte order, ns per unit of the fraction field)."""
    header = stream.read(_FILE_HEADER_BYTES)
    if len(header) < 4:
        raise PcapError(name, 0, "a pcap file header")
    for byte_order in "<>":
        (magic,) = struct.unpack(byte_order + "I", header[:4])
        if magic in (MAGIC_NS, MAGIC_US):
            break
        if magic == _MAGIC_PCAPNG:
            raise PcapError(name, 0, "classic pcap, got pcapng (convert: editcap -F nsecpcap)")
    else:
        raise PcapError(name, 0, f"a pcap magic number, got {header[:4].hex()}")
    if len(header) < _FILE_HEADER_BYTES:
        raise PcapError(name, len(header), f"a {_FILE_HEADER_BYTES}-byte file header")
    major, minor, _zone, _sigfigs, _snaplen, linktype = struct.unpack(
        byte_order + "HHiIII", header[4:]
    )
    if (major, minor) != (2, 4):
        raise PcapError(name, 4, f"pcap version 2.4, got {major}.{minor}")
    if linktype & 0xFFFF != _LINKTYPE_ETHERNET:
        raise PcapError(name, 20, f"link type 1 (Ethernet), got {linktype & 0xFFFF}")
    return byte_order, 1 if magic == MAGIC_NS else 1000
