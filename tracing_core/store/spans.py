# SPDX-License-Identifier: Apache-2.0
"""Spans in the store: raw stamps exactly as they were reported."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tracing_core.model import Attributes, AttributeValue, Span, SpanEvent, SpanKind, SpanLink
from tracing_core.otlp.json_codec import attributes_from_json, attributes_to_json
from tracing_core.store.engine import Engine, Parameter, Row

JOB_ATTRIBUTE = "tempotrace.job"
STEP_ATTRIBUTE = "tempotrace.step"

TRACES_LIMIT_MAX = 1000
"""Traces per answer; a page never needs more, and a cursor comes later."""

NAMES_LIMIT_MAX = 10_000
"""Services or operations per answer; they fill a menu."""

INT64_MAX = 2**63 - 1

_COLUMNS = (
    "tenant, hex(trace_id), hex(span_id), hex(parent_span_id), name, kind, start_local_ns,"
    " end_local_ns, clock_domain, host, service, attributes_string, attributes_int,"
    " attributes_other, event_name, event_time_local_ns, event_attributes, links, resource,"
    " scope_name, scope_version, status_code, status_message, trace_state, flags"
)

_NO_PARENT = bytes(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery:
    """Which traces to list; empty fields don't restrict."""

    tenant: str = ""
    service: str = ""
    host: str = ""
    name: str = ""
    """Name of any span of the trace."""
    job: str = ""
    step: int | None = None
    start_min_local_ns: int = -(2**63)
    start_max_local_ns: int = INT64_MAX
    limit_count: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """One trace of a list. Start and end are raw, of whichever hosts came first and last."""

    tenant: str
    trace_id: str
    root_name: str
    start_local_ns: int
    end_local_ns: int
    span_count: int
    hosts: tuple[str, ...]
    job: str
    step: int | None


class SpanStore:
    """Appends and reads spans."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.revision = 0
        """Rises with every append; caches and ETags are keyed by it."""

    def append(self, spans: Sequence[Span]) -> None:
        """Stores the spans as one block before it returns."""
        if not spans:
            return
        resources: dict[int, str] = {}  # spans of one request share few resource objects
        other = [_other_attributes(span.attributes) for span in spans]
        columns: dict[str, Sequence[Any]] = {
            "tenant": [span.tenant for span in spans],
            "trace_id": [bytes.fromhex(span.trace_id) for span in spans],
            "span_id": [bytes.fromhex(span.span_id) for span in spans],
            "parent_span_id": [
                bytes.fromhex(span.parent_span_id) if span.parent_span_id else _NO_PARENT
                for span in spans
            ],
            "name": [span.name for span in spans],
            "kind": [int(span.kind) for span in spans],
            "start_local_ns": [span.start_local_ns for span in spans],
            "end_local_ns": [span.end_local_ns for span in spans],
            "clock_domain": [span.clock_domain for span in spans],
            "host": [span.host for span in spans],
            "service": [span.service for span in spans],
            "attributes_string": [
                {k: v for k, v in span.attributes.items() if type(v) is str} for span in spans
            ],
            "attributes_int": [
                {k: v for k, v in span.attributes.items() if type(v) is int} for span in spans
            ],
            "attributes_other": other,
            "event_name": [[event.name for event in span.events] for span in spans],
            "event_time_local_ns": [
                [event.time_local_ns for event in span.events] for span in spans
            ],
            "event_attributes": [
                [_attributes_text(event.attributes) for event in span.events] for span in spans
            ],
            "links": [_links_text(span.links) for span in spans],
            "resource": [_resource_text(span.resource, resources) for span in spans],
            "scope_name": [span.scope_name for span in spans],
            "scope_version": [span.scope_version for span in spans],
            "status_code": [min(span.status_code, 255) for span in spans],
            "status_message": [span.status_message for span in spans],
            "trace_state": [span.trace_state for span in spans],
            "flags": [span.flags for span in spans],
        }
        self._engine.insert("spans", columns)
        self.revision += 1

    def count(self) -> int:
        """Number of distinct spans."""
        return self._engine.scalar_int("SELECT count() FROM spans FINAL")

    def trace(self, trace_id: str, *, tenant: str = "") -> list[Span]:
        """All spans of a trace, by raw start, then id; empty if there is none."""
        rows = self._engine.rows(
            f"SELECT {_COLUMNS} FROM spans FINAL"
            " WHERE trace_id = unhex({trace_id:String})"
            " AND ({tenant:String} = '' OR tenant = {tenant:String})"
            " ORDER BY start_local_ns, span_id, kind",
            {"trace_id": trace_id, "tenant": tenant},
        )
        return [_span(row) for row in rows]

    def search(self, query: TraceQuery) -> list[TraceSummary]:
        """Traces that match, newest raw start first."""
        parameters: dict[str, Parameter] = {
            "tenant": query.tenant,
            "service": query.service,
            "host": query.host,
            "name": query.name,
            "job": query.job,
            "step": -1 if query.step is None else query.step,
            "any_step": int(query.step is None),
            "start_min": query.start_min_local_ns,
            "start_max": query.start_max_local_ns,
            "limit": max(1, min(query.limit_count, TRACES_LIMIT_MAX)),
        }
        rows = self._engine.rows(_SEARCH_SQL, parameters)
        return [
            TraceSummary(
                tenant=row[0],
                trace_id=row[1].lower(),
                root_name=row[2],
                start_local_ns=row[3],
                end_local_ns=row[4],
                span_count=row[5],
                hosts=tuple(row[6]),
                job=row[7],
                step=row[8] if row[9] else None,
            )
            for row in rows
        ]

    def services(self, *, tenant: str = "") -> list[str]:
        """Names of all services, in order."""
        rows = self._engine.rows(
            "SELECT DISTINCT service FROM spans"
            " WHERE service != '' AND ({tenant:String} = '' OR tenant = {tenant:String})"
            " ORDER BY service LIMIT {limit:UInt32}",
            {"tenant": tenant, "limit": NAMES_LIMIT_MAX},
        )
        return [row[0] for row in rows]

    def operations(self, service: str, *, tenant: str = "") -> list[tuple[str, SpanKind]]:
        """Names of a service's spans with their kinds, in order."""
        rows = self._engine.rows(
            "SELECT DISTINCT name, kind FROM spans WHERE service = {service:String}"
            " AND ({tenant:String} = '' OR tenant = {tenant:String})"
            " ORDER BY name, kind LIMIT {limit:UInt32}",
            {"service": service, "tenant": tenant, "limit": NAMES_LIMIT_MAX},
        )
        return [(row[0], SpanKind(row[1])) for row in rows]


_SEARCH_SQL = f"""
SELECT tenant, hex(trace_id),
    anyIf(name, parent_span_id = unhex('0000000000000000')) AS root_name,
    min(start_local_ns) AS start_local, max(end_local_ns) AS end_local, count() AS span_count,
    arraySort(groupUniqArray(host)) AS hosts,
    max(attributes_string['{JOB_ATTRIBUTE}']) AS job,
    maxIf(attributes_int['{STEP_ATTRIBUTE}'], mapContains(attributes_int, '{STEP_ATTRIBUTE}')),
    max(mapContains(attributes_int, '{STEP_ATTRIBUTE}'))
FROM spans FINAL
WHERE {{tenant:String}} = '' OR tenant = {{tenant:String}}
GROUP BY tenant, trace_id
HAVING start_local >= {{start_min:Int64}} AND start_local <= {{start_max:Int64}}
    AND ({{service:String}} = '' OR countIf(service = {{service:String}}) > 0)
    AND ({{host:String}} = '' OR countIf(host = {{host:String}}) > 0)
    AND ({{name:String}} = '' OR countIf(name = {{name:String}}) > 0)
    AND ({{job:String}} = ''
        OR countIf(attributes_string['{JOB_ATTRIBUTE}'] = {{job:String}}) > 0)
    AND ({{any_step:UInt8}} = 1
        OR countIf(mapContains(attributes_int, '{STEP_ATTRIBUTE}')
            AND attributes_int['{STEP_ATTRIBUTE}'] = {{step:Int64}}) > 0)
ORDER BY start_local DESC, trace_id
LIMIT {{limit:UInt32}}
"""


def _other_attributes(attributes: Attributes) -> dict[str, str]:
    """Values that are neither text nor integer, as OTLP/JSON text by key."""
    return {
        key: _attributes_text({key: value})
        for key, value in attributes.items()
        if type(value) is not str and type(value) is not int
    }


def _attributes_text(attributes: Attributes) -> str:
    if not attributes:
        return ""
    return json.dumps(
        attributes_to_json(attributes), separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _attributes_value(text: str) -> dict[str, AttributeValue]:
    return attributes_from_json(json.loads(text)) if text else {}


def _resource_text(resource: Attributes, known: dict[int, str]) -> str:
    text = known.get(id(resource))
    if text is None:
        text = known[id(resource)] = _attributes_text(resource)
    return text


def _links_text(links: Iterable[SpanLink]) -> str:
    items = [
        {
            "traceId": link.trace_id,
            "spanId": link.span_id,
            "traceState": link.trace_state,
            "flags": link.flags,
            "attributes": attributes_to_json(link.attributes),
        }
        for link in links
    ]
    return (
        json.dumps(items, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        if items
        else ""
    )


def _links_value(text: str) -> tuple[SpanLink, ...]:
    return tuple(
        SpanLink(
            trace_id=item["traceId"],
            span_id=item["spanId"],
            trace_state=item["traceState"],
            flags=item["flags"],
            attributes=attributes_from_json(item["attributes"]),
        )
        for item in (json.loads(text) if text else ())
    )


def _span(row: Row) -> Span:
    attributes: dict[str, AttributeValue] = {**row[11], **row[12]}
    for text in row[13].values():
        attributes.update(_attributes_value(text))
    parent = row[3].lower()
    return Span(
        tenant=row[0],
        trace_id=row[1].lower(),
        span_id=row[2].lower(),
        parent_span_id=parent if parent.strip("0") else "",
        name=row[4],
        kind=SpanKind(row[5]),
        start_local_ns=row[6],
        end_local_ns=row[7],
        clock_domain=row[8],
        host=row[9],
        service=row[10],
        attributes=attributes,
        events=tuple(
            SpanEvent(name=name, time_local_ns=time_ns, attributes=_attributes_value(text))
            for name, time_ns, text in zip(row[14], row[15], row[16], strict=True)
        ),
        links=_links_value(row[17]),
        resource=_attributes_value(row[18]),
        scope_name=row[19],
        scope_version=row[20],
        status_code=row[21],
        status_message=row[22],
        trace_state=row[23],
        flags=row[24],
    )
