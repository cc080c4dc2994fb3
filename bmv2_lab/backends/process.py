# SPDX-License-Identifier: Apache-2.0
"""Child processes of a real-time lab: punctual ones, and how the parent starts them."""

import contextlib
import ctypes
import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from bmv2_lab.backends.namespaces import end_process, start_process
from bmv2_lab.backends.needs import BackendError

REAL_TIME_PRIORITY = 10
"""Low among of SCHED_RR: above all ordinary work, below the kernel's own threads."""
HOST_PRIORITY = 3
"""Below that of switches and cables: hosts must not hold up what they measure."""
CONTROLLER_PRIORITY = 1
"""Below all of these, and above what else the machine does: events come at their time."""
_PR_SET_TIMERSLACK = 29
_TIMER_SLACK_NS = 1_000


def be_punctual() -> None:
    """Wake up in time: real-time priority where it is allowed, 1 µs of timer slack, no pauses."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(REAL_TIME_PRIORITY))
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, _TIMER_SLACK_NS, 0, 0, 0)
    gc.collect()
    gc.freeze()
    gc.disable()


def be_prompt() -> None:
    """The calling thread, and those that it starts, come before ordinary work."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(CONTROLLER_PRIORITY))


@contextlib.contextmanager
def punctual() -> Iterator[None]:
    """The same for a while, and for the calling thread alone; what it starts is not concerned."""
    policy = os.sched_getscheduler(0)
    parameters = os.sched_getparam(0)
    with contextlib.suppress(OSError):
        own = os.sched_param(HOST_PRIORITY)
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, own)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        os.sched_setscheduler(0, policy, parameters)


class Child:
    """A Python module of ours as a process: a pickled plan in, lines out."""

    def __init__(self, module: str, plan: object) -> None:
        self._module = module
        self._process = start_process(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
        )
        try:
            self.send(plan)
        except BaseException:
            self.close()
            raise

    def send(self, value: object) -> None:
        """Hand a value over."""
        assert self._process.stdin is not None, "opened as a pipe"
        try:
            pickle.dump(value, self._process.stdin)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def line(self) -> str:
        """The next line that it writes; BackendError if it ended instead."""
        assert self._process.stdout is not None, "opened as a pipe"
        line = self._process.stdout.readline()
        if not line:
            raise self._ended()
        return line.decode().rstrip("\n")

    def end_input(self) -> None:
        """Tell it to end; it may still have last words."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
            self._process.stdin = None

    def check(self) -> None:
        """BackendError if it has ended."""
        if self._process.poll() is not None:
            raise self._ended()

    def _ended(self) -> BackendError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        return BackendError(f"{self._module}: ended with code {self._process.returncode}")

    def close(self) -> None:
        """End it."""
        self.end_input()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        end_process(self._process)


def read_value() -> Any:  # noqa: ANN401  # whatever the parent sent
    """In a child: the next value from the parent."""
    return pickle.load(sys.stdin.buffer)
