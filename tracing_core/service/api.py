# SPDX-License-Identifier: Apache-2.0
"""API v1: what is stored, with corrections applied as of a version."""

import re
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from tracing_core.service import examples, schemas, views
from tracing_core.service.guard import Asking
from tracing_core.service.ingest import Ingest
from tracing_core.service.paging import Cursor, decode_cursor, link_next, page_of_more
from tracing_core.service.problems import not_found
from tracing_core.store import LATEST, Store, TraceQuery
from tracing_core.store.trace_pages import place_of, trace_page
from tracing_core.store.trace_search import TRACES_LIMIT_MAX


def _hex_digits(digits: int) -> Callable[[str], str]:
    """Checks an id in a path and makes it lower case; the error is a sentence."""

    def check(value: str) -> str:
        if not re.fullmatch("[0-9a-fA-F]*", value):
            found = "something else"
        elif len(value) != digits:
            found = str(len(value))
        else:
            return value.lower()
        raise PydanticCustomError(
            "hex_id",
            "expected {digits} hex digits; found {found}",
            {"digits": digits, "found": found},
        )

    return check


def _hex_path(digits: int) -> Any:  # noqa: ANN401 - FastAPI's own type of a parameter
    return Path(
        description=f"{digits} hex digits",
        json_schema_extra={"pattern": f"^[0-9a-fA-F]{{{digits}}}$"},
    )


AsOf = Annotated[
    int | None,
    Query(
        ge=0,
        lt=2**63,
        description="Correction version to answer with; default the newest. 404 beyond it.",
    ),
]
TraceId = Annotated[str, _hex_path(32), AfterValidator(_hex_digits(32))]
SpanId = Annotated[str, _hex_path(16), AfterValidator(_hex_digits(16))]
Tenant = Annotated[str, Query(max_length=200, description="Only this tenant.")]
Text = Annotated[str, Query(max_length=200)]


def as_version(store: Store, as_of: int | None) -> int:
    """The version a request asks for; 404 for one that does not exist yet."""
    if as_of is None:
        return LATEST
    newest = store.corrections.latest_version()
    if as_of > newest:
        raise not_found(f"there is no correction version {as_of}; the newest is {newest}")
    return as_of


def core_router(store: Store, ingest: Ingest) -> APIRouter:
    """Health and traces."""
    router = APIRouter(prefix="/v1")

    @router.get("/health", tags=["service"], responses=examples.shown(examples.HEALTH))
    def health(asking: Asking) -> schemas.Health | schemas.Liveness:
        """Whether the service and its store answer; for operators also what they hold."""
        if not asking.is_operator:
            return schemas.Liveness(status="ok")
        return schemas.Health(
            correction_version=store.corrections.latest_version(),
            status="ok",
            spans=store.spans.count(),
            packets=store.telemetry.count(),
            hops=store.telemetry.hop_count(),
            otlp_requests=ingest.counters.request_count,
            otlp_spans_accepted=ingest.counters.accepted_count,
            otlp_spans_rejected=ingest.counters.rejected_count,
            requests_refused=ingest.gate.refused_count,
        )

    @router.get("/traces", tags=["traces"], responses=examples.shown(examples.TRACES))
    def traces(
        request: Request,
        response: Response,
        tenant: Tenant = "",
        service: Text = "",
        host: Text = "",
        name: Annotated[str, Query(max_length=200, description="Name of any span in it.")] = "",
        job: Text = "",
        step: Annotated[int | None, Query(ge=0, lt=2**63)] = None,
        limit: Annotated[int, Query(ge=1, le=TRACES_LIMIT_MAX)] = 100,
        cursor: Cursor = "",
        as_of: AsOf = None,
    ) -> schemas.TraceList:
        """Traces that match every given condition, by their first raw start, newest first."""
        after = decode_cursor(cursor, "traces", (int, str, str))
        query = TraceQuery(tenant=tenant, service=service, host=host, name=name, job=job, step=step)
        found = trace_page(
            store.engine,
            query,
            after=None if after is None else (int(after[0]), str(after[1]), str(after[2])),
            limit=limit + 1,
        )
        page = page_of_more(found, kind="traces", key=place_of, limit=limit)
        return schemas.TraceList(
            correction_version=store.corrections.table(as_version(store, as_of)).version,
            traces=[views.trace_item(item) for item in page.items],
            next_cursor=link_next(request, response, page.next_cursor),
        )

    @router.get("/traces/{trace_id}", tags=["traces"], responses=examples.shown(examples.TRACE))
    def trace(trace_id: TraceId, tenant: Tenant = "", as_of: AsOf = None) -> schemas.TraceAnswer:
        """All spans of a trace, raw stamps beside corrected ones with their bounds."""
        spans = store.spans.trace(trace_id.lower(), tenant=tenant)
        if not spans:
            raise not_found(f"there is no trace {trace_id.lower()}")
        table = store.corrections.table(as_version(store, as_of))
        return schemas.TraceAnswer(
            correction_version=table.version,
            trace_id=trace_id.lower(),
            spans=[views.span(item, table) for item in spans],
        )

    return router
