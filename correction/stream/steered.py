# SPDX-License-Identifier: Apache-2.0
"""A window's rows onto the PHCs as they read: `correction.servo.steered_rows` for many clocks with
a few rows each.

A clock that is steered is spoken of as far as its log is known. Readings that a servo's step back
has it show twice lose the row that an earlier window gave them.
"""

from dataclasses import dataclass

import numpy as np

from correction.servo import ServoLog
from correction.stream.rows import WindowRows
from correction.stream.servo_logs import ServoLogs
from correction.table import UNBOUNDED_NS, Corrections, Status, bounds_at
from correction.timebase import Bools, Float64s, Int64s

NO_END = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pieces:
    """Servo pieces, one per row that is made."""

    row: Int64s
    rate: Float64s
    """Of the PHC against free-running time."""
    start_local_ns: Int64s
    start_free_ns: Int64s
    first_local_ns: Int64s
    """First reading that this piece alone shows."""
    end_local_ns: Int64s
    """NO_END: of the newest."""


def steered_window(told: WindowRows, servos: ServoLogs) -> WindowRows:
    """The rows on the clocks as they read, a row per servo piece."""
    rows = told.rows.copy()
    for clock in np.unique(rows["clock"]).tolist():
        reach_ns = servos.reach_free_ns(clock)
        if reach_ns is not None:
            mine = rows["clock"] == clock
            rows["valid_to_local_ns"][mine] = np.minimum(rows["valid_to_local_ns"][mine], reach_ns)
    kept = rows["valid_from_local_ns"] < rows["valid_to_local_ns"]
    rows, held = rows[kept], told.held[kept]
    logs = {clock: log for clock, log in servos.logs.items() if len(log.adjustments)}
    steered = np.isin(rows["clock"], list(logs))
    made, of_row = _on_pieces(rows[steered], logs)
    repeated = _repeated(rows[steered], logs)
    held = np.concatenate([held[~steered], held[steered][of_row], np.zeros(len(repeated), bool)])
    rows = np.concatenate([rows[~steered], made, repeated])
    order = np.lexsort((rows["valid_from_local_ns"], rows["clock"]))
    return WindowRows(rows=rows[order], held=held[order])


def _on_pieces(rows: Corrections, logs: dict[int, ServoLog]) -> tuple[Corrections, Int64s]:
    """(a row per piece of each row, the row that each is made of)."""
    pieces = _pieces_of(rows, logs)
    row = rows[pieces.row]

    def local_ns(free_ns: Int64s) -> Int64s:
        since = free_ns - pieces.start_free_ns
        drift: Int64s = np.rint(since * (pieces.rate - 1.0)).astype(np.int64)
        return pieces.start_local_ns + since + drift

    valid_from = np.maximum(local_ns(row["valid_from_local_ns"]), pieces.first_local_ns)
    valid_to = np.minimum(local_ns(row["valid_to_local_ns"]), pieces.end_local_ns)
    anchor = valid_from + (valid_to - valid_from) // 2
    since = anchor - pieces.start_local_ns
    free = pieces.start_free_ns + since
    free -= np.rint(since * ((pieces.rate - 1.0) / pieces.rate)).astype(np.int64)
    away = free - row["anchor_local_ns"]
    drift = np.rint(away * row["rate_ppb"] * 1e-9).astype(np.int64)
    reach = np.maximum(np.abs(away - (anchor - valid_from)), np.abs(away + (valid_to - anchor)))
    hard, conditional = bounds_at(row, reach)
    made = row.copy()
    made["valid_from_local_ns"], made["valid_to_local_ns"] = valid_from, valid_to
    made["anchor_local_ns"] = anchor
    made["offset_ns"] = anchor - free + row["offset_ns"] + drift
    made["rate_ppb"] = (1.0 - (1.0 - row["rate_ppb"] * 1e-9) / pieces.rate) * 1e9
    # the worst on this piece: growing them again from the new anchor would count twice
    for name, bound_ns in (("bound_hard", hard), ("bound_conditional", conditional)):
        made[f"{name}_ns"] = made[f"{name}_worst_ns"] = bound_ns
    some: Bools = valid_from < valid_to
    return made[some], pieces.row[some]


def _pieces_of(rows: Corrections, logs: dict[int, ServoLog]) -> _Pieces:
    """The pieces that each row can lie on, by free-running time; more at its ends for rounding."""
    of_row: list[Int64s] = [np.zeros(0, np.int64)]
    rate: list[Float64s] = [np.zeros(0)]
    local, free, first, last = (list[Int64s]([np.zeros(0, np.int64)]) for _ in range(4))
    low = rows["valid_from_local_ns"].tolist()
    high = rows["valid_to_local_ns"].tolist()
    for number, clock in enumerate(rows["clock"].tolist()):
        log = logs[clock]
        begin = max(int(np.searchsorted(log.start_free_ns, low[number], side="right")) - 2, 0)
        end = int(np.searchsorted(log.start_free_ns, high[number], side="left")) + 1
        some = slice(begin, min(end, len(log.adjustments)))
        frequency = log.adjustments["frequency_ppb"][some]
        starts, ends = _shown_once_ns(log)
        of_row.append(np.full(len(frequency), number))
        rate.append(1.0 + frequency * 1e-9)
        local.append(log.start_local_ns[some])
        free.append(log.start_free_ns[some])
        first.append(starts[some])
        last.append(ends[some])
    return _Pieces(
        row=np.concatenate(of_row),
        rate=np.concatenate(rate),
        start_local_ns=np.concatenate(local),
        start_free_ns=np.concatenate(free),
        first_local_ns=np.concatenate(first),
        end_local_ns=np.concatenate(last),
    )


def _shown_once_ns(log: ServoLog) -> tuple[Int64s, Int64s]:
    """Between which readings of the PHC each piece alone is."""
    before = log.adjustments["phc_local_ns"]
    repeated = np.minimum.accumulate(log.start_local_ns[:0:-1])[::-1]
    shown = np.maximum.accumulate(before + (log.adjustments["step_ns"] < 0))
    starts: Int64s = np.maximum(shown, log.start_local_ns)
    return starts, np.append(np.minimum(before[1:], repeated), NO_END)


def _repeated(rows: Corrections, logs: dict[int, ServoLog]) -> Corrections:
    """Rows without a bound over what servos' steps back, inside these rows, had shown twice."""
    parts = [rows[:0]]
    for clock, log in logs.items():
        back = log.adjustments["step_ns"] < 0
        mine = rows[rows["clock"] == clock] if back.any() else rows[:0]
        if not len(mine):
            continue
        free = log.start_free_ns
        low, high = mine["valid_from_local_ns"].min(), mine["valid_to_local_ns"].max()
        for piece in np.flatnonzero(back & (free >= low) & (free < high)).tolist():
            void = mine[:1].copy()
            void["valid_from_local_ns"] = void["anchor_local_ns"] = log.start_local_ns[piece]
            void["valid_to_local_ns"] = log.adjustments["phc_local_ns"][piece] + 1
            void["offset_ns"], void["rate_ppb"] = 0, 0.0
            for name in ("bound_hard_ns", "bound_conditional_ns"):
                void[name] = void[name.replace("_ns", "_worst_ns")] = UNBOUNDED_NS
            void["status"] = Status.INCONSISTENT
            parts.append(void)
    return np.concatenate(parts)
