# SPDX-License-Identifier: Apache-2.0
"""OTLP/HTTP: POST /v1/traces. Spans are stored before the request is acknowledged."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import structlog
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from tracing_core import otlp
from tracing_core.model import DEFAULT_TENANT, Span
from tracing_core.store import StoreClosedError, StoreError

CONCURRENT_REQUESTS_MAX = 16
"""Requests decoded or stored at a time; each may hold twice the request limit in memory."""
RETRY_AFTER_S = 1
"""Told to a client that met a full or closed store; SDKs add their own back-off."""

_log = structlog.get_logger(__name__)


class SpanSink(Protocol):
    """Where accepted spans go; when `append` returns they are as safe as the sink makes them."""

    def append(self, spans: Sequence[Span]) -> None:
        """Keeps the spans."""


@dataclass(slots=True, kw_only=True)
class IngestCounters:
    """What came in since the service started."""

    request_count: int = 0
    accepted_count: int = 0
    rejected_count: int = 0


class Ingest:
    """Takes OTLP bodies and hands their spans to the sink."""

    def __init__(self, sink: SpanSink, *, limit_bytes: int = otlp.REQUEST_LIMIT_BYTES) -> None:
        self._sink = sink
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._running_count = 0
        self.counters = IngestCounters()

    def router(self) -> APIRouter:
        """The OTLP route; it may be mounted on a port of its own."""
        router = APIRouter(tags=["OTLP"])
        router.add_api_route(
            "/v1/traces",
            self._post,
            methods=["POST"],
            summary="Take spans in OTLP/HTTP (protobuf or JSON, optionally gzip)",
            response_class=Response,
            openapi_extra={
                "requestBody": {
                    "required": True,
                    "content": {
                        otlp.CONTENT_TYPE_PROTOBUF: {
                            "schema": {"type": "string", "format": "binary"}
                        },
                        otlp.CONTENT_TYPE_JSON: {
                            "schema": {"type": "object"},
                            "example": OTLP_JSON_EXAMPLE,
                        },
                    },
                }
            },
        )
        return router

    async def _post(self, request: Request) -> Response:
        content_type = request.headers.get("content-type", "")
        as_json = content_type.partition(";")[0].strip().lower() == otlp.CONTENT_TYPE_JSON
        try:
            otlp.media_type(content_type)
            body = await self._read(request)
        except otlp.RequestDecodeError as error:
            return _error(error, as_json=as_json)
        with self._lock:
            full = self._running_count >= CONCURRENT_REQUESTS_MAX
            self._running_count += not full
        if full:
            return _unavailable("too many requests at a time", as_json=as_json)
        try:
            encoding = request.headers.get("content-encoding", "")
            return await run_in_threadpool(self._take, body, encoding, content_type, as_json)
        finally:
            with self._lock:
                self._running_count -= 1

    async def _read(self, request: Request) -> bytes:
        parts: list[bytes] = []
        size_bytes = 0
        async for part in request.stream():
            size_bytes += len(part)
            if size_bytes > self._limit_bytes:
                raise otlp.RequestTooLargeError(f"request exceeds {self._limit_bytes} bytes")
            parts.append(part)
        return b"".join(parts)

    def _take(self, body: bytes, encoding: str, content_type: str, as_json: bool) -> Response:
        try:
            plain = otlp.decompress(body, encoding, limit_bytes=self._limit_bytes)
            decoded = otlp.decode_request(plain, content_type, tenant=DEFAULT_TENANT)
        except otlp.RequestDecodeError as error:
            return _error(error, as_json=as_json)
        try:
            self._sink.append(decoded.spans)
        except (StoreClosedError, StoreError) as error:
            _log.error("otlp_spans_not_stored", error=str(error))
            return _unavailable("the store does not take spans now", as_json=as_json)
        with self._lock:
            self.counters.request_count += 1
            self.counters.accepted_count += len(decoded.spans)
            self.counters.rejected_count += decoded.rejections.total_count
        if decoded.rejections.total_count:
            _log.warning("otlp_spans_rejected", message=decoded.rejections.message())
        media = otlp.media_type(content_type)
        return Response(otlp.encode_response(decoded.rejections, content_type), media_type=media)


def _error(error: otlp.RequestDecodeError, *, as_json: bool) -> Response:
    match error:
        case otlp.RequestTooLargeError():
            status, code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, otlp.StatusCode.RESOURCE_EXHAUSTED
        case otlp.UnsupportedTypeError() | otlp.UnsupportedEncodingError():
            status, code = HTTPStatus.UNSUPPORTED_MEDIA_TYPE, otlp.StatusCode.INVALID_ARGUMENT
        case _:
            status, code = HTTPStatus.BAD_REQUEST, otlp.StatusCode.INVALID_ARGUMENT
    return _status_response(status, code, str(error), as_json=as_json)


def _unavailable(message: str, *, as_json: bool) -> Response:
    response = _status_response(
        HTTPStatus.SERVICE_UNAVAILABLE, otlp.StatusCode.UNAVAILABLE, message, as_json=as_json
    )
    response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def _status_response(
    status: HTTPStatus, code: otlp.StatusCode, message: str, *, as_json: bool
) -> Response:
    return Response(
        otlp.encode_status(code, message, as_json=as_json),
        status_code=status,
        media_type=otlp.CONTENT_TYPE_JSON if as_json else otlp.CONTENT_TYPE_PROTOBUF,
    )


OTLP_JSON_EXAMPLE = {
    "resourceSpans": [
        {
            "resource": {
                "attributes": [
                    {"key": "service.name", "value": {"stringValue": "trainer"}},
                    {"key": "host.name", "value": {"stringValue": "h3"}},
                    {"key": "tempotrace.clock.domain", "value": {"stringValue": "h3"}},
                    {"key": "tempotrace.tenant", "value": {"stringValue": "alpha"}},
                ]
            },
            "scopeSpans": [
                {
                    "scope": {"name": "example"},
                    "spans": [
                        {
                            "traceId": "5b8efff798038103d269b633813fc60c",
                            "spanId": "eee19b7ec3c1b174",
                            "name": "step",
                            "kind": 1,
                            "startTimeUnixNano": "1800000000000000000",
                            "endTimeUnixNano": "1800000000000250000",
                            "attributes": [{"key": "tempotrace.step", "value": {"intValue": "12"}}],
                        }
                    ],
                }
            ],
        }
    ]
}
