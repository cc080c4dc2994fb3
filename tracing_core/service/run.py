# SPDX-License-Identifier: Apache-2.0
"""Runs an application on uvicorn in a thread and takes it down without a trace."""

import asyncio
import logging
import socket
import threading
from typing import Any

import uvicorn
from fastapi import FastAPI

SHUTDOWN_S = 2
"""Time that open connections get to finish when the service stops."""
START_S = 30.0
CONCURRENCY_MAX = 1000
"""Connections and open requests; beyond it 503."""


def _is_news(record: logging.LogRecord) -> bool:
    """False for a request that was cut off because the service ended."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, asyncio.CancelledError)


class _Server(uvicorn.Server):
    """Tells when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serving.set()


class ServiceHandle:
    """A running service."""

    def __init__(self, server: _Server, thread: threading.Thread, listener: socket.socket) -> None:
        self._server = server
        self._thread = thread
        self._listener = listener
        address: tuple[Any, ...] = listener.getsockname()
        self.host: str = address[0]
        self.port: int = address[1]

    @property
    def url(self) -> str:
        """Base URL without a trailing slash."""
        return f"http://{netloc(self.host, self.port)}"

    def stop(self) -> None:
        """Finishes open requests, closes the port and ends the thread; may be called twice."""
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()

    def __enter__(self) -> "ServiceHandle":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, IPv4 or IPv6; raises OSError when the address cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def netloc(host: str, port: int) -> str:
    """Host and port as in a URL.

    >>> netloc("::1", 4318), netloc("h1", 4318)
    ('[::1]:4318', 'h1:4318')
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def serve_in_thread(app: FastAPI, host: str = "127.0.0.1", port: int = 0) -> ServiceHandle:
    """Serves `app`; returns once it accepts connections. Port 0 picks a free one.

    Raises OSError when the address cannot be bound.
    """
    listener = listen(host, port)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=SHUTDOWN_S,
            limit_concurrency=CONCURRENCY_MAX,
        )
    )
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name=f"service:{port}", daemon=True
    )
    thread.start()
    handle = ServiceHandle(server, thread, listener)
    if not server.serving.wait(START_S):
        handle.stop()
        raise RuntimeError("the service did not start")
    return handle
