# SPDX-License-Identifier: Apache-2.0
"""What a published table answers for every clock at every instant at which the lab looked at all
clocks, and by how much each answer is off."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.lab_run import LabRun
from bmv2_lab.truth import TrueWindow
from correction.records import NO_TSTAMP_NS
from correction.solution import FabricSolution
from correction.table import UNBOUNDED_NS, CorrectionTable, Status

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

WHOLE_NS = 1.0
"""A switch's true offset is known from two readings in whole ns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All answers; arrays [instant, clock]."""

    clocks: tuple[str, ...]
    true_ns: NDArray[np.int64]
    """[instant]"""
    window: NDArray[np.int64]
    """[instant]: the engine's window around it; -1 between windows."""
    error_ns: Floats
    """|Corrected reading - true reference time|; NaN where there is no answer."""
    hard_ns: Floats
    conditional_ns: Floats
    """Infinite where unknown."""
    status: NDArray[np.uint8]

    @property
    def confident(self) -> Bools:
        """Answers that claim their conditional bound."""
        found: Bools = np.isfinite(self.error_ns) & (self.status == Status.OK)
        return found

    @property
    def covered(self) -> Bools:
        """Answers within their conditional bound."""
        found: Bools = self.error_ns <= self.conditional_ns
        return found


def all_answers(run: LabRun, solution: FabricSolution, table: CorrectionTable) -> Answers:
    """Every clock but the reference. `table`: on the clocks as they read."""
    looks = run.lab.result.observed
    known = set(table.clock_names) - {run.drawn.fabric.ptp.grandmaster}
    clocks = tuple(one.clock for one in looks[0].clocks if one.clock in known)
    columns = [_of_clock(looks, table, clock) for clock in clocks]
    true_ns = np.array([look.centre_true_ns for look in looks], np.int64)
    return Answers(
        clocks=clocks,
        true_ns=true_ns,
        window=_windows_at(run, solution, true_ns),
        error_ns=np.stack([error for error, _, _, _ in columns], axis=1),
        hard_ns=np.stack([hard for _, hard, _, _ in columns], axis=1),
        conditional_ns=np.stack([conditional for _, _, conditional, _ in columns], axis=1),
        status=np.stack([status for _, _, _, status in columns], axis=1),
    )


def _of_clock(
    looks: list[TrueWindow], table: CorrectionTable, clock: str
) -> tuple[Floats, Floats, Floats, NDArray[np.uint8]]:
    readings = [next(one for one in look.clocks if one.clock == clock) for look in looks]
    local_ns = np.array([one.local_ns for one in readings], np.int64)
    found = table.convert(local_ns, table.clock_names.index(clock))
    reference_ns = np.array([look.reference_ns for look in looks], np.int64)
    exact_ns = [one.offset_ns for one in readings]
    if exact_ns[0] is None:
        error_ns = np.abs((reference_ns - found.reference_ns).astype(np.float64))
        error_ns = np.maximum(error_ns - WHOLE_NS, 0.0)
    else:
        offset_ns = (local_ns - found.reference_ns).astype(np.float64)
        error_ns = np.abs(offset_ns - np.array(exact_ns, np.float64))
    error_ns[found.reference_ns == NO_TSTAMP_NS] = np.nan
    bounds = (_bound(found.bound_hard_ns), _bound(found.bound_conditional_ns))
    return error_ns, *bounds, found.status


def _windows_at(
    run: LabRun, solution: FabricSolution, true_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The engine's window around each true instant; -1 outside all."""
    collector = run.drawn.oscillators["collector"]
    now_ns = np.array([collector.read_ns(int(at)) for at in true_ns], np.int64)
    found = np.full(len(true_ns), -1, np.int64)
    for number, window in enumerate(solution.windows):
        inside = (now_ns >= window.start_collector_ns) & (now_ns < window.end_collector_ns)
        found[inside] = number
    return found


def _bound(bound_ns: NDArray[np.int64]) -> Floats:
    return np.where(bound_ns == UNBOUNDED_NS, np.inf, bound_ns.astype(np.float64))
