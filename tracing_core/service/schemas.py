# SPDX-License-Identifier: Apache-2.0
"""The JSON of API v1. Instants and clock offsets are decimal strings: they exceed 2^53.

`*_local_ns` is on the clock that took the stamp, `*_reference_ns` on the fabric's reference.
A bound of null is infinite; a corrected value of null is unknown.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

NsText = Annotated[int, PlainSerializer(str, return_type=str)]
"""Nanoseconds that may exceed 2^53, as a decimal string in JSON."""


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


class Health(Versioned):
    """The service is up and its store answers."""

    status: str
    spans: int
    packets: int
    hops: int
    otlp_requests: int
    otlp_spans_accepted: int
    otlp_spans_rejected: int


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
    start_local_ns: NsText
    end_local_ns: NsText
    span_count: int
    hosts: list[str]
    job: str
    step: int | None


class TraceList(Versioned):
    """Traces, newest first."""

    traces: list[TraceItem]


class CorrectionRow(ApiModel):
    """One clock's correction over one interval of its own time."""

    valid_from_local_ns: NsText
    valid_to_local_ns: NsText
    anchor_local_ns: NsText
    offset_ns: NsText
    rate_ppb: float
    bound_hard_ns: int | None
    bound_conditional_ns: int | None
    method: str
    prior: str
    status: str
    reason: str
    ptp_offset_ns: int | None


class ClockItem(ApiModel):
    """A clock and its corrections, oldest first."""

    clock: str
    kind: str
    node_id: int
    corrections: list[CorrectionRow]


class ClockList(Versioned):
    """All clocks."""

    clocks: list[ClockItem]


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


class NodeItem(ApiModel):
    """A NIC or switch."""

    name: str
    kind: str
    node_id: int
    ip: str
    status: str
    """Of its newest correction; "unknown" without one."""


class Fabric(Versioned):
    """Nodes and links for drawing."""

    nodes: list[NodeItem]
    links: list[LinkItem]
