# SPDX-License-Identifier: Apache-2.0
"""Hard bounds: shortest paths over causality constraints, and named contradictions."""

import itertools

import numpy as np
import pytest

from correction.bounds import Constraints, HardInterval, NegativeCycle, hard_intervals


def _constraints(rows: list[tuple[int, int, float]], count: int) -> Constraints:
    return Constraints(
        u=np.array([r[0] for r in rows], np.int64),
        v=np.array([r[1] for r in rows], np.int64),
        limit_ns=np.array([r[2] for r in rows], np.float64),
        clock_count=count,
    )


def test_one_link_bounds_by_both_one_way_differences() -> None:
    """-min x_vu <= theta <= min x_uv: half of the round trip on either side if symmetric."""
    interval = hard_intervals(_constraints([(0, 1, 70.0), (1, 0, 30.0)], 2), 0)
    assert isinstance(interval, HardInterval)
    assert (interval.low_ns[1], interval.high_ns[1]) == (-30.0, 70.0)
    assert (interval.low_ns[0], interval.high_ns[0]) == (0.0, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_shortest_paths_match_all_simple_paths(seed: int) -> None:
    """Bellman-Ford with negative limits gives the minimum over all simple paths."""
    rng = np.random.default_rng(seed)
    n = 5
    truth = rng.uniform(-1000, 1000, n)
    rows = [
        (u, v, float(truth[v] - truth[u] + rng.uniform(0, 50)))
        for u, v in itertools.permutations(range(n), 2)
        if rng.random() < 0.7
    ]
    interval = hard_intervals(_constraints(rows, n), 0)
    assert isinstance(interval, HardInterval)
    limit = {(u, v): c for u, v, c in rows}
    for target in range(1, n):
        best = np.inf
        others = [x for x in range(1, n) if x != target]
        for k in range(len(others) + 1):
            for middle in itertools.permutations(others, k):
                path = [0, *middle, target]
                best = min(best, sum(limit.get(p, np.inf) for p in itertools.pairwise(path)))
        assert interval.high_ns[target] == pytest.approx(best)
        relative = truth[target] - truth[0]
        assert interval.low_ns[target] <= relative <= interval.high_ns[target]


def test_clock_without_constraints_is_unbounded() -> None:
    """No path: infinite on both sides, not zero."""
    interval = hard_intervals(_constraints([(0, 1, 5.0), (1, 0, 5.0)], 3), 0)
    assert isinstance(interval, HardInterval)
    assert (interval.low_ns[2], interval.high_ns[2]) == (-np.inf, np.inf)


def test_negative_cycle_is_named_with_its_excess() -> None:
    """Impossible data give the clocks of the contradiction, in order of travel."""
    rows = [(0, 1, 10.0), (1, 0, 10.0), (1, 2, 5.0), (2, 3, 5.0), (3, 1, -30.0)]
    cycle = hard_intervals(_constraints(rows, 4), 0)
    assert isinstance(cycle, NegativeCycle)
    assert cycle.excess_ns == pytest.approx(20.0)
    at = cycle.clocks.index(1)
    assert cycle.clocks[at:] + cycle.clocks[:at] == (1, 2, 3)


def test_negative_cycle_away_from_the_reference_is_found() -> None:
    """A contradiction counts wherever it is."""
    rows = [(1, 2, -1.0), (2, 1, 0.0), (0, 3, 1.0), (3, 0, 1.0)]
    cycle = hard_intervals(_constraints(rows, 4), 0)
    assert isinstance(cycle, NegativeCycle)
    assert set(cycle.clocks) == {1, 2}
