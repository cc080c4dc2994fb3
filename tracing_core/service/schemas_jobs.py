# SPDX-License-Identifier: Apache-2.0
"""The JSON of jobs, steps, ranks and communicators."""

from pydantic import Field

from tracing_core.service.schemas import NEXT_CURSOR, ApiModel, Instant, NsText, Versioned

_BOUND = "Conditional; the truth lies within it. 0 on one clock, null where unbounded or unknown."


class JobItem(ApiModel):
    """One training job of one tenant."""

    tenant: str
    job: str
    first_local_ns: NsText = Field(description="The earliest start, as stamped.")
    last_local_ns: NsText = Field(description="The latest end, as stamped.")
    ranks: int = Field(description="Distinct ranks that its spans name.")
    steps: int
    traces: int
    spans: int = Field(description="A span that was sent again later counts again.")


class JobList(Versioned):
    """Jobs, those that began last first."""

    jobs: list[JobItem]
    next_cursor: str | None = NEXT_CURSOR


class JobAnswer(Versioned):
    """One job."""

    job: JobItem
    step_first: int | None
    step_last: int | None
    communicators: int


class RankVerdict(ApiModel):
    """Who was first or last, if only one can have been."""

    rank: int | None = Field(
        description="null if undecided. A picture may show the greatest corrected time; this is"
        " certain under the prior of the bounds."
    )
    verdict: str = Field(description="certain or undecided")
    candidates: list[int] = Field(description="Ranks that can have been it, at most 64 of them.")
    candidate_count: int


class StepEdge(ApiModel):
    """The start or end of a step: the first start or last end of a rank."""

    rank: int | None = Field(description="The rank whose stamp is shown; see slowest for certainty")
    time: Instant | None = Field(description="null if no rank's clock is corrected.")
    earliest_reference_ns: NsText | None = Field(
        description="Between this and latest_reference_ns the true instant lies; null if unbounded."
    )
    latest_reference_ns: NsText | None


class StepItem(ApiModel):
    """One step of a job over all its ranks."""

    step: int
    ranks: int
    traces: int
    spans: int
    start: StepEdge
    end: StepEdge
    duration_ns: int | None = Field(description="From the first start to the last end, corrected.")
    duration_bound_conditional_ns: int | None = Field(description=_BOUND)
    slowest: RankVerdict = Field(description="The rank that ended last.")
    end_spread_ns: int | None = Field(description="From the first rank's end to the last one's.")
    end_spread_bound_conditional_ns: int | None = Field(description=_BOUND)
    order: str = Field(
        description="Of the ranks' ends. certain: every two are ordered, by their clock or by"
        " disjoint intervals. within_bounds: some are not. unknown: a clock is not corrected."
    )


class StepList(Versioned):
    """Steps of a job by number."""

    tenant: str
    job: str
    steps: list[StepItem]
    next_cursor: str | None = NEXT_CURSOR


class StepRank(ApiModel):
    """What one rank took in a step, on one clock."""

    rank: int
    host: str
    clock_domain: str
    compared: bool = Field(
        description="A rank with stamps of several clocks (host and GPU) is compared with the"
        " others by one of them: the corrected one with the smallest bound."
    )
    start: Instant
    end: Instant | None = Field(description="null where it is not known.")
    duration_raw_ns: int | None
    spans: int
    end_after_first_ns: int | None = Field(description="Its end after that of the first rank.")
    end_after_first_bound_conditional_ns: int | None = Field(description=_BOUND)
    end_before_last_ns: int | None = Field(description="Its end before that of the last rank.")
    end_before_last_bound_conditional_ns: int | None = Field(description=_BOUND)


class CollectiveRank(ApiModel):
    """When one rank entered and left a collective, on one clock."""

    rank: int | None = Field(description="null where the spans name none.")
    host: str
    clock_domain: str
    compared: bool = Field(description="As of a rank in a step.")
    enter: Instant
    leave: Instant | None = Field(description="null where it had not ended, or the end is wrong.")
    enter_after_first_ns: int | None = Field(description="Lateness: after the first rank entered.")
    enter_after_first_bound_conditional_ns: int | None = Field(description=_BOUND)
    enter_before_last_ns: int | None = Field(description="How long it waited for the last one.")
    enter_before_last_bound_conditional_ns: int | None = Field(description=_BOUND)


class CollectiveItem(ApiModel):
    """One operation of a communicator, by its sequence number."""

    communicator: str
    sequence: int
    name: str
    step: int | None
    ranks: list[CollectiveRank]
    first_to_enter: RankVerdict
    last_to_enter: RankVerdict = Field(description="Whom the others waited for.")
    last_to_leave: RankVerdict
    enter_spread_ns: int | None
    enter_spread_bound_conditional_ns: int | None = Field(description=_BOUND)
    leave_spread_ns: int | None
    leave_spread_bound_conditional_ns: int | None = Field(description=_BOUND)


class StepAnswer(Versioned):
    """A step with all its ranks and collectives."""

    tenant: str
    job: str
    step: StepItem
    ranks: list[StepRank] = Field(description="By rank, host and clock.")
    collectives: list[CollectiveItem] = Field(
        description="By communicator and sequence number, `limit` of them."
    )
    next_cursor: str | None = Field(description="Of the next collectives of the step.")
    traces: list[str] = Field(description="The first 100.")
    transfers: list[str] = Field(description="Paths of these traces' transfers.")
    timeline: str = Field(description="Path of the step's timeline.")


class RankPlace(ApiModel):
    """What a rank reported from one host, on one clock."""

    host: str
    clock_domain: str
    first: Instant
    last: Instant
    steps: int
    spans: int


class RankItem(ApiModel):
    """One rank of a job."""

    rank: int
    places: list[RankPlace]


class RankList(Versioned):
    """Ranks of a job by number."""

    tenant: str
    job: str
    ranks: list[RankItem]
    next_cursor: str | None = NEXT_CURSOR


class RankStep(StepRank):
    """A rank's part in one step."""

    step: int


class RankAnswer(Versioned):
    """One rank with its steps."""

    tenant: str
    job: str
    rank: RankItem
    steps: list[RankStep] = Field(description="By step, host and clock.")
    next_cursor: str | None = Field(description="Of the next steps.")


class CommunicatorItem(ApiModel):
    """One communicator of a job."""

    communicator: str
    ranks: int
    collectives: int = Field(description="Distinct sequence numbers.")
    unnumbered_spans: int = Field(
        description="Spans that cannot be joined over ranks: point-to-point operations, status"
        " reports, and profilers that write no sequence number."
    )
    first_local_ns: NsText
    last_local_ns: NsText


class CommunicatorList(Versioned):
    """Communicators of a job by name."""

    tenant: str
    job: str
    communicators: list[CommunicatorItem]
    next_cursor: str | None = NEXT_CURSOR


class CommunicatorMember(ApiModel):
    """A rank of a communicator."""

    rank: int
    host: str
    clock_domain: str
    collectives: int
    sequence_last: int | None = Field(description="Its highest sequence number.")
    reported: str = Field(
        description="What NCCL's RAS last said of it: present, missing, or empty without a report."
    )


class CommunicatorAnswer(Versioned):
    """A communicator's members, and its collectives by sequence number."""

    tenant: str
    job: str
    communicator: CommunicatorItem
    members: list[CommunicatorMember]
    collectives: list[CollectiveItem]
    next_cursor: str | None = Field(description="Of the next collectives.")
