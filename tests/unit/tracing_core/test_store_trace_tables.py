# SPDX-License-Identifier: Apache-2.0
"""The tables that find traces by id and by time, in new stores and in those of schema version 3."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tracing_core.model import Span, SpanKind
from tracing_core.store import Store, TraceQuery
from tracing_core.store.engine import Engine
from tracing_core.store.schema import MIGRATIONS, Migration
from tracing_core.store.span_schema import TRACE_PARTS

EPOCH_NS = 1_800_000_000_000_000_000
TABLES = MIGRATIONS[3]
"""The migration that made them."""


def span(trace: int, number: int = 1, *, start_ns: int = 0, **changes: object) -> Span:
    made = Span(
        tenant="alpha",
        trace_id=f"{trace:032x}",
        span_id=f"{number:016x}",
        parent_span_id="",
        name="step",
        kind=SpanKind.INTERNAL,
        start_local_ns=EPOCH_NS + start_ns,
        end_local_ns=EPOCH_NS + start_ns + 10,
        clock_domain="h1",
        host="h1",
        service="trainer",
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # fields of any type


def of_version_3(path: Path) -> list[Span]:
    """Makes the store that a program of that version left."""
    spans = [span(i, start_ns=1000 * i) for i in range(1, 8)]
    with Store.open(path) as store:
        store.spans.append(spans)
        store.spans.append([span(1, 2, start_ns=500, host="h2")])
        engine = store.engine
        engine.command("DROP TABLE trace_times SYNC")
        engine.command("RENAME TABLE trace_parts TO fine")
        engine.command(TRACE_PARTS)
        engine.command("INSERT INTO trace_parts SELECT * FROM fine")
        engine.command("DROP TABLE fine SYNC")
        engine.command("ALTER TABLE schema_migrations DELETE WHERE version > 3"
                       " SETTINGS mutations_sync = 1")  # fmt: skip
    return spans


def check(path: Path, spans: list[Span]) -> None:
    """Every trace is found once by id and in the list, newest first."""
    with Store.open(path) as store:
        assert [item.trace_id for item in store.spans.search(TraceQuery(tenant="alpha"))] == [
            item.trace_id for item in reversed(spans)
        ]
        assert len(store.spans.trace(spans[0].trace_id)) == 2
        for table in ("trace_parts", "trace_times"):
            assert store.engine.scalar_int(f"SELECT count() FROM {table}") == len(spans) + 1
        assert not store.engine.rows(
            "SELECT name FROM system.tables WHERE name IN ('trace_parts_fine',"
            " 'trace_parts_coarse')"
        )


def test_a_store_of_version_3_opens_with_all_its_traces(tmp_path: Path) -> None:
    """The parts of traces are carried into the tables of version 4."""
    spans = of_version_3(tmp_path / "s")
    check(tmp_path / "s", spans)


@pytest.mark.parametrize("done", range(1, len(TABLES.statements) + 1))
def test_a_migration_that_was_cut_off_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    """Wherever it ended, no part of a trace is lost or doubled."""
    spans = of_version_3(tmp_path / "s")
    real = Engine.command
    made: list[str] = []

    def cut_off(engine: Engine, sql: str, *arguments: object) -> None:
        if sql in TABLES.statements:
            if len(made) == done:
                raise KeyboardInterrupt
            made.append(sql)
        real(engine, sql, *arguments)  # type: ignore[arg-type]  # whatever it was called with

    def ends(engine: Engine, *_: object) -> None:
        raise KeyboardInterrupt

    engine = Engine.embedded
    with monkeypatch.context() as patch:
        patch.setattr(Engine, "command", cut_off)
        patch.setattr(Engine, "insert", ends)
        with pytest.raises(KeyboardInterrupt):
            engine(tmp_path / "s")
    assert len(made) == done
    check(tmp_path / "s", spans)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(None) as opened:
        yield opened


def test_the_newest_traces_are_those_of_a_full_sort(store: Store) -> None:
    """Over many inserts, out of order and repeated, for one tenant and for all."""
    rng = random.Random(5)
    starts = {trace: rng.randrange(10**6) for trace in range(1, 200)}
    spans = [
        span(trace, start_ns=at, tenant=rng.choice(("alpha", "beta")))
        for trace, at in starts.items()
    ]
    rng.shuffle(spans)
    for first in range(0, len(spans), 20):
        store.spans.append(spans[first : first + 20])
    store.spans.append(spans[:30])
    for tenant in ("alpha", ""):
        wanted = sorted(
            (item for item in spans if tenant in ("", item.tenant)),
            key=lambda item: -item.start_local_ns,
        )
        for limit in (1, 7, 150):
            found = store.spans.search(TraceQuery(tenant=tenant, limit_count=limit))
            assert [item.trace_id for item in found] == [item.trace_id for item in wanted[:limit]]


def test_conditions_met_by_different_segments_find_a_trace(store: Store) -> None:
    """One part has the host, another the name; a trace with one of both only is not found."""
    store.spans.append([span(1, 1, host="h1", name="a"), span(2, 1, host="h1", name="a")])
    store.spans.append([span(1, 2, start_ns=5, host="h2", name="b")])
    store.spans.append([span(3, 1, start_ns=9, host="h3", name="b")])
    found = store.spans.search(TraceQuery(tenant="alpha", host="h1", name="b"))
    assert [item.trace_id for item in found] == [f"{1:032x}"]
    assert store.spans.search(TraceQuery(tenant="alpha", host="h3", name="a")) == []


def test_migrations_are_numbered_in_order() -> None:
    """A store applies each once, by its number."""
    assert [item.version for item in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))
    assert all(isinstance(item, Migration) for item in MIGRATIONS)
