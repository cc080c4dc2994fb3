# SPDX-License-Identifier: Apache-2.0
"""Training jobs, their steps and ranks, summed up by the database.

A job and a step are attributes of a trace (any span of it may carry them), a rank is one of a span.
Rows of traces lead to the segments that hold a job's spans, so that nothing else is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracing_core.clock_domains import SPAN_RANK
from tracing_core.store.engine import Engine, Parameters

NO_STEP = -1
NAMES_MAX = 100
"""Tenants, hosts or clocks named in one answer about a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """One job of one tenant. Instants are raw, of whichever clocks came first and last."""

    tenant: str
    job: str
    first_local_ns: int
    last_local_ns: int
    rank_count: int
    step_count: int
    step_first: int | None
    step_last: int | None
    trace_count: int
    span_count: int
    """A span that was sent again in a later request counts again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One step with the number of its traces and spans."""

    step: int
    trace_count: int
    span_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSummary:
    """What one rank reported from one host, on one clock."""

    rank: int
    host: str
    clock: str
    first_local_ns: int
    last_local_ns: int
    step_count: int
    span_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankIntervals:
    """Per step, rank, host and clock: its first start and last end; equally long arrays."""

    step: NDArray[np.int64]
    rank: NDArray[np.int64]
    places: tuple[tuple[str, str], ...]
    """(host, clock)."""
    place: NDArray[np.int64]
    start_local_ns: NDArray[np.int64]
    end_local_ns: NDArray[np.int64]
    span_count: NDArray[np.int64]
    has_end: NDArray[np.bool_]
    """False where a span ends before it starts, or had not ended."""

    def __len__(self) -> int:
        return len(self.step)


_TRACES_OF_JOB = (
    "SELECT trace_id FROM trace_parts WHERE tenant = {tenant:String} AND job = {job:String}"
)
PARTS_OF_JOB = (
    "SELECT segment, trace_id FROM trace_parts WHERE tenant = {tenant:String}"
    f" AND trace_id IN ({_TRACES_OF_JOB})"
)
"""Where the spans of a job's traces are."""

STEP_OF_TRACE = (
    "SELECT trace_id, max(step) AS trace_step FROM trace_parts WHERE tenant = {tenant:String}"
    f" AND trace_id IN ({_TRACES_OF_JOB}) GROUP BY trace_id"
)

RANK = f"attributes_int['{SPAN_RANK}']"
HAS_RANK = f"mapContains(attributes_int, '{SPAN_RANK}')"
HAS_END = (
    "end_local_ns >= start_local_ns"
    " AND attributes_string['tempotrace.time.flag'] NOT IN ('not_completed', 'end_before_start')"
)

_JOBS_SQL = """
SELECT tenant, job, min(first_ns) AS job_first_ns, max(last_ns), uniqExactIf(step, step >= 0),
    minIf(step, step >= 0), maxIf(step, step >= 0), count(), sum(spans)
FROM (
    SELECT tenant, trace_id, max(job) AS job, max(step) AS step, min(start_local_ns) AS first_ns,
        max(end_local_ns) AS last_ns, sum(span_count) AS spans
    FROM trace_parts
    WHERE ({tenant:String} = '' OR tenant = {tenant:String}) AND trace_id IN (
        SELECT trace_id FROM trace_parts
        WHERE job != '' AND ({job:String} = '' OR job = {job:String})
            AND ({tenant:String} = '' OR tenant = {tenant:String})
    )
    GROUP BY tenant, trace_id
)
WHERE job != '' AND ({job:String} = '' OR job = {job:String})
GROUP BY tenant, job
HAVING {all:UInt8} OR (-job_first_ns, tenant, job)
    > ({after_ns:Int64}, {after_tenant:String}, {after_job:String})
ORDER BY -job_first_ns, tenant, job
LIMIT {limit:UInt32}
"""

_RANK_COUNT_SQL = f"""
SELECT uniqExact({RANK}) FROM span_rows
PREWHERE tenant = {{tenant:String}} AND (segment, trace_id) IN ({PARTS_OF_JOB})
WHERE {HAS_RANK}
"""


class JobStore:
    """Reads jobs; `tenant` is never empty but in lists of jobs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def jobs(
        self,
        *,
        tenant: str = "",
        job: str = "",
        after: tuple[int, str, str] | None = None,
        limit: int = 100,
    ) -> list[JobSummary]:
        """Jobs that began last first; `after` is (-first_local_ns, tenant, job) of one."""
        after_ns, after_tenant, after_job = after or (0, "", "")
        rows = self._engine.rows(
            _JOBS_SQL,
            {
                "tenant": tenant, "job": job, "limit": limit, "all": int(after is None),
                "after_ns": after_ns, "after_tenant": after_tenant, "after_job": after_job,
            },
        )  # fmt: skip
        return [
            JobSummary(
                tenant=row[0],
                job=row[1],
                first_local_ns=row[2],
                last_local_ns=row[3],
                rank_count=self.rank_count(row[0], row[1]),
                step_count=row[4],
                step_first=row[5] if row[4] else None,
                step_last=row[6] if row[4] else None,
                trace_count=row[7],
                span_count=row[8],
            )
            for row in rows
        ]

    def tenants_of(self, job: str, *, tenant: str = "") -> list[str]:
        """Tenants that have a job of that name, in order."""
        rows = self._engine.rows(
            "SELECT DISTINCT tenant FROM trace_parts WHERE job = {job:String} AND job != ''"
            " AND ({tenant:String} = '' OR tenant = {tenant:String}) ORDER BY tenant"
            f" LIMIT {NAMES_MAX}",
            {"job": job, "tenant": tenant},
        )
        return [row[0] for row in rows]

    def rank_count(self, tenant: str, job: str) -> int:
        """Number of distinct ranks that the job's spans name."""
        return self._engine.scalar_int(_RANK_COUNT_SQL, {"tenant": tenant, "job": job})

    def steps(
        self, tenant: str, job: str, *, after: int = NO_STEP, first: int = 0, limit: int = 100
    ) -> list[StepRow]:
        """Steps above `after` and from `first` on, in order."""
        rows = self._engine.rows(
            "SELECT trace_step, count(), sum(spans) FROM ("
            " SELECT trace_id, max(step) AS trace_step, sum(span_count) AS spans FROM trace_parts"
            f" WHERE tenant = {{tenant:String}} AND trace_id IN ({_TRACES_OF_JOB})"
            " GROUP BY trace_id)"
            " WHERE trace_step > {after:Int64} AND trace_step >= {first:Int64}"
            " GROUP BY trace_step ORDER BY trace_step LIMIT {limit:UInt32}",
            {"tenant": tenant, "job": job, "after": after, "first": first, "limit": limit},
        )
        return [StepRow(step=row[0], trace_count=row[1], span_count=row[2]) for row in rows]

    def traces_of_step(self, tenant: str, job: str, step: int, *, limit: int) -> list[str]:
        """Hex ids of a step's traces, in order."""
        rows = self._engine.rows(
            f"SELECT lower(hex(trace_id)) AS id FROM ({STEP_OF_TRACE})"
            " WHERE trace_step = {step:Int64} ORDER BY id LIMIT {limit:UInt32}",
            {"tenant": tenant, "job": job, "step": step, "limit": limit},
        )
        return [row[0] for row in rows]

    def ranks(
        self, tenant: str, job: str, *, after: int = -(2**63), rank: int | None = None,
        limit: int = 100,
    ) -> list[RankSummary]:  # fmt: skip
        """The next `limit` ranks above `after`, each once per host and clock; in order."""
        rows = self._engine.rows(
            f"SELECT {RANK} AS rank, host, clock_domain, min(start_local_ns), max(end_local_ns),"
            " uniqExactIf(trace_step, trace_step >= 0), uniqExact(trace_id, span_id, kind)"
            f" FROM span_rows INNER JOIN ({STEP_OF_TRACE}) AS run USING trace_id"
            f" WHERE tenant = {{tenant:String}} AND (segment, trace_id) IN ({PARTS_OF_JOB})"
            f" AND {HAS_RANK} AND {RANK} IN (SELECT DISTINCT {RANK} AS one FROM span_rows"
            f" PREWHERE tenant = {{tenant:String}} AND (segment, trace_id) IN ({PARTS_OF_JOB})"
            f" WHERE {HAS_RANK} AND one > {{after:Int64}}"
            " AND ({every:UInt8} OR one = {rank:Int64})"
            " ORDER BY one LIMIT {limit:UInt32})"
            " GROUP BY rank, host, clock_domain ORDER BY rank, host, clock_domain",
            {
                "tenant": tenant, "job": job, "after": after, "limit": limit,
                "every": int(rank is None), "rank": rank or 0,
            },
        )  # fmt: skip
        return [
            RankSummary(
                rank=row[0],
                host=row[1],
                clock=row[2],
                first_local_ns=row[3],
                last_local_ns=row[4],
                step_count=row[5],
                span_count=row[6],
            )
            for row in rows
        ]

    def intervals(
        self, tenant: str, job: str, steps: Sequence[int], *, rank: int | None = None
    ) -> RankIntervals:
        """What each rank took in each of the steps, by step, rank, host and clock.

        Where a trace has one root and spans of several ranks, the root speaks for the whole step,
        and is left out of its rank's time.
        """
        parameters: Parameters = {
            "tenant": tenant, "job": job, "steps": list(steps), "every": int(rank is None),
            "rank": rank or 0,
        }  # fmt: skip
        of_steps = (
            f"SELECT trace_id, trace_step FROM ({STEP_OF_TRACE})"
            " WHERE trace_step IN {steps:Array(Int64)}"
        )
        chosen = (
            "PREWHERE tenant = {tenant:String} AND (segment, trace_id) IN ("
            " SELECT segment, trace_id FROM trace_parts WHERE tenant = {tenant:String}"
            f" AND trace_id IN (SELECT trace_id FROM ({of_steps}))) WHERE {HAS_RANK}"
        )
        shared_root = (
            f"SELECT trace_id FROM span_rows {chosen} GROUP BY trace_id"
            " HAVING uniqExactIf(span_id, parent_span_id = unhex('0000000000000000')) = 1"
            f" AND uniqExact({RANK}) > 1"
        )
        names = (
            "trace_step", "rank", "place", "first_ns", "last_ns", "spans", "ended"
        )  # fmt: skip
        place = "cityHash64(host, clock_domain)"
        columns = self._engine.columns(
            f"SELECT trace_step, rank, place, min(first_ns), max(last_ns),"
            " toInt64(sum(spans)), toInt64(min(ended)) FROM ("
            f" SELECT trace_id, {RANK} AS rank, {place} AS place,"
            " min(start_local_ns) AS first_ns, max(end_local_ns) AS last_ns,"
            f" uniqExact(span_id, kind) AS spans, min({HAS_END}) AS ended"
            f" FROM span_rows {chosen} AND ({{every:UInt8}} OR rank = {{rank:Int64}})"
            " AND NOT (parent_span_id = unhex('0000000000000000')"
            f" AND trace_id IN ({shared_root}))"
            f" GROUP BY trace_id, rank, place) AS taken"
            f" INNER JOIN ({of_steps}) AS run USING trace_id"
            " GROUP BY trace_step, rank, place ORDER BY trace_step, rank, place",
            names,
            parameters,
        )
        rows = self._engine.rows(
            f"SELECT DISTINCT {place}, host, clock_domain FROM span_rows {chosen}", parameters
        )
        number = {int(row[0]): index for index, row in enumerate(rows)}
        return RankIntervals(
            step=columns["trace_step"].astype(np.int64),
            rank=columns["rank"].astype(np.int64),
            places=tuple((row[1], row[2]) for row in rows),
            place=np.array([number[int(one)] for one in columns["place"]], np.int64),
            start_local_ns=columns["first_ns"].astype(np.int64),
            end_local_ns=columns["last_ns"].astype(np.int64),
            span_count=columns["spans"].astype(np.int64),
            has_end=columns["ended"].astype(bool),
        )
