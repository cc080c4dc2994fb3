# SPDX-License-Identifier: Apache-2.0
"""Passing spans on: a receiver on 127.0.0.1 that answers as it is told to."""

import contextlib
import itertools
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tracing_core.corrections import CorrectionTable
from tracing_core.ingest import LogKeeper, WriteAheadLog
from tracing_core.ingest.log import LogError
from tracing_core.ingest.log_format import LogRecord
from tracing_core.model import ClockStatus, Correction
from tracing_core.sdk import HostTracer, OtlpExport
from tracing_core.service import create_app, make_ingest, serve_in_thread
from tracing_core.service import forward as forward_module
from tracing_core.service.forward import Forwarder, endpoint
from tracing_core.service.forward_spool import ForwardSpool, FullPolicy
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


NOW_NS = 1_800_000_000 * 10**9


class Feed:
    """A log whose segments are handed over: one request each, and kept by nobody else."""

    def __init__(self, folder: Path, **options) -> None:
        self._log = WriteAheadLog(folder, now_ns=itertools.count(NOW_NS, 1000).__next__)
        self.spool = ForwardSpool(folder, now_ns=lambda: NOW_NS, **options)

    def offer(self, *bodies: bytes) -> None:
        records = [LogRecord(body, "default", NOW_NS) for body in bodies]
        self._log.append(records, segment_bytes_max=2**40)
        (segment,) = self._log.seal()
        self.spool.hand_over(segment)
        self._log.remove(segment)

    def close(self) -> None:
        self._log.close()


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    opened = Feed(tmp_path / "log")
    yield opened
    opened.close()


@contextlib.contextmanager
def forwarding_service(store: Store, folder: Path, url: str, **options):
    """The service with log and forwarder, as `serve --forward` sets them up."""
    spool = ForwardSpool(folder, **options)
    log = WriteAheadLog(folder, now_ns=itertools.count(NOW_NS, 1000).__next__)
    with Forwarder(url, store.corrections.table, spool) as forward:
        keeper = LogKeeper(log, store.spans, hand_over=spool.hand_over)
        ingest = make_ingest(store, keeper=keeper, forward=forward)
        try:
            with serve_in_thread(create_app(store, ingest=ingest, forward=forward)) as service:
                yield service, forward
        finally:
            keeper.close()


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


def test_spans_pass_through_with_corrected_time_as_attributes(
    store: Store, receiver: Receiver, tmp_path: Path
):
    """From the real SDK to the receiver: raw stamps stay, corrected ones and bounds are added."""
    store.corrections.append([row()])
    tracer = HostTracer(host="h1", tenant="alpha", clock_domain="h1", seed=1)
    tracer.span("step", start_local_ns=EPOCH_NS + 7, end_local_ns=EPOCH_NS + 9,
                attributes={"n": 5})  # fmt: skip
    with (
        forwarding_service(store, tmp_path / "log", receiver.url) as (service, _),
        OtlpExport(endpoint=f"{service.url}/v1/traces") as export,
    ):
        export.export(tracer.take())
        receiver.wait_for(1)
        state = httpx.get(f"{service.url}/v1/forward", trust_env=False, timeout=60).json()
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


def test_a_span_without_a_correction_says_so(receiver: Receiver, feed: Feed):
    """Unknown is a status with a reason, and no number."""
    with Forwarder(receiver.url, table, feed.spool):
        feed.offer(request("h9"))
        receiver.wait_for(1)
    found = values(receiver.spans()[0][1])
    assert found["tempotrace.time.status"] == "unknown"
    assert "h9" in found["tempotrace.time.reason"]
    assert not [key for key in found if "corrected" in key or "bound" in key]


def test_what_another_service_added_is_replaced(receiver: Receiver, feed: Feed):
    """Two services in a row, or one span twice, never leave two values of one attribute."""
    with Forwarder(receiver.url, table, feed.spool):
        feed.offer(request(**{"tempotrace.time.status": "unknown", "kept": "x"}))
        receiver.wait_for(1)
    pairs = [pair.key for pair in receiver.spans()[0][1].attributes]
    assert len(pairs) == len(set(pairs))
    assert values(receiver.spans()[0][1])["tempotrace.time.status"] == "synchronised"
    assert "kept" in pairs


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_receiver_that_asks_for_patience_gets_the_request_again(
    receiver: Receiver, feed: Feed, status
):
    """The same bytes, in the same order, until they are taken."""
    receiver.answers = [(status, {"retry-after": "0"}, b"")] * 2 + [(200, {}, b"")]
    with Forwarder(receiver.url, table, feed.spool) as forward:
        feed.offer(request(number=1))
        feed.offer(request(number=2))
        receiver.wait_for(4)
    numbers = [int.from_bytes(span.span_id, "big") for _, span in receiver.spans()]
    assert numbers == [1, 1, 1, 2]
    assert forward.counters.request_count == 2
    assert forward.counters.repetition_count == 2


def test_a_receiver_that_comes_late_gets_everything(
    receiver: Receiver, feed: Feed, monkeypatch: pytest.MonkeyPatch
):
    """No connection at first: the request waits and arrives when the receiver listens."""
    monkeypatch.setattr(forward_module, "wait_s", lambda *_: 0.01)
    closed = Receiver()
    closed.close()
    forward = Forwarder(closed.url, table, feed.spool)
    with forward:
        feed.offer(request())
        pause = threading.Event()
        while not forward.counters.repetition_count:
            pause.wait(0.01)
        forward._endpoint = f"{receiver.url}/v1/traces"
        receiver.wait_for(1)
    assert len(receiver.spans()) == 1


def test_a_request_that_is_refused_for_good_does_not_block_others(receiver: Receiver, feed: Feed):
    """400 means that repeating is useless: it is counted, and the next one goes."""
    receiver.answers = [(400, {}, b"no"), (200, {}, b"")]
    with Forwarder(receiver.url, table, feed.spool) as forward:
        feed.offer(request(number=1))
        feed.offer(request(number=2))
        receiver.wait_for(2)
    assert forward.counters.refused_request_count == 1
    assert forward.counters.request_count == 1
    assert "400 no" in forward.counters.last_error


def test_partial_success_of_the_receiver_is_counted(receiver: Receiver, feed: Feed):
    """Spans that it rejected are not repeated (OTLP, Partial Success)."""
    partial = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=1)
    )
    receiver.answers = [(200, {}, partial.SerializeToString())]
    with Forwarder(receiver.url, table, feed.spool) as forward:
        feed.offer(request())
        receiver.wait_for(1)
    assert forward.counters.rejected_span_count == 1
    assert forward.counters.span_count == 0


def test_senders_wait_where_the_policy_says_so(store: Store, receiver: Receiver, tmp_path: Path):
    """refuse-new: 503 with Retry-After while the disk's share is used, and the SDK repeats it."""
    receiver.answers = [(503, {"retry-after": "0"}, b"")]
    tracer = HostTracer(host="h1", tenant="alpha", clock_domain="h1", seed=1)
    tracer.span("step", start_local_ns=EPOCH_NS, end_local_ns=EPOCH_NS + 9)
    options = {"bytes_max": 1, "policy": FullPolicy.REFUSE_NEW}
    with (
        forwarding_service(store, tmp_path / "log", receiver.url, **options) as (service, forward),
        httpx.Client(trust_env=False, headers=PROTOBUF, timeout=60) as client,
        OtlpExport(endpoint=f"{service.url}/v1/traces") as export,
    ):
        post = f"{service.url}/v1/traces"
        assert client.post(post, content=request(number=1)).status_code == 200
        receiver.wait_for(1)
        answer = client.post(post, content=request(number=2))
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        receiver.answers = [(200, {}, b"")]
        export.export(tracer.take())
    tracer.shutdown()
    assert store.spans.count() == 2
    assert forward.spool.counters.full_count >= 1
    assert forward.spool.is_empty


def test_beyond_the_disks_share_the_oldest_copies_go(receiver: Receiver, tmp_path: Path):
    """drop-oldest: counted in requests and spans; what is newer is delivered."""
    feed = Feed(tmp_path / "log", bytes_max=1)
    feed.offer(request(number=1), request(number=2))
    feed.offer(request(number=3))
    counters = feed.spool.counters
    assert (counters.dropped_request_count, counters.dropped_span_count) == (2, 2)
    with Forwarder(receiver.url, table, feed.spool):
        receiver.wait_for(1)
    feed.close()
    assert [span.span_id[-1] for _, span in receiver.spans()] == [3]


def test_a_segment_that_is_dropped_while_it_is_sent_ends_quietly(tmp_path: Path):
    """Its answer comes late and moves nothing: the next segment's turn has come."""
    feed = Feed(tmp_path / "log", bytes_max=1)
    feed.offer(request(number=1))
    first, _ = feed.spool.due()
    assert first is not None
    feed.offer(request(number=2))
    feed.spool.done(first)
    second, _ = feed.spool.due()
    assert second is not None
    assert second.body == request(number=2)
    feed.close()
    feed.spool.close()


def test_held_requests_go_when_the_service_ends(receiver: Receiver, tmp_path: Path):
    """Requests that are held for corrections do not wait longer than the service lives."""
    feed = Feed(tmp_path / "log", hold_s=3600)
    with Forwarder(receiver.url, table, feed.spool):
        feed.offer(request(number=1), request(number=2))
        assert receiver.requests == []
    feed.close()
    assert len(receiver.requests) == 2


def test_what_cannot_be_sent_before_the_end_goes_at_the_next_start(
    receiver: Receiver, tmp_path: Path
):
    """Delivered requests are not repeated, and those behind them are there, in order."""
    feed = Feed(tmp_path / "log")
    feed.offer(*(request(number=n) for n in (1, 2, 3)))
    receiver.answers = [(200, {}, b""), (503, {"retry-after": "30"}, b"")]
    forward = Forwarder(receiver.url, table, feed.spool)
    forward.start()
    receiver.wait_for(2)
    forward.stop(drain_s=0)
    receiver.requests.clear()
    receiver.answers = [(200, {}, b"")]
    with Forwarder(receiver.url, table, ForwardSpool(tmp_path / "log", now_ns=lambda: NOW_NS)):
        receiver.wait_for(2)
    feed.close()
    assert [span.span_id[-1] for _, span in receiver.spans()] == [2, 3]


def test_a_position_that_cannot_be_read_repeats_and_loses_nothing(tmp_path: Path):
    """After a power failure the file may hold anything: the segment starts again."""
    feed = Feed(tmp_path / "log")
    feed.offer(request(number=1), request(number=2))
    first, _ = feed.spool.due()
    assert first is not None
    feed.spool.done(first)
    feed.spool.close()
    feed.close()
    path = tmp_path / "log" / "forward" / "position"
    for damaged in (b"", path.read_bytes()[:7], bytes(20), b"\xff" * 20):
        path.write_bytes(damaged)
        spool = ForwardSpool(tmp_path / "log", now_ns=lambda: NOW_NS)
        again, _ = spool.due()
        assert again is not None
        assert again.body == request(number=1)
        spool.close()


def test_a_segment_that_the_store_does_not_have_yet_is_passed_on_once(tmp_path: Path):
    """The log keeps it for the store; neither a repetition nor a restart hands it over again."""
    log = WriteAheadLog(tmp_path, now_ns=itertools.count(NOW_NS, 1000).__next__)
    log.append([LogRecord(request(), "default", NOW_NS)], segment_bytes_max=2**40)
    (segment,) = log.seal()
    for _ in range(2):
        spool = ForwardSpool(tmp_path, now_ns=lambda: NOW_NS)
        for _ in range(2):
            spool.hand_over(segment)
            waiting, _ = spool.due()
            if waiting is not None:
                spool.done(waiting)
                delivered = waiting.body
        spool.close()
    assert delivered == request()
    assert list((tmp_path / "forward").glob("*.wal")) == []
    log.remove(segment)
    spool = ForwardSpool(tmp_path, now_ns=lambda: NOW_NS)
    assert list((tmp_path / "forward").glob("*.done")) == []
    spool.close()
    log.close()


def test_requests_wait_for_late_corrections(tmp_path: Path):
    """With a hold, a request's turn comes that much later; a clock set back adds nothing."""
    feed = Feed(tmp_path / "log", hold_s=5)
    spool = feed.spool
    assert spool.due() == (None, None)
    feed.offer(b"a", b"b")
    times = iter([NOW_NS + 3 * 10**9, NOW_NS - 10**12, NOW_NS + 5 * 10**9])
    spool._now_ns = lambda: next(times)
    assert spool.due() == (None, 2)
    assert spool.due() == (None, 5)
    waiting, _ = spool.due()
    assert waiting is not None
    assert waiting.body == b"a"
    spool.close()
    feed.close()


def test_one_service_passes_on_what_is_in_a_folder(tmp_path: Path):
    """A second one is refused before it sends anything."""
    spool = ForwardSpool(tmp_path)
    with pytest.raises(LogError, match="another process"):
        ForwardSpool(tmp_path)
    spool.close()


@pytest.mark.parametrize("url", ["tempo:4318", "ftp://x", "http://", ""])
def test_an_address_that_is_none_is_refused(url):
    """Before anything starts."""
    with pytest.raises(ValueError, match="expected http"):
        endpoint(url)
