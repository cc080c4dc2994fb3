# SPDX-License-Identifier: Apache-2.0
"""Files that are damaged, enormous or made to do harm: an account of them, in bounded memory."""

import gzip
import itertools
import json
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from tests.support.imported import imported
from tracing_core.importers import FileReport, ImportOptions, json_stream, read_spans

US = 1_700_000_000_000_000
MIB = 2**20
EVENT = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 2}


class Generated:
    """A file that exists while it is read; each reading may give other bytes."""

    def __init__(self, *readings: Callable[[], Iterator[bytes]]) -> None:
        self.name = "generated"
        self._readings = itertools.chain(readings, itertools.repeat(readings[-1]))

    def chunks(self) -> Iterator[bytes]:
        return next(self._readings)()


def account(source: Generated) -> tuple[int, FileReport, int]:
    """Spans, report, and the most memory that was held."""
    report = FileReport(name=source.name)
    tracemalloc.start()
    count = sum(1 for _ in read_spans(source, ImportOptions(), report))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return count, report, peak_bytes


def in_a_file(parts: Iterator[str]) -> Iterator[bytes]:
    """Pieces of about a MiB."""
    for batch in (
        itertools.batched(parts, 512) if hasattr(itertools, "batched") else _batches(parts)
    ):
        yield "".join(batch).encode()


def _batches(parts: Iterator[str]) -> Iterator[tuple[str, ...]]:
    while batch := tuple(itertools.islice(parts, 512)):
        yield batch


FILLER = "x" * 2000
STREAMS: dict[str, Callable[[], Iterator[str]]] = {
    "other members": lambda: itertools.chain(
        ["{"], (f'"m{n}":"{FILLER}",' for n in range(5_000)),
        [f'"traceEvents":[{json.dumps(EVENT)}]}}'],
    ),
    "categories": lambda: itertools.chain(
        ["["],
        (json.dumps({**EVENT, "cat": f"{n}{FILLER}"}) + "," for n in range(5_000)),
        ["null]"],
    ),
    "names of processes": lambda: itertools.chain(
        [f"[{json.dumps(EVENT)}"],
        (f',{{"ph":"M","name":"thread_name","pid":{n},"tid":1,"args":{{"x":"{FILLER}"}}}}'
         for n in range(5_000)),
        ["]"],
    ),
    "threads": lambda: itertools.chain(
        ["["],
        (json.dumps({**EVENT, "pid": f"{n}{FILLER}"}) + "," for n in range(5_000)),
        ["null]"],
    ),
    "ends without a begin": lambda: itertools.chain(
        [f"[{json.dumps(EVENT)}"],
        (f',{{"ph":"e","cat":"c","id":"{n}{FILLER}","name":"a","ts":1}}' for n in range(5_000)),
        ["]"],
    ),
    "OTLP without spans": lambda: (
        f'{{"resourceSpans":[],"unknown{n}":"{FILLER}"}}\n' for n in range(5_000)
    ),
    "Jaeger traces without spans": lambda: itertools.chain(
        ['{"data":['],
        (f'{{"traceID":"{n}","spans":[],"processes":{{}},"x":"{FILLER}"}},' for n in range(5_000)),
        ['{"spans":[]}]}'],
    ),
    "white space": lambda: itertools.chain(
        [json.dumps(EVENT)[:1]], (" " * 2000 for _ in range(5_000)), ['"traceEvents":[]}']
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
def test_memory_does_not_grow_with_the_file(name: str) -> None:
    """10 MB of what is of no use, or of one event each: a fraction of it is held."""
    count, report, peak_bytes = account(Generated(lambda: in_a_file(iter(STREAMS[name]()))))
    assert report.error == ""
    assert count == report.span_count
    assert peak_bytes < 8 * MIB


def test_small_values_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value of 64 MiB of empty lists would take 2 GB in memory."""
    monkeypatch.setattr(json_stream, "VALUES_MAX", 300_000)
    content = lambda: iter([b'[{"ph":"X","args":['] + [b"[]," * 300_000] * 40 + [b"0]}]"])  # noqa: E731
    count, report, peak_bytes = account(Generated(content))
    assert count == 0
    assert "holds more than 300000 others" in report.error
    assert peak_bytes < 80 * MIB


def test_a_file_that_changes_while_it_is_read_is_told() -> None:
    """It is read twice: events that are gone, or no events any more, end it with the reason."""
    first = json.dumps([EVENT] * 3).encode()
    for second in ([EVENT], [EVENT, 5, EVENT], []):
        changed = json.dumps(second).encode()
        source = Generated(
            lambda: iter([first]), lambda: iter([first]), lambda changed=changed: iter([changed])
        )
        _, report, _ = account(source)
        assert report.error == "the file changed while it was read"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"   \n\t ", "empty"),
        (b"[]", "empty list"),
        (b"[[],[]]", "empty list"),
        (b"[null]", "empty list"),
        ('{"traceEvents":[]}'.encode("utf-16"), "UTF-16"),
        (b"\0" * 5000, "unknown format"),
        (b"\x1f\x8b", "gzip data ends early"),
        (b"\x1f\x8b\x08\x00" + b"\xff" * 60, "damaged gzip"),
        (gzip.compress(b"[" * 50_000, mtime=0), "deep"),
        (b"PK\x03\x04zip", "unknown format"),
        (b'{"traceEvents":5}', "expected ["),
        (b'{"traceEvents":{}}', "expected ["),
        (b'{"data":[5]}', "expected traces"),
    ],
)
def test_what_cannot_be_read_says_why(content: bytes, word: str) -> None:
    """One sentence, no spans, and never an exception."""
    spans, report = imported(content)
    assert (spans, report.span_count) == ([], 0)
    assert word in report.error


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ({"traceEvents": []}, "chrome"),
        ({"traceEvents": [], "baseTimeNanoseconds": 5}, "kineto"),
        ({"resourceSpans": []}, "otlp-json"),
        ({"data": []}, "jaeger"),
        ({"entries": [], "version": "2.4", "pg_config": {}}, "flight-recorder"),
        ({"communicators": []}, "nccl-ras"),
    ],
)
def test_a_file_without_events_is_no_error(content: object, form: str) -> None:
    """A profiler that recorded nothing wrote a file all the same."""
    spans, report = imported(content)
    assert spans == []
    assert (report.error, report.format) == ("", form)


NUMBERS = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "9" * 400, "1E+999999999",
           "0x10", "null", "true", '"5"', "[]", "-0.0", "1e18"]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("key", ["ts", "dur", "pid", "tid", "id"])
def test_a_number_that_is_none_costs_its_event_at_most(key: str, number: str) -> None:
    """The event behind it is taken, unless the file is no JSON from there on."""
    good = json.dumps({**EVENT, "name": "good"})
    bad = json.dumps({**EVENT, key: "@"}).replace('"@"', number)
    spans, report = imported(f"[{good},{bad},{good}]".encode())
    names = [span.name for span in spans]
    assert names.count("good") == (0 if report.error else 2)  # events are looked at all, first
    assert (number == "0x10") == bool(report.error)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16-le", "shift_jis"])
def test_text_of_another_encoding_costs_its_characters_at_most(encoding: str) -> None:
    """A name in another encoding inside of an ASCII file: the span is kept."""
    name = {"shift_jis": "カーネル"}.get(encoding, "café")
    before, behind = json.dumps([{**EVENT, "name": "@"}]).split("@")
    raw = name.encode(encoding).replace(b'"', b"").replace(b"\\", b"")
    (span,), report = imported(before.encode() + raw + behind.encode())
    assert report.error == ""
    span.name.encode()


def test_of_a_key_that_stands_twice_the_last_one_counts() -> None:
    """As for every JSON reader; a second list of events is read, too."""
    event = '{"ph":"X","name":"a","name":"b","ts":1,"ts":2,"dur":3}'
    spans, report = imported(f'{{"traceEvents":[{event}],"traceEvents":[{event}]}}'.encode())
    assert [(span.name, span.start_local_ns) for span in spans] == [("b", 2000)] * 2
    assert report.refused.total() == 0


@pytest.mark.parametrize("cut", [1, 10, 100, 1000])
def test_a_damaged_end_keeps_what_came_before(cut: int) -> None:
    """OTLP lines in gzip, cut: whole requests before the damage are taken, and the rest is told."""
    lines = b"".join(
        json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [
            {"traceId": f"{n + 1:032x}", "spanId": "b" * 16, "name": "n",
             "startTimeUnixNano": str(US * 1000 + n)}]}]}]}).encode() + b"\n"
        for n in range(2000)
    )  # fmt: skip
    spans, report = imported(gzip.compress(lines, mtime=0)[:-cut], piece_bytes=4096)
    assert report.error
    assert 0 < len(spans) <= 2000
    assert [span.trace_id for span in spans] == [f"{n + 1:032x}" for n in range(len(spans))]
