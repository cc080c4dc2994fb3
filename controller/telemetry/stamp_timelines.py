# SPDX-License-Identifier: Apache-2.0
"""The stamp timelines of all nodes, shared by everything that turns their stamps into ns.

One row of state per node (`stamp_kernel`), so that a stamp means the same wherever it is reported,
and so that a compiled loop can advance them.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.telemetry import stamp_kernel
from controller.telemetry.stamp_kernel import EPOCHS, JUMP_UNITS, UNIT_NS, StampFault
from controller.telemetry.topology import TelemetryFabric
from correction.records import NO_TSTAMP_NS

_EPOCHS_PER_CALL = 64
_SIDES = ("ingress_tstamp", "egress_tstamp")


class ClockEpoch(NamedTuple):
    """A device's clock was set, or began anew with the device."""

    node_id: int
    capture_collector_ns: int
    """Arrival of the stamp that made it sure."""
    jump_local_ns: int
    """What the clock showed less what it should have shown; modulo its period."""


class StampTimelines:
    """The local time lines of a fabric's nodes."""

    def __init__(self, fabric: TelemetryFabric) -> None:
        nodes = sorted(fabric.nodes.values(), key=lambda node: node.node_id)
        self.node_ids = np.array([node.node_id for node in nodes], np.int64)
        """Sorted; the row of a node is its index here."""
        self.state = np.array(
            [
                stamp_kernel.new_state(
                    unit_ns=node.stamp_unit_ns,
                    width_bits=node.stamp_width_bits,
                    egress_width_bits=node.egress_stamp_width_bits,
                    origin_ns=node.stamp_origin_ns,
                )
                for node in nodes
            ],
            np.int64,
        ).reshape(-1, stamp_kernel.STATE_COLUMNS)
        """Per node; only `stamp_kernel` changes it."""
        self._row = {node.node_id: row for row, node in enumerate(nodes)}
        self._epochs: list[ClockEpoch] = []
        self.faults: Counter[str] = Counter()
        """Stamps that are no instants, by field and reason; those not available apart."""

    def unit_ns(self, node_id: int) -> int:
        """Nanoseconds per unit of a node's stamps."""
        return int(self.state[self._row[node_id], UNIT_NS])

    @property
    def epoch_counts(self) -> dict[int, int]:
        """How often each node's clock began anew, where it did."""
        counts = self.state[:, EPOCHS].tolist()
        return {
            node: count for node, count in zip(self.node_ids.tolist(), counts, strict=True) if count
        }

    def instants(
        self,
        node_id: int,
        ingress: int | None,
        egress: int | None,
        captured_collector_ns: int,
        *,
        on_record: bool = False,
    ) -> tuple[int | None, int | None]:
        """Local ns of one hop's raw stamps (ingress, egress); None where there is none.

        `on_record`: count what is impossible. Who only compares hops leaves that to the record.
        """
        number = self._row[node_id]
        row = self.state[number]
        before = row[EPOCHS]
        ingress_fault, ingress_ns, egress_fault, egress_ns = stamp_kernel.place_hop(
            row, _signed(ingress), _signed(egress), captured_collector_ns
        )
        if row[EPOCHS] != before:
            jump_ns = int(row[JUMP_UNITS]) * int(row[UNIT_NS])
            self._epochs.append(ClockEpoch(node_id, captured_collector_ns, jump_ns))
        if on_record:
            faults = np.zeros((len(_SIDES), len(StampFault)), np.int64)
            faults[0, ingress_fault] = faults[1, egress_fault] = 1
            self.add_faults(faults)
        return (
            int(ingress_ns) if ingress_fault == StampFault.NONE else None,
            int(egress_ns) if egress_fault == StampFault.NONE else None,
        )

    def to_local_ns(
        self,
        node_ids: NDArray[np.uint32],
        ingress: NDArray[np.uint64],
        egress: NDArray[np.uint64],
        captured_collector_ns: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(ingress, egress) local ns of raw stamps, one hop a row, in their order.

        A raw 0 is a stamp that is not available; NO_TSTAMP_NS stands for it and for what is
        impossible, which is counted.
        """
        ingress_local_ns = np.full(len(node_ids), NO_TSTAMP_NS, np.int64)
        egress_local_ns = ingress_local_ns.copy()
        faults = np.zeros((len(_SIDES), len(StampFault)), np.int64)
        epochs = np.zeros((_EPOCHS_PER_CALL, 3), np.int64)
        begun = stamp_kernel.place_hops(
            self.state,
            np.searchsorted(self.node_ids, node_ids),
            ingress.view(np.int64),
            egress.view(np.int64),
            captured_collector_ns,
            ingress_local_ns,
            egress_local_ns,
            faults,
            epochs,
        )
        self.add_faults(faults)
        self.add_epochs(epochs[: min(begun, _EPOCHS_PER_CALL)])
        return ingress_local_ns, egress_local_ns

    def add_faults(self, faults: NDArray[np.int64]) -> None:
        """Count int64[2, StampFault] of a compiled loop."""
        for side, counts in zip(_SIDES, faults.tolist(), strict=True):
            for fault, count in zip(StampFault, counts, strict=True):
                if count and fault not in (StampFault.NONE, StampFault.ABSENT):
                    self.faults[f"{side}_{fault.name.lower()}"] += count

    def add_epochs(self, epochs: NDArray[np.int64]) -> None:
        """Take int64[n, 3] of a compiled loop: row, collector ns, jump in units."""
        for row, captured_collector_ns, jump_units in epochs.tolist():
            jump_ns = jump_units * int(self.state[row, UNIT_NS])
            self._epochs.append(ClockEpoch(int(self.node_ids[row]), captured_collector_ns, jump_ns))

    def take_epochs(self) -> tuple[ClockEpoch, ...]:
        """What began since the last call."""
        taken = tuple(self._epochs)
        self._epochs.clear()
        return taken


def _signed(raw: int | None) -> int:
    """A 64-bit field as the compiled loops read it: 0 is none, 2^63 and more negative."""
    if raw is None:
        return 0
    return raw - (1 << 64) if raw >= 1 << 63 else raw
