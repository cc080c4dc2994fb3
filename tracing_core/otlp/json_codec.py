# SPDX-License-Identifier: Apache-2.0
"""OTLP JSON to spans, and OTLP messages and attributes to JSON."""

import base64
import json
import math
from collections.abc import Iterable, Sequence

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as PbSpan

from tracing_core.model import Attributes, AttributeValue
from tracing_core.otlp.assemble import Decoded
from tracing_core.otlp.json_request import read_json, read_pairs
from tracing_core.otlp.protobuf_codec import decode_attributes, decode_message


def decode_json(body: bytes, *, tenant: str) -> Decoded:
    """Spans of an OTLP/JSON request; `tenant` applies where a resource names none."""
    request, rejections = read_json(body)
    return Decoded(spans=decode_message(request, tenant=tenant).spans, rejections=rejections)


def attributes_from_json(pairs: Sequence[object]) -> Attributes:
    """Inverse of `attributes_to_json`."""
    return decode_attributes(read_pairs(pairs))


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
