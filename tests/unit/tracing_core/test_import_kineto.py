# SPDX-License-Identifier: Apache-2.0
"""Kineto traces: exact absolute time, one clock per device, launches and steps."""

import gzip
import json
import re
import tracemalloc
from decimal import Decimal

import pytest

from tests.support.imported import imported
from tests.support.outside_data import outside_file
from tracing_core.clock_domains import RESOURCE_CLOCK_KIND, SPAN_TIME_FLAG
from tracing_core.importers import FileReport, ImportOptions, read_spans

BASE_NS = 222 * 7_889_238 * 10**9
PERIOD_NS = 7_889_238 * 10**9
OUTSIDE = (
    "hta/trace_filter__sampled_rank-0.json.gz",
    "hta/trace_filter__sampled_rank-1.json.gz",
    "hta/cpu_only__rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "tracelens/h100_bert_small.json.gz",
)


def event(name, cat, ts, dur, *, pid=1, tid=1, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
            "args": args}  # fmt: skip


def launch(correlation, ts, dur=5.0):
    return event("cudaLaunchKernel", "cuda_runtime", ts, dur, correlation=correlation)


def kernel(correlation, ts, dur=10.0, device=0):
    return event("gemm", "kernel", ts, dur, pid=device, tid=7, correlation=correlation,
                 device=device)  # fmt: skip


def trace(*events, **members):
    return {"schemaVersion": 1, "traceEvents": list(events), "baseTimeNanoseconds": BASE_NS,
            **members}  # fmt: skip


def test_absolute_time_is_base_plus_ts_to_the_nanosecond():
    """ts and dur are decimals of microseconds; 0.001 us is 1 ns and none is lost."""
    spans, report = imported(trace(event("op", "cpu_op", 1419247333291.708, 22.511)))
    start_ns = BASE_NS + 1_419_247_333_291_708
    assert [(s.start_local_ns, s.end_local_ns) for s in spans] == [(start_ns, start_ns + 22_511)]
    assert report.format == "kineto"


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_kernel_of_published_traces_starts_before_its_launch(name):
    """Public traces of 2023 to 2025 hold none, so a parser that finds one has mixed up times."""
    spans, report = imported(outside_file(name).read_bytes(), name=name)
    assert report.error == ""
    assert report.counts["before_launch"] == 0
    assert not report.flagged
    by_id = {span.span_id: span for span in spans}
    pairs = [
        (by_id[span.parent_span_id], span)
        for span in spans
        if span.resource[RESOURCE_CLOCK_KIND] == "gpu" and span.parent_span_id
    ]
    assert len(pairs) == report.counts["with_launch"]
    assert all(launch.start_local_ns <= span.start_local_ns for launch, span in pairs)


def test_the_published_traces_hold_kernels_with_launches():
    """The check above is not empty: 1,204, 1,154, 0 and 61 pairs."""
    counts = [imported(outside_file(n).read_bytes())[1].counts["with_launch"] for n in OUTSIDE]
    assert counts == [1204, 1154, 0, 61]


def test_every_complete_event_of_the_published_traces_is_taken():
    """Their descriptions name 4,811, 4,676 and 16 complete events."""
    counts = [imported(outside_file(n).read_bytes())[1].span_count for n in OUTSIDE[:3]]
    assert counts == [4811, 4676, 16]


def test_two_ranks_with_different_bases_line_up():
    """A rank loaded a period later has another base; absolute times do not change with it."""
    path = outside_file("tracelens/h100_bert_small.json.gz")
    text = gzip.decompress(path.read_bytes()).decode()
    moved_text, count = re.subn(
        r'"ts": ([0-9.]+)', lambda m: f'"ts": {Decimal(m[1]) - PERIOD_NS // 1000}', text
    )
    assert count == 2551  # every event has one
    base = f'"baseTimeNanoseconds": {BASE_NS}'
    assert base in moved_text
    moved_text = moved_text.replace(base, f'"baseTimeNanoseconds": {BASE_NS + PERIOD_NS}')
    plain, _ = imported(text.encode())
    moved, _ = imported(moved_text.encode())
    assert len(plain) == len(moved) == 2060
    assert {a.start_local_ns - b.start_local_ns for a, b in zip(plain, moved, strict=True)} == {0}


def test_a_rank_across_a_base_boundary_is_not_a_period_away():
    """Same instants, bases one period apart: the spans of both ranks coincide exactly."""
    early = trace(event("op", "cpu_op", 8_000_000_000_000, 10), distributedInfo={"rank": 0})
    late = trace(
        event("op", "cpu_op", 8_000_000_000_000 - PERIOD_NS // 1000, 10),
        baseTimeNanoseconds=BASE_NS + PERIOD_NS,
        distributedInfo={"rank": 1},
    )
    (a,), (b,) = imported(early)[0], imported(late)[0]
    assert a.start_local_ns == b.start_local_ns
    assert a.clock_domain != b.clock_domain


def test_gpu_and_host_stamps_are_on_clocks_of_their_own():
    """Kernels are on the GPU's clock, calls on the host's, each GPU apart."""
    spans, report = imported(
        trace(launch(1, 100), kernel(1, 120), launch(2, 130), kernel(2, 140, device=3)), host="h3"
    )
    assert {s.name: s.clock_domain for s in spans if s.name != "gemm"} == {
        "cudaLaunchKernel": "h3/system"
    }
    assert [s.clock_domain for s in spans if s.name == "gemm"] == ["h3/gpu0", "h3/gpu3"]
    assert [(c.value, n) for n, c in report.clocks] == [
        ("system", "h3/system"),
        ("gpu", "h3/gpu0"),
        ("gpu", "h3/gpu3"),
    ]


def test_files_of_unknown_hosts_never_share_a_clock():
    """Without a host, clocks are named after rank and content: the report shows what to map."""
    a = imported(trace(launch(1, 100), distributedInfo={"rank": 0}))[0][0]
    b = imported(trace(launch(1, 101), distributedInfo={"rank": 0}))[0][0]
    assert a.clock_domain.startswith("rank0-")
    assert a.clock_domain != b.clock_domain


def test_the_user_may_name_the_clocks():
    """`--clock h3` puts host stamps on it; OLD=NEW renames any other."""
    spans, _ = imported(
        trace(launch(1, 100), kernel(1, 120)), host="h3", clock="h3", clocks={"h3/gpu0": "g"}
    )
    assert [s.clock_domain for s in spans] == ["h3", "g"]
    spans, _ = imported(trace(launch(1, 100)), host="h3", clocks={"h3/system": "h9"})
    assert [s.clock_domain for s in spans] == ["h9"]


def test_parts_of_a_nanosecond_are_rounded_half_to_even():
    """0.0015 us is 1.5 ns and becomes 2, 0.0025 us becomes 2 as well."""
    spans, _ = imported(trace(event("a", "cpu_op", 1.0015, 0), event("b", "cpu_op", 1.0025, 0)))
    assert [s.start_local_ns - BASE_NS for s in spans] == [1002, 1002]


def test_launches_and_device_syncs_limit_the_gpu_offset():
    """GPU - host lies between kernel end - sync end and kernel start - launch start."""
    _, report = imported(
        trace(
            launch(1, 100),
            kernel(1, 103.5, 10),
            launch(2, 110),
            kernel(2, 140, 10),
            event("cudaDeviceSynchronize", "cuda_runtime", 120, 32.0, correlation=3),
        )
    )
    (gpu,) = [use for (_, kind), use in report.clocks.items() if kind == "gpu"]
    assert gpu.against_host == (150_000 - 152_000, 3_500)


def sync(ts, dur):
    return event("cudaDeviceSynchronize", "cuda_runtime", ts, dur)


def test_the_tightest_of_all_waits_counts():
    """Each wait limits the offset by what was launched before it; the largest lower limit holds."""
    _, report = imported(
        trace(
            launch(1, 100), kernel(1, 104, 46),  # ends at 150
            launch(2, 110), kernel(2, 112, 3),  # launched later, ends sooner
            sync(120, 33),  # returns at 153: 150 - 153
            launch(3, 200), kernel(3, 210, 10), sync(205, 95),  # returns at 300: 220 - 300
        )
    )  # fmt: skip
    (gpu,) = [use for (_, kind), use in report.clocks.items() if kind == "gpu"]
    assert gpu.against_host == (-3_000, 2_000)


def test_steps_are_traces_and_ranks_of_a_job_share_them():
    """ProfilerStep#5 of two ranks of one job is one trace; what lies outside is another."""
    events = (
        event("ProfilerStep#5", "user_annotation", 100, 50),
        event("aten::add", "cpu_op", 110, 5),
        launch(1, 145),
        kernel(1, 170),
        event("after", "cpu_op", 200, 5),
    )
    ranks = [imported(trace(*events, distributedInfo={"rank": r}), job="train")[0] for r in (0, 1)]
    by_name = {s.name: s for s in ranks[0]}
    step = by_name["ProfilerStep#5"]
    assert {by_name[n].trace_id for n in ("aten::add", "cudaLaunchKernel", "gemm")} == {
        step.trace_id
    }
    assert by_name["after"].trace_id != step.trace_id
    assert ranks[1][0].trace_id == step.trace_id
    assert not {s.span_id for s in ranks[0]} & {s.span_id for s in ranks[1]}
    assert by_name["aten::add"].parent_span_id == step.span_id
    assert by_name["gemm"].parent_span_id == by_name["cudaLaunchKernel"].span_id
    assert step.attributes["tempotrace.step"] == 5


def test_a_second_import_gives_the_same_ids():
    """Ids follow from the content, so the store keeps one copy; gzip does not matter."""
    data = json.dumps(trace(launch(1, 100), kernel(1, 120))).encode()
    first, second = imported(data)[0], imported(gzip.compress(data))[0]
    assert first == second


def test_the_order_of_the_file_does_not_matter():
    """Kernels before their launches, steps last: same parents and traces."""
    events = [
        kernel(1, 170), launch(1, 145), event("aten::add", "cpu_op", 110, 5),
        event("ProfilerStep#5", "user_annotation", 100, 50),
    ]  # fmt: skip
    spans, report = imported(trace(*events))
    by_name = {s.name: s for s in spans}
    assert by_name["gemm"].parent_span_id == by_name["cudaLaunchKernel"].span_id
    assert len({s.trace_id for s in spans}) == 1
    assert report.counts["with_launch"] == 1


@pytest.mark.parametrize("piece_bytes", [1, 7, 100])
def test_any_split_of_the_file_gives_the_same_spans(piece_bytes):
    """Values that straddle pieces are read whole."""
    data = json.dumps(trace(launch(1, 100.123), kernel(1, 120.5)), indent=1).encode()
    assert imported(data, piece_bytes=piece_bytes)[0] == imported(data)[0]


def test_a_truncated_file_gives_an_error_and_nothing_else():
    """The first reading sees the end before any span is sent."""
    data = json.dumps(trace(launch(1, 100), kernel(1, 120))).encode()
    for cut in range(60, len(data) - 1, 13):
        spans, report = imported(data[:cut])
        assert spans == []
        assert report.error


def test_relative_times_without_a_base_stay_unplaced():
    """Such a file says nothing about when it was taken: no clock is named, the reason is."""
    document = trace(launch(1, 100))
    del document["baseTimeNanoseconds"]
    (span,), report = imported(document, host="h3")
    assert span.clock_domain == ""
    ((_, use),) = report.clocks.items()
    assert "baseTimeNanoseconds is missing" in use.clock.reason


def test_a_name_that_is_no_valid_unicode_does_not_stop_the_file():
    """A lone surrogate, which JSON allows, becomes a question mark."""
    (span,), _ = imported(b'{"schemaVersion":1,"baseTimeNanoseconds":1700000000000000000,'
                          b'"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a\\ud800b","ts":5,'
                          b'"dur":1}]}')  # fmt: skip
    assert span.name == "a?b"


def test_a_negative_duration_keeps_its_stamps_and_is_flagged():
    """Raw stamps are never changed; the duration is unknown."""
    (span,), report = imported(trace(event("op", "cpu_op", 100, -3)))
    assert span.end_local_ns - span.start_local_ns == -3000
    assert span.attributes[SPAN_TIME_FLAG] == "end_before_start"
    assert report.flagged == {"end_before_start": 1}


def test_memory_is_a_few_hundred_bytes_an_event():
    """4,000 launches and kernels of 400 bytes each in the file: what is held grows far less."""
    count = 4_000
    filler = "x" * 300

    def chunks():
        yield b'{"schemaVersion":1,"baseTimeNanoseconds":%d,"traceEvents":[' % BASE_NS
        for n in range(count):
            for item in (launch(n, 100.5 * n + 1), kernel(n, 100.5 * n + 20)):
                item["args"]["filler"] = filler
                yield json.dumps(item).encode() + b","
        yield b"]}"

    class Generated:
        name = "generated"

        def chunks(self):
            return chunks()

    report = FileReport(name="generated")
    tracemalloc.start()
    taken = sum(1 for _ in read_spans(Generated(), ImportOptions(), report))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken == 2 * count
    assert peak_bytes < 2 * count * 500
