# SPDX-License-Identifier: Apache-2.0
"""`clock_pairs.jsonl`: a NIC's PHC and its machine's system counter, read at one instant.

One JSON object a line (docs/schemas/clock-pairs.schema.json): `header` first, with the version,
then `cross_stamp` rows as PCIe PTM gives them (PTP_SYS_OFFSET_PRECISE on Linux). Two NICs of one
machine are tied together by their rows against the same counter. Readings are integer nanoseconds
in strings, since they exceed 2^53.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from correction.cross_stamps import CROSS_STAMP_DTYPE, CrossStamps

CLOCK_PAIRS_VERSION = 1
"""`version` in the header line."""
UNCERTAINTY_NS_MAX = 1_000_000_000
"""A cross-stamp that says less than that ties nothing."""
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_KEYS = ("machine", "clock", "phc_local_ns", "system_local_ns", "uncertainty_ns")


class ClockPairsError(Exception):
    """A line that cannot be used; `str()` names file, line and key."""

    def __init__(self, path: Path, line: int, key: str, message: str) -> None:
        super().__init__(f"{path}:{line}: {key}: {message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossStamp:
    """Both readings lie within `uncertainty_ns` of each other in true time."""

    machine: str
    clock: str
    """Host (NIC) of the fabric whose PHC it is."""
    phc_local_ns: int
    system_local_ns: int
    """The machine's counter, which no servo steers; its epoch is arbitrary."""
    uncertainty_ns: int


def cross_stamp_line(stamp: CrossStamp) -> str:
    """One `cross_stamp` line."""
    return json.dumps(
        {
            "record": "cross_stamp",
            "machine": stamp.machine,
            "clock": stamp.clock,
            "phc_local_ns": str(stamp.phc_local_ns),
            "system_local_ns": str(stamp.system_local_ns),
            "uncertainty_ns": stamp.uncertainty_ns,
        },
        separators=(",", ":"),
    )


def write_clock_pairs(path: Path, stamps: Iterable[CrossStamp]) -> None:
    """Write a log of cross-stamps."""
    header = json.dumps({"record": "header", "version": CLOCK_PAIRS_VERSION}, separators=(",", ":"))
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(header + "\n")
        for stamp in stamps:
            file.write(cross_stamp_line(stamp) + "\n")


def read_clock_pairs(path: Path, clock_index: Mapping[str, int]) -> CrossStamps:
    """Read a log; `clock_index` gives each NIC's clock in the fabric model. `ClockPairsError`."""
    lines = ClockPairLines(path, clock_index)
    with path.open("rb") as file:
        for line in file:
            lines.take(line)
    return lines.stamps()


class ClockPairLines:
    """Reads the lines of a log one after the other."""

    def __init__(self, path: Path, clock_index: Mapping[str, int]) -> None:
        self._path = path
        self._clock_index = clock_index
        self._number = 0
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._machines: dict[str, int] = {}

    def take(self, line: bytes) -> None:
        """The next line; `ClockPairsError`."""
        self._number += 1
        path, number = self._path, self._number
        record = _record(path, number, line)
        kind = record.get("record")
        if number == 1:
            if kind != "header" or record.get("version") != CLOCK_PAIRS_VERSION:
                expected = f"expected a header of version {CLOCK_PAIRS_VERSION}"
                raise ClockPairsError(path, number, "record", expected)
            return
        if kind != "cross_stamp":
            raise ClockPairsError(path, number, "record", "expected cross_stamp")
        missing = next((key for key in _KEYS if key not in record), None)
        if missing is not None:
            raise ClockPairsError(path, number, missing, "is missing")
        machine, clock = record["machine"], record["clock"]
        if not isinstance(machine, str) or not machine:
            raise ClockPairsError(path, number, "machine", "expected a name")
        if not isinstance(clock, str) or clock not in self._clock_index:
            raise ClockPairsError(path, number, "clock", "is no host of the fabric")
        phc, counter = (_stamp(path, number, key, record[key]) for key in _KEYS[2:4])
        limit = record["uncertainty_ns"]
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise ClockPairsError(path, number, "uncertainty_ns", "expected a whole number")
        if not 0 <= limit <= UNCERTAINTY_NS_MAX:
            expected = f"expected 0 to {UNCERTAINTY_NS_MAX}"
            raise ClockPairsError(path, number, "uncertainty_ns", expected)
        place = self._machines.setdefault(machine, len(self._machines))
        self._rows.append((self._clock_index[clock], place, phc, counter, limit))

    def go_on_behind(self, before: "ClockPairLines") -> None:
        """The next line is the one behind those that another one has read."""
        self._number = before._number

    def stamps(self) -> CrossStamps:
        """What was read since the last call."""
        rows = np.array(self._rows, CROSS_STAMP_DTYPE)
        self._rows.clear()
        return CrossStamps(rows=rows, machines=tuple(self._machines))


def _record(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise ClockPairsError(path, number, "-", "expected one JSON object a line") from None
    if not isinstance(record, dict):
        raise ClockPairsError(path, number, "-", "expected one JSON object a line")
    return record


def _stamp(path: Path, number: int, key: str, value: object) -> int:
    if not isinstance(value, str) or not _INTEGER.fullmatch(value) or abs(int(value)) >= 2**62:
        raise ClockPairsError(path, number, key, "expected whole ns below 2^62 in a string")
    return int(value)
