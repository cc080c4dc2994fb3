# SPDX-License-Identifier: Apache-2.0
"""ClickHouse's HTTP interface over the embedded engine, so that a store by URL can be tested.

It answers what clickhouse-connect asks: queries with bound parameters, commands, and inserts in
Native format with their settings. The engine is in memory; it shows that the client's side works,
not how a server behaves.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import chdb

_FORMAT = re.compile(rb"\bFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
_INSERT = re.compile(rb"\s*INSERT\s.*?\sFORMAT\s+Native\s*?\n", re.IGNORECASE | re.DOTALL)
_PASSED_ON = ("insert_deduplic", "max_insert_block", "min_insert_block", "async_insert")


class _Engine:
    """One connection, one statement at a time."""

    def __init__(self) -> None:
        self._connection = chdb.connect(":memory:")
        self._lock = threading.Lock()
        self.statements: list[str] = []
        self.is_away = False

    def run(self, query: bytes, body: bytes, url: dict[str, str]) -> tuple[bytes, str]:
        """The answer and its format."""
        with self._lock:
            insert = _INSERT.match(query + body)
            if insert:
                return self._insert(insert.group(), (query + body)[insert.end() :], url)
            text = (query or body).decode()
            self.statements.append(text)
            found = _FORMAT.search(text.encode())
            name = found.group(1).decode() if found else "TabSeparated"
            if found:
                text = text[: found.start()]
            values = {key[6:]: value for key, value in url.items() if key.startswith("param_")}
            result = self._connection.query(text, name, params=values)
            return result.bytes() or b"", name

    def _insert(self, statement: bytes, data: bytes, url: dict[str, str]) -> tuple[bytes, str]:
        self.statements.append(statement.decode())
        head = re.sub(rb"\s*FORMAT\s+Native\s*$", b"", statement.strip(), flags=re.IGNORECASE)
        settings = ", ".join(
            f"{key} = '{value}'" for key, value in url.items() if key.startswith(_PASSED_ON)
        )
        file = os.memfd_create("insert")
        try:
            os.write(file, data)
            self._connection.query(
                f"{head.decode()} FROM INFILE '/proc/self/fd/{file}'"
                f"{' SETTINGS ' + settings if settings else ''} FORMAT Native",
                "Null",
            )
        finally:
            os.close(file)
        return b"", "Native"

    def close(self) -> None:
        self._connection.close()


@contextmanager
def clickhouse_server() -> Iterator[tuple[str, _Engine]]:
    """The URL of a running server, and its engine."""
    engine = _Engine()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def _answer(self) -> None:
            url = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
            query = url.pop("query", "").encode()
            try:
                if engine.is_away:
                    raise RuntimeError("Code: 999. DB::Exception: away. (KEEPER_EXCEPTION)")
                body, name = engine.run(query + b"\n" if query else b"", self._body(), url)
                self._send(200, body, {"X-ClickHouse-Format": name})
            except Exception as error:  # whatever the engine says is the client's answer
                self._send(500, str(error).encode(), {"X-ClickHouse-Exception-Code": "999"})

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("transfer-encoding", ""):
                return self.rfile.read(int(self.headers.get("content-length") or 0))
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for key, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/?compress=false", engine
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        engine.close()
