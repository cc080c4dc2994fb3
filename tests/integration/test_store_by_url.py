# SPDX-License-Identifier: Apache-2.0
"""The store on a ClickHouse server by URL: the same client, the same SQL, blocks over HTTP."""

import time
from pathlib import Path

import pytest

from tests.support.clickhouse_server import clickhouse_server
from tests.support.tracing_world import build
from tracing_core.ingest import IngestLimits, LogKeeper, WriteAheadLog
from tracing_core.otlp import CONTENT_TYPE_PROTOBUF, admit
from tracing_core.otlp.encode import encode_spans
from tracing_core.store import Store, StoreOpenError, TraceQuery
from tracing_core.store.schema import MIGRATIONS


def test_everything_is_kept_and_found_on_a_server() -> None:
    """Spans, corrections, fabric and telemetry go in and come out; nothing is stored here."""
    world = build(2, transfers=10)
    with clickhouse_server() as (url, engine), Store.open_url(url) as store:
        world.fill(store)
        assert store.spans.count() == len(world.spans)
        first = world.spans[0]
        assert first.span_id in {span.span_id for span in store.spans.trace(first.trace_id)}
        assert store.spans.search(TraceQuery(tenant=first.tenant))
        assert store.corrections.latest_version() == 1
        assert store.fabric.nodes() == world.nodes
        assert store.engine.scalar_int("SELECT count() FROM schema_migrations") == len(MIGRATIONS)
        assert any(text.startswith("INSERT INTO span_rows") for text in engine.statements)


def test_a_repeated_insert_is_dropped_by_its_token() -> None:
    """The answer to an insert was lost: the repetition has the same token and adds nothing."""
    world = build(2, transfers=4)
    with clickhouse_server() as (url, _), Store.open_url(url) as store:
        store.spans.append(world.spans)
        rows = store.engine.scalar_int("SELECT count() FROM span_rows")
        store.spans._segment -= 1 << 12  # the same number again
        now_ns = (store.spans._segment >> 12) * 1000 + 1000
        store.spans._now_ns = lambda: now_ns
        store.spans.append(world.spans)
        assert store.engine.scalar_int("SELECT count() FROM span_rows") == rows


def test_a_server_that_goes_away_loses_nothing(tmp_path: Path) -> None:
    """Requests stay in the log while it is away, and are stored once when it is back."""
    world = build(2, transfers=4)
    body = encode_spans(world.spans).SerializeToString()
    admitted = admit(body, CONTENT_TYPE_PROTOBUF)
    answers: list[Exception | None] = []
    with clickhouse_server() as (url, engine), Store.open_url(url) as store:
        log = WriteAheadLog(tmp_path / "log", now_ns=time.time_ns)
        limits = IngestLimits(insert_interval_s=0.01, retry_s_max=0.02, disk_free_bytes_min=0)
        keeper = LogKeeper(log, store.spans, limits=limits)
        engine.is_away = True
        keeper.keep(admitted, tenant="default", done=answers.append)
        deadline_s = time.monotonic() + 30
        while keeper.state.segments_refused < 2 and time.monotonic() < deadline_s:
            keeper.settle(0.01)
        assert answers == [None]
        assert keeper.state.log_bytes > 0
        engine.is_away = False
        keeper.close()
        assert store.spans.count() == admitted.span_count
        assert store.engine.scalar_int("SELECT count() FROM span_rows") == admitted.span_count


def test_a_server_that_is_not_there_is_named() -> None:
    """The error says what could not be opened."""
    with pytest.raises(StoreOpenError, match="cannot open the store"):
        Store.open_url("http://127.0.0.1:9/default")
