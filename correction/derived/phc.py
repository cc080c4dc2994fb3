# SPDX-License-Identifier: Apache-2.0
"""PHCs as parents of other clocks: their rows, and readings of them, in free-running time.

A PHC that a servo steers changes its rate at each update. Its adjustments are known, so that other
clocks are compared with the counter that would run without the servo (`correction.servo`).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from correction.derived.compose import CLOCK_ROW_DTYPE, ClockRows
from correction.derived.readings import ClockPairs, PairReject, tai_utc_seconds
from correction.model import ClockKind
from correction.servo import ServoLog
from correction.solution import FabricSolution

_SAME = (
    "valid_from_local_ns",
    "valid_to_local_ns",
    "anchor_local_ns",
    "offset_ns",
    "rate_ppb",
    "status",
    "window",
)


def phc_rows(solution: FabricSolution) -> dict[str, ClockRows]:
    """By name, the rows of every NIC's clock; `solution` is in free-running time."""
    found = {}
    for index, clock in enumerate(solution.model.clocks):
        if clock.kind is not ClockKind.NIC:
            continue
        table = solution.table.rows_of(index)
        rows = np.zeros(len(table), CLOCK_ROW_DTYPE)
        for name in _SAME:
            rows[name] = table[name]
        for bound in ("bound_hard", "bound_conditional"):
            rows[f"{bound}_ns"] = table[f"{bound}_worst_ns"]
        reasons: dict[str, int] = {"": 0}
        for row in rows:
            why = solution.windows[int(row["window"])].reason[index]
            row["reason"] = reasons.setdefault(why, len(reasons))
        found[clock.name] = ClockRows(
            clock=clock.name, rows=rows, reasons=tuple(reasons), chain=(clock.name,)
        )
    return found


def free_running_pairs(
    pairs: ClockPairs, log: ServoLog | None, rejected: Counter[PairReject]
) -> ClockPairs:
    """The pairs with a steered parent in its free-running time."""
    if log is None or not len(log.adjustments):
        return pairs
    rows = pairs.rows
    twice = _shown_twice(rows["parent_local_ns"], log)
    if twice.any():
        rejected[PairReject.PARENT_SHOWN_TWICE] += int(np.count_nonzero(twice))
    rows = rows[~twice].copy()
    rows["parent_local_ns"] = log.to_free_ns(rows["parent_local_ns"])
    return replace(pairs, rows=rows, tai_utc_s=tai_utc_seconds(pairs.rows))


def all_free_running(
    pairs: tuple[ClockPairs, ...],
    servos: Mapping[str, ServoLog],
    rejected: Counter[PairReject],
) -> tuple[ClockPairs, ...]:
    """Every clock's pairs; servos by the name of the PHC."""
    return tuple(free_running_pairs(one, servos.get(one.parent), rejected) for one in pairs)


def _shown_twice(readings_ns: NDArray[np.int64], log: ServoLog) -> NDArray[np.bool_]:
    """Readings that lie between a step back and what the clock had shown before it."""
    back = log.adjustments[log.adjustments["step_ns"] < 0]
    twice = np.zeros(len(readings_ns), np.bool_)
    for row in back:
        before = int(row["phc_local_ns"])
        twice |= (readings_ns >= before + int(row["step_ns"])) & (readings_ns <= before)
    return twice
