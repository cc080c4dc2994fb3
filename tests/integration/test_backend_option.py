# SPDX-License-Identifier: Apache-2.0
"""`lab run --backend`: what cannot run says so in one line, and broken limits are told."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bmv2_lab.backends import needs
from tempotrace.commands import lab

RUNNER = CliRunner()


def run(backend: str, out: Path, scenario: str = "tiny-2x2") -> Result:
    """The command, in this process."""
    return RUNNER.invoke(
        lab.app, ["run", scenario, "--backend", backend, "--out", str(out / "run")]
    )


def test_an_unknown_backend_is_refused(tmp_path: Path) -> None:
    """The line has the names there are; nothing is written."""
    result = run("ns3", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == "lab run: no backend 'ns3'; there are: virtual, veth, bmv2\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("backend", ["veth", "bmv2"])
def test_without_root_nothing_starts(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 2 with one line, before any file is made."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = run(backend, tmp_path)
    assert result.exit_code == 2
    assert "needs root" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where it comes from."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(needs, "find_program", lambda program: None)
    result = run("veth", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == (
        "backend veth: no ip on the PATH; it comes from Debian package iproute2\n"
    )


def test_each_broken_limit_is_a_line() -> None:
    """Name, what was found and what was expected; kept ones say nothing."""
    limits = [
        {"name": "reports lost, share", "found": 0.25, "range": "at most 0.01", "passed": False},
        {"name": "NTP measurements", "found": 9, "range": "at least 1", "passed": True},
        {"name": "largest step, ns", "found": None, "range": "at most 4", "passed": False},
    ]
    assert lab.broken_limits({"real_time": {"limits": limits}}) == [
        "limit not kept: reports lost, share: 0.25, expected at most 0.01",
        "limit not kept: largest step, ns: not measured, expected at most 4",
    ]
    assert lab.broken_limits({}) == []
