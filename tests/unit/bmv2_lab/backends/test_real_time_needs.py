# SPDX-License-Identifier: Apache-2.0
"""What is missing is said in one line that names it and where it comes from."""

import os
import subprocess

import pytest

from bmv2_lab.backends import needs
from bmv2_lab.backends.needs import BackendError, check_needs, missing_of, ptp4l_major_version


@pytest.fixture
def everything_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root, and every program."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(needs, "find_program", lambda program: f"/bin/{program}")


@pytest.mark.parametrize("backend", ["veth", "bmv2"])
def test_without_root_the_line_says_so(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """Namespaces need root."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    missing = missing_of(backend)
    assert missing is not None
    assert missing.startswith(f"backend {backend}: needs root")
    assert "\n" not in missing


@pytest.mark.parametrize(
    ("backend", "program", "source"),
    [
        ("veth", "ptp4l", "Debian package linuxptp"),
        ("veth", "chronyd", "Debian package chrony"),
        ("bmv2", "simple_switch_grpc", "https://github.com/p4lang/behavioral-model"),
        ("bmv2", "mnexec", "Debian package mininet"),
    ],
)
@pytest.mark.usefixtures("everything_there")
def test_a_missing_program_is_named_with_its_source(
    monkeypatch: pytest.MonkeyPatch, backend: str, program: str, source: str
) -> None:
    """And nothing else is."""
    there = needs.find_program
    monkeypatch.setattr(needs, "find_program", lambda one: None if one == program else there(one))
    with pytest.raises(BackendError) as error:
        check_needs(backend)
    assert f"no {program} on the PATH" in str(error.value)
    assert source in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("everything_there")
def test_veth_needs_no_mininet_and_no_bmv2(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without either runs it."""
    there = needs.find_program
    absent = {"mnexec", "simple_switch_grpc"}
    monkeypatch.setattr(needs, "find_program", lambda one: None if one in absent else there(one))
    assert missing_of("veth") is None
    assert missing_of("bmv2") is not None


@pytest.mark.parametrize(("said", "version"), [("3.1.1\n", 3), ("4.4\n", 4), ("v5.0-rc1", 5)])
@pytest.mark.usefixtures("everything_there")
def test_the_version_of_ptp4l_is_read(
    monkeypatch: pytest.MonkeyPatch, said: str, version: int
) -> None:
    """Its first number counts."""
    done = subprocess.CompletedProcess(args=[], returncode=0, stdout=said, stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_a, **_k: done)
    assert ptp4l_major_version() == version
