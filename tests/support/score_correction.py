# SPDX-License-Identifier: Apache-2.0
"""Scores a fabric solution against the truth of a synthetic run, at the window centres."""

from dataclasses import dataclass

import numpy as np

from correction.solution import FabricSolution
from correction.table import UNBOUNDED_NS
from tests.support.synthetic_fabric import Run


@dataclass
class Score:
    """Arrays [window, clock]; bounds as floats, infinite where unbounded."""

    error_ns: np.ndarray
    hard_ns: np.ndarray
    conditional_ns: np.ndarray
    hosts: np.ndarray
    flagged: np.ndarray

    def rms_ns(self, clocks: np.ndarray) -> float:
        """Over all windows of the chosen clocks; NaN for none."""
        if not clocks.any():
            return float("nan")
        return float(np.sqrt(np.mean(self.error_ns[:, clocks] ** 2)))


def score(run: Run, solution: FabricSolution, *, shift_s: float = 0.0) -> Score:
    """Convert each clock's reading at the window centres (plus a shift) and compare."""
    truth, n = run.truth, len(run.model.clocks)
    at = truth.centre_true_ns + shift_s * 1e9
    shape = (len(at), n)
    error, hard, conditional = np.zeros(shape), np.full(shape, np.inf), np.full(shape, np.inf)
    reference = truth.clocks[truth.reference]
    for clock in range(n):
        true_clock = truth.clocks[clock]
        reading = true_clock.epoch_ns + np.floor(true_clock.elapsed(at)).astype(np.int64)
        fraction = true_clock.elapsed(at) - np.floor(true_clock.elapsed(at))
        got = solution.table.convert(reading, clock)
        want = reference.elapsed(at) - fraction
        error[:, clock] = (got.reference_ns - reference.epoch_ns) - want
        for target, source in ((hard, got.bound_hard_ns), (conditional, got.bound_conditional_ns)):
            finite = source != UNBOUNDED_NS
            target[finite, clock] = source[finite]
    hosts = np.array([clock.ip != 0 for clock in run.model.clocks])
    hosts[truth.reference] = False
    return Score(
        error_ns=error,
        hard_ns=hard,
        conditional_ns=conditional,
        hosts=hosts,
        flagged=solution.flagged,
    )
