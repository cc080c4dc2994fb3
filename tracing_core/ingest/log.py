# SPDX-License-Identifier: Apache-2.0
"""The write-ahead log: segment files that hold what was acknowledged until the store has it.

One process owns a log's folder. `append` returns when its records are on the disk; what it could
not write as a whole is cut off again, so a segment ends with a whole record unless the power
failed.
"""

import contextlib
import fcntl
import os
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tracing_core.ingest.log_format import (
    SEGMENT_HEADER_SIZE,
    FoundRecord,
    LogRecord,
    encode_record,
    find_records,
    read_segment_header,
    segment_header,
)
from tracing_core.otlp.wire import Bytes
from tracing_core.store.segments import segment_number

_SUFFIX = ".wal"
_DAMAGED_SUFFIX = ".damaged"
_ALLOCATED_BYTES = 8 * 2**20
"""A segment's file grows in such steps."""
_WRITEV_BUFFERS_MAX = 512
"""Buffers a call; Linux takes 1024."""


class LogError(RuntimeError):
    """The log cannot be opened; the message names its folder."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A sealed segment, or one that a former process left."""

    path: Path
    number: int
    writer: int
    size: int


@dataclass(frozen=True, slots=True)
class SegmentContent:
    """What a segment holds."""

    data: Bytes
    records: list[FoundRecord]
    other_bytes: int
    """In no whole record. At the end they are what a crash cut off, which nobody was told is
    safe."""
    damaged: bool
    """Whole records stand behind others that are not: the disk has lost something."""


class WriteAheadLog:
    """Appends records to the newest segment; hands out sealed ones until they are removed."""

    def __init__(self, folder: Path, *, now_ns: Callable[[], int]) -> None:
        self.folder = folder
        self._now_ns = now_ns
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self._owner = own_folder(folder)
        self.writer = self._read_writer()
        self._file: int | None = None
        self._active: Segment | None = None
        self._active_size = 0
        self._allocated = 0
        """Bytes that the file has room for: what is written there needs no new blocks, which makes
        syncing it cheaper, and finds the disk full before anything is written."""
        self._sealed = self._left_over()
        self._number = max((segment.number for segment in self._sealed), default=0)
        self._sealed_bytes = sum(segment.size for segment in self._sealed)

    @property
    def size_bytes(self) -> int:
        """Bytes that the store does not have yet. Never waits for the disk."""
        return self._sealed_bytes + self._active_size

    @property
    def sealed_count(self) -> int:
        """Segments that wait for the store. Never waits for the disk."""
        return len(self._sealed)

    def append(self, records: Sequence[LogRecord], *, segment_bytes_max: int) -> None:
        """Writes the records and syncs them to the disk; OSError if none of them is kept.

        A segment that has reached `segment_bytes_max` is sealed first.
        """
        with self._lock:
            if self._active_size >= segment_bytes_max:
                self._end_segment()
            if self._file is None:
                self._begin_segment()
            assert self._file is not None
            parts: list[bytes] = []
            for record in records:
                parts += (encode_record(record), record.body)
            size = sum(len(part) for part in parts)
            try:
                self._allocate(self._active_size + size)
                _write_all(self._file, parts, self._active_size)
                os.fdatasync(self._file)
            except OSError:
                self._cut_off()
                raise
            self._active_size += size

    def seal(self) -> list[Segment]:
        """Ends the newest segment; all sealed ones, oldest first."""
        with self._lock:
            if self._active is not None and self._active_size > SEGMENT_HEADER_SIZE:
                self._end_segment()
            return list(self._sealed)

    def remove(self, segment: Segment) -> None:
        """Forgets a segment that the store has."""
        segment.path.unlink(missing_ok=True)  # slow, and no other segment's business
        with self._lock:
            self._drop(segment)

    def set_aside(self, segment: Segment) -> Path:
        """Keeps a segment that is damaged in its middle under another name."""
        with self._lock:
            path = segment.path.with_suffix(_DAMAGED_SUFFIX)
            segment.path.rename(path)
            self._drop(segment)
            return path

    def close(self) -> None:
        """Ends the newest segment and releases the folder; what is there is found again."""
        with self._lock:
            if self._active is not None:
                self._end_segment()
            if self._owner >= 0:
                os.close(self._owner)
                self._owner = -1

    def _begin_segment(self) -> None:
        number = segment_number(self._now_ns(), self.writer, self._number)
        path = self.folder / f"{number:020d}{_SUFFIX}"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._number = number
        self._active = Segment(path, number, self.writer, 0)
        self._active_size = self._allocated = 0
        try:
            self._allocate(SEGMENT_HEADER_SIZE)
            _write_all(self._file, [segment_header(number, self.writer)], 0)
            os.fdatasync(self._file)
            sync_folder(self.folder)
        except OSError:
            os.close(self._file)
            self._file = self._active = None
            path.unlink(missing_ok=True)
            raise
        self._active_size = SEGMENT_HEADER_SIZE

    def _end_segment(self) -> None:
        assert self._file is not None
        assert self._active is not None
        with contextlib.suppress(OSError):  # zeros behind the last record do no harm
            os.ftruncate(self._file, self._active_size)
        os.close(self._file)
        sealed = Segment(
            self._active.path, self._active.number, self._active.writer, self._active_size
        )
        if self._active_size > SEGMENT_HEADER_SIZE:
            self._sealed.append(sealed)
            self._sealed_bytes += sealed.size
        else:
            sealed.path.unlink(missing_ok=True)
        self._file = self._active = None
        self._active_size = 0

    def _allocate(self, size: int) -> None:
        assert self._file is not None
        if size > self._allocated:
            grown = -(-size // _ALLOCATED_BYTES) * _ALLOCATED_BYTES
            os.posix_fallocate(self._file, self._allocated, grown - self._allocated)
            self._allocated = grown

    def _cut_off(self) -> None:
        """After a failed write: back to the last record that is safe, and on in a new segment.

        After a failed sync nobody knows which pages reached the disk, so this file is not written
        again.
        """
        assert self._file is not None
        try:
            os.ftruncate(self._file, self._active_size)
            os.fdatasync(self._file)
        except OSError:
            pass  # the rest was not acknowledged, and has no checksum or is a repetition
        self._end_segment()

    def _drop(self, segment: Segment) -> None:
        self._sealed.remove(segment)
        self._sealed_bytes -= segment.size

    def _left_over(self) -> list[Segment]:
        found = []
        for path in sorted(self.folder.glob(f"*{_SUFFIX}")):
            size = path.stat().st_size
            with path.open("rb") as file:
                header = read_segment_header(file.read(SEGMENT_HEADER_SIZE))
            if header is None:  # never acknowledged: its header was not on the disk
                path.rename(path.with_suffix(_DAMAGED_SUFFIX))
                continue
            number, writer = header
            found.append(Segment(path, number, writer, size))
        return found

    def _read_writer(self) -> int:
        """A number of this log, which makes its segments' names unique in a shared store."""
        path = self.folder / "writer"
        if not path.exists():
            temporary = path.with_suffix(".new")
            temporary.write_text(f"{secrets.randbits(63)}\n", encoding="ascii")
            temporary.rename(path)
            sync_folder(self.folder)
        try:
            return int(path.read_text(encoding="ascii"))
        except ValueError as error:
            raise LogError(f"{path}: expected a number") from error


def read_segment(segment: Segment) -> SegmentContent:
    """The whole records of a segment, oldest first."""
    data = np.memmap(segment.path, np.uint8, mode="r")
    records = list(find_records(data))
    end = SEGMENT_HEADER_SIZE
    other_bytes = 0
    for record in records:
        other_bytes += record.start - end
        end = record.offset + record.size
    damaged = other_bytes > 0
    if len(data) > end and data[end:].any():
        other_bytes += len(data) - end
    return SegmentContent(data, records, other_bytes, damaged=damaged)


def _write_all(file: int, parts: list[bytes], offset: int) -> None:
    for first in range(0, len(parts), _WRITEV_BUFFERS_MAX):
        buffers: list[bytes | memoryview] = list(parts[first : first + _WRITEV_BUFFERS_MAX])
        while buffers:
            written = os.pwritev(file, buffers, offset)
            offset += written
            while buffers and written >= len(buffers[0]):
                written -= len(buffers.pop(0))
            if written:
                buffers[0] = memoryview(buffers[0])[written:]


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def own_folder(folder: Path) -> int:
    """A descriptor that keeps other processes out until it is closed; `LogError` if one is in."""
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        raise LogError(f"{folder}: another process owns this folder") from error
    return file
