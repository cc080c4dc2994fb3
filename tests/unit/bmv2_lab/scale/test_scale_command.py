# SPDX-License-Identifier: Apache-2.0
"""`tempotrace lab scale` writes its folder and prints what it holds."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tempotrace.commands.lab import app


def test_the_command_prints_counts_time_and_memory(tmp_path: Path) -> None:
    """JSON with the fabric's size, the records' counts, wall_s and peak_mib."""
    out = tmp_path / "run"
    result = CliRunner().invoke(
        app, ["scale", "--gpus", "64", "--seed", "2", "--out", str(out), "--json"]
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["gpus"], told["hosts"], told["seed"]) == (64, 8, 2)
    assert told["switches"] == 8 + 32  # one unit: a leaf per rail, and its spines
    assert told["transfers"] == 64 * 2 * 16
    assert told["packets"] == 4 * told["transfers"] + 2 * told["exchanges"]
    assert told["wall_s"] > 0
    assert 50 < told["peak_mib"] < 4_096
    assert {path.name for path in out.iterdir()} >= {
        "chunk-0000.npz",
        "fabric.yaml",
        "ptp.npz",
        "ranks.npz",
        "scale.json",
        "truth.json",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus", "100"], "expected a multiple of 8"),
        (["--gpus", "4096", "--shape", "leaf-spine"], "expected shape three-tier"),
    ],
)
def test_impossible_sizes_end_with_one_line(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    """Wrong input: exit 2, one line, no folder left behind."""
    out = tmp_path / "run"
    result = CliRunner().invoke(app, ["scale", *arguments, "--out", str(out)])
    assert result.exit_code == 2
    lines = [line for line in result.output.splitlines() if line and line != "draw ..."]
    assert len(lines) == 1
    assert message in lines[0]
    assert not out.exists()
