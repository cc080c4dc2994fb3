# SPDX-License-Identifier: Apache-2.0
"""One OTLP/HTTP body: decompression within a limit, dispatch on content type, the response."""

import json
import zlib

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from tracing_core.model import DEFAULT_TENANT
from tracing_core.otlp.assemble import Decoded, Rejections
from tracing_core.otlp.errors import (
    RequestDecodeError,
    RequestTooLargeError,
    UnsupportedEncodingError,
    UnsupportedTypeError,
)
from tracing_core.otlp.json_codec import decode_json
from tracing_core.otlp.protobuf_codec import decode_protobuf

CONTENT_TYPE_PROTOBUF = "application/x-protobuf"
CONTENT_TYPE_JSON = "application/json"
REQUEST_LIMIT_BYTES = 64 * 2**20
"""OTLP's recommended limit, before and after decompression."""


def media_type(content_type: str) -> str:
    """The media type without parameters; only OTLP's two are accepted."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in (CONTENT_TYPE_PROTOBUF, CONTENT_TYPE_JSON):
        raise UnsupportedTypeError(
            f"content type {kind or '(none)'!s:.80} is not supported:"
            f" use {CONTENT_TYPE_PROTOBUF} or {CONTENT_TYPE_JSON}"
        )
    return kind


def decompress(body: bytes, encoding: str, *, limit_bytes: int = REQUEST_LIMIT_BYTES) -> bytes:
    """Undoes the content encoding; never holds more than `limit_bytes` of output."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity", "none"):
        if len(body) > limit_bytes:
            raise RequestTooLargeError(f"request exceeds {limit_bytes} bytes")
        return body
    if encoding != "gzip":
        raise UnsupportedEncodingError(
            f"content encoding {encoding:.80} is not supported: use gzip or none"
        )
    parts: list[bytes] = []
    room_bytes = limit_bytes
    while body:  # RFC 1952: a gzip file is a series of members
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            part = member.decompress(body, room_bytes + 1)
        except zlib.error as error:
            raise RequestDecodeError(f"body is not gzip: {error}") from error
        if len(part) > room_bytes:
            raise RequestTooLargeError(f"request exceeds {limit_bytes} bytes when decompressed")
        if not member.eof:
            raise RequestDecodeError("gzip body is truncated")
        parts.append(part)
        room_bytes -= len(part)
        body = member.unused_data
    return b"".join(parts)


def decode_request(body: bytes, content_type: str, *, tenant: str = DEFAULT_TENANT) -> Decoded:
    """Spans and rejections of a decompressed body."""
    if media_type(content_type) == CONTENT_TYPE_JSON:
        return decode_json(body, tenant=tenant)
    return decode_protobuf(body, tenant=tenant)


def encode_response(rejections: Rejections, content_type: str) -> bytes:
    """The success response; `partial_success` is set only when a span was rejected."""
    rejected_count = rejections.total_count
    message = rejections.message() if rejected_count else ""
    if media_type(content_type) == CONTENT_TYPE_JSON:
        body: dict[str, object] = {}
        if rejected_count:
            body["partialSuccess"] = {"rejectedSpans": str(rejected_count), "errorMessage": message}
        return json.dumps(body, allow_nan=False).encode()
    response = ExportTraceServiceResponse()
    if rejected_count:
        response.partial_success.CopyFrom(
            ExportTracePartialSuccess(rejected_spans=rejected_count, error_message=message)
        )
    return response.SerializeToString()
