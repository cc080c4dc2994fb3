# SPDX-License-Identifier: Apache-2.0
"""The OTLP port as an HTTP/1.1 server: what clients may send, and what they send wrongly."""

import contextlib
import gzip
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracing_core.ingest.keeper import Done
from tracing_core.otlp import Admitted, decode_status
from tracing_core.service import OtlpServer, otlp_connection
from tracing_core.service.ingest import Ingest
from tracing_core.service.otlp_http import SLOW_S
from tracing_core.service.otlp_server import IDLE_S

LIMIT_BYTES = 300_000
TYPE = b"content-type: application/x-protobuf\r\n"


class Kept:
    """A keeper that remembers."""

    blocking = False

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def keep(self, admitted: Admitted, *, tenant: str, done: Done) -> None:
        self.bodies.append(admitted.body)
        done(None)

    def settle(self, timeout_s: float) -> bool:
        return True


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def server(kept: Kept) -> Iterator[OtlpServer]:
    with OtlpServer(Ingest(kept, limit_bytes=LIMIT_BYTES)) as running:
        yield running


@pytest.fixture
def connection(server: OtlpServer) -> Iterator[socket.socket]:
    with socket.create_connection((server.host, server.port), timeout=30) as opened:
        yield opened


def body(number: int, name: str = "step") -> bytes:
    message = ExportTraceServiceRequest()
    message.resource_spans.add().scope_spans.add().spans.add(
        trace_id=b"t" * 16, span_id=number.to_bytes(8, "big"), name=name
    )
    return message.SerializeToString()


def post(content: bytes, *headers: bytes, length: int | None = None) -> bytes:
    size = len(content) if length is None else length
    lines = b"".join(line + b"\r\n" for line in headers)
    return (
        b"POST /v1/traces HTTP/1.1\r\nhost: x\r\n" + TYPE + lines
        + b"content-length: %d\r\n\r\n" % size + content
    )  # fmt: skip


def answer(connection: socket.socket) -> tuple[int, dict[bytes, bytes], bytes]:
    """One response."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(1)
        assert part, data
        data += part
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = dict(line.split(b": ", 1) for line in lines)
    while len(rest) < int(headers.get(b"content-length", b"0")):
        rest += connection.recv(65536)
    return int(first.split()[1]), headers, rest


def is_closed(connection: socket.socket) -> bool:
    return connection.recv(1) == b""


def test_requests_follow_one_another_on_a_connection(connection: socket.socket, kept: Kept) -> None:
    """Keep-alive: each is answered, the connection stays open, every answer has a date."""
    for number in range(1, 4):
        connection.sendall(post(body(number)))
        status, headers, content = answer(connection)
        assert (status, content) == (200, b"")
        assert headers[b"date"].endswith(b"GMT")
        assert b"connection" not in headers
    assert kept.bodies == [body(number) for number in range(1, 4)]


@pytest.mark.parametrize("size", [1, 7, 1000, 70_000])
def test_a_request_may_come_in_pieces_of_any_size(
    connection: socket.socket, kept: Kept, size: int
) -> None:
    """Head and body cut anywhere, also a body that is larger than any buffer."""
    content = body(1, name="n" * (250_000 if size > 100 else 300))
    data = post(content)
    for at in range(0, len(data), size):
        connection.sendall(data[at : at + size])
    assert answer(connection)[0] == 200
    assert kept.bodies == [content]


def test_requests_sent_ahead_are_answered_in_order(connection: socket.socket, kept: Kept) -> None:
    """Pipelining (RFC 9112 section 9.3.2): three requests in one write."""
    contents = [body(1), body(2, name="n" * 20_000), body(3)]
    connection.sendall(b"".join(post(content) for content in contents))
    assert [answer(connection)[0] for _ in contents] == [200, 200, 200]
    assert kept.bodies == contents


def test_a_body_in_chunks_is_taken(connection: socket.socket, kept: Kept) -> None:
    """Transfer-Encoding: chunked, as clients send what they compress on the way."""
    content = gzip.compress(body(1, name="n" * 5000))
    head = (
        b"POST /v1/traces HTTP/1.1\r\nhost: x\r\n" + TYPE
        + b"content-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n"
    )  # fmt: skip
    connection.sendall(head)
    for at in range(0, len(content), 10):
        part = content[at : at + 10]
        connection.sendall(b"%x\r\n" % len(part) + part + b"\r\n")
    connection.sendall(b"0\r\n\r\n")
    assert answer(connection)[0] == 200
    connection.sendall(post(body(2)))
    assert answer(connection)[0] == 200
    assert kept.bodies == [body(1, name="n" * 5000), body(2)]


def test_a_body_in_chunks_beyond_the_limit_is_refused(connection: socket.socket) -> None:
    """Its length is not known before: it is refused when it has come, and the connection ends."""
    head = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\n" + TYPE + b"transfer-encoding: chunked\r\n\r\n"
    connection.sendall(head + b"%x\r\n" % 400_000 + bytes(350_000))
    assert answer(connection)[0] == 413
    assert is_closed(connection)


def test_a_client_that_asks_first_is_told_to_go_on(connection: socket.socket, kept: Kept) -> None:
    """Expect: 100-continue (RFC 9110 section 10.1.1)."""
    data = post(body(1), b"expect: 100-continue")
    connection.sendall(data[: -len(body(1))])
    assert answer(connection)[0] == 100
    connection.sendall(body(1))
    assert answer(connection)[0] == 200
    assert kept.bodies == [body(1)]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (post(b"", length=LIMIT_BYTES + 1), 413),
        (b"POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", 404),
        (b"GET /v1/traces HTTP/1.1\r\nhost: x\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-length: ten\r\n\r\n", 400),
        (b"POST /v1/traces HTTP/1.1\r\nx: " + b"y" * 70_000, 431),
    ],
)
def test_what_is_wrong_is_named_and_the_connection_ends(
    connection: socket.socket, data: bytes, status: int
) -> None:
    """What follows such a request cannot be told from its body, so nothing more is read."""
    connection.sendall(data)
    found, headers, _ = answer(connection)
    assert (found, headers[b"connection"]) == (status, b"close")
    assert is_closed(connection)


def test_a_refused_body_leaves_the_connection_open(connection: socket.socket, kept: Kept) -> None:
    """Not protobuf, or of an unknown type: answered, and the next request is taken."""
    connection.sendall(post(b"\xff\xff"))
    assert answer(connection)[0] == 400
    connection.sendall(post(body(1)).replace(b"x-protobuf", b"x-unknown1"))
    assert answer(connection)[0] == 415
    connection.sendall(post(body(2)))
    assert answer(connection)[0] == 200
    assert kept.bodies == [body(2)]


def test_the_answer_to_a_request_that_is_too_large_arrives(connection: socket.socket) -> None:
    """The sender can write its whole body and still reads 413, instead of a reset."""
    connection.sendall(post(b"", length=2_000_000) + bytes(2_000_000))
    assert answer(connection)[0] == 413
    assert is_closed(connection)


@pytest.mark.parametrize(
    "data",
    [
        post(body(1), b"connection: close"),
        post(body(1)).replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
)
def test_a_client_may_ask_for_the_end(connection: socket.socket, kept: Kept, data: bytes) -> None:
    """Connection: close and HTTP/1.0 end the connection after the answer."""
    connection.sendall(data)
    assert answer(connection)[0] == 200
    assert is_closed(connection)
    assert kept.bodies == [body(1)]


def test_a_client_that_goes_away_costs_nothing(server: OtlpServer, kept: Kept) -> None:
    """Half a request is forgotten, with the room that was counted for it; others are served."""
    for _ in range(3):
        with socket.create_connection((server.host, server.port), timeout=30) as gone:
            gone.sendall(post(body(1))[:-3])
    with socket.create_connection((server.host, server.port), timeout=30) as other:
        other.sendall(post(body(2)))
        assert answer(other)[0] == 200
    assert kept.bodies == [body(2)]
    assert server._ingest._in_flight_count == 0


def test_stopping_ends_idle_connections(server: OtlpServer, connection: socket.socket) -> None:
    """The port is closed and a connection that waits is cut."""
    connection.sendall(post(body(1)))
    assert answer(connection)[0] == 200
    server.stop()
    server.stop()
    with pytest.raises(OSError, match=r"refused|reset"):
        socket.create_connection((server.host, server.port), timeout=5)


def sweep(server: OtlpServer, seconds_later: float) -> None:
    """What the server does every few seconds, as if that much time had passed."""
    assert server._loop is not None
    loop = server._loop
    loop.call_soon_threadsafe(lambda: server._sweep(loop.time() + seconds_later))


def wait_for(server: OtlpServer, size: int) -> None:
    """Until a connection has got so many bytes of its request."""
    pause = threading.Event()
    for _ in range(6000):
        if any(item._come_bytes >= size for item in list(server._connections)):
            return
        pause.wait(0.005)
    raise AssertionError("the bytes did not come")


@pytest.mark.parametrize("sent", [10, 60, -3], ids=["in the head", "at its end", "in the body"])
def test_a_request_that_comes_too_slowly_ends(
    server: OtlpServer, connection: socket.socket, kept: Kept, sent: int
) -> None:
    """Byte by byte for minutes (slowloris): 408, and the room that it held is free again. What the
    last byte was is of no interest: the whole request has its time."""
    data = post(body(1))[:sent]
    connection.sendall(data[:-1])
    wait_for(server, len(data) - 1)
    sweep(server, SLOW_S - 5)
    connection.sendall(data[-1:])
    wait_for(server, len(data))
    sweep(server, SLOW_S + 1)
    status, headers, _ = answer(connection)
    assert (status, headers[b"connection"]) == (408, b"close")
    assert is_closed(connection)
    assert kept.bodies == []
    assert server._ingest._in_flight_count == 0


def test_a_large_request_has_more_time(
    server: OtlpServer, connection: socket.socket, kept: Kept
) -> None:
    """A second more for each 64 KiB that have come."""
    content = body(1, name="n" * 250_000)
    data = post(content)
    connection.sendall(data[:200_000])
    wait_for(server, 200_000)
    sweep(server, SLOW_S + 1)
    connection.sendall(data[200_000:])
    assert answer(connection)[0] == 200
    assert kept.bodies == [content]


def test_a_connection_that_waits_is_not_slow(
    server: OtlpServer, connection: socket.socket, kept: Kept
) -> None:
    """Keep-alive between two requests is limited by idle time alone."""
    connection.sendall(post(body(1)))
    assert answer(connection)[0] == 200
    sweep(server, SLOW_S + 60)
    connection.sendall(post(body(2)))
    assert answer(connection)[0] == 200
    sweep(server, IDLE_S + 1)
    assert is_closed(connection)
    assert len(kept.bodies) == 2


def test_connections_are_limited(
    server: OtlpServer, monkeypatch: pytest.MonkeyPatch, kept: Kept
) -> None:
    """Beyond the limit: 503 with Retry-After, which SDKs repeat; far beyond it, nothing."""
    monkeypatch.setattr(otlp_connection, "CONNECTIONS_MAX", 2)
    where = (server.host, server.port)
    with contextlib.ExitStack() as stack:
        open_ones = [
            stack.enter_context(socket.create_connection(where, timeout=30)) for _ in range(2)
        ]
        for number, one in enumerate(open_ones, 1):
            one.sendall(post(body(number)))
            assert answer(one)[0] == 200
        third = stack.enter_context(socket.create_connection(where, timeout=30))
        status, headers, _ = answer(third)
        assert (status, int(headers[b"retry-after"]) >= 1) == (503, True)
        open_ones[0].sendall(post(body(3)))
        assert answer(open_ones[0])[0] == 200
    assert kept.bodies == [body(1), body(2), body(3)]


def test_a_fault_of_ours_is_answered(
    server: OtlpServer, connection: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """500 with a Status, and the connection serves on; it neither hangs nor tells internals."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret")

    with monkeypatch.context() as patched:
        patched.setattr(Kept, "keep", broken)
        connection.sendall(post(body(1)))
        status, _, content = answer(connection)
    assert status == 500
    assert decode_status(content)[0] == 13
    assert b"secret" not in content
    connection.sendall(post(body(2)))
    assert answer(connection)[0] == 200


@pytest.mark.parametrize(
    "data",
    [
        post(body(1), b"transfer-encoding: chunked"),
        post(body(1), b"content-length: 3"),
        post(body(1)).replace(b"content-length: ", b"content-length: -"),
        post(body(1)).replace(b"content-length: ", b"content-length: +"),
        post(body(1)).replace(b"\r\nhost", b"\r\n host"),
        post(body(1)).replace(b"HTTP/1.1", b"HTTP/9.9"),
    ],
)
def test_a_request_whose_end_is_ambiguous_is_refused(
    connection: socket.socket, kept: Kept, data: bytes
) -> None:
    """Two lengths, or one that is none: request smuggling (RFC 9112 sections 6.1 and 6.3)."""
    connection.sendall(data)
    assert answer(connection)[0] == 400
    assert is_closed(connection)
    assert kept.bodies == []


def test_the_port_may_be_ipv6(kept: Kept) -> None:
    """::1, in brackets where it stands in a URL."""
    try:
        server = OtlpServer(Ingest(kept), "::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server, httpx.Client(trust_env=False, timeout=60) as client:
        assert server.url == f"http://[::1]:{server.port}"
        response = client.post(
            f"{server.url}/v1/traces",
            content=body(1),
            headers={"content-type": "application/x-protobuf"},
        )
        assert response.status_code == 200
    assert kept.bodies == [body(1)]
