# SPDX-License-Identifier: Apache-2.0
"""The OTLP port as an HTTP/1.1 server: what clients may send, and what they send wrongly."""

import gzip
import socket
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracing_core.ingest.keeper import Done
from tracing_core.otlp import Admitted
from tracing_core.service import OtlpServer
from tracing_core.service.ingest import Ingest

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
