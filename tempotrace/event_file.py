# SPDX-License-Identifier: Apache-2.0
"""The file of events of `deploy run`: a full disk loses events, never the controller."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from controller.keeper.events import Event, event_line


class RawFile(Protocol):
    """An unbuffered file."""

    def write(self, data: bytes, /) -> int | None:
        """Bytes that were written."""


class EventFile:
    """Appends events as JSON lines.

    complain: is told once when it cannot, and when it can again.
    """

    def __init__(self, path: Path, stream: RawFile, *, complain: Callable[[str], None]) -> None:
        self._path = path
        self._stream = stream
        self._complain = complain
        self._lost_count = 0
        self._is_torn = False
        """The last line was written in part."""

    def write(self, event: Event) -> None:
        """Write the event, or count it as lost."""
        line = event_line(event, time.time_ns()).encode() + b"\n"
        if self._is_torn:
            line = b"\n" + line
        try:
            written = self._stream.write(line) or 0
            if 0 < written < len(line):
                self._is_torn = True
                raise OSError(0, "written in part")
            if not written:
                raise OSError(0, "nothing was written")
        except OSError as error:
            if not self._lost_count:
                self._complain(
                    f"{self._path}: {error.strerror}; the fabric is kept, events are lost"
                )
            self._lost_count += 1
            return
        self._is_torn = False
        if self._lost_count:
            self._complain(f"{self._path}: is written again; {self._lost_count} events were lost")
            self._lost_count = 0
