# SPDX-License-Identifier: Apache-2.0
"""Undo what a PTP servo did to a PHC, from the servo's own log.

A disciplined PHC changes its rate at every servo update, by far more than an oscillator wanders:
0.7 ppm for a microsecond of PTP noise, which is 350 ns over half a second. A host knows each
adjustment exactly (the frequency it set, the step it made, the PHC's reading at that instant), so
that the PHC can be mapped to the counter that it would be without a servo. That *free-running*
counter is linear over a window but for wander; clocks are estimated in it, and the result is mapped
back, one linear piece per adjustment.

Model: between adjustments i and i + 1, phc = phc_i + (free - free_i) * (1 + frequency_i), with
phc_i the reading after the step at adjustment i. free is 0 at the first adjustment of the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from correction.records import Exchanges
from correction.table import Corrections, CorrectionTable, bounds_at

ADJUSTMENT_DTYPE = np.dtype(
    [
        ("phc_local_ns", np.int64),  # reading just before the adjustment
        ("step_ns", np.int64),  # phase step made at that instant, added to the reading
        ("frequency_ppb", np.float64),  # frequency adjustment in force from then on
    ]
)
"""One row per adjustment of one PHC, in the order in which they were made."""

STOPPED_PPB = -1e9
"""A frequency adjustment at which a clock stands still."""


@dataclass(frozen=True, slots=True)
class ServoLog:
    """The adjustments of one PHC, ready for conversion in both directions."""

    adjustments: NDArray[np.void]
    """Array of `ADJUSTMENT_DTYPE`; may be empty: then free-running time is the PHC's."""
    start_local_ns: NDArray[np.int64]
    """PHC just after each adjustment."""
    start_free_ns: NDArray[np.int64]
    """Free-running counter at each adjustment."""

    @classmethod
    def from_adjustments(cls, adjustments: NDArray[np.void]) -> "ServoLog":
        """From rows in order.

        ValueError for a PHC that goes back between two of them, and for a frequency that no clock
        can have: not finite, or one that stops it or turns it back.
        """
        frequency_ppb = adjustments["frequency_ppb"]
        wrong = ~(np.isfinite(frequency_ppb) & (frequency_ppb > STOPPED_PPB))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"adjustment {row}: a frequency of {frequency_ppb[row]} ppb; expected a finite "
                f"number above {STOPPED_PPB:.0f}"
            )
        start_local_ns = adjustments["phc_local_ns"] + adjustments["step_ns"]
        elapsed_ns = adjustments["phc_local_ns"][1:] - start_local_ns[:-1]
        if np.any(elapsed_ns < 0):
            row = int(np.argmax(elapsed_ns < 0)) + 1
            raise ValueError(f"adjustment {row} is earlier on the PHC than the one before it")
        free_ns = elapsed_ns / (1.0 + adjustments["frequency_ppb"][:-1] * 1e-9)
        start_free_ns = np.zeros(len(adjustments), dtype=np.int64)
        if len(adjustments) > 1:
            start_free_ns[1:] = np.cumsum(np.rint(free_ns).astype(np.int64))
        return cls(adjustments, start_local_ns, start_free_ns)

    def pieces(self, phc_local_ns: NDArray[np.int64]) -> NDArray[np.intp]:
        """Index of the adjustment in force at each PHC reading; -1 before the first.

        A reading that a backward step made ambiguous belongs to the later piece.
        """
        if not len(self.adjustments):
            return np.full(np.shape(phc_local_ns), -1, dtype=np.intp)
        return (
            np.searchsorted(
                np.minimum.accumulate(self.start_local_ns[::-1])[::-1], phc_local_ns, side="right"
            )
            - 1
        )

    def to_free_ns(self, phc_local_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Free-running counter at PHC readings, integer ns; before the first adjustment the PHC
        is taken to have run free."""
        if not len(self.adjustments):
            return np.asarray(phc_local_ns, dtype=np.int64)
        piece = self.pieces(phc_local_ns)
        before = piece < 0
        piece = np.maximum(piece, 0)
        rate = 1.0 + self.adjustments["frequency_ppb"][piece] * 1e-9
        rate = np.where(before, 1.0, rate)
        start_ns = self.start_local_ns[piece]
        start_ns = np.where(before, self.adjustments["phc_local_ns"][0], start_ns)
        since_ns = phc_local_ns - start_ns
        scaled_ns = since_ns - np.rint(since_ns * ((rate - 1.0) / rate)).astype(np.int64)
        return np.asarray(self.start_free_ns[piece] + scaled_ns, dtype=np.int64)


EMPTY_SERVO_LOG = ServoLog.from_adjustments(np.zeros(0, dtype=ADJUSTMENT_DTYPE))
"""A clock that no servo steers."""


def steered_rows(rows: Corrections, log: ServoLog) -> Corrections:
    """One clock's correction rows, from free-running time onto its PHC: a row per servo piece.

    rows: the clock's rows in free-running time. reference = free - offset(free); on a piece
    phc = phc_i + (free - free_i) * (1 + frequency_i), so that the PHC's own offset is
    phc - free + offset(free), linear in phc. A piece's bounds are the worst that the row has on
    it, since its anchor is no longer the row's. Readings that a step back has the PHC show twice
    are covered by no row: at which of the two times one was taken cannot be told.
    """
    if not len(log.adjustments):
        return rows
    result: list[Corrections] = []
    # what is shown again after a step back, and what had been shown before it
    ends_local_ns = np.minimum(
        log.adjustments["phc_local_ns"][1:],
        np.minimum.accumulate(log.start_local_ns[:0:-1])[::-1],
    )
    shown_ns = log.adjustments["phc_local_ns"] + (log.adjustments["step_ns"] < 0)
    starts_local_ns = np.maximum(np.maximum.accumulate(shown_ns), log.start_local_ns)
    for row in rows:
        for piece in _pieces_of(row, log):
            last = piece == len(log.adjustments) - 1
            end_local_ns = None if last else int(ends_local_ns[piece])
            one = _on_piece(row, log, piece, int(starts_local_ns[piece]), end_local_ns)
            if one is not None:
                result.append(one)
    return np.concatenate(result) if result else rows[:0]


def _pieces_of(row: np.void, log: ServoLog) -> range:
    """Pieces that a row can lie on, by free-running time; one more at either end for rounding."""
    first = np.searchsorted(log.start_free_ns, row["valid_from_local_ns"], side="right") - 2
    last = np.searchsorted(log.start_free_ns, row["valid_to_local_ns"], side="left") + 1
    return range(max(int(first), 0), min(int(last), len(log.adjustments)))


def _on_piece(
    row: np.void, log: ServoLog, piece: int, first_local_ns: int, end_local_ns: int | None
) -> Corrections | None:
    """The part of one row that lies on one piece, from a PHC reading up to another, or None."""
    rate = 1.0 + float(log.adjustments["frequency_ppb"][piece]) * 1e-9
    start_local, start_free = int(log.start_local_ns[piece]), int(log.start_free_ns[piece])

    def local_ns(free_ns: int) -> int:
        since = free_ns - start_free
        return start_local + since + round(since * (rate - 1.0))

    valid_from = max(local_ns(int(row["valid_from_local_ns"])), first_local_ns)
    valid_to = local_ns(int(row["valid_to_local_ns"]))
    if end_local_ns is not None:
        valid_to = min(valid_to, end_local_ns)
    if valid_from >= valid_to:
        return None
    anchor = (valid_from + valid_to) // 2
    since = anchor - start_local
    free = start_free + since - round(since * ((rate - 1.0) / rate))
    from_row_anchor = free - int(row["anchor_local_ns"])
    offset = int(row["offset_ns"]) + round(from_row_anchor * float(row["rate_ppb"]) * 1e-9)
    reach = max(
        abs(from_row_anchor - (anchor - valid_from)), abs(from_row_anchor + (valid_to - anchor))
    )
    one = np.array([row], dtype=row.dtype)
    hard, conditional = bounds_at(one, np.array([reach], np.int64))
    one["valid_from_local_ns"], one["valid_to_local_ns"] = valid_from, valid_to
    one["anchor_local_ns"] = anchor
    one["offset_ns"] = anchor - free + offset
    one["rate_ppb"] = (1.0 - (1.0 - float(row["rate_ppb"]) * 1e-9) / rate) * 1e9
    one["bound_hard_ns"], one["bound_conditional_ns"] = hard, conditional
    # already the worst on this piece: growing it again from the new anchor would count twice
    one["bound_hard_worst_ns"], one["bound_conditional_worst_ns"] = hard, conditional
    return one


def free_running_exchanges(exchanges: Exchanges, servos: Mapping[int, ServoLog]) -> Exchanges:
    """The exchanges with t2 and t3 in each client's free-running time; servos by clock index."""
    result = exchanges.copy()
    for clock, log in servos.items():
        mine = result["client"] == clock
        for stamp in ("t2_local_ns", "t3_local_ns"):
            result[stamp][mine] = log.to_free_ns(result[stamp][mine])
    return result


def steered_table(table: CorrectionTable, servos: Mapping[int, ServoLog]) -> CorrectionTable:
    """The table with the rows of every steered clock on its PHC."""
    parts = [
        steered_rows(table.rows_of(clock), servos.get(clock, EMPTY_SERVO_LOG))
        for clock in range(len(table.clock_names))
    ]
    return replace(table, rows=np.concatenate(parts))
