# SPDX-License-Identifier: Apache-2.0
"""Limits on estimates notice wrong answers: a fault breaks the limits that are about it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bmv2_lab.estimates import Estimates
from bmv2_lab.evidence import Evidence
from bmv2_lab.lab_run import LabRun, run_lab_here, write_lab_files
from bmv2_lab.scenarios import SCENARIOS
from bmv2_lab.scenarios.estimate_limits import (
    COVERED,
    DETERMINED,
    HARD,
    NO_FALSE_LINK,
    ORACLE,
    UNFLAGGED,
    USEFUL,
    recovered,
)
from bmv2_lab.scenarios.limits import Limit, check_limits
from correction.solution import FabricSolution
from correction.table import CorrectionTable, Status
from tempotrace.analysis import Analysis
from tempotrace.scenario_check import analyse_run
from tests.support.grpc_loop import in_grpc_loop

HOST = "h5"
Faulty = Callable[[FabricSolution, CorrectionTable], tuple[FabricSolution, CorrectionTable]]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> tuple[LabRun, Analysis]:
    """A run of a healthy fabric, and its analysis."""
    runs: list[LabRun] = []

    @in_grpc_loop
    async def run() -> None:
        scenario = SCENARIOS["nothing-wrong"]
        runs.append(await run_lab_here(scenario, 1, lambda _stage, _share: None))

    run()
    folder: Path = tmp_path_factory.mktemp("healthy")
    write_lab_files(runs[0], folder)
    return runs[0], analyse_run(runs[0], folder)


def rows_of_host(table: CorrectionTable) -> np.ndarray:
    """Which rows are the host's."""
    chosen: np.ndarray = table.rows["clock"] == table.clock_names.index(HOST)
    return chosen


def off_by(error_ns: int) -> Faulty:
    """One host's corrections are off, its bounds as they were."""

    def change(
        solution: FabricSolution, table: CorrectionTable
    ) -> tuple[FabricSolution, CorrectionTable]:
        rows = table.rows.copy()
        rows["offset_ns"][rows_of_host(table)] += error_ns
        return solution, replace(table, rows=rows)

    return change


def bounds_times(factor: int) -> Faulty:
    """All conditional bounds are larger, though not beyond the hard ones."""

    def change(
        solution: FabricSolution, table: CorrectionTable
    ) -> tuple[FabricSolution, CorrectionTable]:
        rows = table.rows.copy()
        wide = rows["bound_conditional_ns"] * factor
        rows["bound_conditional_ns"] = np.minimum(wide, rows["bound_hard_ns"])
        return solution, replace(table, rows=rows)

    return change


def host_in_doubt(
    solution: FabricSolution, table: CorrectionTable
) -> tuple[FabricSolution, CorrectionTable]:
    """One host is flagged in the first window."""
    first = solution.windows[0]
    status = first.status.copy()
    status[table.clock_names.index(HOST)] = Status.AMBIGUOUS
    return replace(solution, windows=(replace(first, status=status), *solution.windows[1:])), table


def link_accused(
    solution: FabricSolution, table: CorrectionTable
) -> tuple[FabricSolution, CorrectionTable]:
    """A sound link is called asymmetric."""
    asymmetric = solution.links.asymmetric.copy()
    asymmetric[0] = True
    return replace(solution, links=replace(solution.links, asymmetric=asymmetric)), table


@pytest.mark.enable_socket
@pytest.mark.parametrize(
    ("fault", "broken"),
    [
        (off_by(0), ()),
        (off_by(100), (COVERED, ORACLE)),
        (off_by(10_000), (HARD, COVERED, ORACLE)),
        (bounds_times(3), (USEFUL,)),
        (host_in_doubt, (UNFLAGGED,)),
        (link_accused, (NO_FALSE_LINK,)),
    ],
)
def test_a_fault_breaks_the_limits_that_are_about_it(
    healthy: tuple[LabRun, Analysis], fault: Faulty, broken: tuple[Limit, ...]
) -> None:
    """And no other; without one all are kept."""
    run, analysis = healthy
    solution, table = fault(analysis.solution, analysis.table)
    evidence = Evidence(run, Estimates(run, solution, table, analysis.servos))
    results = check_limits(DETERMINED, evidence)
    assert {one.name for one in results if not one.passed} == {limit.name for limit in broken}


@pytest.mark.enable_socket
def test_windows_until_recovery_are_counted_from_the_events_own(
    healthy: tuple[LabRun, Analysis],
) -> None:
    """A host in doubt in the first of two windows only: an event then takes one window, one in the
    second none; if it stays in doubt there is no recovery, and the limit is not kept."""
    run, analysis = healthy
    first_ns, second_ns = run.scenario.window_starts_ns
    solution, table = host_in_doubt(analysis.solution, analysis.table)
    estimates = Estimates(run, solution, table, analysis.servos)
    assert estimates.windows_to_recover(first_ns + 10**8, estimates.nodes) == 1
    assert estimates.windows_to_recover(second_ns + 10**8, estimates.nodes) == 0
    last = solution.windows[-1]
    never = replace(
        solution, windows=(*solution.windows[:-1], replace(last, status=last.status + 1))
    )
    evidence = Evidence(run, Estimates(run, never, table, analysis.servos))
    (result,) = check_limits((recovered(first_ns, windows=9),), evidence)
    assert not result.passed
