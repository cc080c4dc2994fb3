# SPDX-License-Identifier: Apache-2.0
"""Applies versioned corrections to raw stamps, in bulk and one at a time.

A later version re-times stored spans without touching them: for each stamp the row of the
highest version not above `version` that covers it decides. A stamp that no row covers stays
unknown - it is never extrapolated.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tracing_core.clock_domains import derived_kind
from tracing_core.correction_layers import UNCOVERED, Layer, decisive, stacked
from tracing_core.model import ClockStatus, CorrectedInstant, Correction

Int64Array = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedArray:
    """Corrected stamps of an array. Where `row` is UNCOVERED nothing else has a meaning."""

    row: NDArray[np.int64]
    """Index into the table's rows."""
    corrected_reference_ns: Int64Array
    bound_hard_ns: FloatArray
    """Infinite where unknown."""
    bound_conditional_ns: FloatArray
    flagged: NDArray[np.bool_]
    """The row's status is `flagged` (False where uncovered)."""
    void: NDArray[np.bool_]
    """The row's status is `unknown` or `disrupted`: its value means nothing."""

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """No row covers the stamp, or its clock's status voids it."""
        uncovered: NDArray[np.bool_] = self.row == UNCOVERED
        return uncovered | self.void

    @property
    def usable(self) -> NDArray[np.bool_]:
        """A synchronised clock's row covers the stamp."""
        return ~self.unknown & ~self.flagged


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestWindow:
    """One clock's rows of its newest estimation window, in order of time."""

    rows: tuple[Correction, ...]
    centre: Correction
    """The row at the window's centre: the one with the smallest conditional bound. Bounds grow away
    from it, and the window's last row is the tail of its holdover."""


class CorrectionTable:
    """All correction rows up to one version, indexed by clock."""

    def __init__(self, rows: Iterable[tuple[int, Correction]], *, version: int) -> None:
        """`rows` are (correction_version, row); rows above `version` are ignored."""
        self.version = version
        self.rows: tuple[Correction, ...] = ()
        self._layers: dict[str, tuple[Layer, ...]] = {}
        self._columns = _Columns.of(())
        self._add([(v, row) for v, row in rows if v <= version])

    def extended(
        self, rows: Iterable[tuple[int, Correction]], *, version: int
    ) -> "CorrectionTable":
        """A table with more rows, all of versions above this table's, in a fraction of the time."""
        more = CorrectionTable((), version=version)
        more.rows, more._layers, more._columns = self.rows, dict(self._layers), self._columns
        more._add([(v, row) for v, row in rows if self.version < v <= version])
        return more

    def _add(self, rows: Sequence[tuple[int, Correction]]) -> None:
        grouped: dict[tuple[int, str], list[Correction]] = defaultdict(list)
        for version, row in rows:
            grouped[version, row.clock].append(row)
        added: list[Correction] = []
        for (version, clock), mine in sorted(grouped.items(), key=lambda item: item[0]):
            layer = Layer.of(mine, len(self.rows) + len(added), version)
            self._layers[clock] = stacked(self._layers.get(clock, ()), layer)
            added += mine
        self.rows += tuple(added)
        self._columns = self._columns.followed_by(_Columns.of(added))

    @property
    def clocks(self) -> Sequence[str]:
        """Names of the clocks that have a row."""
        return tuple(self._layers)

    def effective_rows(self) -> Sequence[Correction]:
        """Rows that still decide somewhere: not wholly replaced by one later version's row."""
        return [row for clock in self._layers for row in self.effective_rows_of(clock)]

    def effective_rows_of(self, clock: str) -> Sequence[Correction]:
        """The same of one clock."""
        return [self.rows[index] for _, index in decisive(self._layers.get(clock, ()))]

    def effective_count(self, clock: str) -> int:
        """How many they are."""
        return len(decisive(self._layers.get(clock, ())))

    def newest_windows(self) -> dict[str, NewestWindow]:
        """By clock what summaries speak of: the newest window in force, and its centre."""
        found: dict[str, NewestWindow] = {}
        for clock, layers in self._layers.items():
            effective = decisive(layers)
            version, index = max(effective, key=lambda item: self.rows[item[1]].valid_from_local_ns)
            newest = self.rows[index]
            rows = sorted(
                (
                    self.rows[one]
                    for row_version, one in effective
                    if row_version == version and self.rows[one].window_index == newest.window_index
                ),
                key=lambda row: row.valid_from_local_ns,
            )
            found[clock] = NewestWindow(rows=tuple(rows), centre=_centre(rows))
        return found

    def row_indices(self, clock: str, raw_local_ns: Int64Array) -> Int64Array:
        """Index of the deciding row per stamp of one clock, UNCOVERED where there is none."""
        found = np.full(raw_local_ns.shape, UNCOVERED, np.int64)
        for layer in reversed(self._layers.get(clock, ())):
            missing = found == UNCOVERED
            if not missing.any():
                break
            found[missing] = layer.find(raw_local_ns[missing])
        return found

    def correct(
        self, clocks: Sequence[str], clock_index: NDArray[np.integer], raw_local_ns: Int64Array
    ) -> CorrectedArray:
        """Corrects `raw_local_ns[i]`, a stamp of `clocks[clock_index[i]]`; vectorised by clock."""
        row = np.full(raw_local_ns.shape, UNCOVERED, np.int64)
        for index in np.unique(clock_index).tolist():
            if index < 0:  # no clock is known
                continue
            mask = clock_index == index
            row[mask] = self.row_indices(clocks[index], raw_local_ns[mask])
        return self.apply(row, raw_local_ns)

    def correct_clock(self, clock: str, raw_local_ns: Int64Array) -> CorrectedArray:
        """Corrects stamps that are all of one clock."""
        return self.apply(self.row_indices(clock, raw_local_ns), raw_local_ns)

    def apply(self, row: Int64Array, raw_local_ns: Int64Array) -> CorrectedArray:
        """Applies the given rows; integers until the difference to the anchor is taken."""
        covered = row != UNCOVERED
        corrected = np.zeros(raw_local_ns.shape, np.int64)
        hard = np.full(raw_local_ns.shape, np.inf)
        conditional = np.full(raw_local_ns.shape, np.inf)
        flagged = np.zeros(raw_local_ns.shape, bool)
        void = np.zeros(raw_local_ns.shape, bool)
        r, raw = row[covered], raw_local_ns[covered]
        columns = self._columns
        elapsed_ns = (raw - columns.anchor_local_ns[r]).astype(np.float64)
        drift_ns = np.rint(columns.rate_ppb[r] * 1e-9 * elapsed_ns).astype(np.int64)
        corrected[covered] = raw - columns.offset_ns[r] - drift_ns
        hard[covered] = columns.hard_ns[r]
        conditional[covered] = columns.conditional_ns[r]
        flagged[covered] = columns.flagged[r]
        void[covered] = columns.void[r]
        return CorrectedArray(
            row=row,
            corrected_reference_ns=corrected,
            bound_hard_ns=hard,
            bound_conditional_ns=conditional,
            flagged=flagged,
            void=void,
        )

    def correct_one(self, clock: str, raw_local_ns: int) -> CorrectedInstant:
        """Corrects one stamp and says why when it cannot."""
        if not clock:
            return _unknown(raw_local_ns, "the span names no clock domain")
        if clock not in self._layers:
            missing = ": no clock pair ties it to a NIC" if derived_kind(clock) else ""
            return _unknown(raw_local_ns, f"no correction exists for clock {clock}{missing}")
        result = self.correct_clock(clock, np.array([raw_local_ns], np.int64))
        index = int(result.row[0])
        if index == UNCOVERED:
            return _unknown(raw_local_ns, f"no correction of clock {clock} covers this instant")
        row = self.rows[index]
        return CorrectedInstant(
            raw_local_ns=raw_local_ns,
            corrected_reference_ns=int(result.corrected_reference_ns[0]),
            bound_hard_ns=row.bound_hard_ns,
            bound_conditional_ns=row.bound_conditional_ns,
            status=row.status,
            method=row.method,
            reason=row.reason,
        )


@dataclass(frozen=True, slots=True)
class _Columns:
    """The rows' numbers as arrays."""

    offset_ns: Int64Array
    anchor_local_ns: Int64Array
    rate_ppb: FloatArray
    hard_ns: FloatArray
    conditional_ns: FloatArray
    flagged: NDArray[np.bool_]
    void: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Sequence[Correction]) -> "_Columns":
        return cls(
            np.array([r.offset_ns for r in rows], np.int64),
            np.array([r.anchor_local_ns for r in rows], np.int64),
            np.array([r.rate_ppb for r in rows], np.float64),
            _bounds(r.bound_hard_ns for r in rows),
            _bounds(r.bound_conditional_ns for r in rows),
            np.array([r.status is ClockStatus.FLAGGED for r in rows], np.bool_),
            np.array([r.status in _VOID for r in rows], np.bool_),
        )

    def followed_by(self, more: "_Columns") -> "_Columns":
        if not len(more.offset_ns):
            return self
        pairs = ((getattr(self, f.name), getattr(more, f.name)) for f in fields(self))
        return _Columns(*(np.concatenate(pair) for pair in pairs))


_VOID = (ClockStatus.UNKNOWN, ClockStatus.DISRUPTED)


def _centre(rows: Sequence[Correction]) -> Correction:
    """The row with the smallest bounds; of equal ones (a reference, no bound at all) the middle."""

    def size(row: Correction) -> tuple[float, float]:
        conditional, hard = row.bound_conditional_ns, row.bound_hard_ns
        return (
            math.inf if conditional is None else float(conditional),
            math.inf if hard is None else float(hard),
        )

    least = min(size(row) for row in rows)
    smallest = [row for row in rows if size(row) == least]
    return smallest[(len(smallest) - 1) // 2]


def _bounds(values: Iterable[int | None]) -> FloatArray:
    return np.array([np.inf if v is None else float(v) for v in values], np.float64)


def _unknown(raw_local_ns: int, reason: str) -> CorrectedInstant:
    return CorrectedInstant(
        raw_local_ns=raw_local_ns,
        corrected_reference_ns=None,
        bound_hard_ns=None,
        bound_conditional_ns=None,
        status=ClockStatus.UNKNOWN,
        method="",
        reason=reason,
    )
