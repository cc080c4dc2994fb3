# SPDX-License-Identifier: Apache-2.0
"""Example answer of the timelines."""

from tracing_core.service.examples import EPOCH_NS, SEND_ID, TRACE_ID
from tracing_core.service.schemas_timeline import (
    TimelineAnswer,
    TimelineItem,
    TimelineSpan,
    TimelineTrack,
)

_SPAN = TimelineSpan(
    trace_id=TRACE_ID,
    span_id=SEND_ID,
    parent_span_id="",
    name="allreduce",
    kind="internal",
    start_local_ns=EPOCH_NS + 412,
    end_local_ns=EPOCH_NS + 4_000_412,
)
TIMELINE = TimelineAnswer(
    correction_version=3,
    time="corrected",
    from_ns=EPOCH_NS,
    to_ns=EPOCH_NS + 4_200_000,
    resolution_ns=8_192,
    spans=522,
    tracks=[
        TimelineTrack(
            tenant="alpha",
            host="h3",
            rank=2,
            clock_domain="h3",
            statuses=["synchronised"],
            spans=5,
            busy_ns=4_000_000,
            longest_ns=4_000_000,
            total_ns=4_009_300,
            items=[
                TimelineItem(
                    start_ns=EPOCH_NS + 37,
                    end_ns=EPOCH_NS + 4_000_037,
                    spans=1,
                    busy_ns=4_000_000,
                    longest_ns=4_000_000,
                    bound_hard_ns=310,
                    bound_conditional_ns=21,
                    span=_SPAN,
                ),
                TimelineItem(
                    start_ns=EPOCH_NS + 16_402,
                    end_ns=EPOCH_NS + 22_110,
                    spans=4,
                    busy_ns=5_600,
                    longest_ns=3_100,
                    bound_hard_ns=310,
                    bound_conditional_ns=21,
                    span=None,
                ),
            ],
        )
    ],
    left_out=[],
    next_cursor=None,
)
