# SPDX-License-Identifier: Apache-2.0
"""API v1: communicators of a job and their collectives."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from tracing_core.clock_domains import SPAN_RANK
from tracing_core.corrections import CorrectionTable
from tracing_core.model import Span
from tracing_core.service import examples_jobs as examples
from tracing_core.service import schemas_jobs as schemas
from tracing_core.service import views_jobs as views
from tracing_core.service.api import AsOf, as_version
from tracing_core.service.api_jobs import Limit
from tracing_core.service.encoded_ids import CommunicatorName
from tracing_core.service.examples import shown
from tracing_core.service.named_job import NamedJob, job_finder
from tracing_core.service.paging import Cursor, decode_cursor, link_next, page_of_more
from tracing_core.service.problems import not_found
from tracing_core.store import Store
from tracing_core.store.collectives import CollectiveStore, MemberRow
from tracing_core.store.jobs import JobStore

MEMBERS_MAX = 10_000
_REPORTED = {"nccl.rank": "present", "nccl.rank.missing": "missing"}
"""What an event of a RAS report says of the rank that it names."""


def communicators_router(store: Store) -> APIRouter:
    """Communicators of a job."""
    router = APIRouter(prefix="/v1", tags=["jobs"])
    collectives = CollectiveStore(store.engine)
    Found = Annotated[NamedJob, Depends(job_finder(JobStore(store.engine)))]

    def table_of(as_of: int | None) -> CorrectionTable:
        return store.corrections.table(as_version(store, as_of))

    @router.get("/jobs/{job}/communicators", responses=shown(examples.COMMUNICATORS))
    def communicator_list(
        request: Request, response: Response, found: Found,
        limit: Limit = 100, cursor: Cursor = "", as_of: AsOf = None,
    ) -> schemas.CommunicatorList:  # fmt: skip
        """Communicators by name: process groups, and NCCL's communicators by their hash."""
        after = decode_cursor(cursor, "communicators", (str,))
        rows = collectives.communicators(
            *found, after=None if after is None else str(after[0]), limit=limit + 1
        )
        page = page_of_more(
            rows, kind="communicators", key=lambda row: (row.communicator,), limit=limit
        )
        return schemas.CommunicatorList(
            correction_version=table_of(as_of).version,
            tenant=found.tenant,
            job=found.job,
            communicators=[views.communicator_item(row) for row in page.items],
            next_cursor=link_next(request, response, page.next_cursor),
        )

    @router.get("/jobs/{job}/communicators/{communicator}", responses=shown(examples.COMMUNICATOR))
    def communicator_answer(
        request: Request, response: Response, found: Found, communicator: CommunicatorName,
        limit: Limit = 100, cursor: Cursor = "", as_of: AsOf = None,
    ) -> schemas.CommunicatorAnswer:  # fmt: skip
        """Members, and collectives by sequence number: who entered and left when, who was last."""
        kind = f"communicator {communicator}"
        after = decode_cursor(cursor, kind, (int,))
        rows = collectives.communicators(*found, name=communicator, limit=1)
        if not rows:
            raise not_found(f"job {found.job} has no communicator {communicator}")
        table = table_of(as_of)
        parts = collectives.of_communicator(
            *found, communicator, after=-(2**63) if after is None else int(after[0]),
            limit=limit + 1,
        )  # fmt: skip
        page = page_of_more(
            views.collectives(parts, table), kind=kind, key=lambda item: (item.sequence,),
            limit=limit,
        )  # fmt: skip
        members = collectives.members(*found, communicator, limit=MEMBERS_MAX)
        return schemas.CommunicatorAnswer(
            correction_version=table.version,
            tenant=found.tenant,
            job=found.job,
            communicator=views.communicator_item(rows[0]),
            members=_members(members, collectives.status(*found, communicator)),
            collectives=list(page.items),
            next_cursor=link_next(request, response, page.next_cursor),
        )

    return router


def _members(rows: Sequence[MemberRow], status: Span | None) -> list[schemas.CommunicatorMember]:
    """Ranks that reported collectives, and those that only RAS knows."""
    reported: dict[int, str] = {}
    for event in status.events if status else ():
        rank = event.attributes.get(SPAN_RANK)
        if event.name in _REPORTED and isinstance(rank, int):
            reported[rank] = _REPORTED[event.name]
    found = [
        schemas.CommunicatorMember(
            rank=row.rank,
            host=row.host,
            clock_domain=row.clock,
            collectives=row.collective_count,
            sequence_last=row.sequence_last,
            reported=reported.get(row.rank, ""),
        )
        for row in rows
    ]
    known = {row.rank for row in rows}
    found += [
        schemas.CommunicatorMember(
            rank=rank, host="", clock_domain="", collectives=0, sequence_last=None, reported=state
        )
        for rank, state in reported.items()
        if rank not in known
    ]
    return sorted(found, key=lambda item: (item.rank, item.host, item.clock_domain))
