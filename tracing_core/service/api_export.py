# SPDX-License-Identifier: Apache-2.0
"""Traces for other tools: `/v1/traces/{id}/export`."""

from collections.abc import Sequence
from enum import StrEnum, unique
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Response

from tracing_core.export import (
    LeftOut,
    NothingComparableError,
    PlacedSpan,
    TimeLine,
    chrome_trace,
    for_picture,
    otlp_trace,
    perfetto_trace,
    place,
)
from tracing_core.export.perfetto import MEDIA_TYPE as MEDIA_TYPE_PERFETTO
from tracing_core.service import examples
from tracing_core.service.api import AsOf, Tenant, TraceId, as_version
from tracing_core.service.problems import not_found
from tracing_core.store import Store

HEADER_LEFT_OUT = "TempoTrace-Left-Out"
"""Number of spans that have no place in a picture of corrected time."""
HEADER_VERSION = "TempoTrace-Correction-Version"


@unique
class ExportFormat(StrEnum):
    """What the trace is written as."""

    OTLP = "otlp"
    CHROME = "chrome"
    PERFETTO = "perfetto"


_FILE_ENDING = {
    ExportFormat.OTLP: "otlp.json",
    ExportFormat.CHROME: "trace.json",
    ExportFormat.PERFETTO: "perfetto-trace",
}
_CONTENT = {
    "description": "The trace; pictures name the spans that they leave out",
    "content": {"application/json": {"example": examples.EXPORT}, MEDIA_TYPE_PERFETTO: {}},
}
Format = Annotated[
    ExportFormat,
    Query(
        alias="format",
        description="OTLP/JSON, Chrome trace JSON, or Perfetto's protobuf in whole nanoseconds.",
    ),
]
Time = Annotated[
    TimeLine,
    Query(
        description="corrected: on the reference's clock; spans without a correction are left out"
        " of a picture, and kept raw in OTLP. raw: all stamps as they are."
    ),
]


def export_router(store: Store) -> APIRouter:
    """The export route."""
    router = APIRouter(prefix="/v1")

    @router.get(
        "/traces/{trace_id}/export",
        tags=["traces"],
        response_class=Response,
        responses={200: _CONTENT, 409: {"description": "No clock of the trace is corrected"}},
    )
    def export(
        trace_id: TraceId,
        wanted: Format = ExportFormat.OTLP,
        time: Time = TimeLine.CORRECTED,
        tenant: Tenant = "",
        as_of: AsOf = None,
    ) -> Response:
        """A trace as OTLP, Chrome trace or Perfetto, with corrected time, bounds and interval."""
        spans = store.spans.trace(trace_id, tenant=tenant)
        if not spans:
            raise not_found(f"there is no trace {trace_id}")
        table = store.corrections.table(as_version(store, as_of))
        placed = place(spans, table, time)
        left_out: list[LeftOut] = []
        if wanted is not ExportFormat.OTLP:
            try:
                placed, left_out = for_picture(placed, time)
            except NothingComparableError as error:
                raise HTTPException(HTTPStatus.CONFLICT, str(error)) from error
        name = f"{trace_id}.{_FILE_ENDING[wanted]}"
        return Response(
            _encoded(wanted, placed, left_out),
            media_type=MEDIA_TYPE_PERFETTO
            if wanted is ExportFormat.PERFETTO
            else "application/json",
            headers={
                "Content-Disposition": f'attachment; filename="{name}"',
                HEADER_LEFT_OUT: str(sum(item.span_count for item in left_out)),
                HEADER_VERSION: str(table.version),
            },
        )

    return router


def _encoded(
    wanted: ExportFormat, placed: Sequence[PlacedSpan], left_out: Sequence[LeftOut]
) -> bytes:
    match wanted:
        case ExportFormat.OTLP:
            return otlp_trace(placed)
        case ExportFormat.CHROME:
            return chrome_trace(placed, left_out)
        case ExportFormat.PERFETTO:
            return perfetto_trace(placed, left_out)
