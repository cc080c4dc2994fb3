# SPDX-License-Identifier: Apache-2.0
"""Spans as an OTLP/JSON request: corrected or raw stamps, and how their time is known.

A corrected span leaves its clock domain: its stamps are the reference's now, and a receiver that
corrects must not do so again. `tempotrace.clock.source` keeps the name.
"""

from collections.abc import Sequence
from dataclasses import replace

from tracing_core.clock_domains import RESOURCE_CLOCK_REASON
from tracing_core.export.placement import PlacedSpan, with_time_attributes
from tracing_core.model import RESOURCE_CLOCK_DOMAIN, Attributes, Span
from tracing_core.otlp.encode import encode_spans
from tracing_core.otlp.json_codec import request_to_json

MEDIA_TYPE = "application/json"
RESOURCE_CLOCK_SOURCE = "tempotrace.clock.source"
"""Resource attribute of corrected spans: the clock that took the raw stamps."""


def otlp_trace(placed: Sequence[PlacedSpan]) -> bytes:
    """One request with all spans, in their order within each resource."""
    resources: dict[tuple[str, bool], Attributes] = {}
    spans = [_span(item, resources) for item in placed]
    return request_to_json(encode_spans(spans)).encode()


def _span(item: PlacedSpan, resources: dict[tuple[str, bool], Attributes]) -> Span:
    key = (str(item.span.resource), item.corrected)  # equal resources become one
    owner = resources.get(key)
    if owner is None:
        owner = resources[key] = _resource(item)
    span = with_time_attributes(item)
    if not item.corrected:
        return replace(span, resource=owner)
    return replace(
        span,
        resource=owner,
        clock_domain="",
        start_local_ns=item.start_ns,
        end_local_ns=item.end_ns if item.duration_known else item.start_ns,
        events=tuple(
            replace(event, time_local_ns=item.instant_ns(event.time_local_ns))
            for event in span.events
        ),
    )


def _resource(item: PlacedSpan) -> Attributes:
    if not item.corrected:
        return item.span.resource
    kept = {k: v for k, v in item.span.resource.items() if k != RESOURCE_CLOCK_DOMAIN}
    return {
        **kept,
        RESOURCE_CLOCK_SOURCE: item.span.clock_domain,
        RESOURCE_CLOCK_REASON: f"corrected already, by version {item.correction_version}",
    }
