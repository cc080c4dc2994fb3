# SPDX-License-Identifier: Apache-2.0
"""Parts: pieces of a collection as bytes that describe themselves, alike in files and messages.

A part is a prefix, a JSON header and the arrays that the header names, one after the other:

    magic "TTPT" | version u16 | 0 u16 | header bytes u32 | body bytes u32 | CRC-32 u32 | header |
    body

All little-endian; the CRC covers everything but itself. A reader needs nothing but the bytes: the
header gives each array's name, dtype and row count. See docs/files.md.
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

VERSION = 1
MAGIC = b"TTPT"
PREFIX = struct.Struct("<4sHHIII")
PART_BYTES_MAX = 1 << 28
"""Header or body longer than this is damage."""

Rows = NDArray[np.void]


class PartError(ValueError):
    """Bytes that are not a part: where, and what was expected there."""

    def __init__(self, name: str, offset: int, expected: str) -> None:
        super().__init__(f"{name}: byte {offset}: expected {expected}")
        self.name = name
        self.offset = offset
        self.expected = expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some finished packets and events, and where in the collector's life they belong."""

    run: str
    """Names one start of a collector; after a restart it is another."""
    number: int
    """0, 1, ... within the run: a gap is a part that was lost on the way."""
    arrays: Mapping[str, Rows]
    """By name; see `rows`."""
    totals: Mapping[str, int] = field(default_factory=dict)
    """Counters of the collector when the part was made."""

    @property
    def part_id(self) -> str:
        """What tells the content apart from any other: equal content has the equal id.

        So a part that is sent again, or made again from the same capture, is recognised.
        """
        digest = blake2b(digest_size=16)
        for name, rows in self.arrays.items():
            digest.update(f"{name}:{len(rows)}:".encode())
            digest.update(np.ascontiguousarray(rows).view(np.uint8).data)
        return digest.hexdigest()

    @property
    def packet_count(self) -> int:
        """Packets in the part."""
        return len(self.arrays["packets"]) if "packets" in self.arrays else 0


def encode_part(part: Part) -> bytes:
    """The part's bytes; equal parts give equal bytes."""
    header = json.dumps(
        {
            "version": VERSION,
            "id": part.part_id,
            "run": part.run,
            "part": part.number,
            "arrays": [
                {"name": name, "rows": len(rows), "dtype": np.dtype(rows.dtype).descr}
                for name, rows in part.arrays.items()
            ],
            "totals": dict(part.totals),
        },
        separators=(",", ":"),
    ).encode()
    body = b"".join(np.ascontiguousarray(rows).tobytes() for rows in part.arrays.values())
    lengths = PREFIX.pack(MAGIC, VERSION, 0, len(header), len(body), 0)[:-4]
    crc = zlib.crc32(body, zlib.crc32(header, zlib.crc32(lengths)))
    return b"".join((lengths, crc.to_bytes(4, "little"), header, body))


def decode_part(data: bytes, name: str = "<part>", offset: int = 0) -> Part:
    """The part that `data` is; `PartError` names where it is not one (`offset`: of its start)."""
    sizes = _sizes(data[: PREFIX.size], name, offset)
    if len(data) != PREFIX.size + sum(sizes):
        expected = f"a part of {PREFIX.size + sum(sizes)} bytes, got {len(data)}"
        raise PartError(name, offset, expected)
    return _decode(data, sizes, name, offset)


def read_parts(stream: BinaryIO, name: str = "<stream>") -> Iterator[Part]:
    """The whole parts of a file, in order.

    A part in which the file ends, as one does whose writer was killed, is left out: it was not
    whole, so nobody was told that it was written.
    """
    offset = 0
    while True:
        prefix = stream.read(PREFIX.size)
        if len(prefix) < PREFIX.size:
            return
        sizes = _sizes(prefix, name, offset)
        rest = stream.read(sum(sizes))
        if len(rest) < sum(sizes):
            return
        yield _decode(prefix + rest, sizes, name, offset)
        offset += PREFIX.size + sum(sizes)


def part_bytes(prefix: bytes, name: str = "<part>", offset: int = 0) -> int:
    """Length of the whole part that begins with a prefix; `PartError`."""
    return PREFIX.size + sum(_sizes(prefix, name, offset))


def _sizes(prefix: bytes, name: str, offset: int) -> tuple[int, int]:
    """(header bytes, body bytes) from a prefix."""
    if len(prefix) < PREFIX.size:
        raise PartError(name, offset, f"a prefix of {PREFIX.size} bytes, got {len(prefix)}")
    magic, version, _zero, header_bytes, body_bytes, _crc = PREFIX.unpack(prefix)
    if magic != MAGIC:
        raise PartError(name, offset, f"{MAGIC!r}, got {magic!r}")
    if version != VERSION:
        raise PartError(name, offset + 4, f"version {VERSION}, got {version}")
    if max(header_bytes, body_bytes) > PART_BYTES_MAX:
        raise PartError(name, offset + 8, f"lengths of at most {PART_BYTES_MAX}")
    return header_bytes, body_bytes


def _decode(data: bytes, sizes: tuple[int, int], name: str, offset: int) -> Part:
    header_end = PREFIX.size + sizes[0]
    (crc,) = struct.unpack_from("<I", data, PREFIX.size - 4)
    if zlib.crc32(data[PREFIX.size :], zlib.crc32(data[: PREFIX.size - 4])) != crc:
        raise PartError(name, offset + PREFIX.size - 4, "the checksum of what follows")
    try:
        header = json.loads(data[PREFIX.size : header_end])
        arrays = _arrays(header["arrays"], data, header_end)
        return Part(
            run=str(header["run"]),
            number=int(header["part"]),
            arrays=arrays,
            totals={str(key): int(value) for key, value in header["totals"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        where = offset + PREFIX.size
        raise PartError(name, where, f"a part's header ({error})") from None


def _arrays(listed: list[dict[str, Any]], data: bytes, at: int) -> dict[str, Rows]:
    arrays: dict[str, Rows] = {}
    for item in listed:
        dtype = np.dtype([(str(field_name), str(code)) for field_name, code in item["dtype"]])
        rows = int(item["rows"])
        if rows < 0 or at + rows * dtype.itemsize > len(data):
            raise ValueError(f"array {item['name']} ends behind the part")
        arrays[str(item["name"])] = np.frombuffer(data, dtype, rows, at)
        at += rows * dtype.itemsize
    if at != len(data):
        raise ValueError("bytes behind the last array")
    return arrays
