# SPDX-License-Identifier: Apache-2.0
"""What causality alone proves about the offsets between clocks, whatever corrected them.

A pair "first happened before second" proves `offset(second) - offset(first) <= gap` of its raw
stamps. The smallest gap of each pair of clocks is a difference constraint; shortest paths through
all of them give the tightest interval for every two clocks, and a negative cycle says that the
stamps contradict each other. Nothing is repaired here: it is evidence, to compare with.
"""

from dataclasses import dataclass
from enum import StrEnum, unique

import numpy as np
from numpy.typing import NDArray

from tracing_core.ordering import CausalPairs

DRIFT_PPM_MAX = 50.0
"""Of one free-running clock; older pairs prove that much less about the newest instant."""
CLOCKS_MAX = 512
"""Beyond it, only clocks that have pairs with each other are compared."""
_NO_LIMIT = 2**62


@unique
class EvidenceStatus(StrEnum):
    """What the pairs say about one clock."""

    CONSISTENT = "consistent"
    """It may be right, as far as its pairs go."""
    OFF = "off"
    """It cannot agree with most of the clocks it has pairs with, which may agree themselves."""
    UNDECIDED = "undecided"
    """It cannot agree with a clock, and which of the two is wrong cannot be told."""
    CONTRADICTORY = "contradictory"
    """No constant offset fits its stamps: it stepped, or the instrumentation is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockEvidence:
    """One clock against the others."""

    clock: str
    status: EvidenceStatus
    against: str
    """The clock with the narrowest interval, one that is not off if there is one."""
    offset_earliest_ns: int | None
    """Least possible offset to it, positive when this clock is ahead; None: no limit."""
    offset_latest_ns: int | None
    pair_count: int
    """Pairs of stamps with other clocks."""


def clock_evidence(pairs: CausalPairs) -> list[ClockEvidence]:
    """Every named clock that has a pair with another one, as of its newest stamp."""
    named = np.array([bool(name) for name in pairs.clocks], bool)
    usable = (
        named[pairs.first_clock] & named[pairs.second_clock]
        & (pairs.first_clock != pairs.second_clock) & ~pairs.end_before_start
        & (pairs.first_local_ns != 0) & (pairs.second_local_ns != 0)
    )  # fmt: skip
    if not usable.any():
        return []
    limits = _limits(pairs, usable)
    used = np.unique(np.concatenate([pairs.first_clock[usable], pairs.second_clock[usable]]))
    limits = limits[np.ix_(used, used)]
    if len(used) <= CLOCKS_MAX:
        _shortest_paths(limits)
    contradictory = limits.diagonal() < 0
    # offset(column) - offset(row) lies in [-limits.T, limits]
    excluded = (limits < 0) | (limits.T < 0)
    known = (limits < _NO_LIMIT) | (limits.T < _NO_LIMIT)
    np.fill_diagonal(excluded, False)
    np.fill_diagonal(known, False)
    is_off = 2 * excluded.sum(axis=0) > known.sum(axis=0)
    if 2 * is_off.sum() >= len(used):  # as of two clocks: no majority that agrees
        is_off[:] = False
    counts = np.bincount(pairs.first_clock[usable], minlength=len(pairs.clocks)) + np.bincount(
        pairs.second_clock[usable], minlength=len(pairs.clocks)
    )
    found = []
    for index, clock in enumerate(used):
        against, low_ns, high_ns = _narrowest(limits, known, is_off, index)
        if contradictory[index]:
            status = EvidenceStatus.CONTRADICTORY
        elif is_off[index]:
            status = EvidenceStatus.OFF
        elif (excluded[:, index] & ~is_off).any():
            status = EvidenceStatus.UNDECIDED
        else:
            status = EvidenceStatus.CONSISTENT
        found.append(
            ClockEvidence(
                clock=pairs.clocks[clock],
                status=status,
                against=pairs.clocks[used[against]],
                offset_earliest_ns=low_ns,
                offset_latest_ns=high_ns,
                pair_count=int(counts[clock]),
            )
        )
    return found


def _limits(pairs: CausalPairs, usable: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Per (first, second) clock the largest possible offset(second) - offset(first)."""
    first, second = pairs.first_local_ns[usable], pairs.second_local_ns[usable]
    newest = np.full(len(pairs.clocks), -_NO_LIMIT, np.int64)
    np.maximum.at(newest, pairs.first_clock[usable], first)
    age_ns = newest[pairs.first_clock[usable]] - first  # on one clock, however far that is off
    widening_ns = np.ceil(age_ns * (2 * DRIFT_PPM_MAX * 1e-6)).astype(np.int64)
    size = len(pairs.clocks)
    limits = np.full((size, size), _NO_LIMIT, np.int64)
    where = (pairs.first_clock[usable], pairs.second_clock[usable])
    np.minimum.at(limits, where, second - first + widening_ns)
    np.fill_diagonal(limits, 0)
    return limits


def _shortest_paths(limits: NDArray[np.int64]) -> None:
    """In place (Floyd and Warshall); a sum with no limit has none."""
    for via in range(len(limits)):
        before, behind = limits[:, via : via + 1], limits[via : via + 1, :]
        sums = np.where((before < _NO_LIMIT) & (behind < _NO_LIMIT), before + behind, _NO_LIMIT)
        np.minimum(limits, np.maximum(sums, -_NO_LIMIT), out=limits)  # a negative cycle grows


def _narrowest(
    limits: NDArray[np.int64],
    known: NDArray[np.bool_],
    is_off: NDArray[np.bool_],
    index: int,
) -> tuple[int, int | None, int | None]:
    """The other clock that says most about this one, and the interval of the offset to it."""
    high, low = limits[:, index], limits[index, :]
    width = np.where(
        (high < _NO_LIMIT) & (low < _NO_LIMIT), high.astype(np.float64) + low, float(_NO_LIMIT)
    )
    rank = np.lexsort((width, is_off, ~known[:, index]))
    against = int(rank[0])
    return (
        against,
        -int(low[against]) if low[against] < _NO_LIMIT else None,
        int(high[against]) if high[against] < _NO_LIMIT else None,
    )
