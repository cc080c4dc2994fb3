# SPDX-License-Identifier: Apache-2.0
"""The whole chain on a small fabric: files, answers over HTTP, score, and the same bytes again."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from bmv2_lab.scenarios import SCENARIOS
from tempotrace.analysis import analyse
from tempotrace.commands.correct import corrections_document
from tempotrace.demo_run import FinishedDemo, run_demo

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
SEED = 3
DATA_FILES = (
    "fabric.yaml",
    "reports.pcap",
    "exchanges.jsonl",
    "spans.otlp.jsonl",
    "truth.json",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the shared run writes."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def finished(folder: Path) -> Iterator[FinishedDemo]:
    """One small run whose service answers."""
    with run_demo(SCENARIOS["small-4x4"], SEED, folder, lambda _stage, _share: None) as demo:
        yield demo


def _schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    return schema


@pytest.mark.timeout(180)
def test_corrections_beat_ptp_and_bounds_hold(finished: FinishedDemo) -> None:
    """Raw PTP is off by a hundred ns and more, corrected clocks by some ns, inside both bounds."""
    sync = finished.summary["sync"]
    assert sync["ptp_raw_error_ns_rms"] >= 100.0
    assert sync["corrected_error_ns_rms"] <= 25.0
    assert sync["corrected_error_ns_rms"] <= 1.2 * sync["oracle_error_ns_rms"]
    assert sync["bound_hard_coverage"] == 1.0
    assert sync["bound_conditional_median_ns"] < sync["bound_hard_median_ns"]


@pytest.mark.timeout(180)
def test_nothing_is_lost_and_no_packet_is_altered(finished: FinishedDemo) -> None:
    """Every report is decoded, every RoCEv2 frame keeps its ICRC, every transfer completes."""
    summary = finished.summary
    assert summary["reports"]["received"] == summary["reports"]["decoded"] > 10_000
    assert summary["reports"]["lost"] == summary["reports"]["rejected"] == 0
    assert summary["icrc_errors"] == summary["transfers_incomplete"] == 0
    assert summary["samples_per_direction_min"] > 0


@pytest.mark.timeout(180)
def test_no_certain_inversion_is_left_and_no_cause_is_wrong(finished: FinishedDemo) -> None:
    """Causality holds after correction; injected slow transfers get their cause or none."""
    assert finished.summary["inversions"]["raw"] > 0
    assert finished.summary["inversions"]["corrected"] == 0
    attribution = finished.summary["attribution"]
    assert attribution["wrong"] == 0
    assert attribution["correct"] >= attribution["cases"] - 1


@pytest.mark.timeout(180)
def test_api_answers_with_a_correction_version(finished: FinishedDemo) -> None:
    """Clocks, links and a trace come over HTTP, raw stamps beside corrected ones."""
    with httpx.Client(base_url=finished.service.url, trust_env=False) as client:
        clocks = client.get("/v1/clocks").json()
        assert clocks["correction_version"] == 1
        assert len(clocks["clocks"]) == len(finished.analysis.model.clocks)
        fault = finished.run.lab.truth.faults[0]
        trace = client.get(f"/v1/traces/{fault.trace_id}").json()
        assert {span["name"] for span in trace["spans"]} >= {"step", "allreduce", "rdma.send"}
        assert client.get("/docs").status_code == 200
        assert "text/html" in client.get("/").headers["content-type"]


@pytest.mark.timeout(180)
def test_files_follow_their_schemas(finished: FinishedDemo, folder: Path) -> None:
    """Every file of our own has a schema in the docs, and a run's files fit."""
    assert finished.summary
    jsonschema.validate(json.loads((folder / "summary.json").read_text()), _schema("summary"))
    jsonschema.validate(json.loads((folder / "truth.json").read_text()), _schema("truth"))
    exchanges = jsonschema.Draft202012Validator(_schema("exchanges"))
    lines = (folder / "exchanges.jsonl").read_text().splitlines()
    for line in (*lines[:400], *lines[-50:]):
        exchanges.validate(json.loads(line))
    jsonschema.validate(corrections_document(finished.analysis), _schema("corrections"))


@pytest.mark.timeout(180)
def test_the_files_alone_give_the_same_corrections(finished: FinishedDemo, folder: Path) -> None:
    """`correct run` on the written files finds what the demo found."""
    again = analyse(finished.analysis.fabric, folder / "reports.pcap", folder / "exchanges.jsonl")
    assert corrections_document(again) == corrections_document(finished.analysis)


@pytest.mark.timeout(180)
def test_the_same_seed_gives_the_same_bytes(
    finished: FinishedDemo, folder: Path, tmp_path: Path
) -> None:
    """A second run writes identical files; the summary differs in wall_s alone."""
    command = [sys.executable, "-m", "tempotrace.entry", "demo", "--headless"]
    command += ["--scenario", "small-4x4", "--seed", str(SEED), "--out", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)  # chDB: one store a process
    for name in DATA_FILES:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name
    second = json.loads((tmp_path / "summary.json").read_text())
    assert {**second, "wall_s": 0} == {**finished.summary, "wall_s": 0}
