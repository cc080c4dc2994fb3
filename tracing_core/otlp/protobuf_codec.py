# SPDX-License-Identifier: Apache-2.0
"""OTLP protobuf to spans."""

from collections.abc import Iterable

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as PbSpan

from tracing_core.model import Attributes, AttributeValue, Span, SpanEvent, SpanLink
from tracing_core.otlp.assemble import (
    Decoded,
    Rejections,
    RejectReason,
    ResourceContext,
    SpanRejectedError,
    check_parent_span_id,
    check_span_id,
    check_trace_id,
    check_tstamp_ns,
    resource_context,
    span_kind,
)
from tracing_core.otlp.errors import RequestDecodeError


def decode_protobuf(body: bytes, *, tenant: str) -> Decoded:
    """Spans of an ExportTraceServiceRequest; `tenant` applies where a resource names none."""
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise RequestDecodeError(f"body is not an ExportTraceServiceRequest: {error}") from error
    return decode_message(request, tenant=tenant)


def decode_message(request: ExportTraceServiceRequest, *, tenant: str) -> Decoded:
    """Spans of a parsed request."""
    spans: list[Span] = []
    rejections = Rejections()
    for resource_spans in request.resource_spans:
        resource = resource_context(decode_attributes(resource_spans.resource.attributes), tenant)
        for scope_spans in resource_spans.scope_spans:
            scope = scope_spans.scope
            for message in scope_spans.spans:
                try:
                    spans.append(decode_span(message, resource, scope.name, scope.version))
                except SpanRejectedError as error:
                    rejections.add(error, message.name)
    return Decoded(spans=spans, rejections=rejections)


def check_span(message: PbSpan) -> None:
    """Raises `SpanRejectedError` for a span that `decode_span` refuses."""
    check_trace_id(message.trace_id)
    check_span_id(message.span_id)
    check_parent_span_id(message.parent_span_id)
    check_tstamp_ns(message.start_time_unix_nano)
    check_tstamp_ns(message.end_time_unix_nano)
    for event in message.events:
        check_tstamp_ns(event.time_unix_nano)
    for link in message.links:
        _check_link(link)


def _check_link(link: PbSpan.Link) -> None:
    try:
        check_trace_id(link.trace_id)
    except SpanRejectedError as error:
        raise SpanRejectedError(RejectReason.LINK_ID_INVALID) from error
    check_span_id(link.span_id, RejectReason.LINK_ID_INVALID)


def decode_span(
    message: PbSpan, resource: ResourceContext, scope_name: str, scope_version: str
) -> Span:
    """One span, or `SpanRejectedError` with the reason."""
    return Span(
        tenant=resource.tenant,
        trace_id=check_trace_id(message.trace_id),
        span_id=check_span_id(message.span_id),
        parent_span_id=check_parent_span_id(message.parent_span_id),
        name=message.name,
        kind=span_kind(message.kind),
        start_local_ns=check_tstamp_ns(message.start_time_unix_nano),
        end_local_ns=check_tstamp_ns(message.end_time_unix_nano),
        clock_domain=resource.clock_domain,
        host=resource.host,
        service=resource.service,
        attributes=decode_attributes(message.attributes),
        events=tuple(
            SpanEvent(
                name=event.name,
                time_local_ns=check_tstamp_ns(event.time_unix_nano),
                attributes=decode_attributes(event.attributes),
            )
            for event in message.events
        ),
        links=tuple(_link(link) for link in message.links),
        resource=resource.attributes,
        scope_name=scope_name,
        scope_version=scope_version,
        status_code=message.status.code,
        status_message=message.status.message,
        trace_state=message.trace_state,
        flags=message.flags,
    )


def _link(link: PbSpan.Link) -> SpanLink:
    _check_link(link)
    return SpanLink(
        trace_id=link.trace_id.hex(),
        span_id=link.span_id.hex(),
        trace_state=link.trace_state,
        flags=link.flags,
        attributes=decode_attributes(link.attributes),
    )


def decode_attributes(pairs: Iterable[KeyValue]) -> Attributes:
    """Attributes by key; of a key that comes twice, which OTLP forbids, the last one."""
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> AttributeValue:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "int_value":
            return value.int_value
        case "bool_value":
            return value.bool_value
        case "double_value":
            return value.double_value
        case "bytes_value":
            return value.bytes_value
        case "array_value":
            return tuple(_value(item) for item in value.array_value.values)
        case "kvlist_value":
            return {pair.key: _value(pair.value) for pair in value.kvlist_value.values}
        case _:
            return None
