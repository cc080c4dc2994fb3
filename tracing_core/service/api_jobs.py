# SPDX-License-Identifier: Apache-2.0
"""API v1: training jobs, their steps and ranks."""

from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from tracing_core.corrections import CorrectionTable
from tracing_core.service import examples_jobs as examples
from tracing_core.service import schemas_jobs as schemas
from tracing_core.service import views_jobs as views
from tracing_core.service.api import AsOf, Tenant, as_version
from tracing_core.service.examples import shown
from tracing_core.service.named_job import NamedJob, job_finder
from tracing_core.service.paging import Cursor, decode_cursor, link_next, page_of_more
from tracing_core.service.problems import not_found
from tracing_core.store import Store
from tracing_core.store.collectives import CollectiveStore
from tracing_core.store.jobs import NO_STEP, JobStore

LIMIT_MAX = 1000
STEP_ROWS_MAX = 200_000
"""Ranks of all steps of a page: of a job with many ranks a page has fewer steps than asked for."""
CLOCKS_PER_RANK = 2
"""A host's and a GPU's."""
TRACES_MAX = 100

Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
Number = Annotated[int, Path(ge=0, lt=2**63)]
FirstStep = Annotated[int, Query(alias="from", ge=0, lt=2**63, description="Lowest step wanted.")]
_LOWEST = -(2**63)


def jobs_router(store: Store) -> APIRouter:
    """Lists of jobs, and one job's steps and ranks."""
    router = APIRouter(prefix="/v1", tags=["jobs"])
    jobs = JobStore(store.engine)
    collectives = CollectiveStore(store.engine)
    Found = Annotated[NamedJob, Depends(job_finder(jobs))]

    def table_of(as_of: int | None) -> CorrectionTable:
        return store.corrections.table(as_version(store, as_of))

    @router.get("/jobs", responses=shown(examples.JOBS))
    def job_list(
        request: Request, response: Response, tenant: Tenant = "", limit: Limit = 100,
        cursor: Cursor = "", as_of: AsOf = None,
    ) -> schemas.JobList:  # fmt: skip
        """Jobs by their first raw start, newest first, then by tenant and name."""
        after = decode_cursor(cursor, "jobs", (int, str, str))
        rows = jobs.jobs(
            tenant=tenant,
            after=None if after is None else (int(after[0]), str(after[1]), str(after[2])),
            limit=limit + 1,
        )
        page = page_of_more(
            rows, kind="jobs", key=lambda row: (-row.first_local_ns, row.tenant, row.job),
            limit=limit,
        )  # fmt: skip
        return schemas.JobList(
            correction_version=table_of(as_of).version,
            jobs=[views.job_item(row) for row in page.items],
            next_cursor=link_next(request, response, page.next_cursor),
        )

    @router.get("/jobs/{job}", responses=shown(examples.JOB_ANSWER))
    def job_answer(found: Found, as_of: AsOf = None) -> schemas.JobAnswer:
        """What is stored of a job."""
        row = jobs.jobs(tenant=found.tenant, job=found.job, limit=1)[0]
        return schemas.JobAnswer(
            correction_version=table_of(as_of).version,
            job=views.job_item(row),
            step_first=row.step_first,
            step_last=row.step_last,
            communicators=collectives.communicator_count(*found),
        )

    @router.get("/jobs/{job}/steps", responses=shown(examples.STEPS))
    def step_list(
        request: Request, response: Response, found: Found, first: FirstStep = 0,
        limit: Limit = 100, cursor: Cursor = "", as_of: AsOf = None,
    ) -> schemas.StepList:  # fmt: skip
        """Steps by number, each over all its ranks: when, how long, and who ended last."""
        after = decode_cursor(cursor, "steps", (int,))
        rows_per_step = CLOCKS_PER_RANK * max(1, jobs.rank_count(*found))
        limit = max(1, min(limit, STEP_ROWS_MAX // rows_per_step))
        rows = jobs.steps(
            *found, after=NO_STEP if after is None else int(after[0]), first=first, limit=limit + 1
        )
        page = page_of_more(rows, kind="steps", key=lambda row: (row.step,), limit=limit)
        table = table_of(as_of)
        wanted = [row.step for row in page.items]
        taken = views.StepIntervals(jobs.intervals(*found, wanted), table)
        return schemas.StepList(
            correction_version=table.version,
            tenant=found.tenant,
            job=found.job,
            steps=[taken.step(row) for row in page.items],
            next_cursor=link_next(request, response, page.next_cursor),
        )

    @router.get("/jobs/{job}/steps/{step}", responses=shown(examples.STEP_ANSWER))
    def step_answer(
        request: Request, response: Response, found: Found, step: Number,
        limit: Limit = 100, cursor: Cursor = "", as_of: AsOf = None,
    ) -> schemas.StepAnswer:  # fmt: skip
        """A step whole: every rank raw and corrected, and collectives with who entered when."""
        after = decode_cursor(cursor, f"step {step}", (str, int))
        rows = jobs.steps(*found, first=step, limit=1)
        if not rows or rows[0].step != step:
            raise not_found(f"job {found.job} has no step {step}")
        table = table_of(as_of)
        taken = views.StepIntervals(jobs.intervals(*found, [step]), table)
        parts = collectives.of_step(
            *found, step, limit=limit + 1,
            after=None if after is None else (str(after[0]), int(after[1])),
        )  # fmt: skip
        page = page_of_more(
            views.collectives(parts, table), kind=f"step {step}",
            key=lambda item: (item.communicator, item.sequence), limit=limit,
        )  # fmt: skip
        traces = jobs.traces_of_step(*found, step, limit=TRACES_MAX)
        tenant = urlencode({"tenant": found.tenant})
        return schemas.StepAnswer(
            correction_version=table.version,
            tenant=found.tenant,
            job=found.job,
            step=taken.step(rows[0]),
            ranks=[views.step_rank(row) for row in taken.ranks()],
            collectives=list(page.items),
            next_cursor=link_next(request, response, page.next_cursor),
            traces=traces,
            transfers=[f"/v1/traces/{trace}/transfers" for trace in traces],
            timeline=f"/v1/jobs/{quote(found.job, safe='')}/steps/{step}/timeline?{tenant}",
        )

    @router.get("/jobs/{job}/ranks", responses=shown(examples.RANKS))
    def rank_list(
        request: Request, response: Response, found: Found,
        limit: Limit = 100, cursor: Cursor = "", as_of: AsOf = None,
    ) -> schemas.RankList:  # fmt: skip
        """Ranks by number, each with the hosts and clocks that it reported from."""
        after = decode_cursor(cursor, "ranks", (int,))
        rows = jobs.ranks(
            *found, after=_LOWEST if after is None else int(after[0]), limit=limit + 1
        )
        table = table_of(as_of)
        page = page_of_more(
            views.rank_items(rows, table), kind="ranks", key=lambda item: (item.rank,), limit=limit
        )
        return schemas.RankList(
            correction_version=table.version,
            tenant=found.tenant,
            job=found.job,
            ranks=list(page.items),
            next_cursor=link_next(request, response, page.next_cursor),
        )

    @router.get("/jobs/{job}/ranks/{rank}", responses=shown(examples.RANK_ANSWER))
    def rank_answer(
        request: Request, response: Response, found: Found, rank: Number, first: FirstStep = 0,
        limit: Limit = 100, cursor: Cursor = "", as_of: AsOf = None,
    ) -> schemas.RankAnswer:  # fmt: skip
        """A rank's steps by number. What it is behind the others stands in the steps' answers."""
        after = decode_cursor(cursor, f"rank {rank}", (int,))
        rows = jobs.ranks(*found, rank=rank, limit=1)
        if not rows:
            raise not_found(f"job {found.job} has no rank {rank}")
        table = table_of(as_of)
        steps = jobs.steps(
            *found, after=NO_STEP if after is None else int(after[0]), first=first, limit=limit + 1
        )
        page = page_of_more(steps, kind=f"rank {rank}", key=lambda row: (row.step,), limit=limit)
        wanted = [row.step for row in page.items]
        taken = views.StepIntervals(jobs.intervals(*found, wanted, rank=rank), table)
        return schemas.RankAnswer(
            correction_version=table.version,
            tenant=found.tenant,
            job=found.job,
            rank=views.rank_items(rows, table)[0],
            steps=[views.alone(row) for row in taken.ranks()],
            next_cursor=link_next(request, response, page.next_cursor),
        )

    return router
