# SPDX-License-Identifier: Apache-2.0
"""The database behind the store: one client, one lock, parameterised SQL only.

Embedded chDB allows one path per process and one process per path, and its parameterised
queries are not isolated between connections, so one client is shared and serialised here. Blocks
are inserted on a second connection, without parameters, so that no query waits for them. The SQL
is the same for a ClickHouse server (design decision 10).
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import clickhouse_connect
import numpy as np
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, ProgrammingError
from numpy.typing import NDArray

from tracing_core.store.block_file import BlockFile
from tracing_core.store.schema import MIGRATIONS, MIGRATIONS_TABLE

Parameter = str | int | float | Sequence[str] | Sequence[int]
Parameters = Mapping[str, Parameter]
Row = tuple[Any, ...]

IN_MEMORY = ":memory:"
BLOCK_ROWS_MAX = 2**40
"""An inserted block is never split: it becomes visible, and is deduplicated, as a whole."""
INDICES_OF_MERGES = "string_values"
"""Skip indices that merges make: on insert they cost a tenth of everything, and parts that are not
merged yet are few and small enough to be read without."""
_AS_BYTES = {"String": "bytes", "FixedString": "bytes"}
EMBEDDED_OPTIONS = {
    # Merges can wait; who asks or sends should not wait for them.
    "os_threads_nice_value_merge_mutate": 10,
    # A server's defaults take gigabytes; these hold what 10 million spans need.
    "mark_cache_size": 64 * 2**20,
    "index_mark_cache_size": 16 * 2**20,
    "primary_index_cache_size": 64 * 2**20,
    "query_condition_cache_size": 16 * 2**20,
    "compiled_expression_cache_size": 16 * 2**20,
}
"""How the embedded database differs from a server that has a machine for itself."""


class StoreError(RuntimeError):
    """The database refused a statement; the message is its own."""


class StoreOpenError(RuntimeError):
    """The store's path cannot be opened; one process owns it, and one path is open at a time."""


class StoreClosedError(RuntimeError):
    """The store was used after `close`."""


class Engine:
    """Runs SQL under one lock; migrates the schema when opened."""

    def __init__(self, client: Client, writer: Client, *, embedded: bool) -> None:
        self._embedded = embedded
        self._client: Client | None = client
        self._writer: Client | None = writer
        self._lock = threading.RLock()
        self._writer_lock = threading.RLock()
        self._migrate()

    @classmethod
    def embedded(cls, path: Path | None) -> "Engine":
        """chDB in this process, in `path` or in memory when it is None."""
        location = IN_MEMORY
        if path is not None:
            path.mkdir(parents=True, exist_ok=True)
            location = str(path)
        try:
            client, writer = (
                clickhouse_connect.get_client(
                    interface="chdb", path=location, chdb_options=EMBEDDED_OPTIONS
                )
                for _ in range(2)
            )
        except ProgrammingError as error:
            raise StoreOpenError(
                f"cannot open the store at {location}: another process or another store of this"
                f" process has it, or it is not a store ({error})"
            ) from error
        return cls(client, writer, embedded=True)

    @classmethod
    def remote(cls, url: str) -> "Engine":
        """A ClickHouse server, `http://user:password@host:8123/database` or https."""
        try:
            client = clickhouse_connect.get_client(dsn=url)
            writer = clickhouse_connect.get_client(dsn=url)
        except (ClickHouseError, ValueError) as error:
            raise StoreOpenError(f"cannot open the store: {error}") from error
        return cls(client, writer, embedded=False)

    def close(self) -> None:
        """Releases the path; a second call does nothing."""
        with self._writer_lock, self._lock:
            for client in (self._writer, self._client):
                if client is not None:
                    client.close()
            self._writer = self._client = None

    def command(self, sql: str, parameters: Parameters | None = None) -> None:
        """Runs a statement without a result."""
        with self._call() as client:
            client.command(sql, parameters=dict(parameters or {}))

    def rows(self, sql: str, parameters: Parameters | None = None) -> list[Row]:
        """All rows of a query as tuples."""
        with self._call() as client:
            result = client.query(sql, parameters=dict(parameters or {}))
        return cast(list[Row], list(result.result_rows))

    def raw_rows(self, sql: str, parameters: Parameters | None = None) -> list[Row]:
        """As `rows`, but every text is bytes, also those that hold no UTF-8."""
        with self._call() as client:
            result = client.query(
                sql, parameters=dict(parameters or {}), query_formats=dict(_AS_BYTES)
            )
        return cast(list[Row], list(result.result_rows))

    def scalar_int(self, sql: str, parameters: Parameters | None = None) -> int:
        """The one integer that a query yields."""
        return int(self.rows(sql, parameters)[0][0])

    def columns(
        self, sql: str, names: Sequence[str], parameters: Parameters | None = None
    ) -> dict[str, NDArray[Any]]:
        """A query's columns by name, in order; numeric columns keep their type."""
        with self._call() as client:
            table = client.query_np(sql, parameters=dict(parameters or {}))
        if len(table) == 0:
            return {name: np.empty(0, np.int64) for name in names}
        if table.dtype.names is None:  # equal types come back as a plain matrix
            return {name: np.ascontiguousarray(table[:, i]) for i, name in enumerate(names)}
        return {
            name: np.ascontiguousarray(table[field])
            for name, field in zip(names, table.dtype.names, strict=True)
        }

    def insert(self, table: str, columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> None:
        """Inserts equally long columns as one block, which becomes visible as a whole."""
        with self._call() as client:
            client.insert(
                table,
                cast(list[Sequence[Any]], list(columns.values())),
                column_names=list(columns),
                column_oriented=True,
            )

    def insert_blocks(
        self, table: str, blocks: BlockFile, *, token: str, deduplicate: bool = True
    ) -> None:
        """Inserts blocks in Native format as one, on a connection of its own.

        A block with a token that the table still knows is dropped by the database: the answer to
        the first attempt may have been lost.
        """
        settings: dict[str, str | int] = {
            "async_insert": 0,
            "insert_deduplicate": int(deduplicate),
            "insert_deduplication_token": token,
            "input_format_skip_unknown_fields": 1,
            "max_insert_block_size": BLOCK_ROWS_MAX,
            "min_insert_block_size_rows": BLOCK_ROWS_MAX,
            "min_insert_block_size_bytes": 0,
        }
        with self._call(writing=True) as client:
            if self._embedded:
                settings["exclude_materialize_skip_indexes_on_insert"] = INDICES_OF_MERGES
                values = ", ".join(f"{name} = '{value}'" for name, value in settings.items())
                client.command(
                    f"INSERT INTO {table} FROM INFILE '{blocks.path}' SETTINGS {values}"
                    " FORMAT Native"
                )
            else:
                client.raw_insert(
                    table, insert_block=blocks.read(), fmt="Native", settings=settings
                )

    def transaction_lock(self) -> threading.RLock:
        """Held by a caller whose read and write must not be interleaved with another's."""
        return self._lock

    @contextmanager
    def _call(self, *, writing: bool = False) -> Iterator[Client]:
        """A client under its lock; its errors become ours, once."""
        with self._writer_lock if writing else self._lock:
            client = self._writer if writing else self._client
            if client is None:
                raise StoreClosedError("the store is closed")
            try:
                yield client
            except ClickHouseError as error:
                raise StoreError(str(error)) from error

    def _migrate(self) -> None:
        self.command(MIGRATIONS_TABLE)
        applied = {int(row[0]) for row in self.rows("SELECT version FROM schema_migrations")}
        newest = MIGRATIONS[-1].version
        if applied and max(applied) > newest:
            raise RuntimeError(
                f"the store has schema version {max(applied)}, this program knows {newest}:"
                " use a newer program"
            )
        for migration in MIGRATIONS:
            if migration.version in applied:
                continue
            for statement in migration.statements:
                self.command(statement)
            self.insert(
                "schema_migrations", {"version": [migration.version], "name": [migration.name]}
            )
