# SPDX-License-Identifier: Apache-2.0
"""Zipkin v2 JSON: an array of spans, or an array of traces. Stamps are microseconds, Unix time.

CLIENT and SERVER half of a call may share one span id; both are kept, since the kind is part of a
span's identity. A host is the local endpoint's IP address: Zipkin knows no other.
"""

from collections.abc import Iterator, Mapping

from tracing_core.clock_domains import RESOURCE_HOST_IP, SPAN_TIME_FLAG, TimeFlag
from tracing_core.importers.errors import ImportRefusedError
from tracing_core.importers.json_stream import JsonReader
from tracing_core.importers.numbers import Gcd, micros_to_ns, quantum_of
from tracing_core.importers.report import FileClock, FileReport, ImportOptions
from tracing_core.importers.resources import host_clock, resource
from tracing_core.importers.source import Source
from tracing_core.importers.values import attributes, member, objects, text
from tracing_core.model import Attributes, AttributeValue, Span, SpanEvent, SpanKind

FORMAT = "zipkin"
_KINDS = {
    "SERVER": SpanKind.SERVER,
    "CLIENT": SpanKind.CLIENT,
    "PRODUCER": SpanKind.PRODUCER,
    "CONSUMER": SpanKind.CONSUMER,
}
NO_START = "timestamp is missing or no number in range"


def zipkin_spans(source: Source, options: ImportOptions, report: FileReport) -> Iterator[Span]:
    """Spans of the file."""
    report.format = FORMAT
    quanta = _quanta(source)
    hosts: dict[tuple[str, str], tuple[FileClock, Attributes]] = {}
    for item in _items(source):
        address, service = _endpoint(item)
        key = (address, service)
        if key not in hosts:
            host = options.host or address
            clock = host_clock(
                options,
                host,
                alignment="Unix time in microseconds",
                quantum_ns=quanta.get(address, 1000),
            )
            further: dict[str, AttributeValue] = {RESOURCE_HOST_IP: address} if address else {}
            hosts[key] = (
                clock,
                resource(options, clock, host=host, service=service, further=further),
            )
        clock, owner = hosts[key]
        start_ns = micros_to_ns(item.get("timestamp"))
        duration_ns = micros_to_ns(item.get("duration", 0))
        trace = _identity(item.get("traceId"), 32)
        own, parent = _identity(item.get("id"), 16), _identity(item.get("parentId"), 16)
        if not trace or not own:
            report.refuse("traceId or id is not hex, or is all zero", item.get("name"))
            continue
        if start_ns is None or duration_ns is None or start_ns <= 0 or start_ns + duration_ns < 0:
            report.refuse(NO_START, item.get("name"))
            continue
        found = attributes(member(item, "tags"))
        if item.get("shared") is True:
            found["zipkin.shared"] = True
        remote = member(item, "remoteEndpoint")
        if remote:
            found.update(attributes(remote, "zipkin.remote."))
        if duration_ns < 0:
            found[SPAN_TIME_FLAG] = TimeFlag.END_BEFORE_START.value
            report.flagged[TimeFlag.END_BEFORE_START.value] += 1
        if options.job:
            found.setdefault("tempotrace.job", options.job)
        failed = "error" in found
        span = Span(
            tenant=options.tenant,
            trace_id=trace,
            span_id=own,
            parent_span_id=parent,
            name=text(item.get("name")),
            kind=_KINDS.get(text(item.get("kind")), SpanKind.INTERNAL),
            start_local_ns=start_ns,
            end_local_ns=start_ns + duration_ns,
            clock_domain=clock.name,
            host=options.host or address,
            service=service,
            attributes=found,
            events=tuple(_events(item)),
            resource=owner,
            scope_name=f"tempotrace.import.{FORMAT}",
            status_code=2 if failed else 0,
            status_message=str(found["error"]) if failed else "",
        )
        yield report.take(span, clock)


def _items(source: Source) -> Iterator[Mapping[str, object]]:
    reader = JsonReader(source.chunks())
    for _ in reader.items():
        value = reader.value()
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict):
                raise ImportRefusedError(f"line {reader.line}: expected spans")
            if "binaryAnnotations" in item:
                raise ImportRefusedError("Zipkin v1 JSON; Zipkin itself writes v2 since 2017")
            yield item


def _endpoint(item: Mapping[str, object]) -> tuple[str, str]:
    local = member(item, "localEndpoint")
    return text(local.get("ipv4")) or text(local.get("ipv6")), text(local.get("serviceName"))


def _quanta(source: Source) -> Mapping[str, int]:
    """Resolution of each host's stamps."""
    found: dict[str, Gcd] = {}
    for item in _items(source):
        start_ns = micros_to_ns(item.get("timestamp"))
        duration_ns = micros_to_ns(item.get("duration", 0))
        if start_ns is not None and duration_ns is not None:
            found.setdefault(_endpoint(item)[0], Gcd()).add(start_ns, start_ns + duration_ns)
    return {host: quantum_of(gcd.value_ns) for host, gcd in found.items()}


def _events(item: Mapping[str, object]) -> Iterator[SpanEvent]:
    for annotation in objects(item.get("annotations")):
        time_ns = micros_to_ns(annotation.get("timestamp"))
        if time_ns is not None and time_ns >= 0:
            yield SpanEvent(name=text(annotation.get("value")), time_local_ns=time_ns)


def _identity(value: object, digits: int) -> str:
    """The id with leading zeros, lower case; empty if it is none."""
    if not isinstance(value, str) or not 1 <= len(value) <= digits or "_" in value:
        return ""
    try:
        number = int(value, 16)
    except ValueError:
        return ""
    return f"{number:0{digits}x}" if number > 0 else ""
