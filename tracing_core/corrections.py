# SPDX-License-Identifier: Apache-2.0
"""Applies versioned corrections to raw stamps, in bulk and one at a time.

A later version re-times stored spans without touching them: for each stamp the row of the
highest version not above `version` that covers it decides. A stamp that no row covers stays
unknown - it is never extrapolated.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracing_core.model import ClockStatus, CorrectedInstant, Correction

Int64Array = NDArray[np.int64]
FloatArray = NDArray[np.float64]

UNCOVERED = -1
"""Row index of a stamp that no correction covers."""


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
        kept = [(v, row) for v, row in rows if v <= version]
        self.version = version
        self.rows: tuple[Correction, ...] = tuple(row for _, row in kept)
        self._layers: dict[str, list[_Layer]] = defaultdict(list)
        grouped: dict[tuple[str, int], list[int]] = defaultdict(list)
        for index, (row_version, row) in enumerate(kept):
            grouped[row.clock, row_version].append(index)
        for (clock, row_version), indices in sorted(
            grouped.items(), key=lambda item: (item[0][0], -item[0][1])
        ):
            self._layers[clock].append(_Layer(self.rows, indices, row_version))
        self._offset_ns = np.array([r.offset_ns for r in self.rows], np.int64)
        self._anchor_local_ns = np.array([r.anchor_local_ns for r in self.rows], np.int64)
        self._rate_ppb = np.array([r.rate_ppb for r in self.rows], np.float64)
        self._hard_ns = _bounds(r.bound_hard_ns for r in self.rows)
        self._conditional_ns = _bounds(r.bound_conditional_ns for r in self.rows)
        self._flagged = np.array([r.status is ClockStatus.FLAGGED for r in self.rows], bool)
        self._void = np.array(
            [r.status in (ClockStatus.UNKNOWN, ClockStatus.DISRUPTED) for r in self.rows], bool
        )

    @property
    def clocks(self) -> Sequence[str]:
        """Names of the clocks that have a row."""
        return tuple(self._layers)

    def effective_rows(self) -> Sequence[Correction]:
        """Rows that still decide somewhere: not wholly replaced by one later version's row."""
        return [row for clock in self._layers for _, row in self._effective(clock)]

    def newest_windows(self) -> dict[str, NewestWindow]:
        """By clock what summaries speak of: the newest window in force, and its centre."""
        found: dict[str, NewestWindow] = {}
        for clock in self._layers:
            effective = self._effective(clock)
            version, newest = max(effective, key=lambda item: item[1].valid_from_local_ns)
            rows = sorted(
                (
                    row
                    for row_version, row in effective
                    if (row_version, row.window_index) == (version, newest.window_index)
                ),
                key=lambda row: row.valid_from_local_ns,
            )
            found[clock] = NewestWindow(rows=tuple(rows), centre=_centre(rows))
        return found

    def _effective(self, clock: str) -> list[tuple[int, Correction]]:
        newer: list[tuple[int, Correction]] = []
        for layer in self._layers[clock]:  # newest version first
            rows = [row for row in layer.rows if not any(_covers(n, row) for _, n in newer)]
            newer.extend((layer.version, row) for row in rows)
        return newer

    def row_indices(self, clock: str, raw_local_ns: Int64Array) -> Int64Array:
        """Index of the deciding row per stamp of one clock, UNCOVERED where there is none."""
        found = np.full(raw_local_ns.shape, UNCOVERED, np.int64)
        for layer in self._layers.get(clock, ()):
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
        elapsed_ns = (raw - self._anchor_local_ns[r]).astype(np.float64)
        drift_ns = np.rint(self._rate_ppb[r] * 1e-9 * elapsed_ns).astype(np.int64)
        corrected[covered] = raw - self._offset_ns[r] - drift_ns
        hard[covered] = self._hard_ns[r]
        conditional[covered] = self._conditional_ns[r]
        flagged[covered] = self._flagged[r]
        void[covered] = self._void[r]
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
            return _unknown(raw_local_ns, f"no correction exists for clock {clock}")
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


class _Layer:
    """Rows of one clock and one version, disjoint and sorted by validity."""

    def __init__(self, rows: Sequence[Correction], indices: Sequence[int], version: int) -> None:
        ordered = sorted(indices, key=lambda i: rows[i].valid_from_local_ns)
        for before, after in pairwise(ordered):
            if rows[after].valid_from_local_ns < rows[before].valid_to_local_ns:
                raise ValueError(
                    f"corrections of {rows[after].clock} overlap within version {version}"
                )
        self.rows = tuple(rows[i] for i in ordered)
        self.version = version
        self._index = np.array(ordered, np.int64)
        self._from = np.array([rows[i].valid_from_local_ns for i in ordered], np.int64)
        self._to = np.array([rows[i].valid_to_local_ns for i in ordered], np.int64)

    def find(self, raw_local_ns: Int64Array) -> Int64Array:
        position = np.searchsorted(self._from, raw_local_ns, side="right") - 1
        clipped = np.maximum(position, 0)
        inside = (position >= 0) & (raw_local_ns < self._to[clipped])
        return np.where(inside, self._index[clipped], UNCOVERED)


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


def _covers(outer: Correction, inner: Correction) -> bool:
    return (
        outer.valid_from_local_ns <= inner.valid_from_local_ns
        and inner.valid_to_local_ns <= outer.valid_to_local_ns
    )


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
