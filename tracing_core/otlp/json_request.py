# SPDX-License-Identifier: Apache-2.0
"""OTLP JSON as the protobuf message it stands for.

Differences to protobuf's own JSON mapping: ids are hex, enums are integers only, keys are
lowerCamelCase only, unknown fields are ignored (OTLP "JSON Protobuf Encoding").
"""

import base64
import binascii
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Never

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans
from opentelemetry.proto.trace.v1.trace_pb2 import Span as PbSpan

from tracing_core.otlp.assemble import (
    Rejections,
    RejectReason,
    SpanRejectedError,
    check_parent_span_id,
    check_span_id,
    check_trace_id,
    check_tstamp_ns,
)
from tracing_core.otlp.errors import RequestDecodeError

JsonObject = Mapping[str, object]

VALUE_DEPTH_MAX = 40
"""Nesting of attribute values. Each level is two messages, and protobuf's own parsers stop at
100 of them."""
UINT32_MAX = 2**32 - 1
INT32_MAX = 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UINT64_MAX = 2**64 - 1


def read_json(body: bytes) -> tuple[ExportTraceServiceRequest, Rejections]:
    """The request without its bad spans, and why those were refused."""
    try:
        item = _object(json.loads(body, parse_constant=_no_constant))
    except (ValueError, RecursionError) as error:
        raise RequestDecodeError(f"body is not JSON: {error}") from error
    request = ExportTraceServiceRequest()
    rejections = Rejections()
    try:
        for resource_spans in _objects(item, "resourceSpans"):
            _read_resource_spans(resource_spans, request.resource_spans.add(), rejections)
    except SpanRejectedError as error:  # outside of any span: the request itself is wrong
        raise RequestDecodeError(f"body is not an OTLP/JSON trace request: {error}") from error
    return request, rejections


def read_pairs(pairs: Iterable[object]) -> list[KeyValue]:
    """Attributes as messages."""
    return _pairs((_object(pair) for pair in pairs), 0)


def _read_resource_spans(item: JsonObject, message: ResourceSpans, rejections: Rejections) -> None:
    resource = _member(item, "resource")
    message.resource.attributes.extend(_attributes(resource))
    message.resource.dropped_attributes_count = _count(resource, "droppedAttributesCount")
    message.schema_url = _text(item, "schemaUrl")
    for scope_spans in _objects(item, "scopeSpans"):
        _read_scope_spans(scope_spans, message.scope_spans.add(), rejections)


def _read_scope_spans(item: JsonObject, message: ScopeSpans, rejections: Rejections) -> None:
    scope = _member(item, "scope")
    message.scope.name, message.scope.version = _text(scope, "name"), _text(scope, "version")
    message.scope.attributes.extend(_attributes(scope))
    message.scope.dropped_attributes_count = _count(scope, "droppedAttributesCount")
    message.schema_url = _text(item, "schemaUrl")
    for span in _array(item, "spans"):
        try:
            message.spans.append(_span(_object(span)))
        except SpanRejectedError as error:
            label = span.get("name", "") if isinstance(span, dict) else ""
            rejections.add(error, label if isinstance(label, str) else "")


def _span(item: JsonObject) -> PbSpan:
    trace_id = _hex(item, "traceId", RejectReason.TRACE_ID_INVALID)
    span_id = _hex(item, "spanId", RejectReason.SPAN_ID_INVALID)
    parent_span_id = _hex(item, "parentSpanId", RejectReason.PARENT_SPAN_ID_INVALID)
    check_trace_id(trace_id)
    check_span_id(span_id)
    check_parent_span_id(parent_span_id)
    message = PbSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent_span_id,
        name=_text(item, "name"),
        kind=_integer(item, "kind", 0, INT32_MAX),  # type: ignore[arg-type]  # an open enum
        start_time_unix_nano=_tstamp_ns(item, "startTimeUnixNano"),
        end_time_unix_nano=_tstamp_ns(item, "endTimeUnixNano"),
        attributes=_attributes(item),
        events=[_event(event) for event in _objects(item, "events")],
        links=[_link(link) for link in _objects(item, "links")],
        trace_state=_text(item, "traceState"),
        flags=_integer(item, "flags", 0, UINT32_MAX),
        dropped_attributes_count=_count(item, "droppedAttributesCount"),
        dropped_events_count=_count(item, "droppedEventsCount"),
        dropped_links_count=_count(item, "droppedLinksCount"),
    )
    status = _member(item, "status")
    code, text = _integer(status, "code", 0, INT32_MAX), _text(status, "message")
    if code or text:
        message.status.code = code  # type: ignore[assignment]  # an open enum
        message.status.message = text
    return message


def _event(item: JsonObject) -> PbSpan.Event:
    return PbSpan.Event(
        name=_text(item, "name"),
        time_unix_nano=_tstamp_ns(item, "timeUnixNano"),
        attributes=_attributes(item),
        dropped_attributes_count=_count(item, "droppedAttributesCount"),
    )


def _link(item: JsonObject) -> PbSpan.Link:
    trace_id = _hex(item, "traceId", RejectReason.LINK_ID_INVALID)
    span_id = _hex(item, "spanId", RejectReason.LINK_ID_INVALID)
    try:
        check_trace_id(trace_id)
    except SpanRejectedError as error:
        raise SpanRejectedError(RejectReason.LINK_ID_INVALID) from error
    check_span_id(span_id, RejectReason.LINK_ID_INVALID)
    return PbSpan.Link(
        trace_id=trace_id,
        span_id=span_id,
        trace_state=_text(item, "traceState"),
        flags=_integer(item, "flags", 0, UINT32_MAX),
        attributes=_attributes(item),
        dropped_attributes_count=_count(item, "droppedAttributesCount"),
    )


def _tstamp_ns(item: JsonObject, key: str) -> int:
    return check_tstamp_ns(_integer(item, key, 0, UINT64_MAX))


def _count(item: JsonObject, key: str) -> int:
    return _integer(item, key, 0, UINT32_MAX)


def _attributes(item: JsonObject) -> list[KeyValue]:
    return _pairs(_objects(item, "attributes"), 0)


def _pairs(pairs: Iterable[JsonObject], depth: int) -> list[KeyValue]:
    return [
        KeyValue(key=_text(pair, "key"), value=_value(_member(pair, "value"), depth))
        for pair in pairs
    ]


def _value(item: JsonObject, depth: int) -> AnyValue:
    if depth > VALUE_DEPTH_MAX:
        raise _malformed(f"attribute values nest deeper than {VALUE_DEPTH_MAX}")
    if "stringValue" in item:
        return AnyValue(string_value=_text(item, "stringValue"))
    if "intValue" in item:
        return AnyValue(int_value=_integer(item, "intValue", INT64_MIN, INT64_MAX))
    if "boolValue" in item:
        flag = item["boolValue"]
        if not isinstance(flag, bool):
            raise _malformed("boolValue is not a boolean")
        return AnyValue(bool_value=flag)
    if "doubleValue" in item:
        return AnyValue(double_value=_double(item["doubleValue"]))
    if "bytesValue" in item:
        return AnyValue(bytes_value=_base64(_text(item, "bytesValue")))
    if "arrayValue" in item:
        values = _objects(_member(item, "arrayValue"), "values")
        return AnyValue(array_value=ArrayValue(values=[_value(v, depth + 1) for v in values]))
    if "kvlistValue" in item:
        pairs = _pairs(_objects(_member(item, "kvlistValue"), "values"), depth + 1)
        return AnyValue(kvlist_value=KeyValueList(values=pairs))
    return AnyValue()


def _object(value: object) -> JsonObject:
    if not isinstance(value, dict):
        raise _malformed(f"expected an object, found {type(value).__name__}")
    return value


def _member(item: JsonObject, key: str) -> JsonObject:
    value = item.get(key)
    return {} if value is None else _object(value)


def _array(item: JsonObject, key: str) -> Sequence[object]:
    value = item.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _malformed(f"{key} is not an array")
    return value


def _objects(item: JsonObject, key: str) -> Iterable[JsonObject]:
    return (_object(value) for value in _array(item, key))


def _text(item: JsonObject, key: str) -> str:
    value = item.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _malformed(f"{key} is not a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:  # a lone surrogate: valid JSON, not valid text
            raise _malformed(f"{key} is not valid Unicode") from error
    return value


def _hex(item: JsonObject, key: str, reason: RejectReason) -> bytes:
    value = item.get(key)
    if value is None or value == "":
        return b""
    if not isinstance(value, str) or any(character.isspace() for character in value):
        raise SpanRejectedError(reason)
    try:
        return bytes.fromhex(value)
    except ValueError as error:
        raise SpanRejectedError(reason) from error


def _integer(item: JsonObject, key: str, lowest: int, highest: int) -> int:
    value = item.get(key)
    if value is None:
        return 0
    if isinstance(value, str) and len(value) <= 20 and value.isascii():
        digits = value.removeprefix("-")
        number = int(value) if digits.isdigit() else None
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        number = None
    if number is None or not lowest <= number <= highest:
        raise _malformed(f"{key} is not an integer in range")
    return number


def _double(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _finite_float(value)
    if isinstance(value, str):
        if value in ("NaN", "Infinity", "-Infinity"):
            return float(value)
        try:
            return _finite_float(float(value))
        except ValueError as error:
            raise _malformed("doubleValue is not a number") from error
    raise _malformed("doubleValue is not a number")


def _finite_float(value: float) -> float:
    try:
        number = float(value)
    except OverflowError as error:
        raise _malformed("doubleValue is out of range") from error
    if not math.isfinite(number):
        raise _malformed("doubleValue is out of range")
    return number


def _base64(text: str) -> bytes:
    padded = text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)
    try:
        return base64.b64decode(padded, validate=True)
    except binascii.Error as error:
        raise _malformed("bytesValue is not base64") from error


def _malformed(detail: str) -> SpanRejectedError:
    return SpanRejectedError(RejectReason.MALFORMED, detail)


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is not JSON")
