# SPDX-License-Identifier: Apache-2.0
"""Runs an importer over bytes or a value, all at once or in small pieces."""

import json
from collections.abc import Iterator
from typing import Any

from tracing_core.importers import BytesSource, FileReport, ImportOptions, decompressed, read_spans
from tracing_core.model import Span


class Pieces(BytesSource):
    """A source that gives a few bytes at a time, so that every value straddles pieces."""

    def __init__(self, data: bytes, size_bytes: int, name: str = "pieces") -> None:
        super().__init__(data, name)
        self._bytes = data
        self._size_bytes = size_bytes

    def chunks(self) -> Iterator[bytes]:
        """Pieces of the given size."""
        step = self._size_bytes
        return decompressed(
            self._bytes[first : first + step] for first in range(0, len(self._bytes), step)
        )


def imported(
    content: Any, *, name: str = "file", piece_bytes: int = 0, **options: Any
) -> tuple[list[Span], FileReport]:
    """Spans and report of a file with that content; a value is written as JSON."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    source = Pieces(data, piece_bytes, name) if piece_bytes else BytesSource(data, name)
    report = FileReport(name=name)
    return list(read_spans(source, ImportOptions(**options), report)), report
