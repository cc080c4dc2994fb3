# SPDX-License-Identifier: Apache-2.0
"""Jaeger's query API over the store, so that Grafana and Jaeger's UI can use the service.

Corrected time is shown; `raw=true`, Jaeger's own switch, shows the stamps as they are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from tracing_core.export import PlacedSpan, TimeLine, place
from tracing_core.export.jaeger import dependencies, jaeger_trace
from tracing_core.model import Span
from tracing_core.service.jaeger_query import (
    INT64_MAX,
    JaegerQuery,
    JaegerQueryError,
    parse_query,
    trace_id,
)
from tracing_core.store import LATEST, Store, TraceQuery
from tracing_core.store.trace_search import TRACES_LIMIT_MAX

DEPENDENCY_TRACES_MAX = 200
"""Traces that dependencies are counted in, the newest of the window: a sample, not a census."""
DEPENDENCY_LOOKBACK_MS = 24 * 3600 * 1000
"""Jaeger's default."""
MILLIS_NS = 10**6
MILLIS_MAX = INT64_MAX // MILLIS_NS
JAEGER_PREFIX = "/api"

Answer = Callable[[Request], JSONResponse]


def jaeger_router(store: Store) -> APIRouter:
    """`/api/...` as Jaeger has it."""
    router = APIRouter(prefix=JAEGER_PREFIX, tags=["Jaeger"])

    def get(path: str, summary: str) -> Callable[[Answer], Answer]:
        return lambda answer: router.get(path, summary=summary)(_with_jaeger_errors(answer))

    def placed(spans: Sequence[Span], time_line: TimeLine) -> list[PlacedSpan]:
        return place(spans, store.corrections.table(LATEST), time_line)

    def answer_traces(found: Sequence[Sequence[Span]], request: Request) -> JSONResponse:
        time_line = _time_line(request)
        return _answer([jaeger_trace(placed(spans, time_line), time_line) for spans in found])

    @get("/services", "Names of all services")
    def services(request: Request) -> JSONResponse:
        names = store.spans.services(tenant=_one(request, "tenant"))
        return _answer(names, total=len(names))

    @get("/services/{service:path}/operations", "Names of a service's operations")
    def service_operations(request: Request) -> JSONResponse:
        service = str(request.path_params["service"])
        found = store.spans.operations(service, tenant=_one(request, "tenant"))
        names = sorted({name for name, _ in found})
        return _answer(names, total=len(names))

    @get("/operations", "A service's operations with their kinds")
    def operations(request: Request) -> JSONResponse:
        service = _one(request, "service")
        if not service:
            raise JaegerQueryError("parameter 'service' is required")
        wanted = _one(request, "spanKind")
        found = [
            {"name": name, "spanKind": kind.name.lower()}
            for name, kind in store.spans.operations(service, tenant=_one(request, "tenant"))
            if not wanted or kind.name.lower() == wanted
        ]
        return _answer(found, total=len(found))

    @get("/traces", "Traces by service, operation, tags, duration and time")
    def traces(request: Request) -> JSONResponse:
        query = parse_query(_parameters(request))
        tenant = _one(request, "tenant")
        if query.trace_ids:
            by_id = (store.spans.trace(one, tenant=tenant) for one in query.trace_ids)
            return answer_traces([spans for spans in by_id if spans], request)
        return answer_traces(list(_matching(store, query, tenant)), request)

    @get("/traces/{trace}", "One trace")
    def trace(request: Request) -> JSONResponse:
        identity = trace_id(str(request.path_params["trace"]))
        spans = store.spans.trace(identity, tenant=_one(request, "tenant"))
        if not spans:
            return jaeger_error(HTTPStatus.NOT_FOUND, "trace not found")
        return answer_traces([spans], request)

    @get("/dependencies", "Calls between services, counted in a sample of traces")
    def service_dependencies(request: Request) -> JSONResponse:
        end_ns = min(MILLIS_NS * _millis(request, "endTs", MILLIS_MAX), INT64_MAX)
        lookback_ns = min(
            MILLIS_NS * _millis(request, "lookback", DEPENDENCY_LOOKBACK_MS), INT64_MAX
        )
        window = TraceQuery(
            tenant=_one(request, "tenant"),
            start_min_local_ns=end_ns - lookback_ns if _one(request, "endTs") else -(2**63),
            start_max_local_ns=end_ns,
            limit_count=DEPENDENCY_TRACES_MAX,
        )
        found = (
            place(store.spans.trace(item.trace_id, tenant=item.tenant), store.corrections.table())
            for item in store.spans.search(window)
        )
        return _answer(dependencies(found))

    return router


def _matching(store: Store, query: JaegerQuery, tenant: str) -> Iterator[list[Span]]:
    """Traces with a span that meets the whole query."""
    looked_at: set[tuple[str, str]] = set()
    count = 0
    for search in _searches(query, tenant):
        for item in store.spans.search(search):
            if (item.tenant, item.trace_id) in looked_at:
                continue
            looked_at.add((item.tenant, item.trace_id))
            spans = store.spans.trace(item.trace_id, tenant=item.tenant)
            if any(query.matches(span) for span in spans):
                yield spans
                count += 1
                if count == query.limit_count:
                    return


def _searches(query: JaegerQuery, tenant: str) -> Iterator[TraceQuery]:
    """Where to look: by an attribute of spans in the whole store, once for each type that the tag's
    text may have; then in the newest traces, for tags of resources and events."""
    base = TraceQuery(
        tenant=tenant,
        service=query.service,
        name=query.operation,
        start_min_local_ns=query.start_min_local_ns,
        start_max_local_ns=query.start_max_local_ns,
        duration_min_ns=query.duration_min_ns,
        limit_count=TRACES_LIMIT_MAX if query.looks_inside else query.limit_count,
    )
    for key, value in query.typed_tag():
        yield replace(base, attributes={key: value})
    yield base


def _with_jaeger_errors(answer: Answer) -> Answer:
    @wraps(answer)
    def checked(request: Request) -> JSONResponse:
        try:
            return answer(request)
        except JaegerQueryError as error:
            return jaeger_error(HTTPStatus.BAD_REQUEST, str(error))

    return checked


def _answer(data: Any, *, total: int = 0) -> JSONResponse:  # noqa: ANN401 - any JSON value
    return JSONResponse({"data": data, "total": total, "limit": 0, "offset": 0, "errors": None})


def jaeger_error(
    status: HTTPStatus, message: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    """An error as Jaeger's clients expect it."""
    body = {"data": None, "total": 0, "limit": 0, "offset": 0}
    return JSONResponse(
        {**body, "errors": [{"code": int(status), "msg": message}]},
        status_code=status,
        headers=headers,
    )


def _parameters(request: Request) -> dict[str, list[str]]:
    return {key: request.query_params.getlist(key) for key in request.query_params}


def _one(request: Request, name: str) -> str:
    return request.query_params.get(name, "")


def _time_line(request: Request) -> TimeLine:
    raw = _one(request, "raw").lower() in ("1", "t", "true")
    return TimeLine.RAW if raw else TimeLine.CORRECTED


def _millis(request: Request, name: str, default: int) -> int:
    text = _one(request, name)
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 13:
        raise JaegerQueryError(f"{name}: expected milliseconds; found {text:.50}")
    return int(text)
