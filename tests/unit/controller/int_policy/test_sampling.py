# SPDX-License-Identifier: Apache-2.0
"""Adaptive sampling keeps a budget, moves one step at a time, and does not swing."""

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.desired import desired_entries
from controller.entries import TableEntry, Ternary
from controller.entry_counts import CounterKey
from controller.fabric import Fabric, Watchlist, WatchTraffic
from controller.fabric_generate import leaf_spine
from controller.fabric_telemetry import Probes, WatchMode
from controller.int_policy.report_rates import (
    ReportRates,
    largest_collector_share,
    packets_between,
    reports_per_packet,
)
from controller.int_policy.sampling import (
    CALM_COUNT,
    SAMPLE_BITS_MAX,
    TARGET,
    AdaptiveSampling,
    sampled,
)
from controller.watchlist import PRIORITY_TRACED

ROCE = Watchlist(
    name="big",
    traffic=WatchTraffic.ROCE,
    instruction_bitmap=0xFC00,
    traffic_class="roce",
    remaining_hop_count=8,
)
PTP = Watchlist(
    name="ptp", traffic=WatchTraffic.PTP, instruction_bitmap=0x7C00, message_types=(0, 1)
)


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """Two watchlists of RoCE, one of PTP."""
    made = leaf_spine(leaves=2, spines=2, hosts_per_leaf=1, tenants=["t"])
    small = replace(ROCE, name="small", sources=(IPv4Network("10.0.1.0/24"),))
    return replace(made, watchlists=(small, ROCE, PTP))


def offered(control: AdaptiveSampling, load: Mapping[str, float]) -> dict[str, float]:
    """Rates where each watchlist would give `load` as in the file."""
    return {name: rate / (1 << control.extra_bits.get(name, 0)) for name, rate in load.items()}


def test_the_largest_is_sampled_down_at_once(fabric: Fabric) -> None:
    """To 70 % of the budget in one step; small watchlists and PTP keep all of their packets."""
    control = AdaptiveSampling(fabric, 1_000.0)
    assert control.step({"small": 100.0, "big": 40_000.0, "ptp": 100.0})
    # 200 + 40000 / 2^7 = 512.5 is within 700; 2^6 would give 825.
    assert control.extra_bits == {"big": 7}
    assert not control.is_exhausted


def test_within_the_budget_nothing_changes(fabric: Fabric) -> None:
    """Up to 90 % of it."""
    control = AdaptiveSampling(fabric, 1_000.0)
    assert not control.step({"small": 100.0, "big": 800.0, "ptp": 0.0})
    assert control.step({"small": 101.0, "big": 800.0, "ptp": 0.0})


def test_sampling_up_takes_three_calm_readings_and_one_bit(fabric: Fabric) -> None:
    """A pause of a moment changes nothing."""
    control = AdaptiveSampling(fabric, 1_000.0, {"big": 3})
    calm, busy = {"big": 10.0}, {"big": 400.0}
    told = [control.step(one) for one in [calm] * (CALM_COUNT - 1) + [busy] + [calm] * CALM_COUNT]
    assert told == [False] * (2 * CALM_COUNT - 1) + [True]
    assert control.extra_bits == {"big": 2}


def test_nothing_is_sampled_up_while_a_switch_is_not_read(fabric: Fabric) -> None:
    """What it counts may be the larger part."""
    control = AdaptiveSampling(fabric, 1_000.0, {"big": 3})
    assert not any(control.step({"big": 1.0}, is_complete=False) for _ in range(10))


def test_ptp_alone_over_the_budget_is_said(fabric: Fabric) -> None:
    """Its pattern is left alone, since clocks are corrected by it; then it is exhausted."""
    control = AdaptiveSampling(fabric, 1_000.0)
    assert not control.step({"small": 0.0, "big": 0.0, "ptp": 1_001.0})
    assert control.is_exhausted
    control.step({"ptp": 10.0})
    assert not control.is_exhausted


def test_probes_count_too(fabric: Fabric) -> None:
    """300 probes a second make 900 reports."""
    probed = replace(fabric, probes=Probes(budget_pps=300))
    assert AdaptiveSampling(probed, 1_000.0).step({"big": 10.0})


@given(
    load=st.dictionaries(
        st.sampled_from(["small", "big"]), st.floats(min_value=0, max_value=2.9e7), min_size=1
    ),
    start=st.dictionaries(st.sampled_from(["small", "big"]), st.integers(1, SAMPLE_BITS_MAX)),
)
def test_steady_load_settles_below_the_budget_and_stays(
    fabric: Fabric, load: dict[str, float], start: dict[str, int]
) -> None:
    """Whatever it begins with: after the first reading within the budget, in the end unchanging."""
    control = AdaptiveSampling(fabric, 1_000.0, start)
    control.step(offered(control, load))
    for _ in range(2 * SAMPLE_BITS_MAX * CALM_COUNT):
        assert sum(offered(control, load).values()) <= 900.0
        control.step(offered(control, load))
    settled = dict(control.extra_bits)
    assert not any(control.step(offered(control, load)) for _ in range(20))
    assert control.extra_bits == settled
    room = TARGET * 1_000.0 - sum(offered(control, load).values())
    assert all(offered(control, load).get(name, 0.0) > room for name in settled)


def test_patterns_lie_within_each_other_and_all_switches_take_the_same(fabric: Fabric) -> None:
    """Three bits more: the entries match low PSN bits 0 under a mask of three more ones."""
    denser = replace(
        fabric, watchlists=(replace(ROCE, mode=WatchMode.XD, sample_psn_bits=2, name="big"),)
    )
    changed = sampled(denser, {"big": 3})
    patterns = set()
    for switch in changed.switches:
        for entry in desired_entries(changed, switch.name):
            if isinstance(entry, TableEntry) and entry.table == "int_watchlist":
                patterns.add(dict(entry.match).get("roce_psn"))
    assert patterns == {None, Ternary(0, 0b11111)}  # None: the flow to the collector
    assert sampled(denser, {"big": 99}).watchlists[0].sample_psn_bits == SAMPLE_BITS_MAX


def test_reports_of_a_packet(fabric: Fabric) -> None:
    """MD: two at the sink. MX: each of leaf, spine, leaf. XD and PTP: one. Exempt: none."""
    counts = {mode: reports_per_packet(fabric, replace(ROCE, mode=mode)) for mode in WatchMode}
    assert counts == {WatchMode.MD: 2, WatchMode.MX: 3, WatchMode.XD: 1, WatchMode.EXEMPT: 0}
    assert reports_per_packet(fabric, PTP) == 1


def test_counters_become_rates_by_watchlist(fabric: Fabric) -> None:
    """By priority; an entry that is new begins at 0, and so does one that was inserted again."""
    small, big = (CounterKey("int_watchlist", PRIORITY_TRACED - n, b"x") for n in (0, 1))
    new = CounterKey("int_watchlist", PRIORITY_TRACED - 1, b"y")
    exempt = CounterKey("int_watchlist", 10_000, b"")
    rates = ReportRates(fabric)
    rates.take({"leaf1": {small: 100, big: 1_000, exempt: 0}}, 1.0)
    assert rates.knows("leaf1")
    found = rates.take(
        {"leaf1": {small: 150, big: 30, new: 20, exempt: 999}, "leaf2": {big: 10**9}}, 2.0
    )
    assert found == {"small": 50.0, "big": 50.0, "ptp": 0.0}
    assert list(packets_between({big: 5}, {big: 5})) == [(big, 0)]


def test_budget_is_that_of_the_collector_with_most_flows(fabric: Fabric) -> None:
    """One collector has them all; of several the fullest counts, at least its even share."""
    assert largest_collector_share(fabric) == 1.0
    one = fabric.collector
    four = tuple(replace(one, ip=one.ip + n, destination_id=n) for n in range(4))
    share = largest_collector_share(replace(fabric, collectors=four))
    assert 0.25 <= share < 0.5
    load = {"big": 0.9 * 1_000.0 / share + 1}
    assert AdaptiveSampling(replace(fabric, collectors=four), 1_000.0).step(load)
