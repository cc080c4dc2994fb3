# SPDX-License-Identifier: Apache-2.0
"""Every route of the service with every kind of token. A route without a declared need fails."""

import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from fastapi.routing import iter_route_contexts
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.access_world import (
    BAD,
    SHARED_SPAN,
    SHARED_TRACE,
    Guarded,
    guarded,
)
from tests.support.tracing_world import EPOCH_NS
from tracing_core.access import ROUTES, Need, Scope
from tracing_core.access.routes import GRPC, OTLP_GRPC_EXPORT
from tracing_core.otlp import decode_status
from tracing_core.service import OtlpServer, ServiceHandle, create_app, serve_in_thread
from tracing_core.service.forward import Forwarder
from tracing_core.service.forward_spool import ForwardSpool
from tracing_core.service.guard import Guard
from tracing_core.service.otlp_grpc import GrpcHandle, Handler
from tracing_core.store import Store

PAGE = Path(__file__).parents[2] / "docs" / "access.md"
HTTP_ROUTES = sorted(key for key in ROUTES if key[0] != GRPC)
GET_ROUTES = [path for method, path in HTTP_ROUTES if method == "GET"]
VALUES = {
    "trace_id": SHARED_TRACE, "trace": SHARED_TRACE, "span_id": SHARED_SPAN, "job": "job-1",
    "step": "0", "rank": "0", "communicator": "c", "service:path": "trainer", "name": "app.js",
    "clock": "h1",
}  # fmt: skip
GOOD = {
    Need.NOTHING: {"", *BAD, "alpha", "alpha sends", "operator"},
    Need.TOKEN: {
        "alpha",
        "alpha reads",
        "alpha sends",
        "beta",
        "operator",
        "operator reads",
        "admin",
    },
    Need.INGEST: {"alpha", "alpha sends", "beta", "operator", "admin"},
    Need.READ: {"alpha", "alpha reads", "beta", "operator", "operator reads", "admin"},
    Need.FABRIC_READ: {"operator", "admin"},
    Need.ADMIN: {"operator", "admin"},
}
KINDS = sorted(
    {"alpha", "alpha reads", "alpha sends", "beta", "operator", "operator reads", "admin", *BAD}
)
WALKED = [*BAD, "alpha reads", "alpha sends", "operator reads", "admin"]
"""Kinds that every GET is asked with: each way to be refused, each set of scopes."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("access")) as made:
        yield made


@pytest.fixture(scope="module")
def handle(service: Guarded) -> Iterator[ServiceHandle]:
    with serve_in_thread(service.app) as running:
        yield running


@pytest.fixture(scope="module")
def client(handle: ServiceHandle) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=handle.url, trust_env=False, timeout=60) as opened:
        yield opened


def filled(template: str) -> str:
    for name, value in VALUES.items():
        template = template.replace(f"{{{name}}}", value)
    assert "{" not in template, f"tests/integration: VALUES has nothing for {template}"
    return template


def body() -> bytes:
    message = ExportTraceServiceRequest()
    message.resource_spans.add().scope_spans.add().spans.add(
        trace_id=b"t" * 16, span_id=b"s" * 8, name="step", start_time_unix_nano=EPOCH_NS
    )
    return message.SerializeToString()


def test_every_route_has_a_declared_need(tmp_path: Path) -> None:
    """Each HTTP route and gRPC method stands in tracing_core/access/routes.py, and no other does:
    who adds a route says there who may ask for it, or nobody may while tokens are required."""
    with Store.open() as store:
        spool = ForwardSpool(tmp_path)
        forwarder = Forwarder("http://127.0.0.1:1", store.corrections.table, spool)
        app = create_app(store, forward=forwarder)
        found = {
            (method, context.path)
            for context in iter_route_contexts(app.routes)
            for method in context.methods or ()
            if method != "HEAD"
        }
        spool.close()
    declared = {key for key in ROUTES if key[0] != GRPC}
    assert found == declared


def test_every_grpc_method_has_a_declared_need(service: Guarded) -> None:
    """The methods of the OTLP/gRPC server are those of the table."""
    assert {(GRPC, name) for name in Handler(service.ingest).methods} == {
        key for key in ROUTES if key[0] == GRPC
    }


@pytest.mark.parametrize("kind", WALKED)
@pytest.mark.parametrize("path", GET_ROUTES)
def test_routes_open_to_whom_they_are_declared(
    client: httpx.Client, service: Guarded, path: str, kind: str
) -> None:
    """No token, a wrong, unknown, revoked or expired one: 401 with a challenge. One without the
    scope: 403, which names it. Else the route answers, if only that there is no such thing."""
    need = ROUTES["GET", path]
    response = client.get(filled(path), headers=service.tokens.headers(kind))
    if kind in GOOD[need] or need is Need.NOTHING:
        assert response.status_code not in (401, 403), response.text
        assert "www-authenticate" not in response.headers
    elif kind in BAD:
        assert response.status_code == 401
        challenge = response.headers["www-authenticate"]
        assert challenge.startswith('Bearer realm="TempoTrace"')
        assert ("invalid_token" in challenge) == bool(kind)
    else:
        assert response.status_code == 403
        assert f'scope="{need.value}"' in response.headers["www-authenticate"]
    if kind in BAD and need is not Need.NOTHING:
        assert "alpha" not in response.text
        assert SHARED_SPAN not in response.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", [*GET_ROUTES, "/v1/nothing", "/redoc", "/docs/oauth2-redirect"])
def test_what_is_not_declared_is_not_there(
    client: httpx.Client, service: Guarded, path: str, method: str
) -> None:
    """Other methods and paths: 401 for strangers, 404 for the holder of a token."""
    if ROUTES.get((method, path)) is not None:
        return
    assert client.request(method, filled(path)).status_code == 401
    headers = service.tokens.headers("operator")
    assert client.request(method, filled(path), headers=headers).status_code == 404


@pytest.mark.parametrize("kind", ["", "alpha", "operator reads"])
def test_head_asks_for_what_get_does(client: httpx.Client, service: Guarded, kind: str) -> None:
    """The same status as GET, for all three kinds of answer."""
    for path in ("/v1/traces", "/v1/clocks", "/v1/health", "/openapi.json"):
        headers = service.tokens.headers(kind)
        assert (
            client.head(path, headers=headers).status_code
            == client.get(path, headers=headers).status_code
        )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("port", ["page", "otlp"])
def test_otlp_over_http(
    service: Guarded, client: httpx.Client, otlp: OtlpServer, kind: str, port: str
) -> None:
    """Both ports: 401 and 403 with a google.rpc.Status and the challenge, else the span is kept."""
    url = f"{otlp.url if port == 'otlp' else client.base_url}/v1/traces".replace("//v1", "/v1")
    response = client.post(
        url, content=body(),
        headers={"content-type": "application/x-protobuf", **service.tokens.headers(kind)},
    )  # fmt: skip
    if kind in GOOD[Need.INGEST]:
        assert response.status_code == 200
        assert response.content == b""
        return
    code, message = decode_status(response.content)
    assert (response.status_code, code) == ((401, 16) if kind in BAD else (403, 7))
    assert response.headers["www-authenticate"].startswith('Bearer realm="TempoTrace"')
    assert "token" in message


@pytest.fixture(scope="module")
def otlp(service: Guarded) -> Iterator[OtlpServer]:
    with OtlpServer(service.ingest) as running:
        yield running


@pytest.mark.parametrize("kind", KINDS)
def test_otlp_over_grpc(target: str, service: Guarded, kind: str) -> None:
    """UNAUTHENTICATED, PERMISSION_DENIED, or an answer."""
    headers = tuple(service.tokens.headers(kind).items())
    with grpc.insecure_channel(target) as channel:
        export = channel.unary_unary(OTLP_GRPC_EXPORT)
        if kind in GOOD[Need.INGEST]:
            answer = ExportTraceServiceResponse.FromString(export(body(), metadata=headers))
            assert not answer.partial_success.rejected_spans
            return
        with pytest.raises(grpc.RpcError) as caught:
            export(body(), metadata=headers)
    expected = grpc.StatusCode.UNAUTHENTICATED if kind in BAD else grpc.StatusCode.PERMISSION_DENIED
    assert caught.value.code() is expected
    assert "token" in caught.value.details()


@pytest.fixture(scope="module")
def target(service: Guarded) -> Iterator[str]:
    with GrpcHandle(service.ingest, "127.0.0.1", 0) as running:
        yield running.target


def test_two_authorization_headers_are_none(client: httpx.Client, service: Guarded) -> None:
    """Which of them counts is not guessed."""
    good = service.tokens.texts["operator"]
    headers = [("authorization", f"Bearer {good}"), ("authorization", "Bearer x")]
    assert client.get("/v1/traces", headers=headers).status_code == 401


def test_an_entity_tag_is_no_way_around_a_token(client: httpx.Client, service: Guarded) -> None:
    """304 is said to those only who could have the answer; a tenant's tag is nobody else's."""
    headers = service.tokens.headers("alpha")
    tag = client.get("/v1/traces", headers=headers).headers["etag"]
    again = client.get("/v1/traces", headers={**headers, "if-none-match": tag})
    assert again.status_code == 304
    assert client.get("/v1/traces", headers={"if-none-match": tag}).status_code == 401
    for other in ("beta", "operator"):
        headers = {**service.tokens.headers(other), "if-none-match": tag}
        assert client.get("/v1/traces", headers=headers).status_code == 200


def test_answers_differ_by_token_for_caches(client: httpx.Client, service: Guarded) -> None:
    """What is cached is cached per token."""
    response = client.get("/v1/traces", headers=service.tokens.headers("alpha"))
    assert response.headers["vary"] == "Authorization"


def test_the_document_says_what_each_operation_needs(service: Guarded) -> None:
    """A bearer scheme, and for every operation the scope of the table; open ones have none."""
    document = service.app.openapi()
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            template = next(p for m, p in ROUTES if p.replace(":path", "") == path
                            and m == method.upper())  # fmt: skip
            need = ROUTES[method.upper(), template]
            expected = [] if need is Need.NOTHING else [{"token": [need.value]}]
            assert operation["security"] == expected, path
            assert ("401" in operation["responses"]) == bool(expected)


def test_needs_name_scopes() -> None:
    """Beyond nothing and any token every need is a scope that tokens have."""
    assert {need.value for need in Need} - {"none", "any token"} == {s.value for s in Scope}


def test_the_guard_stands_in_front_of_everything_that_reads(service: Guarded) -> None:
    """No middleware behind OTLP's own, HEAD's and the path's is in front of it: what answers from
    the store is asked by the guard only."""
    order = [item.cls.__name__ for item in service.app.user_middleware]
    before = order[: order.index(Guard.__name__)]
    assert set(before) <= {"OtlpFront", "HeadAsGet", "EncodedIds"}


def test_the_page_on_access_has_every_route_with_its_need() -> None:
    """The table of docs/access.md is the table of the code."""
    rows = re.findall(r"^\| `(\w+) (/[^`]*)`[^|]*\| `([^`]+)`", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == len(ROUTES)
    assert {(method, path): Need(need) for method, path, need in rows} == ROUTES
