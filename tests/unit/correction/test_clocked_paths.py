# SPDX-License-Identifier: Apache-2.0
"""Paths timed by corrected clocks: the same as the sum of their links, at any size."""

from dataclasses import replace

import numpy as np
import pytest

from correction.association_delays import associations
from correction.clocked_paths import ClockedPaths
from correction.engine import solve
from correction.link_delays import link_delays
from correction.records import TRAFFIC_PTP
from correction.solution import FabricSolution
from correction.table import Converted
from tests.support.synthetic_fabric import Run, Setup, draw

SETUP = Setup(leaves=3, spines=4, windows=2, bad_share=0.0)
BAD = {"leaf1-spine2": 400.0, "leaf2-spine3": -350.0}


@pytest.fixture(scope="module", params=[3, 4, 5])
def case(request: pytest.FixtureRequest) -> tuple[Run, FabricSolution]:
    """Some paths are asymmetric by hundreds of ns."""
    run = draw(request.param, SETUP, a_ns=BAD)
    return run, solve(run.packets, run.hops, run.exchanges, run.model, run.windows)


def clocked(run: Run, solution: FabricSolution, packets=None, exchanges=None):
    paths = ClockedPaths(run.model)
    paths.add(
        run.packets if packets is None else packets,
        run.hops,
        run.exchanges if exchanges is None else exchanges,
        solution.table,
    )
    return {one.client: one for one in paths.associations()}


def test_clocks_and_links_say_the_same_of_a_path(case) -> None:
    """Differences of clocks telescope: both agree to the noise of a few stamps, with the same paths
    and residences."""
    run, solution = case
    found = clocked(run, solution)
    links = associations(run.packets, run.hops, run.exchanges, link_delays(solution))
    assert [one.client for one in links] == sorted(found)
    large = 0
    for one in links:
        (span,), (mine,) = one.spans, found[one.client].spans
        assert (mine.forward, mine.reverse) == (
            span.asymmetry.forward.path,
            span.asymmetry.reverse.path,
        )
        assert mine.exchanges == span.exchanges
        # two windows' clocks, each with its wander; edge against median of the jitter
        assert mine.asymmetry_ns == pytest.approx(span.asymmetry.asymmetry.value_ns, abs=8.0)
        for ours, theirs in (
            (mine.forward_ns, span.asymmetry.forward.link_delay.value_ns),
            (mine.reverse_ns, span.asymmetry.reverse.link_delay.value_ns),
        ):
            assert ours == pytest.approx(theirs, abs=25.0)
        large += abs(mine.asymmetry_ns) > 100.0
    assert large >= 1


class TrueTime:
    """In place of a correction table: what clocks really read."""

    def __init__(self, run: Run) -> None:
        self._truth = run.truth

    def convert(self, stamps_local_ns: np.ndarray, clock: int) -> Converted:
        mine, reference = self._truth.clocks[clock], self._truth.clocks[self._truth.reference]
        aim = (stamps_local_ns - mine.epoch_ns).astype(float)
        at = aim.copy()
        for _ in range(8):
            at -= mine.elapsed(at) - aim
        reads = reference.epoch_ns + np.rint(reference.elapsed(at)).astype(np.int64)
        nothing = np.zeros(len(reads), np.int64)
        return Converted(
            reference_ns=reads,
            bound_hard_ns=nothing,
            bound_conditional_ns=nothing,
            status=nothing.astype(np.uint8),
        )


def test_bounds_hold_what_true_time_says(case) -> None:
    """The same exchanges by clocks that are never wrong."""
    run, solution = case
    true = ClockedPaths(run.model)
    true.add(run.packets, run.hops, run.exchanges, TrueTime(run))
    expected = {one.client: one.spans[0] for one in true.associations()}
    for client, one in clocked(run, solution).items():
        (span,) = one.spans
        error = abs(span.asymmetry_ns - expected[client].asymmetry_ns)
        assert error <= span.bound_conditional_ns
        assert error <= span.bound_hard_ns


def test_a_change_of_path_is_a_new_span(case) -> None:
    """With what it changed."""
    run, solution = case
    client = 4
    ptp = np.flatnonzero(run.packets["traffic"] == TRAFFIC_PTP)
    syncs = ptp[run.packets["dst_ip"][ptp] == run.model.clocks[client].ip]
    syncs = syncs[np.argsort(run.packets["capture_collector_ns"][syncs])]
    later = syncs[len(syncs) // 2 :]
    hops = run.hops.copy()
    spine = run.packets["first_hop"][later] + 1
    hops["node_id"][spine] = 101 + (hops["node_id"][spine] - 100) % SETUP.spines
    found = clocked(replace(run, hops=hops), solution)
    assert [span.exchanges for span in found[client].spans] == [len(syncs) - len(later), len(later)]
    assert len(found[client].changes_ns) == 1


def test_exchanges_without_reports_or_corrections_say_nothing(case) -> None:
    """Unknown is not zero."""
    run, solution = case
    ptp = run.packets["traffic"] == TRAFFIC_PTP
    assert clocked(run, solution, packets=run.packets[~ptp]) == {}
    nothing = replace(solution, table=replace(solution.table, rows=solution.table.rows[:0]))
    assert clocked(run, nothing) == {}
