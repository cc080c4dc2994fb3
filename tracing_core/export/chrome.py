# SPDX-License-Identifier: Apache-2.0
"""Spans as Chrome trace JSON (Trace Event Format), which Perfetto and chrome://tracing open.

`ts` is microseconds, a double in most readers: near today's Unix time it would resolve a quarter of
a microsecond. So it counts from the earliest span; `otherData.origin_ns` says where that lies.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tracing_core.export.placement import (
    LeftOut,
    PlacedSpan,
    children_elsewhere,
    time_attributes,
)
from tracing_core.export.tracks import processes
from tracing_core.plain_values import plain_attributes

MEDIA_TYPE = "application/json"


def chrome_trace(placed: Sequence[PlacedSpan], left_out: Sequence[LeftOut]) -> bytes:
    """The whole document."""
    origin_ns = min((item.start_ns for item in placed), default=0)
    document = {
        "displayTimeUnit": "ns",
        "otherData": {
            "producer": "TempoTrace",
            "origin_ns": str(origin_ns),
            "correction_version": placed[0].correction_version if placed else 0,
            "left_out": [
                {"clock": item.clock, "spans": item.span_count, "reason": item.reason}
                for item in left_out
            ],
        },
        "traceEvents": list(_events(placed, origin_ns)),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _events(placed: Sequence[PlacedSpan], origin_ns: int) -> Iterator[dict[str, Any]]:
    def micros(instant_ns: int) -> float:
        return round((instant_ns - origin_ns) / 1000, 3)

    places: dict[str, tuple[int, int]] = {}
    for process in processes(placed):
        pid = process.number
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": process.name}}
        for tid, lane in enumerate(process.lanes, 1):
            for item in lane:
                span = item.span
                places[span.span_id] = pid, tid
                yield {
                    "ph": "X",
                    "name": span.name,
                    "cat": span.kind.name.lower(),
                    "pid": pid,
                    "tid": tid,
                    "ts": micros(item.start_ns),
                    "dur": round((item.end_ns - item.start_ns) / 1000, 3),
                    "args": event_arguments(item),
                }
    parents = {item.span.span_id: item for item in placed}
    for number, (parent_id, children) in enumerate(children_elsewhere(placed).items()):
        parent = parents[parent_id]
        for index, child in enumerate(children):
            # A flow starts inside its slice; a child that begins outside is drawn from the edge.
            at_ns = min(max(child.start_ns, parent.start_ns), parent.end_ns)
            flow = {"cat": "causal", "name": "parent", "id": f"{number}.{index}"}
            for phase, span_id, instant_ns in (
                ("s", parent_id, at_ns),
                ("f", child.span.span_id, child.start_ns),
            ):
                pid, tid = places[span_id]
                more = {"bp": "e"} if phase == "f" else {}
                yield {
                    "ph": phase, "pid": pid, "tid": tid, "ts": micros(instant_ns), **flow, **more
                }  # fmt: skip


def event_arguments(item: PlacedSpan) -> dict[str, Any]:
    """What a viewer shows of a span: ids, time with interval, attributes."""
    span = item.span
    return {
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "parent_span_id": span.parent_span_id,
        **plain_attributes(time_attributes(item)),
        **plain_attributes(span.attributes),
    }
