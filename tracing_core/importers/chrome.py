# SPDX-License-Identifier: Apache-2.0
"""Chrome trace files (Trace Event Format) of any program: X, B/E and asynchronous events.

`ts` is microseconds of a clock that the format does not name. Where the file says which one it is
(Chrome's `metadata.clock-domain`), or the user does, that is taken; otherwise it stays unknown.
"""

from collections.abc import Iterator

import numpy as np

from tracing_core.clock_domains import SPAN_TIME_FLAG, ClockKind, TimeFlag
from tracing_core.importers.ids import span_id, trace_id
from tracing_core.importers.numbers import quantum_of
from tracing_core.importers.report import FileClock, FileReport, ImportOptions
from tracing_core.importers.resources import host_clock, resource
from tracing_core.importers.source import Source
from tracing_core.importers.trace_events import (
    NO_PARENT,
    UNENDED_NS,
    TraceEventScan,
    events_with_rows,
    nesting,
)
from tracing_core.importers.values import attributes, label, member, text
from tracing_core.model import Attributes, AttributeValue, Span, SpanKind

FORMAT = "chrome"
SERVICE_CHARS_MAX = 128
_MONOTONIC = ("MONOTONIC", "MACH", "QPC", "FUCHSIA")


def chrome_spans(
    source: Source, scan: TraceEventScan, options: ImportOptions, report: FileReport
) -> Iterator[Span]:
    """Spans of a scanned file, all in one trace."""
    report.format = FORMAT
    clock = _clock(scan, options)
    start, end = scan.column("start_ns"), scan.column("end_ns")
    usable = end != UNENDED_NS
    if not usable.all():
        report.refuse("a begin without its end", count=int((~usable).sum()))
    parent = nesting(start, end, np.where(usable & (end >= start), scan.column("lane"), -1))
    owners: dict[str, Attributes] = {}
    trace = trace_id(scan.digest)
    for row, event in events_with_rows(source, scan):
        if not usable[row]:
            continue
        start_ns, end_ns = scan.start_ns[row], scan.end_ns[row]
        if start_ns < 0 or end_ns < 0:
            report.refuse("an instant before the clock's zero", event.get("name"))
            continue
        pid, tid = label(event.get("pid")), label(event.get("tid"))
        service = scan.process_names.get(pid) or (f"process {pid}" if pid else "process")
        service = service[:SERVICE_CHARS_MAX]
        if service not in owners:
            owners[service] = resource(options, clock, host=options.host, service=service)
        found: dict[str, AttributeValue] = {"profiler.pid": pid, "profiler.tid": tid}
        if text(event.get("cat")):
            found["profiler.category"] = text(event.get("cat"))
        if (pid, tid) in scan.thread_names:
            found["thread.name"] = scan.thread_names[pid, tid]
        if options.job:
            found["tempotrace.job"] = options.job
        if end_ns < start_ns:
            found[SPAN_TIME_FLAG] = TimeFlag.END_BEFORE_START.value
            report.flagged[TimeFlag.END_BEFORE_START.value] += 1
        found.update(attributes(member(event, "args"), "arg."))
        above = int(parent[row])
        span = Span(
            tenant=options.tenant,
            trace_id=trace,
            span_id=span_id(scan.digest, row),
            parent_span_id="" if above == NO_PARENT else span_id(scan.digest, above),
            name=text(event.get("name")),
            kind=SpanKind.INTERNAL,
            start_local_ns=start_ns,
            end_local_ns=end_ns,
            clock_domain=clock.name,
            host=options.host,
            service=service,
            attributes=found,
            resource=owners[service],
            scope_name=f"tempotrace.import.{FORMAT}",
        )
        yield report.take(span, clock)


def _clock(scan: TraceEventScan, options: ImportOptions) -> FileClock:
    domain = text(member(scan.members, "metadata").get("clock-domain"))
    monotonic = any(word in domain.upper() for word in _MONOTONIC)
    kind = ClockKind.MONOTONIC if monotonic else ClockKind.UNKNOWN
    owner = options.host or f"file-{scan.digest.hex()[:8]}"
    said = f"the file says {domain}" if domain else "the file does not name its clock"
    return host_clock(
        options,
        owner if monotonic else "",
        kind=kind,
        alignment=f"ts as it is; {said}",
        quantum_ns=quantum_of(scan.host_gcd.value_ns),
        reason=said,
    )
