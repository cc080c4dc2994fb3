# SPDX-License-Identifier: Apache-2.0
"""Impossible cycles, and the smallest set of clocks without which the data are possible.

A cycle of negative length proves that some stamps in it are wrong, not which. If one end hangs on
that link alone (a host), it is withheld and everybody else is untouched. Otherwise one clock is
assumed to be wrong: then it lies on every impossible cycle, and all clocks of which that is true
are withheld. If there is none, or the reference is among them, the window is rejected.
"""

from dataclasses import dataclass

import numpy as np

from correction.bounds import CYCLE_SLACK_NS, Constraints, NegativeCycle, find_negative_cycle
from correction.timebase import Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradictions:
    """What causality refutes in one window."""

    cycles: tuple[NegativeCycle, ...]
    """The impossible cycles found, one for every step of the search."""
    blamed: Bools
    """[clock]: withheld."""
    rejected: NegativeCycle | None
    """The cycle that leaves the whole window in doubt."""


def find_contradictions(constraints: Constraints, reference: int) -> Contradictions:
    """Withhold clocks until no impossible cycle is left, or give the window up."""
    blamed = np.zeros(constraints.clock_count, np.bool_)
    cycles: list[NegativeCycle] = []
    rejected = None
    now = constraints
    while (cycle := _dead_end_cycle(now, reference) or find_negative_cycle(now)) is not None:
        cycles.append(cycle)
        culprits = _culprits(now, cycle, reference)
        if not culprits or reference in culprits:
            rejected = cycle
            break
        blamed[culprits] = True
        now = _without(now, blamed)
    return Contradictions(cycles=tuple(cycles), blamed=blamed, rejected=rejected)


def _culprits(constraints: Constraints, cycle: NegativeCycle, reference: int) -> list[int]:
    ends = _dead_ends(constraints, reference)
    hanging = [clock for clock in cycle.clocks if ends[clock]]
    if hanging:
        return hanging
    on_all = []
    for clock in cycle.clocks:
        one = np.zeros(constraints.clock_count, np.bool_)
        one[clock] = True
        if find_negative_cycle(_without(constraints, one)) is None:
            on_all.append(clock)
    return on_all


def _dead_ends(constraints: Constraints, reference: int) -> Bools:
    """Clocks with one neighbour, but for the reference."""
    n = constraints.clock_count
    pairs = np.unique(np.sort(np.stack([constraints.u, constraints.v], axis=1), axis=1), axis=0)
    ends: Bools = np.bincount(pairs.ravel(), minlength=n) == 1
    ends[reference] = False
    return ends


def _dead_end_cycle(constraints: Constraints, reference: int) -> NegativeCycle | None:
    """There and back over the only link of a clock, in less than no time."""
    ends = _dead_ends(constraints, reference)
    limit = {
        (u, v): ns
        for u, v, ns in zip(
            constraints.u.tolist(), constraints.v.tolist(), constraints.limit_ns.tolist(),
            strict=True,
        )
    }  # fmt: skip
    for (u, v), there in limit.items():
        total = there + limit.get((v, u), np.inf)
        if ends[u] and total < -CYCLE_SLACK_NS:
            return NegativeCycle(clocks=(u, v), excess_ns=-total)
    return None


def _without(constraints: Constraints, clocks: Bools) -> Constraints:
    kept = ~(clocks[constraints.u] | clocks[constraints.v])
    return Constraints(
        u=constraints.u[kept],
        v=constraints.v[kept],
        limit_ns=constraints.limit_ns[kept],
        clock_count=constraints.clock_count,
    )
