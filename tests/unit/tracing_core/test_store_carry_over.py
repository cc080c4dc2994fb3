# SPDX-License-Identifier: Apache-2.0
"""A store of schema version 1 opens with all its spans."""

from pathlib import Path

import pytest

import tracing_core.store.old_spans as carrying
from tracing_core.model import Span, SpanEvent, SpanKind, SpanLink
from tracing_core.store import Store
from tracing_core.store.engine import Engine
from tracing_core.store.schema import MIGRATIONS, SPANS

TRACE = "11" * 16
RESOURCE = (
    '[{"key":"service.name","value":{"stringValue":"trainer"}},'
    '{"key":"host.name","value":{"stringValue":"h1"}},'
    '{"key":"tempotrace.tenant","value":{"stringValue":"alpha"}},'
    '{"key":"tempotrace.clock.domain","value":{"stringValue":"h1"}}]'
)
LINK = (
    '[{"traceId":"22222222222222222222222222222222","spanId":"3333333333333333",'
    '"traceState":"a=b","flags":257,"attributes":[{"key":"l","value":{"intValue":"1"}}]}]'
)


def old_rows(count: int) -> dict[str, list[object]]:
    """Rows as version 1 wrote them."""
    one: dict[str, object] = {
        "tenant": "alpha",
        "trace_id": bytes.fromhex(TRACE),
        "parent_span_id": bytes(8),
        "name": "step",
        "kind": 1,
        "start_local_ns": 1_800_000_000_000_000_000,
        "end_local_ns": 1_800_000_000_000_000_009,
        "clock_domain": "h1",
        "host": "h1",
        "service": "trainer",
        "attributes_string": {"text": ""},
        "attributes_int": {"number": 0},
        "attributes_other": {
            "flag": '[{"key":"flag","value":{"boolValue":false}}]',
            "list": '[{"key":"list","value":{"arrayValue":{"values":[{"intValue":"1"}]}}}]',
        },
        "event_name": ["nic.tx_first"],
        "event_time_local_ns": [5],
        "event_attributes": ['[{"key":"e","value":{"doubleValue":0.5}}]'],
        "links": LINK,
        "resource": RESOURCE,
        "scope_name": "scope",
        "scope_version": "1",
        "status_code": 2,
        "status_message": "late",
        "trace_state": "x=y",
        "flags": 1,
    }
    columns = {name: [value] * count for name, value in one.items()}
    columns["span_id"] = [(i + 1).to_bytes(8, "big") for i in range(count)]
    return columns


def expected(number: int) -> Span:
    """The same row as a span."""
    return Span(
        tenant="alpha",
        trace_id=TRACE,
        span_id=f"{number:016x}",
        parent_span_id="",
        name="step",
        kind=SpanKind.INTERNAL,
        start_local_ns=1_800_000_000_000_000_000,
        end_local_ns=1_800_000_000_000_000_009,
        clock_domain="h1",
        host="h1",
        service="trainer",
        attributes={"text": "", "number": 0, "flag": False, "list": (1,)},
        events=(SpanEvent(name="nic.tx_first", time_local_ns=5, attributes={"e": 0.5}),),
        links=(
            SpanLink(
                trace_id="22" * 16,
                span_id="33" * 8,
                trace_state="a=b",
                flags=257,
                attributes={"l": 1},
            ),
        ),
        resource={
            "service.name": "trainer",
            "host.name": "h1",
            "tempotrace.tenant": "alpha",
            "tempotrace.clock.domain": "h1",
        },
        scope_name="scope",
        scope_version="1",
        status_code=2,
        status_message="late",
        trace_state="x=y",
        flags=1,
    )


def old_store(path: Path, count: int) -> None:
    """A store whose spans are in version 1's table."""
    engine = Engine.embedded(path)
    engine.command(SPANS)
    engine.insert("spans", old_rows(count))
    engine.close()


def tables(store: Store) -> set[str]:
    """Names of the store's tables."""
    return {row[0] for row in store.engine.rows("SHOW TABLES")}


def test_spans_of_version_1_are_carried_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every span of the old table is there with all its values, page after page."""
    monkeypatch.setattr(carrying, "_PAGE_SQL", carrying._PAGE_SQL.replace("20000", "3"))
    monkeypatch.setattr(carrying, "ROWS_AT_A_TIME", 3)
    old_store(tmp_path / "s", 8)
    with Store.open(tmp_path / "s") as store:
        assert store.spans.trace(TRACE) == [expected(number) for number in range(1, 9)]
        assert "spans" not in tables(store)


def test_a_carry_over_that_was_cut_off_begins_again(tmp_path: Path) -> None:
    """Rows that were carried before a crash are read once."""
    old_store(tmp_path / "s", 2)
    with Store.open(tmp_path / "s") as store:
        store.engine.command(SPANS)
        store.engine.insert("spans", old_rows(2))  # as if the table had not been dropped yet
    with Store.open(tmp_path / "s") as store:
        assert len(store.spans.trace(TRACE)) == 2
        assert store.spans.count() == 2
        assert store.engine.scalar_int("SELECT count() FROM schema_migrations") == len(MIGRATIONS)
