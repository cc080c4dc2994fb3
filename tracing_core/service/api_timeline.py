# SPDX-License-Identifier: Apache-2.0
"""API v1: timelines of traces and of steps of jobs, at the detail that a picture has room for."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response

from tracing_core.export import NothingComparableError, TimeLine
from tracing_core.service import examples_timeline as examples
from tracing_core.service.api import AsOf, Tenant, TraceId, as_version
from tracing_core.service.examples import shown
from tracing_core.service.named_job import NamedJob, job_finder
from tracing_core.service.paging import Cursor, decode_cursor, link_next, page_of
from tracing_core.service.problems import not_found
from tracing_core.service.schemas_timeline import TimelineAnswer
from tracing_core.service.views_timeline import Drawn, place_rows
from tracing_core.store import Store
from tracing_core.store.jobs import JobStore
from tracing_core.store.timeline import TimelineStore, Track
from tracing_core.timeline import (
    TrackSpans,
    fitted,
    in_window,
    resolution_for,
    sorted_spans,
    totals,
)

SPANS_MAX = 4_000_000
"""Of one picture: 64 bytes each while it is made."""
TRACES_MAX = 10_000
"""Of a step."""
TRACKS_MAX = 1000
ITEMS_MAX = 50_000
WIDTH_PX_MAX = 32_768
NO_RANK = -1

_INT64 = 2**63
_RESPONSES: dict[int | str, dict[str, Any]] = {
    **shown(examples.TIMELINE),
    409: {"description": "No clock is corrected, and there are several"},
}


class TimelineQuery:
    """What every timeline takes."""

    def __init__(
        self,
        from_ns: Annotated[
            int | None,
            Query(alias="from", ge=-_INT64, lt=_INT64, description="ns on the time line shown."),
        ] = None,
        to_ns: Annotated[int | None, Query(alias="to", ge=-_INT64, lt=_INT64)] = None,
        width_px: Annotated[
            int,
            Query(ge=1, le=WIDTH_PX_MAX, description="Spans shorter than a pixel are merged."),
        ] = 1000,
        max_spans: Annotated[
            int,
            Query(
                ge=1,
                le=ITEMS_MAX,
                description="Items in the answer, over all tracks; more are merged until it holds."
                " A track has at least one.",
            ),
        ] = 5000,
        time: Annotated[TimeLine, Query(description="As of an export.")] = TimeLine.CORRECTED,
        limit: Annotated[int, Query(ge=1, le=TRACKS_MAX, description="Tracks of a page.")] = 200,
        cursor: Cursor = "",
        as_of: AsOf = None,
    ) -> None:
        self.from_ns = from_ns
        self.to_ns = to_ns
        self.width_px = width_px
        self.max_spans = max_spans
        self.time = time
        self.limit = limit
        self.cursor = cursor
        self.as_of = as_of


Asked = Annotated[TimelineQuery, Depends(TimelineQuery)]


def timeline_router(store: Store) -> APIRouter:
    """Timelines."""
    router = APIRouter(prefix="/v1")
    jobs = JobStore(store.engine)
    Found = Annotated[NamedJob, Depends(job_finder(jobs))]

    @router.get(
        "/traces/{trace_id}/timeline",
        tags=["traces"],
        responses=_RESPONSES,
    )
    def trace_timeline(
        request: Request, response: Response, trace_id: TraceId, asked: Asked, tenant: Tenant = ""
    ) -> TimelineAnswer:
        """A trace's tracks with exact totals; spans too short to be seen are merged."""
        answer = _answer(store, [trace_id], tenant, asked)
        if answer is None:
            raise not_found(f"there is no trace {trace_id}")
        link_next(request, response, answer.next_cursor)
        return answer

    @router.get(
        "/jobs/{job}/steps/{step}/timeline",
        tags=["jobs"],
        responses=_RESPONSES,
    )
    def step_timeline(
        request: Request,
        response: Response,
        found: Found,
        step: Annotated[int, Path(ge=0, lt=2**63)],
        asked: Asked,
    ) -> TimelineAnswer:
        """The same of all traces of a job's step."""
        traces = jobs.traces_of_step(*found, step, limit=TRACES_MAX)
        answer = _answer(store, traces, found.tenant, asked) if traces else None
        if answer is None:
            raise not_found(f"job {found.job} has no step {step}")
        link_next(request, response, answer.next_cursor)
        return answer

    return router


def _answer(
    store: Store, trace_ids: Sequence[str], tenant: str, asked: TimelineQuery
) -> TimelineAnswer | None:
    """None if there are no such spans."""
    spans = TimelineStore(store.engine)
    after = decode_cursor(asked.cursor, "tracks", (str, str, int, str))
    table = store.corrections.table(as_version(store, asked.as_of))
    count = spans.count(trace_ids, tenant=tenant)
    if count > SPANS_MAX:
        raise HTTPException(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"{count} spans: a timeline is made of {SPANS_MAX} at most",
        )
    rows = spans.rows(trace_ids, tenant=tenant)
    if not len(rows):
        return None
    try:
        placed = place_rows(rows, table, asked.time)
    except NothingComparableError as error:
        raise HTTPException(HTTPStatus.CONFLICT, str(error)) from error
    starts, ends = placed.start_ns[placed.shown], placed.end_ns[placed.shown]
    from_ns = int(starts.min()) if asked.from_ns is None else asked.from_ns
    to_ns = int(ends.max()) if asked.to_ns is None else asked.to_ns
    if to_ns < from_ns:
        raise HTTPException(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"to: expected {from_ns} or more; found {to_ns}"
        )
    everything = TrackSpans(track=rows.track, start_ns=placed.start_ns, end_ns=placed.end_ns)
    seen = placed.shown & in_window(everything, from_ns, to_ns)
    page = page_of(
        sorted(
            (number for number in np.unique(rows.track[seen]).tolist()),
            key=lambda number: _key(rows.tracks[number]),
        ),
        kind="tracks",
        key=lambda number: _key(rows.tracks[number]),
        after=after,
        limit=asked.limit,
    )
    on_page = np.zeros(len(rows.tracks), bool)
    on_page[list(page.items)] = True
    chosen = np.flatnonzero(seen & on_page[rows.track])
    chosen = chosen[np.argsort(rows.span_id[chosen], kind="stable")]  # the same order every time
    chosen = chosen[
        sorted_spans(rows.track[chosen], placed.start_ns[chosen], placed.end_ns[chosen])
    ]
    picked = everything.take(chosen)
    resolution_ns = resolution_for(to_ns - from_ns, asked.width_px)
    drawn = Drawn(
        rows=rows,
        placed=placed,
        chosen=chosen,
        items=fitted(picked, resolution_ns, asked.max_spans),
        totals=totals(picked, len(rows.tracks)),
        table=table,
    )
    names = spans.names(trace_ids, rows.name_key[drawn.single_rows], tenant=tenant)
    return TimelineAnswer(
        correction_version=table.version,
        time=placed.time.value,
        from_ns=from_ns,
        to_ns=to_ns,
        resolution_ns=drawn.items.resolution_ns,
        spans=int(seen.sum()),
        tracks=drawn.tracks(list(page.items), names),
        left_out=list(placed.left_out),
        next_cursor=page.next_cursor,
    )


def _key(track: Track) -> tuple[str, str, int, str]:
    rank = NO_RANK if track.rank is None else track.rank
    return track.tenant, track.host, rank, track.clock
