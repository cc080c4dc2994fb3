# SPDX-License-Identifier: Apache-2.0
"""`deploy plan`, `apply` and `run` refuse what must not be deployed before they connect."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.fabric_dump import dump_fabric
from controller.fabric_generate import leaf_spine
from controller.fabric_qos import QosMaps
from tempotrace.commands.deploy import app

FABRIC = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])
UNEQUAL = QosMaps(queues=(((26,), 3),))


@pytest.fixture
def unequal(tmp_path: Path) -> Path:
    """A file whose switches have no P4Runtime address, and tell marked packets apart."""
    model = replace(FABRIC.models[0], qos_maps=UNEQUAL)
    path = tmp_path / "fabric.yaml"
    path.write_text(dump_fabric(replace(FABRIC, models=(model, FABRIC.models[1]))))
    return path


@pytest.mark.parametrize("command", ["plan", "apply", "run"])
def test_unequal_treatment_is_refused_before_anything_is_sent(command: str, unequal: Path) -> None:
    """Exit code 2 and a line with file, line, key, switches and class; nothing of addresses."""
    result = CliRunner().invoke(app, [command, "-f", str(unequal)])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"{unequal}:")
    assert (
        "models[0].qos_maps.queues: leaf1, spine1 would give marked packets another queue" in line
    )
    assert "class roce (DSCP 26: queue 3, marked DSCP 27: queue 0)" in line


def test_all_errors_of_a_file_are_printed(tmp_path: Path) -> None:
    """One line each on stderr."""
    path = tmp_path / "fabric.yaml"
    text = dump_fabric(FABRIC).replace("udp_port: 32766", "udp_port: 0")
    path.write_text(text.replace("dscp: 46", "dscp: 99"))
    result = CliRunner().invoke(app, ["plan", "-f", str(path)])
    assert result.exit_code == 2
    keys = [line.split(": ")[1] for line in result.stderr.splitlines()]
    assert keys == ["collector.udp_port", "qos.classes[2].dscp"]
