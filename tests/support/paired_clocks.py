# SPDX-License-Identifier: Apache-2.0
"""Two clocks of a host with known offsets, read in pairs with honest windows."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from correction.derived.compose import CLOCK_ROW_DTYPE, ClockRows
from correction.derived.readings import PAIR_DTYPE, Behaviour, ClockPairs
from correction.table import Status

PARENT_NS = 1_790_000_000_000_000_000
"""What the parent reads at time 0 of these tests: today, in TAI."""
S = 1_000_000_000
FREE = Behaviour(
    steering_ppb=0.0, wander_ns_per_s_sqrt_s=0.0, rate_ppb_max=200_000.0, settable=True
)
STEERED = Behaviour(
    steering_ppb=500_000.0, wander_ns_per_s_sqrt_s=10.0, rate_ppb_max=700_000.0, settable=True
)
SINCE_BOOT = Behaviour(
    steering_ppb=0.0, wander_ns_per_s_sqrt_s=0.0, rate_ppb_max=0.0, settable=False
)

Offset = Callable[[int], int]
"""Clock less parent, ns, by the parent's time since PARENT_NS."""


def pairs_of(
    times_ns: list[int],
    offset: Offset,
    *,
    half_ns: int = 100,
    behaviour: Behaviour = FREE,
    off_ns: list[int] | None = None,
    clock: str = "h3/system",
    parent: str = "h3",
) -> ClockPairs:
    """Readings at times of the parent; off_ns: by how much each is off, within +-half_ns."""
    rows = np.zeros(len(times_ns), PAIR_DTYPE)
    off = [0] * len(times_ns) if off_ns is None else off_ns
    for row, at, error in zip(rows, times_ns, off, strict=True):
        row["clock_local_ns"] = PARENT_NS + at + offset(at)
        row["parent_local_ns"] = PARENT_NS + at + error
        row["uncertainty_ns"] = half_ns
    return ClockPairs(clock=clock, parent=parent, rows=rows, behaviour=behaviour)


def parent_rows(
    *rows: tuple[int, int, int, float, int, int, Status, str], clock: str = "h3"
) -> ClockRows:
    """Rows of a parent: from, to (ns since PARENT_NS), offset at `from`, rate in ppb, hard and
    conditional bound, status, reason."""
    made = np.zeros(len(rows), CLOCK_ROW_DTYPE)
    reasons = [""]
    for row, (start, end, offset, rate, hard, conditional, status, reason) in zip(
        made, rows, strict=True
    ):
        if reason not in reasons:
            reasons.append(reason)
        row["valid_from_local_ns"] = row["anchor_local_ns"] = PARENT_NS + start
        row["valid_to_local_ns"] = PARENT_NS + end
        row["offset_ns"], row["rate_ppb"] = offset, rate
        row["bound_hard_ns"], row["bound_conditional_ns"] = hard, conditional
        row["status"], row["reason"] = status, reasons.index(reason)
    return ClockRows(clock=clock, rows=made, reasons=tuple(reasons), chain=(clock,))


def row_at(rows: NDArray[np.void], local_ns: int) -> np.void | None:
    """The row that covers a reading of the clock."""
    for row in rows:
        if int(row["valid_from_local_ns"]) <= local_ns < int(row["valid_to_local_ns"]):
            found: np.void = row
            return found
    return None


def reference_of(row: np.void, local_ns: int) -> int:
    """A reading in reference time, by the formula of the table."""
    since = local_ns - int(row["anchor_local_ns"])
    return local_ns - int(row["offset_ns"]) - round(since * float(row["rate_ppb"]) * 1e-9)
