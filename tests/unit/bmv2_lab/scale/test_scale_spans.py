# SPDX-License-Identifier: Apache-2.0
"""Spans of a large run are what the service takes, with parents, clocks and ids in order."""

import pytest

from bmv2_lab.scale.recording import write_run
from bmv2_lab.scale.run import ScaleRun, start_run
from bmv2_lab.scale.settings import NS_PER_S, ScaleSettings
from tracing_core.model import Span, SpanKind
from tracing_core.otlp.json_codec import decode_json

SETTINGS = ScaleSettings(
    gpus=32,
    nics_per_host=2,
    radix=8,
    gpus_per_job=16,
    warm_up_ns=NS_PER_S,
    qps_per_peer=2,
    faults_hop=8,
    faults_link=8,
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[ScaleRun, list[Span]]:
    """A run of two jobs, written with the spans of both."""
    folder = tmp_path_factory.mktemp("scale")
    run = start_run(SETTINGS, 3)
    write_run(run, folder, otlp_jobs=2)
    spans: list[Span] = []
    for line in (folder / "spans.otlp.jsonl").read_bytes().splitlines():
        decoded = decode_json(line, tenant="default")
        assert decoded.rejections.total_count == 0
        spans += decoded.spans
    return run, spans


def test_every_span_has_its_parent(written: tuple[ScaleRun, list[Span]]) -> None:
    """One trace per job: step, allreduce per rank, and a send and a receive per transfer."""
    run, spans = written
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans) == 2 * len(run.flows) + 32 + 2
    assert len({span.trace_id for span in spans}) == 2
    above = {"allreduce": "step", "rdma.send": "allreduce", "rdma.recv": "rdma.send"}
    for span in spans:
        parent = by_id.get(span.parent_span_id)
        assert (parent.name if parent else None) == above.get(span.name)
        if parent:
            assert parent.trace_id == span.trace_id
    kinds = {(span.name, span.kind) for span in spans}
    assert ("rdma.send", SpanKind.PRODUCER) in kinds
    assert ("rdma.recv", SpanKind.CONSUMER) in kinds


def test_spans_are_on_the_clock_of_their_nic(written: tuple[ScaleRun, list[Span]]) -> None:
    """A host has several NIC clocks; each span names its own, and tenants are the jobs'."""
    run, spans = written
    names = set(run.world.topology.nic_names)
    assert {span.clock_domain for span in spans} == names
    assert {span.host for span in spans} == {f"h{k}" for k in range(1, 17)}
    assert {span.tenant for span in spans} == {"tenant1", "tenant2"}
    assert all(span.start_local_ns < span.end_local_ns for span in spans)


def test_struck_transfers_are_named_in_the_truth(written: tuple[ScaleRun, list[Span]]) -> None:
    """A fault's trace and span ids are those of its transfer's rdma.send, which is slow."""
    run, spans = written
    by_id = {span.span_id: span for span in spans}
    struck = [fault for fault in run.truth.faults if fault.struck]
    assert len(struck) > 8
    for fault in struck:
        span = by_id[fault.span_id]
        assert span.name == "rdma.send"
        assert span.trace_id == fault.trace_id
        if fault.kind != "receiver":
            assert span.end_local_ns - span.start_local_ns > fault.extra_ns
