# SPDX-License-Identifier: Apache-2.0
"""A disk that is full, read-only or gone costs events of the log, and nothing else."""

import errno
import json
from pathlib import Path

import pytest

from controller.keeper.events import Event, EventKind
from tempotrace.event_file import EventFile

PATH = Path("events.jsonl")


class Disk:
    """Takes so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.data = b""

    def write(self, data: bytes, /) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = data[: self.room]
        self.data += taken
        self.room -= len(taken)
        return len(taken)


def events(count: int) -> list[Event]:
    """Some events."""
    return [Event(kind=EventKind.IN_SYNC, switch=f"leaf{n}") for n in range(count)]


@pytest.mark.parametrize("room", [0, 1, 50, 100, 200])
def test_full_disk_is_told_once_and_lines_stay_whole(room: int) -> None:
    """Whatever fits is there, the rest is counted, and a torn line spoils no later one."""
    disk, said = Disk(room), list[str]()
    file = EventFile(PATH, disk, complain=said.append)
    before, after = events(6)[:5], events(6)[5]
    for event in before:
        file.write(event)
    assert said == [
        "events.jsonl: "
        + ("No space left on device" if said[0].count("No space") else "written in part")
        + "; the fabric is kept, events are lost"
    ]
    disk.room = 10_000
    file.write(after)
    whole = []
    for line in disk.data.decode().splitlines():
        try:
            whole.append(json.loads(line)["switch"])
        except ValueError:
            continue
    assert whole[-1] == "leaf5"
    assert said[1] == f"events.jsonl: is written again; {5 - len(whole[:-1])} events were lost"
    file.write(after)
    assert len(said) == 2
