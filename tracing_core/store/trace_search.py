# SPDX-License-Identifier: Apache-2.0
"""Which traces to list: one query over the parts of traces, or over spans for an attribute.

A part is what one segment holds of a trace. A trace is found if every condition is met by one of
its parts; it is listed by the raw start of the newest part that meets one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tracing_core.store.engine import Engine, Parameter

TRACES_LIMIT_MAX = 1000
"""Traces per answer; a page never needs more, and a cursor comes later."""

INT64_MAX = 2**63 - 1

AttributeScalar = str | int | float | bool

_OVERSAMPLING = 3
"""Candidate rows per trace asked for: a trace may have several parts, or spans that match."""


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
    attributes: Mapping[str, AttributeScalar] = field(default_factory=dict)
    """Attributes that one span has; service, host and name are then of that span too."""
    duration_min_ns: int = 0
    """From the first raw start to the last raw end of a part; of the span with `attributes`."""
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


def search_traces(engine: Engine, query: TraceQuery) -> list[TraceSummary]:
    """Traces that match, newest raw start first."""
    limit = max(1, min(query.limit_count, TRACES_LIMIT_MAX))
    found = _candidates(engine, query, limit)
    if not found:
        return []
    summaries = _summaries(engine, found)
    return sorted(summaries, key=lambda item: (-item.start_local_ns, item.trace_id))


def _candidates(engine: Engine, query: TraceQuery, limit: int) -> list[tuple[str, str]]:
    """Tenant and hex id of the newest matching traces."""
    rows_limit = limit * _OVERSAMPLING
    while True:
        sql, parameters = _candidate_sql(query, rows_limit)
        rows = engine.rows(sql, parameters)
        distinct = dict.fromkeys((str(row[0]), str(row[1])) for row in rows)
        if len(distinct) >= limit or len(rows) < rows_limit:
            return list(distinct)[:limit]
        rows_limit *= 4


def _candidate_sql(query: TraceQuery, rows_limit: int) -> tuple[str, dict[str, Parameter]]:
    parameters: dict[str, Parameter] = {"limit": rows_limit}
    always = []
    if query.tenant:
        always.append("tenant = {tenant:String}")
        parameters["tenant"] = query.tenant
    if query.start_min_local_ns > -(2**63):
        always.append("start_local_ns >= {start_min:Int64}")
        parameters["start_min"] = query.start_min_local_ns
    if query.start_max_local_ns < INT64_MAX:
        always.append("start_local_ns <= {start_max:Int64}")
        parameters["start_max"] = query.start_max_local_ns
    if query.duration_min_ns > 0:
        always.append("end_local_ns - start_local_ns >= {duration_min:Int64}")
        parameters["duration_min"] = query.duration_min_ns
    run = _run_conditions(query, parameters)
    if query.attributes:
        return _span_sql(query, always, run, parameters), parameters
    return _part_sql(always, run + _member_conditions(query, parameters)), parameters


def _run_conditions(query: TraceQuery, parameters: dict[str, Parameter]) -> list[str]:
    conditions = []
    if query.job:
        conditions.append("job = {job:String}")
        parameters["job"] = query.job
    if query.step is not None:
        conditions.append("step = {step:Int64}")
        parameters["step"] = query.step
    return conditions


def _member_conditions(query: TraceQuery, parameters: dict[str, Parameter]) -> list[str]:
    conditions = []
    for column, value in (
        ("services", query.service),
        ("hosts", query.host),
        ("names", query.name),
    ):
        if value:
            conditions.append(f"has({column}, {{{column}:String}})")
            parameters[column] = value
    return conditions


def _part_sql(always: list[str], conditions: list[str]) -> str:
    """One condition needs no grouping; several may be met by different parts of a trace."""
    if len(conditions) <= 1:
        return (
            "SELECT tenant, lower(hex(trace_id)) FROM trace_parts"
            f"{_where(always + conditions)} ORDER BY start_local_ns DESC LIMIT {{limit:UInt32}}"
        )
    any_condition = f"({' OR '.join(conditions)})"
    every = " AND ".join(f"max({condition})" for condition in conditions)
    return (
        "SELECT tenant, lower(hex(trace_id)) FROM trace_parts"
        f"{_where([*always, any_condition])} GROUP BY tenant, trace_id HAVING {every}"
        " ORDER BY max(start_local_ns) DESC LIMIT {limit:UInt32}"
    )


def _span_sql(
    query: TraceQuery, always: list[str], run: list[str], parameters: dict[str, Parameter]
) -> str:
    conditions = list(always)
    for number, (key, value) in enumerate(query.attributes.items()):
        column, type_name = _attribute_column(value)
        conditions.append(f"has(mapValues({column}), {{value{number}:{type_name}}})")
        conditions.append(f"mapContains({column}, {{key{number}:String}})")
        conditions.append(f"{column}[{{key{number}:String}}] = {{value{number}:{type_name}}}")
        parameters[f"key{number}"] = key
        parameters[f"value{number}"] = int(value) if isinstance(value, bool) else value
    for column, text in (
        ("service", query.service),
        ("host", query.host),
        ("name", query.name),
    ):
        if text:
            conditions.append(f"{column} = {{{column}:String}}")
            parameters[column] = text
    if run:
        parts = "SELECT tenant, trace_id FROM trace_parts"
        conditions += [f"(tenant, trace_id) IN ({parts}{_where([item])})" for item in run]
    return (
        "SELECT tenant, lower(hex(trace_id)) FROM span_rows"
        f"{_where(conditions)} ORDER BY start_local_ns DESC LIMIT {{limit:UInt32}}"
    )


def _attribute_column(value: AttributeScalar) -> tuple[str, str]:
    """The typed column that holds such a value, and the type of a query's parameter."""
    match value:
        case bool():
            return "attributes_bool", "Bool"
        case str():
            return "attributes_string", "String"
        case int():
            return "attributes_int", "Int64"
        case _:
            return "attributes_double", "Float64"


def _where(conditions: list[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


_SUMMARY_SQL = """
SELECT tenant, lower(hex(trace_id)) AS id,
    argMinIf(root_name, start_local_ns, root_name != ''), min(start_local_ns), max(end_local_ns),
    arraySort(arrayDistinct(arrayFlatten(groupArray(hosts)))), max(job), max(step)
FROM trace_parts
WHERE tenant IN {tenants:Array(String)}
    AND trace_id IN (SELECT toFixedString(unhex(arrayJoin({ids:Array(String)})), 16))
GROUP BY tenant, trace_id
"""

_COUNT_SQL = """
SELECT tenant, lower(hex(trace_id)), uniqExact(span_id, kind)
FROM span_rows
WHERE tenant IN {tenants:Array(String)}
    AND trace_id IN (SELECT toFixedString(unhex(arrayJoin({ids:Array(String)})), 16))
    AND segment IN (
        SELECT segment FROM trace_parts
        WHERE tenant IN {tenants:Array(String)}
            AND trace_id IN (SELECT toFixedString(unhex(arrayJoin({ids:Array(String)})), 16))
    )
GROUP BY tenant, trace_id
"""


def _summaries(engine: Engine, found: list[tuple[str, str]]) -> list[TraceSummary]:
    parameters: dict[str, Parameter] = {
        "tenants": sorted({tenant for tenant, _ in found}),
        "ids": sorted({trace_id for _, trace_id in found}),
    }
    counts = {(row[0], row[1]): int(row[2]) for row in engine.rows(_COUNT_SQL, parameters)}
    wanted = set(found)
    return [
        TraceSummary(
            tenant=row[0],
            trace_id=row[1],
            root_name=row[2],
            start_local_ns=row[3],
            end_local_ns=row[4],
            span_count=counts.get((row[0], row[1]), 0),
            hosts=tuple(row[5]),
            job=row[6],
            step=None if row[7] < 0 else row[7],
        )
        for row in engine.rows(_SUMMARY_SQL, parameters)
        if (row[0], row[1]) in wanted
    ]
