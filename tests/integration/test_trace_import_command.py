# SPDX-License-Identifier: Apache-2.0
"""`tempotrace trace import` into a running service, and its report."""

import json
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import httpx
import jsonschema
import pytest
from typer.testing import CliRunner

from tempotrace.cli import app
from tempotrace.span_upload import Upload
from tempotrace.trace_files import FileSource
from tests.support.outside_data import outside_file
from tracing_core.importers import FileReport, ImportOptions, read_spans
from tracing_core.model import ClockStatus, Correction
from tracing_core.service import ServiceHandle, create_app, serve_in_thread
from tracing_core.store import Store, TraceQuery

EPOCH_US = 1_800_000_000_000_000
SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "import-report.schema.json"


@pytest.fixture
def store(tmp_path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def service(store: Store) -> Iterator[ServiceHandle]:
    with serve_in_thread(create_app(store)) as handle:
        yield handle


def run(service: ServiceHandle, *arguments: str):
    return CliRunner().invoke(app, ["trace", "import", *arguments, "--url", service.url])


def kineto(path, *, rank=0, start_us=EPOCH_US):
    document = {
        "schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": [
            {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 1,
             "ts": start_us, "dur": 900},
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
             "ts": start_us + 10, "dur": 5, "args": {"correlation": 1}},
            {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7,
             "ts": start_us + 30, "dur": 50, "args": {"correlation": 1, "device": 0}},
        ],
    }  # fmt: skip
    path.write_text(json.dumps(document))
    return str(path)


def correction(clock, **changed):
    return Correction(**{
        "clock": clock, "valid_from_local_ns": EPOCH_US * 1000 - 10**9,
        "valid_to_local_ns": EPOCH_US * 1000 + 10**9, "anchor_local_ns": EPOCH_US * 1000,
        "offset_ns": 700, "rate_ppb": 0.0, "bound_hard_ns": 300, "bound_conditional_ns": 30,
        "method": "m", "prior": "p", "status": ClockStatus.SYNCHRONISED, **changed,
    })  # fmt: skip


def test_files_of_several_formats_go_in_and_come_out(service, store):
    """Every span that the report counts is in the store, once, also after a second import."""
    files = [
        str(outside_file(name))
        for name in ("hta/trace_filter__sampled_rank-0.json.gz", "zipkin/skew.json",
                     "nccl/inspector_example_1.json", "jaeger/example_trace.json")
    ]  # fmt: skip
    for _ in range(2):
        result = run(service, *files, "--json")
        assert result.exit_code == 0, result.output
        document = json.loads(result.stdout)
        jsonschema.validate(document, json.loads(SCHEMA.read_text()))
        assert document["spans_accepted"] == 4811 + 4 + 1 + 5
        assert document["spans_rejected"] == 0
        assert [item["format"] for item in document["files"]] == [
            "kineto", "zipkin", "nccl-inspector", "otlp-json",
        ]  # fmt: skip
        assert store.spans.count() == 4821
    assert set(store.spans.services()) >= {"pyper:trainer:0:0", "servicea", "nccl"}


def test_ranks_of_a_job_share_the_trace_of_a_step(service, store, tmp_path):
    """Two hosts, one trace: that is what the page and the exports show as one time line."""
    for rank in (0, 1):
        path = kineto(tmp_path / f"rank{rank}.json", rank=rank)
        result = run(service, path, "--job", "train", "--host", f"h{rank}")
        assert result.exit_code == 0, result.output
    (summary,) = store.spans.search(TraceQuery(job="train", step=3))
    assert (summary.span_count, summary.hosts) == (6, ("h0", "h1"))
    spans = store.spans.trace(summary.trace_id)
    assert {s.clock_domain for s in spans} == {"h0/system", "h0/gpu0", "h1/system", "h1/gpu0"}


def test_the_report_names_clock_method_and_bound(service, store, tmp_path):
    """Per clock: how instants are made, and how well its relation to the reference is known."""
    store.corrections.append([correction("h3")])
    result = run(service, kineto(tmp_path / "a.json"), "--host", "h3", "--clock", "h3", "--json")
    host, gpu = json.loads(result.stdout)["files"][0]["clocks"]
    assert (host["clock"], host["kind"]) == ("h3", "system")
    assert host["bound_conditional_ns"] == 30
    assert host["correction"] == "synchronised"
    assert host["quantum_ns"] == 1000
    assert "Unix time" in host["alignment"]
    assert (gpu["clock"], gpu["bound_conditional_ns"]) == ("h3/gpu0", None)
    assert gpu["correction"] == "there is no correction of clock h3/gpu0"
    assert gpu["offset_to_host_ns_max"] == 20_000


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"valid_from_local_ns": EPOCH_US * 1000 + 10_000}, "do not cover"),
        ({"valid_to_local_ns": EPOCH_US * 1000 + 10_000}, "do not cover"),
    ],
)
def test_a_correction_of_a_part_bounds_nothing(service, store, tmp_path, change, word):
    """The bound of a file is the largest over all its stamps, or none."""
    store.corrections.append([correction("h3", **change)])
    result = run(service, kineto(tmp_path / "a.json"), "--clock", "h3", "--json")
    host = json.loads(result.stdout)["files"][0]["clocks"][0]
    assert host["bound_conditional_ns"] is None
    assert word in host["correction"]


def test_a_dry_run_sends_nothing(service, store, tmp_path):
    """The same report without a service."""
    result = CliRunner().invoke(
        app, ["trace", "import", kineto(tmp_path / "a.json"), "--dry-run", "--json"]
    )
    assert result.exit_code == 0
    assert json.loads(result.stdout)["spans_accepted"] == 3
    assert store.spans.count() == 0


def test_an_unreadable_file_does_not_stop_the_others(service, store, tmp_path):
    """Exit 2, the reason in the report, the rest imported."""
    bad = tmp_path / "bad.json"
    bad.write_text('{"traceEvents": [{"ph"')
    result = run(service, str(bad), kineto(tmp_path / "good.json"))
    assert result.exit_code == 2
    assert "NOT READ: line 1" in result.stdout
    assert store.spans.count() == 3


@pytest.mark.parametrize(
    "arguments", [["no-such-file"], ["{file}", "--clock", "a", "--clock", "b"]], ids=str
)
def test_wrong_usage_is_one_line(service, tmp_path, arguments):
    """Exit 2 before anything is sent."""
    path = kineto(tmp_path / "a.json")
    result = run(service, *(path if a == "{file}" else a for a in arguments))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_no_service_is_one_line(tmp_path):
    """Nothing listens there."""
    path = kineto(tmp_path / "a.json")
    result = CliRunner().invoke(app, ["trace", "import", path, "--url", "http://127.0.0.1:9"])
    assert result.exit_code == 2
    assert "no answer from the service" in result.stderr


def test_upload_waits_when_the_service_asks_for_it(service, store, tmp_path):
    """503 with Retry-After is repeated after that time; nothing is lost."""
    waits: list[float] = []
    answers = iter([503, 429])

    class Busy:
        """Refuses twice, then lets the real client through."""

        def __init__(self, client):
            self._client = client

        def post(self, path, **request):
            status = next(answers, None)
            if status is not None:
                return httpx.Response(status, headers={"retry-after": "7"})
            return self._client.post(path, **request)

        def close(self):
            self._client.close()

    source = FileSource(Path(kineto(tmp_path / "a.json")))
    with Upload(service.url, sleep=waits.append) as upload:
        upload._client = Busy(upload._client)
        upload.send(read_spans(source, ImportOptions(), FileReport(name="a")))
    assert waits == [7.0, 7.0]
    assert store.spans.count() == 3
    assert upload.counts.request_count == 1


def test_a_hostile_pickle_among_the_files_runs_nothing(service, tmp_path):
    """It is refused with a reason; the command that it carries has no effect."""
    ran = tmp_path / "ran"

    class Touches:
        def __reduce__(self):
            return os.mkdir, (str(ran),)

    path = tmp_path / "trace_0"
    path.write_bytes(pickle.dumps({"entries": [Touches()]}))
    result = run(service, str(path))
    assert result.exit_code == 2
    assert "more than plain data" in result.stdout
    assert not ran.exists()


def test_the_report_for_reading_says_the_same(service, tmp_path):
    """File, format, clocks, resolution, bound with its reason, refusals with an example."""
    path = tmp_path / "rank0.json"
    kineto(path)
    document = json.loads(path.read_text())
    document["traceEvents"].append({"ph": "X", "cat": "kernel", "name": "lost", "ts": 0, "dur": 0})
    path.write_text(json.dumps(document))
    lines = run(service, str(path), "--host", "h3").stdout.splitlines()
    assert lines == [
        f"{path}: kineto, 3 spans",
        "  2 spans on h3/system, kind system",
        "    time: ts is Unix time, the file has no base; resolution 1000 ns",
        "    against the reference: unbounded; there is no correction of clock h3/system",
        "  1 spans on h3/gpu0, kind gpu",
        "    time: ts is Unix time, the file has no base; GPU timer as the profiler converted it;"
        " resolution 1000 ns",
        "    against the reference: unbounded; there is no correction of clock h3/gpu0",
        "    against the host's clock, by launches: from unlimited to 20000 ns",
        "  gpu_activities 1, with_launch 1, before_launch 0",
        "  refused: 1 x ts is 0: the profiler had no stamp for it",
        "1 requests: 3 spans accepted, 1 rejected",
    ]
