# SPDX-License-Identifier: Apache-2.0
"""The OpenTelemetry SDK set up for one host: seeded ids, explicit stamps, explicit batches.

Two runs with one seed export the same bytes, and every stamp is on the clock that the resource
names. Times are arguments; nothing here reads a clock.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    TraceFlags,
    set_span_in_context,
)

from tracing_core.model import (
    RESOURCE_CLOCK_DOMAIN,
    RESOURCE_HOST,
    RESOURCE_SERVICE,
    RESOURCE_TENANT,
)
from tracing_core.otlp.json_codec import request_to_json

BATCH_SPANS = 512
"""Spans per request, the SDK's own default."""
EXPORT_TIMEOUT_S = 60.0
"""A busy machine syncs its disk for seconds; the service tells a sender that should wait."""

AttributeScalar = str | int | float | bool


class ExportError(RuntimeError):
    """A batch was not accepted by the endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRef:
    """Identity of a span, to be the parent of spans on any host."""

    trace_id: int
    span_id: int

    @property
    def trace_id_hex(self) -> str:
        """32 lower-case hex digits, as in the API."""
        return f"{self.trace_id:032x}"

    @property
    def span_id_hex(self) -> str:
        """16 lower-case hex digits, as in the API."""
        return f"{self.span_id:016x}"


class SeededIdGenerator(IdGenerator):
    """Ids from a seed; never zero, which OTLP forbids."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def generate_span_id(self) -> int:
        """A non-zero 64-bit id."""
        return self._random.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        """A non-zero 128-bit id."""
        return self._random.getrandbits(128) or 1


class _Buffer(SpanProcessor):
    """Keeps ended spans in order until the caller exports them."""

    def __init__(self) -> None:
        self.ended: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


class HostTracer:
    """Spans of one service on one host, all stamps on one clock."""

    def __init__(
        self,
        *,
        host: str,
        tenant: str,
        clock_domain: str,
        seed: int,
        service: str = "trainer",
        scope: str = "tempotrace.lab",
    ) -> None:
        self._buffer = _Buffer()
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource(
                {
                    RESOURCE_SERVICE: service,
                    RESOURCE_HOST: host,
                    RESOURCE_CLOCK_DOMAIN: clock_domain,
                    RESOURCE_TENANT: tenant,
                }
            ),
            shutdown_on_exit=False,
            id_generator=SeededIdGenerator(f"{seed}/{tenant}/{host}/{service}"),
            span_limits=SpanLimits(),
        )
        self._provider.add_span_processor(self._buffer)
        self._tracer = self._provider.get_tracer(scope, "1")

    def span(
        self,
        name: str,
        *,
        start_local_ns: int,
        end_local_ns: int,
        parent: SpanRef | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, AttributeScalar] | None = None,
        events: Sequence[tuple[str, int]] = (),
        parent_is_remote: bool = False,
    ) -> SpanRef:
        """Records one finished span; `events` are (name, local ns). No parent: a new trace."""
        context = Context()
        if parent is not None:
            parent_context = SpanContext(
                trace_id=parent.trace_id,
                span_id=parent.span_id,
                is_remote=parent_is_remote,
                trace_flags=TraceFlags(TraceFlags.SAMPLED),
            )
            context = set_span_in_context(NonRecordingSpan(parent_context), context)
        span = self._tracer.start_span(
            name, context=context, kind=kind, attributes=attributes, start_time=start_local_ns
        )
        for event_name, time_local_ns in events:
            span.add_event(event_name, timestamp=time_local_ns)
        span.end(end_time=end_local_ns)
        identity = span.get_span_context()
        return SpanRef(trace_id=identity.trace_id, span_id=identity.span_id)

    def take(self) -> list[ReadableSpan]:
        """The spans since the last call, in the order in which they were recorded."""
        spans, self._buffer.ended = self._buffer.ended, []
        return spans

    def shutdown(self) -> None:
        """Ends the SDK's provider."""
        self._provider.shutdown()


class OtlpExport:
    """Sends spans in fixed batches to an OTLP/HTTP endpoint, a JSON-lines file, or both."""

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        jsonl: TextIO | None = None,
        gzip: bool = False,
        batch_spans: int = BATCH_SPANS,
    ) -> None:
        """`endpoint` is the full URL, ending in /v1/traces."""
        self._jsonl = jsonl
        self._batch_spans = batch_spans
        self._exporter: SpanExporter | None = None
        self._session: requests.Session | None = None
        if endpoint is not None:
            self._session = requests.Session()
            self._session.trust_env = False  # no proxy on the way to a local endpoint
            self._exporter = OTLPSpanExporter(
                endpoint=endpoint,
                headers={},
                timeout=EXPORT_TIMEOUT_S,
                compression=Compression.Gzip if gzip else Compression.NoCompression,
                session=self._session,
            )

    def export(self, spans: Sequence[ReadableSpan]) -> int:
        """Exports all spans, in order; returns the number of requests."""
        request_count = 0
        for first in range(0, len(spans), self._batch_spans):
            batch = spans[first : first + self._batch_spans]
            if self._jsonl is not None:
                self._jsonl.write(request_to_json(encode_spans(batch)))
                self._jsonl.write("\n")
            if (
                self._exporter is not None
                and self._exporter.export(batch) is not SpanExportResult.SUCCESS
            ):
                raise ExportError(f"the endpoint did not accept a batch of {len(batch)} spans")
            request_count += 1
        return request_count

    def close(self) -> None:
        """Shuts the exporter and its connections."""
        if self._exporter is not None:
            self._exporter.shutdown()
        if self._session is not None:
            self._session.close()

    def __enter__(self) -> "OtlpExport":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
