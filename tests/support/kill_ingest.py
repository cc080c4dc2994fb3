# SPDX-License-Identifier: Apache-2.0
"""Kills the tracing service under load, again and again, and asks what it still has.

Senders count a request as acknowledged when its answer says so. After each kill the service
starts again on the same folder, after some of them on a disk that has lost what was not synced; at
the end every acknowledged span must be there once, and the receiver that spans are passed on to
must have got it, too. Requests without an answer are sent again, as an SDK does.
"""

import random
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import grpc
import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.death_points import FORWARD_POINTS, POINTS, Death
from tests.support.forward_receiver import UnsteadyReceiver
from tests.support.ingest_service import IngestProcess, ServiceOptions, ingest_process, stop
from tests.support.power_failure import fail_power
from tracing_core.service.otlp_grpc import EXPORT_METHOD
from tracing_core.store import Store
from tracing_core.store.engine import Engine
from tracing_core.store.schema import SPANS

SPANS_PER_REQUEST = 40
TRACES_READ = 50
"""Traces that are read at the end as a user reads them; all are counted."""
OLD_REQUESTS = 500
"""In the table of schema version 1 that the first start migrates."""
EXPIRED = 10**9
"""Numbers from here on are of requests that came long ago, and that retention may drop."""
DAY_S = 86_400
DIES_WITHIN_S = 20
"""A process that does not come to its point in that time is killed from outside."""
PROTOBUF = {"content-type": "application/x-protobuf"}


@dataclass(slots=True)
class Outcome:
    """What the senders know, and what the store and the receiver have at the end."""

    kills: dict[str, int] = field(default_factory=dict)
    """By where the process was when it was killed."""
    power_failures: int = 0
    acknowledged: set[int] = field(default_factory=set)
    """Requests that were answered with success."""
    resent: set[int] = field(default_factory=set)
    """Requests whose answer never came, and that were sent again."""
    lost: int = 0
    """Acknowledged spans that are not in the store."""
    doubled: int = 0
    """Spans that a reader gets twice, or rows beyond one for a span that was sent once."""
    spans: int = 0
    not_forwarded: int = 0
    """Acknowledged spans that the receiver never got."""
    forwarded_again: int = 0
    """Requests that the receiver got more than once: it is told so."""

    @property
    def kill_count(self) -> int:
        """All kills."""
        return sum(self.kills.values())


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

    def __init__(
        self, service: IngestProcess, outcome: Outcome, numbers: Callable[[], int]
    ) -> None:
        self._outcome = outcome
        self._numbers = numbers
        self._lock = threading.Lock()
        self._ending = False
        self.unanswered: list[int] = []
        self.first_answer = threading.Event()
        self._threads = [
            threading.Thread(target=self._send_http, args=(f"{service.url}/v1/traces",)),
            threading.Thread(target=self._send_http, args=(service.http,)),
            threading.Thread(target=self._send_grpc, args=(service.grpc,)),
        ]
        for thread in self._threads:
            thread.start()

    def _send_http(self, url: str) -> None:
        with httpx.Client(trust_env=False, timeout=30) as client:

            def post(body: bytes) -> bool:
                return client.post(url, content=body, headers=PROTOBUF).status_code == 200

            self._send(post, httpx.HTTPError)

    def _send_grpc(self, target: str) -> None:
        with grpc.insecure_channel(target) as channel:
            export = channel.unary_unary(EXPORT_METHOD)

            def call(body: bytes) -> bool:
                export(body, timeout=30)
                return True

            self._send(call, grpc.RpcError)

    def _send(self, send: Callable[[bytes], bool], gone: type[Exception]) -> None:
        while not self._ending:
            number = self._numbers()
            try:
                is_taken = send(request(number))
            except gone:
                with self._lock:
                    self.unanswered.append(number)
                return
            with self._lock:
                (self._outcome.acknowledged.add if is_taken else self.unanswered.append)(number)
            self.first_answer.set()

    def end(self) -> None:
        """Lets each finish its request."""
        self._ending = True
        self.join()

    def join(self) -> None:
        """Until all have ended, since the service has."""
        for thread in self._threads:
            thread.join()


class Killer:
    """One folder, one outcome, kill after kill."""

    def __init__(self, folder: Path, seed: int, *, receiver: UnsteadyReceiver) -> None:
        self.outcome = Outcome()
        self._folder = folder
        self._rng = random.Random(seed)
        self._receiver = receiver
        self._options = ServiceOptions(forward=receiver.url)
        self._unanswered: list[int] = []
        self._lock = threading.Lock()
        self._count = OLD_REQUESTS

    def under_load(self) -> None:
        """At any moment of taking and storing requests."""
        with self._running() as service:
            senders = self._senders(service)
            senders.first_answer.wait(30)
            threading.Event().wait(self._rng.random() * 1.5)
            self._kill(service, "under load")
            senders.join()
        self._unanswered += senders.unanswered

    def at_point(self, point: str) -> None:
        """At a point that the process comes to by itself, under load."""
        count = self._rng.randint(1, 40 if point.endswith((" sync", " write")) else 3)
        death = Death(point, count, self._rng.random() * 0.03)
        with self._running(death=death) as service:
            if service.url:
                senders = self._senders(service)
                try:
                    service.process.wait(DIES_WITHIN_S)
                except subprocess.TimeoutExpired:
                    service.process.send_signal(signal.SIGKILL)
                senders.join()
                self._unanswered += senders.unanswered
            self._kill(service, point)

    def in_recovery(self) -> None:
        """While it starts on what another kill has left, up to its first inserts."""
        self.at_point("before insert")
        death = Death("block ...", self._rng.randint(1, 2), self._rng.random() * 0.05)
        with ingest_process(self._folder, replace(self._options, death=death)) as service:
            service.process.wait(DIES_WITHIN_S)
            self._kill(service, "in recovery")

    def in_start(self) -> None:
        """At any moment of its start."""
        lifetime_s = self._rng.random() * 4
        with ingest_process(self._folder, replace(self._options, lifetime_s=lifetime_s)) as service:
            service.process.wait()
            self._kill(service, "in start")

    def in_migration(self) -> None:
        """At a statement while the tables of version 1 are brought to today's schema."""
        if not (self._folder / "store").exists():
            self._make_old_store()
        death = Death(f"{self._rng.choice(('before', 'after'))} statement",
                      self._rng.randint(1, 10))  # fmt: skip
        options = replace(self._options, death=death, lifetime_s=8.0)
        with ingest_process(self._folder, options) as service:
            service.process.wait()
            self._kill(service, "in migration")

    def in_partition_drop(self) -> None:
        """While retention drops a day of spans that came long ago."""
        with self._running(clock_behind_s=40 * DAY_S) as service:
            expired = range(EXPIRED + self.outcome.kill_count * 10, EXPIRED + 10**9)[:3]
            self._post(service, expired)
            stop(service)
        with self._running(retention_days=1, lifetime_s=60.0) as service:
            senders = self._senders(service)
            threading.Event().wait(self._rng.random())
            self._kill(service, "in partition drop")
            senders.join()
        self._unanswered += senders.unanswered

    def fail_power(self) -> None:
        """The disk loses what was not synced before the last kill."""
        fail_power(self._folder / "log", self._folder / "journal", self._rng)
        self.outcome.power_failures += 1

    def finish(self) -> Outcome:
        """Sends again what had no answer, ends the service in order, and counts."""
        self._receiver.is_steady = True
        with self._running() as service:
            _until_passed_on(service)
            stop(service)
        self._count_stored()
        self.outcome.not_forwarded = sum(
            SPANS_PER_REQUEST - self._receiver.spans.get(number, 0)
            for number in self.outcome.acknowledged
            if number >= OLD_REQUESTS  # the others never came as requests
        )
        self.outcome.forwarded_again = self._receiver.repeated
        return self.outcome

    @contextmanager
    def _running(self, **changed: object) -> Iterator[IngestProcess]:
        """The service, once it has got what had no answer before."""
        options = replace(self._options, **changed)  # type: ignore[arg-type]
        with ingest_process(self._folder, options) as service:
            if service.url:
                again, self._unanswered = self._unanswered, []
                left = self._post(service, again)
                self._unanswered += left
            yield service

    def _senders(self, service: IngestProcess) -> _Senders:
        return _Senders(service, self.outcome, self._number)

    def _number(self) -> int:
        with self._lock:
            self._count += 1
            return self._count

    def _post(self, service: IngestProcess, numbers: "list[int] | range") -> list[int]:
        """Sends these; those that a death left without an answer."""
        left: list[int] = []
        with httpx.Client(trust_env=False, timeout=30) as client:
            for number in numbers:
                self.outcome.resent.add(number)
                try:
                    answer = client.post(service.http, content=request(number), headers=PROTOBUF)
                except httpx.HTTPError:
                    left.append(number)
                    continue
                assert answer.status_code == 200, answer.text
                self.outcome.acknowledged.add(number)
        return left

    def _kill(self, service: IngestProcess, where: str) -> None:
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
        self.outcome.kills[where] = self.outcome.kills.get(where, 0) + 1

    def _make_old_store(self) -> None:
        engine = Engine.embedded(self._folder / "store")
        engine.command(SPANS)
        rows = [(number, i) for number in range(OLD_REQUESTS) for i in range(SPANS_PER_REQUEST)]
        size = len(rows)
        engine.insert("spans", {
            "tenant": ["alpha"] * size,
            "trace_id": [(number + 1).to_bytes(16, "big") for number, _ in rows],
            "span_id": [(i + 1).to_bytes(8, "big") for _, i in rows],
            "parent_span_id": [bytes(8)] * size,
            "name": ["step"] * size,
            "kind": [0] * size,
            "start_local_ns": [1_800_000_000_000_000_000 + number for number, _ in rows],
            "end_local_ns": [1_800_000_000_000_000_000 + number + i for number, i in rows],
        })  # fmt: skip
        engine.close()
        numbers = range(OLD_REQUESTS)
        self.outcome.acknowledged.update(numbers)
        self.outcome.resent.update(numbers)  # a carry-over that was cut off begins again

    def _count_stored(self) -> None:
        outcome = self.outcome
        with Store.open(self._folder / "store") as store:
            found = {
                int(row[0], 16) - 1: (row[1], row[2])
                for row in store.engine.rows(
                    "SELECT hex(trace_id), uniqExact(span_id, kind), count() FROM span_rows"
                    " GROUP BY trace_id"
                )
            }
            for number in outcome.acknowledged:
                distinct, rows = found.get(number, (0, 0))
                if number < EXPIRED:
                    outcome.lost += SPANS_PER_REQUEST - distinct
                if number not in outcome.resent:
                    outcome.doubled += rows - distinct
            for number in sorted(found)[:: max(1, len(found) // TRACES_READ)]:
                spans = store.spans.trace(f"{number + 1:032x}")
                outcome.doubled += len(spans) - len({span.span_id for span in spans})
            outcome.spans = store.spans.count()


def _until_passed_on(service: IngestProcess) -> None:
    """Until nothing waits for the receiver any more."""
    pause = threading.Event()
    with httpx.Client(trust_env=False, timeout=30) as client:
        for _ in range(1200):
            client.get(f"{service.url}/v1/traces?limit=1")  # what is on its way is handed over
            if client.get(f"{service.url}/v1/forward").json()["queued_bytes"] == 0:
                return
            pause.wait(0.1)
    raise AssertionError("copies wait for a receiver that takes everything")


@contextmanager
def killer(folder: Path, seed: int) -> Iterator[Killer]:
    """With a receiver that spans are passed on to."""
    receiver = UnsteadyReceiver(seed)
    try:
        yield Killer(folder, seed, receiver=receiver)
    finally:
        receiver.close()


def kill_repeatedly(
    folder: Path, kills: int, *, seed: int, report: Callable[[str], None]
) -> Outcome:
    """Kills the service at least `kills` times; after half of them the power fails, too.

    A tenth of the kills comes in migrations, first; then all other places come in turn, in random
    order.
    """
    rng = random.Random(seed + 1)
    with killer(folder, seed) as one:
        for kill in _plan(one, rng, kills):
            if one.outcome.kill_count >= kills:
                break
            kill()
            if rng.random() < 0.5:
                one.fail_power()
            report(f"{one.outcome.kill_count} kills")
        return one.finish()


def _plan(one: Killer, rng: random.Random, kills: int) -> Iterator[Callable[[], None]]:
    yield from [one.in_migration] * max(1, kills // 10)
    while True:
        others: list[Callable[[], None]] = [
            *(partial(one.at_point, point) for point in (*POINTS, *FORWARD_POINTS)),
            *([one.under_load] * 3), one.in_recovery, one.in_recovery,
            one.in_start, one.in_start, one.in_partition_drop, one.in_partition_drop,
        ]  # fmt: skip
        rng.shuffle(others)
        yield from others
