# SPDX-License-Identifier: Apache-2.0
"""Kills the tracing service at random points under load and asks what it still has.

Senders count a request as acknowledged when its answer says so. After each kill the service
starts again on the same folder; at the end every acknowledged span must be there once, and
requests without an answer are sent again, as an SDK does.
"""

import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.ingest_service import ingest_process, stop
from tracing_core.store import Store

SPANS_PER_REQUEST = 40
SENDERS = 3
TRACES_READ = 50
"""Traces that are read at the end as a user reads them; all are counted."""
PROTOBUF = {"content-type": "application/x-protobuf"}


@dataclass(slots=True)
class Outcome:
    """What the senders know, and what the store has at the end."""

    kills: int = 0
    acknowledged: set[int] = field(default_factory=set)
    """Requests that were answered with success."""
    unanswered: int = 0
    """Requests whose answer never came, and that were sent again."""
    lost: int = 0
    """Acknowledged spans that are not in the store."""
    doubled: int = 0
    """Spans that a reader gets twice, or rows beyond one for a span that was sent once."""
    spans: int = 0


def request(number: int) -> bytes:
    """Request `number`: a trace of its own, so that each span is told by its ids."""
    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    attribute = resource.resource.attributes.add(key="tempotrace.tenant")
    attribute.value.string_value = "alpha"
    spans = resource.scope_spans.add().spans
    for i in range(SPANS_PER_REQUEST):
        spans.add(
            trace_id=(number + 1).to_bytes(16, "big"),
            span_id=(i + 1).to_bytes(8, "big"),
            name="step",
            start_time_unix_nano=1_800_000_000_000_000_000 + number,
            end_time_unix_nano=1_800_000_000_000_000_000 + number + i,
        )
    return message.SerializeToString()


class _Senders:
    """Threads that send one request after the other until the service is gone."""

    def __init__(self, url: str, outcome: Outcome, numbers: Callable[[], int]) -> None:
        self._url = url
        self._outcome = outcome
        self._numbers = numbers
        self._lock = threading.Lock()
        self.unanswered: list[int] = []
        self.first_answer = threading.Event()
        self._threads = [threading.Thread(target=self._send) for _ in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        with httpx.Client(trust_env=False, timeout=30) as client:
            while True:
                number = self._numbers()
                try:
                    response = client.post(
                        f"{self._url}/v1/traces", content=request(number), headers=PROTOBUF
                    )
                except httpx.HTTPError:
                    with self._lock:
                        self.unanswered.append(number)
                    return
                with self._lock:
                    if response.status_code == 200:
                        self._outcome.acknowledged.add(number)
                    else:
                        self.unanswered.append(number)
                self.first_answer.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


def kill_repeatedly(folder: Path, kills: int, *, seed: int, delay_s_max: float = 1.5) -> Outcome:
    """Runs the service, kills it `kills` times under load, ends it in order and counts."""
    rng = random.Random(seed)
    outcome = Outcome()
    lock = threading.Lock()
    counter = iter(range(10**9))

    def next_number() -> int:
        with lock:
            return next(counter)

    again: list[int] = []
    for _ in range(kills):
        with ingest_process(folder) as service:
            _repeat(service.url, again, outcome)
            senders = _Senders(service.url, outcome, next_number)
            senders.first_answer.wait(30)
            threading.Event().wait(rng.random() * delay_s_max)
            service.process.send_signal(signal.SIGKILL)
            service.process.wait()
            senders.join()
        outcome.kills += 1
        again = senders.unanswered
        outcome.unanswered += len(again)
    with ingest_process(folder) as service:
        _repeat(service.url, again, outcome)
        stop(service)
    _count(folder, outcome)
    return outcome


def _repeat(url: str, numbers: list[int], outcome: Outcome) -> None:
    """Sends again what had no answer, as an SDK does."""
    with httpx.Client(trust_env=False, timeout=30) as client:
        for number in numbers:
            response = client.post(f"{url}/v1/traces", content=request(number), headers=PROTOBUF)
            assert response.status_code == 200, response.text
            outcome.acknowledged.add(number)


def _count(folder: Path, outcome: Outcome) -> None:
    with Store.open(folder / "store") as store:
        found = {
            int(row[0], 16) - 1: (row[1], row[2])
            for row in store.engine.rows(
                "SELECT hex(trace_id), uniqExact(span_id, kind), count() FROM span_rows"
                " GROUP BY trace_id"
            )
        }
        for number in outcome.acknowledged:
            outcome.lost += SPANS_PER_REQUEST - found.get(number, (0, 0))[0]
        for number in sorted(found)[:: max(1, len(found) // TRACES_READ)]:
            spans = store.spans.trace(f"{number + 1:032x}")
            outcome.doubled += len(spans) - len({span.span_id for span in spans})
        outcome.spans = store.spans.count()
