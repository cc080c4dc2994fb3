# SPDX-License-Identifier: Apache-2.0
"""Which traces to list: one query over the parts of traces, or over spans for an attribute.

A part is what one segment holds of a trace. A trace is found if every condition is met by one of
its parts; it is listed by the raw start of the newest part that meets one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tracing_core.store.engine import Engine, Parameter

TRACES_LIMIT_MAX = 1000
"""Traces per answer; a page never needs more, and a cursor comes later."""

INT64_MAX = 2**63 - 1

AttributeScalar = str | int | float | bool

RECENT_PARTS = {"trace_parts": 5_000, "span_rows": 1_000}
"""What many traces have is found among so many of the newest parts of traces, or their spans."""


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
    wanted = _Conditions(query)
    found = _by_spans(engine, wanted, limit) if wanted.of_span else _by_parts(engine, wanted, limit)
    if not found:
        return []
    summaries = summaries(engine, found)
    return sorted(summaries, key=lambda item: (-item.start_local_ns, item.trace_id))


class _Conditions:
    """A query's conditions as SQL, with their parameters."""

    def __init__(self, query: TraceQuery) -> None:
        self.parameters: dict[str, Parameter] = {}
        self.always: list[str] = []
        """Of every part or span."""
        self.of_part: list[str] = []
        """Each of some part."""
        self.of_span: list[str] = []
        """All of one span; with attributes only."""
        self._add_always(query)
        runs = self._texts((("job", query.job),))
        if query.step is not None:
            runs.append("step = {step:Int64}")
            self.parameters["step"] = query.step
        places = (("service", query.service), ("host", query.host), ("name", query.name))
        if query.attributes:
            self.of_span = self._attributes(query) + self._texts(places)
            parts = "SELECT tenant, trace_id FROM trace_parts"
            self.of_span += [f"(tenant, trace_id) IN ({parts} WHERE {run})" for run in runs]
        else:
            members = self._texts(places, condition="has({0}s, {{{0}:String}})")
            self.of_part = runs + members

    def _add_always(self, query: TraceQuery) -> None:
        self.always += self._texts((("tenant", query.tenant),))
        for name, condition, value, is_wanted in (
            ("start_min", "start_local_ns >= {start_min:Int64}", query.start_min_local_ns,
             query.start_min_local_ns > -(2**63)),
            ("start_max", "start_local_ns <= {start_max:Int64}", query.start_max_local_ns,
             query.start_max_local_ns < INT64_MAX),
            ("duration_min", "end_local_ns - start_local_ns >= {duration_min:Int64}",
             query.duration_min_ns, query.duration_min_ns > 0),
        ):  # fmt: skip
            if is_wanted:
                self.always.append(condition)
                self.parameters[name] = value

    def _texts(
        self, values: Iterable[tuple[str, str]], condition: str = "{0} = {{{0}:String}}"
    ) -> list[str]:
        conditions = []
        for name, value in values:
            if value:
                conditions.append(condition.format(name))
                self.parameters[name] = value
        return conditions

    def _attributes(self, query: TraceQuery) -> list[str]:
        conditions = []
        for number, (key, value) in enumerate(query.attributes.items()):
            column, type_name = _attribute_column(value)
            wanted = f"{{value{number}:{type_name}}}"
            conditions.append(f"has(mapValues({column}), {wanted})")
            conditions.append(f"mapContains({column}, {{key{number}:String}})")
            conditions.append(f"{column}[{{key{number}:String}}] = {wanted}")
            self.parameters[f"key{number}"] = key
            self.parameters[f"value{number}"] = int(value) if isinstance(value, bool) else value
        return conditions


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


_Trace = tuple[str, str]
"""Tenant and hex id."""
_NEWEST = " ORDER BY start_local_ns DESC LIMIT {limit:UInt32}"
_SINCE = "start_local_ns >= {since:Int64}"


def _newest(
    engine: Engine, table: str, conditions: Sequence[str], wanted: _Conditions, limit: int
) -> dict[_Trace, int]:
    """The newest traces with a row that meets all conditions, and that row's start.

    First among the newest rows, which is quick where many match; then, if too few do, among all.
    """
    recent_parts = RECENT_PARTS[table]
    recent = engine.rows(
        "SELECT min(start_local_ns), count() FROM (SELECT start_local_ns FROM trace_parts"
        f"{_where(wanted.always)}{_NEWEST})",
        {**wanted.parameters, "limit": recent_parts},
    )
    since_ns, count = recent[0]
    if count == recent_parts:
        found = _newest_since(engine, table, conditions, wanted, limit, since_ns)
        if len(found) == limit:
            return found
    return _newest_since(engine, table, conditions, wanted, limit, -(2**63))


def _newest_since(
    engine: Engine,
    table: str,
    conditions: Sequence[str],
    wanted: _Conditions,
    limit: int,
    since_ns: int,
) -> dict[_Trace, int]:
    rows = engine.rows(
        f"SELECT tenant, lower(hex(trace_id)), start_local_ns FROM {table}"
        f" PREWHERE {_SINCE}{_where([*wanted.always, *conditions])}"
        " ORDER BY start_local_ns DESC LIMIT 1 BY tenant, trace_id LIMIT {limit:UInt32}",
        {**wanted.parameters, "limit": limit, "since": since_ns},
    )
    return {(tenant, trace_id): start_ns for tenant, trace_id, start_ns in rows}


def _by_parts(engine: Engine, wanted: _Conditions, limit: int) -> list[_Trace]:
    """By what stands in the parts of traces.

    Most traces meet all conditions in one part, and the newest of those are found quickly. A
    trace that meets them in several parts is among the newest only if one of these is newer than
    the last of the others.
    """
    found = _newest(engine, "trace_parts", wanted.of_part, wanted, limit)
    if len(wanted.of_part) > 1:
        since_ns = min(found.values()) if len(found) == limit else -(2**63)
        found |= _by_several_parts(engine, wanted, limit, since_ns)
    newest_first = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [trace for trace, _ in newest_first[:limit]]


def _by_several_parts(
    engine: Engine, wanted: _Conditions, limit: int, since_ns: int
) -> dict[_Trace, int]:
    """Traces whose parts together meet all conditions, with one that does not start before
    `since_ns`, and the start of the newest such part."""
    conditions = [*wanted.always, f"({' OR '.join(wanted.of_part)})"]
    every = " AND ".join(f"max({condition})" for condition in wanted.of_part)
    rows = engine.rows(
        "SELECT tenant, lower(hex(trace_id)), max(start_local_ns) FROM trace_parts"
        f" PREWHERE trace_id IN (SELECT trace_id FROM trace_parts PREWHERE {_SINCE}"
        f"{_where(conditions)})"
        f"{_where(conditions)} GROUP BY tenant, trace_id HAVING {every}"
        " ORDER BY max(start_local_ns) DESC LIMIT {limit:UInt32}",
        {**wanted.parameters, "limit": limit, "since": since_ns},
    )
    return {(tenant, trace_id): start_ns for tenant, trace_id, start_ns in rows}


def _by_spans(engine: Engine, wanted: _Conditions, limit: int) -> list[_Trace]:
    """By what stands in one span."""
    return list(_newest(engine, "span_rows", wanted.of_span, wanted, limit))


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


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
WHERE {_IS_LISTED}
GROUP BY tenant, trace_id
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
