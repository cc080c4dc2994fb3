# SPDX-License-Identifier: Apache-2.0
"""Sends spans to a running service over OTLP/HTTP, and waits when it asks for that."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tempotrace.errors import InputError
from tempotrace.http import TIMEOUT_S, RefusedError
from tracing_core.model import Span
from tracing_core.otlp import CONTENT_TYPE_PROTOBUF
from tracing_core.otlp.batches import encoded_requests
from tracing_core.otlp.retry import Delivery, delivery, wait_s

REPETITIONS_MAX = 10


@dataclass(slots=True)
class UploadCounts:
    """What the service did with the spans."""

    request_count: int = 0
    accepted_count: int = 0
    rejected_count: int = 0
    messages: list[str] = field(default_factory=list)
    """What the service said about spans that it refused."""


class Upload:
    """One connection to the service."""

    def __init__(
        self,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            self._client = httpx.Client(
                base_url=url, timeout=TIMEOUT_S, trust_env=False, headers=headers
            )
        except httpx.InvalidURL as error:
            raise InputError(f"{url}: {error}") from None
        self._url = url
        self._sleep = sleep
        self.counts = UploadCounts()

    def send(self, spans: Iterable[Span]) -> None:
        """Sends all spans; returns when the service has stored them."""
        for span_count, body in encoded_requests(spans):
            answer = self._post(body)
            rejected = answer.partial_success.rejected_spans
            self.counts.request_count += 1
            self.counts.accepted_count += span_count - rejected
            self.counts.rejected_count += rejected
            if answer.partial_success.error_message:
                self.counts.messages.append(answer.partial_success.error_message)

    def _post(self, body: bytes) -> ExportTraceServiceResponse:
        response = self._attempt(body)
        for repetition in range(REPETITIONS_MAX):
            if delivery(response.status_code) is not Delivery.REPEAT:
                break
            self._sleep(wait_s(response.headers.get("retry-after"), repetition))
            response = self._attempt(body)
        if response.is_error:
            status = f"{response.status_code} {response.reason_phrase}"
            raise RefusedError(f"{self._url}/v1/traces: {status}", response.status_code)
        return ExportTraceServiceResponse.FromString(response.content)

    def _attempt(self, body: bytes) -> httpx.Response:
        try:
            return self._client.post(
                "/v1/traces", content=body, headers={"content-type": CONTENT_TYPE_PROTOBUF}
            )
        except httpx.TransportError as error:
            raise InputError(f"{self._url}: no answer from the service: {error}") from None

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    def __enter__(self) -> "Upload":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
