# SPDX-License-Identifier: Apache-2.0
"""Clock trouble that users of other tools reported in public: what the service does instead.

Each test is named after the behaviour; its docstring has the report. These are the cases of ingest,
store and analysis; those of import and display are in test_outside_reports.py.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.tracing_world import Fault, World, build
from tracing_core.analysis import Analysis
from tracing_core.attribution import VerdictKind
from tracing_core.clock_evidence import EvidenceStatus, clock_evidence
from tracing_core.export import NothingComparableError, TimeLine, for_picture, place
from tracing_core.ingest import DirectKeeper
from tracing_core.model import Correction, Span, SpanKind
from tracing_core.ordering import count_inversions, judge_pairs
from tracing_core.pairs import causal_pairs
from tracing_core.service import OtlpServer, make_ingest
from tracing_core.service.ingest import Ingest
from tracing_core.store import Store, TraceQuery

EPOCH_NS = 1_800_000_000 * 10**9
S, MS, US = 10**9, 10**6, 10**3
DAY_NS = 86_400 * S
PROTOBUF = {"content-type": "application/x-protobuf"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def post(ingest: Ingest, *messages: ExportTraceServiceRequest) -> list[httpx.Response]:
    with OtlpServer(ingest) as server, httpx.Client(trust_env=False, timeout=60) as client:
        url = f"{server.url}/v1/traces"
        return [
            client.post(url, content=message.SerializeToString(), headers=PROTOBUF)
            for message in messages
        ]


def message(*times_ns: tuple[int, int]) -> ExportTraceServiceRequest:
    """A trace a span."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number, (start_ns, end_ns) in enumerate(times_ns, 1):
        spans.add(
            trace_id=number.to_bytes(16, "big"),
            span_id=b"12345678",
            name="step",
            start_time_unix_nano=start_ns,
            end_time_unix_nano=end_ns,
        )
    return request


def call(
    number: int, client: str, server: str, offsets_ns: dict[str, int], **late: int
) -> list[Span]:
    """A synchronous call of 1 ms that takes 200 us each way, stamped by two clocks."""
    true_ns = EPOCH_NS + number * 10 * MS

    def span(host: str, kind: SpanKind, start_ns: int, end_ns: int) -> Span:
        shift_ns = offsets_ns.get(host, 0)
        return Span(
            tenant="alpha", trace_id=f"{number + 1:032x}", span_id=f"{int(kind):016x}",
            parent_span_id=f"{int(SpanKind.CLIENT):016x}" if kind is SpanKind.SERVER else "",
            name="call", kind=kind, start_local_ns=true_ns + start_ns + shift_ns,
            end_local_ns=true_ns + end_ns + shift_ns, clock_domain=host, host=host, service="s",
        )  # fmt: skip

    start_ns = late.get("server_start_ns", 200 * US)
    return [
        span(client, SpanKind.CLIENT, 0, MS),
        span(server, SpanKind.SERVER, start_ns, MS - 200 * US),
    ]


# ---- limits and retention ----


@pytest.mark.parametrize("limit_bytes", [1_000, 5_000])
def test_a_configured_limit_is_the_one_in_force(store: Store, limit_bytes: int) -> None:
    """The configured limit was ignored; it was always the default (jaegertracing/jaeger#6565)."""
    ingest = make_ingest(store, limit_bytes=limit_bytes)
    fits = message((EPOCH_NS, EPOCH_NS + 1))
    fits.resource_spans[0].schema_url = "x" * (limit_bytes - len(fits.SerializeToString()) - 4)
    beyond = message((EPOCH_NS, EPOCH_NS + 1))
    beyond.resource_spans[0].schema_url = "x" * limit_bytes
    taken, refused = post(ingest, fits, beyond)
    assert (taken.status_code, refused.status_code) == (200, 413)
    assert f"exceeds {limit_bytes} bytes" in refused.text


@pytest.mark.parametrize(("days", "left"), [(3, 1), (400, 2)])
def test_a_configured_retention_is_the_one_in_force(store: Store, days: int, left: int) -> None:
    """As above: what came more days ago than configured goes, and nothing else does."""
    store.spans.set_retention(days)
    for number, age_ns in enumerate((10 * DAY_NS, 0)):
        arrival_ns = time.time_ns() - age_ns
        keeper = DirectKeeper(store.spans, now_ns=lambda arrival_ns=arrival_ns: arrival_ns)
        post(make_ingest(store, keeper=keeper), message((EPOCH_NS + number, EPOCH_NS + number)))
    store.engine.command("OPTIMIZE TABLE span_rows FINAL")
    assert store.engine.scalar_int("SELECT count() FROM span_rows") == left


def test_a_long_span_that_started_long_ago_is_kept(store: Store) -> None:
    """Long spans legitimately start in the past (logtide-dev/logtide#283): age is that of arrival,
    so one that began 90 days ago and has just ended outlives a retention of one day."""
    store.spans.set_retention(1)
    ingest = make_ingest(store, keeper=DirectKeeper(store.spans))
    post(ingest, message((EPOCH_NS - 90 * DAY_NS, EPOCH_NS)))
    for table in ("span_rows", "trace_parts"):
        store.engine.command(f"OPTIMIZE TABLE {table} FINAL")
    (found,) = store.spans.search(TraceQuery())
    assert found.end_local_ns - found.start_local_ns == 90 * DAY_NS
    assert len(store.spans.trace(found.trace_id)) == 1


def test_what_is_acknowledged_is_there_and_what_is_not_is_counted(store: Store) -> None:
    """2xx, but spans older than 24 h vanished (pydantic/logfire#2242): old ones are kept, and a
    stamp that cannot be kept is refused by partial success, with count and reason."""
    store.spans.set_retention(1)
    ages_ns = [0, 23 * 3600 * S, 25 * 3600 * S, 400 * DAY_NS, EPOCH_NS - 1]
    times = [(EPOCH_NS - age_ns, EPOCH_NS - age_ns + 5) for age_ns in ages_ns]
    (answer,) = post(make_ingest(store), message(*times, (2**63, 2**63 + 5)))
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (answer.status_code, partial.rejected_spans) == (200, 1)
    assert "2^63" in partial.error_message
    store.engine.command("OPTIMIZE TABLE span_rows FINAL")
    assert store.spans.count() == len(ages_ns)


# ---- clocks that are off ----


def test_a_host_that_is_seconds_off_is_named_with_its_offset(store: Store) -> None:
    """A node 4 s off broke the links of traces (grafana/tempo#3335): the calls of all hosts prove
    which clock it is, and by how much."""
    offsets_ns = {"h3": 4 * S}
    pairs = [("h1", "h2"), ("h2", "h3"), ("h3", "h4"), ("h4", "h1"), ("h3", "h1")]
    for number, (client, server) in enumerate(pairs * 3):
        store.spans.append(call(number, client, server, offsets_ns))
    found = {item.clock: item for item in clock_evidence(causal_pairs(store))}
    assert {clock for clock, item in found.items() if item.status is EvidenceStatus.OFF} == {"h3"}
    h3 = found["h3"]
    assert h3.offset_earliest_ns is not None
    assert h3.offset_latest_ns is not None
    assert h3.offset_earliest_ns <= 4 * S <= h3.offset_latest_ns
    assert h3.offset_latest_ns - h3.offset_earliest_ns < MS
    assert found["h1"].status is EvidenceStatus.CONSISTENT


def test_of_two_hosts_that_disagree_neither_is_named(store: Store) -> None:
    """As above: with two clocks nobody can tell which one is off; the difference is told."""
    for number in range(3):
        store.spans.append(call(number, "h1", "h2", {"h2": -4 * S}))
    h1, h2 = clock_evidence(causal_pairs(store))
    assert h1.status is h2.status is EvidenceStatus.UNDECIDED
    assert h2.offset_earliest_ns is not None
    assert h2.offset_latest_ns is not None
    assert h2.offset_earliest_ns <= -4 * S <= h2.offset_latest_ns


def test_one_system_that_contradicts_itself_is_no_clock_fault(store: Store) -> None:
    """Server spans tens of us before their client, on one system
    (open-telemetry/opentelemetry-ebpf-instrumentation#1231): an artefact of the instrumentation,
    counted as that, and no evidence about any clock."""
    store.spans.append(call(0, "h1", "h1", {}, server_start_ns=-30 * US))
    store.spans.append(call(1, "h1", "h2", {}))
    pairs = causal_pairs(store)
    counts = count_inversions(judge_pairs(pairs, store.corrections.table()))
    assert counts.artefacts == 1
    assert (counts.pairs, counts.raw, counts.corrected) == (2, 0, 0)
    assert {item.clock: item.status for item in clock_evidence(pairs)} == {
        "h1": EvidenceStatus.CONSISTENT,
        "h2": EvidenceStatus.CONSISTENT,
    }


def behind(world: World, host: str, seconds: int) -> World:
    """The world as stamped if a host's clock were that much further behind."""

    def moved(stamp_ns: int) -> int:
        return stamp_ns - seconds * S

    world.spans = [
        span
        if span.clock_domain != host
        else replace(
            span,
            start_local_ns=moved(span.start_local_ns),
            end_local_ns=moved(span.end_local_ns),
            events=tuple(
                replace(event, time_local_ns=moved(event.time_local_ns)) for event in span.events
            ),
        )
        for span in world.spans
    ]

    def corrected(row: Correction) -> Correction:
        return replace(
            row,
            valid_from_local_ns=moved(row.valid_from_local_ns),
            valid_to_local_ns=moved(row.valid_to_local_ns),
            anchor_local_ns=moved(row.anchor_local_ns),
            offset_ns=row.offset_ns - seconds * S,
        )

    world.corrections = [corrected(row) if row.clock == host else row for row in world.corrections]
    return world


@pytest.mark.parametrize("is_corrected", [True, False], ids=["corrected", "not corrected"])
def test_a_conclusion_over_a_clock_that_is_off_is_refused_or_right(
    store: Store, is_corrected: bool
) -> None:
    """A host 49 s behind: an 800-fold degradation read as 1.35-fold, "no impact"
    (iopsystems/rezolus#1058). Corrected, the degradation and its cause are found; not corrected,
    there is no number and no verdict, and the clock's state says why."""
    slow = 100
    fault = Fault(transfer=slow, kind="receiver", place=0, extra_ns=5 * MS)
    world = build(18, faults=(fault,))
    receiver = world.hosts[slow][1]
    behind(world, receiver, 49)
    if not is_corrected:
        world.corrections = [row for row in world.corrections if row.clock != receiver]
    world.fill(store)
    index = Analysis(store).attribution()
    row = index.find(*world.ids[slow])
    assert row is not None
    answer = index.attribute(row)
    if is_corrected:
        assert (answer.kind, answer.entity_id) == (VerdictKind.HOST, receiver)
        assert answer.transfer.excess_ns is not None
        assert answer.transfer.excess_ns == pytest.approx(5 * MS, rel=0.01)
    else:
        assert (answer.kind, answer.entity_id) == (VerdictKind.NONE, "")
        assert answer.transfer.excess_ns is None
        assert answer.transfer.latency_corrected_ns is None
        assert answer.clock_status[receiver] == "unknown"


def test_times_of_hosts_that_are_not_aligned_are_not_added_up(store: Store) -> None:
    """Nodes more than 60 s apart: the total time came out below the I/O time (llnl/dftracer#158).
    Spans of clocks without corrections are not put on one time line; one clock alone is."""
    for number in range(2):
        store.spans.append(call(number, "h1", "h2", {"h2": -61 * S}))
    spans = store.spans.trace(f"{1:032x}")
    table = store.corrections.table()
    with pytest.raises(NothingComparableError):
        for_picture(place(spans, table), TimeLine.CORRECTED)
    one_clock, left_out = for_picture(place(spans[:1], table), TimeLine.CORRECTED)
    assert (len(one_clock), left_out) == (1, [])
