# SPDX-License-Identifier: Apache-2.0
"""The real OpenTelemetry SDK exports to the service over gRPC and HTTP."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from google.protobuf.duration_pb2 import Duration
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.sdk_export import ATTRIBUTES, export
from tracing_core.ingest import BusyError, DirectKeeper
from tracing_core.otlp import Admitted
from tracing_core.service import OtlpServer, create_app, make_ingest, serve_in_thread
from tracing_core.service.ingest import Ingest
from tracing_core.service.otlp_grpc import EXPORT_METHOD, STATUS_DETAILS, GrpcHandle
from tracing_core.store import Store


class Full:
    """A keeper without room."""

    blocking = False

    def __init__(self, retry_after_s: float, *, overloaded: bool = False) -> None:
        self._error = BusyError("full", retry_after_s=retry_after_s, overloaded=overloaded)

    def keep(self, admitted: Admitted, *, tenant: str, done: object) -> None:
        raise self._error

    def settle(self, timeout_s: float) -> bool:
        return True


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


@pytest.fixture
def ingest(store: Store) -> Ingest:
    return make_ingest(store, keeper=DirectKeeper(store.spans), limit_bytes=2**20)


def request(*span_ids: bytes, name: str = "step") -> bytes:
    message = ExportTraceServiceRequest()
    spans = message.resource_spans.add().scope_spans.add().spans
    for span_id in span_ids:
        spans.add(trace_id=b"t" * 16, span_id=span_id, name=name, start_time_unix_nano=1)
    return message.SerializeToString()


def call(target: str, body: bytes, compression: grpc.Compression | None = None) -> bytes:
    with grpc.insecure_channel(target) as channel:
        answer: bytes = channel.unary_unary(EXPORT_METHOD)(
            body, timeout=30, compression=compression
        )
    return answer


def refusal(target: str, body: bytes) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call(target, body)
    return caught.value


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_every_span_of_the_sdk_arrives(
    store: Store, ingest: Ingest, transport: str, compression: str
) -> None:
    """1,200 spans in several batches, with every kind of attribute that the SDK knows."""
    with (
        GrpcHandle(ingest, "127.0.0.1", 0) as rpc,
        OtlpServer(ingest) as web,
    ):
        endpoint = f"http://{rpc.target}" if transport == "grpc" else f"{web.url}/v1/traces"
        answer = export(transport, endpoint, 1200, compression=compression)
    assert answer["flushed"]
    spans = store.spans.trace(answer["trace_id"])
    assert len(spans) == 1200
    root = next(span for span in spans if not span.parent_span_id)
    child = next(span for span in spans if span.attributes.get("i") == 7)
    assert child.parent_span_id == root.span_id
    sent = {key: tuple(v) if isinstance(v, list) else v for key, v in ATTRIBUTES.items()}
    assert child.attributes == {**sent, "i": 7}
    assert [type(child.attributes[key]) for key in sent] == [type(v) for v in sent.values()]
    assert child.events[0].attributes == {"event": True}
    assert (child.links[0].span_id, child.links[0].attributes) == (root.span_id, {"link": 1})
    assert (child.status_code, child.status_message) == (2, "late")
    assert child.resource["process.command_args"] == ("python", "-m", "train")
    assert (child.tenant, child.clock_domain, child.host) == ("alpha", "h1", "h1")
    message = store.spans.request(answer["trace_id"])
    scope = message.resource_spans[0].scope_spans[0].scope
    assert message.resource_spans[0].schema_url == "https://opentelemetry.io/schemas/1.34.0"
    assert [pair.key for pair in scope.attributes] == ["scope"]


def test_grpc_refuses_a_malformed_span_alone(store: Store, ingest: Ingest) -> None:
    """Partial success counts and names the bad span; its neighbour is stored (OTLP)."""
    with GrpcHandle(ingest, "127.0.0.1", 0) as rpc:
        body = call(rpc.target, request(b"12345678", bytes(8), name="bad"))
        whole = call(rpc.target, request(b"abcdefgh"))
    partial = ExportTraceServiceResponse.FromString(body).partial_success
    assert partial.rejected_spans == 1
    assert "span_id" in partial.error_message
    assert not ExportTraceServiceResponse.FromString(whole).HasField("partial_success")
    assert store.spans.count() == 2


def test_grpc_back_pressure_carries_retry_info(store: Store) -> None:
    """UNAVAILABLE with a google.rpc.Status whose details hold a RetryInfo: 2.5 seconds."""
    with GrpcHandle(Ingest(Full(2.5)), "127.0.0.1", 0) as rpc:
        error = refusal(rpc.target, request(b"12345678"))
    assert error.code() == grpc.StatusCode.UNAVAILABLE
    details = dict(error.trailing_metadata())[STATUS_DETAILS]
    # google.rpc.Status by its wire format: code 1, message 2, details 3; RetryInfo: delay 1
    code, any_at = details.index(b"\x08\x0e"), details.index(b"\x1a")
    assert (code, any_at > code) == (0, True)
    packed = details[any_at + 2 :]
    url = b"type.googleapis.com/google.rpc.RetryInfo"
    assert packed.startswith(bytes([0x0A, len(url)]) + url)
    info = packed[2 + len(url) + 2 :]
    assert info[0] == 0x0A
    delay = Duration.FromString(info[2 : 2 + info[1]])
    assert (delay.seconds, delay.nanos) == (2, 500_000_000)


def test_grpc_says_what_is_wrong_with_a_request(ingest: Ingest) -> None:
    """Undecodable: INVALID_ARGUMENT; too large: RESOURCE_EXHAUSTED without RetryInfo; another
    method: UNIMPLEMENTED."""
    with GrpcHandle(ingest, "127.0.0.1", 0) as rpc:
        assert refusal(rpc.target, b"\xff").code() == grpc.StatusCode.INVALID_ARGUMENT
        large = refusal(rpc.target, request(b"12345678", name="x" * 2**21))
        assert large.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert STATUS_DETAILS not in dict(large.trailing_metadata() or ())
        with grpc.insecure_channel(rpc.target) as channel, pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/opentelemetry.proto.collector.logs.v1.LogsService/Export")(b"")
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_the_grpc_limit_applies_after_decompression(ingest: Ingest) -> None:
    """A small gzip message that unpacks beyond the limit is refused."""
    with GrpcHandle(ingest, "127.0.0.1", 0) as rpc, pytest.raises(grpc.RpcError) as caught:
        call(rpc.target, request(b"12345678", name="x" * 2**21), grpc.Compression.Gzip)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(("overloaded", "status"), [(True, 429), (False, 503)])
def test_http_back_pressure_says_when_to_come_again(
    store: Store, overloaded: bool, status: int
) -> None:
    """429 when senders are too fast, 503 when the service has no room, both with Retry-After."""
    full = Ingest(Full(2.5, overloaded=overloaded))
    with serve_in_thread(create_app(store, ingest=full)) as web:
        response = httpx.post(
            f"{web.url}/v1/traces",
            content=request(b"12345678"),
            headers={"content-type": "application/x-protobuf"},
            trust_env=False,
        )
        text = httpx.post(
            f"{web.url}/v1/traces",
            content=b"{}",
            headers={"content-type": "application/json"},
            trust_env=False,
        )
    assert (response.status_code, response.headers["retry-after"]) == (status, "3")
    assert text.json()["details"][0]["retryDelay"] == "2.5s"
    assert text.json()["code"] == 14
