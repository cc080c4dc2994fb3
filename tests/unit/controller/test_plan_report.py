# SPDX-License-Identifier: Apache-2.0
"""A plan by switch and table, in names and units."""

from dataclasses import replace

import pytest

from controller.deploy_result import FabricDifference, SwitchDifference
from controller.desired import desired_entries
from controller.entries import ActionCall, Lpm, TableEntry, Ternary
from controller.entry_text import EntryText, FabricNames
from controller.fabric import Fabric, PtpRole
from controller.fabric_generate import leaf_spine
from controller.plan_report import format_plan
from controller.reconcile import reconcile

FABRIC = leaf_spine(leaves=3, spines=2, hosts_per_leaf=2)


def difference(before: Fabric | None, after: Fabric) -> FabricDifference:
    """What separates switches that hold one fabric's entries from another fabric."""
    return FabricDifference(
        switches=tuple(
            SwitchDifference(
                name=switch.name,
                pipeline_differs=before is None,
                pipeline_runs=False,
                entries_desired=0,
                updates=tuple(
                    reconcile(
                        desired_entries(after, switch.name),
                        desired_entries(before, switch.name) if before is not None else (),
                    )
                ),
            )
            for switch in after.switches
        ),
        errors=(),
    )


def test_an_unchanged_fabric_is_one_line() -> None:
    """What stays as it is does not appear."""
    assert format_plan(difference(FABRIC, FABRIC), FABRIC) == (
        "0 to insert, 0 to modify, 0 to delete on 0 of 5 switches"
    )


def test_a_changed_class_is_told_once_for_all_switches() -> None:
    """Switches with the same changes are one block; names, units, and what was before."""
    roce = replace(FABRIC.qos.classes[1], queue=2)
    qos = replace(FABRIC.qos, classes=(FABRIC.qos.classes[0], roce), ecn=())
    after = replace(FABRIC, qos=qos)
    assert format_plan(difference(FABRIC, after), after).splitlines() == [
        "leaf1, leaf2, leaf3, spine1, spine2 (5 switches, each): 2 to modify, 2 to delete",
        "  qos_class: 2 to modify, 1 to delete",
        "    - DSCP 46: set_queue(queue 2)",
        "    ~ DSCP 26 (roce): set_queue(queue 2), was set_queue(queue 1)",
        "    ~ DSCP 27 (roce, marked): set_queue(queue 2), was set_queue(queue 1)",
        "  ecn_config: 1 to delete",
        "    - queue 1: set_ecn_threshold(from 200 packets on)",
        "0 to insert, 10 to modify, 10 to delete on 5 of 5 switches",
    ]


def test_a_drained_link_is_told_in_buckets() -> None:
    """How many flows of which group go where, and where they went."""
    after = replace(FABRIC, links=(replace(FABRIC.links[0], drained=True), *FABRIC.links[1:]))
    lines = format_plan(difference(FABRIC, after), after).splitlines()
    assert lines[:3] == [
        "leaf1: 32 to modify",
        "  ecmp_selector: 32 to modify",
        "    ~ 32 buckets of group 18: port 2 (spine2:1), was port 1 (spine1:1)",
    ]
    every = format_plan(difference(FABRIC, after), after, verbose=True)
    assert "    ~ bucket 0 of group 18: port 2 (spine2:1), was port 1 (spine1:1)" in every
    assert sum(" of group 18: port 2" in line for line in every.splitlines()) == 32


def test_empty_switches_get_numbers_by_table() -> None:
    """With the pipeline everything is new; entries are listed where all are asked for."""
    plan = format_plan(difference(None, FABRIC), FABRIC)
    first, push, tables, *_ = plan.splitlines()
    assert first.startswith("leaf1, leaf2, leaf3 (3 switches, each): ")
    assert push == "  ! push the pipeline"
    assert tables.startswith("  ecmp_selector 68, ipv4_lpm 5, qos_class 5, ")
    every = format_plan(difference(None, FABRIC), FABRIC, verbose=True).splitlines()
    assert "    + to 10.0.1.1 (h1): port 11 (h1:1)" in every
    assert "    + to 10.0.2.0/24 (leaf2): group 18" in every
    assert "    + to 10.255.0.1 (collector): collector 0" in every


def test_long_tables_are_cut_with_what_surprises_first() -> None:
    """Deletions and changes before insertions, and the number of the rest."""
    links = tuple(replace(link, mtu_bytes=9_000 + index) for index, link in enumerate(FABRIC.links))
    after = replace(FABRIC, links=links)
    lines = format_plan(difference(FABRIC, after), after).splitlines()
    start = lines.index("  int_egress_mtu: 4 to insert")
    assert lines[start + 1] == "    + port 1 (spine1:1): set_mtu(MTU 9000 bytes)"
    more = tuple(replace(link, mtu_bytes=9_000) for link in leaf_spine(spines=8).links)
    after = replace(leaf_spine(spines=8), links=more)
    plan = format_plan(difference(leaf_spine(spines=8), after), after)
    assert "    ... and 6 more (--verbose)" in plan


@pytest.mark.parametrize(
    ("entry", "what", "does"),
    [
        (
            TableEntry.of(
                "int_watchlist",
                {
                    "dst_addr": Ternary(0x0A000200, 0xFFFFFF00),
                    "protocol": Ternary(17, 0xFF),
                    "l4_dst_port": Ternary(4791, 0xFFFF),
                    "roce_psn": Ternary(0, 0x3F),
                },
                ActionCall.of("int_source", instruction_bitmap=0xFC00, remaining_hop_count=8),
            ),
            "to 10.0.2.0/24 (leaf2), to port 4791 (RoCEv2), UDP, roce_psn 0 & 0x3f",
            "int_source(instruction_bitmap 0xfc00, 8 hops)",
        ),
        (
            TableEntry.of("ipv4_lpm", {"dst_addr": Lpm(0x0A000999, 32)}, ActionCall.of("drop")),
            "to 10.0.9.153",
            "drop()",
        ),
        (
            TableEntry.of(
                "queue_report",
                {"queue_id": Ternary(1, 7)},
                ActionCall.of("set_queue_report", depth=0xFFFFFF, latency=20_000, quota=64),
            ),
            "queue 1",
            "set_queue_report(no limit, from 20000 ns on, 64 reports an episode)",
        ),
        (
            TableEntry.of(
                "drop_report", {"reason": Ternary(29, 0xFF)}, ActionCall.of("report_drop")
            ),
            "no_route",
            "report_drop()",
        ),
        (
            TableEntry.of(
                "ptp_link_delay",
                {"ingress_port": 1},
                ActionCall.of("set_link_delay", delay=(1 << 64) - (3 << 15)),
            ),
            "port 1 (spine1:1)",
            "set_link_delay(delay -1.5 ns)",
        ),
    ],
)
def test_entries_are_told_in_names_and_units(entry: TableEntry, what: str, does: str) -> None:
    """Not in raw numbers, where the file or a standard has a word."""
    text = EntryText(FabricNames(FABRIC), "leaf1")
    assert (text.what(entry), text.does(entry)) == (what, does)


def test_every_entry_of_a_full_fabric_has_words() -> None:
    """Nothing that the controller writes is left without."""
    clock = replace(FABRIC.models[0], ptp_role=PtpRole.TRANSPARENT_CLOCK)
    fabric = replace(FABRIC, models=(clock, FABRIC.models[1]))
    text = EntryText(FabricNames(fabric), "leaf1")
    for entry in desired_entries(fabric, "leaf1"):
        assert text.what(entry)
        assert text.does(entry)
    offset = next(e for e in desired_entries(fabric, "leaf1") if e.key[1] == "transparent_clock")
    assert text.does(offset).startswith("set_transparent_clock(offset 4")
