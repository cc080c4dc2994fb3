# SPDX-License-Identifier: Apache-2.0
"""NCCL inspector records: one JSON object per collective or point-to-point operation of a rank.

Only verbose records say when something happened (`NCCL_INSPECTOR_DUMP_VERBOSE=1`); stamps are the
host's system clock in microseconds. `coll_stop_ts` is the end of the enqueue, so a span ends with
the last `kernel_stop_ts`. All ranks of one operation share a trace.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tracing_core.clock_domains import (
    SPAN_COMMUNICATOR,
    SPAN_RANK,
    SPAN_SEQUENCE,
    SPAN_TIME_FLAG,
    TimeFlag,
)
from tracing_core.importers.ids import span_id, trace_id
from tracing_core.importers.json_stream import JsonReader
from tracing_core.importers.numbers import micros_to_ns, whole
from tracing_core.importers.report import FileClock, FileReport, ImportOptions
from tracing_core.importers.resources import host_clock, resource
from tracing_core.importers.source import Source
from tracing_core.importers.values import attribute, member, objects, text
from tracing_core.model import Attributes, AttributeValue, Span, SpanEvent, SpanKind

FORMAT = "nccl-inspector"
NOT_VERBOSE = "no event times: NCCL_INSPECTOR_DUMP_VERBOSE=1 writes them"
ZERO_STAMP = "a start or stop stamp is 0 or missing"
END_BEFORE_START = "the end lies before the start: stamps of another operation"
SEQUENCE_BROKEN = "the start lies before that of an earlier sequence number"
COLLECTIVE = "coll"
_OPERATIONS = (("coll_perf", COLLECTIVE), ("p2p_perf", "p2p"))


@dataclass(slots=True)
class _Rank:
    """What one rank of a communicator was last seen doing."""

    newest_sn: int = -1
    newest_start_ns: int = 0
    owners: dict[tuple[str, str], tuple[FileClock, Attributes]] = field(default_factory=dict)


def inspector_spans(source: Source, options: ImportOptions, report: FileReport) -> Iterator[Span]:
    """A span per operation with usable stamps."""
    report.format = FORMAT
    reader = JsonReader(source.chunks())
    ranks: dict[tuple[str, str, str, int], _Rank] = {}
    for line in reader.documents():
        record = reader.value()
        if not isinstance(record, dict):
            report.refuse("no object", f"line {line}")
            continue
        kind = next((pair for pair in _OPERATIONS if pair[0] in record), None)
        if kind is None:
            report.ignored["records without an operation"] += 1
            continue
        key, prefix = kind
        operation, header = member(record, key), member(record, "header")
        name = f"nccl:{text(operation.get(prefix))}"
        number, rank = whole(operation.get(f"{prefix}_sn")), whole(header.get("rank"))
        if number is None or rank is None:
            report.refuse("rank or sequence number is missing", name)
            continue
        times = _times(operation, prefix)
        if isinstance(times, str):
            report.refuse(times, name)
            continue
        start_ns, end_ns, events = times
        host = options.host or text(member(record, "metadata").get("hostname"))
        communicator = text(header.get("id"))
        seen = ranks.setdefault((host, communicator, prefix, rank), _Rank())
        if number > seen.newest_sn and start_ns < seen.newest_start_ns:
            report.refuse(SEQUENCE_BROKEN, f"{name} {number}")
            continue
        if number > seen.newest_sn:
            seen.newest_sn, seen.newest_start_ns = number, start_ns
        clock, owner = _owner(seen, options, host, text(member(record, "metadata").get("pid")))
        span = Span(
            tenant=options.tenant,
            trace_id=trace_id(options.tenant, options.job, communicator, prefix, number),
            span_id=span_id(options.job, communicator, prefix, number, host, rank),
            parent_span_id="",
            name=name,
            kind=SpanKind.INTERNAL,
            start_local_ns=start_ns,
            end_local_ns=end_ns,
            clock_domain=clock.name,
            host=host,
            service="nccl",
            attributes=_attributes(record, operation, prefix, options),
            events=events,
            resource=owner,
            scope_name=f"tempotrace.import.{FORMAT}",
        )
        yield report.take(span, clock)


def _owner(
    seen: _Rank, options: ImportOptions, host: str, pid: str
) -> tuple[FileClock, Attributes]:
    key = (host, pid)
    if key not in seen.owners:
        clock = host_clock(
            options, host, alignment="gettimeofday in microseconds, Unix time", quantum_ns=1000
        )
        seen.owners[key] = clock, resource(options, clock, host=host, service="nccl")
    return seen.owners[key]


def _times(
    operation: Mapping[str, object], prefix: str
) -> tuple[int, int, tuple[SpanEvent, ...]] | str:
    """Start, end and events of an operation, or why it has none."""
    stamps = member(operation, "event_trace_ts")
    if not stamps:
        return NOT_VERBOSE
    start_ns = micros_to_ns(stamps.get(f"{prefix}_start_ts"))
    enqueued_ns = micros_to_ns(stamps.get(f"{prefix}_stop_ts"))
    kernels = [
        (whole(kernel.get("channel_id")) or 0, micros_to_ns(kernel.get("kernel_start_ts")),
         micros_to_ns(kernel.get("kernel_stop_ts")))
        for kernel in objects(stamps.get("kernel_events"))
    ]  # fmt: skip
    stops = [stop for _, _, stop in kernels]
    if start_ns is None or start_ns <= 0 or any(stop is None or stop <= 0 for stop in stops):
        return ZERO_STAMP
    ends = [stop for stop in stops if stop is not None]
    end_ns = max(ends) if ends else enqueued_ns
    if end_ns is None or end_ns <= 0:
        return ZERO_STAMP
    if end_ns < start_ns:
        return END_BEFORE_START
    events: list[tuple[str, int | None, int | None]] = [("enqueued", enqueued_ns, None)]
    for channel, begun, stop in kernels:
        events += [("kernel.start", begun, channel), ("kernel.stop", stop, channel)]
    return (
        start_ns,
        end_ns,
        tuple(
            SpanEvent(
                name=name,
                time_local_ns=time_ns,
                attributes={} if channel is None else {"nccl.channel": channel},
            )
            for name, time_ns, channel in events
            if time_ns is not None and time_ns > 0
        ),
    )


def _attributes(
    record: Mapping[str, object],
    operation: Mapping[str, object],
    prefix: str,
    options: ImportOptions,
) -> dict[str, AttributeValue]:
    header = member(record, "header")
    found: dict[str, AttributeValue] = {
        SPAN_COMMUNICATOR: text(header.get("id")),
        SPAN_RANK: whole(header.get("rank")) or 0,
        "nccl.n_ranks": whole(header.get("n_ranks")) or 0,
        "nccl.sequence_number": whole(operation.get(f"{prefix}_sn")) or 0,
        "nccl.bytes": whole(operation.get(f"{prefix}_msg_size_bytes")) or 0,
    }
    if prefix == COLLECTIVE:
        found[SPAN_SEQUENCE] = found["nccl.sequence_number"]
    if not objects(member(operation, "event_trace_ts").get("kernel_events")):
        found[SPAN_TIME_FLAG] = TimeFlag.NOT_COMPLETED.value  # the end is that of the enqueue
    for key in ("exec_time_us", "timing_source", "algobw_gbs", "busbw_gbs", "algo", "proto"):
        if f"{prefix}_{key}" in operation:
            found[f"nccl.{key}"] = attribute(operation[f"{prefix}_{key}"])
    if "p2p_peer" in operation:
        found["nccl.peer_rank"] = attribute(operation["p2p_peer"])
    if options.job:
        found["tempotrace.job"] = options.job
    return found
