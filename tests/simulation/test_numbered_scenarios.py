# SPDX-License-Identifier: Apache-2.0
"""Every numbered scenario keeps its limits on one seed, and the analysis gets through its files."""

import json
from pathlib import Path

import pytest

from bmv2_lab.evidence import Evidence
from bmv2_lab.lab_run import LabRun, run_lab_here, write_lab_files
from bmv2_lab.scenarios import NUMBERED, SCENARIOS, Scenario
from bmv2_lab.scenarios.description import described
from bmv2_lab.scenarios.limits import Limit, check_limits
from controller.fabric_file import load_fabric
from tempotrace.analysis import analyse
from tests.support.grpc_loop import in_grpc_loop

SEED = 1


def run_one(scenario: Scenario) -> LabRun:
    """A run in the loop that all tests share."""
    runs: list[LabRun] = []

    @in_grpc_loop
    async def run() -> None:
        runs.append(await run_lab_here(scenario, SEED, lambda _stage, _share: None))

    run()
    return runs[0]


@pytest.mark.parametrize("scenario", NUMBERED, ids=lambda scenario: scenario.name)
def test_limits_hold_and_the_analysis_gets_through(scenario: Scenario, tmp_path: Path) -> None:
    """Telemetry and truth are within the limits; nothing in the files makes the analysis fail."""
    run = run_one(scenario)
    results = check_limits(scenario.limits, Evidence(run))
    assert [result for result in results if not result.passed] == []
    write_lab_files(run, tmp_path)
    analysis = analyse(
        load_fabric(tmp_path / "fabric.yaml"),
        tmp_path / "reports.pcap",
        tmp_path / "exchanges.jsonl",
    )
    assert len(analysis.table.rows) > 0


def test_numbers_and_names_are_unique_and_all_have_limits() -> None:
    """The catalogue counts from 1 without a gap; no name hides another scenario."""
    assert [scenario.number for scenario in NUMBERED] == list(range(1, len(NUMBERED) + 1))
    assert len({scenario.name for scenario in NUMBERED}) == len(NUMBERED)
    assert all(len(scenario.limits) >= 3 for scenario in NUMBERED)
    assert next(iter(SCENARIOS)) == "allreduce-8x4"


def test_a_description_is_json_and_complete() -> None:
    """`lab list --json` has purpose, nuisance parameters and limits of each scenario."""
    for scenario in SCENARIOS.values():
        listed = json.loads(json.dumps(described(scenario)))
        assert listed["purpose"] == scenario.summary
        assert listed["nuisance"]["egress_jitter_mean_ns"] > 0
        assert len(listed["limits"]) == len(scenario.limits)


def test_a_limit_of_nan_is_broken() -> None:
    """What could not be measured keeps no limit."""
    limit = Limit(name="x", measure=lambda _: float("nan"))
    (result,) = check_limits((limit,), None)  # type: ignore[arg-type]
    assert not result.passed
