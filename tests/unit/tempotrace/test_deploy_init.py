# SPDX-License-Identifier: Apache-2.0
"""`tempotrace deploy init` writes a fabric of each topology that the other commands read."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from controller.fabric_file import load_fabric
from tempotrace.commands.deploy import app
from tempotrace.deploy_init import SIZES, InitTopology


@pytest.mark.parametrize(
    ("arguments", "switches", "hosts"),
    [
        ("", 12, 16),
        ("--topology three-tier --pods 3 --leaves-per-pod 2", 3 * 2 + 3 * 2 + 4, 12),
        ("--topology rails --units 2 --spines 3", 16 + 3, 64),
    ],
)
def test_each_topology_is_written(
    arguments: str, switches: int, hosts: int, tmp_path: Path
) -> None:
    """With P4Runtime addresses for `lab switches`."""
    path = tmp_path / "fabric.yaml"
    result = CliRunner().invoke(app, ["init", "-f", str(path), *arguments.split()])
    assert result.exit_code == 0, result.output
    fabric = load_fabric(path)
    assert (len(fabric.switches), len(fabric.hosts)) == (switches, hosts)
    assert {switch.p4runtime for switch in fabric.switches} == {
        f"127.0.0.1:{9559 + n}" for n in range(switches)
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--topology rails --leaves 3", "--leaves is no size of rails; expected --units"),
        ("--pods 2", "--pods is no size of leaf-spine; expected --leaves"),
        ("--leaves 508", "a switch would have 508 ports; expected at most 507"),
    ],
)
def test_sizes_that_cannot_be_are_one_line(arguments: str, message: str, tmp_path: Path) -> None:
    """Exit code 2, and no file."""
    path = tmp_path / "fabric.yaml"
    result = CliRunner().invoke(app, ["init", "-f", str(path), *arguments.split()])
    assert (result.exit_code, path.exists()) == (2, False)
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_comments_stay_when_a_file_is_written_anew(tmp_path: Path) -> None:
    """With --force; without it nothing is written."""
    path = tmp_path / "fabric.yaml"
    run = CliRunner()
    assert run.invoke(app, ["init", "-f", str(path)]).exit_code == 0
    path.write_text(path.read_text().replace("switches:\n", "# racks 1 to 4\nswitches:\n"))
    assert run.invoke(app, ["init", "-f", str(path), "--leaves", "4"]).exit_code == 2
    assert run.invoke(app, ["init", "-f", str(path), "--leaves", "4", "--force"]).exit_code == 0
    assert "\n# racks 1 to 4\nswitches:\n" in path.read_text()
    assert len(load_fabric(path).switches) == 8


def test_the_help_text_has_the_sizes_there_are() -> None:
    """Every size of every topology with its default."""
    init = next(one for one in app.registered_commands if one.name == "init")
    text = " ".join((getattr(init.callback, "__doc__", None) or "").split())
    for topology in InitTopology:
        sizes = " ".join(f"--{k.replace('_', '-')} {v}" for k, v in SIZES[topology].items())
        assert f"{topology.value}: {sizes}" in text
