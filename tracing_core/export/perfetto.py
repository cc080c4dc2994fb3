# SPDX-License-Identifier: Apache-2.0
"""Spans as a Perfetto trace (protobuf), in whole nanoseconds.

Field numbers: perfetto's `protos/perfetto/trace`, messages Trace, TracePacket, TrackDescriptor,
TrackEvent, DebugAnnotation, ClockSnapshot. Protobuf rather than Perfetto's JSON, since JSON has
microseconds as doubles. Instants are on the trace's own clock; a snapshot ties it to Unix time, so
that the viewer shows dates.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracing_core.export.chrome import event_arguments
from tracing_core.export.placement import LeftOut, PlacedSpan, children_elsewhere
from tracing_core.export.tracks import Process, begins_and_ends, processes
from tracing_core.export.wire import (
    bytes_field,
    double_field,
    fixed64_field,
    text_field,
    varint_field,
)

MEDIA_TYPE = "application/vnd.google.perfetto"
SEQUENCE_ID = 1
CLOCK_REALTIME, CLOCK_BOOTTIME = 1, 6
"""BuiltinClock; events without a clock of their own are on BOOTTIME, the default trace clock."""
SLICE_BEGIN, SLICE_END, INSTANT = 1, 2, 3
"""TrackEvent.Type."""
PID_FIRST = 1_000_000
"""Process ids are made up; small ones are special to viewers (0 is the kernel's idle task)."""


def perfetto_trace(placed: Sequence[PlacedSpan], left_out: Sequence[LeftOut]) -> bytes:
    """The whole trace."""
    return b"".join(bytes_field(1, packet) for packet in _packets(placed, left_out))


def _packets(placed: Sequence[PlacedSpan], left_out: Sequence[LeftOut]) -> Iterator[bytes]:
    origin_ns = min((item.start_ns for item in placed), default=0)
    clocks = b"".join(
        bytes_field(1, varint_field(1, clock) + varint_field(2, origin_ns))
        for clock in (CLOCK_BOOTTIME, CLOCK_REALTIME)
    )
    snapshot = bytes_field(6, clocks + varint_field(2, CLOCK_BOOTTIME))
    incremental_state_cleared = varint_field(13, 1)
    yield varint_field(8, origin_ns) + snapshot + _sequence() + incremental_state_cleared
    flows = {
        parent: [_hash(child.span.span_id) for child in children]
        for parent, children in children_elsewhere(placed).items()
    }
    targets = {flow for group in flows.values() for flow in group}
    for process in processes(placed):
        yield _process_track(process)
        for number, lane in enumerate(process.lanes, 1):
            track = _hash(process.name, process.number, number)
            yield _lane_track(process, number, track)
            for instant_ns, item in begins_and_ends(lane):
                event = varint_field(9, SLICE_END)
                if item is not None:
                    event = _begin(item, flows.get(item.span.span_id, ()), targets)
                yield _event(instant_ns, event + varint_field(11, track))
    for left in left_out:
        name = f"left out: {left.span_count} spans of clock {left.clock or 'unknown'}"
        event = varint_field(9, INSTANT) + text_field(23, name)
        yield _event(origin_ns, event + bytes_field(4, _annotation("reason", left.reason)))


def _sequence() -> bytes:
    return varint_field(10, SEQUENCE_ID)


def _event(instant_ns: int, track_event: bytes) -> bytes:
    return varint_field(8, instant_ns) + _sequence() + bytes_field(11, track_event)


def _process_track(process: Process) -> bytes:
    descriptor = varint_field(1, PID_FIRST + process.number) + text_field(6, process.name)
    track = varint_field(1, _hash(process.name, process.number)) + bytes_field(3, descriptor)
    return _sequence() + bytes_field(60, track)


def _lane_track(process: Process, number: int, track: int) -> bytes:
    pid = PID_FIRST + process.number
    thread = (
        varint_field(1, pid)
        + varint_field(2, pid * 1000 + number)
        + text_field(5, f"lane {number}")
    )
    parent = varint_field(5, _hash(process.name, process.number))
    return _sequence() + bytes_field(60, varint_field(1, track) + parent + bytes_field(4, thread))


def _begin(item: PlacedSpan, flows: Sequence[int], targets: set[int]) -> bytes:
    own = _hash(item.span.span_id)
    return b"".join(
        (
            varint_field(9, SLICE_BEGIN),
            text_field(22, item.span.kind.name.lower()),
            text_field(23, item.span.name),
            *(fixed64_field(47, flow) for flow in flows),
            fixed64_field(48, own) if own in targets else b"",
            *(bytes_field(4, _annotation(k, v)) for k, v in event_arguments(item).items()),
        )
    )


def _annotation(name: str, value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    """A DebugAnnotation."""
    return text_field(10, name) + _value(value)


def _value(value: Any) -> bytes:  # noqa: ANN401 - any JSON value
    match value:
        case bool():
            return varint_field(2, int(value))
        case int():
            return varint_field(4, value)
        case float():
            return double_field(5, value)
        case Mapping():
            return b"".join(bytes_field(11, _annotation(k, v)) for k, v in value.items())
        case list():
            return b"".join(bytes_field(12, _value(item)) for item in value)
        case _:
            return text_field(6, "" if value is None else str(value))


def _hash(*parts: str | int) -> int:
    """A 64-bit id that is the same in each export; never 0."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") or 1
