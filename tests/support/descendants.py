# SPDX-License-Identifier: Apache-2.0
"""What is left of a process: its descendants, and the network namespaces they are in."""

import contextlib
import time
from pathlib import Path

POLL_S = 0.05


def descendants(pid: int) -> dict[int, str]:
    """Running children of a process, theirs and so on, with their command lines."""
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ")
                found[child] = command.decode(errors="replace").strip()
                waiting.append(child)
    return found


def _children(pid: int) -> list[int]:
    numbers: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                numbers += map(int, (task / "children").read_text(encoding="ascii").split())
    return numbers


def alive(pids: set[int]) -> set[int]:
    """Those of them that still run; a zombie that nobody has asked for does not."""
    running = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
            if stat[stat.rindex(")") + 2] != "Z":
                running.add(pid)
    return running


def network_namespaces(pids: set[int]) -> set[str]:
    """The namespaces that these processes are in or hold open, other than this one's."""
    found: set[str] = set()
    for pid in pids:
        found |= _namespaces_of(Path(f"/proc/{pid}"))
    return found - {str(Path("/proc/self/ns/net").readlink())}


def all_network_namespaces() -> set[str]:
    """The namespaces that any process is in or holds open."""
    found: set[str] = set()
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            found |= _namespaces_of(process)
    return found


def _namespaces_of(process: Path) -> set[str]:
    links = [process / "ns" / "net"]
    with contextlib.suppress(OSError):
        links += (process / "fd").iterdir()
    found = set()
    for link in links:
        with contextlib.suppress(OSError):
            target = str(link.readlink())
            if target.startswith("net:"):
                found.add(target)
    return found


def wait_until_gone(pids: set[int], deadline_s: float) -> set[int]:
    """Wait until none of them runs; those that still do at the deadline."""
    end_s = time.monotonic() + deadline_s
    while alive(pids) and time.monotonic() < end_s:
        time.sleep(POLL_S)
    return alive(pids)
