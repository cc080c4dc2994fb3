# SPDX-License-Identifier: Apache-2.0
"""The seeded set-up of the OpenTelemetry SDK."""

import io
import json

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from tracing_core.otlp import CONTENT_TYPE_JSON, decode_request
from tracing_core.sdk import ExportError, HostTracer, OtlpExport, SeededIdGenerator

EPOCH_NS = 1_800_000_000_000_000_000


def record(host: str, seed: int, count: int = 3) -> list[ReadableSpan]:
    tracer = HostTracer(host=host, tenant="alpha", clock_domain=host, seed=seed)
    for i in range(count):
        tracer.span("step", start_local_ns=EPOCH_NS + i, end_local_ns=EPOCH_NS + i + 5)
    spans = tracer.take()
    tracer.shutdown()
    return spans


def lines(spans: list[ReadableSpan], batch_spans: int = 512) -> list[str]:
    out = io.StringIO()
    OtlpExport(jsonl=out, batch_spans=batch_spans).export(spans)
    return out.getvalue().splitlines()


def test_ids_follow_from_seed_tenant_and_host() -> None:
    """The same seed gives the same ids; another host or seed gives others."""
    assert lines(record("h1", 7)) == lines(record("h1", 7))
    assert lines(record("h1", 7)) != lines(record("h1", 8))

    def ids(host: str) -> set[int]:
        return {span.get_span_context().span_id for span in record(host, 7)}

    assert not ids("h1") & ids("h2")


def test_generated_ids_are_never_zero() -> None:
    """OTLP forbids all-zero ids."""
    generator = SeededIdGenerator("x")
    generator._random.getrandbits = lambda bits: 0  # type: ignore[method-assign]
    assert (generator.generate_span_id(), generator.generate_trace_id()) == (1, 1)


def test_batches_are_explicit() -> None:
    """Spans leave in the order in which they were recorded, a fixed number a request."""
    batches = [json.loads(line) for line in lines(record("h1", 7, 5), batch_spans=2)]
    sizes = [len(b["resourceSpans"][0]["scopeSpans"][0]["spans"]) for b in batches]
    assert sizes == [2, 2, 1]


def test_a_child_of_another_host_is_marked_remote() -> None:
    """Flag bits 0x100 and 0x200: the parent is known to be remote."""
    first = HostTracer(host="h1", tenant="alpha", clock_domain="h1", seed=1)
    second = HostTracer(host="h2", tenant="alpha", clock_domain="h2", seed=1)
    root = first.span("rdma.send", start_local_ns=EPOCH_NS, end_local_ns=EPOCH_NS + 9)
    second.span(
        "rdma.recv",
        start_local_ns=EPOCH_NS,
        end_local_ns=EPOCH_NS + 5,
        parent=root,
        parent_is_remote=True,
        events=[("nic.rx_first", EPOCH_NS + 1)],
    )
    (line,) = lines(second.take())
    (span,) = decode_request(line.encode(), CONTENT_TYPE_JSON).spans
    assert (span.trace_id, span.parent_span_id) == (root.trace_id_hex, root.span_id_hex)
    assert span.flags & 0x300 == 0x300
    assert span.events[0].time_local_ns == EPOCH_NS + 1
    assert (span.host, span.clock_domain, span.tenant) == ("h2", "h2", "alpha")


def test_the_environment_does_not_change_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampling, resource and headers come from arguments, not from OTEL_* variables."""
    usual = lines(record("h1", 7))
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "a=b")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "other")
    assert lines(record("h1", 7)) == usual


def test_a_refused_batch_is_an_error() -> None:
    """Nothing is dropped silently: an endpoint that does not take a batch raises."""

    class Refusing:
        def export(self, spans: object) -> object:
            return None

        def shutdown(self) -> None: ...

    export = OtlpExport()
    export._exporter = Refusing()  # type: ignore[assignment]
    with pytest.raises(ExportError, match="3 spans"):
        export.export(record("h1", 7))
    export.close()
