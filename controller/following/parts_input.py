# SPDX-License-Identifier: Apache-2.0
"""What `tempotrace collect --statistics` hands on, into a follower: packets and link statistics.

A part that comes twice is taken once. `position` is where to go on after a restart: at the oldest
part that still held something of a window that is not closed.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np

from controller.collector.outputs.file_output import numbered_files
from controller.collector.outputs.part import PREFIX, Part, PartError, decode_part, part_bytes
from controller.collector.outputs.statistics_rows import link_windows_of
from correction.records import HOP_DTYPE, PACKET_DTYPE
from correction.stream.follow import Follower

IDS_KEPT = 10_000
LATE_NS = 4_000_000_000
"""A window is closed so long after its end at the latest: a collector hands its statistics on 2 s
after it, and those of all windows in their order."""
_READ_BYTES = 1 << 20


class PartSource(Protocol):
    """Gives what has come since the last call: (where the part stands, the part)."""

    def take(self) -> Iterator[tuple[tuple[int, int], Part]]:
        """Parts in order."""

    def close(self) -> None:
        """Let go."""


class FolderSource:
    """The files of a `file:DIR` output as they grow."""

    def __init__(self, folder: Path, position: tuple[int, int] = (0, 0)) -> None:
        self._folder = folder
        self._number, self._offset = position

    def take(self) -> Iterator[tuple[tuple[int, int], Part]]:
        """The whole parts that have been appended."""
        for number, path in numbered_files(self._folder):
            if number < self._number:
                continue
            if number > self._number:
                self._number, self._offset = number, 0
            with path.open("rb") as stream:
                stream.seek(self._offset)
                while True:
                    prefix = stream.read(PREFIX.size)
                    if len(prefix) < PREFIX.size:
                        break
                    length = part_bytes(prefix, str(path), self._offset)
                    data = prefix + stream.read(length - len(prefix))
                    if len(data) < length:
                        break
                    at = (self._number, self._offset)
                    part = decode_part(data, str(path), self._offset)
                    self._offset += length
                    yield at, part

    def close(self) -> None:
        """Nothing is held."""


class PartsInput:
    """Feeds a follower from a source."""

    def __init__(self, source: PartSource) -> None:
        self._source = source
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._places: deque[tuple[int, tuple[int, int]]] = deque()
        """(newest time that a part holds, where it stands)."""
        self._begun_ns: dict[str, int] = {}
        """By collector: start of the newest window that it has handed statistics of."""
        self.parts = 0
        self.repeated = 0

    def poll(self, follower: Follower) -> bool:
        """Hand over what has come; whether there was anything."""
        before = self.parts
        for place, part in self._source.take():
            self.parts += 1
            if part.part_id in self._seen:
                self.repeated += 1
                continue
            self._seen[part.part_id] = None
            if len(self._seen) > IDS_KEPT:
                self._seen.popitem(last=False)
            self._places.append((self._feed(follower, part), place))
        return self.parts > before

    @property
    def complete_ns(self) -> int | None:
        """Windows that end by then are complete: all collectors have handed on a later one."""
        return min(self._begun_ns.values(), default=None)

    def position(self, follower: Follower) -> tuple[int, int]:
        """Where reading must begin again."""
        closed_ns = (follower.next_number or 0) * follower.window_ns
        while len(self._places) > 1 and self._places[0][0] < closed_ns:
            self._places.popleft()
        return self._places[0][1] if self._places else (0, 0)

    def close(self) -> None:
        """Let go of the source."""
        self._source.close()

    def _feed(self, follower: Follower, part: Part) -> int:
        """Hand over one part; the newest time of the collector's clock in it."""
        newest = 0
        arrays = part.arrays
        if "packets" in arrays and len(arrays["packets"]):
            packets, hops = arrays["packets"], arrays["hops"]
            if packets.dtype != PACKET_DTYPE or hops.dtype != HOP_DTYPE:
                raise PartError("part", 0, "packets and hops as this version writes them")
            follower.add_packets(packets, hops, sampled_elsewhere=True)
            newest = int(packets["capture_collector_ns"].max())
        if "link_windows" in arrays and len(arrays["link_windows"]):
            rows = link_windows_of(arrays["link_windows"])
            follower.add_link_windows(rows)
            begun = int(np.max(rows["window_start_collector_ns"]))
            self._begun_ns[part.run] = max(begun, self._begun_ns.get(part.run, begun))
            newest = max(newest, int(np.max(rows["window_end_collector_ns"])))
        return newest
