# SPDX-License-Identifier: Apache-2.0
"""Formats are told from content; each gives spans, or says why not."""

import gzip
import json

import pytest

from tests.support.imported import imported
from tests.support.outside_data import outside_file
from tracing_core.clock_domains import RESOURCE_CLOCK_KIND, RESOURCE_CLOCK_QUANTUM_NS
from tracing_core.model import SpanKind

START_US = 1_700_000_000_000_000


@pytest.mark.parametrize(
    ("name", "form", "count"),
    [
        ("otlp/otlp_proto_example_trace.json", "otlp-json", 1),
        ("otlp/jaeger_otel_traces_01.json", "otlp-json", 1),
        ("jaeger/example_trace.json", "otlp-json", 5),
        ("zipkin/skew.json", "zipkin", 4),
        ("hta/trace_filter__sampled_rank-0.json.gz", "kineto", 4811),
        ("tracelens/h100_bert_small.json.gz", "kineto", 2060),
        ("nccl/inspector_example_0.json", "nccl-inspector", 0),
        ("nccl/inspector_example_1.json", "nccl-inspector", 1),
        ("nccl/ras_status_missing_rank.json", "nccl-ras", 1),
        ("nccl/ras_monitor_peer_dead.json", "nccl-ras", 1),
    ],
)
def test_published_files_are_told_from_their_content(name, form, count):
    """File names say nothing here: two of the files named for Jaeger are OTLP."""
    spans, report = imported(outside_file(name).read_bytes(), name="x")
    assert (report.format, len(spans), report.error) == (form, count, "")


@pytest.mark.parametrize(
    "content",
    [b"", b"   ", b"hello", b"[]", b"{}", b"[1]", b'{"time": "2021"}', b"\x1f\x8bxx", b"\x00\x01",
     b'{"resourceLogs": []}', b'[{"traceId":"1","id":"2","binaryAnnotations":[]}]',
     b'{"a":1}' * 3, gzip.compress(b"hello", mtime=0),
     gzip.compress(b'{"resourceSpans":[]}', mtime=0)[:-9]],
)  # fmt: skip
def test_what_no_importer_knows_is_one_sentence(content):
    """No exception, no spans, a reason."""
    spans, report = imported(content)
    assert spans == []
    assert report.error
    assert "\n" not in report.error


def test_gzip_of_several_members_is_read_to_its_end():
    """Logs that are appended to are written so (RFC 1952)."""
    lines = [
        json.dumps({"header": {"id": "c", "rank": 0}, "coll_perf": {"coll": "AllReduce",
                    "coll_sn": n, "event_trace_ts": {"coll_start_ts": START_US + n,
                    "coll_stop_ts": START_US + n + 1}}}).encode() + b"\n"
        for n in range(3)
    ]  # fmt: skip
    data = b"".join(gzip.compress(line, mtime=0) for line in lines)
    assert len(imported(data, piece_bytes=5)[0]) == 3


# ---- Chrome ----


def test_chrome_begin_and_end_events_pair_per_thread():
    """B/E nest like calls; X and asynchronous pairs stand beside them."""
    spans, report = imported(
        [
            {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "app"}},
            {"ph": "B", "name": "outer", "pid": 1, "tid": 1, "ts": 10},
            {"ph": "B", "name": "inner", "pid": 1, "tid": 1, "ts": 20},
            {"ph": "B", "name": "other", "pid": 1, "tid": 2, "ts": 21},
            {"ph": "E", "pid": 1, "tid": 1, "ts": 30.5},
            {"ph": "E", "pid": 1, "tid": 1, "ts": 40},
            {"ph": "E", "pid": 1, "tid": 2, "ts": 50},
            {"ph": "b", "name": "io", "cat": "c", "id": "0x1", "pid": 1, "ts": 12},
            {"ph": "e", "name": "io", "cat": "c", "id": "0x1", "pid": 1, "ts": 60},
            {"ph": "C", "name": "counter", "pid": 1, "ts": 1},
            {"ph": "B", "name": "never", "pid": 1, "tid": 3, "ts": 70},
            {"ph": "E", "pid": 9, "tid": 9, "ts": 70},
        ]
    )
    by_name = {s.name: s for s in spans}
    assert {n: (s.start_local_ns, s.end_local_ns) for n, s in by_name.items()} == {
        "outer": (10_000, 40_000), "inner": (20_000, 30_500), "other": (21_000, 50_000),
        "io": (12_000, 60_000),
    }  # fmt: skip
    assert by_name["inner"].parent_span_id == by_name["outer"].span_id
    assert by_name["other"].parent_span_id == by_name["io"].parent_span_id == ""
    assert by_name["outer"].service == "app"
    assert report.format == "chrome"
    assert report.refused == {"a begin without its end": 1, "an end without its begin": 1}
    assert report.ignored == {"metadata events": 1, "counter samples": 1}


def test_a_chrome_array_need_not_be_closed():
    """The format allows a file that ends behind its last event."""
    spans, report = imported(b'[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":2},\n')
    assert (len(spans), report.error) == (1, "")


@pytest.mark.parametrize(
    ("domain", "clock", "kind"),
    [(None, "", "unknown"), ("LINUX_CLOCK_MONOTONIC", "h3/monotonic", "monotonic")],
)
def test_a_chrome_file_is_on_the_clock_that_it_names(domain, clock, kind):
    """Without a name the clock stays unknown, whatever the host."""
    content = {"traceEvents": [{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}
    if domain:
        content["metadata"] = {"clock-domain": domain}
    (span,), _ = imported(content, host="h3")
    assert span.clock_domain == clock
    assert span.resource[RESOURCE_CLOCK_KIND] == kind


# ---- Jaeger ----


def jaeger_trace(**span):
    return {
        "traceID": "1f", "processes": {
            "p1": {"serviceName": "a", "tags": [
                {"key": "hostname", "type": "string", "value": "h3"}]}},
        "spans": [{
            "traceID": "1f", "spanID": "a1", "operationName": "get", "startTime": START_US,
            "duration": 50, "processID": "p1", "references": [], "flags": 1,
            "tags": [{"key": "span.kind", "type": "string", "value": "server"},
                     {"key": "n", "type": "int64", "value": 7}],
            "logs": [{"timestamp": START_US + 5, "fields": [
                {"key": "event", "type": "string", "value": "retry"},
                {"key": "k", "type": "bool", "value": True}]}],
            **span}],
    }  # fmt: skip


@pytest.mark.parametrize(
    "form", [lambda t: {"data": [t]}, lambda t: t, lambda t: [t]], ids=["answer", "one", "array"]
)
def test_jaeger_spans_keep_what_they_say(form):
    """Ids are padded, microseconds exact, tags typed, logs become events."""
    trace = jaeger_trace(
        references=[
            {"refType": "CHILD_OF", "traceID": "1f", "spanID": "b2"},
            {"refType": "FOLLOWS_FROM", "traceID": "2f", "spanID": "c3"},
        ]
    )
    (span,), report = imported(form(trace))
    assert report.format == "jaeger"
    assert (span.trace_id, span.span_id) == ("1f".zfill(32), "a1".zfill(16))
    assert span.parent_span_id == "b2".zfill(16)
    assert [(link.trace_id, link.span_id) for link in span.links] == [
        ("2f".zfill(32), "c3".zfill(16))
    ]
    assert (span.kind, span.service, span.host) == (SpanKind.SERVER, "a", "h3")
    assert (span.start_local_ns, span.end_local_ns) == (START_US * 1000, START_US * 1000 + 50_000)
    assert span.attributes["n"] == 7
    assert [(e.name, e.time_local_ns, e.attributes) for e in span.events] == [
        ("retry", START_US * 1000 + 5000, {"k": True})
    ]
    assert span.clock_domain == "h3/system"


@pytest.mark.parametrize(
    "change",
    [{"spanID": "0"}, {"spanID": "xyz"}, {"traceID": "1" * 33}, {"startTime": "soon"},
     {"startTime": -5}, {"references": [{"refType": "CHILD_OF", "traceID": "1f", "spanID": ""}]}],
)  # fmt: skip
def test_a_bad_jaeger_span_is_refused_alone(change):
    """Its neighbours are taken; the reason is counted with an example."""
    trace = jaeger_trace(**change)
    trace["spans"].append(jaeger_trace(spanID="d4")["spans"][0])
    spans, report = imported({"data": [trace]})
    assert [s.span_id for s in spans] == ["d4".zfill(16)]
    assert report.refused.total() == 1
    assert list(report.examples.values()) == ["get"]


# ---- Zipkin ----


def test_both_halves_of_a_shared_zipkin_span_are_kept():
    """CLIENT and SERVER have one id; the kind tells them apart."""
    spans, _ = imported(outside_file("zipkin/skew.json").read_bytes())
    halves = [s for s in spans if s.span_id == "74280ae0c10d8062"]
    assert {s.kind for s in halves} == {SpanKind.CLIENT, SpanKind.SERVER}
    assert len({s.host for s in halves}) == 2
    client, server = sorted(halves, key=lambda s: s.kind, reverse=True)
    assert client.start_local_ns - server.start_local_ns == 65_441_000


def test_a_zipkin_span_without_a_timestamp_is_refused():
    """It may be half of one that arrived elsewhere; there is no time to store it at."""
    spans, report = imported([{"traceId": "a", "id": "b", "name": "late"}])
    assert spans == []
    assert report.refused == {"timestamp is missing or no number in range": 1}


# ---- NCCL ----


def inspector(number=1, start=START_US, stop=START_US + 5, kernels=((START_US + 9,
              START_US + 400),), rank=0):  # fmt: skip
    return {
        "header": {"id": "0xc", "rank": rank, "n_ranks": 2, "nnodes": 1},
        "metadata": {"hostname": "h3", "pid": 7},
        "coll_perf": {
            "coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": 4096,
            "event_trace_ts": {
                "coll_start_ts": start, "coll_stop_ts": stop,
                "kernel_events": [{"channel_id": i, "kernel_start_ts": a, "kernel_stop_ts": b}
                                  for i, (a, b) in enumerate(kernels)],
            },
        },
    }  # fmt: skip


def lines(*records):
    return b"\n".join(json.dumps(record).encode() for record in records)


def test_a_collective_ends_with_its_last_kernel():
    """coll_stop_ts is the end of the enqueue, 40 ms too early in the published record."""
    (span,), _ = imported(outside_file("nccl/inspector_example_1.json").read_bytes())
    assert span.start_local_ns == 1752867229235059_000
    assert span.end_local_ns == 1752867229275811_000
    assert span.name == "nccl:ReduceScatter"


def test_ranks_of_one_nccl_collective_share_a_trace():
    """Joined by communicator, operation and sequence number."""
    spans, _ = imported(lines(inspector(1), inspector(1, rank=1), inspector(2)))
    assert spans[0].trace_id == spans[1].trace_id != spans[2].trace_id
    assert len({s.span_id for s in spans}) == 3


def test_a_record_that_is_not_verbose_says_how_to_get_times():
    """It holds a duration and when it was written, but not when the collective ran."""
    spans, report = imported(outside_file("nccl/inspector_example_0.json").read_bytes())
    assert spans == []
    ((reason, count),) = report.refused.items()
    assert count == 1
    assert "NCCL_INSPECTOR_DUMP_VERBOSE=1" in reason


def test_ras_names_missing_ranks_and_no_clock():
    """Local text without a zone is no instant of a known clock; both hashes identify."""
    (span,), report = imported(outside_file("nccl/ras_status_missing_rank.json").read_bytes())
    assert span.attributes["nccl.missing_ranks"] == (1,)
    assert span.attributes["tempotrace.communicator"] == (
        "0xae94423cfbb2ef4a/0xb7e7187447156001:0xb8242ed28a71381e"
    )
    assert span.clock_domain == ""
    assert span.resource[RESOURCE_CLOCK_QUANTUM_NS] == 10**9
    missing = [event for event in span.events if event.name == "nccl.rank.missing"]
    assert missing[0].attributes["nccl.status"]["unresponsive"] is True
    assert report.refused == {}


# ---- OTLP ----


def test_otlp_lines_keep_their_clock_and_refuse_bad_spans_alone():
    """As over the wire: one bad id costs one span; several clocks of one file are told apart."""

    def request(clock, span_id):
        return {"resourceSpans": [{"resource": {"attributes": [
            {"key": "tempotrace.clock.domain", "value": {"stringValue": clock}}]},
            "scopeSpans": [{"spans": [{"traceId": "a" * 32, "spanId": span_id, "name": "s",
                "startTimeUnixNano": "5", "endTimeUnixNano": "9"}]}]}]}  # fmt: skip

    spans, report = imported(
        lines(request("h1", "b" * 16), request("h2", "c" * 16), request("h1", "bad"))
    )
    assert [s.clock_domain for s in spans] == ["h1", "h2"]
    assert report.refused == {"span_id is not 8 bytes or is all zero": 1}
    assert [name for name, _ in report.clocks] == ["h1", "h2"]


def test_a_broken_otlp_line_names_its_place_and_keeps_what_came_before():
    """Lines before it are sent; the rest of the file is not."""
    good = outside_file("otlp/otlp_proto_example_trace.json").read_bytes()
    spans, report = imported(good + b'\n{"resourceSpans": [}')
    assert len(spans) == 1
    assert "line" in report.error


def test_point_to_point_operations_are_taken_too():
    """p2p records have a peer; the records with statistics of a dump are no spans."""
    record = {
        "header": {"id": "c", "rank": 3}, "metadata": {"hostname": "h"},
        "p2p_perf": {"p2p": "Send", "p2p_sn": 9, "p2p_peer": 5, "event_trace_ts": {
            "p2p_start_ts": START_US, "p2p_stop_ts": START_US + 2, "kernel_events": [
                {"channel_id": 0, "kernel_start_ts": START_US + 3,
                 "kernel_stop_ts": START_US + 8}]}},
    }  # fmt: skip
    (span,), report = imported(lines({"header": {}, "dump_stats": {}}, record))
    assert span.name == "nccl:Send"
    assert (span.attributes["nccl.peer_rank"], span.attributes["tempotrace.rank"]) == (5, 3)
    assert span.end_local_ns == (START_US + 8) * 1000
    assert report.ignored == {"records without an operation": 1}


@pytest.mark.parametrize(
    "number", ["1e99999999999999999999", "-1e-99999999999999999999", "1e400", "NaN", "-Infinity",
               "1" * 4000, "0." + "1" * 5000],
)  # fmt: skip
@pytest.mark.parametrize("place", ["ts", "dur", "pid", "args"])
def test_absurd_numbers_cost_at_most_their_event(number, place):
    """Exponents that no decimal can have, thousands of digits, NaN: refused or kept as text."""
    event = {"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 1, "args": {"x": 1}}
    event[place] = {"x": "@"} if place == "args" else "@"
    text = json.dumps([event, {"ph": "X", "name": "b", "ts": 7, "dur": 1}]).replace('"@"', number)
    spans, report = imported(text.encode())
    assert spans[-1].name == "b"
    assert report.error == ""
    assert len(spans) + report.refused.total() == 2
