# SPDX-License-Identifier: Apache-2.0
"""Edges of OTLP at every port that takes it: the API's, OTLP/HTTP and OTLP/gRPC."""

import gzip
import json
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.sdk_export import export
from tracing_core.ingest import BusyError, DirectKeeper
from tracing_core.otlp import REQUEST_LIMIT_BYTES, Admitted, decode_status
from tracing_core.service import OtlpServer, create_app, make_ingest, otlp_http, serve_in_thread
from tracing_core.service.ingest import Ingest
from tracing_core.service.otlp_grpc import EXPORT_METHOD, GrpcHandle
from tracing_core.store import Store

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
SPAN = {"traceId": "Ab" * 16, "spanId": "Cd" * 8, "name": "step", "startTimeUnixNano": "7",
        "endTimeUnixNano": 9}  # fmt: skip


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open() as opened:
        yield opened


@pytest.fixture
def ingest(store: Store) -> Ingest:
    return make_ingest(store)


@pytest.fixture(params=["api port", "otlp port"])
def url(request: pytest.FixtureRequest, store: Store, ingest: Ingest) -> Iterator[str]:
    """The traces path of each port that speaks OTLP/HTTP."""
    server = (
        serve_in_thread(create_app(store, ingest=ingest))
        if request.param == "api port"
        else OtlpServer(ingest)
    )
    with server as running:
        yield f"{running.url}/v1/traces"


def json_body(*spans: Any) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}).encode()


def request(name: str = "step") -> bytes:
    message = ExportTraceServiceRequest()
    message.resource_spans.add().scope_spans.add().spans.add(
        trace_id=b"t" * 16, span_id=b"12345678", name=name, start_time_unix_nano=7
    )
    return message.SerializeToString()


BODIES: list[tuple[bytes, dict[str, str], int]] = [
    (b"", PROTOBUF, 200),
    (b"{}", JSON, 200),
    (b'{"resourceSpans":[]}', {"content-type": "Application/JSON; charset=utf-8"}, 200),
    (gzip.compress(b""), {**PROTOBUF, "content-encoding": "GZIP"}, 200),
    (b"", {**PROTOBUF, "content-encoding": "gzip"}, 200),
    (b"", JSON, 400),
    (request(), JSON, 400),
    (b"{}", PROTOBUF, 400),
    (request(), {}, 415),
    (request(), {"content-type": "application/grpc"}, 415),
    (request(), {"content-type": "application/x-www-form-urlencoded"}, 415),
    (request(), {**PROTOBUF, "content-encoding": "deflate"}, 415),
    (request(), {**PROTOBUF, "content-encoding": "gzip, gzip"}, 415),
    (request(), {**PROTOBUF, "content-encoding": "gzip"}, 400),
    (gzip.compress(request())[:-1], {**PROTOBUF, "content-encoding": "gzip"}, 400),
    (gzip.compress(request()) + b"more", {**PROTOBUF, "content-encoding": "gzip"}, 400),
]


def post(url: str, content: Any, headers: dict[str, str]) -> httpx.Response:
    return httpx.post(url, content=content, headers=headers, trust_env=False, timeout=60)


class BusyTwice(DirectKeeper):
    """Has no room at first."""

    refusals = 0

    def keep(self, admitted: Admitted, **named: Any) -> None:
        self.refusals += 1
        if self.refusals <= 2:
            raise BusyError("full", retry_after_s=0.05, overloaded=self.refusals == 1)
        super().keep(admitted, **named)


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_the_sdks_exporters_repeat_what_had_no_room(store: Store, transport: str) -> None:
    """UNAVAILABLE with RetryInfo; 429 and 503 with Retry-After: every span arrives, once."""
    ingest = make_ingest(store, keeper=BusyTwice(store.spans))
    with GrpcHandle(ingest, "127.0.0.1", 0) as rpc, OtlpServer(ingest) as web:
        endpoint = f"http://{rpc.target}" if transport == "grpc" else f"{web.url}/v1/traces"
        answer = export(transport, endpoint, 10)
    assert ingest.counters.busy_count == 2
    assert len(store.spans.trace(answer["trace_id"])) == 10


def test_json_is_read_by_otlps_rules(url: str, store: Store) -> None:
    """Hex ids in any case, 64-bit integers as text or number, unknown fields and members of null
    ignored, snake_case unknown; the answer is lowerCamelCase JSON."""
    odd = {**SPAN, "spanId": "0" * 15 + "1", "kind": None, "attributes": None,
           "unknown": {"a": [1]}, "trace_id": "00", "start_time_unix_nano": "1"}  # fmt: skip
    base64_id = {**SPAN, "traceId": "q83vASNFZ4mrze8BI0VniQ=="}
    named_kind = {**SPAN, "kind": "SPAN_KIND_SERVER"}
    answer = post(url, json_body(SPAN, odd, base64_id, named_kind), JSON)
    assert answer.status_code == 200
    assert answer.json()["partialSuccess"]["rejectedSpans"] == "2"
    assert set(answer.json()["partialSuccess"]) == {"rejectedSpans", "errorMessage"}
    spans = store.spans.trace("ab" * 16)
    assert [(span.span_id, span.start_local_ns) for span in spans] == [
        ("0" * 15 + "1", 7),
        ("cd" * 8, 7),
    ]


def test_bodies_that_are_empty_or_of_another_kind(url: str) -> None:
    """An empty request is a success; what cannot be read is a 4xx with a Status, never a 5xx."""
    for content, headers, status in BODIES:
        answer = post(url, content, headers)
        assert answer.status_code == status, (content, headers)
        if status != 200 and headers != JSON:
            assert decode_status(answer.content)[0] == 3


@pytest.mark.parametrize("layers", [1, 2])
def test_a_gzip_bomb_is_refused_before_it_is_unpacked(url: str, layers: int) -> None:
    """65 KB that unpack to 64 MiB and a byte: 413. A bomb in a bomb is no protobuf: 400 or 413."""
    bomb = gzip.compress(bytes(REQUEST_LIMIT_BYTES + 1))
    for _ in range(layers - 1):
        bomb = gzip.compress(bomb)
    answer = post(url, bomb, {**PROTOBUF, "content-encoding": "gzip"})
    assert answer.status_code == (413 if layers == 1 else 400)


def test_a_body_without_a_length_is_taken(url: str, store: Store) -> None:
    """Transfer-Encoding: chunked, compressed on the way."""
    content = gzip.compress(request(name="n" * 5000))

    def pieces() -> Iterator[bytes]:
        for at in range(0, len(content), 7):
            yield content[at : at + 7]

    answer = post(url, pieces(), {**PROTOBUF, "content-encoding": "gzip"})
    assert answer.status_code == 200
    assert store.spans.count() == 1


@pytest.mark.parametrize(
    ("size", "expected"), [(REQUEST_LIMIT_BYTES, b"100"), (REQUEST_LIMIT_BYTES + 1, b"413")]
)
def test_the_limit_is_64_mib_to_the_byte(url: str, size: int, expected: bytes) -> None:
    """A client that asks first (Expect: 100-continue) learns it before it sends anything."""
    parts = httpx.URL(url)
    with socket.create_connection((parts.host, parts.port or 0), timeout=60) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n"
            b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % size
        )
        assert connection.recv(12).split()[1] == expected


def test_http_1_0_is_served(url: str, store: Store) -> None:
    """A request without Host or keep-alive; the connection ends with the answer."""
    parts = httpx.URL(url)
    with socket.create_connection((parts.host, parts.port or 0), timeout=60) as connection:
        connection.sendall(
            b"POST /v1/traces HTTP/1.0\r\ncontent-type: application/x-protobuf\r\n"
            b"content-length: %d\r\n\r\n" % len(request()) + request()
        )
        data = b""
        while part := connection.recv(4096):
            data += part
    assert data.split()[1] == b"200"
    assert store.spans.count() == 1


def test_a_slow_body_does_not_hold_its_room(
    store: Store, ingest: Ingest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the API's port, too: 408, and what was counted for it is free."""
    monkeypatch.setattr(otlp_http, "SLOW_S", 0.05)
    with (
        serve_in_thread(create_app(store, ingest=ingest)) as service,
        socket.create_connection((service.host, service.port), timeout=60) as connection,
    ):
        connection.sendall(
            b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
            b"content-length: 60000000\r\n\r\n{"
        )
        assert connection.recv(12).split()[1] == b"408"
    assert ingest._in_flight_bytes == 0


def test_grpc_takes_an_empty_request_and_refuses_a_bomb(ingest: Ingest) -> None:
    """Zero bytes are a request without spans; 64 MiB and more are too much, compressed or not."""
    with GrpcHandle(ingest, "127.0.0.1", 0) as rpc, grpc.insecure_channel(rpc.target) as channel:
        call = channel.unary_unary(EXPORT_METHOD)
        empty = ExportTraceServiceResponse.FromString(call(b"", timeout=60))
        assert not empty.HasField("partial_success")
        with pytest.raises(grpc.RpcError) as caught:
            call(bytes(REQUEST_LIMIT_BYTES + 1), timeout=60, compression=grpc.Compression.Gzip)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert call(request(), timeout=60) == b""


def test_grpc_may_be_ipv6(ingest: Ingest, store: Store) -> None:
    """::1, in brackets where a client connects to."""
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    with GrpcHandle(ingest, "::1", 0) as rpc, grpc.insecure_channel(rpc.target) as channel:
        assert rpc.target == f"[::1]:{rpc.port}"
        assert channel.unary_unary(EXPORT_METHOD)(request(), timeout=60) == b""
    assert store.spans.count() == 1
