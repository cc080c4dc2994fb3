# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a whole OTLP request."""


class RequestDecodeError(ValueError):
    """The body is not an OTLP trace request: HTTP 400, not retryable."""


class RequestTooLargeError(RequestDecodeError):
    """The body exceeds the limit, before or after decompression: HTTP 413."""


class UnsupportedTypeError(RequestDecodeError):
    """The content type is neither OTLP protobuf nor OTLP JSON: HTTP 415."""


class UnsupportedEncodingError(RequestDecodeError):
    """The content encoding is neither gzip nor identity: HTTP 415."""
