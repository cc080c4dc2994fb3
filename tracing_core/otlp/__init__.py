# SPDX-License-Identifier: Apache-2.0
"""OTLP trace requests: bytes in, spans and rejections out; no I/O.

Rules: OTLP 1.x specification, "OTLP/HTTP", "Partial Success" and "JSON Protobuf Encoding".
"""

from tracing_core.otlp.admit import Admitted, admit
from tracing_core.otlp.assemble import Decoded, RejectReason, SpanRejectedError
from tracing_core.otlp.body import (
    CONTENT_TYPE_JSON,
    CONTENT_TYPE_PROTOBUF,
    REQUEST_LIMIT_BYTES,
    decode_request,
    decompress,
    encode_response,
    media_type,
)
from tracing_core.otlp.errors import (
    RequestDecodeError,
    RequestTooLargeError,
    UnsupportedEncodingError,
    UnsupportedTypeError,
)
from tracing_core.otlp.json_codec import attributes_to_json, request_to_json
from tracing_core.otlp.status import StatusCode, decode_status, encode_status
from tracing_core.otlp.tenants import only_of_tenant

__all__ = [
    "CONTENT_TYPE_JSON",
    "CONTENT_TYPE_PROTOBUF",
    "REQUEST_LIMIT_BYTES",
    "Admitted",
    "Decoded",
    "RejectReason",
    "RequestDecodeError",
    "RequestTooLargeError",
    "SpanRejectedError",
    "StatusCode",
    "UnsupportedEncodingError",
    "UnsupportedTypeError",
    "admit",
    "attributes_to_json",
    "decode_request",
    "decode_status",
    "decompress",
    "encode_response",
    "encode_status",
    "media_type",
    "only_of_tenant",
    "request_to_json",
]
