# SPDX-License-Identifier: Apache-2.0
"""A stored row as the OTLP span it came from, without loss."""

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as PbSpan

from tracing_core.model import Span
from tracing_core.otlp.assemble import ResourceContext, resource_context
from tracing_core.otlp.protobuf_codec import decode_attributes, decode_span
from tracing_core.store.engine import Row

COLUMNS = (
    "tenant",
    "trace_id",
    "span_id",
    "parent_span_id",
    "name",
    "kind",
    "start_local_ns",
    "end_local_ns",
    "attributes_string",
    "attributes_int",
    "attributes_double",
    "attributes_bool",
    "attributes_other",
    "event_name",
    "event_time_local_ns",
    "event_body",
    "links",
    "resource",
    "resource_schema_url",
    "scope",
    "scope_schema_url",
    "status_code",
    "status_message",
    "trace_state",
    "flags",
    "dropped_attributes",
    "dropped_events",
    "dropped_links",
)
"""What is read of a row with `Engine.raw_rows`, in this order."""

SELECTED = ", ".join(COLUMNS)

_IDENTITY = itemgetter(*map(COLUMNS.index, ("tenant", "trace_id", "span_id", "kind")))
_START_AND_ID = itemgetter(*map(COLUMNS.index, ("start_local_ns", "span_id", "kind")))

_NO_PARENT = bytes(8)


def distinct_rows(rows: Iterable[Row]) -> list[Row]:
    """One row of each span, by raw start, then id: a span may have been sent again."""
    found: dict[Row, Row] = {}
    for row in sorted(rows, key=_START_AND_ID):
        found.setdefault(_IDENTITY(row), row)
    return list(found.values())


def request_of_rows(rows: Iterable[Row]) -> ExportTraceServiceRequest:
    """The rows as one request, grouped by resource and scope as they came."""
    request = ExportTraceServiceRequest()
    resources: dict[tuple[bytes, bytes], ResourceSpans] = {}
    scopes: dict[tuple[bytes, bytes, bytes, bytes], ScopeSpans] = {}
    for row in rows:
        values = dict(zip(COLUMNS, row, strict=True))
        resource = values["resource"], values["resource_schema_url"]
        scope = *resource, values["scope"], values["scope_schema_url"]
        if resource not in resources:
            resources[resource] = request.resource_spans.add(
                resource=Resource.FromString(resource[0]), schema_url=resource[1].decode()
            )
        if scope not in scopes:
            scopes[scope] = resources[resource].scope_spans.add(
                scope=InstrumentationScope.FromString(scope[2]), schema_url=scope[3].decode()
            )
        scopes[scope].spans.append(_message(values))
    return request


def spans_of_rows(rows: Iterable[Row]) -> list[Span]:
    """The rows as spans of the model, in their order."""
    spans: list[Span] = []
    contexts: dict[tuple[bytes, bytes], ResourceContext] = {}
    scopes: dict[bytes, InstrumentationScope] = {}
    for row in rows:
        values = dict(zip(COLUMNS, row, strict=True))
        tenant, resource, scope = values["tenant"], values["resource"], values["scope"]
        if (tenant, resource) not in contexts:
            message = Resource.FromString(resource)
            contexts[tenant, resource] = resource_context(
                decode_attributes(message.attributes), tenant.decode()
            )
        if scope not in scopes:
            scopes[scope] = InstrumentationScope.FromString(scope)
        spans.append(
            decode_span(
                _message(values),
                contexts[tenant, resource],
                scopes[scope].name,
                scopes[scope].version,
            )
        )
    return spans


def _message(row: Mapping[str, Any]) -> PbSpan:
    message = PbSpan(
        trace_id=row["trace_id"],
        span_id=row["span_id"],
        name=row["name"].decode(),
        kind=row["kind"],
        start_time_unix_nano=row["start_local_ns"],
        end_time_unix_nano=row["end_local_ns"],
        attributes=_attributes(row),
        links=[PbSpan.Link.FromString(body) for body in row["links"]],
        trace_state=row["trace_state"].decode(),
        flags=row["flags"],
        dropped_attributes_count=row["dropped_attributes"],
        dropped_events_count=row["dropped_events"],
        dropped_links_count=row["dropped_links"],
    )
    if row["parent_span_id"] != _NO_PARENT:
        message.parent_span_id = row["parent_span_id"]
    if row["status_code"] or row["status_message"]:
        message.status.code = row["status_code"]
        message.status.message = row["status_message"].decode()
    for name, time_ns, body in zip(
        row["event_name"], row["event_time_local_ns"], row["event_body"], strict=True
    ):
        if body:
            message.events.append(PbSpan.Event.FromString(body))
        else:
            message.events.add(name=name.decode(), time_unix_nano=time_ns)
    return message


def _attributes(row: Mapping[str, Any]) -> list[KeyValue]:
    pairs: list[KeyValue] = []
    for key, text in row["attributes_string"].items():
        pairs.append(KeyValue(key=key.decode(), value=AnyValue(string_value=text.decode())))
    for key, number in row["attributes_int"].items():
        pairs.append(KeyValue(key=key.decode(), value=AnyValue(int_value=number)))
    for key, number in row["attributes_double"].items():
        pairs.append(KeyValue(key=key.decode(), value=AnyValue(double_value=number)))
    for key, flag in row["attributes_bool"].items():
        pairs.append(KeyValue(key=key.decode(), value=AnyValue(bool_value=flag)))
    for key, body in row["attributes_other"].items():
        pairs.append(KeyValue(key=key.decode(), value=AnyValue.FromString(body)))
    return pairs
