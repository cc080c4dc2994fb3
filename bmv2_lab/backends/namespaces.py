# SPDX-License-Identifier: Apache-2.0
"""Network namespaces without names, kept by file descriptors.

The kernel removes a namespace, and every interface in it, when no process is in it and no
descriptor is open: whatever ends this process ends them too. What runs inside is started through
`setpriv --pdeathsig KILL`, so it does not outlive this process either.
"""

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Collection
from typing import IO, TypeVar

from bmv2_lab.backends.needs import BackendError, program_path

T = TypeVar("T")

CLONE_NEWNET = 0x40000000
COMMAND_DEADLINE_S = 30.0
END_DEADLINE_S = 5.0
"""A process has so long after SIGTERM before it is killed."""

DAEMON_PRIORITY = 2
"""Of ptp4l and chronyd, which take their own stamps from the kernel but must answer in time."""

_libc = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """One network namespace."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def create(cls) -> "Namespace":
        """A new namespace, in which there is nothing but a loopback device that is down."""

        def make() -> int:
            _check(_libc.unshare(CLONE_NEWNET), "unshare(CLONE_NEWNET)")
            return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        return cls(_in_thread(make))

    @classmethod
    def of_process(cls, pid: int) -> "Namespace":
        """The namespace that a process is in."""
        return cls(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))

    @classmethod
    def at(cls, path: str) -> "Namespace":
        """The namespace that another process calls `path`."""
        return cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    @property
    def path(self) -> str:
        """A path by which other processes find it while this one lives."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def call(self, work: Callable[[], T]) -> T:
        """What `work` gives when it is called inside; sockets that it makes stay there."""

        def inside() -> T:
            _check(_libc.setns(self._fd, CLONE_NEWNET), "setns")
            return work()

        return _in_thread(inside)

    def command(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a short command inside; its standard output. BackendError tells what it said."""
        try:
            done = subprocess.run(
                [*self._enter(), program_path(arguments[0]), *arguments[1:]],
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                check=False,
                timeout=COMMAND_DEADLINE_S,
            )
        except subprocess.TimeoutExpired:
            raise BackendError(f"{' '.join(arguments)}: no end in {COMMAND_DEADLINE_S} s") from None
        if done.returncode != 0:
            said = " ".join((done.stderr or done.stdout).split())
            raise BackendError(f"{' '.join(arguments)}: {said or f'exit {done.returncode}'}")
        return done.stdout

    def start(
        self,
        arguments: Collection[str],
        *,
        stdin: int | None = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = subprocess.DEVNULL,
        stderr: int | IO[bytes] | None = subprocess.DEVNULL,
        priority: int | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Start a program inside, which dies with this process.

        priority: of SCHED_RR, for what must wake up in time on a busy machine.
        """
        punctual = []
        if priority is not None:
            punctual = [program_path("chrt"), "--rr", str(priority)]
        return start_process(
            [*self._enter(), *punctual, *arguments], stdin=stdin, stdout=stdout, stderr=stderr
        )

    def _enter(self) -> list[str]:
        return [program_path("nsenter"), f"--net={self.path}", "--"]

    def close(self) -> None:
        """Let it go; it lives on only while processes are in it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def start_process(
    arguments: Collection[str],
    *,
    stdin: int | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = subprocess.DEVNULL,
    stderr: int | IO[bytes] | None = subprocess.DEVNULL,
) -> "subprocess.Popen[bytes]":
    """Start a program that dies with this process, however this one ends."""
    return subprocess.Popen(
        [program_path("setpriv"), "--pdeathsig", "KILL", "--", *arguments],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,  # Ctrl-C is for this process alone
    )


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM, and SIGKILL if that does not help; returns when it is gone."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(END_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(END_DEADLINE_S)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise BackendError(f"{what}: {os.strerror(number)}")


def _in_thread(work: Callable[[], T]) -> T:
    """Run in a thread of its own, so that no other thread changes its namespace."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
