# SPDX-License-Identifier: Apache-2.0
"""OTLP over HTTP from the real OpenTelemetry SDK into chDB and out of the API."""

import gzip
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.trace import SpanKind

from tracing_core.model import ClockStatus, Correction
from tracing_core.otlp import decode_status
from tracing_core.sdk import HostTracer, OtlpExport
from tracing_core.service import (
    OtlpServer,
    ServiceHandle,
    create_app,
    make_ingest,
    serve_in_thread,
)
from tracing_core.store import Store

EPOCH_NS = 1_800_000_000_000_000_000
PROTOBUF = {"content-type": "application/x-protobuf"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def service(store: Store) -> Iterator[ServiceHandle]:
    with serve_in_thread(create_app(store)) as handle:
        yield handle


@pytest.fixture
def client(service: ServiceHandle) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, trust_env=False) as opened:
        yield opened


def tracer(host: str = "h1") -> HostTracer:
    return HostTracer(host=host, tenant="alpha", clock_domain=host, seed=7)


def one_span_request(span_id: bytes = b"12345678", start_ns: int = EPOCH_NS) -> bytes:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.name = b"t" * 16, span_id, "step"
    span.start_time_unix_nano, span.end_time_unix_nano = start_ns, start_ns + 5
    return request.SerializeToString()


@pytest.mark.parametrize("compressed", [False, True])
def test_every_span_of_the_sdk_arrives_with_its_values(
    client: httpx.Client, service: ServiceHandle, compressed: bool
) -> None:
    """Spans, parents, events and typed attributes come back as the SDK recorded them."""
    host = tracer()
    root = host.span("step", start_local_ns=EPOCH_NS, end_local_ns=EPOCH_NS + 900)
    sends = [
        host.span(
            "rdma.send",
            start_local_ns=EPOCH_NS + i,
            end_local_ns=EPOCH_NS + i + 10,
            parent=root,
            kind=SpanKind.CLIENT,
            attributes={"rdma.src_ip": "10.0.1.1", "rdma.psn_first": i, "f": 0.5, "b": True},
            events=[("nic.tx_first", EPOCH_NS + i + 1)],
        )
        for i in range(1100)
    ]
    with OtlpExport(endpoint=f"{service.url}/v1/traces", gzip=compressed) as export:
        assert export.export(host.take()) == 3
    host.shutdown()
    answer = client.get(f"/v1/traces/{root.trace_id_hex}").json()
    spans = {span["span_id"]: span for span in answer["spans"]}
    assert len(spans) == 1101
    send = spans[sends[1099].span_id_hex]
    assert send["parent_span_id"] == root.span_id_hex
    assert send["kind"] == "client"
    assert send["attributes"] == {
        "rdma.src_ip": "10.0.1.1",
        "rdma.psn_first": 1099,
        "f": 0.5,
        "b": True,
    }
    assert send["start"]["raw_local_ns"] == str(EPOCH_NS + 1099)
    assert send["events"][0]["name"] == "nic.tx_first"
    assert send["resource"]["host.name"] == "h1"
    assert (send["tenant"], send["clock_domain"]) == ("alpha", "h1")


def test_same_seed_gives_the_same_json_lines() -> None:
    """Two runs with one seed write the same bytes; the JSON is what the API accepts."""

    def lines() -> str:
        host, out = tracer(), io.StringIO()
        root = host.span("step", start_local_ns=EPOCH_NS, end_local_ns=EPOCH_NS + 9)
        host.span("child", start_local_ns=EPOCH_NS, end_local_ns=EPOCH_NS + 5, parent=root)
        OtlpExport(jsonl=out).export(host.take())
        return out.getvalue()

    assert lines() == lines()
    assert lines().count("\n") == 1


def test_json_lines_of_the_exporter_are_accepted(client: httpx.Client) -> None:
    """A line of spans.otlp.jsonl is a valid OTLP/JSON request body."""
    host, out = tracer(), io.StringIO()
    root = host.span(
        "step", start_local_ns=EPOCH_NS, end_local_ns=EPOCH_NS + 9, attributes={"n": 2**60}
    )
    OtlpExport(jsonl=out).export(host.take())
    response = client.post(
        "/v1/traces", content=out.getvalue(), headers={"content-type": "application/json"}
    )
    assert (response.status_code, response.json()) == (200, {})
    answer = client.get(f"/v1/traces/{root.trace_id_hex}").json()
    assert answer["spans"][0]["attributes"] == {"n": str(2**60)}


def test_a_malformed_span_is_refused_alone(client: httpx.Client) -> None:
    """A span with an all-zero id is rejected with its reason; its neighbour is stored."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for span_id in (b"12345678", bytes(8), b"short"):
        spans.add(trace_id=b"t" * 16, span_id=span_id, name="x", start_time_unix_nano=1)
    response = client.post("/v1/traces", content=request.SerializeToString(), headers=PROTOBUF)
    assert response.status_code == 200
    answer = ExportTraceServiceResponse.FromString(response.content)
    assert answer.partial_success.rejected_spans == 2
    assert "span_id" in answer.partial_success.error_message
    assert client.get("/v1/health").json()["spans"] == 1


def test_full_success_leaves_partial_success_unset(client: httpx.Client) -> None:
    """A request without a rejection, or without spans, is answered by an empty message."""
    for body in (one_span_request(), b""):
        response = client.post("/v1/traces", content=body, headers=PROTOBUF)
        assert (response.status_code, response.content) == (200, b"")


def test_a_retried_request_stores_its_spans_once(client: httpx.Client) -> None:
    """Retries are de-duplicated on (tenant, trace, span, kind)."""
    for _ in range(3):
        client.post("/v1/traces", content=one_span_request(), headers=PROTOBUF)
    assert client.get("/v1/health").json()["spans"] == 1
    assert len(client.get(f"/v1/traces/{(b't' * 16).hex()}").json()["spans"]) == 1


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"\xff\xff\xff", PROTOBUF, 400),
        (b"{not json", {"content-type": "application/json"}, 400),
        (b"[]", {"content-type": "application/json"}, 400),
        (b"x", {"content-type": "text/plain"}, 415),
        (b"x", {**PROTOBUF, "content-encoding": "br"}, 415),
        (b"x", {**PROTOBUF, "content-encoding": "gzip"}, 400),
        (gzip.compress(b"\0" * 70_000_000), {**PROTOBUF, "content-encoding": "gzip"}, 413),
    ],
)
def test_a_bad_body_gets_a_status_in_the_requests_encoding(
    client: httpx.Client, content: bytes, headers: dict[str, str], status: int
) -> None:
    """Every 4xx carries a google.rpc.Status; the size limit applies after decompression."""
    response = client.post("/v1/traces", content=content, headers=headers)
    assert response.status_code == status
    if headers["content-type"] == "application/json":
        assert response.json()["message"]
    else:
        code, message = decode_status(response.content)
        assert code
        assert message


def test_a_later_correction_retimes_a_stored_span(store: Store, client: httpx.Client) -> None:
    """Corrections apply at read; as_of reproduces the older answer; raw never changes."""
    host = tracer()
    root = host.span("step", start_local_ns=EPOCH_NS, end_local_ns=EPOCH_NS + 9)
    body = io.StringIO()
    OtlpExport(jsonl=body).export(host.take())
    json_type = {"content-type": "application/json"}
    client.post("/v1/traces", content=body.getvalue(), headers=json_type)
    path = f"/v1/traces/{root.trace_id_hex}"

    def start(url: str) -> dict[str, object]:
        span: dict[str, dict[str, object]] = client.get(url).json()["spans"][0]
        return span["start"]

    assert start(path)["corrected_reference_ns"] is None
    assert start(path)["status"] == "unknown"
    versions = [
        store.corrections.append(
            [
                Correction(
                    clock="h1",
                    valid_from_local_ns=EPOCH_NS - 10,
                    valid_to_local_ns=EPOCH_NS + 10,
                    anchor_local_ns=EPOCH_NS,
                    offset_ns=offset_ns,
                    rate_ppb=0.0,
                    bound_hard_ns=None,
                    bound_conditional_ns=12,
                    method="test",
                    prior="none",
                    status=ClockStatus.SYNCHRONISED,
                )
            ]
        )
        for offset_ns in (100, 250)
    ]
    assert versions == [1, 2]
    assert start(path)["corrected_reference_ns"] == str(EPOCH_NS - 250)
    assert start(f"{path}?as_of=1")["corrected_reference_ns"] == str(EPOCH_NS - 100)
    assert start(path)["raw_local_ns"] == str(EPOCH_NS)
    assert (start(path)["bound_hard_ns"], start(path)["bound_conditional_ns"]) == (None, 12)


def test_unchanged_answers_are_not_sent_again(client: httpx.Client) -> None:
    """An ETag matches until something is stored."""
    first = client.get("/v1/traces")
    tag = {"if-none-match": first.headers["etag"]}
    assert client.get("/v1/traces", headers=tag).status_code == 304
    client.post("/v1/traces", content=one_span_request(), headers=PROTOBUF)
    assert client.get("/v1/traces", headers=tag).status_code == 200


def test_errors_are_problems(client: httpx.Client) -> None:
    """Unknown traces, bad ids and unknown routes answer application/problem+json."""
    for path, status in (
        ("/v1/traces/" + "a" * 32, 404),
        ("/v1/traces/nothex", 422),
        ("/v1/traces?limit=0", 422),
        ("/v1/nowhere", 404),
    ):
        response = client.get(path)
        assert response.status_code == status, path
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["status"] == status


def test_stopping_leaves_no_thread_and_no_port(store: Store) -> None:
    """After stop the port can be bound again and the service's thread is gone."""
    before = set(threading.enumerate())
    handle = serve_in_thread(create_app(store))
    assert httpx.get(f"{handle.url}/v1/health", trust_env=False).status_code == 200
    handle.stop()
    handle.stop()
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=10.0)  # the loop's own workers end just after it
        assert not thread.is_alive(), thread
    again = serve_in_thread(create_app(store), port=handle.port)
    assert again.port == handle.port
    again.stop()


def test_finsy_and_the_service_live_in_one_process(client: httpx.Client) -> None:
    """finsy registers google/rpc/status.proto itself; ours sits in a private pool."""
    import finsy

    assert finsy.__name__
    response = client.post("/v1/traces", content=b"\xff", headers=PROTOBUF)
    assert decode_status(response.content)[0] == 3
    assert json.loads(client.get("/openapi.json").content)["info"]["title"] == "TempoTrace"


def test_the_otlp_port_serves_otlp_alone(store: Store) -> None:
    """It takes spans and has neither API nor page."""
    with (
        OtlpServer(make_ingest(store)) as handle,
        httpx.Client(base_url=handle.url, trust_env=False) as client,
    ):
        body = {"content-type": "application/json"}
        assert client.post("/v1/traces", content=b"{}", headers=body).status_code == 200
        assert client.get("/v1/health").status_code == 404
        assert client.get("/v1/traces").status_code == 405


def test_a_store_that_fails_asks_for_a_retry(store: Store, client: httpx.Client) -> None:
    """Spans that could not be stored are not acknowledged: 503, Retry-After and a Status."""
    store.engine.command("DROP TABLE span_rows")
    response = client.post("/v1/traces", content=one_span_request(), headers=PROTOBUF)
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    assert decode_status(response.content)[0] == 14
    store.close()
    assert client.post("/v1/traces", content=b"", headers=PROTOBUF).status_code == 200
    assert client.get("/v1/clocks").status_code == 503
