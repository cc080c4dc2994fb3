# SPDX-License-Identifier: Apache-2.0
"""OTLP/HTTP: POST /v1/traces, in front of everything else, since it takes most requests.

A plain ASGI application: a framework's request and response objects would cost more than checking
and logging the spans does.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from fastapi import APIRouter, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tracing_core import otlp
from tracing_core.access import Need, Refusal, RefusalKind
from tracing_core.ingest import BusyError
from tracing_core.service.ingest import Ingest
from tracing_core.service.otlp_example import OTLP_JSON

TRACES_PATH = "/v1/traces"

_Header = tuple[bytes, bytes]
Answer = tuple[int, list[_Header], bytes]
"""Status, headers and body."""


SLOW_S = 30.0
"""Time that a request may take to come, and beyond it a second for each of these bytes."""
BYTES_PER_S_MIN = 64 * 2**10


class _SlowSenderError(RuntimeError):
    """The request came so slowly that others should have its room."""


class _DisconnectedError(RuntimeError):
    """The sender went away before its request was complete."""


class OtlpFront:
    """Answers OTLP requests, and hands all others to the application behind it."""

    def __init__(self, app: ASGIApp, ingest: Ingest) -> None:
        self._app = app
        self._ingest = ingest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != TRACES_PATH:
            await self._app(scope, receive, send)
            return
        try:
            status, headers, body = await _answer_scope(self._ingest, scope, receive)
        except _DisconnectedError:
            return
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def answer(
    ingest: Ingest, headers: Mapping[bytes, bytes], body: bytes, *, tenant: str
) -> Answer:
    """Status, headers and body for one request; the names of its headers are lower case.

    `tenant` is that of the sender's token, empty for an operator's.
    """
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    encoding = headers.get(b"content-encoding", b"").decode("latin-1")
    as_json = sends_json(headers)
    try:
        media = otlp.media_type(content_type)
        rejections = await ingest.take(body, content_type, encoding, tenant=tenant)
    except otlp.RequestDecodeError as error:
        return refused(error, as_json=as_json)
    except BusyError as error:
        return busy(error, as_json=as_json)
    response = otlp.encode_response(rejections, content_type)
    return HTTPStatus.OK, [(b"content-type", media.encode())], response


def sends_json(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the request is in JSON, so that its answer must be."""
    media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return media.decode("latin-1") == otlp.CONTENT_TYPE_JSON


async def _answer_scope(ingest: Ingest, scope: Scope, receive: Receive) -> Answer:
    headers = dict(scope["headers"])
    as_json = sends_json(headers)
    sender = ingest.gate.decide(authorization_of(headers), Need.INGEST)
    if isinstance(sender, Refusal):
        return denied(sender, as_json=as_json)
    try:
        with ingest.room(_declared_size(headers, ingest.limit_bytes)):
            body = await _read(receive, ingest.limit_bytes)
            return await answer(ingest, headers, body, tenant=sender.tenant)
    except otlp.RequestDecodeError as error:
        return refused(error, as_json=as_json)
    except BusyError as error:
        return busy(error, as_json=as_json)
    except _SlowSenderError:
        return too_slow(as_json=as_json)


def _declared_size(headers: Mapping[bytes, bytes], limit_bytes: int) -> int:
    """Size of the body by its header; a body without one may have all that is allowed."""
    text = headers.get(b"content-length", b"")
    size = int(text) if text.isdigit() else limit_bytes
    if size > limit_bytes:
        raise otlp.RequestTooLargeError(f"request exceeds {limit_bytes} bytes")
    return size


async def _read(receive: Receive, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    size_bytes = 0
    begin_s = asyncio.get_running_loop().time()
    while True:
        try:
            async with asyncio.timeout_at(begin_s + SLOW_S + size_bytes / BYTES_PER_S_MIN):
                message = await receive()
        except TimeoutError:
            raise _SlowSenderError from None
        if message["type"] == "http.disconnect":
            raise _DisconnectedError
        part = message.get("body", b"")
        size_bytes += len(part)
        if size_bytes > limit_bytes:
            raise otlp.RequestTooLargeError(f"request exceeds {limit_bytes} bytes")
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def refused(error: otlp.RequestDecodeError, *, as_json: bool) -> Answer:
    """4xx: what is wrong with the request; the sender must not repeat it."""
    match error:
        case otlp.RequestTooLargeError():
            status, code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, otlp.StatusCode.RESOURCE_EXHAUSTED
        case otlp.UnsupportedTypeError() | otlp.UnsupportedEncodingError():
            status, code = HTTPStatus.UNSUPPORTED_MEDIA_TYPE, otlp.StatusCode.INVALID_ARGUMENT
        case _:
            status, code = HTTPStatus.BAD_REQUEST, otlp.StatusCode.INVALID_ARGUMENT
    return status, [_type(as_json)], otlp.encode_status(code, str(error), as_json=as_json)


def authorization_of(headers: Mapping[bytes, bytes]) -> str:
    """The Authorization header."""
    return headers.get(b"authorization", b"").decode("latin-1")


_DENIED = {
    RefusalKind.NO_TOKEN: (HTTPStatus.UNAUTHORIZED, otlp.StatusCode.UNAUTHENTICATED),
    RefusalKind.BAD_TOKEN: (HTTPStatus.UNAUTHORIZED, otlp.StatusCode.UNAUTHENTICATED),
    RefusalKind.FORBIDDEN: (HTTPStatus.FORBIDDEN, otlp.StatusCode.PERMISSION_DENIED),
    RefusalKind.NOT_NOW: (HTTPStatus.SERVICE_UNAVAILABLE, otlp.StatusCode.UNAVAILABLE),
}


def denied(refusal: Refusal, *, as_json: bool) -> Answer:
    """401 or 403: the sender has no token, or none that may; 503 if the tokens are not known."""
    status, code = _DENIED[refusal.kind]
    headers = [_type(as_json)]
    if refusal.challenge:
        headers.append((b"www-authenticate", refusal.challenge.encode()))
    return status, headers, otlp.encode_status(code, refusal.message, as_json=as_json)


def busy(error: BusyError, *, as_json: bool) -> Answer:
    """429 when senders are too fast, 503 when the service itself has no room."""
    status = HTTPStatus.TOO_MANY_REQUESTS if error.overloaded else HTTPStatus.SERVICE_UNAVAILABLE
    body = otlp.encode_status(
        otlp.StatusCode.UNAVAILABLE,
        str(error),
        as_json=as_json,
        retry_after_s=error.retry_after_s,
    )
    after = b"%d" % max(1, math.ceil(error.retry_after_s))
    return status, [_type(as_json), (b"retry-after", after)], body


def too_slow(*, as_json: bool) -> Answer:
    """408: the request did not come in the time that its size allows."""
    text = "the request came too slowly"
    body = otlp.encode_status(otlp.StatusCode.DEADLINE_EXCEEDED, text, as_json=as_json)
    return HTTPStatus.REQUEST_TIMEOUT, [_type(as_json)], body


def failed(*, as_json: bool) -> Answer:
    """500: a fault of ours, which a repetition would meet again."""
    text = "the service failed to take the request"
    body = otlp.encode_status(otlp.StatusCode.INTERNAL, text, as_json=as_json)
    return HTTPStatus.INTERNAL_SERVER_ERROR, [_type(as_json)], body


def _type(as_json: bool) -> _Header:
    media = otlp.CONTENT_TYPE_JSON if as_json else otlp.CONTENT_TYPE_PROTOBUF
    return b"content-type", media.encode()


def otlp_router(ingest: Ingest) -> APIRouter:
    """The same route for the OpenAPI document; `OtlpFront` answers before it."""
    router = APIRouter(tags=["OTLP"])

    async def post(request: Request) -> Response:
        status, headers, body = await _answer_scope(ingest, request.scope, request.receive)
        return Response(body, status, {name.decode(): value.decode() for name, value in headers})

    endpoint: Callable[[Request], Awaitable[Response]] = post
    router.add_api_route(
        TRACES_PATH,
        endpoint,
        methods=["POST"],
        summary="Take spans in OTLP/HTTP (protobuf or JSON, optionally gzip)",
        response_class=Response,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    otlp.CONTENT_TYPE_PROTOBUF: {"schema": {"type": "string", "format": "binary"}},
                    otlp.CONTENT_TYPE_JSON: {"schema": {"type": "object"}, "example": OTLP_JSON},
                },
            }
        },
    )
    return router
