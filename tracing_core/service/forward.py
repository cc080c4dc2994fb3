# SPDX-License-Identifier: Apache-2.0
"""Passes spans on to a Collector, Jaeger or Tempo over OTLP/HTTP, annotated with corrected time.

One thread sends, in order. While the receiver is away or asks for patience, requests wait; when
the queue is full, senders get 503 and come again. A copy is lost only when the receiver refuses it
for good, or when the service ends while it waits: the spans themselves are in the store.
"""

import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import structlog
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tracing_core.corrections import CorrectionTable
from tracing_core.export.annotate import annotate_request
from tracing_core.ingest import BusyError, Keeper
from tracing_core.ingest.keeper import Done
from tracing_core.otlp import CONTENT_TYPE_PROTOBUF, Admitted
from tracing_core.otlp.retry import Delivery, delivery, wait_s
from tracing_core.service.forward_queue import ForwardCounters, ForwardQueue

SEND_TIMEOUT_S = 30.0
DRAIN_S = 5.0
"""Time that waiting requests get when the service ends."""
TRACES_PATH = "/v1/traces"

_log = structlog.get_logger(__name__)


def endpoint(url: str) -> str:
    """The address to post to: `/v1/traces` below a bare host, else the URL as it is.

    >>> endpoint("http://tempo:4318"), endpoint("https://x/otlp/v1/traces")
    ('http://tempo:4318/v1/traces', 'https://x/otlp/v1/traces')
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"expected http://HOST:PORT; found {url}")
    return url.rstrip("/") + TRACES_PATH if parts.path in ("", "/") else url


class Forwarder:
    """The sending thread and its queue."""

    def __init__(
        self,
        url: str,
        table: Callable[[], CorrectionTable],
        *,
        headers: dict[str, str] | None = None,
        queue: ForwardQueue | None = None,
    ) -> None:
        """`table` gives the corrections in force when a request is sent."""
        self.url = endpoint(url)
        self._table = table
        self._queue = ForwardQueue() if queue is None else queue
        self._changed = threading.Condition()
        self._ending_s: float | None = None
        """When waiting requests are given up, once the service ends."""
        self._client = httpx.Client(timeout=SEND_TIMEOUT_S, trust_env=False, headers=headers)
        self.counters = ForwardCounters()
        self._thread = threading.Thread(target=self._run, name="forward", daemon=True)

    @property
    def has_room(self) -> bool:
        """False while the queue is full; ask before a request is acknowledged."""
        with self._changed:
            room = self._queue.has_room
            self.counters.full_count += not room
        return room

    @property
    def queued_bytes(self) -> int:
        """Size of all requests that wait."""
        with self._changed:
            return self._queue.size_bytes

    def offer(self, body: bytes) -> None:
        """Queues a protobuf ExportTraceServiceRequest."""
        with self._changed:
            self._queue.put(body, time.monotonic())
            self._changed.notify()

    def start(self) -> None:
        """Begins to send."""
        self._thread.start()

    def stop(self, drain_s: float = DRAIN_S) -> None:
        """Sends what waits, for at most `drain_s`, then ends."""
        with self._changed:
            self._ending_s = time.monotonic() + drain_s
            self._changed.notify()
        self._thread.join()
        self._client.close()
        self.counters.lost_request_count = len(self._queue)
        if len(self._queue):
            _log.error("forward_requests_lost", count=len(self._queue), url=self.url)

    def __enter__(self) -> "Forwarder":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        repetition = 0
        while True:
            body = self._next()
            if body is None:
                return
            outcome, pause_s = self._send(body, repetition)
            if outcome is not Delivery.REPEAT:
                with self._changed:
                    self._queue.remove()
                repetition = 0
            elif not self._pause(pause_s):
                return
            else:
                repetition += 1

    def _next(self) -> bytes | None:
        """Waits for a request's turn; None when the service ends."""
        with self._changed:
            while True:
                now_s = time.monotonic()
                body, wait = self._queue.due(now_s)
                if self._ending_s is not None:
                    if not len(self._queue) or now_s >= self._ending_s:
                        return None
                    if body is None:  # the hold is over when the service ends
                        body, _ = self._queue.due(float("inf"))
                if body is not None:
                    return body
                self._changed.wait(wait)

    def _pause(self, pause_s: float) -> bool:
        """Waits before a repetition; False if the service ends before that is over."""
        until_s = time.monotonic() + pause_s
        with self._changed:
            while (now_s := time.monotonic()) < until_s:
                if self._ending_s is not None and until_s > self._ending_s:
                    return False
                self._changed.wait(until_s - now_s)
        return self._ending_s is None or time.monotonic() < self._ending_s

    def _send(self, body: bytes, repetition: int) -> tuple[Delivery, float]:
        annotated, span_count = annotate_request(body, self._table())
        try:
            response = self._client.post(
                self.url, content=annotated, headers={"content-type": CONTENT_TYPE_PROTOBUF}
            )
        except httpx.TransportError as error:
            return self._repeat(f"{type(error).__name__}: {error}", None, repetition)
        outcome = delivery(response.status_code)
        if outcome is Delivery.REPEAT:
            status = f"{response.status_code} {response.reason_phrase}"
            return self._repeat(status, response.headers.get("retry-after"), repetition)
        if outcome is Delivery.REFUSED:
            self.counters.refused_request_count += 1
            self.counters.last_error = f"{response.status_code} {response.text[:200]}"
            _log.error("forward_refused", status=response.status_code, spans=span_count)
            return outcome, 0.0
        rejected = _rejected_count(response.content)
        self.counters.request_count += 1
        self.counters.span_count += span_count - rejected
        self.counters.rejected_span_count += rejected
        return outcome, 0.0

    def _repeat(
        self, error: str, retry_after: str | None, repetition: int
    ) -> tuple[Delivery, float]:
        if not repetition:
            _log.warning("forward_waits", url=self.url, error=error)
        self.counters.repetition_count += 1
        self.counters.last_error = error
        return Delivery.REPEAT, wait_s(retry_after, repetition)


def _rejected_count(answer: bytes) -> int:
    """Spans that the receiver refused; 0 if it says nothing that can be read."""
    try:
        return ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans
    except DecodeError:
        return 0


class ForwardingKeeper:
    """Keeps requests and passes them on; asks senders to wait while the receiver cannot keep up."""

    def __init__(self, keeper: Keeper, forwarder: Forwarder) -> None:
        self._keeper = keeper
        self._forwarder = forwarder
        self.blocking = keeper.blocking

    def keep(self, admitted: Admitted, *, tenant: str, done: Done) -> None:
        """Keeps the request, and queues it once it is safe."""
        if not self._forwarder.has_room:
            raise BusyError("the receiver that spans are passed on to cannot keep up")

        def pass_on(error: Exception | None) -> None:
            if error is None and admitted.span_count:
                self._forwarder.offer(admitted.body)
            done(error)

        self._keeper.keep(admitted, tenant=tenant, done=pass_on)

    def settle(self, timeout_s: float) -> bool:
        """As of the keeper itself."""
        return self._keeper.settle(timeout_s)
