# SPDX-License-Identifier: Apache-2.0
"""OTLP/gRPC: TraceService/Export, on a thread and an event loop of its own.

The handler is generic and takes the request's bytes: nothing is generated, and a body is checked
and logged as it came.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from tracing_core import otlp
from tracing_core.access import Need, Refusal, RefusalKind
from tracing_core.access.routes import OTLP_GRPC_EXPORT
from tracing_core.ingest import BusyError
from tracing_core.service.ingest import Ingest
from tracing_core.service.run import netloc

EXPORT_METHOD = OTLP_GRPC_EXPORT
STATUS_DETAILS = "grpc-status-details-bin"
"""Metadata that carries the google.rpc.Status of a refusal, RetryInfo included."""
SHUTDOWN_S = 2.0
STREAMS_MAX = 128
"""Requests at a time on one connection; others wait at the client."""
KEEPALIVE_MS = 60_000
"""A connection whose other end does not answer is closed after this and 20 s."""
PING_INTERVAL_MS_MIN = 10_000
"""Clients may ask more often than gRPC's 5 minutes whether we are still here."""
START_S = 30.0


if TYPE_CHECKING:  # only the stubs have type arguments
    _Context = grpc.aio.ServicerContext[bytes, bytes]
    _GenericHandler = grpc.GenericRpcHandler[bytes, bytes]
    _MethodHandler = grpc.RpcMethodHandler[bytes, bytes]
else:
    _Context = grpc.aio.ServicerContext
    _GenericHandler = grpc.GenericRpcHandler
    _MethodHandler = grpc.RpcMethodHandler


class GrpcAddressError(OSError):
    """The address cannot be bound."""


class GrpcHandle:
    """A running OTLP/gRPC server."""

    def __init__(self, ingest: Ingest, host: str, port: int) -> None:
        self._ingest = ingest
        self.host = host
        self.port = port
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="otlp-grpc", daemon=True
        )
        self._thread.start()
        if not self._started.wait(START_S):
            raise RuntimeError("the OTLP/gRPC server did not start")
        self._check_started()

    def _check_started(self) -> None:
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    @property
    def target(self) -> str:
        """What a client connects to."""
        return netloc(self.host, self.port)

    def stop(self) -> None:
        """Finishes open requests and ends the thread; may be called twice."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def __enter__(self) -> "GrpcHandle":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", self._ingest.limit_bytes),
                ("grpc.so_reuseport", 0),
                ("grpc.max_concurrent_streams", STREAMS_MAX),
                ("grpc.keepalive_time_ms", KEEPALIVE_MS),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", PING_INTERVAL_MS_MIN),
            ],
        )
        server.add_generic_rpc_handlers((Handler(self._ingest),))
        try:
            self.port = server.add_insecure_port(self.target)
            await server.start()
        except RuntimeError as error:
            self._failure = GrpcAddressError(str(error))
            self._started.set()
            return
        self._started.set()
        await self._stop.wait()
        await server.stop(SHUTDOWN_S)


class Handler(_GenericHandler):
    """Every method that the server has."""

    def __init__(self, ingest: Ingest) -> None:
        self.methods = {EXPORT_METHOD: grpc.unary_unary_rpc_method_handler(_exporter(ingest))}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> _MethodHandler | None:
        """The method; one that there is not is answered with UNIMPLEMENTED."""
        return self.methods.get(str(handler_call_details.method))


_DENIED = {
    RefusalKind.NO_TOKEN: grpc.StatusCode.UNAUTHENTICATED,
    RefusalKind.BAD_TOKEN: grpc.StatusCode.UNAUTHENTICATED,
    RefusalKind.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    RefusalKind.NOT_NOW: grpc.StatusCode.UNAVAILABLE,
}


def _authorization(context: _Context) -> str:
    found = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
    return str(found[0]) if len(found) == 1 else ""


def _exporter(ingest: Ingest) -> Callable[[bytes, _Context], Awaitable[bytes]]:
    async def export(body: bytes, context: _Context) -> bytes:
        sender = ingest.gate.decide(_authorization(context), Need.INGEST)
        if isinstance(sender, Refusal):
            await context.abort(_DENIED[sender.kind], sender.message)
        try:
            with ingest.room(len(body)):
                rejections = await ingest.take(
                    body, otlp.CONTENT_TYPE_PROTOBUF, tenant=sender.tenant
                )
        except otlp.RequestDecodeError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except BusyError as error:
            details = otlp.encode_status(
                otlp.StatusCode.UNAVAILABLE, str(error), retry_after_s=error.retry_after_s
            )
            context.set_trailing_metadata(((STATUS_DETAILS, details),))
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        return otlp.encode_response(rejections, otlp.CONTENT_TYPE_PROTOBUF)

    return export
