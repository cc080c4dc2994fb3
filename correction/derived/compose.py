# SPDX-License-Identifier: Apache-2.0
"""From child to parent to reference: offsets add, bounds add, the worse status stays.

Hard bounds add. Conditional ones add, too: a window is no normal error, so that the root of the sum
of squares would claim more than 99.9 % allows.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.derived.relation import Relation
from correction.table import UNBOUNDED_NS, Status

CLOCK_ROW_DTYPE = np.dtype(
    [
        ("valid_from_local_ns", np.int64),
        ("valid_to_local_ns", np.int64),  # exclusive
        ("anchor_local_ns", np.int64),
        ("offset_ns", np.int64),  # clock - reference at the anchor
        ("rate_ppb", np.float64),  # change of the offset per time of the clock
        ("bound_hard_ns", np.int64),  # the largest within the validity; UNBOUNDED_NS if infinite
        ("bound_conditional_ns", np.int64),
        ("status", np.uint8),
        ("reason", np.int32),  # index into `ClockRows.reasons`
        ("window", np.int32),  # estimation window that the parent's correction is of
    ]
)
_ROUNDING_NS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockRows:
    """One clock's corrections."""

    clock: str
    rows: NDArray[np.void]
    """Array of `CLOCK_ROW_DTYPE`, by validity, not overlapping."""
    reasons: tuple[str, ...]
    chain: tuple[str, ...]
    """From the clock to its last parent, with what a step of the chain is besides."""

    @property
    def method(self) -> str:
        """The chain in words.

        >>> ClockRows(clock="h3/gpu0", rows=np.zeros(0, CLOCK_ROW_DTYPE), reasons=(),
        ...     chain=("h3/gpu0", "h3")).method
        'clock-pairs h3/gpu0 -> h3 -> reference'
        """
        return f"clock-pairs {' -> '.join((*self.chain, 'reference'))}"


def compose(relation: Relation, parent: ClockRows) -> ClockRows:
    """Rows of a clock from its relation to a parent and the parent's rows."""
    reasons: dict[str, int] = {"": 0}
    made: list[tuple[float | int, ...]] = []
    starts = parent.rows["valid_from_local_ns"]
    ends = parent.rows["valid_to_local_ns"]
    for piece in relation.rows:
        if piece["status"] != Status.OK:
            made.append(_void(piece, _number(reasons, relation.reasons[int(piece["reason"])])))
            continue
        line = _Line(piece)
        first = int(np.searchsorted(ends, line.parent_of(line.start_ns), side="right"))
        last = int(np.searchsorted(starts, line.parent_of(line.end_ns), side="right"))
        for index in range(first, last):
            row = parent.rows[index]
            why = parent.reasons[int(row["reason"])]
            if why and not why.startswith(parent.clock):
                why = f"{parent.clock}: {why}"
            one = _on_row(line, row, _number(reasons, why))
            if one is not None:
                made.append(one)
    seconds = ", ".join(map(str, relation.tai_utc_s))
    tai = f" (TAI-UTC {seconds} s)" if seconds else ""
    chain = (relation.clock, parent.chain[0] + tai, *parent.chain[1:])
    rows = np.array(made, CLOCK_ROW_DTYPE)
    return ClockRows(clock=relation.clock, rows=rows, reasons=tuple(reasons), chain=chain)


class _Line:
    """A piece as plain numbers."""

    def __init__(self, piece: np.void) -> None:
        self.start_ns = int(piece["valid_from_local_ns"])
        self.end_ns = int(piece["valid_to_local_ns"])
        self.anchor_ns = int(piece["anchor_local_ns"])
        self.parent_ns = int(piece["anchor_parent_local_ns"])
        self.rate = float(piece["rate_ppb"]) * 1e-9
        self.hard_ns = int(piece["bound_hard_ns"])
        self.conditional_ns = int(piece["bound_conditional_ns"])

    def parent_of(self, clock_ns: int) -> int:
        since = clock_ns - self.anchor_ns
        return self.parent_ns + since - round(since * self.rate)

    def clock_of(self, parent_ns: int) -> int:
        since = parent_ns - self.parent_ns
        return self.anchor_ns + since + round(since * self.rate / (1.0 - self.rate))


def _on_row(line: _Line, row: np.void, reason: int) -> tuple[float | int, ...] | None:
    """The part of a piece on which one row of the parent holds."""
    start = max(line.start_ns, line.clock_of(int(row["valid_from_local_ns"])))
    end = min(line.end_ns, line.clock_of(int(row["valid_to_local_ns"])))
    if start >= end:
        return None
    anchor = (start + end) // 2
    at_parent = line.parent_of(anchor)
    parent_rate = float(row["rate_ppb"]) * 1e-9
    parent_offset = int(row["offset_ns"]) + round(
        (at_parent - int(row["anchor_local_ns"])) * parent_rate
    )
    rate = 1.0 - (1.0 - line.rate) * (1.0 - parent_rate)
    return (
        start,
        end,
        anchor,
        anchor - at_parent + parent_offset,
        rate * 1e9,
        _sum(line.hard_ns, int(row["bound_hard_ns"]), parent_rate),
        _sum(line.conditional_ns, int(row["bound_conditional_ns"]), parent_rate),
        int(row["status"]),
        reason,
        int(row["window"]),
    )


def _sum(own_ns: int, parent_ns: int, parent_rate: float) -> int:
    if UNBOUNDED_NS in (own_ns, parent_ns):
        return UNBOUNDED_NS
    # the parent is looked up at an instant that is off by the clock's own bound
    return own_ns + parent_ns + int(own_ns * abs(parent_rate)) + _ROUNDING_NS


def _void(piece: np.void, reason: int) -> tuple[float | int, ...]:
    anchor = int(piece["anchor_local_ns"])
    return (
        int(piece["valid_from_local_ns"]),
        int(piece["valid_to_local_ns"]),
        anchor,
        0,
        0.0,
        UNBOUNDED_NS,
        UNBOUNDED_NS,
        int(Status.INCONSISTENT),
        reason,
        0,
    )


def _number(reasons: dict[str, int], text: str) -> int:
    return reasons.setdefault(text, len(reasons))
