# SPDX-License-Identifier: Apache-2.0
"""Links that were measured in one direction only."""

from dataclasses import replace

import numpy as np
import pytest

from correction.engine import solve
from correction.records import TRAFFIC_PTP
from correction.solution import FabricSolution
from correction.table import Status
from tests.support.score_correction import score
from tests.support.synthetic_fabric import Run, Setup, draw

FABRIC = Setup(leaves=4, spines=4, hosts_per_leaf=1, windows=2, bad_share=0.0, exchanges=8)
H3 = 2
SYNC, DELAY_REQ = 0, 1


def _without(run: Run, message: int, *, first_window_only: bool = False) -> FabricSolution:
    """Solved without the reports of one kind of message of h3's."""
    ptp = run.packets["traffic"] == TRAFFIC_PTP
    mine = run.packets["dst_ip" if message == SYNC else "src_ip"] == run.model.clocks[H3].ip
    gone = ptp & mine & (run.packets["ptp_message_type"] == message)
    if first_window_only:
        gone &= run.packets["capture_collector_ns"] < run.windows[0, 1]
    return solve(run.packets[~gone], run.hops, run.exchanges, run.model, run.windows)


@pytest.mark.parametrize("message", [SYNC, DELAY_REQ])
@pytest.mark.parametrize("seed", [61, 62, 63])
def test_a_declared_cable_ties_a_host_that_was_heard_one_way(seed: int, message: int) -> None:
    """Its delay is anywhere between the least and the largest: the bound says so, and holds. The
    other hosts keep theirs."""
    run = draw(seed, FABRIC)
    both = score(run, solve(run.packets, run.hops, run.exchanges, run.model, run.windows))
    solution = _without(run, message)
    got = score(run, solution)
    link = next(link for link in run.model.links if H3 in (link.a, link.b))
    room_ns = (link.max_delay_ns - link.min_delay_ns) / 2
    assert all(window.status[H3] == Status.OK for window in solution.windows)
    assert (np.abs(got.error_ns[:, H3]) <= got.conditional_ns[:, H3]).all()
    assert (got.conditional_ns[:, H3] > np.minimum(room_ns, got.hard_ns[:, H3] - 1)).all()
    assert (np.abs(got.error_ns) <= got.hard_ns).all()
    others = [1, 3]
    np.testing.assert_allclose(got.error_ns[:, others], both.error_ns[:, others], atol=1.0)


def test_without_a_declared_longest_cable_it_floats() -> None:
    """Nothing says how long the one direction took."""
    run = draw(61, FABRIC)
    run.model = replace(
        run.model, links=tuple(replace(link, max_delay_ns=0) for link in run.model.links)
    )
    solution = _without(run, SYNC)
    assert [int(window.status[H3]) for window in solution.windows] == [Status.FLOATING] * 2


def test_a_window_with_both_directions_tells_the_delay_of_the_other() -> None:
    """The cable is the same: the host is known almost as well in the window of one direction."""
    run = draw(61, FABRIC)
    both = score(run, solve(run.packets, run.hops, run.exchanges, run.model, run.windows))
    solution = _without(run, SYNC, first_window_only=True)
    got = score(run, solution)
    assert [int(window.status[H3]) for window in solution.windows] == [Status.OK] * 2
    assert abs(got.error_ns[0, H3] - both.error_ns[0, H3]) < 20.0
    assert abs(got.error_ns[0, H3]) <= got.conditional_ns[0, H3]
    assert got.conditional_ns[0, H3] < 2.0 * both.conditional_ns[0, H3]
