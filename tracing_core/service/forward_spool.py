# SPDX-License-Identifier: Apache-2.0
"""Requests that wait on the disk to be passed on: segments of the write-ahead log, kept by a link.

A segment is linked here before the store gets it, and its link goes when all of its requests were
delivered or refused. How far the oldest segment has come stands in a file, so that a process that
was killed goes on at the request whose answer it did not see.
"""

import os
import shutil
import struct
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum, unique
from pathlib import Path

import numpy as np
import structlog

from tracing_core.ingest.log import (
    Segment,
    SegmentContent,
    own_folder,
    read_segment,
    sync_folder,
)
from tracing_core.otlp.wire_check import NOT_CANONICAL, count_canonical_spans

BYTES_MAX = 2 * 2**30
"""As much as the write-ahead log itself may have."""
DISK_FREE_BYTES_MIN = 512 * 2**20
"""Twice what the log leaves free: copies go before senders are refused for want of disk."""
_DONE_SUFFIX = ".done"
"""An empty file: the segment was passed on before the store had it."""
_POSITION = struct.Struct("<QQI")
_BLOCK_BYTES = 512
"""Unit of `st_blocks`."""

_log = structlog.get_logger(__name__)


@unique
class FullPolicy(StrEnum):
    """What happens when no more may wait."""

    DROP_OLDEST = "drop-oldest"
    """The oldest segment's copies are given up and counted; the store has the spans."""
    REFUSE_NEW = "refuse-new"
    """Senders are asked to come again later; the store does not get the spans until then."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The request whose turn it is."""

    segment: int
    end: int
    """Where it ends in its segment: what is delivered when it is done."""
    body: bytes


@dataclass(slots=True, kw_only=True)
class SpoolCounters:
    """What was given up since the start."""

    dropped_request_count: int = 0
    """Copies given up because no more may wait (`FullPolicy.DROP_OLDEST`)."""
    dropped_span_count: int = 0
    full_count: int = 0
    """Requests that senders were asked to repeat (`FullPolicy.REFUSE_NEW`)."""


class ForwardSpool:
    """First in, first out; each request waits `hold_s` for corrections, and for its turn."""

    def __init__(
        self,
        log_folder: Path,
        *,
        hold_s: float = 0.0,
        bytes_max: int = BYTES_MAX,
        policy: FullPolicy = FullPolicy.DROP_OLDEST,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """Opens `forward` in the folder of the write-ahead log; `LogError` if it is in use."""
        self.policy = policy
        self.counters = SpoolCounters()
        self.changed = threading.Condition()
        """Notified when something comes."""
        self._log_folder = log_folder
        self.folder = log_folder / "forward"
        self._hold_ns = round(hold_s * 1e9)
        self._bytes_max = bytes_max
        self._now_ns = now_ns
        self.folder.mkdir(parents=True, exist_ok=True)
        self._owner = own_folder(self.folder)
        self._position_file = os.open(self.folder / "position", os.O_RDWR | os.O_CREAT, 0o600)
        self._segments: deque[Segment] = deque()
        self._handed: set[int] = set()
        """Segments of the log that were taken over."""
        self._size_bytes = 0
        self._content: SegmentContent | None = None
        """Of the oldest segment, once its turn has come."""
        self._next = 0
        """Its first request that still waits."""
        self._find()
        self._position = self._read_position()

    @property
    def size_bytes(self) -> int:
        """Disk space of all segments that wait."""
        return self._size_bytes

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._segments

    def has_room(self) -> bool:
        """False if senders must wait; ask before a request is acknowledged."""
        if self.policy is FullPolicy.DROP_OLDEST or self._size_bytes < self._bytes_max:
            return True
        self.counters.full_count += 1
        return False

    def hand_over(self, segment: Segment) -> None:
        """Takes a sealed segment of the log, unless it was taken before; durable on return."""
        with self.changed:
            self._forget_removed()
            if segment.number in self._handed:
                return
            path = self.folder / segment.path.name
            _link(segment.path, path)
            sync_folder(self.folder)
            self._handed.add(segment.number)
            self._append(Segment(path, segment.number, segment.writer, _disk_bytes(path)))
            while len(self._segments) > 1 and self._is_full():
                self._drop_oldest()
            self.changed.notify_all()

    def due(self, *, ignore_hold: bool = False) -> tuple[Waiting | None, float | None]:
        """The request whose turn it is, or None and how long that takes; None: nothing waits."""
        with self.changed:
            while self._segments:
                content = self._content or self._open_oldest()
                if self._next == len(content.records):
                    self._finish_oldest()
                    continue
                record = content.records[self._next]
                wait_ns = record.received_ns + self._hold_ns - self._now_ns()
                if wait_ns > 0 and not ignore_hold:
                    return None, min(wait_ns, self._hold_ns) / 1e9
                end = record.offset + record.size
                body = content.data[record.offset : end].tobytes()
                return Waiting(self._segments[0].number, end, body), 0.0
            return None, None

    def done(self, waiting: Waiting) -> None:
        """The request was delivered or refused for good: the next one's turn comes."""
        with self.changed:
            if not self._segments or self._segments[0].number != waiting.segment:
                return  # it was dropped in the meantime
            assert self._content is not None
            self._next += 1
            self._write_position(waiting.segment, waiting.end)
            if self._next == len(self._content.records):
                self._finish_oldest()

    def close(self) -> None:
        """Releases the folder; what waits is found again."""
        with self.changed:
            self._content = None
            os.close(self._position_file)
            os.close(self._owner)

    def _find(self) -> None:
        for marker in self.folder.glob(f"*{_DONE_SUFFIX}"):
            marker.with_suffix(".wal").unlink(missing_ok=True)
            self._handed.add(int(marker.stem))
        for path in sorted(self.folder.glob("*.wal")):
            number = int(path.stem)
            self._handed.add(number)
            self._append(Segment(path, number, 0, _disk_bytes(path)))
        self._forget_removed()

    def _append(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._size_bytes += segment.size

    def _forget_removed(self) -> None:
        """Forgets segments that the log has no longer, and so never hands over again."""
        for number in [n for n in self._handed if not self._is_in_log(n)]:
            self._handed.remove(number)
            (self.folder / f"{number:020d}{_DONE_SUFFIX}").unlink(missing_ok=True)

    def _is_in_log(self, number: int) -> bool:
        return (self._log_folder / f"{number:020d}.wal").exists()

    def _open_oldest(self) -> SegmentContent:
        segment = self._segments[0]
        try:
            content = read_segment(segment)
        except (OSError, ValueError) as error:  # the store has the spans, or says the same
            _log.error("forward_segment_unreadable", path=str(segment.path), error=str(error))
            content = SegmentContent(np.empty(0, np.uint8), [], 0, damaged=True)
        self._content = content
        number, end = self._position
        self._next = 0
        if number == segment.number:
            self._next = sum(record.offset + record.size <= end for record in content.records)
        return content

    def _finish_oldest(self) -> None:
        segment = self._segments.popleft()
        self._size_bytes -= segment.size
        self._content = None
        if self._is_in_log(segment.number):
            segment.path.with_suffix(_DONE_SUFFIX).touch()
        segment.path.unlink(missing_ok=True)

    def _is_full(self) -> bool:
        if self.policy is FullPolicy.REFUSE_NEW:
            return False
        disk = os.statvfs(self.folder)
        free_bytes = disk.f_bavail * disk.f_frsize
        return self._size_bytes > self._bytes_max or free_bytes < DISK_FREE_BYTES_MIN

    def _drop_oldest(self) -> None:
        content = self._content or self._open_oldest()
        dropped = content.records[self._next :]
        counts = (
            count_canonical_spans(content.data[r.offset : r.offset + r.size].tobytes())
            for r in dropped
        )
        self.counters.dropped_request_count += len(dropped)
        self.counters.dropped_span_count += sum(n for n in counts if n != NOT_CANONICAL)
        _log.error("forward_copies_dropped", policy=str(self.policy), requests=len(dropped))
        self._finish_oldest()

    def _read_position(self) -> tuple[int, int]:
        data = os.pread(self._position_file, _POSITION.size, 0)
        if len(data) < _POSITION.size:
            return 0, 0
        number, end, checksum = _POSITION.unpack(data)
        return (number, end) if checksum == zlib.crc32(data[:-4]) else (0, 0)

    def _write_position(self, number: int, end: int) -> None:
        """Survives the process at once. After a power failure, requests of one segment repeat."""
        body = struct.pack("<QQ", number, end)
        os.pwrite(self._position_file, body + struct.pack("<I", zlib.crc32(body)), 0)


def _disk_bytes(path: Path) -> int:
    status = path.stat()
    return max(status.st_size, status.st_blocks * _BLOCK_BYTES)


def _link(source: Path, target: Path) -> None:
    """A second name for a file; a copy where the file system has no links."""
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError:
        temporary = target.with_suffix(".new")
        shutil.copyfile(source, temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.rename(target)
