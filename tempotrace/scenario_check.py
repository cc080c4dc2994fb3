# SPDX-License-Identifier: Apache-2.0
"""Limits of a numbered scenario, checked on a run and on what the engine made of its files."""

from dataclasses import dataclass
from pathlib import Path

from bmv2_lab.estimates import Estimates
from bmv2_lab.evidence import Evidence
from bmv2_lab.lab_run import (
    CLOCK_PAIRS_FILE,
    EXCHANGES_FILE,
    FABRIC_FILE,
    REPORTS_FILE,
    LabRun,
)
from bmv2_lab.scenarios.limits import LimitResult, check_limits
from controller.fabric_file import load_fabric
from tempotrace.analysis import Analysis, analyse


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLimits:
    """What a run has of both kinds of limits."""

    telemetry: tuple[LimitResult, ...]
    estimates: tuple[LimitResult, ...]

    @property
    def broken(self) -> tuple[LimitResult, ...]:
        """Those that were not kept."""
        return tuple(one for one in (*self.telemetry, *self.estimates) if not one.passed)


def analyse_run(run: LabRun, out: Path) -> Analysis:
    """The analysis of a run's files in `out`, as `correct run` does it."""
    return analyse(
        load_fabric(out / FABRIC_FILE),
        out / REPORTS_FILE,
        out / EXCHANGES_FILE,
        out / CLOCK_PAIRS_FILE if run.lab.result.has_clock_pairs else None,
    )


def checked_limits(run: LabRun, analysis: Analysis) -> CheckedLimits:
    """The only thing of an analysis that goes on is its answer; truth comes in here."""
    estimates = Estimates(run, analysis.solution, analysis.table, analysis.servos, analysis.derived)
    evidence = Evidence(run, estimates)
    return CheckedLimits(
        telemetry=check_limits(run.scenario.limits, evidence),
        estimates=check_limits(run.scenario.estimate_limits, evidence),
    )
