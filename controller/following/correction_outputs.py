# SPDX-License-Identifier: Apache-2.0
"""Where windows of corrections go: a file of JSON lines, or parts in files or a JetStream subject.

A window is encoded once; what a killed process may have published is published again with the same
bytes. A file of lines tells which windows it has, so that there each stands once; parts carry ids.
"""

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Protocol

from controller.appended_lines import ForeignFileError, open_appended
from controller.collector.outputs.file_output import FileOutput, newest_parts
from controller.collector.outputs.open_output import open_output
from controller.collector.outputs.output import Output, OutputError
from controller.collector.outputs.part import Part, encode_part, read_parts
from controller.following.documents import header_record, part_arrays, window_record
from correction.stream.follow import FollowedWindow


class CorrectionOutput(Protocol):
    """Takes encoded windows in order."""

    def encode(self, window: FollowedWindow, run: str) -> bytes:
        """The window in this output's form: equal windows give equal bytes."""

    def write(self, encoded: bytes) -> None:
        """Publish; one that is there already is left out."""

    def close(self) -> None:
        """Bring what waits to its place."""


class JsonLinesOutput:
    """Appends a line per window; a line that a killed process left unfinished is cut off."""

    def __init__(self, path: Path) -> None:
        try:
            self._file, last = open_appended(path, _line(header_record()))
        except OSError as error:
            raise OutputError(f"output {path}: {error.strerror}") from None
        except ForeignFileError as error:
            raise OutputError(f"output {error}") from None
        self._version = _version(last)
        self._known = self._version
        self.left_out = 0
        """Windows that were no newer than what the file had when it was opened."""

    def encode(self, window: FollowedWindow, run: str) -> bytes:
        """One line."""
        return _line(window_record(window))

    def write(self, encoded: bytes) -> None:
        """Append a line whose version is newer than the newest one."""
        version = int(json.loads(encoded)["correction_version"])
        if version > self._version:
            self._file.write(encoded)
            self._file.flush()
            self._version = version
        elif version <= self._known:
            self.left_out += 1

    def close(self) -> None:
        """Everything is in the file already."""
        self._file.close()


class PartsOutput:
    """Windows as parts, whose number is the correction version; a large window is several parts."""

    def __init__(self, output: Output, there: Sequence[Part] = ()) -> None:
        """there: the newest parts of this run that the output has."""
        self._output = output
        self._newest = max((part.number for part in there), default=-1)
        self._there = {part.part_id for part in there}

    def encode(self, window: FollowedWindow, run: str) -> bytes:
        """Its parts, one after the other."""
        return b"".join(
            encode_part(Part(run=run, number=window.version, arrays=arrays))
            for arrays in part_arrays(window, bytes_max=self._output.part_bytes_max)
        )

    def write(self, encoded: bytes) -> None:
        """Write the parts that are not there."""
        for part in read_parts(BytesIO(encoded)):
            if part.number >= self._newest and part.part_id not in self._there:
                self._output.write(part)

    def close(self) -> None:
        """Wait for what is not confirmed."""
        self._output.close()
        failed = self._output.counters.failed_parts
        if failed:
            raise OutputError(f"output {self._output.name}: {failed} parts could not be stored")


def open_correction_output(text: str, run: str) -> CorrectionOutput:
    """`file:DIR`, `nats://HOST:PORT/SUBJECT`, or a file of JSON lines; `OutputError`."""
    if "://" not in text and not text.startswith("file:"):
        return JsonLinesOutput(Path(text))
    output = open_output(text)
    if isinstance(output, FileOutput):
        return PartsOutput(output, [p for p in newest_parts(output.folder) if p.run == run])
    return PartsOutput(output)


def _line(record: dict[str, object]) -> bytes:
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _version(line: bytes) -> int:
    """Of the newest window in a file; 0 behind the header."""
    try:
        return int(json.loads(line).get("correction_version", 0))
    except (ValueError, TypeError, AttributeError):
        raise OutputError("output: the last line of the file is no window of corrections") from None
