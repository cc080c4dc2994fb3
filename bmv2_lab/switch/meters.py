# SPDX-License-Identifier: Apache-2.0
"""Two-rate three-colour meters (RFC 2698, colour-blind), as BMv2 runs them.

Time is the packet's ingress stamp, so that a simulated fabric meters in its own time.
"""

from dataclasses import dataclass, field
from typing import Any

from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.layout import PhvLayout

GREEN, YELLOW, RED = 0, 1, 2


@dataclass(slots=True, kw_only=True)
class Bucket:
    """One meter: committed and peak rate in units per second, bursts in units."""

    committed_rate: int
    committed_burst: int
    peak_rate: int
    peak_burst: int
    committed: float = 0.0
    peak: float = 0.0
    last_stamp: int | None = None

    def mark(self, amount: int, stamp: int, stamps_per_s: float) -> int:
        """Colour of a packet of `amount` units at `stamp`."""
        if self.last_stamp is None:
            self.committed, self.peak = self.committed_burst, self.peak_burst
        elif stamp > self.last_stamp:
            elapsed_s = (stamp - self.last_stamp) / stamps_per_s
            self.committed = min(
                self.committed + elapsed_s * self.committed_rate, self.committed_burst
            )
            self.peak = min(self.peak + elapsed_s * self.peak_rate, self.peak_burst)
        self.last_stamp = stamp
        if self.peak < amount:
            return RED
        self.peak -= amount
        if self.committed < amount:
            return YELLOW
        self.committed -= amount
        return GREEN


@dataclass(slots=True)
class MeterArray:
    """The meters of one array; an index without a configuration is always green."""

    counts_bytes: bool
    stamp_slot: int | None
    length_slot: int
    result_slot: int | None = None
    stamps_per_s: float = 1e9
    buckets: dict[int, Bucket] = field(default_factory=dict)
    control: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, item: JsonObject, layout: PhvLayout) -> "MeterArray":
        """From an element of `meter_arrays`."""
        result_slot = None
        target = item.get("result_target")
        if item.get("is_direct") and target:
            header, found = layout.field(target, f"meter_arrays[{item['name']}]")
            if header.metadata:
                result_slot = header.base + found.pieces[0].slot
        return cls(
            counts_bytes=item.get("type") == "bytes",
            stamp_slot=layout.intrinsic("intrinsic_metadata.ingress_global_timestamp"),
            length_slot=layout.slots.ingress_length,
            result_slot=result_slot,
        )

    def execute(self, index: int, packet: list[Any]) -> int:
        """Colour of a packet at one meter."""
        bucket = self.buckets.get(index)
        if bucket is None:
            return GREEN
        stamp = packet[self.stamp_slot] if self.stamp_slot is not None else 0
        amount = packet[self.length_slot] if self.counts_bytes else 1
        return bucket.mark(amount, stamp, self.stamps_per_s)

    def execute_direct(self, cell: list[Any], packet: list[Any]) -> None:
        """Meter of a table entry that was hit: the colour goes to the program's field."""
        if cell[2] and self.result_slot is not None:
            packet[self.result_slot] = self.execute(id(cell), packet)
