# SPDX-License-Identifier: Apache-2.0
"""`clock_pairs.jsonl`: a NIC's PHC and its machine's system counter, read at one instant.

One JSON object a line (docs/schemas/clock-pairs.schema.json): `header` first, with the version,
then `cross_stamp` rows as PCIe PTM gives them (PTP_SYS_OFFSET_PRECISE on Linux). Two NICs of one
machine are tied together by their rows against the same counter. Readings are integer nanoseconds
in strings, since they exceed 2^53.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CLOCK_PAIRS_VERSION = 1
"""`version` in the header line."""


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
