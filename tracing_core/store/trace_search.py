# SPDX-License-Identifier: Apache-2.0
"""Which traces to list: one query over the parts of traces, or over spans for an attribute.

A part is what one segment holds of a trace. A trace is found if every condition is met by one of
its parts; it is listed by the raw start of the newest part that meets one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from tracing_core.store.engine import Engine, Parameter
from tracing_core.store.trace_query import NEWEST, Conditions, TraceQuery

__all__ = ["TRACES_LIMIT_MAX", "TraceQuery", "TraceSummary", "search_traces", "summaries"]

TRACES_LIMIT_MAX = 1000
"""Traces per answer; a page never needs more, and a cursor comes later."""

RECENT_PARTS = (500, 20_000)
"""An attribute that many spans have is found in so many of the newest parts of traces."""

ROWS_PER_TRACE = {"trace_times": 2, "span_rows": 32}
"""Rows that are read at first for each trace that is wanted; most traces have no more."""


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


def search_traces(engine: Engine, query: TraceQuery) -> list[TraceSummary]:
    """Traces that match, newest raw start first."""
    limit = max(1, min(query.limit_count, TRACES_LIMIT_MAX))
    wanted = Conditions(query)
    found = _by_spans(engine, wanted, limit) if wanted.of_span else _by_parts(engine, wanted, limit)
    if not found:
        return []
    return sorted(summaries(engine, found), key=lambda item: (-item.start_local_ns, item.trace_id))


_Trace = tuple[str, str]
"""Tenant and hex id."""
_ONE_THREAD = " SETTINGS max_threads = 1"
"""For little work, which starting threads would double."""
_MORE_ROWS = 8
"""Times as many rows are asked for when they were of too few traces."""
_SINCE = "start_local_ns >= {since:Int64}"


def _by_parts(engine: Engine, wanted: Conditions, limit: int) -> list[_Trace]:
    """By what stands in the parts of traces.

    Most traces meet all conditions in one part, and the newest of those are found quickly. A
    trace that meets them in several parts is among the newest only if one of these is newer than
    the last of the others.
    """
    found = _newest(engine, "trace_times", wanted.of_part, wanted, limit)
    if len(wanted.of_part) > 1:
        if len(found) == limit:
            since_ns = min(found.values())
            candidates = _prewhere([_SINCE, *_any_of(wanted)])
            found |= _by_several_parts(engine, wanted, limit, candidates, since_ns)
        else:
            candidates = _of_several_parts(wanted)
            if engine.rows(
                f"SELECT trace_id FROM trace_times{candidates} LIMIT 1", wanted.parameters
            ):
                found |= _by_several_parts(engine, wanted, limit, candidates)
    newest_first = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [trace for trace, _ in newest_first[:limit]]


def _by_spans(engine: Engine, wanted: Conditions, limit: int) -> list[_Trace]:
    """By what stands in one span: in those of the newest traces, then of more, then of all."""
    for part_count in RECENT_PARTS:
        rows = engine.rows(
            "SELECT min(start_local_ns), count() FROM (SELECT start_local_ns FROM trace_times"
            f"{_prewhere(wanted.always)}{wanted.newest_first})",
            {**wanted.parameters, "limit": part_count},
        )
        since_ns, count = rows[0]
        if count < part_count:
            break
        found = _newest(engine, "span_rows", [_SINCE, *wanted.of_span], wanted, limit, since_ns)
        if len(found) == limit:
            return list(found)
    return list(_newest(engine, "span_rows", wanted.of_span, wanted, limit))


def _newest(
    engine: Engine,
    table: str,
    conditions: Sequence[str],
    wanted: Conditions,
    limit: int,
    since_ns: int = -(2**63),
) -> dict[_Trace, int]:
    """The newest traces with a row that meets all conditions, and that row's start.

    A trace may have many rows, so more are asked for than traces.
    """
    order = wanted.newest_first if table == "trace_times" else NEWEST
    count = ROWS_PER_TRACE[table] * limit
    while True:
        rows = engine.rows(
            f"SELECT tenant, lower(hex(trace_id)), start_local_ns FROM {table}"
            f"{_prewhere([*wanted.always, *conditions])}{order}",
            {**wanted.parameters, "limit": count, "since": since_ns},
        )
        found: dict[_Trace, int] = {}
        for tenant, trace_id, start_ns in rows:
            found.setdefault((tenant, trace_id), start_ns)
        if len(found) >= limit or len(rows) < count:
            return dict(islice(found.items(), limit))
        count *= _MORE_ROWS


def _any_of(wanted: Conditions) -> list[str]:
    return [*wanted.always, f"({' OR '.join(wanted.of_part)})"]


def _of_several_parts(wanted: Conditions) -> str:
    """Traces that have more than one part, one of which meets the first condition."""
    first = _prewhere([*wanted.always, wanted.of_part[0]])
    among = f"trace_id IN (SELECT trace_id FROM trace_times{first})"
    return f"{_prewhere([*wanted.always, among])} GROUP BY trace_id HAVING count() > 1"


def _by_several_parts(
    engine: Engine, wanted: Conditions, limit: int, candidates: str, since_ns: int = -(2**63)
) -> dict[_Trace, int]:
    """Of the candidates the traces whose parts together meet all conditions, and the start of
    the newest such part."""
    every = " AND ".join(f"max({condition})" for condition in wanted.of_part)
    rows = engine.rows(
        "SELECT tenant, lower(hex(trace_id)), max(start_local_ns) FROM trace_parts PREWHERE "
        f"{''.join(f'{item} AND ' for item in wanted.of_tenant)}"
        f"trace_id IN (SELECT trace_id FROM trace_times{candidates})"
        f" WHERE {' AND '.join(_any_of(wanted))} GROUP BY tenant, trace_id HAVING {every}"
        " ORDER BY max(start_local_ns) DESC LIMIT {limit:UInt32}",
        {**wanted.parameters, "limit": limit, "since": since_ns},
    )
    return {(tenant, trace_id): start_ns for tenant, trace_id, start_ns in rows}


def _prewhere(conditions: Sequence[str]) -> str:
    return f" PREWHERE {' AND '.join(conditions)}" if conditions else ""


_IS_LISTED = (
    "tenant IN {tenants:Array(String)}"
    " AND trace_id IN (SELECT toFixedString(unhex(arrayJoin({ids:Array(String)})), 16))"
)


def _listed(traces: Iterable[_Trace]) -> dict[str, Parameter]:
    """Parameters of `_IS_LISTED`; an id that two tenants have is found of both."""
    traces = list(traces)
    return {
        "tenants": sorted({tenant for tenant, _ in traces}),
        "ids": sorted({trace_id for _, trace_id in traces}),
    }


_SUMMARY_SQL = f"""
SELECT tenant, lower(hex(trace_id)) AS id,
    argMinIf(root_name, start_local_ns, root_name != ''), min(start_local_ns), max(end_local_ns),
    arraySort(arrayDistinct(arrayFlatten(groupArray(hosts)))), max(job), max(step),
    sum(span_count), count()
FROM trace_parts
PREWHERE {_IS_LISTED}
GROUP BY tenant, trace_id{_ONE_THREAD}
"""

_COUNT_SQL = f"""
SELECT tenant, lower(hex(trace_id)), uniqExact(span_id, kind)
FROM span_rows
WHERE {_IS_LISTED} AND segment IN (SELECT segment FROM trace_parts WHERE {_IS_LISTED})
GROUP BY tenant, trace_id
"""


def summaries(engine: Engine, found: Sequence[_Trace]) -> list[TraceSummary]:
    """What lists show of these traces, by tenant and id; in no order."""
    wanted = set(found)
    rows = {
        (row[0], row[1]): row
        for row in engine.rows(_SUMMARY_SQL, _listed(found))
        if (row[0], row[1]) in wanted
    }
    # Spans of one part are distinct; a span that was sent again may stand in two.
    several = [trace for trace, row in rows.items() if row[9] > 1]
    exact = engine.rows(_COUNT_SQL, _listed(several)) if several else []
    counts = {(row[0], row[1]): int(row[2]) for row in exact}
    return [
        TraceSummary(
            tenant=row[0],
            trace_id=row[1],
            root_name=row[2],
            start_local_ns=row[3],
            end_local_ns=row[4],
            span_count=counts[trace] if trace in counts else row[8],
            hosts=tuple(row[5]),
            job=row[6],
            step=None if row[7] < 0 else row[7],
        )
        for trace, row in rows.items()
    ]
