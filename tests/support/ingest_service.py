# SPDX-License-Identifier: Apache-2.0
"""The tracing service in a process of its own, to be killed.

`python -m tests.support.ingest_service FOLDER OPTIONS` prints its ports as one JSON line and runs
until standard input ends. OPTIONS are the fields of `ServiceOptions` as JSON.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

from tempotrace.forwarding import forwarder
from tempotrace.receivers import receivers
from tempotrace.service import start_service
from tests.support.death_points import Death, die_within, install
from tests.support.power_failure import DiskJournal
from tracing_core.store import Store

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """How the process differs from a plain service."""

    death: Death | None = None
    """Where it kills itself."""
    lifetime_s: float | None = None
    """Time after which it kills itself, wherever it is, its start included."""
    forward: str | None = None
    """The receiver that it passes spans on to."""
    retention_days: int | None = None
    clock_behind_s: int = 0
    """Its clock, against ours."""


@dataclass(frozen=True, slots=True)
class IngestProcess:
    """A running service."""

    process: subprocess.Popen[str]
    url: str
    """Of the API."""
    http: str
    """Of OTLP/HTTP."""
    grpc: str
    """Of OTLP/gRPC, HOST:PORT."""


@contextmanager
def ingest_process(folder: Path, options: ServiceOptions | None = None) -> Iterator[IngestProcess]:
    """Starts the service on the store in `folder`; kills it if it still runs at the end.

    A process that dies before it serves has no ports: `url` is empty then.
    """
    folder.mkdir(exist_ok=True)
    with (folder / "service.log").open("a") as log:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "tests.support.ingest_service", str(folder),
                json.dumps(asdict(options or ServiceOptions())),
            ],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        line = process.stdout.readline()
        places = json.loads(line) if line else {"url": "", "http": "", "grpc": ""}
        yield IngestProcess(process=process, **places)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stdin.close()


def stop(service: IngestProcess) -> None:
    """Ends the service in order: everything that was taken is inserted."""
    assert service.process.stdin is not None
    service.process.stdin.close()
    assert service.process.wait(timeout=120) == 0


def main() -> None:
    """Serves until standard input ends."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    folder = Path(sys.argv[1])
    given = json.loads(sys.argv[2])
    death = given.pop("death")
    options = ServiceOptions(death=Death(**death) if death else None, **given)
    DiskJournal(folder / "journal")
    if options.death is not None:
        install(options.death)
    if options.lifetime_s is not None:
        die_within(options.lifetime_s)
    if options.clock_behind_s:
        ours = time.time_ns
        time.time_ns = lambda: ours() - options.clock_behind_s * 10**9
    with Store.open(folder / "store") as store:
        store.spans.set_retention(options.retention_days)
        with (
            forwarder(options.forward, store, folder / "log") as forward,
            receivers(
                store, folder / "log", "127.0.0.1", grpc_port=0, http_port=0, forward=forward
            ) as receiving,
            start_service(
                store, "127.0.0.1", 0, ingest=receiving.ingest, forward=forward
            ) as service,
        ):
            grpc, http = (place.split()[-1] for place in receiving.places)
            print(json.dumps({"url": service.url, "http": http, "grpc": grpc}), flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main()
