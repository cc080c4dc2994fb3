# SPDX-License-Identifier: Apache-2.0
"""What of a request is kept: its bytes, if they are canonical and every span is valid.

Anything else is read as protobuf objects: bad spans are taken out, each with its reason, and what
is left is written again.
"""

from dataclasses import dataclass

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracing_core.otlp.assemble import Rejections, SpanRejectedError
from tracing_core.otlp.body import CONTENT_TYPE_JSON, media_type
from tracing_core.otlp.errors import RequestDecodeError
from tracing_core.otlp.json_request import read_json
from tracing_core.otlp.protobuf_codec import check_span
from tracing_core.otlp.wire_check import NOT_CANONICAL, count_canonical_spans


@dataclass(frozen=True, slots=True)
class Admitted:
    """A canonical protobuf request with valid spans only."""

    body: bytes
    span_count: int
    rejections: Rejections


def admit(body: bytes, content_type: str) -> Admitted:
    """A decompressed body as it is stored; `RequestDecodeError` if it is no trace request."""
    if media_type(content_type) == CONTENT_TYPE_JSON:
        request, rejections = read_json(body)
        return rewritten(request, rejections)
    span_count = count_canonical_spans(body)
    if span_count != NOT_CANONICAL:
        return Admitted(body, span_count, Rejections())
    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise RequestDecodeError(f"body is not an ExportTraceServiceRequest: {error}") from error
    request.DiscardUnknownFields()
    return rewritten(request, _take_out_bad_spans(request))


def _take_out_bad_spans(request: ExportTraceServiceRequest) -> Rejections:
    rejections = Rejections()
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            bad = []
            for number, span in enumerate(scope_spans.spans):
                try:
                    check_span(span)
                except SpanRejectedError as error:
                    rejections.add(error, span.name)
                    bad.append(number)
            for number in reversed(bad):
                del scope_spans.spans[number]
    return rejections


def rewritten(request: ExportTraceServiceRequest, rejections: Rejections) -> Admitted:
    """What is kept of a request that spans were taken out of."""
    body = request.SerializeToString()
    span_count = count_canonical_spans(body)
    if span_count == NOT_CANONICAL:
        raise RequestDecodeError(
            "the request has values that a trace must not have: nested too deep, or indices into"
            " a string table"
        )
    return Admitted(body, span_count, rejections)
