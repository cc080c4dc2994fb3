# SPDX-License-Identifier: Apache-2.0
"""Pages of the list of traces: by the first raw start of each, newest first.

A trace's place is that of its earliest part, and every condition is met by one of its parts. Which
traces began last is looked for among those with a recent part first: none of the others can have
begun after the oldest of these parts.
"""

from collections.abc import Sequence

from tracing_core.store.engine import Engine, Parameter
from tracing_core.store.trace_query import INT64_MAX
from tracing_core.store.trace_search import TraceQuery, TraceSummary, summaries

RECENT_PARTS = 5_000
"""Parts that a page is looked for among before all are."""

Place = tuple[int, str, str]
"""-start_local_ns, tenant, trace id: what traces are ordered by."""


def place_of(summary: TraceSummary) -> Place:
    """Where a trace stands in the list."""
    return -summary.start_local_ns, summary.tenant, summary.trace_id


def trace_page(
    engine: Engine, query: TraceQuery, *, after: Place | None, limit: int
) -> list[TraceSummary]:
    """Traces behind `after` that match the query's texts and step, in order."""
    parameters, every = _conditions(query)
    after_ns, after_tenant, after_id = after or (-(2**63) + 1, "", "")
    parameters |= {
        "tenant": query.tenant, "limit": limit, "after_ns": after_ns,
        "upto": min(-after_ns, INT64_MAX), "after_tenant": after_tenant, "after_id": after_id,
    }  # fmt: skip
    since = _start_of_recent(engine, parameters)
    if since is not None:
        found = _among(engine, parameters, every, f"start_local_ns >= {since}")
        if len(found) == limit and found[-1][2] >= since:
            return _summed_up(engine, found)
    return _summed_up(engine, _among(engine, parameters, every, "1"))


def _conditions(query: TraceQuery) -> tuple[dict[str, Parameter], list[str]]:
    """Parameters, and what some part of a trace must meet, each."""
    parameters: dict[str, Parameter] = {}
    every: list[str] = []
    for name, value, condition in (
        ("service", query.service, "has(services, {service:String})"),
        ("host", query.host, "has(hosts, {host:String})"),
        ("name", query.name, "has(names, {name:String})"),
        ("job", query.job, "job = {job:String}"),
    ):
        if value:
            parameters[name] = value
            every.append(f"max({condition})")
    if query.step is not None:
        parameters["step"] = query.step
        every.append("max(step = {step:Int64})")
    return parameters, every


_OF_TENANT = "({tenant:String} = '' OR tenant = {tenant:String})"
_UPTO = "start_local_ns <= {upto:Int64}"


def _start_of_recent(engine: Engine, parameters: dict[str, Parameter]) -> int | None:
    """Start of the oldest of the newest parts that a page's traces can begin with."""
    rows = engine.rows(
        "SELECT min(start_local_ns), count() FROM (SELECT start_local_ns FROM trace_times"
        f" WHERE {_OF_TENANT} AND {_UPTO} ORDER BY start_local_ns DESC LIMIT {RECENT_PARTS})",
        parameters,
    )
    return int(rows[0][0]) if rows[0][1] == RECENT_PARTS else None


def _among(
    engine: Engine, parameters: dict[str, Parameter], every: Sequence[str], recent: str
) -> list[tuple[str, str, int]]:
    """(tenant, id, start) of the first traces of a page that have a part as `recent` says."""
    having = " AND ".join(
        ("(-first_ns, tenant, id) > ({after_ns:Int64}, {after_tenant:String}, {after_id:String})",
         *every)
    )  # fmt: skip
    rows = engine.rows(
        "SELECT tenant, lower(hex(trace_id)) AS id, min(start_local_ns) AS first_ns"
        f" FROM trace_parts WHERE {_OF_TENANT} AND trace_id IN (SELECT trace_id FROM trace_times"
        f" WHERE {_OF_TENANT} AND {_UPTO} AND {recent})"
        f" GROUP BY tenant, trace_id HAVING {having}"
        " ORDER BY -first_ns, tenant, id LIMIT {limit:UInt32}",
        parameters,
    )
    return [(row[0], row[1], int(row[2])) for row in rows]


def _summed_up(engine: Engine, found: Sequence[tuple[str, str, int]]) -> list[TraceSummary]:
    if not found:
        return []
    listed = summaries(engine, [(tenant, trace_id) for tenant, trace_id, _ in found])
    return sorted(listed, key=place_of)
