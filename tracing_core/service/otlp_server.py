# SPDX-License-Identifier: Apache-2.0
"""OTLP/HTTP on a port of its own (4318), on a thread and an event loop of its own.

The head of a request goes through httptools, as in uvicorn; a body of known length is received
straight into one buffer. Hundreds of requests of 100 kB come in a second, and a general server
spends more on handing each body on in pieces than checking and logging it takes.
"""

import asyncio
import socket
import threading

from tracing_core.service.ingest import Ingest
from tracing_core.service.otlp_connection import Connection
from tracing_core.service.run import listen, netloc

IDLE_S = 120.0
"""A connection that sends nothing for so long is closed."""
_SWEEP_S = 10.0
_START_S = 30.0
_SHUTDOWN_S = 2.0
"""Time that open requests get when the server ends."""


class OtlpServer:
    """A running OTLP/HTTP server; raises OSError when the address cannot be bound."""

    def __init__(self, ingest: Ingest, host: str = "127.0.0.1", port: int = 0) -> None:
        self._ingest = ingest
        self._listener: socket.socket = listen(host, port)
        self.host, self.port = self._listener.getsockname()[:2]
        self._connections: set[Connection] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="otlp-http", daemon=True
        )
        self._thread.start()
        if not self._started.wait(_START_S):
            raise RuntimeError("the OTLP/HTTP server did not start")

    @property
    def url(self) -> str:
        """Base URL without a trailing slash."""
        return f"http://{netloc(self.host, self.port)}"

    def stop(self) -> None:
        """Finishes open requests and closes the port; may be called twice."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._listener.close()

    def __enter__(self) -> "OtlpServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _serve(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Connection(self._ingest, self._connections), sock=self._listener
        )
        self._started.set()
        while not self._ending.is_set():
            try:
                await asyncio.wait_for(self._ending.wait(), _SWEEP_S)
            except TimeoutError:
                self._sweep(loop.time())
        server.close()
        busy = [task for item in self._connections if (task := item.end()) is not None]
        if busy:
            await asyncio.wait(busy, timeout=_SHUTDOWN_S)
        for connection in list(self._connections):
            connection.abort()

    def _sweep(self, now_s: float) -> None:
        for connection in list(self._connections):
            if connection.is_slow(now_s):
                connection.refuse_slow()
            elif connection.is_idle(now_s - IDLE_S):
                connection.abort()
