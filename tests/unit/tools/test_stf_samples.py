# SPDX-License-Identifier: Apache-2.0
"""tools/stf_samples.py: which samples count, and what it says of each; the compiler is a stub."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.bmv2_lab.switch.bmv2_json import forwarding

ROOT = Path(__file__).resolve().parents[3]
COMPILER = """#!/bin/sh
for last; do :; done
while [ "$1" != -o ]; do
    [ "$1" = --p4runtime-files ] && p4info=$2
    shift
done
grep -q 'does not compile' "$last" && { echo "$last(3): [--Werror=x] error: no" >&2; exit 1; }
[ -n "$p4info" ] && echo "pkg_info { }" > "$p4info"
cp PROGRAM "$2"
"""
V1MODEL = "#include <core.p4>\n#include <v1model.p4>\n"
PASSES, FAILS = "packet 0 01\nexpect 2 01 $\n", "packet 0 01\nexpect 3 01\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Samples, and a compiler that makes the same of all of them."""
    (tmp_path / "program.json").write_text(json.dumps(forwarding(("a", 8)).json))
    compiler = tmp_path / "p4c"
    compiler.write_text(COMPILER.replace("PROGRAM", str(tmp_path / "program.json")))
    compiler.chmod(0o755)
    samples = tmp_path / "samples"
    samples.mkdir()
    return samples


def sample(folder: Path, name: str, program: str, test: str) -> None:
    """A pair of files."""
    (folder / f"{name}.p4").write_text(program)
    (folder / f"{name}.stf").write_text(test)


def run(folder: Path) -> "subprocess.CompletedProcess[str]":
    """The tool over a folder."""
    command = [sys.executable, str(ROOT / "tools/stf_samples.py"), str(folder), "--json"]
    command += ["--p4c", str(folder.parent / "p4c"), "--work", str(folder.parent / "work")]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def test_passed_failed_and_not_compiled_are_told_apart(folder: Path) -> None:
    """Other architectures and programs without a test do not count; a header may name v1model."""
    sample(folder, "good", V1MODEL, PASSES)
    (folder / "common.p4").write_text(V1MODEL)
    sample(folder, "by_header", '#include "common.p4"\n', PASSES)
    sample(folder, "bad", V1MODEL, FAILS)
    sample(folder, "unreadable", V1MODEL, "teleport\n")
    sample(folder, "broken", V1MODEL + "does not compile", PASSES)
    sample(folder, "other", "#include <psa.p4>\n", FAILS)
    (folder / "untested.p4").write_text(V1MODEL)
    result = run(folder)
    assert result.returncode == 1, result.stderr
    assert json.loads(result.stdout) == {
        "samples": 5,
        "passed": 2,
        "failed": 2,
        "not_compiled": 1,
        "passed_share_of_compiled": 0.5,
        "passed_share_of_all": 0.4,
        "rest": {
            "bad": "failed: port 2: expected 0 packets, got 1 [01]",
            "broken": f"not compiled: {folder}/broken.p4(3): [--Werror=x] error: no",
            "unreadable": "failed: line 1: teleport: unknown command",
        },
    }


def test_nine_of_ten_are_enough(folder: Path) -> None:
    """Exit 0; JSON and P4Info of each program stay in the work folder."""
    for number in range(9):
        sample(folder, f"good{number}", V1MODEL, PASSES)
    sample(folder, "bad", V1MODEL, FAILS)
    assert run(folder).returncode == 0
    made = {path.name for path in (folder.parent / "work").iterdir()}
    assert {"good0.json", "good0.p4info.txt", "bad.json"} <= made
