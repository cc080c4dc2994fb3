# SPDX-License-Identifier: Apache-2.0
"""Group commit into the write-ahead log, then batches into the store.

Two threads: one writes and syncs whatever requests are waiting, together, and acknowledges them;
the other inserts sealed segments and removes each once the store has it. If the store refuses,
requests are acknowledged as long as the log has room, then senders are asked to come again.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from tracing_core.ingest.keeper import BusyError, Done
from tracing_core.ingest.log import Segment, WriteAheadLog, read_segment
from tracing_core.ingest.log_format import LogRecord
from tracing_core.otlp import Admitted
from tracing_core.store import SpanStore, StoreClosedError, StoreError
from tracing_core.store.blocks import Batch, Record

_log = structlog.get_logger(__name__)


RETRY_S = 0.25
"""Before the first repetition of an insert that the store refused; each later one waits twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestLimits:
    """Bounds of what is held, and how batches are cut."""

    waiting_bytes_max: int = 128 * 2**20
    """Requests that wait to be written; beyond it senders are told to slow down."""
    log_bytes_max: int = 2 * 2**30
    """The log; a store that is away for longer than this holds stops ingest."""
    disk_free_bytes_min: int = 256 * 2**20
    """Left free on the log's disk: the store needs room to take what is in the log."""
    segment_bytes_max: int = 48 * 2**20
    """A segment is inserted when it has this much, about 200,000 spans of 230 bytes."""
    insert_interval_s: float = 1.0
    """Between inserts under load; the first after a pause comes at once."""
    settle_bytes_max: int = 4 * 2**20
    """A query waits for spans that were just acknowledged only if they are no more than this."""
    retry_s_max: float = 30.0
    """Between attempts to reach a store that refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestState:
    """What the log holds, for health and tests."""

    log_bytes: int
    segments_waiting: int
    segments_refused: int
    """Attempts in a row that the store refused."""
    spans_inserted: int


class LogKeeper:
    """Keeps requests in a write-ahead log and moves them into the store."""

    blocking = False

    def __init__(
        self,
        log: WriteAheadLog,
        spans: SpanStore,
        *,
        limits: IngestLimits | None = None,
        hand_over: Callable[[Segment], None] | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`hand_over` gets each segment before it is stored, and again if that fails."""
        self._wal = log
        self._spans = spans
        self._limits = limits or IngestLimits()
        self._hand_over = hand_over
        self._now_ns = now_ns
        self._waiting: deque[tuple[LogRecord, Done]] = deque()
        self._waiting_bytes = 0
        self._changed = threading.Condition()
        self._stopping = False
        self._committed = 0
        """Records that are safe; `_inserted` of them can be queried."""
        self._inserted = 0
        self._wanted = 0
        """A query waits until this many can be."""
        self._span_count = 0
        self._refused = 0
        self._doubtful = {segment.number for segment in log.seal()}
        """Segments of which an earlier attempt may have reached the store."""
        self._last_insert_s = -self._limits.insert_interval_s
        self._retry_s = 0.0
        self._committer = threading.Thread(
            target=self._commit_loop, name="ingest-commit", daemon=True
        )
        self._inserter = threading.Thread(
            target=self._insert_loop, name="ingest-insert", daemon=True
        )
        self._committer.start()
        self._inserter.start()

    @property
    def state(self) -> IngestState:
        """What is held now."""
        return IngestState(
            log_bytes=self._wal.size_bytes,
            segments_waiting=self._wal.sealed_count,
            segments_refused=self._refused,
            spans_inserted=self._span_count,
        )

    def keep(self, admitted: Admitted, *, tenant: str, done: Done) -> None:
        """Queues the request for the next group."""
        limits = self._limits
        size = len(admitted.body)
        if self._wal.size_bytes + self._waiting_bytes + size > limits.log_bytes_max:
            raise BusyError(
                "the write-ahead log is full: the store does not take spans fast enough",
                retry_after_s=5.0,
            )
        record = LogRecord(admitted.body, tenant, self._now_ns(), admitted.span_count)
        with self._changed:
            if self._stopping:
                raise BusyError("the service is stopping")
            if self._waiting and self._waiting_bytes + size > limits.waiting_bytes_max:
                raise BusyError("too many requests wait for the disk", overloaded=True)
            self._waiting.append((record, done))
            self._waiting_bytes += size
            self._changed.notify_all()

    def settle(self, timeout_s: float) -> bool:
        """Waits until what is safe by now can be queried, unless that is a lot."""
        with self._changed:
            if self._wal.size_bytes > self._limits.settle_bytes_max:
                return False
            target = self._committed
            self._wanted = max(self._wanted, target)
            self._changed.notify_all()
            return self._changed.wait_for(
                lambda: self._inserted >= target or self._refused > 0, timeout_s
            )

    def close(self, *, timeout_s: float = 60.0) -> None:
        """Writes and inserts what waits, as far as the store takes it, and ends the threads."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._committer.join(timeout_s)
        with self._changed:
            self._changed.notify_all()
        self._inserter.join(timeout_s)
        self._wal.close()

    # ---- the log ----

    def _commit_loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopping)
                if not self._waiting:
                    return
                group = list(self._waiting)
                self._waiting.clear()
            error = self._commit([record for record, _ in group])
            with self._changed:
                self._waiting_bytes -= sum(len(record.body) for record, _ in group)
                if error is None:
                    self._committed += len(group)
                self._changed.notify_all()
            for _, done in group:
                done(error)

    def _commit(self, records: list[LogRecord]) -> BusyError | None:
        try:
            disk = os.statvfs(self._wal.folder)
            if disk.f_bavail * disk.f_frsize < self._limits.disk_free_bytes_min:
                return BusyError("the disk of the write-ahead log is full", retry_after_s=5.0)
            self._wal.append(records, segment_bytes_max=self._limits.segment_bytes_max)
        except OSError as error:
            _log.error("log_not_written", error=str(error))
            return BusyError(f"the write-ahead log cannot be written: {error.strerror}")
        return None

    # ---- the store ----

    def _insert_loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._insert_is_due() or self._is_ending, self._wait_s()
                )
                last = self._is_ending
                if not last and not self._insert_is_due():
                    continue
                target = self._committed
            self._last_insert_s = time.monotonic()
            complete = self._insert_sealed()
            with self._changed:
                if complete:
                    self._inserted, self._refused, self._retry_s = target, 0, 0.0
                else:
                    self._refused += 1
                    self._retry_s = min(self._limits.retry_s_max, 2 * self._retry_s or RETRY_S)
                self._changed.notify_all()
            if last:
                return

    @property
    def _is_ending(self) -> bool:
        """Nothing more will be committed."""
        return self._stopping and not self._committer.is_alive()

    def _insert_is_due(self) -> bool:
        """Called with the condition held."""
        waited_s = time.monotonic() - self._last_insert_s
        if self._retry_s:
            return waited_s >= self._retry_s
        size = self._wal.size_bytes
        return size > 0 and (
            waited_s >= self._limits.insert_interval_s
            or self._wanted > self._inserted
            or size >= self._limits.segment_bytes_max
        )

    def _wait_s(self) -> float | None:
        if not self._retry_s and self._wal.size_bytes == 0 and not self._stopping:
            return None
        period_s = self._retry_s or self._limits.insert_interval_s
        left_s = period_s - (time.monotonic() - self._last_insert_s)
        return max(0.001, left_s)

    def _insert_sealed(self) -> bool:
        """Inserts every sealed segment; false if the store refused one of them."""
        every = True
        for segment in self._wal.seal():
            try:
                if self._hand_over is not None:
                    self._hand_over(segment)
                self._insert(segment)
            except (StoreError, StoreClosedError, OSError) as error:
                _log.error("segment_not_stored", segment=segment.number, error=str(error))
                self._doubtful.add(segment.number)
                every = False
            except Exception:
                # A bug: this segment stays where it is, and does not keep others from the store.
                _log.exception("segment_not_stored", segment=segment.number)
                self._doubtful.add(segment.number)
                every = False
        return every

    def _insert(self, segment: Segment) -> None:
        content = read_segment(segment)
        batch = Batch(
            content.data,
            [Record(r.offset, r.size, r.received_ns, r.tenant) for r in content.records],
            segment.number,
        )
        token = f"{segment.writer:x}-{segment.number:x}"
        if segment.number not in self._doubtful:
            self._span_count += self._spans.insert(batch, token=token)
        elif not self._spans.segment_rows(segment.number):
            count = self._spans.insert(batch, token=token)
            # The database may know the token of a block that it lost in a crash.
            if count and not self._spans.segment_rows(segment.number):
                self._spans.insert(batch, token=token, deduplicate=False)
            self._span_count += count
        self._doubtful.discard(segment.number)
        if content.damaged:
            path = self._wal.set_aside(segment)
            _log.error("log_damaged", kept_as=str(path), bytes=content.other_bytes)
            return
        if content.other_bytes:
            _log.warning("log_tail_cut_off", segment=segment.number, bytes=content.other_bytes)
        self._wal.remove(segment)
