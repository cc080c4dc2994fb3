# SPDX-License-Identifier: Apache-2.0
"""`tempotrace lab switches` starts what it can be, and says what it cannot."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.fabric_dump import dump_fabric
from controller.fabric_generate import leaf_spine
from tempotrace.commands.lab import app

SMALL = dump_fabric(leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"]))


@pytest.mark.parametrize(("target", "cpu_port"), [("tofino", 192), ("tofino2", 0)])
def test_switches_of_another_target_are_refused(tmp_path: Path, target: str, cpu_port: int) -> None:
    """An embedded switch runs the program for BMv2 with its port numbers: one line, exit code 2."""
    path = tmp_path / "fabric.yaml"
    text = SMALL.replace("target: bmv2", f"target: {target}", 1)
    path.write_text(text.replace("cpu_port: 510", f"cpu_port: {cpu_port}"), encoding="utf-8")
    result = CliRunner().invoke(app, ["switches", "-f", str(path)])
    assert result.exit_code == 2
    assert result.output.strip().endswith(
        f"{path}: leaf1: model tempotrace-switch is a {target}; "
        "expected target bmv2, which embedded switches are"
    )
