# SPDX-License-Identifier: Apache-2.0
"""One HTTP/1.1 connection of the OTLP port: requests one after the other (RFC 9112)."""

import asyncio
import time
from contextlib import ExitStack
from email.utils import formatdate
from http import HTTPStatus

import httptools
import structlog

from tracing_core import otlp
from tracing_core.access import Need, Refusal
from tracing_core.ingest import BusyError
from tracing_core.service.ingest import Ingest
from tracing_core.service.otlp_http import (
    BYTES_PER_S_MIN,
    SLOW_S,
    TRACES_PATH,
    Answer,
    answer,
    authorization_of,
    busy,
    denied,
    failed,
    refused,
    sends_json,
    too_slow,
)

HEAD_BYTES_MAX = 64 * 2**10
"""Request line and headers, and what may come early of the next request."""
CONNECTIONS_MAX = 1000
"""Open at a time; some more get an answer before they are closed."""
LINGER_S = 5.0
"""Time that a sender has to read the last answer and to stop sending."""

_log = structlog.get_logger(__name__)

_RECEIVE_BYTES = 256 * 2**10
_HEAD_RECEIVE_BYTES = 4 * 2**10
_HEAD_END = b"\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class _Head:
    """The head of a request, and its body if that comes in chunks; filled by httptools."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._parser = httptools.HttpRequestParser(self)
        self.target = b""
        self.headers: dict[bytes, bytes] = {}
        self.tenant = ""
        """Of the sender's token; empty for an operator's."""
        self.chunks: list[bytes] = []
        self.size_bytes = 0
        self.messages = 0
        """Complete ones."""

    def feed(self, data: bytes) -> None:
        """Parses; raises httptools.HttpParserError."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # a server may ignore Upgrade (RFC 9110 section 7.8)

    @property
    def method(self) -> bytes:
        """As sent."""
        method: bytes = self._parser.get_method()
        return method

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow."""
        return bool(self._parser.should_keep_alive())

    def on_url(self, url: bytes) -> None:
        """Called by httptools, as the others."""
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; of a repeated one the last, as in an ASGI application's dictionary."""
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        """One chunk."""
        self.size_bytes += len(body)
        if self.size_bytes > self._limit_bytes:
            raise otlp.RequestTooLargeError(f"request exceeds {self._limit_bytes} bytes")
        self.chunks.append(body)

    def on_message_complete(self) -> None:
        """The last chunk has come."""
        self.messages += 1


class Connection(asyncio.BufferedProtocol):
    """Reads a request, answers it, reads the next."""

    def __init__(self, ingest: Ingest, connections: "set[Connection]") -> None:
        self._ingest = ingest
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._receive = memoryview(bytearray(_RECEIVE_BYTES))
        self._early = bytearray()
        """Of a head that is not complete, or of the next request."""
        self._head: _Head | None = None
        self._body: bytearray | None = None
        """Of known length; `_filled` bytes of it have come."""
        self._filled = 0
        self._room = ExitStack()
        self._task: asyncio.Task[None] | None = None
        self._ending = False
        self._draining = False
        """The last answer is written; what still comes is dropped."""
        self._last_s = self._loop.time()
        self._begin_s: float | None = None
        """When the first byte of the request that is coming has come."""
        self._come_bytes = 0

    # ---- the server's calls ----

    def is_idle(self, before_s: float) -> bool:
        """Whether nothing has come since, and nothing is being answered."""
        return self._task is None and self._last_s < before_s

    def is_slow(self, now_s: float) -> bool:
        """Whether a request comes so slowly that others should have its room."""
        if self._begin_s is None or self._task is not None or self._draining:
            return False
        return now_s - self._begin_s > SLOW_S + self._come_bytes / BYTES_PER_S_MIN

    def refuse_slow(self) -> None:
        """408, and the end."""
        self._room.close()
        self._write(too_slow(as_json=False), close=True)

    def refuse_connection(self) -> None:
        """503, whatever is asked for: SDKs come again."""
        self._write(busy(BusyError("too many connections"), as_json=False), close=True)

    def end(self) -> "asyncio.Task[None] | None":
        """Ends after the request that is being answered; its task."""
        self._ending = True
        return self._task

    def abort(self) -> None:
        """Closes at once."""
        if self._transport is not None:
            self._transport.abort()

    # ---- asyncio's calls ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)
        if len(self._connections) > 2 * CONNECTIONS_MAX:
            transport.abort()
        elif len(self._connections) > CONNECTIONS_MAX:
            self.refuse_connection()

    def connection_lost(self, error: Exception | None) -> None:
        """The other side is gone; a request that was complete is still kept."""
        del error
        self._connections.discard(self)
        self._transport = None
        if self._task is None:
            self._room.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go: a body's own buffer, if its length is known."""
        del sizehint
        if self._task is None and not self._draining:
            if self._body is not None:
                return memoryview(self._body)[self._filled :]
            if self._head is None:  # most of the body is left for its own buffer
                return self._receive[:_HEAD_RECEIVE_BYTES]
        return self._receive

    def buffer_updated(self, size: int) -> None:
        """Bytes have come."""
        self._last_s = self._loop.time()
        if self._draining:
            return
        if self._begin_s is None:
            self._begin_s = self._last_s
        self._come_bytes += size
        if self._task is not None:  # the next request, before this one is answered
            self._early += self._receive[:size]
            if len(self._early) > HEAD_BYTES_MAX and self._transport is not None:
                self._transport.pause_reading()
        elif self._body is not None:
            self._filled += size
            if self._filled == len(self._body):
                self._answer(bytes(self._body))
        elif self._head is not None:
            self._take_chunks(bytes(self._receive[:size]))
        else:
            self._early += self._receive[:size]
            self._take_head()

    # ---- a request ----

    def _take_head(self) -> None:
        end = self._early.find(_HEAD_END)
        if end < 0:
            if len(self._early) > HEAD_BYTES_MAX:
                self._close_with(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        end += len(_HEAD_END)
        head = self._head = _Head(self._ingest.limit_bytes)
        rest = bytes(self._early[end:])
        try:
            head.feed(bytes(self._early[:end]))
        except httptools.HttpParserError:
            self._close_with(HTTPStatus.BAD_REQUEST)
            return
        self._early.clear()
        if head.target.partition(b"?")[0] != TRACES_PATH.encode():
            self._close_with(HTTPStatus.NOT_FOUND)
        elif head.method != b"POST":
            self._close_with(HTTPStatus.METHOD_NOT_ALLOWED)
        else:
            self._begin_body(head, rest)

    def _begin_body(self, head: _Head, rest: bytes) -> None:
        is_chunked = b"transfer-encoding" in head.headers
        length = head.headers.get(b"content-length", b"" if is_chunked else b"0")
        limit_bytes = self._ingest.limit_bytes
        size = int(length) if length.isdigit() else limit_bytes
        as_json = sends_json(head.headers)
        sender = self._ingest.gate.decide(authorization_of(head.headers), Need.INGEST)
        if isinstance(sender, Refusal):
            self._write(denied(sender, as_json=as_json), close=True)
            return
        head.tenant = sender.tenant
        try:
            if size > limit_bytes:
                raise otlp.RequestTooLargeError(f"request exceeds {limit_bytes} bytes")
            self._room.enter_context(self._ingest.room(size))
        except otlp.RequestDecodeError as error:
            self._write(refused(error, as_json=as_json), close=True)
            return
        except BusyError as error:
            self._write(busy(error, as_json=as_json), close=True)
            return
        if head.headers.get(b"expect", b"").lower() == b"100-continue" and self._transport:
            self._transport.write(_CONTINUE)
        if is_chunked:
            self._take_chunks(rest)
            return
        self._body = bytearray(size)
        self._filled = min(size, len(rest))
        self._body[: self._filled] = rest[: self._filled]
        self._early += rest[size:]
        if self._filled == size:
            self._answer(bytes(self._body))

    def _take_chunks(self, data: bytes) -> None:
        head = self._head
        assert head is not None
        try:
            head.feed(data)
        except httptools.HttpParserCallbackError:
            error = otlp.RequestTooLargeError("request exceeds the limit")
            self._write(refused(error, as_json=sends_json(head.headers)), close=True)
            return
        except httptools.HttpParserError:
            self._close_with(HTTPStatus.BAD_REQUEST)
            return
        if head.messages:
            self._answer(b"".join(head.chunks))

    def _answer(self, body: bytes) -> None:
        assert self._head is not None
        self._task = self._loop.create_task(self._answer_body(self._head, body))

    async def _answer_body(self, head: _Head, body: bytes) -> None:
        try:
            response = await answer(self._ingest, head.headers, body, tenant=head.tenant)
        except Exception:  # a bug: the sender learns of it, and the connection does not hang
            _log.exception("otlp_request_failed")
            response = failed(as_json=sends_json(head.headers))
        finally:
            self._room.close()
        # A client that sent more behind a chunked body finds the connection closed, and comes
        # again: where that request begins is known to the parser alone.
        close = not head.keeps_alive or self._ending or head.messages > 1
        self._write(response, close=close)
        self._task = self._head = self._body = None
        self._begin_s, self._come_bytes = None, 0
        if self._transport is not None and not self._draining:
            self._transport.resume_reading()
            if self._early:
                self._begin_s = self._loop.time()
                self._take_head()

    def _close_with(self, status: HTTPStatus) -> None:
        text = status.phrase.encode()
        self._write((status, [(b"content-type", b"text/plain")], text), close=True)

    def _write(self, response: Answer, *, close: bool) -> None:
        if self._transport is None:
            return
        status, headers, body = response
        lines = [b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode())]
        lines += [name + b": " + value for name, value in headers]
        lines += [b"content-length: %d" % len(body), b"date: " + _date(int(time.time()))]
        if close:
            lines.append(b"connection: close")
        self._transport.write(b"\r\n".join(lines) + _HEAD_END + body)
        if close and not self._draining:
            # Closing with unread bytes would reset the connection, and take the answer with it.
            self._draining = True
            self._transport.write_eof()
            self._loop.call_later(LINGER_S, self.abort)


_dates: dict[int, bytes] = {}


def _date(second: int) -> bytes:
    """The Date header of one second (RFC 9110 section 6.6.1)."""
    if second not in _dates:
        _dates.clear()
        _dates[second] = formatdate(second, usegmt=True).encode()
    return _dates[second]
