# SPDX-License-Identifier: Apache-2.0
"""Communicators of a job and their collectives: spans of one communicator and sequence number."""

from dataclasses import dataclass

from tracing_core.clock_domains import SPAN_COMMUNICATOR, SPAN_SEQUENCE
from tracing_core.model import Span
from tracing_core.store.engine import Engine, Parameter
from tracing_core.store.jobs import HAS_END, HAS_RANK, PARTS_OF_JOB, RANK, STEP_OF_TRACE
from tracing_core.store.span_rows import SELECTED, spans_of_rows

NO_RANK = -1
"""Rank of spans that name none."""
RAS_STATUS = "nccl.ras.status"
"""Name of the spans that NCCL's RAS reports of a communicator."""

_COMMUNICATOR = f"attributes_string['{SPAN_COMMUNICATOR}']"
_HAS_COMMUNICATOR = f"mapContains(attributes_string, '{SPAN_COMMUNICATOR}')"
_SEQUENCE = f"attributes_int['{SPAN_SEQUENCE}']"
_HAS_SEQUENCE = f"mapContains(attributes_int, '{SPAN_SEQUENCE}')"
_RANK_OR_NONE = f"if({HAS_RANK}, {RANK}, {NO_RANK})"
_OF_JOB = f"PREWHERE tenant = {{tenant:String}} AND (segment, trace_id) IN ({PARTS_OF_JOB})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicatorSummary:
    """One communicator of a job. Instants are raw, of whichever clocks came first and last."""

    communicator: str
    rank_count: int
    collective_count: int
    """Distinct sequence numbers."""
    unnumbered_span_count: int
    """Spans without a number: point-to-point operations, status reports, older profilers."""
    first_local_ns: int
    last_local_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRow:
    """A rank of a communicator on one host and clock."""

    rank: int
    host: str
    clock: str
    collective_count: int
    sequence_last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow:
    """One rank's part in one collective, on one clock."""

    communicator: str
    sequence: int
    rank: int
    host: str
    clock: str
    name: str
    step: int
    """-1 outside of steps."""
    start_local_ns: int
    end_local_ns: int
    has_end: bool


class CollectiveStore:
    """Reads communicators."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def communicators(
        self, tenant: str, job: str, *, name: str | None = None, after: str | None = None,
        limit: int = 100,
    ) -> list[CommunicatorSummary]:  # fmt: skip
        """Communicators by name, those behind `after` or the one called `name`."""
        rows = self._engine.rows(
            f"SELECT {_COMMUNICATOR} AS communicator, uniqExactIf({RANK}, {HAS_RANK}),"
            f" uniqExactIf({_SEQUENCE}, {_HAS_SEQUENCE}), countIf(NOT {_HAS_SEQUENCE}),"
            f" min(start_local_ns), max(end_local_ns) FROM span_rows {_OF_JOB}"
            f" WHERE {_HAS_COMMUNICATOR}"
            " AND ({first:UInt8} OR communicator > {after:String})"
            " AND ({every:UInt8} OR communicator = {name:String})"
            " GROUP BY communicator ORDER BY communicator LIMIT {limit:UInt32}",
            {
                "tenant": tenant, "job": job, "limit": limit, "first": int(after is None),
                "after": after or "", "every": int(name is None), "name": name or "",
            },
        )  # fmt: skip
        return [
            CommunicatorSummary(
                communicator=row[0],
                rank_count=row[1],
                collective_count=row[2],
                unnumbered_span_count=row[3],
                first_local_ns=row[4],
                last_local_ns=row[5],
            )
            for row in rows
        ]

    def communicator_count(self, tenant: str, job: str) -> int:
        """Number of distinct communicators that the job's spans name."""
        return self._engine.scalar_int(
            f"SELECT uniqExact({_COMMUNICATOR}) FROM span_rows {_OF_JOB} WHERE {_HAS_COMMUNICATOR}",
            {"tenant": tenant, "job": job},
        )

    def members(self, tenant: str, job: str, communicator: str, *, limit: int) -> list[MemberRow]:
        """Ranks by number, host and clock."""
        rows = self._engine.rows(
            f"SELECT {RANK} AS rank, host, clock_domain, uniqExactIf({_SEQUENCE}, {_HAS_SEQUENCE}),"
            f" countIf({_HAS_SEQUENCE}), maxIf({_SEQUENCE}, {_HAS_SEQUENCE}) FROM span_rows"
            f" {_OF_JOB} WHERE {_COMMUNICATOR} = {{name:String}} AND {_HAS_COMMUNICATOR}"
            f" AND {HAS_RANK} GROUP BY rank, host, clock_domain ORDER BY rank, host, clock_domain"
            " LIMIT {limit:UInt32}",
            {"tenant": tenant, "job": job, "name": communicator, "limit": limit},
        )
        return [
            MemberRow(
                rank=row[0],
                host=row[1],
                clock=row[2],
                collective_count=row[3],
                sequence_last=row[5] if row[4] else None,
            )
            for row in rows
        ]

    def of_communicator(
        self, tenant: str, job: str, communicator: str, *, after: int = -(2**63), limit: int = 100
    ) -> list[CollectiveRow]:
        """Collectives with the next `limit` sequence numbers above `after`."""
        numbers = (
            f"SELECT DISTINCT {_SEQUENCE} AS one FROM span_rows {_OF_JOB}"
            f" WHERE {_COMMUNICATOR} = {{name:String}} AND {_HAS_COMMUNICATOR} AND {_HAS_SEQUENCE}"
            " AND one > {after:Int64} ORDER BY one LIMIT {limit:UInt32}"
        )
        return self._rows(
            f"{_COMMUNICATOR} = {{name:String}} AND {_SEQUENCE} IN ({numbers})",
            {"tenant": tenant, "job": job, "name": communicator, "after": after, "limit": limit},
        )

    def of_step(
        self, tenant: str, job: str, step: int, *, after: tuple[str, int] | None = None,
        limit: int = 100,
    ) -> list[CollectiveRow]:  # fmt: skip
        """A step's collectives, the next `limit` of them by communicator and sequence number."""
        traces = f"SELECT trace_id FROM ({STEP_OF_TRACE}) WHERE trace_step = {{step:Int64}}"
        in_step = f"trace_id IN ({traces})"
        numbers = (
            f"SELECT DISTINCT {_COMMUNICATOR} AS name, {_SEQUENCE} AS number FROM span_rows"
            f" {_OF_JOB} AND {in_step} WHERE {_HAS_COMMUNICATOR} AND {_HAS_SEQUENCE}"
            " AND ({first:UInt8} OR (name, number) > ({after_name:String}, {after_number:Int64}))"
            " ORDER BY name, number LIMIT {limit:UInt32}"
        )
        name, number = after or ("", 0)
        return self._rows(
            f"{in_step} AND ({_COMMUNICATOR}, {_SEQUENCE}) IN ({numbers})",
            {
                "tenant": tenant, "job": job, "step": step, "limit": limit,
                "first": int(after is None), "after_name": name, "after_number": number,
            },
        )  # fmt: skip

    def _rows(self, condition: str, parameters: dict[str, Parameter]) -> list[CollectiveRow]:
        rows = self._engine.rows(
            f"SELECT {_COMMUNICATOR} AS communicator, {_SEQUENCE} AS sequence,"
            f" {_RANK_OR_NONE} AS rank, host, clock_domain, min(name), max(trace_step),"
            f" min(start_local_ns), max(end_local_ns), min({HAS_END})"
            f" FROM span_rows INNER JOIN ({STEP_OF_TRACE}) AS run USING trace_id"
            f" WHERE tenant = {{tenant:String}} AND (segment, trace_id) IN ({PARTS_OF_JOB})"
            f" AND {_HAS_COMMUNICATOR} AND {_HAS_SEQUENCE} AND {condition}"
            " GROUP BY communicator, sequence, rank, host, clock_domain"
            " ORDER BY communicator, sequence, rank, host, clock_domain",
            parameters,
        )
        return [
            CollectiveRow(
                communicator=row[0],
                sequence=row[1],
                rank=row[2],
                host=row[3],
                clock=row[4],
                name=row[5],
                step=row[6],
                start_local_ns=row[7],
                end_local_ns=row[8],
                has_end=bool(row[9]),
            )
            for row in rows
        ]

    def status(self, tenant: str, job: str, communicator: str) -> Span | None:
        """The newest report of NCCL's RAS about a communicator."""
        rows = self._engine.raw_rows(
            f"SELECT {SELECTED} FROM span_rows {_OF_JOB}"
            f" WHERE name = '{RAS_STATUS}' AND {_COMMUNICATOR} = {{name:String}}"
            " ORDER BY start_local_ns DESC, span_id LIMIT 1",
            {"tenant": tenant, "job": job, "name": communicator},
        )
        return next(iter(spans_of_rows(rows)), None)
