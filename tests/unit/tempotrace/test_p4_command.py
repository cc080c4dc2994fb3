# SPDX-License-Identifier: Apache-2.0
"""`tempotrace p4` on the committed artefacts of every target, without a compiler."""

import json

import pytest
from typer.testing import CliRunner

from tempotrace.commands.p4 import app

TARGETS = ("v1model", "tofino", "tofino2")


@pytest.fixture(autouse=True)
def _no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine has on its PATH is not run."""
    monkeypatch.setenv("PATH", "")


@pytest.mark.parametrize("target", TARGETS)
def test_info_names_compiler_and_sources(target: str) -> None:
    """Version, compiler and hashes of the target's own sources and of the shared ones."""
    done = CliRunner().invoke(app, ["info", "--target", target, "--json"])
    assert done.exit_code == 0
    info = json.loads(done.stdout)
    folder = "v1model" if target == "v1model" else "tna"
    assert info["program"] == f"{folder}/tempotrace.p4"
    assert {name.split("/")[0] for name in info["source_sha256"]} == {"include", folder}
    assert info["compiler"].startswith("p4c-bm2-ss" if target == "v1model" else "p4c-barefoot")


def test_info_tells_the_options_of_a_tofino_target() -> None:
    """What decides whether the program fits is said to people too."""
    done = CliRunner().invoke(app, ["info", "--target", "tofino"])
    (options,) = [line for line in done.stdout.splitlines() if line.startswith("options ")]
    assert "--disable-parse-max-depth-limit" in options.split()


@pytest.mark.parametrize("target", TARGETS)
def test_check_compares_hashes_without_a_compiler(target: str) -> None:
    """The committed artefacts are those of the sources; that nothing was compiled is said."""
    done = CliRunner().invoke(app, ["check", "--target", target])
    assert done.exit_code == 0
    assert done.stdout.startswith("artefacts match the sources (")
    assert "on the PATH" in done.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_build_without_a_compiler_says_which_one(target: str) -> None:
    """One line, and the exit code of a wrong input."""
    done = CliRunner().invoke(app, ["build", "--target", target])
    assert done.exit_code == 2
    name = "p4c-bm2-ss" if target == "v1model" else "p4c-barefoot"
    assert f"p4 build: {name} is not on the PATH; pass --p4c FILE" in done.output


def test_unknown_target_is_refused() -> None:
    """The targets are listed."""
    done = CliRunner().invoke(app, ["info", "--target", "tofino3"])
    assert done.exit_code == 2
    assert "tofino2" in done.output
