# SPDX-License-Identifier: Apache-2.0
"""Tells what a file is from its content, and reads it with the importer for that."""

import codecs
from collections.abc import Iterator
from itertools import chain

from tracing_core.importers.chrome import chrome_spans
from tracing_core.importers.errors import ImportRefusedError
from tracing_core.importers.flight_recorder import PICKLE_MAGIC, flight_recorder_spans
from tracing_core.importers.jaeger import jaeger_spans
from tracing_core.importers.json_stream import JsonReader
from tracing_core.importers.kineto import is_kineto, kineto_spans
from tracing_core.importers.nccl_inspector import inspector_spans
from tracing_core.importers.nccl_ras import ras_spans
from tracing_core.importers.otlp_json import otlp_spans
from tracing_core.importers.report import FileReport, ImportOptions
from tracing_core.importers.source import Source
from tracing_core.importers.trace_events import EVENTS, scan_events
from tracing_core.importers.zipkin import zipkin_spans
from tracing_core.model import Span

FORMATS = (
    "OTLP/JSON, Kineto, Chrome trace, Jaeger, Zipkin v2, NCCL inspector, NCCL RAS or"
    " Flight Recorder (JSON or pickle)"
)
UNKNOWN = f"unknown format: expected {FORMATS}, plain or gzip"
EMPTY = "an empty list: no spans, and nothing that tells the format"

_READERS = {
    "otlp": otlp_spans,
    "jaeger": jaeger_spans,
    "zipkin": zipkin_spans,
    "inspector": inspector_spans,
    "ras": ras_spans,
    "flight": flight_recorder_spans,
}
_BY_KEY = {
    "resourceSpans": "otlp",
    "resourceLogs": "otlp",
    "resourceMetrics": "otlp",
    EVENTS: "events",
    "coll_perf": "inspector",
    "p2p_perf": "inspector",
    "dump_stats": "inspector",
    "communicators": "ras",
    "peer": "ras",
    "entries": "flight",
    "pg_config": "flight",
}
"""Format by a key at the top level; the first such key decides."""


_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_spans(source: Source, options: ImportOptions, report: FileReport) -> Iterator[Span]:
    """Spans of a file of any known format. A file, or its rest, that cannot be read is told in
    `report.error`, after what was taken before."""
    try:
        kind = _kind(source)
        if kind == "events":
            scan = scan_events(source)
            report.refused.update(scan.refused)
            report.ignored.update(scan.ignored)
            read = kineto_spans if is_kineto(scan) else chrome_spans
            yield from read(source, scan, options, report)
        else:
            yield from _READERS[kind](source, options, report)
    except ImportRefusedError as error:
        report.error = str(error)


def _kind(source: Source) -> str:
    chunks = source.chunks()
    head = next(chunks, b"")
    if head.startswith(PICKLE_MAGIC):
        return "flight"
    if head.startswith(_UTF_16):
        raise ImportRefusedError("UTF-16 text: expected UTF-8")
    reader = JsonReader(chain((head,), chunks))
    match reader.peek():
        case "{":
            return _kind_of_object(reader)
        case "[":
            return _kind_of_array(reader)
        case "":
            raise ImportRefusedError("the file is empty")
        case _:
            raise ImportRefusedError(UNKNOWN)


def _kind_of_object(reader: JsonReader) -> str:
    for key in reader.members():
        if key in _BY_KEY:
            return _BY_KEY[key]
        if key == "data" and reader.peek() == "[":
            return "jaeger"
        if key in ("spans", "processes", "traceID"):
            return "jaeger"
    raise ImportRefusedError(UNKNOWN)


def _kind_of_array(reader: JsonReader) -> str:
    first: object = None
    for _ in reader.items():
        first = reader.value()
        if isinstance(first, list):
            if not first:
                continue
            first = first[0]
        if not isinstance(first, dict):
            break
        if "ph" in first:
            return "events"
        if "traceId" in first and "id" in first:
            return "zipkin"
        if "spans" in first:
            return "jaeger"
        break
    raise ImportRefusedError(EMPTY if first in (None, []) else UNKNOWN)
