# SPDX-License-Identifier: Apache-2.0
"""From the log into the store: once, whatever fails in between, and never lost."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tracing_core.ingest import BusyError, IngestLimits, LogKeeper, WriteAheadLog
from tracing_core.otlp import Admitted
from tracing_core.otlp.assemble import Rejections
from tracing_core.store import StoreError
from tracing_core.store.blocks import Batch

WAIT_S = 30.0


class FakeSpans:
    """A span store that can refuse, lose its answer, or lose a block whose token it knows."""

    def __init__(self) -> None:
        self.segments: dict[int, list[bytes]] = {}
        self.tokens: set[str] = set()
        self.refuses = False
        self.loses_answers = 0
        self.attempts = 0
        self.inserts = 0

    def insert(self, batch: Batch, *, token: str, deduplicate: bool = True) -> int:
        self.attempts += 1
        if self.refuses:
            raise StoreError("away")
        bodies = [batch.data[r.offset : r.offset + r.size].tobytes() for r in batch.records]
        if not (deduplicate and token in self.tokens):
            self.segments.setdefault(batch.segment, []).extend(bodies)
            self.inserts += 1
        self.tokens.add(token)
        if self.loses_answers:
            self.loses_answers -= 1
            raise StoreError("no answer")
        return len(bodies)

    def segment_rows(self, segment: int) -> int:
        return len(self.segments.get(segment, []))

    @property
    def bodies(self) -> list[bytes]:
        return sorted(body for bodies in self.segments.values() for body in bodies)


class Senders:
    """Keeps requests and remembers what was said about them."""

    def __init__(self, keeper: LogKeeper) -> None:
        self._keeper = keeper
        self._changed = threading.Condition()
        self.safe: list[bytes] = []
        self.refused: list[Exception] = []

    def send(self, *bodies: bytes) -> None:
        """Returns when all of them were answered."""
        answers: list[Exception | None] = []
        for body in bodies:
            admitted = Admitted(body, 1, Rejections())
            self._keeper.keep(admitted, tenant="alpha", done=self._done(body, answers))
        with self._changed:
            assert self._changed.wait_for(lambda: len(answers) == len(bodies), WAIT_S)

    def send_until_busy(self) -> BusyError:
        """Sends 500 bytes again and again until there is no room."""
        for number in range(100):
            try:
                self.send(bytes([number]) * 500)
            except BusyError as error:
                return error
        raise AssertionError("there was always room")

    def _done(
        self, body: bytes, answers: list[Exception | None]
    ) -> Callable[[Exception | None], None]:
        def done(error: Exception | None) -> None:
            with self._changed:
                answers.append(error)
                if error is None:
                    self.safe.append(body)
                else:
                    self.refused.append(error)
                self._changed.notify_all()

        return done


def open_keeper(folder: Path, spans: FakeSpans, **limits: float) -> LogKeeper:
    log = WriteAheadLog(folder / "log", now_ns=time.time_ns)
    chosen = IngestLimits(**{"insert_interval_s": 0.01, "disk_free_bytes_min": 0, **limits})  # type: ignore[arg-type]
    return LogKeeper(log, spans, limits=chosen)  # type: ignore[arg-type]


def until(condition: Callable[[], bool]) -> None:
    """Waits for another thread's work, which takes milliseconds."""
    changed = threading.Event()
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        changed.wait(0.005)


def crash(keeper: LogKeeper) -> None:
    """Leaves the folder as a killed process does: the lock is free, nothing is ended in order."""
    keeper._last_insert_s = time.monotonic() + 10**6  # its thread does nothing any more
    os.close(keeper._wal._owner)
    keeper._wal._owner = -1


def test_safe_requests_reach_the_store(tmp_path: Path) -> None:
    """Everything that was called safe is stored, once, and the log is empty again."""
    spans = FakeSpans()
    keeper = open_keeper(tmp_path, spans)
    senders = Senders(keeper)
    senders.send(b"a", b"b", b"c")
    assert keeper.settle(WAIT_S)
    assert spans.bodies == [b"a", b"b", b"c"] == sorted(senders.safe)
    assert keeper.state.log_bytes == 0
    keeper.close()


def test_requests_that_wait_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk syncs one request, the others gather and are synced together."""
    keeper = open_keeper(tmp_path, FakeSpans())
    syncs = []
    first, release = threading.Event(), threading.Event()
    real = os.fdatasync

    def slow(file: int) -> None:
        syncs.append(file)
        first.set()
        release.wait(WAIT_S)
        real(file)

    monkeypatch.setattr(os, "fdatasync", slow)
    senders = Senders(keeper)
    one = threading.Thread(target=senders.send, args=(b"0",))
    one.start()
    assert first.wait(WAIT_S)
    rest = threading.Thread(target=senders.send, args=[bytes([i]) for i in range(1, 50)])
    rest.start()
    until(lambda: len(keeper._waiting) == 49)
    release.set()
    one.join()
    rest.join()
    assert len(senders.safe) == 50
    # The first request and all others, and the header of the segment that each of them is in.
    assert len(syncs) <= 4
    keeper.close()


def test_a_store_that_is_away_loses_nothing(tmp_path: Path) -> None:
    """Requests stay safe until the log is full, then senders wait; later everything is stored."""
    spans = FakeSpans()
    spans.refuses = True
    keeper = open_keeper(tmp_path, spans, log_bytes_max=4000, retry_s_max=0.02)
    senders = Senders(keeper)
    busy = senders.send_until_busy()
    assert busy.retry_after_s >= 1
    assert not busy.overloaded
    assert 3 <= len(senders.safe) <= 8
    until(lambda: keeper.state.segments_refused > 0)
    spans.refuses = False
    until(lambda: keeper.state.log_bytes == 0)
    assert spans.bodies == sorted(senders.safe)
    senders.send(b"again")
    keeper.close()
    assert b"again" in spans.bodies


def test_a_lost_answer_does_not_double(tmp_path: Path) -> None:
    """The store has the segment but its answer never came: it is not inserted again."""
    spans = FakeSpans()
    spans.loses_answers = 1
    keeper = open_keeper(tmp_path, spans, retry_s_max=0.02)
    Senders(keeper).send(b"a", b"b")
    until(lambda: keeper.state.log_bytes == 0)
    assert spans.bodies == [b"a", b"b"]
    keeper.close()


def test_a_crash_before_the_insert_loses_nothing(tmp_path: Path) -> None:
    """What was acknowledged and not stored is stored by the next process."""
    spans = FakeSpans()
    keeper = open_keeper(tmp_path, spans, insert_interval_s=3600.0)
    keeper._last_insert_s = time.monotonic()
    senders = Senders(keeper)
    senders.send(b"a", b"b")
    crash(keeper)
    again = FakeSpans()
    second = open_keeper(tmp_path, again)
    until(lambda: second.state.log_bytes == 0)
    assert again.bodies == [b"a", b"b"]
    second.close()


def test_a_crash_after_the_insert_does_not_double(tmp_path: Path) -> None:
    """The store has the segment, the log too: the next process only removes it."""
    spans = FakeSpans()
    spans.loses_answers = 10**6
    keeper = open_keeper(tmp_path, spans, retry_s_max=3600.0)
    Senders(keeper).send(b"a", b"b")
    until(lambda: spans.inserts == 1)
    until(lambda: keeper.state.segments_refused == 1)
    crash(keeper)
    spans.loses_answers = 0
    second = open_keeper(tmp_path, spans)
    until(lambda: second.state.log_bytes == 0)
    assert spans.bodies == [b"a", b"b"]
    assert spans.inserts == 1
    second.close()


def test_a_token_without_its_block_does_not_lose(tmp_path: Path) -> None:
    """A database that crashed after it noted the token and before it kept the rows gets them."""
    spans = FakeSpans()
    spans.loses_answers = 1
    keeper = open_keeper(tmp_path, spans, retry_s_max=3600.0)
    Senders(keeper).send(b"a")
    until(lambda: keeper.state.segments_refused == 1)
    crash(keeper)
    spans.segments.clear()  # the token stays
    second = open_keeper(tmp_path, spans)
    until(lambda: second.state.log_bytes == 0)
    assert spans.bodies == [b"a"]
    second.close()


def test_a_full_disk_asks_senders_to_wait(tmp_path: Path) -> None:
    """Below the free space that the store needs, nothing is acknowledged."""
    keeper = open_keeper(tmp_path, FakeSpans(), disk_free_bytes_min=2**62)
    senders = Senders(keeper)
    senders.send(b"a")
    (error,) = senders.refused
    assert isinstance(error, BusyError)
    assert "full" in str(error)
    assert senders.safe == []
    keeper.close()


def test_a_log_that_cannot_be_written_asks_senders_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the disk is told to those whose requests it hit; the next ones are kept."""
    spans = FakeSpans()
    keeper = open_keeper(tmp_path, spans)
    senders = Senders(keeper)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", lambda *_: (_ for _ in ()).throw(OSError(5, "I/O error")))
        senders.send(b"a")
    senders.send(b"b")
    assert ([str(error) for error in senders.refused], senders.safe) == (
        ["the write-ahead log cannot be written: I/O error"],
        [b"b"],
    )
    keeper.close()
    assert spans.bodies == [b"b"]


def test_too_many_waiting_requests_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the disk is slow, what waits is bounded; senders are told that they are too fast."""
    keeper = open_keeper(tmp_path, FakeSpans(), waiting_bytes_max=1000)
    release = threading.Event()
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda file: (release.wait(WAIT_S), real(file)))
    admitted = Admitted(b"x" * 400, 1, Rejections())
    refusals = []
    for _ in range(20):
        try:
            keeper.keep(admitted, tenant="alpha", done=lambda _: None)
        except BusyError as error:
            refusals.append(error)
    assert refusals
    assert all(error.overloaded for error in refusals)
    release.set()
    keeper.close()


def test_closing_stores_everything(tmp_path: Path) -> None:
    """An orderly end leaves no segment behind, and no thread."""
    spans = FakeSpans()
    keeper = open_keeper(tmp_path, spans, insert_interval_s=3600.0)
    keeper._last_insert_s = time.monotonic()
    Senders(keeper).send(b"a", b"b")
    keeper.close()
    assert spans.bodies == [b"a", b"b"]
    assert list((tmp_path / "log").glob("*.wal")) == []
    assert not keeper._inserter.is_alive()
    with pytest.raises(BusyError, match="stopping"):
        keeper.keep(Admitted(b"c", 1, Rejections()), tenant="alpha", done=lambda _: None)


def test_a_query_does_not_wait_for_much(tmp_path: Path) -> None:
    """Settling waits for little that is on its way, and not at all for a lot or a store away."""
    spans = FakeSpans()
    spans.refuses = True
    keeper = open_keeper(tmp_path, spans, settle_bytes_max=2000, retry_s_max=3600.0)
    senders = Senders(keeper)
    senders.send(b"a")
    until(lambda: keeper.state.segments_refused > 0)
    assert keeper.settle(WAIT_S)  # true at once: the store is away
    senders.send(b"b" * 3000)
    assert not keeper.settle(WAIT_S)
    spans.refuses = False
    keeper.close()
