# SPDX-License-Identifier: Apache-2.0
"""Every numbered scenario keeps its limits on one seed, analysis and scoring get through its files,
and all JSON of it is JSON that every parser reads."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bmv2_lab.lab_run import LabRun, run_lab_here
from bmv2_lab.scenarios import NUMBERED, SCENARIOS, Scenario
from bmv2_lab.scenarios.description import described
from bmv2_lab.scenarios.estimate_limits import HARD
from bmv2_lab.scenarios.limits import Limit, check_limits
from tempotrace.demo_run import run_demo
from tests.support.grpc_loop import in_grpc_loop

SEED = 1
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "schemas" / "summary.schema.json"


def run_one(scenario: Scenario) -> LabRun:
    """A run in the loop that all tests share."""
    runs: list[LabRun] = []

    @in_grpc_loop
    async def run() -> None:
        runs.append(await run_lab_here(scenario, SEED, lambda _stage, _share: None))

    run()
    return runs[0]


def strict(text: str) -> dict[str, Any]:
    """JSON as RFC 8259 has it, without NaN and infinities."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return document


def null_paths(value: object, path: str = "") -> set[str]:
    """Where a document has null."""
    if value is None:
        return {path}
    if isinstance(value, dict):
        dot = f"{path}." if path else ""
        return {p for key, one in value.items() for p in null_paths(one, f"{dot}{key}")}
    if isinstance(value, list):
        return {p for i, one in enumerate(value) for p in null_paths(one, f"{path}[{i}]")}
    return set()


@pytest.mark.enable_socket
@pytest.mark.parametrize("scenario", NUMBERED, ids=lambda scenario: scenario.name)
def test_limits_hold_and_the_summary_is_strict_json(scenario: Scenario, tmp_path: Path) -> None:
    """Telemetry, truth and the engine's answers are within the limits; scoring gets through the
    files; all JSON is strict, the summary fits its schema, and each null in it has a reason."""
    run = run_one(scenario)
    with run_demo(
        scenario,
        SEED,
        tmp_path,
        lambda _stage, _share: None,
        run_scenario=lambda _scenario, _seed, _progress: run,
    ) as finished:
        assert len(finished.analysis.table.rows) > 0
    summary = strict((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert len(summary["limits"]) == len(scenario.limits)
    assert len(summary["estimate_limits"]) == len(scenario.estimate_limits)
    both = [*summary["limits"], *summary["estimate_limits"]]
    assert [limit for limit in both if not limit["passed"]] == []
    jsonschema.validate(summary, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert null_paths(summary) == set(summary.get("null_reasons", {}))
    strict((tmp_path / "truth.json").read_text(encoding="utf-8"))
    for name in ("exchanges.jsonl", "spans.otlp.jsonl"):
        for line in (tmp_path / name).read_text(encoding="utf-8").splitlines():
            strict(line)


def test_numbers_and_names_are_unique_and_all_have_limits() -> None:
    """The catalogue counts from 1 without a gap; no name hides another scenario; all have limits
    on telemetry and on estimates, that of the hard bound among these."""
    assert [scenario.number for scenario in NUMBERED] == list(range(1, len(NUMBERED) + 1))
    assert len({scenario.name for scenario in NUMBERED}) == len(NUMBERED)
    assert all(len(scenario.limits) >= 3 for scenario in NUMBERED)
    assert all(HARD in scenario.estimate_limits for scenario in NUMBERED)
    assert next(iter(SCENARIOS)) == "allreduce-8x4"


def test_a_description_is_json_and_complete() -> None:
    """`lab list --json` has purpose, nuisance parameters and limits of each scenario."""
    for scenario in SCENARIOS.values():
        listed = json.loads(json.dumps(described(scenario)))
        assert listed["purpose"] == scenario.summary
        assert listed["nuisance"]["egress_jitter_mean_ns"] > 0
        assert len(listed["limits"]) == len(scenario.limits)
        assert len(listed["estimate_limits"]) == len(scenario.estimate_limits)


def test_a_limit_of_nan_is_broken() -> None:
    """What could not be measured keeps no limit."""
    limit = Limit(name="x", measure=lambda _: float("nan"))
    (result,) = check_limits((limit,), None)  # type: ignore[arg-type]
    assert not result.passed
