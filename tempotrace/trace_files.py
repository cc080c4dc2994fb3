# SPDX-License-Identifier: Apache-2.0
"""Files to import: their bytes in pieces, with a count of what has been read."""

from collections.abc import Callable, Iterator
from pathlib import Path

from tracing_core.importers import CHUNK_BYTES, decompressed


class FileSource:
    """A file on disk. Each reading starts anew; what is read is told to `on_read`."""

    def __init__(self, path: Path, on_read: Callable[[int], None] = lambda _: None) -> None:
        self._path = path
        self._on_read = on_read
        self.name = path.name

    def chunks(self) -> Iterator[bytes]:
        """The file's bytes, decompressed if they are gzip."""
        return decompressed(self._raw())

    def _raw(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            while piece := file.read(CHUNK_BYTES):
                self._on_read(len(piece))
                yield piece
