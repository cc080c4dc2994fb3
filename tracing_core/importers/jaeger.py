# SPDX-License-Identifier: Apache-2.0
"""Jaeger JSON, as its query API and its UI's download write it. Stamps are microseconds, Unix time.

Forms: `{"data": [trace, ...]}`, one trace object, or an array of traces. A host is what the process
says: `host.name` or `hostname`, else its IP address; without either no host clock is named.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tracing_core.clock_domains import (
    RESOURCE_HOST_ID,
    RESOURCE_HOST_IP,
    SPAN_TIME_FLAG,
    TimeFlag,
)
from tracing_core.importers.errors import ImportRefusedError
from tracing_core.importers.json_stream import JsonReader
from tracing_core.importers.numbers import Gcd, micros_to_ns, quantum_of
from tracing_core.importers.report import FileClock, FileReport, ImportOptions
from tracing_core.importers.resources import host_clock, resource
from tracing_core.importers.source import Source
from tracing_core.importers.values import attribute, attributes, member, objects, text
from tracing_core.model import Attributes, AttributeValue, Span, SpanEvent, SpanKind, SpanLink

FORMAT = "jaeger"
_HOST_KEYS = ("host.name", "hostname", RESOURCE_HOST_ID, RESOURCE_HOST_IP, "ip")
_KINDS = {
    "server": SpanKind.SERVER,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
    "consumer": SpanKind.CONSUMER,
    "internal": SpanKind.INTERNAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    service: str
    host: str
    clock: FileClock
    owner: Attributes


def jaeger_spans(source: Source, options: ImportOptions, report: FileReport) -> Iterator[Span]:
    """Spans of all traces of the file."""
    report.format = FORMAT
    quanta = _quanta(source)
    for trace in _traces(source):
        known = {
            key: _process(value, options, quanta)
            for key, value in member(trace, "processes").items()
            if isinstance(value, dict)
        }
        for item in objects(trace.get("spans")):
            inline = item.get("process")
            process = known.get(str(item.get("processID")))
            if process is None:
                process = _process(inline if isinstance(inline, dict) else {}, options, quanta)
            try:
                span = _span(item, process, options)
            except _BadSpanError as error:
                report.refuse(str(error), item.get("operationName"))
                continue
            if SPAN_TIME_FLAG in span.attributes:
                report.flagged[str(span.attributes[SPAN_TIME_FLAG])] += 1
            yield report.take(span, process.clock)


class _BadSpanError(ValueError):
    """Why one span is refused."""


def _traces(source: Source) -> Iterator[Mapping[str, object]]:
    reader = JsonReader(source.chunks())
    if reader.peek() == "[":
        for _ in reader.items():
            yield _trace(reader.value())
        return
    single: dict[str, object] = {}
    for key in reader.members():
        if key == "data" and reader.peek() == "[":
            for _ in reader.items():
                yield _trace(reader.value())
        elif key in ("spans", "processes"):
            single[key] = reader.value()
    if "spans" in single:
        yield single


def _trace(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict) or "spans" not in value:
        raise ImportRefusedError("data: expected traces with spans")
    return value


def _quanta(source: Source) -> Mapping[str, int]:
    """Resolution of each host's stamps; a millisecond clock is shown in microseconds here."""
    found: dict[str, Gcd] = {}
    for trace in _traces(source):
        hosts = {key: _host(value) for key, value in member(trace, "processes").items()}
        for item in objects(trace.get("spans")):
            start_ns = micros_to_ns(item.get("startTime"))
            duration_ns = micros_to_ns(item.get("duration", 0))
            if start_ns is not None and duration_ns is not None:
                host = hosts.get(str(item.get("processID")), _host(item.get("process")))
                found.setdefault(host, Gcd()).add(start_ns, start_ns + duration_ns)
    return {host: quantum_of(gcd.value_ns) for host, gcd in found.items()}


def _host(process: object) -> str:
    tags = _tags(member({"process": process}, "process").get("tags"))
    return next((str(tags[key]) for key in _HOST_KEYS if tags.get(key)), "")


def _process(
    process: Mapping[str, object], options: ImportOptions, quanta: Mapping[str, int]
) -> _Process:
    said = _host(process)
    host = options.host or said
    service = text(process.get("serviceName"))
    clock = host_clock(
        options,
        host,
        alignment="Unix time in microseconds",
        quantum_ns=quanta.get(said, 1000),
    )
    tags = _tags(process.get("tags"))
    return _Process(
        service=service,
        host=host,
        clock=clock,
        owner=resource(options, clock, host=host, service=service, further=tags),
    )


def _span(item: Mapping[str, object], process: _Process, options: ImportOptions) -> Span:
    trace = _hex(item.get("traceID"), 32, "traceID is not 1 to 32 hex digits, or is all zero")
    own = _hex(item.get("spanID"), 16, "spanID is not 1 to 16 hex digits, or is all zero")
    start_ns = micros_to_ns(item.get("startTime"))
    duration_ns = micros_to_ns(item.get("duration", 0))
    if start_ns is None or duration_ns is None or start_ns < 0 or start_ns + duration_ns < 0:
        raise _BadSpanError("startTime or duration is no number in range")
    tags = _tags(item.get("tags"))
    kind = _KINDS.get(str(tags.pop("span.kind", "")).lower(), SpanKind.INTERNAL)
    failed = tags.get("error") in (True, "true")
    if duration_ns < 0:
        tags[SPAN_TIME_FLAG] = TimeFlag.END_BEFORE_START.value
    warnings = attribute(item.get("warnings"))
    if warnings:
        tags["jaeger.warnings"] = warnings
    if options.job:
        tags.setdefault("tempotrace.job", options.job)
    parent, links = _references(item, trace)
    return Span(
        tenant=options.tenant,
        trace_id=trace,
        span_id=own,
        parent_span_id=parent,
        name=text(item.get("operationName")),
        kind=kind,
        start_local_ns=start_ns,
        end_local_ns=start_ns + duration_ns,
        clock_domain=process.clock.name,
        host=process.host,
        service=process.service,
        attributes=tags,
        events=tuple(_events(item.get("logs"))),
        links=links,
        resource=process.owner,
        scope_name=str(tags.get("otel.scope.name", f"tempotrace.import.{FORMAT}")),
        scope_version=str(tags.get("otel.scope.version", "")),
        status_code=2 if failed else 0,
        status_message=str(tags.get("otel.status_description", "")) if failed else "",
        trace_state=str(tags.get("w3c.tracestate", "")),
    )


def _references(item: Mapping[str, object], trace: str) -> tuple[str, tuple[SpanLink, ...]]:
    """The first CHILD_OF within the trace is the parent; everything else is a link."""
    parent = ""
    links: list[SpanLink] = []
    legacy = item.get("parentSpanID")
    if isinstance(legacy, str) and legacy.strip("0"):
        parent = _hex(legacy, 16, "parentSpanID is not hex")
    for reference in objects(item.get("references")):
        other_trace = _hex(reference.get("traceID"), 32, "a reference's traceID is not hex")
        other = _hex(reference.get("spanID"), 16, "a reference's spanID is not hex")
        child_of = reference.get("refType") == "CHILD_OF"
        if child_of and not parent and other_trace == trace:
            parent = other
        elif (other_trace, other) != (trace, parent):
            relation = text(reference.get("refType"))
            links.append(
                SpanLink(
                    trace_id=other_trace,
                    span_id=other,
                    attributes={"opentracing.ref_type": relation.lower()},
                )
            )
    return parent, tuple(links)


def _events(logs: object) -> Iterator[SpanEvent]:
    for log in objects(logs):
        time_ns = micros_to_ns(log.get("timestamp"))
        if time_ns is None or time_ns < 0:
            continue
        fields = _tags(log.get("fields"))
        name = str(fields.pop("event", "")) or str(fields.pop("message", "")) or "log"
        yield SpanEvent(name=name, time_local_ns=time_ns, attributes=fields)


def _tags(tags: object) -> dict[str, AttributeValue]:
    if isinstance(tags, dict):
        return attributes(tags)
    return {text(tag.get("key")): attribute(tag.get("value")) for tag in objects(tags)}


def _hex(value: object, digits: int, message: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= digits:
        raise _BadSpanError(message)
    try:
        number = int(value, 16)
    except ValueError:
        raise _BadSpanError(message) from None
    if number <= 0 or "_" in value:
        raise _BadSpanError(message)
    return f"{number:0{digits}x}"
