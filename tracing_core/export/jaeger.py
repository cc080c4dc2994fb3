# SPDX-License-Identifier: Apache-2.0
"""Spans in the JSON of Jaeger's query API, which Jaeger's UI and Grafana read.

Times are whole microseconds there; nanoseconds, raw stamps, bounds and intervals stand in tags. A
span that is not corrected is shown at its raw time with a warning, as Jaeger does when it does not
adjust: a tree without it would be wrong too.
"""

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any

from tracing_core.export.placement import PlacedSpan, TimeLine, time_attributes
from tracing_core.model import Attributes, AttributeValue, SpanKind
from tracing_core.plain_values import EXACT_MAX, plain_value

STATUS_ERROR = 2
"""OTLP's status code."""


def jaeger_trace(placed: Sequence[PlacedSpan], time_line: TimeLine) -> dict[str, Any]:
    """One trace: its spans, and the processes that they refer to."""
    processes: dict[str, dict[str, Any]] = {}
    keys: dict[str, str] = {}
    spans = []
    for item in placed:
        process = _process(item)
        identity = str(process)
        if identity not in keys:
            keys[identity] = f"p{len(keys) + 1}"
            processes[keys[identity]] = process
        spans.append(_span(item, keys[identity], time_line))
    return {
        "traceID": placed[0].span.trace_id if placed else "",
        "spans": spans,
        "processes": processes,
        "warnings": None,
    }


def _process(item: PlacedSpan) -> dict[str, Any]:
    span = item.span
    resource = {key: value for key, value in span.resource.items() if key != "service.name"}
    if span.host:
        resource.setdefault("hostname", span.host)
    return {"serviceName": span.service or "unknown", "tags": tags(resource)}


def _span(item: PlacedSpan, process: str, time_line: TimeLine) -> dict[str, Any]:
    span = item.span
    attributes: dict[str, AttributeValue] = dict(span.attributes)
    if span.kind is not SpanKind.UNSPECIFIED:
        attributes["span.kind"] = span.kind.name.lower()
    if span.scope_name:
        attributes["otel.scope.name"] = span.scope_name
    if span.trace_state:
        attributes["w3c.tracestate"] = span.trace_state
    if span.status_code == STATUS_ERROR:
        attributes["error"] = True
    if span.status_message:
        attributes["otel.status_description"] = span.status_message
    attributes.update(time_attributes(item))
    references = [
        {"refType": kind, "traceID": trace_id, "spanID": span_id}
        for kind, trace_id, span_id in _references(item)
    ]
    start_us, end_us = item.start_ns // 1000, item.end_ns // 1000
    return {
        "traceID": span.trace_id,
        "spanID": span.span_id,
        "flags": span.flags & 0xFF,
        "operationName": span.name,
        "references": references,
        "startTime": start_us,
        "duration": end_us - start_us,
        "tags": tags(attributes),
        "logs": [
            {
                "timestamp": item.instant_ns(event.time_local_ns) // 1000,
                "fields": tags({"event": event.name, **event.attributes}),
            }
            for event in span.events
        ],
        "processID": process,
        "warnings": _warnings(item, time_line) or None,
    }


def _references(item: PlacedSpan) -> Iterable[tuple[str, str, str]]:
    span = item.span
    if span.parent_span_id:
        yield "CHILD_OF", span.trace_id, span.parent_span_id
    for link in span.links:
        yield "FOLLOWS_FROM", link.trace_id, link.span_id


def _warnings(item: PlacedSpan, time_line: TimeLine) -> list[str]:
    found = []
    if time_line is TimeLine.CORRECTED and not item.corrected:
        found.append(f"time is not corrected: {item.start.reason or item.start.status.value}")
    if item.corrected and item.start.bound_conditional_ns is None:
        found.append(f"corrected time is unbounded: {item.start.reason or item.start.status.value}")
    if not item.duration_known:
        found.append("the end is stamped before the start: the duration is unknown")
    return found


def tags(attributes: Attributes) -> list[dict[str, Any]]:
    """Attributes as typed tags; what Jaeger has no type for becomes text."""
    return [_tag(key, value) for key, value in attributes.items()]


def _tag(key: str, value: AttributeValue) -> dict[str, Any]:
    match value:
        case bool():
            kind = "bool"
        case int() if abs(value) <= EXACT_MAX:
            kind = "int64"
        case float():
            kind = "float64"
        case bytes():
            return {"key": key, "type": "binary", "value": base64.b64encode(value).decode()}
        case _:
            plain = plain_value(value)
            shown = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
            return {"key": key, "type": "string", "value": "" if plain is None else shown}
    return {"key": key, "type": kind, "value": plain_value(value)}


def dependencies(traces: Iterable[Sequence[PlacedSpan]]) -> list[dict[str, Any]]:
    """How often a span of one service has a child of another one."""
    calls: dict[tuple[str, str], int] = {}
    for placed in traces:
        services = {item.span.span_id: item.span.service for item in placed}
        for item in placed:
            parent = services.get(item.span.parent_span_id, "")
            child = item.span.service
            if parent and child and parent != child:
                calls[parent, child] = calls.get((parent, child), 0) + 1
    return [
        {"parent": parent, "child": child, "callCount": count}
        for (parent, child), count in sorted(calls.items())
    ]
