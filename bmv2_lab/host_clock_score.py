# SPDX-License-Identifier: Apache-2.0
"""Corrections of hosts' system clocks and GPUs against the truth, as they are used: each clock
whenever the lab looked."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.simulator.lab_result import HostClockReading
from correction.derived.chain import DerivedClocks
from correction.derived.compose import ClockRows
from correction.table import UNBOUNDED_NS, Status

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClockErrors:
    """Of all readings that have a correction."""

    asked: int
    """Readings, with a correction or without."""
    error_ns: Floats
    """Corrected - true reference time."""
    hard_ns: Floats
    conditional_ns: Floats
    confident: NDArray[np.bool_]
    """Not flagged."""

    @property
    def answered_share(self) -> float:
        """Share of the readings that have a correction."""
        return len(self.error_ns) / self.asked if self.asked else float("nan")

    @property
    def rms_ns(self) -> float:
        """Of the confident answers."""
        error = self.error_ns[self.confident]
        return float(np.sqrt(np.mean(error**2))) if len(error) else float("nan")

    @property
    def outside_hard(self) -> float:
        """Answers whose hard bound does not hold."""
        return float(np.count_nonzero(np.abs(self.error_ns) > self.hard_ns))

    @property
    def covered_share(self) -> float:
        """Share of the confident answers within their conditional bound."""
        inside = np.abs(self.error_ns) <= self.conditional_ns
        return float(np.mean(inside[self.confident])) if self.confident.any() else float("nan")

    @property
    def conditional_ns_median(self) -> float:
        """Median conditional bound of the confident answers."""
        bounds = self.conditional_ns[self.confident]
        return float(np.median(bounds)) if len(bounds) else float("nan")


def host_clock_errors(
    looks: list[HostClockReading], derived: DerivedClocks, clocks: Collection[str]
) -> HostClockErrors:
    """Score some clocks."""
    mine = [look for look in looks if look.clock in clocks]
    parts = [
        _of_clock([look for look in mine if look.clock == clock.clock], clock)
        for clock in derived.clocks
        if clock.clock in clocks
    ]
    found = np.concatenate(parts) if parts else np.zeros((0, 4))
    return HostClockErrors(
        asked=len(mine),
        error_ns=found[:, 0],
        hard_ns=found[:, 1],
        conditional_ns=found[:, 2],
        confident=found[:, 3] == Status.OK,
    )


def _of_clock(looks: list[HostClockReading], clock: ClockRows) -> Floats:
    """[answer]: error, both bounds, status."""
    rows = clock.rows
    local = np.array([look.local_ns for look in looks], np.int64)
    reference = np.array([look.reference_ns for look in looks], np.int64)
    place = np.searchsorted(rows["valid_from_local_ns"], local, side="right") - 1
    row = rows[np.maximum(place, 0)]
    known = (place >= 0) & (local < row["valid_to_local_ns"])
    known &= (row["status"] == Status.OK) | (row["status"] == Status.AMBIGUOUS)
    local, reference, row = local[known], reference[known], row[known]
    change = np.rint((local - row["anchor_local_ns"]) * row["rate_ppb"] * 1e-9).astype(np.int64)
    error = (local - row["offset_ns"] - change - reference).astype(np.float64)
    bounds = [
        np.where(row[name] == UNBOUNDED_NS, np.inf, row[name].astype(np.float64))
        for name in ("bound_hard_ns", "bound_conditional_ns")
    ]
    return np.column_stack([error, *bounds, row["status"].astype(np.float64)])
