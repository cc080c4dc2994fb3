# SPDX-License-Identifier: Apache-2.0
"""Example answers of the routes of jobs."""

from tracing_core.service import schemas_jobs as schemas
from tracing_core.service.examples import EPOCH_NS, TRACE_ID
from tracing_core.service.schemas import Instant

VERSION = 3
TENANT, JOB, STEP = "alpha", "job-alpha", 4
COMMUNICATOR_NAME = "0:default_pg"


def _instant(after_ns: int) -> Instant:
    return Instant(
        raw_local_ns=EPOCH_NS + after_ns + 375,
        corrected_reference_ns=EPOCH_NS + after_ns,
        bound_hard_ns=310,
        bound_conditional_ns=21,
        status="synchronised",
        method="ptp_residence",
        reason="",
    )


def _edge(rank: int, after_ns: int) -> schemas.StepEdge:
    return schemas.StepEdge(
        rank=rank,
        time=_instant(after_ns),
        earliest_reference_ns=EPOCH_NS + after_ns - 21,
        latest_reference_ns=EPOCH_NS + after_ns + 21,
    )


_CERTAIN = schemas.RankVerdict(rank=5, verdict="certain", candidates=[5], candidate_count=1)
_UNDECIDED = schemas.RankVerdict(
    rank=None, verdict="undecided", candidates=[0, 3], candidate_count=2
)
_JOB = schemas.JobItem(
    tenant=TENANT,
    job=JOB,
    first_local_ns=EPOCH_NS,
    last_local_ns=EPOCH_NS + 8_240_000_000,
    ranks=8,
    steps=20,
    traces=20,
    spans=10_420,
)
_STEP = schemas.StepItem(
    step=STEP,
    ranks=8,
    traces=1,
    spans=521,
    start=_edge(0, 1_000),
    end=_edge(5, 412_000_000),
    duration_ns=411_999_000,
    duration_bound_conditional_ns=42,
    slowest=_CERTAIN,
    end_spread_ns=61_200,
    end_spread_bound_conditional_ns=42,
    order="within_bounds",
)
_STEP_RANK = schemas.StepRank(
    rank=5,
    host="h11",
    clock_domain="h11",
    compared=True,
    start=_instant(2_400),
    end=_instant(412_000_000),
    duration_raw_ns=411_997_600,
    spans=1,
    end_after_first_ns=61_200,
    end_after_first_bound_conditional_ns=42,
    end_before_last_ns=0,
    end_before_last_bound_conditional_ns=0,
)
_RANK = schemas.RankItem(
    rank=5,
    places=[
        schemas.RankPlace(
            host="h11",
            clock_domain="h11",
            first=_instant(2_400),
            last=_instant(8_240_000_000),
            steps=20,
            spans=20,
        )
    ],
)
_COLLECTIVE = schemas.CollectiveItem(
    communicator=COMMUNICATOR_NAME,
    sequence=1407,
    name="nccl:all_reduce",
    step=STEP,
    ranks=[
        schemas.CollectiveRank(
            rank=5,
            host="h11",
            clock_domain="h11",
            compared=True,
            enter=_instant(2_400),
            leave=_instant(412_000_000),
            enter_after_first_ns=1_400,
            enter_after_first_bound_conditional_ns=42,
            enter_before_last_ns=0,
            enter_before_last_bound_conditional_ns=0,
        )
    ],
    first_to_enter=_UNDECIDED,
    last_to_enter=_CERTAIN,
    last_to_leave=_CERTAIN,
    enter_spread_ns=1_400,
    enter_spread_bound_conditional_ns=42,
    leave_spread_ns=61_200,
    leave_spread_bound_conditional_ns=42,
)
_COMMUNICATOR = schemas.CommunicatorItem(
    communicator=COMMUNICATOR_NAME,
    ranks=8,
    collectives=1_408,
    unnumbered_spans=0,
    first_local_ns=EPOCH_NS,
    last_local_ns=EPOCH_NS + 8_240_000_000,
)

JOBS = schemas.JobList(correction_version=VERSION, jobs=[_JOB])
JOB_ANSWER = schemas.JobAnswer(
    correction_version=VERSION, job=_JOB, step_first=0, step_last=19, communicators=1
)
STEPS = schemas.StepList(correction_version=VERSION, tenant=TENANT, job=JOB, steps=[_STEP])
STEP_ANSWER = schemas.StepAnswer(
    correction_version=VERSION,
    tenant=TENANT,
    job=JOB,
    step=_STEP,
    ranks=[_STEP_RANK],
    collectives=[_COLLECTIVE],
    next_cursor=None,
    traces=[TRACE_ID],
    transfers=[f"/v1/traces/{TRACE_ID}/transfers"],
    timeline=f"/v1/jobs/{JOB}/steps/{STEP}/timeline?tenant={TENANT}",
)
RANKS = schemas.RankList(correction_version=VERSION, tenant=TENANT, job=JOB, ranks=[_RANK])
RANK_ANSWER = schemas.RankAnswer(
    correction_version=VERSION,
    tenant=TENANT,
    job=JOB,
    rank=_RANK,
    steps=[
        schemas.RankStep(
            step=STEP,
            **{
                **{name: getattr(_STEP_RANK, name) for name in schemas.StepRank.model_fields},
                **dict.fromkeys(
                    name
                    for name in schemas.StepRank.model_fields
                    if name.startswith(("end_after", "end_before"))
                ),
            },
        )
    ],
    next_cursor=None,
)
COMMUNICATORS = schemas.CommunicatorList(
    correction_version=VERSION, tenant=TENANT, job=JOB, communicators=[_COMMUNICATOR]
)
COMMUNICATOR = schemas.CommunicatorAnswer(
    correction_version=VERSION,
    tenant=TENANT,
    job=JOB,
    communicator=_COMMUNICATOR,
    members=[
        schemas.CommunicatorMember(
            rank=5,
            host="h11",
            clock_domain="h11",
            collectives=1_408,
            sequence_last=1_407,
            reported="present",
        )
    ],
    collectives=[_COLLECTIVE],
    next_cursor=None,
)
