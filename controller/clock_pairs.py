# SPDX-License-Identifier: Apache-2.0
"""`clock_pairs.jsonl`: two clocks of a machine, read at one instant.

One JSON object a line (docs/schemas/clock-pairs.schema.json): `header`, with the version, then
- `cross_stamp`: a NIC's PHC and its machine's counter, as PCIe PTM gives them
  (PTP_SYS_OFFSET_PRECISE on Linux). Two NICs of one machine are tied together by their rows
  against the same counter.
- `derived_clock` and `clock_pair`: how a clock that no packet carries (system clock, GPU, time
  since boot) runs against its parent, and readings of both (`correction.derived`).
Readings are integer nanoseconds in strings, since they exceed 2^53.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from pathlib import Path
from typing import Any

import numpy as np

from controller.host_clocks import default_behaviour
from correction.cross_stamps import CROSS_STAMP_DTYPE, CrossStamps
from correction.derived.readings import PAIR_DTYPE, Behaviour, ClockPairs

CLOCK_PAIRS_VERSION = 1
"""`version` in the header line."""
UNCERTAINTY_NS_MAX = 1_000_000_000
"""A cross-stamp that says less than that ties nothing."""
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_KEYS = ("machine", "clock", "phc_local_ns", "system_local_ns", "uncertainty_ns")
_PAIR_KEYS = ("kind", "clock", "parent", "clock_local_ns", "parent_local_ns", "uncertainty_ns")
_LIMIT_KEYS = ("steering_ppb", "wander_ns_per_s_sqrt_s", "rate_ppb_max")
LIMIT_MAX = 1e9
"""Of a declared limit: a clock that runs twice as fast is none."""


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


@unique
class PairKind(StrEnum):
    """How a pair was read."""

    PTP_PRECISE = "ptp-sys-offset-precise"
    """PTP_SYS_OFFSET_PRECISE: both latched by hardware."""
    PTP_EXTENDED = "ptp-sys-offset-extended"
    """PTP_SYS_OFFSET_EXTENDED: the PHC between two readings of the system clock."""
    PHC2SYS = "phc2sys"
    """From phc2sys' log: its printed offset, right to half of its printed delay."""
    BRACKETED = "bracketed"
    """One clock between two readings of the other, by `clock_gettime`."""
    CUPTI = "cupti"
    """cuptiGetTimestamp between two readings of a host clock: GPU time as the driver gives it."""
    GLOBALTIMER = "gpu-globaltimer"
    """A GPU's own %globaltimer between two readings of a host clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPair:
    """While `clock` read `clock_local_ns`, `parent` read `parent_local_ns`, to `uncertainty_ns`."""

    kind: PairKind
    clock: str
    parent: str
    clock_local_ns: int
    parent_local_ns: int
    uncertainty_ns: int


def clock_pair_line(pair: ClockPair) -> str:
    """One `clock_pair` line."""
    return json.dumps(
        {
            "record": "clock_pair",
            "kind": pair.kind.value,
            "clock": pair.clock,
            "parent": pair.parent,
            "clock_local_ns": str(pair.clock_local_ns),
            "parent_local_ns": str(pair.parent_local_ns),
            "uncertainty_ns": pair.uncertainty_ns,
        },
        separators=(",", ":"),
    )


def derived_clock_line(clock: str, parent: str, behaviour: Behaviour) -> str:
    """One `derived_clock` line."""
    return json.dumps(
        {
            "record": "derived_clock",
            "clock": clock,
            "parent": parent,
            "steering_ppb": behaviour.steering_ppb,
            "wander_ns_per_s_sqrt_s": behaviour.wander_ns_per_s_sqrt_s,
            "rate_ppb_max": behaviour.rate_ppb_max,
            "settable": behaviour.settable,
        },
        separators=(",", ":"),
    )


def header_line() -> str:
    """The first line."""
    return json.dumps({"record": "header", "version": CLOCK_PAIRS_VERSION}, separators=(",", ":"))


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


def write_clock_pairs(
    path: Path, stamps: Iterable[CrossStamp], derived_lines: Iterable[str] = ()
) -> None:
    """Write a log of cross-stamps, and lines of derived clocks behind them."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(header_line() + "\n")
        for line in (*map(cross_stamp_line, stamps), *derived_lines):
            file.write(line + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPairLog:
    """All of one file."""

    stamps: CrossStamps
    pairs: tuple[ClockPairs, ...]
    """One per clock and parent, in order of appearance."""


def read_clock_pairs(path: Path, clock_index: Mapping[str, int]) -> ClockPairLog:
    """Read a log; `clock_index` gives each NIC's clock in the fabric model. `ClockPairsError`."""
    lines = ClockPairLines(path, clock_index)
    with path.open("rb") as file:
        for line in file:
            lines.take(line)
    return ClockPairLog(stamps=lines.stamps(), pairs=lines.pairs())


class ClockPairLines:
    """Reads the lines of a log one after the other."""

    def __init__(self, path: Path, clock_index: Mapping[str, int]) -> None:
        self._path = path
        self._clock_index = clock_index
        self._number = 0
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._machines: dict[str, int] = {}
        self._pairs: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
        self._behaviours: dict[tuple[str, str], Behaviour] = {}

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
        match kind:
            case "cross_stamp":
                self._take_cross_stamp(_Line(path, number, record))
            case "clock_pair":
                self._take_pair(_Line(path, number, record))
            case "derived_clock":
                self._take_derived_clock(_Line(path, number, record))
            case _:
                expected = "expected cross_stamp, clock_pair or derived_clock"
                raise ClockPairsError(path, number, "record", expected)

    def _take_cross_stamp(self, line: "_Line") -> None:
        line.require(_KEYS)
        machine, clock = line.name("machine"), line.record["clock"]
        if not isinstance(clock, str) or clock not in self._clock_index:
            raise line.error("clock", "is no host of the fabric")
        phc, counter = (line.stamp(key) for key in _KEYS[2:4])
        place = self._machines.setdefault(machine, len(self._machines))
        self._rows.append((self._clock_index[clock], place, phc, counter, line.uncertainty()))

    def _take_pair(self, line: "_Line") -> None:
        line.require(_PAIR_KEYS)
        if line.record["kind"] not in list(PairKind):
            raise line.error("kind", f"expected one of {', '.join(PairKind)}")
        clock, parent = line.clock_and_parent()
        reading = (line.stamp("clock_local_ns"), line.stamp("parent_local_ns"))
        rows = self._pairs.setdefault((clock, parent), [])
        rows.append((*reading, line.uncertainty()))

    def _take_derived_clock(self, line: "_Line") -> None:
        line.require(("clock", "parent", *_LIMIT_KEYS, "settable"))
        steering, wander, rate_max = (line.limit(key) for key in _LIMIT_KEYS)
        if not isinstance(line.record["settable"], bool):
            raise line.error("settable", "expected true or false")
        self._behaviours[line.clock_and_parent()] = Behaviour(
            steering_ppb=steering,
            wander_ns_per_s_sqrt_s=wander,
            rate_ppb_max=rate_max,
            settable=line.record["settable"],
        )

    def go_on_behind(self, before: "ClockPairLines") -> None:
        """The next line is the one behind those that another one has read."""
        self._number = before._number
        self._behaviours = before._behaviours

    def stamps(self) -> CrossStamps:
        """What was read since the last call."""
        rows = np.array(self._rows, CROSS_STAMP_DTYPE)
        self._rows.clear()
        return CrossStamps(rows=rows, machines=tuple(self._machines))

    def pairs(self) -> tuple[ClockPairs, ...]:
        """Pairs of derived clocks that were read since the last call."""
        found = tuple(
            ClockPairs(
                clock=clock,
                parent=parent,
                rows=np.array(rows, PAIR_DTYPE),
                behaviour=self._behaviours.get((clock, parent)) or default_behaviour(clock, parent),
            )
            for (clock, parent), rows in self._pairs.items()
        )
        self._pairs.clear()
        return found


class _Line:
    """One record, and where it stands."""

    def __init__(self, path: Path, number: int, record: dict[str, Any]) -> None:
        self._path, self._number = path, number
        self.record = record

    def error(self, key: str, message: str) -> ClockPairsError:
        """What is wrong with a key of it."""
        return ClockPairsError(self._path, self._number, key, message)

    def require(self, keys: Iterable[str]) -> None:
        """All these keys are there."""
        missing = next((key for key in keys if key not in self.record), None)
        if missing is not None:
            raise self.error(missing, "is missing")

    def name(self, key: str) -> str:
        """A name that is not empty."""
        value = self.record[key]
        if not isinstance(value, str) or not value:
            raise self.error(key, "expected a name")
        return value

    def clock_and_parent(self) -> tuple[str, str]:
        """Two different clocks."""
        clock, parent = self.name("clock"), self.name("parent")
        if clock == parent:
            raise self.error("parent", "is the clock itself")
        return clock, parent

    def stamp(self, key: str) -> int:
        """A reading."""
        value = self.record[key]
        if not isinstance(value, str) or not _INTEGER.fullmatch(value) or abs(int(value)) >= 2**62:
            raise self.error(key, "expected whole ns below 2^62 in a string")
        return int(value)

    def uncertainty(self) -> int:
        """`uncertainty_ns`."""
        limit = self.record["uncertainty_ns"]
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise self.error("uncertainty_ns", "expected a whole number")
        if not 0 <= limit <= UNCERTAINTY_NS_MAX:
            raise self.error("uncertainty_ns", f"expected 0 to {UNCERTAINTY_NS_MAX}")
        return limit

    def limit(self, key: str) -> float:
        """A declared limit."""
        value = self.record[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, "expected a number")
        if not 0 <= value <= LIMIT_MAX:
            raise self.error(key, f"expected 0 to {LIMIT_MAX:.0f}")
        return float(value)


def _record(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise ClockPairsError(path, number, "-", "expected one JSON object a line") from None
    if not isinstance(record, dict):
        raise ClockPairsError(path, number, "-", "expected one JSON object a line")
    return record
