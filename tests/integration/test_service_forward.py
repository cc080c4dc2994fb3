# SPDX-License-Identifier: Apache-2.0
"""Passing spans on: a receiver on 127.0.0.1 that answers as it is told to."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tracing_core.corrections import CorrectionTable
from tracing_core.model import ClockStatus, Correction
from tracing_core.sdk import HostTracer, OtlpExport
from tracing_core.service import create_app, serve_in_thread
from tracing_core.service.forward import Forwarder, ForwardingKeeper
from tracing_core.service.forward_queue import ForwardQueue
from tracing_core.store import Store

EPOCH_NS = 1_800_000_000_000_000_000
PROTOBUF = {"content-type": "application/x-protobuf"}
WAIT_S = 20


class Receiver:
    """Takes requests; `answers` are (status, headers, body), the last one is repeated."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, dict[str, str], bytes]] = [(200, {}, b"")]
        self.changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                with receiver.changed:
                    receiver.requests.append((self.path, dict(self.headers), body))
                    answers = receiver.answers
                    status, headers, content = answers.pop(0) if len(answers) > 1 else answers[0]
                    receiver.changed.notify_all()
                self.send_response(status)
                for key, value in {**headers, "content-length": str(len(content))}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def wait_for(self, count: int) -> None:
        """Until so many requests have come."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.requests) >= count, WAIT_S)

    def spans(self) -> list:
        """All spans of all requests."""
        return [
            (resource.resource, span)
            for _, _, body in self.requests
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    opened = Receiver()
    yield opened
    opened.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store") as opened:
        yield opened


def row(clock: str = "h1") -> Correction:
    return Correction(
        clock=clock,
        valid_from_local_ns=EPOCH_NS,
        valid_to_local_ns=EPOCH_NS + 10**9,
        anchor_local_ns=EPOCH_NS,
        offset_ns=500,
        rate_ppb=0.0,
        bound_hard_ns=300,
        bound_conditional_ns=30,
        method="exact",
        prior="none",
        status=ClockStatus.SYNCHRONISED,
    )


def request(clock: str = "h1", number: int = 1, **attributes: str) -> bytes:
    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    resource.resource.attributes.add(key="tempotrace.clock.domain").value.string_value = clock
    span = resource.scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.name = b"t" * 16, number.to_bytes(8, "big"), "step"
    span.start_time_unix_nano, span.end_time_unix_nano = EPOCH_NS + 7, EPOCH_NS + 9
    for key, value in attributes.items():
        span.attributes.add(key=key).value.string_value = value
    return message.SerializeToString()


def table() -> CorrectionTable:
    return CorrectionTable([(1, row())], version=1)


def values(span) -> dict:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value"))
            for pair in span.attributes}  # fmt: skip


def test_spans_pass_through_with_corrected_time_as_attributes(store: Store, receiver: Receiver):
    """From the real SDK to the receiver: raw stamps stay, corrected ones and bounds are added."""
    store.corrections.append([row()])
    tracer = HostTracer(host="h1", tenant="alpha", clock_domain="h1", seed=1)
    tracer.span("step", start_local_ns=EPOCH_NS + 7, end_local_ns=EPOCH_NS + 9,
                attributes={"n": 5})  # fmt: skip
    with (
        Forwarder(receiver.url, store.corrections.table) as forward,
        serve_in_thread(create_app(store, forward=forward)) as service,
        OtlpExport(endpoint=f"{service.url}/v1/traces") as export,
    ):
        export.export(tracer.take())
        receiver.wait_for(1)
        state = httpx.get(f"{service.url}/v1/forward", trust_env=False).json()
    tracer.shutdown()
    assert receiver.requests[0][0] == "/v1/traces"
    ((resource, span),) = receiver.spans()
    assert span.start_time_unix_nano == EPOCH_NS + 7
    found = values(span)
    assert found["n"] == 5
    assert found["tempotrace.start.corrected_reference_ns"] == EPOCH_NS + 7 - 500
    assert found["tempotrace.end.corrected_reference_ns"] == EPOCH_NS + 9 - 500
    assert found["tempotrace.start.bound_conditional_ns"] == 30
    assert found["tempotrace.start.bound_hard_ns"] == 300
    assert found["tempotrace.start.earliest_reference_ns"] == EPOCH_NS + 7 - 530
    assert found["tempotrace.time.status"] == "synchronised"
    assert found["tempotrace.correction_version"] == 1
    assert "tempotrace.clock.domain" in {pair.key for pair in resource.attributes}
    assert state["url"] == f"{receiver.url}/v1/traces"
    assert store.spans.count() == 1


def test_a_span_without_a_correction_says_so(receiver: Receiver):
    """Unknown is a status with a reason, and no number."""
    with Forwarder(receiver.url, table) as forward:
        forward.offer(request("h9"))
        receiver.wait_for(1)
    found = values(receiver.spans()[0][1])
    assert found["tempotrace.time.status"] == "unknown"
    assert "h9" in found["tempotrace.time.reason"]
    assert not [key for key in found if "corrected" in key or "bound" in key]


def test_what_another_service_added_is_replaced(receiver: Receiver):
    """Two services in a row, or one span twice, never leave two values of one attribute."""
    with Forwarder(receiver.url, table) as forward:
        forward.offer(request(**{"tempotrace.time.status": "unknown", "kept": "x"}))
        receiver.wait_for(1)
    pairs = [pair.key for pair in receiver.spans()[0][1].attributes]
    assert len(pairs) == len(set(pairs))
    assert values(receiver.spans()[0][1])["tempotrace.time.status"] == "synchronised"
    assert "kept" in pairs


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_receiver_that_asks_for_patience_gets_the_request_again(receiver: Receiver, status):
    """The same bytes, in the same order, until they are taken."""
    receiver.answers = [(status, {"retry-after": "0"}, b"")] * 2 + [(200, {}, b"")]
    with Forwarder(receiver.url, table) as forward:
        forward.offer(request(number=1))
        forward.offer(request(number=2))
        receiver.wait_for(4)
    numbers = [int.from_bytes(span.span_id, "big") for _, span in receiver.spans()]
    assert numbers == [1, 1, 1, 2]
    assert forward.counters.request_count == 2
    assert forward.counters.repetition_count == 2
    assert forward.counters.lost_request_count == 0


def test_a_receiver_that_comes_late_gets_everything(receiver: Receiver):
    """No connection at first: the request waits and arrives when the receiver listens."""
    closed = Receiver()
    closed.close()
    forward = Forwarder(closed.url, table)
    forward.url = f"{closed.url}/v1/traces"
    with forward:
        forward.offer(request())
        while not forward.counters.repetition_count:
            pass
        forward.url = f"{receiver.url}/v1/traces"
        receiver.wait_for(1)
    assert len(receiver.spans()) == 1


def test_a_request_that_is_refused_for_good_does_not_block_others(receiver: Receiver):
    """400 means that repeating is useless: it is counted, and the next one goes."""
    receiver.answers = [(400, {}, b"no"), (200, {}, b"")]
    with Forwarder(receiver.url, table) as forward:
        forward.offer(request(number=1))
        forward.offer(request(number=2))
        receiver.wait_for(2)
    assert forward.counters.refused_request_count == 1
    assert forward.counters.request_count == 1
    assert "400 no" in forward.counters.last_error


def test_partial_success_of_the_receiver_is_counted(receiver: Receiver):
    """Spans that it rejected are not repeated (OTLP, Partial Success)."""
    partial = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=1)
    )
    receiver.answers = [(200, {}, partial.SerializeToString())]
    with Forwarder(receiver.url, table) as forward:
        forward.offer(request())
        receiver.wait_for(1)
    assert forward.counters.rejected_span_count == 1
    assert forward.counters.span_count == 0


def test_senders_wait_while_the_receiver_cannot_keep_up(store: Store, receiver: Receiver):
    """A full queue answers 503 with Retry-After, stores nothing, and takes spans again later."""
    receiver.answers = [(503, {"retry-after": "0"}, b"")]
    forward = Forwarder(receiver.url, store.corrections.table, queue=ForwardQueue(bytes_max=1))
    with forward, serve_in_thread(create_app(store, forward=forward)) as service:
        post = f"{service.url}/v1/traces"
        with httpx.Client(trust_env=False, headers=PROTOBUF) as client:
            assert client.post(post, content=request(number=1)).status_code == 200
            answer = client.post(post, content=request(number=2))
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 0
            assert store.spans.count() == 1
            receiver.answers = [(200, {}, b"")]
            while not forward.has_room:
                pass
            assert client.post(post, content=request(number=2)).status_code == 200
    assert store.spans.count() == 2
    assert forward.counters.full_count >= 1
    assert {span.span_id[-1] for _, span in receiver.spans()} == {1, 2}


def test_what_waits_is_sent_when_the_service_ends(receiver: Receiver):
    """Requests that are held for corrections do not wait longer than the service lives."""
    forward = Forwarder(receiver.url, table, queue=ForwardQueue(hold_s=3600))
    with forward:
        forward.offer(request(number=1))
        forward.offer(request(number=2))
        assert receiver.requests == []
    assert len(receiver.requests) == 2


def test_what_cannot_be_sent_before_the_end_is_counted(receiver: Receiver):
    """A copy is lost with the process, and the log says how many; the store has the spans."""
    receiver.answers = [(503, {"retry-after": "30"}, b"")]
    forward = Forwarder(receiver.url, table)
    forward.start()
    forward.offer(request())
    receiver.wait_for(1)
    forward.stop(drain_s=0)
    assert forward.counters.lost_request_count == 1


def test_requests_wait_for_late_corrections():
    """With a hold, a request's turn comes that much later; order is kept."""
    queue = ForwardQueue(hold_s=5)
    assert queue.due(0) == (None, None)
    queue.put(b"a", 100)
    queue.put(b"b", 101)
    assert queue.due(103) == (None, 2)
    assert queue.due(105) == (b"a", 0)
    queue.remove()
    assert queue.due(105.5) == (None, 0.5)
    assert (len(queue), queue.size_bytes) == (1, 1)


@pytest.mark.parametrize("url", ["tempo:4318", "ftp://x", "http://", ""])
def test_an_address_that_is_none_is_refused(url):
    """Before anything starts."""
    with pytest.raises(ValueError, match="expected http"):
        Forwarder(url, table)


def test_the_sdk_repeats_what_a_full_queue_did_not_take(store: Store):
    """A full queue reaches the SDK as a retryable answer, which it repeats by itself."""
    closed = Receiver()
    closed.close()
    forward = Forwarder(closed.url, store.corrections.table, queue=ForwardQueue(bytes_max=1))
    forward.offer(request())
    tracer = HostTracer(host="h1", tenant="alpha", clock_domain="h1", seed=1)
    tracer.span("step", start_local_ns=EPOCH_NS, end_local_ns=EPOCH_NS + 9)
    with serve_in_thread(create_app(store, forward=forward)) as service:
        export = OtlpExport(endpoint=f"{service.url}/v1/traces")
        spans = tracer.take()
        timer = threading.Timer(0.5, forward._queue.remove)
        timer.start()
        export.export(spans)
        export.close()
        timer.join()
    tracer.shutdown()
    assert store.spans.count() == 1
    assert forward.counters.full_count >= 1


@pytest.mark.parametrize("error", [None, OSError("no room")])
def test_only_what_was_kept_is_passed_on(receiver: Receiver, error):
    """What could not be stored is repeated by its sender: passing it on would double it."""

    class FakeKeeper:
        blocking = False

        def keep(self, admitted, *, tenant, done):
            done(error)

        def settle(self, timeout_s):
            return True

    outcomes = []
    with Forwarder(receiver.url, table) as forward:
        ForwardingKeeper(FakeKeeper(), forward).keep(
            SimpleNamespace(body=request(), span_count=1), tenant="a", done=outcomes.append
        )
    assert outcomes == [error]
    assert len(receiver.requests) == (1 if error is None else 0)
