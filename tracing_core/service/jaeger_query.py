# SPDX-License-Identifier: Apache-2.0
"""Parameters of Jaeger's trace search. Pure: texts in, a query out, or what is wrong with them.

Jaeger's own rules: `start` and `end` in microseconds, durations like `1.5ms`, `tag=key:value` and
`tags={"key":"value"}`; one span has to meet service, operation, tags and duration together.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from tracing_core.model import AttributeValue, Span
from tracing_core.plain_values import plain_value
from tracing_core.service.json_text import read_json

LIMIT_DEFAULT = 20
LIMIT_MAX = 1000
TRACE_IDS_MAX = 100
INT64_MAX = 2**63 - 1
_NO_ATTRIBUTES = ("error", "span.kind")
"""Tags that stand for other fields of a span."""
_DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)(ns|us|µs|μs|ms|s|m|h)")
_UNIT_NS = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": 10**9, "m": 60 * 10**9,
    "h": 3600 * 10**9,
}  # fmt: skip


class JaegerQueryError(ValueError):
    """A parameter that cannot be understood; the text names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JaegerQuery:
    """What a search asks for."""

    service: str = ""
    operation: str = ""
    start_min_local_ns: int = -(2**63)
    start_max_local_ns: int = INT64_MAX
    duration_min_ns: int = 0
    duration_max_ns: int = INT64_MAX
    tags: Mapping[str, str] = field(default_factory=dict)
    limit_count: int = LIMIT_DEFAULT
    trace_ids: Sequence[str] = ()

    @property
    def looks_inside(self) -> bool:
        """Whether the spans of a trace have to be looked at, not only its services and names."""
        bounded = self.duration_min_ns > 0 or self.duration_max_ns < INT64_MAX
        return bool(self.tags) or bounded or bool(self.operation)

    def typed_tag(self) -> list[tuple[str, str | int | float | bool]]:
        """The first tag that is an attribute, with each type that its text may stand for.

        >>> JaegerQuery(tags={"n": "500"}).typed_tag()
        [('n', '500'), ('n', 500), ('n', 500.0)]
        """
        key = next((key for key in self.tags if key not in _NO_ATTRIBUTES), None)
        if key is None:
            return []
        text = self.tags[key]
        values: list[str | int | float | bool] = [text]
        if re.fullmatch("-?[0-9]{1,18}", text):
            values.append(int(text))
        if re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", text):
            values.append(float(text))
        if text in ("true", "false"):
            values.append(text == "true")
        return [(key, value) for value in values]

    def matches(self, span: Span) -> bool:
        """Whether this span meets every condition."""
        if self.service and span.service != self.service:
            return False
        if self.operation and span.name != self.operation:
            return False
        duration_ns = span.end_local_ns - span.start_local_ns
        if not self.duration_min_ns <= duration_ns <= self.duration_max_ns:
            return False
        return all(_has(span, key, value) for key, value in self.tags.items())


def parse_query(parameters: Mapping[str, Sequence[str]]) -> JaegerQuery:
    """A query from the URL's parameters, each of which may be repeated."""

    def one(name: str) -> str:
        values = parameters.get(name) or ("",)
        return values[0]

    query = JaegerQuery(
        service=one("service"),
        operation=one("operation"),
        start_min_local_ns=_micros(one("start"), "start", -(2**63)),
        start_max_local_ns=_micros(one("end"), "end", INT64_MAX),
        duration_min_ns=_duration(one("minDuration"), "minDuration", 0),
        duration_max_ns=_duration(one("maxDuration"), "maxDuration", INT64_MAX),
        tags=_tags(parameters.get("tag") or (), parameters.get("tags") or ()),
        limit_count=_limit(one("limit")),
        trace_ids=tuple(trace_id(text) for text in parameters.get("traceID") or ()),
    )
    if not query.service and not query.trace_ids:
        raise JaegerQueryError("parameter 'service' is required")
    if len(query.trace_ids) > TRACE_IDS_MAX:
        raise JaegerQueryError(f"traceID: at most {TRACE_IDS_MAX} at a time")
    if query.duration_max_ns < query.duration_min_ns:
        raise JaegerQueryError("'maxDuration' should be greater than 'minDuration'")
    return query


def trace_id(text: str) -> str:
    """32 hex digits; Jaeger leaves out leading zeros."""
    if not re.fullmatch("[0-9a-fA-F]{1,32}", text):
        raise JaegerQueryError(f"traceID: expected up to 32 hex digits; found {text:.50}")
    return text.lower().zfill(32)


def _micros(text: str, name: str, default: int) -> int:
    if not text:
        return default
    if not re.fullmatch("-?[0-9]{1,18}", text):
        raise JaegerQueryError(f"{name}: expected microseconds since 1970; found {text:.50}")
    return max(-(2**63), min(int(text) * 1000, INT64_MAX))


def _duration(text: str, name: str, default: int) -> int:
    if not text:
        return default
    parts = list(_DURATION.finditer(text))
    if "".join(part[0] for part in parts) != text:
        raise JaegerQueryError(f"{name}: expected a duration like 1.5ms; found {text:.50}")
    return int(sum(Decimal(part[1]) * _UNIT_NS[part[2]] for part in parts))


def _limit(text: str) -> int:
    if not text:
        return LIMIT_DEFAULT
    if not re.fullmatch("[0-9]{1,9}", text):
        raise JaegerQueryError(f"limit: expected a number; found {text:.50}")
    return max(1, min(int(text), LIMIT_MAX))


def _tags(simple: Sequence[str], documents: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in simple:
        key, colon, value = text.partition(":")
        if not colon:
            raise JaegerQueryError(f"tag: expected key:value; found {text:.50}")
        found[key] = value
    for text in filter(None, documents):
        try:
            values = read_json(text)
        except ValueError:
            raise JaegerQueryError("tags: expected a JSON object of texts") from None
        if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
            raise JaegerQueryError("tags: expected a JSON object of texts")
        found.update(values)
    return found


def _has(span: Span, key: str, wanted: str) -> bool:
    """Whether the span, its resource or one of its events has that tag."""
    if key == "error":
        return (span.status_code == 2) == (wanted == "true")
    if key == "span.kind":
        return span.kind.name.lower() == wanted
    places = (span.attributes, span.resource, *(event.attributes for event in span.events))
    return any(key in place and _shown(place[key]) == wanted for place in places)


def _shown(value: AttributeValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(plain_value(value))
