# SPDX-License-Identifier: Apache-2.0
"""All derived clocks of a recording, each after its parent."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from correction.derived.compose import ClockRows, compose
from correction.derived.readings import ClockPairs, PairReject
from correction.derived.relation import relate

CHAIN_MAX = 4
"""Clocks between one and the reference: GPU, monotonic, system, PHC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedClocks:
    """What follows from clock pairs."""

    clocks: tuple[ClockRows, ...]
    """Parents first."""
    unknown: Mapping[str, str]
    """By clock without any row, why."""
    rejected: Mapping[PairReject, int]


NOTHING_DERIVED = DerivedClocks(clocks=(), unknown={}, rejected={})
"""Where there are no clock pairs."""


def derive(
    pairs: Sequence[ClockPairs],
    known: Mapping[str, ClockRows],
    rejected: Counter[PairReject] | None = None,
) -> DerivedClocks:
    """Correct every clock that readings tie to a known one, directly or by way of others.

    known: rows of PHCs, on the clock that the readings of them are on. Of several parents of one
    clock the one that came first counts. rejected: counts that are there already.
    """
    rejected = Counter() if rejected is None else rejected
    rows = dict(known)
    waiting = [one for one in pairs if one.clock not in known]
    made: list[ClockRows] = []
    for _ in range(CHAIN_MAX):
        ready = [one for one in waiting if one.parent in rows]
        for one in ready:
            if one.clock not in rows:
                rows[one.clock] = compose(relate(one, rejected), rows[one.parent])
                made.append(rows[one.clock])
        waiting = [one for one in waiting if one.clock not in rows]
    unknown = {one.clock: f"{one.clock}: its parent {one.parent} is not known" for one in waiting}
    unknown |= {
        one.clock: f"{one.clock}: no reading falls where its parent is known"
        for one in made
        if not len(one.rows)
    }
    return DerivedClocks(
        clocks=tuple(one for one in made if len(one.rows)),
        unknown=unknown,
        rejected=dict(rejected),
    )
