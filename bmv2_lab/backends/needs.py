# SPDX-License-Identifier: Apache-2.0
"""What the real-time backends need of the machine, and the one line that says what is missing."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass


class BackendError(Exception):
    """The lab cannot run here, or something of it failed; `str()` is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A program and where it comes from."""

    program: str
    source: str


NETWORK_NEEDS = (
    Need(program="ip", source="Debian package iproute2"),
    Need(program="nsenter", source="Debian package util-linux"),
    Need(program="setpriv", source="Debian package util-linux"),
    Need(program="chrt", source="Debian package util-linux"),
)
HOST_NEEDS = (
    Need(program="ptp4l", source="Debian package linuxptp"),
    Need(program="chronyd", source="Debian package chrony"),
)
BMV2_NEEDS = (
    Need(
        program="simple_switch_grpc",
        source="https://github.com/p4lang/behavioral-model, built with Thrift",
    ),
    Need(program="mnexec", source="Debian package mininet"),
    Need(program="unshare", source="Debian package util-linux"),
)
NEEDS = {
    "veth": (*NETWORK_NEEDS, *HOST_NEEDS),
    "bmv2": (*NETWORK_NEEDS, *HOST_NEEDS, *BMV2_NEEDS),
}
"""By backend."""

_SBIN = "/usr/sbin"
"""Where Debian puts daemons; not on everybody's PATH."""


def find_program(program: str) -> str | None:
    """The program's path, or None."""
    return shutil.which(program) or shutil.which(program, path=_SBIN)


def missing_of(backend: str) -> str | None:
    """Why the backend cannot run here, in one line, or None."""
    if os.geteuid() != 0:
        return f"backend {backend}: needs root, to make network namespaces; run it with sudo"
    for need in NEEDS[backend]:
        if find_program(need.program) is None:
            return f"backend {backend}: no {need.program} on the PATH; it comes from {need.source}"
    return None


def check_needs(backend: str) -> None:
    """BackendError with one line if something is missing."""
    missing = missing_of(backend)
    if missing is not None:
        raise BackendError(missing)


def program_path(program: str) -> str:
    """The path of a program that `check_needs` found."""
    path = find_program(program)
    if path is None:
        raise BackendError(f"no {program} on the PATH any more")
    return path


def ptp4l_major_version() -> int:
    """ptp4l's major version: options were renamed in 4."""
    done = subprocess.run(
        [program_path("ptp4l"), "-v"], capture_output=True, text=True, check=False, timeout=10
    )
    found = re.search(r"\d+", done.stdout + done.stderr)
    if found is None:
        raise BackendError(f"ptp4l -v does not tell its version: {done.stdout.strip()!r}")
    return int(found.group())
