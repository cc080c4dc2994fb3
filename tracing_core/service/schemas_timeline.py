# SPDX-License-Identifier: Apache-2.0
"""The JSON of timelines."""

from pydantic import Field

from tracing_core.service.schemas import ApiModel, NsText, Versioned


class TimelineSpan(ApiModel):
    """A span that stands for itself in a picture."""

    trace_id: str
    span_id: str
    parent_span_id: str
    name: str
    kind: str
    start_local_ns: NsText = Field(description="As stamped.")
    end_local_ns: NsText


class TimelineItem(ApiModel):
    """A span, or several that are too short to be seen one by one. Times are on the time line."""

    start_ns: NsText
    end_ns: NsText
    spans: int
    busy_ns: int = Field(description="Time in which at least one of them ran.")
    longest_ns: int
    bound_hard_ns: int | None = Field(description="The largest of their stamps; null: unbounded.")
    bound_conditional_ns: int | None = Field(
        description="Likewise: each stamp lies within it of where it is drawn."
    )
    span: TimelineSpan | None = Field(description="null for several.")


class TimelineTrack(ApiModel):
    """One rank or host on one clock, with exact totals of its spans in the window."""

    tenant: str
    host: str
    rank: int | None
    clock_domain: str
    statuses: list[str]
    spans: int
    busy_ns: int = Field(description="Time in which at least one of its spans ran.")
    longest_ns: int
    total_ns: int = Field(description="Sum of the spans' durations.")
    items: list[TimelineItem]


class TimelineLeftOut(ApiModel):
    """Spans of a clock that have no place on the reference's time line."""

    clock_domain: str
    spans: int
    reason: str


class TimelineAnswer(Versioned):
    """Tracks by host, rank and clock, their spans merged to what the picture can show."""

    time: str = Field(
        description="corrected: on the reference clock. raw: as stamped, where that was asked for"
        " or all stamps are of one clock that has no correction."
    )
    from_ns: NsText
    to_ns: NsText
    resolution_ns: int = Field(description="Shorter spans are merged; 0: none are.")
    spans: int = Field(description="In the window, over all tracks, listed on this page or not.")
    tracks: list[TimelineTrack]
    left_out: list[TimelineLeftOut]
    next_cursor: str | None = Field(description="Of the next tracks.")
