# SPDX-License-Identifier: Apache-2.0
"""OTLP JSON to spans, and OTLP messages and attributes to JSON.

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

JsonObject = Mapping[str, object]

VALUE_DEPTH_MAX = 64
"""Nesting of attribute values; protobuf's own parser stops at 100 messages."""
UINT32_MAX = 2**32 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def decode_json(body: bytes, *, tenant: str) -> Decoded:
    """Spans of an OTLP/JSON request; `tenant` applies where a resource names none."""
    try:
        request = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RequestDecodeError(f"body is not JSON: {error}") from error
    spans: list[Span] = []
    rejections = Rejections()
    try:
        for resource_spans in _objects(_object(request), "resourceSpans"):
            resource = resource_context(_attributes(_member(resource_spans, "resource")), tenant)
            for scope_spans in _objects(resource_spans, "scopeSpans"):
                scope = _member(scope_spans, "scope")
                _decode_scope(scope_spans, scope, resource, spans, rejections)
    except SpanRejectedError as error:  # outside of any span: the request itself is wrong
        raise RequestDecodeError(f"body is not an OTLP/JSON trace request: {error}") from error
    return Decoded(spans=spans, rejections=rejections)


def _decode_scope(
    scope_spans: JsonObject,
    scope: JsonObject,
    resource: ResourceContext,
    spans: list[Span],
    rejections: Rejections,
) -> None:
    name, version = _text(scope, "name"), _text(scope, "version")
    for item in _array(scope_spans, "spans"):
        try:
            spans.append(_span(_object(item), resource, name, version))
        except SpanRejectedError as error:
            label = item.get("name", "") if isinstance(item, dict) else ""
            rejections.add(error, label if isinstance(label, str) else "")


def _span(item: JsonObject, resource: ResourceContext, scope_name: str, scope_version: str) -> Span:
    status = _member(item, "status")
    return Span(
        tenant=resource.tenant,
        trace_id=check_trace_id(_hex(item, "traceId", RejectReason.TRACE_ID_INVALID)),
        span_id=check_span_id(_hex(item, "spanId", RejectReason.SPAN_ID_INVALID)),
        parent_span_id=check_parent_span_id(
            _hex(item, "parentSpanId", RejectReason.PARENT_SPAN_ID_INVALID)
        ),
        name=_text(item, "name"),
        kind=span_kind(_integer(item, "kind", 0, 2**31 - 1)),
        start_local_ns=check_tstamp_ns(_integer(item, "startTimeUnixNano", 0, 2**64 - 1)),
        end_local_ns=check_tstamp_ns(_integer(item, "endTimeUnixNano", 0, 2**64 - 1)),
        clock_domain=resource.clock_domain,
        host=resource.host,
        service=resource.service,
        attributes=_attributes(item),
        events=tuple(
            SpanEvent(
                name=_text(event, "name"),
                time_local_ns=check_tstamp_ns(_integer(event, "timeUnixNano", 0, 2**64 - 1)),
                attributes=_attributes(event),
            )
            for event in _objects(item, "events")
        ),
        links=tuple(_link(link) for link in _objects(item, "links")),
        resource=resource.attributes,
        scope_name=scope_name,
        scope_version=scope_version,
        status_code=_integer(status, "code", 0, 2**31 - 1),
        status_message=_text(status, "message"),
        trace_state=_text(item, "traceState"),
        flags=_integer(item, "flags", 0, UINT32_MAX),
    )


def _link(item: JsonObject) -> SpanLink:
    try:
        trace_id = check_trace_id(_hex(item, "traceId", RejectReason.LINK_ID_INVALID))
    except SpanRejectedError as error:
        raise SpanRejectedError(RejectReason.LINK_ID_INVALID) from error
    return SpanLink(
        trace_id=trace_id,
        span_id=check_span_id(
            _hex(item, "spanId", RejectReason.LINK_ID_INVALID), RejectReason.LINK_ID_INVALID
        ),
        trace_state=_text(item, "traceState"),
        flags=_integer(item, "flags", 0, UINT32_MAX),
        attributes=_attributes(item),
    )


def _attributes(item: JsonObject) -> Attributes:
    return _pairs(_objects(item, "attributes"), 0)


def _pairs(pairs: Iterable[JsonObject], depth: int) -> dict[str, AttributeValue]:
    return {_text(pair, "key"): _value(_member(pair, "value"), depth) for pair in pairs}


def _value(item: JsonObject, depth: int) -> AttributeValue:
    if depth > VALUE_DEPTH_MAX:
        raise _malformed(f"attribute values nest deeper than {VALUE_DEPTH_MAX}")
    if "stringValue" in item:
        return _text(item, "stringValue")
    if "intValue" in item:
        return _integer(item, "intValue", INT64_MIN, INT64_MAX)
    if "boolValue" in item:
        flag = item["boolValue"]
        if not isinstance(flag, bool):
            raise _malformed("boolValue is not a boolean")
        return flag
    if "doubleValue" in item:
        return _double(item["doubleValue"])
    if "bytesValue" in item:
        return _base64(_text(item, "bytesValue"))
    if "arrayValue" in item:
        values = _objects(_member(item, "arrayValue"), "values")
        return tuple(_value(value, depth + 1) for value in values)
    if "kvlistValue" in item:
        return _pairs(_objects(_member(item, "kvlistValue"), "values"), depth + 1)
    return None


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


# ---- to JSON ----


def attributes_to_json(attributes: Attributes) -> list[dict[str, object]]:
    """Attributes as OTLP/JSON key-value pairs, in their order."""
    return [{"key": key, "value": _value_to_json(value)} for key, value in attributes.items()]


def _value_to_json(value: AttributeValue) -> dict[str, object]:
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case str():
            return {"stringValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": _double_to_json(value)}
        case bytes():
            return {"bytesValue": base64.b64encode(value).decode()}
        case tuple():
            return {"arrayValue": {"values": [_value_to_json(item) for item in value]}}
        case _:
            return {"kvlistValue": {"values": attributes_to_json(value)}}


def attributes_from_json(pairs: Sequence[object]) -> dict[str, AttributeValue]:
    """Inverse of `attributes_to_json`."""
    return _pairs((_object(pair) for pair in pairs), 0)


def _double_to_json(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def request_to_json(request: ExportTraceServiceRequest) -> str:
    """A protobuf request as one line of OTLP/JSON, the same bytes for the same request."""
    body = {
        "resourceSpans": [
            {
                "resource": {"attributes": _pb_pairs(resource_spans.resource.attributes)},
                "scopeSpans": [
                    {
                        "scope": {
                            "name": scope_spans.scope.name,
                            "version": scope_spans.scope.version,
                        },
                        "spans": [_pb_span(span) for span in scope_spans.spans],
                    }
                    for scope_spans in resource_spans.scope_spans
                ],
            }
            for resource_spans in request.resource_spans
        ]
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _pb_span(span: PbSpan) -> dict[str, object]:
    item: dict[str, object] = {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano),
        "flags": span.flags,
    }
    if span.parent_span_id:
        item["parentSpanId"] = span.parent_span_id.hex()
    if span.trace_state:
        item["traceState"] = span.trace_state
    if span.attributes:
        item["attributes"] = _pb_pairs(span.attributes)
    if span.events:
        item["events"] = [
            {
                "timeUnixNano": str(event.time_unix_nano),
                "name": event.name,
                "attributes": _pb_pairs(event.attributes),
            }
            for event in span.events
        ]
    if span.links:
        item["links"] = [
            {
                "traceId": link.trace_id.hex(),
                "spanId": link.span_id.hex(),
                "traceState": link.trace_state,
                "flags": link.flags,
                "attributes": _pb_pairs(link.attributes),
            }
            for link in span.links
        ]
    if span.status.code or span.status.message:
        item["status"] = {"code": span.status.code, "message": span.status.message}
    return item


def _pb_pairs(pairs: Iterable[KeyValue]) -> list[dict[str, object]]:
    return [{"key": pair.key, "value": _pb_value(pair.value)} for pair in pairs]


def _pb_value(value: AnyValue) -> dict[str, object]:
    match value.WhichOneof("value"):
        case "string_value":
            return {"stringValue": value.string_value}
        case "int_value":
            return {"intValue": str(value.int_value)}
        case "bool_value":
            return {"boolValue": value.bool_value}
        case "double_value":
            return {"doubleValue": _double_to_json(value.double_value)}
        case "bytes_value":
            return {"bytesValue": base64.b64encode(value.bytes_value).decode()}
        case "array_value":
            return {"arrayValue": {"values": [_pb_value(v) for v in value.array_value.values]}}
        case "kvlist_value":
            return {"kvlistValue": {"values": _pb_pairs(value.kvlist_value.values)}}
        case _:
            return {}
