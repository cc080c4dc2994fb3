# SPDX-License-Identifier: Apache-2.0
"""Partial deployment: spines that report nothing leave one edge per observed path."""

import numpy as np
import pytest

from correction.engine import solve
from correction.sources import gather
from correction.table import Status
from correction.virtual_paths import PATH_SD_NS
from tests.support.rail_fabric import true_error_ns
from tests.support.synthetic_fabric import Setup, draw

FIRST_SPINE_ID = 101


MIXED = Setup(leaves=4, spines=2, hosts_per_leaf=1, windows=2, bad_share=0.0)


def without_spines(made, node_ids):
    """The run with the hops of these nodes taken out of every packet."""
    gone = np.isin(made.hops["node_id"], list(node_ids))
    packet = np.repeat(np.arange(len(made.packets)), made.packets["hop_count"])
    made.hops = made.hops[~gone]
    count = np.bincount(packet[~gone], minlength=len(made.packets))
    made.packets["hop_count"] = count
    made.packets["first_hop"] = np.cumsum(count) - count
    return made


@pytest.fixture(scope="module")
def run():
    """4 x 2, whose spines report nothing."""
    return without_spines(draw(7, MIXED), {FIRST_SPINE_ID, FIRST_SPINE_ID + 1})


def test_each_pair_of_outer_ports_is_a_path(run) -> None:
    """6 pairs of leaves over each of 2 spines; nothing is left as not adjacent."""
    found = gather(run.packets, run.hops, run.exchanges, run.model)
    paths = found.model.links[len(run.model.links) :]
    assert len(paths) == 12
    assert {path.name for path in paths} >= {"leaf1:1~leaf2:1", "leaf3:2~leaf4:2"}
    assert "not_adjacent" not in found.counters.rejected
    first = next(path for path in paths if path.name == "leaf1:1~leaf2:1")
    ends = [link for link in run.model.links if link.name in ("leaf1-spine1", "leaf2-spine1")]
    assert first.min_delay_ns == sum(link.min_delay_ns for link in ends)
    assert first.asymmetry_sd_ns == pytest.approx(np.hypot(PATH_SD_NS, 5.0 * np.sqrt(2.0)))


def test_hosts_are_bounded_across_silent_switches(run) -> None:
    """All hosts are synchronised and inside both bounds; the conditional ones are wide, as the
    queues of the silent spines are."""
    found = solve(run.packets, run.hops, run.exchanges, run.model, run.windows)
    for window in (0, 1):
        one = found.windows[window]
        for clock in range(1, 4):
            error = abs(true_error_ns(run, found, window, clock))
            assert one.status[clock] == Status.OK
            assert error <= one.bound_hard_ns[clock]
            assert error <= one.bound_conditional_ns[clock]
            assert one.bound_conditional_ns[clock] > 60.0
    spines = range(8, 10)
    assert all(found.windows[0].status[clock] == Status.FLOATING for clock in spines)


def test_one_silent_switch_among_others_makes_no_clock_step() -> None:
    """Noise of microseconds over the silent spine is that of its paths, beside cables of some ns:
    no clock is withheld, and all bounds hold."""
    made = without_spines(draw(7, MIXED), {102})
    found = solve(made.packets, made.hops, made.exchanges, made.model, made.windows)
    assert not found.findings
    spine2 = next(n for n, clock in enumerate(made.model.clocks) if clock.name == "spine2")
    for clock in range(1, len(made.model.clocks)):
        if clock != spine2:
            error = abs(true_error_ns(made, found, 0, clock))
            # the one cable of a leaf that is left may be called in doubt
            assert found.windows[0].status[clock] in (Status.OK, Status.AMBIGUOUS)
            assert error <= found.windows[0].bound_hard_ns[clock]
            assert error <= found.windows[0].bound_conditional_ns[clock]


def test_a_step_of_a_leaf_is_found_over_silent_spines() -> None:
    """20 us in the middle of a window: the leaf, or its host, is withheld there."""
    at_ns = 2.5e9
    made = without_spines(draw(7, MIXED, steps={5: (at_ns, 20_000)}), {101, 102})
    found = solve(made.packets, made.hops, made.exchanges, made.model, made.windows)
    stepped = found.windows[0].status == Status.INCONSISTENT
    assert stepped[5] or stepped[1]


def test_where_all_switches_report_there_are_no_paths() -> None:
    """A lost report in a deployed fabric makes no edge of its own."""
    made = draw(7, Setup(leaves=4, spines=2, hosts_per_leaf=1, windows=1))
    found = gather(made.packets, made.hops, made.exchanges, made.model)
    assert found.model is made.model
