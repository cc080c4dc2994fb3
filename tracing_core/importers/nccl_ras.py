# SPDX-License-Identifier: Apache-2.0
"""NCCL RAS JSON: the status of a job's communicators, and events of its MONITOR mode.

These are observations at an instant, so their spans have no length. RAS writes local time as text
without a zone, in seconds: the instant's place on any clock is not known, and is not guessed. It
is stored as if the text were UTC, on no named clock.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from tracing_core.clock_domains import SPAN_COMMUNICATOR, SPAN_RANK, ClockKind
from tracing_core.importers.ids import span_id, trace_id
from tracing_core.importers.json_stream import JsonReader
from tracing_core.importers.report import FileClock, FileReport, ImportOptions
from tracing_core.importers.resources import resource
from tracing_core.importers.source import Source
from tracing_core.importers.values import attribute, attributes, member, objects, text
from tracing_core.model import Attributes, AttributeValue, Span, SpanEvent, SpanKind

FORMAT = "nccl-ras"
SECOND_NS = 10**9
CLOCK = FileClock(
    name="",
    kind=ClockKind.UNKNOWN,
    alignment="none: local time as text without a zone, read as UTC",
    quantum_ns=SECOND_NS,
    reason="local time without a zone, in whole seconds",
)


def ras_spans(source: Source, options: ImportOptions, report: FileReport) -> Iterator[Span]:
    """A span per communicator of a status, and per event of a monitor."""
    report.format = FORMAT
    reader = JsonReader(source.chunks())
    owner = resource(options, CLOCK, host=options.host, service="nccl")
    for line in reader.documents():
        record = reader.value()
        time_ns = _time_ns(record.get("timestamp")) if isinstance(record, dict) else None
        if time_ns is None or not isinstance(record, dict):
            report.refuse("timestamp is missing or not YYYY-MM-DD hh:mm:ss", f"line {line}")
            continue
        if "communicators" in record:
            for communicator in objects(record.get("communicators")):
                yield report.take(_status(communicator, time_ns, options, owner), CLOCK)
        elif "event" in record:
            yield report.take(_event(record, time_ns, options, owner), CLOCK)
        else:
            report.ignored["records without communicators or event"] += 1


def communicator_name(communicator: Mapping[str, object]) -> str:
    """`hash` alone is not unique, so the secondary one is part of the name."""
    names = (text(communicator.get("hash")), text(communicator.get("secondary_hash")))
    return "/".join(name for name in names if name)


def _status(
    communicator: Mapping[str, object], time_ns: int, options: ImportOptions, owner: Attributes
) -> Span:
    name = communicator_name(communicator)
    missing = list(objects(communicator.get("missing_ranks")))
    found: dict[str, AttributeValue] = {
        SPAN_COMMUNICATOR: name,
        "nccl.n_ranks": attribute(communicator.get("size")),
        "nccl.missing_ranks": tuple(attribute(rank.get("rank")) for rank in missing),
    }
    events = [
        *(_rank_event("nccl.rank", rank, time_ns) for rank in objects(communicator.get("ranks"))),
        *(_rank_event("nccl.rank.missing", rank, time_ns) for rank in missing),
    ]
    return _span("nccl.ras.status", found, tuple(events), (name, time_ns), options, owner)


def _event(
    record: Mapping[str, object], time_ns: int, options: ImportOptions, owner: Attributes
) -> Span:
    found = {
        "nccl.ras.group": attribute(record.get("group")),
        "nccl.ras.details": attribute(record.get("details")),
        **attributes(member(record, "peer"), "nccl.ras.peer."),
    }
    event = text(record.get("event"))
    identity = (event, str(sorted(found.items(), key=str)), time_ns)
    return _span(f"nccl.ras.{event}", found, (), identity, options, owner)


def _rank_event(name: str, rank: Mapping[str, object], time_ns: int) -> SpanEvent:
    found = attributes({key: value for key, value in rank.items() if key != "rank"}, "nccl.")
    return SpanEvent(
        name=name,
        time_local_ns=time_ns,
        attributes={SPAN_RANK: attribute(rank.get("rank")), **found},
    )


def _span(
    name: str,
    found: dict[str, AttributeValue],
    events: tuple[SpanEvent, ...],
    identity: tuple[str | int, ...],
    options: ImportOptions,
    owner: Attributes,
) -> Span:
    if options.job:
        found["tempotrace.job"] = options.job
    time_ns = identity[-1]
    assert isinstance(time_ns, int)
    return Span(
        tenant=options.tenant,
        trace_id=trace_id(options.tenant, options.job, name, *identity),
        span_id=span_id(name, *identity),
        parent_span_id="",
        name=name,
        kind=SpanKind.INTERNAL,
        start_local_ns=time_ns,
        end_local_ns=time_ns,
        clock_domain="",
        host=options.host,
        service="nccl",
        attributes=found,
        events=events,
        resource=owner,
        scope_name=f"tempotrace.import.{FORMAT}",
    )


def _time_ns(value: object) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        read = datetime.strptime(value, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    seconds = int(read.timestamp())
    return seconds * SECOND_NS if 0 <= seconds < 2**63 // SECOND_NS else None
