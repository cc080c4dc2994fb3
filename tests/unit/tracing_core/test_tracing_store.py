# SPDX-License-Identifier: Apache-2.0
"""The store: what goes in comes out, once, and survives a restart."""

from pathlib import Path

import numpy as np
import pytest

from correction.records import HOP_DTYPE, PACKET_DTYPE, TRAFFIC_PTP, TRAFFIC_ROCE
from tests.support.tracing_world import build
from tracing_core.model import (
    ClockStatus,
    Correction,
    LinkEstimate,
    Span,
    SpanEvent,
    SpanKind,
    SpanLink,
)
from tracing_core.store import Store, StoreClosedError, StoreOpenError, TraceQuery
from tracing_core.store.schema import MIGRATIONS

EPOCH_NS = 1_800_000_000_000_000_000


def span(number: int = 1, **changes: object) -> Span:
    values: dict[str, object] = {
        "tenant": "alpha",
        "trace_id": f"{number:032x}",
        "span_id": f"{number:016x}",
        "parent_span_id": "",
        "name": "step",
        "kind": SpanKind.INTERNAL,
        "start_local_ns": EPOCH_NS + number,
        "end_local_ns": EPOCH_NS + number + 10,
        "clock_domain": "h1",
        "host": "h1",
        "service": "trainer",
        **changes,
    }
    return Span(**values)  # type: ignore[arg-type]


ODD = span(
    attributes={
        "text": "it's \\ 'quoted' {x:String} \n\t\0 ünï ☃",
        "int": -(2**63),
        "float": 0.1,
        "flag": True,
        "none": None,
        "bytes": b"\0\xff",
        "list": ("a", 1, (True, None)),
        "map": {"k": b"v", "deep": {"x": 1}},
        "": "empty key",
    },
    events=(SpanEvent(name="nic.tx_first", time_local_ns=0, attributes={"a": 1}),),
    links=(SpanLink(trace_id="a" * 32, span_id="b" * 16, flags=0x301, attributes={"l": 1}),),
    resource={
        "service.name": "trainer",
        "host.name": "h1",
        "tempotrace.tenant": "alpha",
        "tempotrace.clock.domain": "h1",
        "n": 1,
    },
    scope_name="scope",
    scope_version="2",
    status_code=2,
    status_message="late",
    trace_state="a=b",
    flags=2**32 - 1,
    end_local_ns=5,
)


def test_a_span_comes_back_as_it_went_in(store: Store) -> None:
    """Every field and every attribute type, hostile text included, raw stamps untouched."""
    store.spans.append([ODD])
    assert store.spans.trace(ODD.trace_id) == [ODD]


def test_parameters_are_never_sql(store: Store) -> None:
    """Text with quotes and braces is a value: it finds what equals it and nothing else."""
    hostile = "x' OR '1'='1"
    store.spans.append([span(1), span(2, tenant=hostile, service="{tenant:String}")])
    assert [t.tenant for t in store.spans.search(TraceQuery(tenant=hostile))] == [hostile]
    assert len(store.spans.search(TraceQuery(service="{tenant:String}"))) == 1
    assert store.spans.search(TraceQuery(name="' OR 1 --")) == []


def test_tenants_with_one_trace_id_are_told_apart(store: Store) -> None:
    """The tenant is part of a span's identity."""
    store.spans.append([span(1), span(1, tenant="beta")])
    assert store.spans.count() == 2
    assert [s.tenant for s in store.spans.trace(f"{1:032x}", tenant="beta")] == ["beta"]


def test_search_combines_conditions(store: Store) -> None:
    """Job and step may stand on another span than the name and the host."""
    root = span(1, attributes={"tempotrace.job": "j", "tempotrace.step": 0})
    child = span(1, span_id="f" * 16, parent_span_id=root.span_id, name="allreduce", host="h2")
    store.spans.append([root, child, span(2), span(3, name="other")])
    (found,) = store.spans.search(TraceQuery(job="j", step=0, host="h2", name="allreduce"))
    assert (found.root_name, found.span_count, found.hosts) == ("step", 2, ("h1", "h2"))
    assert (found.job, found.step) == ("j", 0)
    assert store.spans.search(TraceQuery(job="j", step=1)) == []
    newest = store.spans.search(TraceQuery(limit_count=2))
    assert [t.trace_id for t in newest] == [f"{3:032x}", f"{2:032x}"]
    assert newest[0].step is None


def test_packets_and_hops_come_back_in_order(store: Store) -> None:
    """Two appends are numbered on, and PTP packets stay apart from RoCE ones."""
    world = build(1, transfers=30)
    ptp = np.zeros(1, PACKET_DTYPE)
    ptp["traffic"], ptp["ptp_clock_identity"] = TRAFFIC_PTP, 2**64 - 1
    store.telemetry.append(world.packets[:20], world.hops)
    store.telemetry.append(ptp, np.zeros(0, HOP_DTYPE))
    store.telemetry.append(world.packets[20:], world.hops)
    packets, hops = store.telemetry.read(TRAFFIC_ROCE)
    assert np.array_equal(packets, world.packets)
    assert np.array_equal(hops, world.hops)
    assert store.telemetry.read(TRAFFIC_PTP)[0]["ptp_clock_identity"].tolist() == [2**64 - 1]


def test_a_recording_that_is_read_again_stays_once(store: Store) -> None:
    """What was stored is left out and counted, packets and hops; what is new comes after it."""
    world = build(1, transfers=30)
    assert store.telemetry.append_new(world.packets[:20], world.hops) == 0
    assert store.telemetry.append_new(world.packets, world.hops) == 20
    assert store.telemetry.append_new(world.packets, world.hops) == len(world.packets)
    packets, hops = store.telemetry.read(TRAFFIC_ROCE)
    assert np.array_equal(packets, world.packets)
    assert np.array_equal(hops, world.hops)


def test_packets_with_missing_hops_are_refused(store: Store) -> None:
    """A reference beyond the hops is a caller's error, found before anything is stored."""
    world = build(1, transfers=3)
    with pytest.raises(ValueError, match="hops"):
        store.telemetry.append(world.packets, world.hops[:-1])
    assert store.telemetry.count() == 0


def test_a_span_never_loses_a_correction_version(store: Store) -> None:
    """Versions rise by one; links and clocks are read as of any of them."""
    row = Correction(
        clock="h1",
        valid_from_local_ns=0,
        valid_to_local_ns=10,
        anchor_local_ns=0,
        offset_ns=2**62,
        rate_ppb=-1.5,
        bound_hard_ns=None,
        bound_conditional_ns=3,
        method="m",
        prior="p",
        status=ClockStatus.FLAGGED,
        reason="r",
        ptp_offset_ns=-4,
    )
    link = LinkEstimate(
        link="l", a_uv_ns=float("nan"), sigma_ns=1.0, bad=True, delay_ab_ns=2.0, delay_ba_ns=3.0
    )
    assert store.corrections.latest_version() == 0
    assert store.corrections.append([row], [link]) == 1
    assert store.corrections.append([]) == 2
    assert store.corrections.table().rows == (row,)
    assert store.corrections.table().version == 2
    assert store.corrections.table(0).rows == ()
    stored = store.corrections.links()["l"]
    assert stored.bad
    assert np.isnan(stored.a_uv_ns)
    assert store.corrections.links(0) == {}


def test_an_empty_publication_still_has_its_own_version(store: Store) -> None:
    """A version is never handed out twice, even if it changed nothing."""
    assert [store.corrections.append([]) for _ in range(3)] == [1, 2, 3]


def test_a_store_survives_a_restart(tmp_path: Path) -> None:
    """Everything is there after closing and opening again; migrations run once."""
    world = build(2, transfers=10)
    with Store.open(tmp_path / "s") as first:
        world.fill(first)
        first.spans.append([ODD])
    with Store.open(tmp_path / "s") as second:
        assert second.spans.count() == 21
        assert ODD in second.spans.trace(ODD.trace_id)
        assert second.corrections.latest_version() == 1
        assert second.fabric.nodes() == world.nodes
        assert second.fabric.links() == world.links
        assert second.engine.scalar_int("SELECT count() FROM schema_migrations") == len(MIGRATIONS)


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    """An older program does not touch a store that a newer one migrated."""
    with Store.open(tmp_path / "s") as store:
        store.engine.insert("schema_migrations", {"version": [999], "name": ["future"]})
    with pytest.raises(RuntimeError, match="newer program"):
        Store.open(tmp_path / "s")


def test_a_closed_store_says_so(store: Store) -> None:
    """Use after close is an error with a name, and closing twice is none."""
    store.close()
    store.close()
    with pytest.raises(StoreClosedError):
        store.spans.count()


def test_a_half_written_version_is_never_read(store: Store) -> None:
    """Rows whose publication did not finish are invisible, and their number is not reused."""
    world = build(2, transfers=1)
    assert store.corrections.append(world.corrections[:1]) == 1
    left_over = {"correction_version": [2], "link": ["l"], "a_uv_ns": [1.0], "sigma_ns": [1.0]}
    store.engine.insert("link_estimates", left_over)
    assert store.corrections.links() == {}
    assert store.corrections.append(world.corrections[1:]) == 3
    assert store.corrections.table().version == 3
    assert len(store.corrections.table().rows) == len(world.corrections)


def test_a_second_path_is_refused_by_name(store: Store, tmp_path: Path) -> None:
    """One path is open at a time in a process; the error names the path."""
    with pytest.raises(StoreOpenError, match="second"):
        Store.open(tmp_path / "second")
    assert store.spans.count() == 0


def test_a_link_to_nowhere_is_refused(store: Store) -> None:
    """Every link ends at two nodes of the fabric, or nothing is replaced."""
    world = build(2, transfers=1)
    store.fabric.replace(world.nodes, world.links)
    with pytest.raises(ValueError, match="leaf1-spine1"):
        store.fabric.replace(world.nodes[:9], world.links)
    assert store.fabric.nodes() == world.nodes
