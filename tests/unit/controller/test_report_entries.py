# SPDX-License-Identifier: Apache-2.0
"""Where and when switches report: destinations by flow, filters, congestion and drops."""

import re
from collections import Counter
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.entries import DefaultEntry, TableEntry
from controller.fabric import Collector, Fabric, LinkEnd
from controller.fabric_defaults import device_models
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import (
    DROP_REASONS,
    DropReport,
    QueueReport,
    ReportFilter,
    Reports,
)
from controller.report_entries import (
    DESTINATION_BUCKET_COUNT,
    collector_of_bucket,
    report_defaults,
    report_entries,
    shift_of,
)

FABRIC = leaf_spine(leaves=2, spines=1)
ROOT = Path(__file__).parents[3]


def collectors(count: int) -> tuple[Collector, ...]:
    """Collectors that differ in everything."""
    return tuple(
        Collector(ip=0x0AFF0001 + n, mac=0x0200_00FF_0001 + n, udp_port=9000 + n, destination_id=n)
        for n in range(count)
    )


def entries(fabric: Fabric, name: str, switch: str = "leaf1") -> list[TableEntry]:
    """The entries of one table of a switch."""
    found = report_entries(fabric, fabric.switch(switch))
    return [entry for entry in found if entry.table == name]


def defaults(fabric: Fabric) -> dict[str, dict[str, int]]:
    """Parameters of the default actions of leaf1."""
    found: list[DefaultEntry] = list(report_defaults(fabric, fabric.switch("leaf1")))
    return {entry.table: dict(entry.action.params) for entry in found}


def test_one_collector_needs_no_buckets() -> None:
    """The default action alone sends every report there."""
    assert entries(FABRIC, "report_destination") == []
    assert defaults(FABRIC)["report_destination"]["destination_id"] == 0


def test_several_collectors_share_the_buckets_alike_on_every_switch() -> None:
    """Every bucket has one collector, on every switch the same, and each collector has some."""
    fabric = replace(FABRIC, collectors=collectors(3))
    leaf = entries(fabric, "report_destination")
    assert leaf == entries(fabric, "report_destination", "spine1")
    assert len(leaf) == DESTINATION_BUCKET_COUNT
    shares = Counter(dict(entry.action.params)["destination_id"] for entry in leaf)  # type: ignore[union-attr]
    assert shares.keys() == {0, 1, 2}
    assert min(shares.values()) > 10


@given(ips=st.sets(st.integers(1, 0xFFFFFFFF), min_size=2, max_size=8), data=st.data())
def test_losing_a_collector_moves_its_buckets_only(ips: set[int], data: st.DataObject) -> None:
    """Buckets of the others stay, whichever collector goes and in whichever order they stand."""
    all_of_them = tuple(replace(collectors(1)[0], ip=ip) for ip in sorted(ips))
    lost = data.draw(st.sampled_from(all_of_them))
    others = tuple(c for c in reversed(all_of_them) if c != lost)
    for bucket in range(DESTINATION_BUCKET_COUNT):
        before = collector_of_bucket(all_of_them, bucket)
        assert before == lost or collector_of_bucket(others, bucket) == before


def test_filter_steps_are_powers_of_two_of_stamp_units() -> None:
    """Steps are never longer than declared, whatever the unit; below a unit they are one."""
    chosen = Reports(filter=ReportFilter(mx=True, drops=False, latency_quantum_ns=1000))
    nano = replace(FABRIC, reports=chosen)
    assert defaults(nano)["report_filter"] == {
        "filter_mx": 1,
        "filter_drops": 0,
        "latency_shift": 9,
        "interval_shift": 29,
    }
    micro = replace(nano, models=device_models(stamp_unit_ns=1000))
    assert defaults(micro)["report_filter"]["latency_shift"] == 0
    assert defaults(micro)["report_filter"]["interval_shift"] == 19


@given(duration_ns=st.integers(1, 3_600_000_000_000), unit_ns=st.integers(1, 1_000_000))
def test_shift_is_the_largest_that_fits(duration_ns: int, unit_ns: int) -> None:
    """2^shift units are at most the duration, and twice that would be more; or one unit."""
    shift = shift_of(duration_ns, unit_ns)
    assert shift == 0 or unit_ns << shift <= duration_ns
    assert unit_ns << (shift + 1) > duration_ns
    assert shift < 48


def test_queue_thresholds_are_in_the_switchs_units() -> None:
    """Latency rounds up to whole stamp units; a threshold that is not declared is out of reach."""
    chosen = Reports(
        queues=(
            QueueReport(queue=1, depth_packets=100, latency_ns=10_500, quota=7),
            QueueReport(queue=0, latency_ns=1, ports=(LinkEnd(node="leaf1", port=2),)),
            QueueReport(queue=2, depth_packets=5),
        )
    )
    nano = [str(entry) for entry in entries(replace(FABRIC, reports=chosen), "queue_report")]
    assert nano == [
        "queue_report [queue_id=1] priority 100: "
        "set_queue_report(depth=100, latency=10500, quota=7)",
        "queue_report [egress_port=2, queue_id=0 & 0xff] priority 200: "
        "set_queue_report(depth=16777215, latency=1, quota=64)",
        "queue_report [queue_id=2] priority 100: "
        "set_queue_report(depth=5, latency=4294967295, quota=64)",
    ]
    micro = replace(FABRIC, reports=chosen, models=device_models(stamp_unit_ns=1000))
    latencies = [str(e.action) for e in entries(micro, "queue_report")]
    assert ["latency=11," in latencies[0], "latency=1," in latencies[1]] == [True, True]
    assert len(entries(replace(FABRIC, reports=chosen), "queue_report", "spine1")) == 2


def test_drop_entries_name_reason_and_flow() -> None:
    """No reason means every reason; several make an entry each."""
    chosen = Reports(
        drops=(
            DropReport(),
            DropReport(
                reasons=("no_route", "ttl_expired"),
                source=IPv4Network("10.0.1.0/24"),
                destination=IPv4Network("10.0.2.1/32"),
            ),
        )
    )
    assert [str(entry) for entry in entries(replace(FABRIC, reports=chosen), "drop_report")] == [
        "drop_report [any] priority 100: report_drop()",
        "drop_report [dst_addr=10.0.2.1, reason=29, src_addr=10.0.1.0 & 0xffffff00] priority 100: "
        "report_drop()",
        "drop_report [dst_addr=10.0.2.1, reason=26, src_addr=10.0.1.0 & 0xffffff00] priority 100: "
        "report_drop()",
        "drop_report [dst_addr=10.255.0.1] priority 200: NoAction()",
    ]


def test_same_drops_asked_for_twice_are_one_entry() -> None:
    """A prefix of length 0 is no prefix: the second wish is the first once more."""
    chosen = Reports(
        drops=(
            DropReport(reasons=("no_route",)),
            DropReport(reasons=("no_route",), source=IPv4Network("0.0.0.0/0")),
        )
    )
    found = entries(replace(FABRIC, reports=chosen), "drop_report")
    assert [str(entry) for entry in found] == [
        "drop_report [reason=29] priority 100: report_drop()",
        "drop_report [dst_addr=10.255.0.1] priority 200: NoAction()",
    ]


def test_drop_reasons_are_those_of_the_program() -> None:
    """Names and numbers are the `DROP_*` of ids.p4, and the schema offers the same names."""
    text = (ROOT / "p4src" / "include" / "ids.p4").read_text(encoding="utf-8")
    declared = {
        name.lower(): int(number)
        for name, number in re.findall(r"#define DROP_(\w+)\s+(\d+)", text)
    }
    assert dict(DROP_REASONS) == declared
    schema = (ROOT / "controller" / "schemas" / "fabric.schema.json").read_text(encoding="utf-8")
    for name in DROP_REASONS:
        assert f'"{name}"' in schema


@pytest.mark.parametrize("dscp", [0, 46])
def test_reports_have_the_declared_dscp(dscp: int) -> None:
    """Reports travel in the class that the operator chose."""
    chosen = replace(FABRIC, reports=Reports(dscp=dscp))
    assert defaults(chosen)["report_config"]["dscp"] == dscp
