# SPDX-License-Identifier: Apache-2.0
"""Who has a UDP port of this machine, from /proc: addresses, and programs as far as one may see."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TABLES = ("udp", "udp6")
UNKNOWN_PROGRAM = "a program of another user"


@dataclass(frozen=True, slots=True, kw_only=True)
class PortHolder:
    """One bound UDP socket."""

    process_id: int | None
    """None where only root may know."""
    program: str

    def __str__(self) -> str:
        if self.process_id is None:
            return self.program
        return f"{self.program} (pid {self.process_id})"


def port_holders(udp_port: int, *, proc: Path = Path("/proc")) -> list[PortHolder]:
    """The programs that have sockets bound to the port, each once."""
    inodes = set(_bound_inodes(udp_port, proc))
    if not inodes:
        return []
    found: dict[int, PortHolder] = {}
    owned: set[str] = set()
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        own = inodes & set(_socket_inodes(process))
        if own:
            owned |= own
            number = int(process.name)
            found[number] = PortHolder(process_id=number, program=_program(process))
    holders = [found[number] for number in sorted(found)]
    if inodes - owned:
        holders.append(PortHolder(process_id=None, program=UNKNOWN_PROGRAM))
    return holders


def _bound_inodes(udp_port: int, proc: Path) -> Iterator[str]:
    for table in _TABLES:
        try:
            lines = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and int(fields[1].rpartition(":")[2], 16) == udp_port:
                yield fields[9]


def _socket_inodes(process: Path) -> Iterator[str]:
    try:
        for descriptor in (process / "fd").iterdir():
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                yield target[8:-1]
    except OSError:  # another user's process, or one that has just ended
        return


def _program(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "unknown"
