# SPDX-License-Identifier: Apache-2.0
"""Passes spans on to a Collector, Jaeger or Tempo over OTLP/HTTP, annotated with corrected time.

One thread sends, in order, what waits on the disk, at least once: a request leaves the disk when
the receiver has answered it. While the receiver is away or asks for patience, requests wait, over
restarts too; how much may wait, and what happens beyond it, is the spool's policy.
"""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
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
from tracing_core.service.forward_spool import ForwardSpool, Waiting

SEND_TIMEOUT_S = 30.0
DRAIN_S = 5.0
"""Time that waiting requests get when the service ends; what is left goes at the next start."""
TRACES_PATH = "/v1/traces"

_log = structlog.get_logger(__name__)


def endpoint(url: str) -> str:
    """The address to post to: `/v1/traces` below a bare host, else the URL as it is.

    >>> endpoint("http://tempo:4318"), endpoint("https://x/otlp/v1/traces")
    ('http://tempo:4318/v1/traces', 'https://x/otlp/v1/traces')
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"expected http://HOST:PORT; found {without_password(url)}")
    return url.rstrip("/") + TRACES_PATH if parts.path in ("", "/") else url


def without_password(url: str) -> str:
    """The URL as it may be shown.

    >>> without_password("https://me:secret@tempo:4318/v1/traces")
    'https://tempo:4318/v1/traces'
    """
    return re.sub(r"(?<=//)[^/?#]*@", "", url)


@dataclass(slots=True, kw_only=True)
class ForwardCounters:
    """What became of requests and spans since the start."""

    request_count: int = 0
    """Delivered requests."""
    span_count: int = 0
    """Spans in them."""
    rejected_span_count: int = 0
    """Spans that the receiver refused, by its partial success."""
    refused_request_count: int = 0
    """Requests that the receiver will never take, and whose copies were given up."""
    repetition_count: int = 0
    last_error: str = ""


class Forwarder:
    """The sending thread."""

    def __init__(
        self,
        url: str,
        table: Callable[[], CorrectionTable],
        spool: ForwardSpool,
        *,
        headers: dict[str, str] | None = None,
    ) -> None:
        """`table` gives the corrections in force when a request is sent."""
        self._endpoint = endpoint(url)
        self.url = without_password(self._endpoint)
        """As it may be shown."""
        self.spool = spool
        self._table = table
        self._changed = spool.changed
        self._ending_s: float | None = None
        """When sending stops, once the service ends."""
        self._client = httpx.Client(timeout=SEND_TIMEOUT_S, trust_env=False, headers=headers)
        self.counters = ForwardCounters()
        self._thread = threading.Thread(target=self._run, name="forward", daemon=True)

    def start(self) -> None:
        """Begins to send."""
        self._thread.start()

    def stop(self, drain_s: float = DRAIN_S) -> None:
        """Sends what waits, for at most `drain_s`; the rest stays on the disk."""
        with self._changed:
            self._ending_s = time.monotonic() + drain_s
            self._changed.notify_all()
        self._thread.join()
        self._client.close()
        if not self.spool.is_empty:
            _log.warning("forward_waits_on_disk", bytes=self.spool.size_bytes, url=self.url)
        self.spool.close()

    def __enter__(self) -> "Forwarder":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        repetition = 0
        while True:
            waiting = self._next()
            if waiting is None:
                return
            outcome, pause_s = self._send(waiting.body, repetition)
            if outcome is not Delivery.REPEAT:
                self.spool.done(waiting)
                repetition = 0
            elif not self._pause(pause_s):
                return
            else:
                repetition += 1

    def _next(self) -> Waiting | None:
        """Waits for a request's turn; None when the service ends."""
        with self._changed:
            while True:
                is_ending = self._ending_s is not None
                if self._ending_s is not None and time.monotonic() >= self._ending_s:
                    return None
                waiting, wait_s = self.spool.due(ignore_hold=is_ending)
                if waiting is not None or is_ending:
                    return waiting
                self._changed.wait(wait_s)

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
        try:
            annotated, span_count = annotate_request(body, self._table())
        except Exception as error:  # a bug: this copy does not keep others from being sent
            _log.exception("forward_not_annotated")
            return self._refused(f"not annotated: {error}")
        if not span_count:
            return Delivery.DELIVERED, 0.0
        try:
            response = self._client.post(
                self._endpoint, content=annotated, headers={"content-type": CONTENT_TYPE_PROTOBUF}
            )
        except httpx.TransportError as error:
            return self._repeat(f"{type(error).__name__}: {error}", None, repetition)
        outcome = delivery(response.status_code)
        if outcome is Delivery.REPEAT:
            status = f"{response.status_code} {response.reason_phrase}"
            return self._repeat(status, response.headers.get("retry-after"), repetition)
        if outcome is Delivery.REFUSED:
            _log.error("forward_refused", status=response.status_code, spans=span_count)
            return self._refused(f"{response.status_code} {response.text[:200]}")
        rejected = _rejected_count(response.content)
        self.counters.request_count += 1
        self.counters.span_count += span_count - rejected
        self.counters.rejected_span_count += rejected
        return outcome, 0.0

    def _refused(self, error: str) -> tuple[Delivery, float]:
        self.counters.refused_request_count += 1
        self.counters.last_error = error
        return Delivery.REFUSED, 0.0

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
    """Keeps requests; asks senders to wait where the spool's policy says so."""

    def __init__(self, keeper: Keeper, spool: ForwardSpool) -> None:
        self._keeper = keeper
        self._spool = spool
        self.blocking = keeper.blocking

    def keep(self, admitted: Admitted, *, tenant: str, done: Done) -> None:
        """Keeps the request, if its copy has room too."""
        if not self._spool.has_room():
            raise BusyError("the receiver that spans are passed on to cannot keep up")
        self._keeper.keep(admitted, tenant=tenant, done=done)

    def settle(self, timeout_s: float) -> bool:
        """As of the keeper itself."""
        return self._keeper.settle(timeout_s)
