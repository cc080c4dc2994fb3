# SPDX-License-Identifier: Apache-2.0
"""PyTorch Flight Recorder dumps: the last collectives of one rank, as pickle or JSON.

A span starts when the collective was created (the enqueue) and ends when the watchdog saw that it
had completed: after the GPU's end, so valid but loose. The rank stands in the file's name only.
All ranks of one collective share a trace. Stamps are the host's system clock in nanoseconds.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from tracing_core.clock_domains import (
    SPAN_COMMUNICATOR,
    SPAN_RANK,
    SPAN_SEQUENCE,
    SPAN_TIME_FLAG,
    ClockKind,
    TimeFlag,
)
from tracing_core.importers.errors import ImportRefusedError
from tracing_core.importers.ids import span_id, trace_id
from tracing_core.importers.json_stream import JsonReader
from tracing_core.importers.numbers import whole
from tracing_core.importers.plain_pickle import PICKLE_BYTES_MAX, load_plain_pickle
from tracing_core.importers.report import FileClock, FileReport, ImportOptions
from tracing_core.importers.resources import host_clock, resource
from tracing_core.importers.source import Digest, Source
from tracing_core.importers.values import attribute, label, objects, text
from tracing_core.model import Attributes, AttributeValue, Span, SpanEvent, SpanKind

FORMAT = "flight-recorder"
PICKLE_MAGIC = b"\x80"
UNIX_MIN_NS = 10**18
"""Smaller stamps count from something else than the Unix epoch."""
NO_CREATION = "time_created_ns is missing or 0"
_RANK = re.compile(r"(\d{1,7})(?:\.(?:json|pkl|pickle|gz))*$")
_KEPT = (
    "record_id", "pg_id", "collective_seq_id", "p2p_seq_id", "op_id", "state", "duration_ms",
    "timeout_ms", "is_p2p", "retired", "input_sizes", "input_dtypes", "output_sizes",
    "output_dtypes", "thread_name", "thread_id",
)  # fmt: skip


def flight_recorder_spans(
    source: Source, options: ImportOptions, report: FileReport
) -> Iterator[Span]:
    """A span per recorded collective."""
    report.format = FORMAT
    digest = Digest()
    dump = _load(digest.through(source.chunks()))
    entries = list(objects(dump["entries"]))
    stamps = [whole(entry.get("time_created_ns")) or 0 for entry in entries]
    named = _RANK.search(source.name)
    rank = int(named[1]) if named else None
    if rank is None:
        report.note("the file's name does not end with the rank, so the rank is not known")
    file = _file(options, max(stamps, default=0), rank, digest.value().hex()[:8])
    report.note("an end is when the watchdog saw it: later than the GPU's")
    newest: dict[tuple[str, bool], tuple[int, int]] = {}
    for entry, created_ns in zip(entries, stamps, strict=True):
        name = text(entry.get("profiling_name")) or "collective"
        if created_ns <= 0:
            report.refuse(NO_CREATION, name)
            continue
        completed_ns = whole(entry.get("time_discovered_completed_ns"))
        started_ns = whole(entry.get("time_discovered_started_ns"))
        flag = None
        end_ns = completed_ns or started_ns or created_ns
        if not completed_ns:
            flag = TimeFlag.NOT_COMPLETED
        if end_ns < created_ns:
            flag = TimeFlag.END_BEFORE_START
        group, is_p2p = _group(entry), entry.get("is_p2p") is True
        sequence_key = "p2p_seq_id" if is_p2p else "collective_seq_id"
        sequence = whole(entry.get(sequence_key)) or 0
        last = newest.get((group, is_p2p), (sequence, created_ns))
        if sequence > last[0] and created_ns < last[1]:
            flag = TimeFlag.OUT_OF_SEQUENCE
        newest[group, is_p2p] = max(last, (sequence, created_ns))
        if flag is not None:
            report.flagged[flag.value] += 1
        events = [("discovered.started", started_ns), ("discovered.completed", completed_ns)]
        operation = whole(entry.get("op_id")) or 0
        span = Span(
            tenant=options.tenant,
            trace_id=trace_id(options.tenant, options.job, group, is_p2p, sequence),
            span_id=span_id(file.owner, group, is_p2p, sequence, operation, created_ns),
            parent_span_id="",
            name=name,
            kind=SpanKind.INTERNAL,
            start_local_ns=created_ns,
            end_local_ns=max(end_ns, 0),
            clock_domain=file.clock.name,
            host=options.host,
            service="pytorch",
            attributes=_attributes(entry, group, rank, flag, options),
            events=tuple(
                SpanEvent(name=event, time_local_ns=at) for event, at in events if at and at > 0
            ),
            resource=file.resource,
            scope_name=f"tempotrace.import.{FORMAT}",
        )
        yield report.take(span, file.clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    clock: FileClock
    owner: str
    resource: Attributes


def _file(options: ImportOptions, newest_ns: int, rank: int | None, short: str) -> _File:
    owner = options.host or (f"file-{short}" if rank is None else f"rank{rank}-{short}")
    unix = newest_ns >= UNIX_MIN_NS
    clock = host_clock(
        options,
        owner if unix else "",
        kind=ClockKind.SYSTEM if unix else ClockKind.UNKNOWN,
        alignment="Unix time in nanoseconds" if unix else "none: stamps are no Unix time",
        reason="stamps are no Unix time, so another clock than the system's took them",
    )
    return _File(
        clock=clock,
        owner=owner,
        resource=resource(options, clock, host=options.host, service="pytorch"),
    )


def _load(chunks: Iterator[bytes]) -> Mapping[str, object]:
    first = next(chunks, b"")
    if first.startswith(PICKLE_MAGIC):
        parts, size_bytes = [first], len(first)
        for part in chunks:
            parts.append(part)
            size_bytes += len(part)
            if size_bytes > PICKLE_BYTES_MAX:
                raise ImportRefusedError(f"pickle longer than {PICKLE_BYTES_MAX} bytes")
        dump = load_plain_pickle(b"".join(parts))
    else:
        dump = JsonReader(chain((first,), chunks)).value()
    if not isinstance(dump, dict) or not isinstance(dump.get("entries"), list):
        raise ImportRefusedError("entries: missing, this is no Flight Recorder dump")
    return dump


def _group(entry: Mapping[str, object]) -> str:
    """Name of the process group; older dumps have one text, newer ones name and description."""
    group = entry.get("process_group")
    if isinstance(group, list | tuple):
        return ":".join(label(part) for part in group)
    return label(group) or label(entry.get("pg_id"))


def _attributes(
    entry: Mapping[str, object],
    group: str,
    rank: int | None,
    flag: TimeFlag | None,
    options: ImportOptions,
) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {SPAN_COMMUNICATOR: group}
    if rank is not None:
        found[SPAN_RANK] = rank
    sequence = whole(entry.get("collective_seq_id"))
    if sequence is not None and entry.get("is_p2p") is not True:
        found[SPAN_SEQUENCE] = sequence
    if options.job:
        found["tempotrace.job"] = options.job
    if flag is not None:
        found[SPAN_TIME_FLAG] = flag.value
    found.update({f"fr.{key}": attribute(entry[key]) for key in _KEPT if key in entry})
    frames = [
        f"{text(frame.get('name'))} {text(frame.get('filename'))}:{label(frame.get('line'))}"
        for frame in objects(entry.get("frames"))
    ]
    if frames:
        found["fr.frames"] = text("\n".join(frames))
    return found
