# SPDX-License-Identifier: Apache-2.0
"""Files of hosts read as they grow: whole lines only, and from the start when a file is replaced.

A line that cannot be used is counted and told once; a follower goes on with the next one.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from controller.clock_pairs import ClockPairLines, ClockPairsError
from controller.ptp_log import (
    LINE_BYTES_MAX,
    Adjustment,
    LogLine,
    PtpLogError,
    adjustment_of,
    check_header,
    exchange_fields,
    steered_host,
)
from correction.records import EXCHANGE_DTYPE
from correction.servo import ADJUSTMENT_DTYPE
from correction.stream.follow import Follower

BACKLOG_BYTES = 64 << 20
"""Of a longer file only the end is read at the start: 100,000 exchanges."""
CHUNK_BYTES = 4 << 20
LOOK_BACK = 4_096
"""Newest adjustments of a clock that are recognised when a file is read again."""


class LineTail:
    """Yields (number of the line, its bytes) of a file that grows."""

    def __init__(self, path: Path, *, whole: bool = False) -> None:
        """whole: from the beginning, however long the file is."""
        self._path = path
        self._whole = whole
        self._inode = -1
        self._offset = self._number = 0
        self._rest = b""

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines that have become whole since the last call; none while there is no file."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return
        if status.st_ino != self._inode or status.st_size < self._offset:
            self._inode, self._offset, self._number, self._rest = status.st_ino, 0, 0, b""
        with self._path.open("rb") as file:
            if self._offset == 0 and status.st_size > BACKLOG_BYTES and not self._whole:
                yield from self._header(file.readline(LINE_BYTES_MAX))
                file.seek(status.st_size - BACKLOG_BYTES)
                file.readline()
                self._offset = file.tell()
            file.seek(self._offset)
            while data := file.read(CHUNK_BYTES):
                self._offset += len(data)
                *whole, self._rest = (self._rest + data).split(b"\n")
                if len(self._rest) > LINE_BYTES_MAX:
                    whole, self._rest = [*whole, self._rest], b""
                for line in whole:
                    self._number += 1
                    yield self._number, line

    def _header(self, line: bytes) -> Iterator[tuple[int, bytes]]:
        self._number += 1
        yield self._number, line


class PtpTail:
    """`exchanges.jsonl` into a follower."""

    def __init__(
        self,
        path: Path,
        *,
        time_transmitter: str | None,
        warn: Callable[[str], None],
        whole: bool = False,
    ) -> None:
        self._tail, self._path = LineTail(path, whole=whole), path
        self._warn = warn
        self.time_transmitter = time_transmitter
        self._newest: dict[str, Adjustment] = {}
        self.refused = 0
        """Lines that could not be used."""

    def poll(self, follower: Follower) -> None:
        """Hand over what has been appended."""
        index = follower.client_index
        exchanges: list[tuple[int, ...]] = []
        servos: dict[str, list[Adjustment]] = {}
        for number, data in self._tail.lines():
            host = ""
            try:
                line = LogLine(str(self._path), number, data)
                kind = line.text("record")
                if number == 1:
                    check_header(line, kind)
                    self._newest.clear()
                elif kind == "exchange":
                    exchanges.append(exchange_fields(line, index))
                elif kind == "servo":
                    host = steered_host(line, index, self.time_transmitter)
                    row = adjustment_of(line, self._newest.get(host))
                    self._newest[host] = row
                    servos.setdefault(host, []).append(row)
                else:
                    raise line.error("record", f"expected exchange or servo, found {kind!r}")
            except PtpLogError as error:
                self._refuse(error)
                if host:  # what it did to its clock is not known: its free-running time ends here
                    servos.pop(host, None)
                    self._newest.pop(host, None)
                    follower.servos.begin_anew(index[host])
        if exchanges:
            follower.add_exchanges(np.array(exchanges, EXCHANGE_DTYPE))
        for host, rows in servos.items():
            _add_servo(follower, index[host], np.array(rows, ADJUSTMENT_DTYPE))

    def _refuse(self, error: Exception) -> None:
        self.refused += 1
        if self.refused == 1:
            self._warn(f"{error} (such lines are left out and counted)")


def _add_servo(follower: Follower, clock: int, rows: np.ndarray) -> None:
    """Add adjustments, but for those that the log has: a file may be read again."""
    log = follower.servos.logs.get(clock)
    if log is not None and len(log.adjustments):
        known = {row.tobytes() for row in log.adjustments[-LOOK_BACK:]}
        again = [number for number, row in enumerate(rows) if row.tobytes() in known]
        rows = rows[again[-1] + 1 :] if again else rows
    follower.servos.add(clock, rows)


class ClockPairTail:
    """`clock_pairs.jsonl` into a follower."""

    def __init__(self, path: Path, *, warn: Callable[[str], None], whole: bool = False) -> None:
        self._tail, self._path = LineTail(path, whole=whole), path
        self._warn = warn
        self._index: Mapping[str, int] = {}
        self._lines: ClockPairLines | None = None
        self.refused = 0

    def poll(self, follower: Follower) -> None:
        """Hand over what has been appended."""
        if self._index != follower.client_index:
            self._index = follower.client_index
            before, self._lines = self._lines, ClockPairLines(self._path, self._index)
            if before is not None:
                self._lines.go_on_behind(before)
        assert self._lines is not None
        for number, data in self._tail.lines():
            if number == 1:
                self._lines = ClockPairLines(self._path, self._index)
            try:
                self._lines.take(data)
            except ClockPairsError as error:
                self.refused += 1
                if self.refused == 1:
                    self._warn(f"{error} (such lines are left out and counted)")
        follower.add_cross_stamps(self._lines.stamps())
        follower.add_clock_pairs(self._lines.pairs())
