# SPDX-License-Identifier: Apache-2.0
"""Spans as OTLP protobuf requests; the inverse of `protobuf_codec`."""

from collections.abc import Iterable, Mapping

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as PbSpan

from tracing_core.model import (
    DEFAULT_TENANT,
    RESOURCE_CLOCK_DOMAIN,
    RESOURCE_HOST,
    RESOURCE_SERVICE,
    RESOURCE_TENANT,
    Attributes,
    AttributeValue,
    Span,
)


def encode_spans(spans: Iterable[Span]) -> ExportTraceServiceRequest:
    """One request; spans that share a resource object and a scope stand together.

    Tenant, clock, host and service of a span stand in its resource, as a receiver looks for them.
    """
    request = ExportTraceServiceRequest()
    scopes: dict[tuple[object, ...], ScopeSpans] = {}
    owners: dict[tuple[object, ...], ResourceSpans] = {}
    for span in spans:
        owner_key = (id(span.resource), span.tenant, span.clock_domain, span.host, span.service)
        key = (*owner_key, span.scope_name, span.scope_version)
        scope = scopes.get(key)
        if scope is None:
            owner = owners.get(owner_key)
            if owner is None:
                owner = owners[owner_key] = request.resource_spans.add()
                owner.resource.attributes.extend(key_values(_owner(span)))
            scope = scopes[key] = owner.scope_spans.add()
            scope.scope.name, scope.scope.version = span.scope_name, span.scope_version
        _fill(scope.spans.add(), span)
    return request


def _owner(span: Span) -> Attributes:
    """The span's resource, with what the span says of itself and the resource does not."""
    known = {
        RESOURCE_SERVICE: span.service,
        RESOURCE_HOST: span.host,
        RESOURCE_CLOCK_DOMAIN: span.clock_domain,
        RESOURCE_TENANT: "" if span.tenant == DEFAULT_TENANT else span.tenant,
    }
    missing = {k: v for k, v in known.items() if v and k not in span.resource}
    return {**span.resource, **missing} if missing else span.resource


def key_values(attributes: Mapping[str, AttributeValue]) -> list[KeyValue]:
    """Attributes as messages, in their order."""
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def any_value(value: AttributeValue) -> AnyValue:
    """A value as OTLP's AnyValue."""
    match value:
        case None:
            return AnyValue()
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case bytes():
            return AnyValue(bytes_value=value)
        case tuple():
            return AnyValue(array_value=ArrayValue(values=[any_value(item) for item in value]))
        case _:
            return AnyValue(kvlist_value=KeyValueList(values=key_values(value)))


def _fill(message: PbSpan, span: Span) -> None:
    message.trace_id = bytes.fromhex(span.trace_id)
    message.span_id = bytes.fromhex(span.span_id)
    message.parent_span_id = bytes.fromhex(span.parent_span_id)
    message.name = span.name
    message.kind = int(span.kind)  # type: ignore[assignment]  # an open enum is an int
    message.start_time_unix_nano = span.start_local_ns
    message.end_time_unix_nano = span.end_local_ns
    message.trace_state = span.trace_state
    message.flags = span.flags
    message.attributes.extend(key_values(span.attributes))
    for event in span.events:
        item = message.events.add(name=event.name, time_unix_nano=event.time_local_ns)
        item.attributes.extend(key_values(event.attributes))
    for link in span.links:
        other = message.links.add(
            trace_id=bytes.fromhex(link.trace_id),
            span_id=bytes.fromhex(link.span_id),
            trace_state=link.trace_state,
            flags=link.flags,
        )
        other.attributes.extend(key_values(link.attributes))
    if span.status_code or span.status_message:
        message.status.code = span.status_code  # type: ignore[assignment]  # an open enum
        message.status.message = span.status_message
