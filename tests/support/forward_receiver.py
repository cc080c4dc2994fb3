# SPDX-License-Identifier: Apache-2.0
"""A receiver of passed-on spans that is often away: it refuses, hangs up, or takes them."""

import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class UnsteadyReceiver:
    """Remembers the spans of each trace that it acknowledged, and those that it may have."""

    def __init__(self, seed: int, *, trouble: float = 0.3) -> None:
        self.spans: dict[int, int] = {}
        """Of each trace, the most spans that came in one request."""
        self.repeated = 0
        """Requests that came again."""
        self.is_steady = False
        """Takes everything from now on."""
        rng = random.Random(seed)
        lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                with lock:
                    fate = 1.0 if receiver.is_steady else rng.random()
                    if fate >= trouble / 2:
                        receiver._take(body)
                if fate < trouble / 2:
                    self._answer(503)
                elif fate < trouble:
                    self.close_connection = True  # taken, and the answer is lost
                else:
                    self._answer(200)

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("content-length", "0")
                self.send_header("retry-after", "0.01")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """A sender that was killed is no news."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def _take(self, body: bytes) -> None:
        for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope_spans in resource_spans.scope_spans:
                number = int.from_bytes(scope_spans.spans[0].trace_id, "big") - 1
                self.repeated += number in self.spans
                count = len({span.span_id for span in scope_spans.spans})
                self.spans[number] = max(self.spans.get(number, 0), count)

    def close(self) -> None:
        """Ends."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
