# SPDX-License-Identifier: Apache-2.0
"""What both OTLP encodings share: the checks a span must pass, and the tally of rejections.

A bad span is rejected alone, with a reason; its neighbours are kept (OTLP "Partial Success").
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique

from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from tracing_core.model import (
    DEFAULT_TENANT,
    RESOURCE_CLOCK_DOMAIN,
    RESOURCE_HOST,
    RESOURCE_SERVICE,
    RESOURCE_TENANT,
    Attributes,
    AttributeValue,
    Span,
    SpanKind,
)

TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
TSTAMP_MAX_NS = 2**63 - 1
"""Stamps are fixed64 on the wire and signed here; this is the year 2262."""
ERROR_MESSAGE_CHARS_MAX = 1000
"""A partial-success message names reasons and counts, so it stays far below OTLP's 4 MiB."""


@unique
class RejectReason(StrEnum):
    """Why one span was refused."""

    TRACE_ID_INVALID = "trace_id is not 16 bytes or is all zero"
    SPAN_ID_INVALID = "span_id is not 8 bytes or is all zero"
    PARENT_SPAN_ID_INVALID = "parent_span_id is neither empty nor 8 bytes"
    LINK_ID_INVALID = "a link's trace_id or span_id is invalid"
    TIME_OUT_OF_RANGE = "a time stamp is at or beyond 2^63 ns"
    MALFORMED = "malformed span"
    OTHER_TENANT = "the resource names another tenant than the token is for"


class SpanRejectedError(ValueError):
    """One span is refused; `reason` is what the sender is told."""

    def __init__(self, reason: RejectReason, detail: str = "") -> None:
        super().__init__(f"{reason.value}{': ' if detail else ''}{detail}")
        self.reason = reason


@dataclass(slots=True, kw_only=True)
class Rejections:
    """Counts of refused spans by reason, with the first example of each."""

    counts: Counter[RejectReason] = field(default_factory=Counter)
    examples: dict[RejectReason, str] = field(default_factory=dict)

    def add(self, error: SpanRejectedError, span_name: str, *, count: int = 1) -> None:
        """Counts one refused span."""
        self.counts[error.reason] += count
        self.examples.setdefault(error.reason, span_name)

    @property
    def total_count(self) -> int:
        """Number of refused spans."""
        return self.counts.total()

    def message(self) -> str:
        """One English sentence for `partial_success.error_message`."""
        parts = (
            f"{count} x {reason.value} (first: {self.examples[reason]!r:.80})"
            for reason, count in sorted(self.counts.items())
        )
        return ("spans rejected: " + "; ".join(parts))[:ERROR_MESSAGE_CHARS_MAX]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceContext:
    """What all spans of one resource share."""

    tenant: str
    clock_domain: str
    host: str
    service: str
    attributes: Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Outcome of decoding one request."""

    spans: list[Span]
    rejections: Rejections


def resource_context(
    attributes: Attributes, default_tenant: str = DEFAULT_TENANT
) -> ResourceContext:
    """Reads the well-known resource attributes; values of another type than string don't count."""
    return ResourceContext(
        tenant=_text(attributes, RESOURCE_TENANT) or default_tenant,
        clock_domain=_text(attributes, RESOURCE_CLOCK_DOMAIN),
        host=_text(attributes, RESOURCE_HOST),
        service=_text(attributes, RESOURCE_SERVICE),
        attributes=attributes,
    )


def tenant_of_resource(resource: Resource) -> str:
    """The tenant that a resource message names; empty if none."""
    texts = [
        pair.value.string_value
        for pair in resource.attributes
        if pair.key == RESOURCE_TENANT and pair.value.WhichOneof("value") == "string_value"
    ]
    return texts[-1] if texts else ""


def check_trace_id(trace_id: bytes) -> str:
    """Lower-case hex of a valid trace id."""
    if len(trace_id) != TRACE_ID_BYTES or not any(trace_id):
        raise SpanRejectedError(RejectReason.TRACE_ID_INVALID)
    return trace_id.hex()


def check_span_id(span_id: bytes, reason: RejectReason = RejectReason.SPAN_ID_INVALID) -> str:
    """Lower-case hex of a valid span id."""
    if len(span_id) != SPAN_ID_BYTES or not any(span_id):
        raise SpanRejectedError(reason)
    return span_id.hex()


def check_parent_span_id(span_id: bytes) -> str:
    """Lower-case hex, empty for a root. All-zero means root too, as some exporters write it."""
    if not any(span_id) and len(span_id) in (0, SPAN_ID_BYTES):
        return ""
    return check_span_id(span_id, RejectReason.PARENT_SPAN_ID_INVALID)


def check_tstamp_ns(tstamp_ns: int) -> int:
    """A stamp that fits a signed 64-bit integer."""
    if not 0 <= tstamp_ns <= TSTAMP_MAX_NS:
        raise SpanRejectedError(RejectReason.TIME_OUT_OF_RANGE)
    return tstamp_ns


def span_kind(number: int) -> SpanKind:
    """The kind; a number this version does not know reads as unspecified (open enum)."""
    return SpanKind(number) if 0 <= number <= SpanKind.CONSUMER else SpanKind.UNSPECIFIED


def _text(attributes: Mapping[str, AttributeValue], key: str) -> str:
    value = attributes.get(key)
    return value if isinstance(value, str) else ""
