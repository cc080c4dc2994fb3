# SPDX-License-Identifier: Apache-2.0
"""Clocks of hosts that no packet carries, followed: the newest readings of each, and their rows for
a window from the rows of the NICs.

Every window is estimated anew from the readings around it, so that what is said of one depends on
no other. Damaged readings are left out in each, and counted in none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from correction.derived.chain import NOTHING_DERIVED, DerivedClocks, derive
from correction.derived.compose import CLOCK_ROW_DTYPE, ClockRows
from correction.derived.phc import free_running_pairs
from correction.derived.readings import ClockPairs, PairReject
from correction.model import ClockKind, FabricModel
from correction.servo import ServoLog
from correction.table import Corrections
from correction.timebase import NS_PER_S

READINGS_MAX = 4_096
"""Of one pair, the newest: forty seconds at a hundred a second."""
PAIRS_MAX = 65_536
"""Pairs of clocks that are followed; those named first."""
AROUND_NS = 15 * NS_PER_S
"""Readings so far from what a window's rows cover are looked at, too."""


class HostClockPairs:
    """The newest readings of every pair."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[str, str], ClockPairs] = {}

    def add(self, pairs: Iterable[ClockPairs]) -> None:
        """Take readings in the order of the file, stamps as read."""
        for one in pairs:
            key = (one.clock, one.parent)
            known = self._pairs.get(key)
            if known is None and len(self._pairs) >= PAIRS_MAX:
                continue
            rows = one.rows if known is None else np.concatenate([known.rows, one.rows])
            self._pairs[key] = replace(one, rows=rows[-READINGS_MAX:])

    def derived(
        self, free_rows: Corrections, model: FabricModel, servos: Mapping[int, ServoLog]
    ) -> DerivedClocks:
        """The clocks' rows where a window's rows say something of their NIC; these in free-running
        time."""
        if not self._pairs:
            return NOTHING_DERIVED
        rejected: Counter[PairReject] = Counter()
        index = {
            clock.name: number
            for number, clock in enumerate(model.clocks)
            if clock.kind is ClockKind.NIC
        }
        free_rows = free_rows[np.argsort(free_rows["clock"], kind="stable")]
        nics = {
            one.parent: _rows_of(free_rows, one.parent, index[one.parent])
            for one in self._pairs.values()
            if one.parent in index
        }
        chosen: list[ClockPairs] = []
        low_high = {name: _reach_ns(rows) for name, rows in nics.items()}
        for one in _parents_first(self._pairs.values(), set(nics)):
            log = servos.get(index[one.parent]) if one.parent in index else None
            free = free_running_pairs(one, log, rejected)
            reach = low_high.get(one.parent)
            if reach is None:
                continue
            parent = free.rows["parent_local_ns"]
            near = (parent >= reach[0]) & (parent <= reach[1])
            free = replace(free, rows=free.rows[near])
            if not len(free.rows):
                continue
            clock = free.rows["clock_local_ns"]
            low_high.setdefault(one.clock, (int(clock.min()), int(clock.max())))
            chosen.append(free)
        return derive(chosen, nics, rejected)


def _parents_first(pairs: Iterable[ClockPairs], known: set[str]) -> list[ClockPairs]:
    """Pairs whose parent is known, then those whose parent is one of these, and so on."""
    waiting = list(pairs)
    ordered: list[ClockPairs] = []
    known = set(known)
    while ready := [one for one in waiting if one.parent in known]:
        waiting = [one for one in waiting if one.parent not in known]
        ordered += ready
        known |= {one.clock for one in ready}
    return ordered


def _rows_of(free_rows: Corrections, name: str, clock: int) -> ClockRows:
    """A NIC's rows; `free_rows` are in order of clocks."""
    first, last = np.searchsorted(free_rows["clock"], [clock, clock + 1])
    mine = free_rows[first:last]
    rows = np.zeros(len(mine), CLOCK_ROW_DTYPE)
    for field in (
        "valid_from_local_ns",
        "valid_to_local_ns",
        "anchor_local_ns",
        "offset_ns",
        "rate_ppb",
        "status",
    ):
        rows[field] = mine[field]
    for bound in ("bound_hard", "bound_conditional"):
        rows[f"{bound}_ns"] = mine[f"{bound}_worst_ns"]
    rows = rows[np.argsort(rows["valid_from_local_ns"], kind="stable")]
    return ClockRows(clock=name, rows=rows, reasons=("",), chain=(name,))


def _reach_ns(rows: ClockRows) -> tuple[int, int] | None:
    """What readings of a NIC matter for these rows of it."""
    if not len(rows.rows):
        return None
    low = int(rows.rows["valid_from_local_ns"].min())
    return low - AROUND_NS, int(rows.rows["valid_to_local_ns"].max()) + AROUND_NS
