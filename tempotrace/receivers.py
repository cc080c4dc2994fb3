# SPDX-License-Identifier: Apache-2.0
"""OTLP ingest of a running service: its write-ahead log and the two standard ports."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tempotrace.errors import InputError
from tracing_core.ingest import LogKeeper, WriteAheadLog
from tracing_core.ingest.log import LogError
from tracing_core.ingest.warm import keep_freed_memory, warm_up
from tracing_core.service import OtlpServer, make_ingest
from tracing_core.service.forward import Forwarder
from tracing_core.service.gate import Gate
from tracing_core.service.ingest import Ingest
from tracing_core.service.otlp_grpc import GrpcHandle
from tracing_core.store import Store

OTLP_GRPC_PORT = 4317
OTLP_HTTP_PORT = 4318
LOG_FOLDER = "ingest-log"
"""Inside the folder of an embedded store."""


@dataclass(frozen=True, slots=True)
class Receivers:
    """What takes spans, and where."""

    ingest: Ingest
    keeper: LogKeeper
    places: list[str]
    """One line for each port that is open, or that could not be opened."""


@contextmanager
def receivers(
    store: Store,
    log_folder: Path,
    host: str,
    *,
    grpc_port: int | None,
    http_port: int | None,
    forward: Forwarder | None = None,
    gate: Gate | None = None,
) -> Iterator[Receivers]:
    """Takes spans until the end of the block; then what was taken is inserted.

    A port of None is the standard one, if it is free: only a port that was asked for must be.
    """
    keep_freed_memory()
    warm_up()
    try:
        log = WriteAheadLog(log_folder, now_ns=time.time_ns)
    except (LogError, OSError) as error:
        raise InputError(f"{log_folder}: {error}") from None
    with ExitStack() as stack:
        keeper = LogKeeper(
            log, store.spans, hand_over=None if forward is None else forward.spool.hand_over
        )
        stack.callback(keeper.close)
        ingest = make_ingest(store, keeper=keeper, forward=forward, gate=gate)
        places = [
            _open_grpc(stack, ingest, host, grpc_port),
            _open_http(stack, ingest, host, http_port),
        ]
        yield Receivers(ingest, keeper, places)


def _open_grpc(stack: ExitStack, ingest: Ingest, host: str, port: int | None) -> str:
    try:
        handle = GrpcHandle(ingest, host, OTLP_GRPC_PORT if port is None else port)
    except OSError:
        return _taken("OTLP/gRPC", host, OTLP_GRPC_PORT, port, "--otlp-grpc-port")
    stack.callback(handle.stop)
    return f"OTLP/gRPC {handle.target}"


def _open_http(stack: ExitStack, ingest: Ingest, host: str, port: int | None) -> str:
    try:
        handle = OtlpServer(ingest, host, OTLP_HTTP_PORT if port is None else port)
    except OSError:
        return _taken("OTLP/HTTP", host, OTLP_HTTP_PORT, port, "--otlp-http-port")
    stack.callback(handle.stop)
    return f"OTLP/HTTP {handle.url}/v1/traces"


def _taken(name: str, host: str, standard: int, port: int | None, option: str) -> str:
    if port is not None:
        raise InputError(f"cannot listen on {host}:{port} for {name}; {option} picks another")
    return f"{name}: port {standard} is taken; {option} picks another"
