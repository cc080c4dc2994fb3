# SPDX-License-Identifier: Apache-2.0
"""The JSON of API v1. Instants and clock offsets are decimal strings: they exceed 2^53.

`*_local_ns` is on the clock that took the stamp, `*_reference_ns` on the fabric's reference.
A bound of null is infinite; a corrected value of null is unknown.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from tracing_core.clock_evidence import EvidenceStatus

NsText = Annotated[int, PlainSerializer(str, return_type=str)]
"""Nanoseconds that may exceed 2^53, as a decimal string in JSON."""


NEXT_CURSOR = Field(
    default=None, description="Of the next page; null on the last one. Also in the Link header."
)


class ApiModel(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")


class Versioned(ApiModel):
    """An answer that depends on corrections names the version it was made with."""

    correction_version: int = Field(description="Repeat the request with as_of= to reproduce it.")


class Problem(ApiModel):
    """An error (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


class Liveness(ApiModel):
    """The service is up: what everybody may know."""

    status: str


class Health(Versioned):
    """The service is up and its store answers: what operators see."""

    status: str
    spans: int
    packets: int
    hops: int
    otlp_requests: int
    otlp_spans_accepted: int
    otlp_spans_rejected: int
    requests_refused: int = Field(description="For want of a token or of a scope.")


class Instant(ApiModel):
    """A raw stamp and what is known of its true time."""

    raw_local_ns: NsText
    corrected_reference_ns: NsText | None
    bound_hard_ns: int | None
    bound_conditional_ns: int | None
    status: str
    method: str
    reason: str


class Event(ApiModel):
    """A named instant inside a span."""

    name: str
    time: Instant
    attributes: dict[str, Any]


class SpanAnswer(ApiModel):
    """A span with raw and corrected time side by side."""

    tenant: str
    trace_id: str
    span_id: str
    parent_span_id: str
    name: str
    kind: str
    host: str
    service: str
    clock_domain: str
    start: Instant
    end: Instant
    duration_raw_ns: int | None = Field(description="null when the end is before the start")
    attributes: dict[str, Any]
    resource: dict[str, Any]
    events: list[Event]
    status_code: int
    status_message: str


class TraceAnswer(Versioned):
    """All spans of a trace, by raw start."""

    trace_id: str
    spans: list[SpanAnswer]


class TraceItem(ApiModel):
    """One trace of a list."""

    tenant: str
    trace_id: str
    root_name: str
    start_local_ns: NsText = Field(description="The earliest start, as stamped.")
    end_local_ns: NsText = Field(description="The latest end, as stamped.")
    span_count: int
    hosts: list[str]
    job: str
    step: int | None


class TraceList(Versioned):
    """Traces, newest first."""

    traces: list[TraceItem]
    next_cursor: str | None = NEXT_CURSOR


class CorrectionRow(ApiModel):
    """One clock's correction over one interval of its own time.

    Both bounds hold in the whole interval: they are the largest in it. They are smallest at the
    centre of an estimation window and grow away from it.
    """

    valid_from_local_ns: NsText
    valid_to_local_ns: NsText
    anchor_local_ns: NsText
    offset_ns: NsText
    rate_ppb: float
    bound_hard_ns: int | None
    bound_conditional_ns: int | None
    method: str = Field(description="reference for the reference clock itself")
    status: str = Field(description="synchronised, flagged, unknown or disrupted")
    reason: str
    ptp_offset_ns: int | None = Field(
        description="What the PTP client computed from the exchange nearest the anchor: one noisy"
        " value. Queueing scatters it; only its mean is steered towards zero."
    )
    window_index: int = Field(
        description="Number of the estimation window within a correction version. Its rows lie"
        " around its centre, away from it, and in the holdover before and after it."
    )


class ClockItem(ApiModel):
    """A clock, its summary row and its corrections, oldest first."""

    clock: str
    kind: str = Field(description="nic or switch; empty for a clock outside of the fabric")
    node_id: int
    centre: CorrectionRow | None = Field(
        description="The clock at the centre of the newest window: of that window's rows the one"
        " with the smallest conditional bound. /v1/summary and the page speak of this row; bounds"
        " grow away from it. null without a correction."
    )
    corrections: list[CorrectionRow] = Field(
        description="Rows of the newest window; with all=true every row in force."
    )
    corrections_in_force: int = Field(description="Number of all rows in force, listed or not.")


class ClockList(Versioned):
    """All clocks."""

    prior: str = Field(description="The assumption under which the conditional bounds hold.")
    clocks: list[ClockItem]
    next_cursor: str | None = NEXT_CURSOR


class LinkItem(ApiModel):
    """A cable and what was measured on it. `a_uv_ns` > 0: a to b is the slower direction."""

    name: str
    a: str
    a_port: int
    b: str
    b_port: int
    rate_bps: int
    access: bool
    a_uv_ns: float | None
    sigma_ns: float | None
    bad: bool
    delay_ab_ns: float | None
    delay_ba_ns: float | None
    samples_ab: int
    samples_ba: int


class LinkList(Versioned):
    """All links."""

    links: list[LinkItem]
    next_cursor: str | None = NEXT_CURSOR


class NodeItem(ApiModel):
    """A NIC or switch."""

    name: str
    kind: str
    node_id: int
    ip: str
    status: str = Field(
        description="Of its clock at the centre of the newest window; unknown without a correction."
    )


class Fabric(Versioned):
    """Nodes and links for drawing."""

    nodes: list[NodeItem]
    links: list[LinkItem]


class ComponentItem(ApiModel):
    """One part of a transfer's latency, in the order of the path."""

    kind: str
    entity: str
    entity_id: str
    value_ns: float | None
    bound_conditional_ns: float | None
    usual_ns: float | None
    spread_ns: float | None
    samples: int
    excess_ns: float | None
    excess_bound_ns: float | None
    clocks: list[str]
    notes: list[str]


class TransferItem(ApiModel):
    """One transfer: an rdma.send span and its rdma.recv span."""

    tenant: str
    trace_id: str
    send_span_id: str
    recv_span_id: str
    job: str
    step: int | None
    sender: str
    receiver: str
    bytes: int
    latency_raw_ns: NsText
    latency_corrected_ns: int | None
    latency_bound_conditional_ns: float | None
    usual_ns: float | None
    excess_ns: float | None
    spread_ns: float | None
    slow: bool = Field(
        description="The excess is beyond six usual scatters and beyond 20 % of the usual latency,"
        " whatever the cause: a transfer held up by another one's burst is slow too."
    )


class TransferList(Versioned):
    """Transfers by their send's start."""

    transfers: list[TransferItem]
    next_cursor: str | None = NEXT_CURSOR


class SlowTransferList(Versioned):
    """Slow transfers, the largest excess first."""

    total: int
    """All that match, listed or not."""
    compared: int
    """Transfers that were looked at."""
    transfers: list[TransferItem]
    next_cursor: str | None = NEXT_CURSOR


class AttributionAnswer(Versioned):
    """What made a transfer slow, or why that cannot be told."""

    transfer: TransferItem
    kind: str = Field(description="hop, link, host or none")
    entity: str
    entity_id: str
    side: str
    share: float | None
    reason: str
    evidence: list[str]
    components: list[ComponentItem]
    clock_status: dict[str, str]


class PairItem(ApiModel):
    """A causal pair that is inverted as stamped, or that is not decided."""

    rule: str
    trace_id: str
    first_span_id: str
    second_span_id: str
    first_clock: str
    second_clock: str
    raw_gap_ns: NsText
    corrected_gap_ns: NsText | None
    bound_ns: float | None
    raw_inverted: bool
    verdict: str


class Inversions(Versioned):
    """How often stamps contradict causality, raw and corrected."""

    pairs: int
    raw: int
    corrected: int
    undecided: int
    invalid: int
    left_out: int
    artefacts: int = Field(
        description="Inverted pairs on one clock: the instrumentation's doing. In no other count."
    )
    examples: list[PairItem]


class ClockEvidenceItem(ApiModel):
    """What causal pairs alone prove about one clock, as stamped."""

    clock: str
    status: EvidenceStatus
    against: str = Field(description="The clock that the offset is to.")
    offset_earliest_ns: NsText | None = Field(
        description="Least possible offset, positive when this clock is ahead; null: no limit."
    )
    offset_latest_ns: NsText | None
    pair_count: int = Field(description="Pairs with other clocks.")


class ClockEvidenceList(Versioned):
    """Every clock that has causal pairs with another one. Corrections play no part in it."""

    clocks: list[ClockEvidenceItem]


class LinkSummary(ApiModel):
    """Links of the fabric without access links."""

    fabric: int
    asymmetric_found: int


class ClockSummary(ApiModel):
    """Every clock counts with one row, its `centre` of /v1/clocks."""

    total: int
    by_status: dict[str, int] = Field(
        description="Clocks by status at the centre of their newest window."
    )
    bound_conditional_ns_median: float | None = Field(
        description="Median over the NIC clocks other than the reference, each at the centre of its"
        " newest window; bounds grow away from it. null when infinite or without such a clock."
    )
    bound_hard_ns_median: float | None = Field(
        description="Of the same clocks and rows as bound_conditional_ns_median."
    )


class InversionSummary(ApiModel):
    """Counts of `Inversions`."""

    raw: int
    corrected: int
    undecided: int
    left_out: int


class Summary(Versioned):
    """The state of the fabric and the traces in one answer.

    What is null belongs to the fabric, and the token lacks the scope fabric:read.
    """

    spans: int
    packets: int | None
    hops: int | None
    clocks: ClockSummary | None
    links: LinkSummary | None
    inversions: InversionSummary
    transfers: int
    transfers_slow: int = Field(description="See `slow` of a transfer.")
