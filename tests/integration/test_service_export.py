# SPDX-License-Identifier: Apache-2.0
"""Traces out of the service: the export route and `tempotrace trace export`."""

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from tempotrace.cli import app
from tests.support.imported import imported
from tests.support.perfetto_proto import PerfettoTrace
from tests.support.tracing_world import EPOCH_NS, build
from tracing_core.model import Span, SpanKind
from tracing_core.service import ServiceHandle, create_app, serve_in_thread
from tracing_core.store import Store

TRACE = f"{1:032x}"
LOST = "e" * 32


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceHandle]:
    with Store.open(tmp_path_factory.mktemp("export") / "store") as store:
        build(3, transfers=16).fill(store)
        store.spans.append([
            Span(tenant="a", trace_id=LOST, span_id=f"{n:016x}", parent_span_id="", name="x",
                 kind=SpanKind.INTERNAL, start_local_ns=EPOCH_NS, end_local_ns=EPOCH_NS + 5,
                 clock_domain=f"lost{n}", host="", service="s")
            for n in (1, 2)
        ])  # fmt: skip
        with serve_in_thread(create_app(store)) as handle:
            yield handle


def run(service: ServiceHandle, *arguments: str):
    return CliRunner().invoke(app, ["trace", "export", *arguments, "--url", service.url])


def test_otlp_comes_out_corrected_with_raw_time_beside_it(service: ServiceHandle, tmp_path):
    """Every span of the trace, on the reference's clock."""
    out = tmp_path / "trace.json"
    result = run(service, TRACE, "--out", str(out))
    assert result.exit_code == 0, result.output
    spans, report = imported(out.read_bytes())
    assert (len(spans), report.format) == (32, "otlp-json")
    assert {s.attributes["tempotrace.time.status"] for s in spans} == {"synchronised"}
    assert all(
        s.start_local_ns == s.attributes["tempotrace.start.corrected_reference_ns"] for s in spans
    )


def test_raw_time_is_one_option_away(service: ServiceHandle):
    """The stamps as they came in."""
    result = run(service, TRACE, "--time", "raw")
    spans, _ = imported(result.stdout_bytes)
    assert all(s.start_local_ns == s.attributes["tempotrace.start.raw_local_ns"] for s in spans)


def test_version_0_has_no_corrections(service: ServiceHandle):
    """An old answer can be had again: before the first corrections nothing is corrected."""
    result = run(service, TRACE, "--as-of", "0")
    spans, _ = imported(result.stdout_bytes)
    assert {s.attributes["tempotrace.time.status"] for s in spans} == {"unknown"}


def test_chrome_and_perfetto_hold_the_same_slices(service: ServiceHandle, tmp_path):
    """32 slices each, at the same nanoseconds."""
    chrome = json.loads(run(service, TRACE, "--format", "chrome").stdout)
    slices = [e for e in chrome["traceEvents"] if e["ph"] == "X"]
    out = tmp_path / "trace.perfetto"
    run(service, TRACE, "--format", "perfetto", "--out", str(out))
    packets = PerfettoTrace.FromString(out.read_bytes()).packet
    begins = [p.timestamp for p in packets if p.track_event.type == 1]
    origin_ns = int(chrome["otherData"]["origin_ns"])
    assert sorted(origin_ns + round(e["ts"] * 1000) for e in slices) == sorted(begins)
    assert len(begins) == 32


def test_clocks_without_any_correction_are_not_merged_silently(service: ServiceHandle):
    """One line, exit 2, and the way out."""
    result = run(service, LOST, "--format", "chrome")
    assert result.exit_code == 2
    assert "lost1, lost2" in result.stderr
    assert "time=raw" in result.stderr
    assert run(service, LOST, "--format", "chrome", "--time", "raw").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["0" * 31 + "9"], "there is no trace"),
        (["xyz"], "hex digits"),
        ([TRACE, "--format", "svg"], "otlp, chrome, perfetto"),
        ([TRACE, "--time", "true"], "corrected or raw"),
        ([TRACE, "--as-of", "99"], "no correction version 99"),
    ],
)
def test_wrong_input_is_one_line(service: ServiceHandle, arguments, word):
    """Exit 2, and what was expected."""
    result = run(service, *arguments)
    assert result.exit_code == 2
    assert word in result.stderr
    assert result.stderr.count("\n") == 1
