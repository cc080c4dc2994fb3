# SPDX-License-Identifier: Apache-2.0
"""Clock trouble that users of other tools reported in public: what happens here instead.

Each test is named after the behaviour; its docstring has the report. These are the cases of import,
display and export.
"""

import json

import pytest

from tests.support.imported import imported
from tests.support.outside_data import outside_file
from tracing_core.clock_domains import RESOURCE_CLOCK_QUANTUM_NS, SPAN_TIME_FLAG
from tracing_core.corrections import CorrectionTable
from tracing_core.export import (
    NothingComparableError,
    TimeLine,
    chrome_trace,
    for_picture,
    perfetto_trace,
    place,
    time_attributes,
)
from tracing_core.export.jaeger import jaeger_trace
from tracing_core.model import ClockStatus, Correction, Span, SpanKind

MS, US = 10**6, 10**3
EPOCH_NS = 1_700_000_000_000_000_000
EPOCH_US = EPOCH_NS // US


def span(number, start_ns, length_ns, *, clock="a", parent=0, **changed):
    return Span(**{
        "tenant": "t", "trace_id": "1" * 32, "span_id": f"{number:016x}",
        "parent_span_id": f"{parent:016x}" if parent else "", "name": f"s{number}",
        "kind": SpanKind.INTERNAL, "start_local_ns": EPOCH_NS + start_ns,
        "end_local_ns": EPOCH_NS + start_ns + length_ns, "clock_domain": clock, "host": clock,
        "service": "s", **changed,
    })  # fmt: skip


def correction(clock, offset_ns, bound_ns=30):
    return Correction(
        clock=clock, valid_from_local_ns=0, valid_to_local_ns=2**62, anchor_local_ns=EPOCH_NS,
        offset_ns=offset_ns, rate_ppb=0.0, bound_hard_ns=10 * bound_ns,
        bound_conditional_ns=bound_ns, method="m", prior="p", status=ClockStatus.SYNCHRONISED,
    )  # fmt: skip


def table(*rows):
    return CorrectionTable([(1, row) for row in rows], version=1)


def jaeger_file(*spans, tags=()):
    """A Jaeger file of one process; `spans` are (id, parent, start_us, duration_us)."""
    return {"data": [{
        "traceID": "a1", "processes": {"p": {"serviceName": "s", "tags": list(tags)}},
        "spans": [
            {"traceID": "a1", "spanID": own, "operationName": own, "processID": "p",
             "startTime": start, "duration": duration, "references": [
                 {"refType": "CHILD_OF", "traceID": "a1", "spanID": parent}] if parent else []}
            for own, parent, start, duration in spans],
    }]}  # fmt: skip


def kineto(*events, **members):
    return {"schemaVersion": 1, "baseTimeNanoseconds": EPOCH_NS, "traceEvents": list(events),
            **members}  # fmt: skip


def event(name, cat, ts, dur, pid=1, tid=1, **args):
    return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "pid": pid, "tid": tid,
            "args": args}  # fmt: skip


def kernel(ts, dur=10.0, correlation=1):
    return event("k", "kernel", ts, dur, pid=0, tid=7, correlation=correlation, device=0)


def launch(ts, dur=5.0, correlation=1):
    return event("cudaLaunchKernel", "cuda_runtime", ts, dur, correlation=correlation)


# ---- identity and display ----


def test_a_span_without_a_host_is_not_moved_and_says_why():
    """A missing `ip` tag shifted the whole trace (jaegertracing/jaeger#1459)."""
    spans, report = imported(jaeger_file(("1", "", EPOCH_US, 50), ("2", "1", EPOCH_US - 9, 5)))
    placed = place(spans, table(correction("h3/system", 500)))
    assert [item.start_ns for item in placed] == [s.start_local_ns for s in spans]
    assert all(s.clock_domain == "" for s in spans)
    ((_, use),) = report.clocks.items()
    assert "no host identity" in use.clock.reason


def test_raw_corrected_and_interval_stand_side_by_side():
    """Corrected time that looks like real time is not trusted (jaeger#961, jaeger-ui#197)."""
    (item,) = place([span(1, 0, 100)], table(correction("a", 500, bound_ns=30)))
    found = time_attributes(item)
    assert found["tempotrace.time.shown"] == "corrected"
    assert found["tempotrace.start.raw_local_ns"] == EPOCH_NS
    assert found["tempotrace.start.corrected_reference_ns"] == EPOCH_NS - 500
    assert found["tempotrace.start.earliest_reference_ns"] == EPOCH_NS - 530
    assert found["tempotrace.start.latest_reference_ns"] == EPOCH_NS - 470


def test_correction_moves_both_ends_and_keeps_the_duration():
    """The start moved and the end did not: wrong and negative durations (jaeger#8167)."""
    (item,) = place([span(1, 0, 7)], table(correction("a", 10**9)))
    assert (item.start_ns, item.end_ns) == (EPOCH_NS - 10**9, EPOCH_NS - 10**9 + 7)


@pytest.mark.parametrize("wanted", [TimeLine.CORRECTED, TimeLine.RAW])
def test_correction_is_a_switch_in_every_view(wanted):
    """Some want it, some want it off (kibana#24072, hypertrace#139, lightstep-js#129)."""
    rows = table(correction("a", 500_000))
    placed = place([span(1, 0, 5 * MS)], rows, wanted)
    expected_ns = EPOCH_NS - (500_000 if wanted is TimeLine.CORRECTED else 0)
    assert placed[0].start_ns == expected_ns
    (shown,) = jaeger_trace(placed, wanted)["spans"]
    assert shown["startTime"] == expected_ns // US


def test_a_server_span_outside_of_its_client_is_shown_with_its_interval():
    """A server that starts before its client breaks links (grafana/tempo#3930, grafana#93060)."""
    client, server = span(1, 0, 100 * US), span(2, -5 * US, 50 * US, clock="b", parent=1)
    a, b = place([client, server], table(correction("a", 0, 40), correction("b", -20 * US, 40)))
    assert a.start_ns < b.start_ns  # with clock b 20 us behind, it starts inside
    assert time_attributes(b)["tempotrace.start.earliest_reference_ns"] > a.start_ns
    unknown = place([client, server], table(correction("a", 0)))[1]
    (_, shown) = jaeger_trace([a, unknown], TimeLine.CORRECTED)["spans"]
    assert "not corrected" in shown["warnings"][0]


def test_unknown_is_never_a_zero_error():
    """A fallback clock reported an error of 0 (meta-pytorch/torchcomms#2325)."""
    (item,) = place([span(1, 0, 5)], table())
    found = time_attributes(item)
    assert found["tempotrace.time.status"] == "unknown"
    assert [k for k in found if "bound" in k or "earliest" in k or "corrected_" in k] == []


# ---- resolution ----


def test_a_millisecond_clock_widens_the_interval_by_a_millisecond():
    """Milliseconds shown as microseconds moved spans by 3 ms (jaeger-client-java#192)."""
    host = ({"key": "hostname", "type": "string", "value": "h"},)
    content = jaeger_file(("1", "", EPOCH_US, 7000), ("2", "1", EPOCH_US + 1000, 3000), tags=host)
    spans, _ = imported(content, clock="h")
    assert {s.resource[RESOURCE_CLOCK_QUANTUM_NS] for s in spans} == {MS}
    found = time_attributes(place(spans, table(correction("h", 0, 30)))[1])
    assert found["tempotrace.start.earliest_reference_ns"] == EPOCH_NS + MS - 30 - MS


def test_a_child_within_the_resolution_beyond_its_root_is_no_contradiction():
    """A truncated Date.now put a child's end 0.6 ms behind its root's (posthog-js#4908)."""
    host = ({"key": "hostname", "type": "string", "value": "h"},)
    content = jaeger_file(("1", "", EPOCH_US, 4000), ("2", "1", EPOCH_US, 5000), tags=host)
    root, child = place(imported(content, clock="h")[0], table(correction("h", 0, 30)))
    assert child.end_ns > root.end_ns
    latest_root = time_attributes(root)["tempotrace.end.latest_reference_ns"]
    earliest_child = time_attributes(child)["tempotrace.end.earliest_reference_ns"]
    assert earliest_child <= latest_root


# ---- clocks that are none ----


def test_a_clock_that_counts_from_its_start_stays_unbounded():
    """Spans of a drifting performance.now lay in the past (opentelemetry-js#3279, #3355)."""
    content = {"traceEvents": [event("a", "c", 5_000_000, 10)],
               "metadata": {"clock-domain": "LINUX_CLOCK_MONOTONIC"}}  # fmt: skip
    spans, report = imported(content, host="h3")
    found = time_attributes(place(spans, table(correction("h3", 0)))[0])
    assert found["tempotrace.time.status"] == "unknown"
    ((name, kind),) = report.clocks
    assert (name, kind.value) == ("h3/monotonic", "monotonic")


@pytest.mark.parametrize(
    "content",
    [
        jaeger_file(("1", "", EPOCH_US, -3)),
        [{"traceId": "a", "id": "b", "timestamp": EPOCH_US, "duration": -3}],
        kineto(event("op", "cpu_op", 100, -3)),
        [event("op", "x", 100, -3)],
    ],
    ids=["jaeger", "zipkin", "kineto", "chrome"],
)
def test_two_clocks_in_one_span_are_flagged(content):
    """The start lay behind the end after a laptop's sleep (opentelemetry-js-contrib#1209)."""
    (one,), report = imported(content)
    assert one.attributes[SPAN_TIME_FLAG] == "end_before_start"
    assert report.flagged == {"end_before_start": 1}


def test_an_end_before_the_start_has_no_duration_but_keeps_its_stamps():
    """It wrapped to 585 million years, or became negative (openobserve#14368, contrib#9891)."""
    (item,) = place([span(1, 0, -1000)], table(correction("a", 500)))
    found = time_attributes(item)
    assert "unknown" in found["tempotrace.time.duration"]
    assert found["tempotrace.end.raw_local_ns"] == EPOCH_NS - 1000
    shown = json.loads(chrome_trace([item], []))["traceEvents"]
    assert [e["dur"] for e in shown if e["ph"] == "X"] == [0]
    (in_jaeger,) = jaeger_trace([item], TimeLine.CORRECTED)["spans"]
    assert in_jaeger["duration"] == 0
    assert "duration is unknown" in in_jaeger["warnings"][0]


# ---- profilers ----


def test_kernels_without_a_stamp_are_counted_and_not_ordered():
    """Kernels with ts 0 and dur 0 (pytorch/kineto#109)."""
    spans, report = imported(kineto(launch(100), kernel(0, 0), kernel(0, 0), kernel(120)))
    assert [s.name for s in spans] == ["cudaLaunchKernel", "k"]
    assert report.refused == {"ts is 0: the profiler had no stamp for it": 2}


def test_a_kernel_before_its_launch_is_uncertainty_between_two_clocks():
    """Kernels started before their launch by microseconds (pytorch/kineto#1380)."""
    spans, report = imported(kineto(launch(100), kernel(97.5)), host="h")
    assert report.counts["before_launch"] == 1
    assert report.flagged == {"before_launch": 1}
    assert "2500 ns" in report.notes[0]
    call, activity = spans
    assert activity.attributes[SPAN_TIME_FLAG] == "before_launch"
    assert (call.clock_domain, activity.clock_domain) == ("h/system", "h/gpu0")
    assert activity.start_local_ns == EPOCH_NS + 97_500  # raw, not repaired
    use = report.clocks["h/gpu0", activity_kind(report)]
    assert use.against_host == (None, -2500)


def activity_kind(report):
    """The GPU clock's kind, as the report's keys have it."""
    return next(kind for _, kind in report.clocks if kind.value == "gpu")


def test_host_and_gpu_events_never_nest_in_each_other():
    """A callee that exits after its caller was two clocks, not one stack (kineto#1082)."""
    spans, _ = imported(
        kineto(
            event("call", "cuda_runtime", 100, 10, correlation=5),
            event("k", "kernel", 101, 50, pid=1, tid=1, correlation=5, device=0),
            event("inner", "cpu_op", 102, 2),
        ),
        host="h",
    )
    by_name = {s.name: s for s in spans}
    assert by_name["inner"].parent_span_id == by_name["call"].span_id
    assert by_name["k"].clock_domain != by_name["call"].clock_domain


def test_impossible_gpu_stamps_lose_their_clock():
    """CUPTI gave start times that cannot be, more of them after idle time (pytorch#192021)."""
    spans, report = imported(
        kineto(launch(50_000_000), kernel(100), launch(50_000_100, correlation=2),
               kernel(50_000_200, correlation=2)), host="h",
    )  # fmt: skip
    wrong = next(s for s in spans if s.start_local_ns == EPOCH_NS + 100_000)
    assert wrong.attributes[SPAN_TIME_FLAG] == "impossible_start"
    assert wrong.clock_domain == ""
    assert "before the launch" in wrong.resource["tempotrace.clock.reason"]
    assert report.clocks["h/gpu0", activity_kind(report)].against_host == (None, 100_000)


def test_the_import_report_says_whether_ranks_are_aligned():
    """'Are the traces of ranks aligned already?' had no answer (pytorch#128292)."""
    _, report = imported(outside_file("hta/trace_filter__sampled_rank-0.json.gz").read_bytes())
    for use in report.clocks.values():
        assert use.clock.name
        assert "Unix time" in use.clock.alignment
        assert use.clock.quantum_ns == 1000
        assert use.first_local_ns < use.last_local_ns


def test_each_node_has_an_anchor_of_its_own():
    """Merging failed on the second node (mosaicml/composer#1270)."""
    other_ns = EPOCH_NS + 7_889_238 * 10**9
    a, _ = imported(kineto(event("op", "cpu_op", 5, 1), distributedInfo={"rank": 0}))
    b, _ = imported(kineto(event("op", "cpu_op", 5, 1), distributedInfo={"rank": 8},
                           baseTimeNanoseconds=other_ns))  # fmt: skip
    assert b[0].start_local_ns - a[0].start_local_ns == other_ns - EPOCH_NS
    assert a[0].clock_domain != b[0].clock_domain


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"start": 0}, "a start or stop stamp is 0 or missing"),
        ({"kernel": (EPOCH_US - 3_000_000, EPOCH_US - 2_999_000)}, "end lies before the start"),
    ],
    ids=["start 0.0", "stamps of another task"],
)
def test_collectives_with_impossible_stamps_are_refused(record, reason):
    """Stamps on the wrong task, 3 to 6 s off, and starts of 0.0 (nccl#1961, #2368, #2369)."""
    start = record.get("start", EPOCH_US)
    begun, stopped = record.get("kernel", (EPOCH_US + 9, EPOCH_US + 90))
    content = {
        "header": {"id": "c", "rank": 0}, "metadata": {"hostname": "h"},
        "coll_perf": {"coll": "AllReduce", "coll_sn": 1, "event_trace_ts": {
            "coll_start_ts": start, "coll_stop_ts": EPOCH_US + 5, "kernel_events": [
                {"channel_id": 0, "kernel_start_ts": begun, "kernel_stop_ts": stopped}]}},
    }  # fmt: skip
    spans, report = imported(content)
    assert spans == []
    assert reason in next(iter(report.refused))


def test_collectives_out_of_sequence_are_refused():
    """A later sequence number with an earlier start: one of them is another task's (#2368)."""

    def record(number, start):
        return json.dumps({
            "header": {"id": "c", "rank": 0}, "metadata": {"hostname": "h"},
            "coll_perf": {"coll": "Broadcast", "coll_sn": number, "event_trace_ts": {
                "coll_start_ts": start, "coll_stop_ts": start + 5}},
        }).encode()  # fmt: skip

    spans, report = imported(
        record(1, EPOCH_US) + record(2, EPOCH_US - 4_000_000) + record(3, EPOCH_US + 10)
    )
    assert [s.attributes["nccl.sequence_number"] for s in spans] == [1, 3]
    assert report.refused.total() == 1


# ---- merging machines ----


def test_two_machines_are_not_drawn_together_without_corrections():
    """A believable, false picture: 11.56 s apart raw, 1.6 ms in truth (simpler#2058, NPKit#20)."""
    placed = place([span(1, 0, 5), span(2, 11_560 * MS, 5, clock="b")], table())
    with pytest.raises(NothingComparableError):
        for_picture(placed, TimeLine.CORRECTED)


@pytest.mark.parametrize("encode", [chrome_trace, perfetto_trace])
def test_events_that_cannot_be_aligned_are_counted_in_the_file(encode):
    """Events of unaligned clocks were dropped in silence (perfetto#568, #1018, #6554)."""
    placed = place([span(1, 0, 5), span(2, 9, 5, clock="b")], table(correction("a", 0)))
    shown, left_out = for_picture(placed, TimeLine.CORRECTED)
    content = encode(shown, left_out)
    assert b"no correction exists for clock b" in content
    assert b"s1" in content
    assert b'"s2"' not in content


def test_a_picture_says_what_its_times_are_worth():
    """Method and uncertainty belong into the file (hw-native-sys/simpler#2099)."""
    placed = place([span(1, 0, 5)], table(correction("a", 0, 30)))
    events = json.loads(chrome_trace(placed, []))["traceEvents"]
    assert "clock a, ±30 ns, synchronised" in events[0]["args"]["name"]
    assert events[1]["args"]["tempotrace.time.method"] == "m"
