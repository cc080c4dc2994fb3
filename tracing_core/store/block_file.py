# SPDX-License-Identifier: Apache-2.0
"""Blocks on their way into the database: a file in memory that is written over and over.

An embedded database reads it as any file, so nothing is copied through a temporary one, and its
pages are asked for once.
"""

import os
from collections.abc import Sequence
from typing import cast

from tracing_core.store.blocks.native import Part

KEPT_BYTES_MAX = 128 * 2**20
"""Memory that stays for the next insert; what is beyond that is given back."""
_BUFFERS_MAX = 512
"""Buffers a call; Linux takes 1024."""


class BlockFile:
    """One insert at a time: `begin`, `write`, and then the database reads `path`."""

    def __init__(self) -> None:
        self._file = os.memfd_create("tempotrace-block")
        self.size = 0

    @property
    def path(self) -> str:
        """Where this process finds the file."""
        return f"/proc/self/fd/{self._file}"

    def begin(self) -> None:
        """Starts at the first byte again."""
        os.lseek(self._file, 0, os.SEEK_SET)
        self.size = 0

    def write(self, parts: Sequence[Part]) -> None:
        """Appends parts of blocks."""
        for first in range(0, len(parts), _BUFFERS_MAX):
            buffers = [
                memoryview(part).cast("B")
                for part in cast("Sequence[bytes]", parts[first : first + _BUFFERS_MAX])
                if len(part)
            ]
            while buffers:
                written = os.writev(self._file, buffers)
                self.size += written
                while buffers and written >= len(buffers[0]):
                    written -= len(buffers.pop(0))
                if written:
                    buffers[0] = buffers[0][written:]

    def end(self) -> None:
        """Cuts off what an earlier, longer insert left."""
        os.ftruncate(self._file, self.size)

    def read(self) -> bytes:
        """Everything that was written, to be sent elsewhere."""
        return os.pread(self._file, self.size, 0)

    def release(self) -> None:
        """After the insert: gives unusually much memory back."""
        if self.size > KEPT_BYTES_MAX:
            os.ftruncate(self._file, 0)

    def close(self) -> None:
        """Ends the file; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
