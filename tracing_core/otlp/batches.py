# SPDX-License-Identifier: Apache-2.0
"""Many spans as OTLP requests of a size that every receiver takes."""

from collections.abc import Iterable, Iterator, Sequence

from tracing_core.model import Span
from tracing_core.otlp.encode import encode_spans

REQUEST_SPANS = 512
"""Spans per request, the SDK's own default."""
REQUEST_BYTES_MAX = 4 * 2**20
"""A request is ended beyond this, so that spans with long attributes stay below every limit."""


def encoded_requests(spans: Iterable[Span]) -> Iterator[tuple[int, bytes]]:
    """(number of spans, protobuf body) of requests that hold all spans, in their order."""
    batch: list[Span] = []
    size_bytes = 0
    for span in spans:
        batch.append(span)
        size_bytes += _size_bytes(span)
        if len(batch) >= REQUEST_SPANS or size_bytes > REQUEST_BYTES_MAX:
            yield len(batch), encode_spans(batch).SerializeToString()
            batch, size_bytes = [], 0
    if batch:
        yield len(batch), encode_spans(batch).SerializeToString()


def _size_bytes(span: Span) -> int:
    """About what the span takes; texts dominate it."""
    texts: Sequence[object] = (span.name, *span.attributes.values())
    return 200 + 60 * len(span.events) + sum(len(str(item)) for item in texts)
