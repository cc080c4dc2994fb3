# SPDX-License-Identifier: Apache-2.0
"""Sends load from a process of its own, so that its time is not the service's.

`python -m tracing_core.ingest.load_sender URL REQUESTS SEED START_NS SPANS_PER_S` makes what it
can in advance, prints "ready", waits for a line, sends, and prints what was answered as JSON.
"""

import http.client
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

import numpy as np

from tracing_core.ingest.load import SPANS_PER_REQUEST, Load

CONNECTIONS = 16
"""Senders that each wait for their answer."""
MADE_IN_ADVANCE = 1000
"""About 120 MB."""
RETRY_S = 0.2


@dataclass(slots=True)
class Sent:
    """What the service answered."""

    requests: int = 0
    repetitions: int = 0
    failed: int = 0
    wall_s: float = 0.0


def main() -> None:
    """Sends what the command line says."""
    url, count, seed, start_ns, rate = sys.argv[1:6]
    load = Load(np.random.default_rng(int(seed)), start_ns=int(start_ns))
    bodies: queue.Queue[bytes | None] = queue.Queue(MADE_IN_ADVANCE)
    maker = threading.Thread(target=_make, args=(load, int(count), bodies), daemon=True)
    maker.start()
    while maker.is_alive() and not bodies.full():
        maker.join(0.05)
    print("ready", flush=True)
    sys.stdin.readline()
    sent = Sent()
    lock = threading.Lock()
    begin_s = time.monotonic()
    threads = [
        threading.Thread(target=_send, args=(url, bodies, float(rate), begin_s, sent, lock))
        for _ in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sent.wall_s = time.monotonic() - begin_s
    print(json.dumps(asdict(sent)), flush=True)


def _make(load: Load, count: int, bodies: "queue.Queue[bytes | None]") -> None:
    for body in load.requests(count):
        bodies.put(body)
    for _ in range(CONNECTIONS):
        bodies.put(None)


def _send(
    url: str,
    bodies: "queue.Queue[bytes | None]",
    rate: float,
    begin_s: float,
    sent: Sent,
    lock: threading.Lock,
) -> None:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
    while (body := bodies.get()) is not None:
        if rate:
            with lock:
                due_s = begin_s + (sent.requests + sent.failed) * SPANS_PER_REQUEST / rate
            time.sleep(max(0.0, due_s - time.monotonic()))
        try:
            while (status := _post(connection, parts.path, body)) in (429, 503):
                with lock:
                    sent.repetitions += 1
                time.sleep(RETRY_S)
        except (OSError, http.client.HTTPException):
            return  # the service has ended
        with lock:
            if status == HTTPStatus.OK:
                sent.requests += 1
            else:
                sent.failed += 1
    connection.close()


def _post(connection: http.client.HTTPConnection, path: str, body: bytes) -> int:
    connection.request("POST", path, body, {"content-type": "application/x-protobuf"})
    response = connection.getresponse()
    response.read()
    return response.status


class Sender:
    """The process, ready to send."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def go(self) -> None:
        """Lets it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def wait(self) -> Sent:
        """Until everything was answered."""
        assert self._process.stdout is not None
        return Sent(**json.loads(self._process.stdout.readline()))


@contextmanager
def sender(
    url: str, requests: int, *, seed: int, start_ns: int, spans_per_s: float = 0.0
) -> Iterator[Sender]:
    """A sending process that waits for `go`; without a rate it sends as fast as it can."""
    process = subprocess.Popen(
        [
            sys.executable, "-m", "tracing_core.ingest.load_sender", url, str(requests),
            str(seed), str(start_ns), str(spans_per_s),
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("the sending process did not start")
        yield Sender(process)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


if __name__ == "__main__":
    main()
