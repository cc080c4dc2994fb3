# SPDX-License-Identifier: Apache-2.0
"""The tracing service in a process of its own, to be killed.

`python -m tests.support.ingest_service FOLDER` prints its ports as one JSON line and runs until
standard input ends.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tempotrace.receivers import receivers
from tempotrace.service import start_service
from tracing_core.store import Store

ROOT = Path(__file__).parents[2]


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
def ingest_process(folder: Path) -> Iterator[IngestProcess]:
    """Starts the service on the store in `folder`; kills it if it still runs at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.ingest_service", str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        places = json.loads(process.stdout.readline())
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
    assert service.process.wait(timeout=60) == 0


def main() -> None:
    """Serves until standard input ends."""
    folder = Path(sys.argv[1])
    with (
        Store.open(folder / "store") as store,
        receivers(store, folder / "log", "127.0.0.1", grpc_port=0, http_port=0) as receiving,
        start_service(store, "127.0.0.1", 0, ingest=receiving.ingest) as service,
    ):
        grpc, http = (place.split()[-1] for place in receiving.places)
        print(json.dumps({"url": service.url, "http": http, "grpc": grpc}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
