# SPDX-License-Identifier: Apache-2.0
"""The collector's HTTP endpoint: `/metrics` for Prometheus, `/status` as JSON, `/healthz`."""

import json
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
JSON_TYPE = "application/json"
REQUEST_S_MAX = 10.0
"""A client that sends or reads slower than this is let go."""


class _Ipv6Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6


class Endpoint:
    """Serves from a thread of its own until closed."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        metrics: Callable[[], bytes],
        status: Callable[[], dict[str, object]],
    ) -> None:
        """Bind and serve; OSError when the port cannot be bound."""
        pages: dict[str, tuple[str, Callable[[], bytes]]] = {
            "/metrics": (METRICS_TYPE, metrics),
            "/status": (JSON_TYPE, lambda: json.dumps(status()).encode()),
            "/healthz": (JSON_TYPE, lambda: b'{"alive":true}'),
        }

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            timeout = REQUEST_S_MAX

            def do_GET(self) -> None:
                """A page, or 404 with the list of them."""
                page = pages.get(self.path.partition("?")[0])
                if page is None:
                    body = json.dumps({"pages": sorted(pages)}).encode()
                    self._answer(404, JSON_TYPE, body)
                else:
                    content_type, make = page
                    self._answer(200, content_type, make())

            def _answer(self, code: int, content_type: str, body: bytes) -> None:
                self.send_response(code)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Scrapes are not news."""

        server_class = _Ipv6Server if ":" in host else ThreadingHTTPServer
        self._server = server_class((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """What is bound: with port 0, the port that the system chose."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
