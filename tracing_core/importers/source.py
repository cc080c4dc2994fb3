# SPDX-License-Identifier: Apache-2.0
"""Where an importer's bytes come from. Importers may read twice: a source can be opened again."""

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

from tracing_core.importers.errors import ImportRefusedError

CHUNK_BYTES = 2**20
"""Read at a time; what is held grows with single events, not with the file."""
HEAD_BYTES = 2**16
"""What the format is told from, at most, unless one value is larger."""
_GZIP_MAGIC = b"\x1f\x8b"


class Source(Protocol):
    """Bytes of one file, decompressed."""

    @property
    def name(self) -> str:
        """The file's name, for reports; some formats carry the rank in it."""

    def chunks(self) -> Iterator[bytes]:
        """All bytes from the start, in pieces."""


class BytesSource:
    """A file that is in memory."""

    def __init__(self, data: bytes, name: str = "memory") -> None:
        self._data = data
        self.name = name

    def chunks(self) -> Iterator[bytes]:
        """The bytes, decompressed if they are gzip."""
        pieces = (
            self._data[first : first + CHUNK_BYTES]
            for first in range(0, len(self._data), CHUNK_BYTES)
        )
        return decompressed(pieces)


def decompressed(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes; gzip, told by its first two bytes, is undone (RFC 1952, several members)."""
    pieces = iter(chunks)
    head = b""
    for piece in pieces:
        head += piece
        if len(head) >= len(_GZIP_MAGIC):
            break
    if not head.startswith(_GZIP_MAGIC):
        yield head
        yield from pieces
        return
    yield from _gunzip(head, pieces)


def _gunzip(head: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    data = head
    fresh = False
    try:
        while True:
            while data:
                fresh = False
                yield member.decompress(data, CHUNK_BYTES)
                data = member.unconsumed_tail
                if member.eof:
                    data = member.unused_data
                    member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
                    fresh = True
                    if data and not data.strip(b"\0"):  # padding after the last member
                        data = b""
            try:
                data = next(pieces)
            except StopIteration:
                break
            if fresh and not data.strip(b"\0"):
                data = b""
    except zlib.error as error:
        raise ImportRefusedError(f"damaged gzip data: {error}") from error
    rest = member.flush()
    if rest:
        yield rest
    if not fresh:
        raise ImportRefusedError("the gzip data ends early")


class Digest:
    """SHA-256 of the bytes that pass through."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def through(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks, counted in."""
        for chunk in chunks:
            self._hash.update(chunk)
            yield chunk

    def value(self) -> bytes:
        """Digest of all that has passed."""
        return self._hash.digest()
