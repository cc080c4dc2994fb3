# SPDX-License-Identifier: Apache-2.0
"""Spans of schema version 1, brought into today's tables when an old store is opened.

Version 1 kept other attributes than text and integers, events, links and resources as OTLP/JSON
text. Its table is dropped once all its rows are in the new one; a carry-over that was cut off
begins again, and readers take repeated spans once.
"""

import json

from tracing_core.model import Attributes, AttributeValue, Span, SpanEvent, SpanKind, SpanLink
from tracing_core.otlp.json_codec import attributes_from_json
from tracing_core.store.engine import Engine, Parameter, Row
from tracing_core.store.spans import SpanStore

ROWS_AT_A_TIME = 20_000
"""Spans held in memory at once."""

_COLUMNS = (
    "tenant, lower(hex(trace_id)), lower(hex(span_id)), lower(hex(parent_span_id)), name, kind,"
    " start_local_ns, end_local_ns, clock_domain, host, service, attributes_string,"
    " attributes_int, attributes_other, event_name, event_time_local_ns, event_attributes, links,"
    " resource, scope_name, scope_version, status_code, status_message, trace_state, flags"
)

_PAGE_SQL = f"""
SELECT {_COLUMNS} FROM spans FINAL
WHERE (tenant, lower(hex(trace_id)), lower(hex(span_id)))
    > ({{tenant:String}}, {{trace_id:String}}, {{span_id:String}})
ORDER BY tenant, trace_id, span_id
LIMIT {ROWS_AT_A_TIME} WITH TIES
"""

_NO_PARENT = "0" * 16


def carry_over(engine: Engine, spans: SpanStore) -> int:
    """Moves the rows of version 1, if there are any; returns their number."""
    if not engine.scalar_int(
        "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = 'spans'"
    ):
        return 0
    count = 0
    after: dict[str, Parameter] = {"tenant": "", "trace_id": "", "span_id": ""}
    while True:
        rows = engine.rows(_PAGE_SQL, after)
        spans.append([_span(row) for row in rows])
        count += len(rows)
        if len(rows) < ROWS_AT_A_TIME:
            engine.command("DROP TABLE spans SYNC")
            return count
        after = {"tenant": rows[-1][0], "trace_id": rows[-1][1], "span_id": rows[-1][2]}


def _span(row: Row) -> Span:
    attributes: dict[str, AttributeValue] = {**row[11], **row[12]}
    for text in row[13].values():
        attributes.update(_attributes(text))
    return Span(
        tenant=row[0],
        trace_id=row[1],
        span_id=row[2],
        parent_span_id="" if row[3] == _NO_PARENT else row[3],
        name=row[4],
        kind=SpanKind(row[5]),
        start_local_ns=row[6],
        end_local_ns=row[7],
        clock_domain=row[8],
        host=row[9],
        service=row[10],
        attributes=attributes,
        events=tuple(
            SpanEvent(name=name, time_local_ns=time_ns, attributes=_attributes(text))
            for name, time_ns, text in zip(row[14], row[15], row[16], strict=True)
        ),
        links=tuple(
            SpanLink(
                trace_id=item["traceId"],
                span_id=item["spanId"],
                trace_state=item["traceState"],
                flags=item["flags"],
                attributes=attributes_from_json(item["attributes"]),
            )
            for item in (json.loads(row[17]) if row[17] else ())
        ),
        resource=_attributes(row[18]),
        scope_name=row[19],
        scope_version=row[20],
        status_code=row[21],
        status_message=row[22],
        trace_state=row[23],
        flags=row[24],
    )


def _attributes(text: str) -> Attributes:
    return attributes_from_json(json.loads(text)) if text else {}
