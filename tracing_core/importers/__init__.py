# SPDX-License-Identifier: Apache-2.0
"""Spans out of files that other tools wrote: bytes in, spans and a report out; no I/O.

Raw stamps stay as the file has them, made integer nanoseconds; each span names the clock it is on,
or says that the clock is not known. Nothing is aligned here: corrections do, when spans are read.
"""

from tracing_core.importers.errors import ImportRefusedError
from tracing_core.importers.formats import FORMATS, read_spans
from tracing_core.importers.report import ClockUse, FileClock, FileReport, ImportOptions
from tracing_core.importers.source import CHUNK_BYTES, BytesSource, Source, decompressed

__all__ = [
    "CHUNK_BYTES",
    "FORMATS",
    "BytesSource",
    "ClockUse",
    "FileClock",
    "FileReport",
    "ImportOptions",
    "ImportRefusedError",
    "Source",
    "decompressed",
    "read_spans",
]
