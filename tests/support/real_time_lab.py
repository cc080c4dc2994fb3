# SPDX-License-Identifier: Apache-2.0
"""`tempotrace lab run` on a real-time backend, started, watched and ended by tests."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.descendants import (
    all_network_namespaces,
    descendants,
    network_namespaces,
    wait_until_gone,
)

START_DEADLINE_S = 120.0
END_DEADLINE_S = 20.0


@dataclass(slots=True)
class RunningLab:
    """A run in its main phase."""

    process: "subprocess.Popen[bytes]"
    children: dict[int, str]
    namespaces: set[str]

    def child(self, program: str) -> int:
        """One of its processes, by a part of its command line."""
        return next(pid for pid, command in self.children.items() if program in command)

    def end(self, number: signal.Signals | None) -> tuple[int, str]:
        """Send a signal, if any, wait for the end; exit code and the last line on stderr."""
        if number is not None:
            self.process.send_signal(number)
        _, said = self.process.communicate(timeout=END_DEADLINE_S)
        lines = said.decode().strip().splitlines()
        return self.process.returncode, lines[-1] if lines else ""

    def left(self) -> tuple[set[int], set[str]]:
        """Processes and namespaces that outlive it."""
        running = wait_until_gone(set(self.children), END_DEADLINE_S)
        return running, self.namespaces & all_network_namespaces()


@contextlib.contextmanager
def running_lab(backend: str, out: Path, folders: Path | None = None) -> Iterator[RunningLab]:
    """Start a run of `tiny-2x2` and wait until everything of it is there.

    folders: for its temporary ones, in place of the system's.
    """
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tempotrace.entry", "lab", "run", "tiny-2x2"),
            *("--backend", backend, "--out", str(out)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **({} if folders is None else {"TMPDIR": str(folders)})},
    )
    try:
        _wait_for_run(process)
        found = _wait_for_daemons(process)
        yield RunningLab(process, found, network_namespaces({process.pid, *found}))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def _wait_for_run(process: "subprocess.Popen[bytes]") -> None:
    """Until stderr says that the main phase begins."""
    assert process.stderr is not None
    deadline_s, said = time.monotonic() + START_DEADLINE_S, b""
    while b"run ..." not in said:
        ready, _, _ = select.select([process.stderr], [], [], 1.0)
        if ready:
            more = os.read(process.stderr.fileno(), 4096)
            assert more, f"the run ended early: {said.decode()}"
            said += more
        assert time.monotonic() < deadline_s, f"the run does not start: {said.decode()}"


def _wait_for_daemons(process: "subprocess.Popen[bytes]") -> dict[int, str]:
    """Until both daemons of all four hosts run."""
    deadline_s = time.monotonic() + START_DEADLINE_S
    while True:
        found = descendants(process.pid)
        commands = list(found.values())
        if all(
            sum(command.startswith(f"/usr/sbin/{program} ") for command in commands) == 4
            for program in ("ptp4l", "chronyd")
        ):
            return found
        assert process.poll() is None, "the run ended early"
        assert time.monotonic() < deadline_s, f"the daemons do not start: {commands}"
        time.sleep(0.05)
