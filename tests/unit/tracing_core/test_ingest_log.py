# SPDX-License-Identifier: Apache-2.0
"""The write-ahead log: what was appended is found again, whatever was torn or damaged behind it."""

import errno
import itertools
import os
from pathlib import Path

import pytest

from tracing_core.ingest.log import LogError, Segment, WriteAheadLog, read_segment
from tracing_core.ingest.log_format import SEGMENT_HEADER_SIZE, LogRecord

NOW_NS = 1_800_000_000_000_000_000
BIG = 1 << 40


def open_log(folder: Path) -> WriteAheadLog:
    times = itertools.count(NOW_NS, 1000)
    return WriteAheadLog(folder, now_ns=lambda: next(times))


def record(number: int, size: int = 20) -> LogRecord:
    return LogRecord(bytes([number]) * size, f"tenant-{number}", NOW_NS + number)


def found(segment: Segment) -> list[tuple[bytes, str, int]]:
    content = read_segment(segment)
    return [
        (content.data[r.offset : r.offset + r.size].tobytes(), r.tenant, r.received_ns)
        for r in content.records
    ]


def expected(*numbers: int) -> list[tuple[bytes, str, int]]:
    return [(bytes([n]) * 20, f"tenant-{n}", NOW_NS + n) for n in numbers]


def sealed(folder: Path, *numbers: int) -> Segment:
    """A segment with these records, as a process leaves it that ends."""
    log = open_log(folder)
    log.append([record(number) for number in numbers], segment_bytes_max=BIG)
    (segment,) = log.seal()
    log.close()
    return segment


def test_records_come_back_with_tenant_and_time(tmp_path: Path) -> None:
    """Body, tenant and the time of receipt of every record, in order."""
    log = open_log(tmp_path)
    log.append([record(1), record(2)], segment_bytes_max=BIG)
    log.append([record(3)], segment_bytes_max=BIG)
    (segment,) = log.seal()
    assert found(segment) == expected(1, 2, 3)
    assert read_segment(segment).other_bytes == 0
    log.close()


def test_a_torn_tail_is_cut_at_the_last_whole_record(tmp_path: Path) -> None:
    """Whatever the length at which the last record was cut off: the ones before it are found."""
    segment = sealed(tmp_path, 1, 2, 3)
    data = segment.path.read_bytes()
    last = read_segment(segment).records[-1].start
    for length in range(last, len(data)):
        segment.path.write_bytes(data[:length])
        assert found(segment) == expected(1, 2), length
        assert not read_segment(segment).damaged


def test_room_that_was_never_written_holds_no_record(tmp_path: Path) -> None:
    """After a crash a segment ends in the zeros of the room allocated ahead."""
    segment = sealed(tmp_path, 1)
    with segment.path.open("ab") as file:
        file.write(bytes(100_000))
    assert found(segment) == expected(1)
    assert read_segment(segment).other_bytes == 0


@pytest.mark.parametrize("part", ["header", "tenant", "body"])
def test_records_behind_a_damaged_one_are_found(tmp_path: Path, part: str) -> None:
    """One changed byte costs its own record and no other, and is reported."""
    segment = sealed(tmp_path, 1, 2, 3)
    second = read_segment(segment).records[1]
    at = {"header": second.start + 5, "tenant": second.offset - 1, "body": second.offset + 3}[part]
    data = bytearray(segment.path.read_bytes())
    data[at] ^= 0x40
    segment.path.write_bytes(data)
    assert found(segment) == expected(1, 3)
    assert read_segment(segment).damaged


def test_what_a_process_left_is_found_by_the_next(tmp_path: Path) -> None:
    """A log that was not closed has its segments again, with numbers that go on rising."""
    log = open_log(tmp_path)
    log.append([record(1)], segment_bytes_max=BIG)
    os.close(log._owner)  # as a killed process does
    log._owner = -1
    again = open_log(tmp_path)
    (left,) = again.seal()
    assert found(left) == expected(1)
    again.append([record(2)], segment_bytes_max=BIG)
    old, new = again.seal()
    assert (found(new), new.number > old.number) == (expected(2), True)
    assert again.writer == left.writer
    again.close()


def test_numbers_rise_when_the_clock_goes_back(tmp_path: Path) -> None:
    """A segment's number is time, but never below the one before it."""
    times = iter([NOW_NS, NOW_NS - 10**12, NOW_NS - 10**12])
    log = WriteAheadLog(tmp_path, now_ns=lambda: next(times))
    numbers = []
    for number in range(3):
        log.append([record(number)], segment_bytes_max=1)
        numbers.append(log.seal()[-1].number)
    assert numbers == sorted(set(numbers))
    log.close()


def test_a_segment_is_ended_at_its_size(tmp_path: Path) -> None:
    """What comes after the limit goes into the next segment."""
    log = open_log(tmp_path)
    for number in range(4):
        log.append([record(number)], segment_bytes_max=SEGMENT_HEADER_SIZE + 1)
    assert [found(segment) for segment in log.seal()] == [expected(n) for n in range(4)]
    log.close()


def test_one_process_owns_a_log(tmp_path: Path) -> None:
    """A second owner is refused, and the folder is free again after close."""
    log = open_log(tmp_path)
    with pytest.raises(LogError, match="another process"):
        open_log(tmp_path)
    log.close()
    log.close()
    open_log(tmp_path).close()


@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
def test_a_failed_write_keeps_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The disk is full in the middle: what was there before is whole, and the log goes on."""
    log = open_log(tmp_path)
    log.append([record(1)], segment_bytes_max=BIG)
    real = os.pwritev

    def fails(*arguments: object) -> int:
        if call == "pwritev":
            real(arguments[0], [arguments[1][0][:7]], arguments[2])  # type: ignore[index,arg-type]
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fails)
        with pytest.raises(OSError, match="No space"):
            log.append([record(2)], segment_bytes_max=BIG)
    log.append([record(3)], segment_bytes_max=BIG)
    records = [item for segment in log.seal() for item in found(segment)]
    assert [item for item in records if item != expected(2)[0]] == expected(1, 3)
    log.close()


def test_a_segment_without_a_whole_header_is_set_aside(tmp_path: Path) -> None:
    """Nobody was told that it is safe; it is kept under another name."""
    log = open_log(tmp_path)
    log.close()
    (tmp_path / "00000000000000000009.wal").write_bytes(b"TTW")
    again = open_log(tmp_path)
    assert again.seal() == []
    assert [path.name for path in tmp_path.glob("*.damaged")] == ["00000000000000000009.damaged"]
    again.close()


def test_size_counts_what_the_store_does_not_have(tmp_path: Path) -> None:
    """Removing a segment makes room; an empty log has none."""
    log = open_log(tmp_path)
    assert log.size_bytes == 0
    log.append([record(1, size=1000)], segment_bytes_max=BIG)
    assert log.size_bytes > 1000
    (segment,) = log.seal()
    log.remove(segment)
    assert (log.size_bytes, list(tmp_path.glob("*.wal"))) == (0, [])
    log.close()
