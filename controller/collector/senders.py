# SPDX-License-Identifier: Apache-2.0
"""Sequence numbers per (node, hw id, destination), counted by compiled loops."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from controller.collector import sequence_numbers as s
from controller.collector.loads import address_of
from controller.collector.run_batch import HW_IDS
from controller.telemetry.collector import Destination, SenderKey
from controller.telemetry.loss import Arrival, LossCounters, SequenceTracker

_T = TypeVar("_T")


class CompiledTracker(SequenceTracker):
    """A sender's row; counts as `SequenceTracker` does."""

    def __init__(self) -> None:
        self.row = np.zeros(s.S_COLUMNS, np.int64)
        self.row[s.S_NEWEST] = -1
        self._one = np.zeros(2, np.int64)

    @property
    def counters(self) -> LossCounters:
        """Totals so far."""
        return _loss_counters(self.counts.tolist())

    @property
    def counts(self) -> NDArray[np.int64]:
        """The counters in the order of `LossCounters`; a view."""
        return self.row[s.S_RECEIVED : s.S_UNCONFIRMED + 1]

    def observe(self, sequence_number: int, *, repeated: bool = False) -> Arrival:
        """One report that the reference decoder took."""
        before = self.counters
        self._one[:] = sequence_number, repeated
        first = address_of(self._one)
        s.observe_many(address_of(self.row), first, first + 8, 1)
        after = self.counters
        if repeated:
            return Arrival.DUPLICATE
        if after.restart > before.restart:
            return Arrival.RESTART
        if after.unconfirmed > before.unconfirmed:
            return Arrival.UNCONFIRMED
        return Arrival.REORDERED if after.reordered > before.reordered else Arrival.NEW


class LossTable(Mapping[SenderKey, LossCounters]):
    """Counters of all senders at one time; made into objects when they are asked for."""

    def __init__(self, keys: Sequence[SenderKey], counts: NDArray[np.int64]) -> None:
        self._keys = keys
        self._counts = counts
        self._places: dict[SenderKey, int] | None = None

    def __getitem__(self, key: SenderKey) -> LossCounters:
        if self._places is None:
            self._places = {known: place for place, known in enumerate(self._keys)}
        return _loss_counters(self._counts[self._places[key]].tolist())

    def __iter__(self) -> Iterator[SenderKey]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def total(self) -> LossCounters:
        """Of all senders together."""
        return _loss_counters(self._counts.sum(axis=0).tolist())


def _loss_counters(counts: list[int]) -> LossCounters:
    received, lost, reordered, duplicate, restart, unconfirmed = counts
    return LossCounters(
        received=received,
        lost=lost,
        reordered=reordered,
        duplicate=duplicate,
        restart=restart,
        unconfirmed=unconfirmed,
    )


class SenderTable(dict[SenderKey, SequenceTracker]):
    """All senders; those whose dialect is compiled also in an array of addresses.

    `node_rows` are the nodes whose reports the compiled loop numbers; the others' trackers are
    those that the reference collector puts here.
    """

    def __init__(self, node_ids: Sequence[int], node_rows: Mapping[int, int]) -> None:
        super().__init__()
        self._node_ids = node_ids
        self._node_rows = node_rows
        self._destinations: dict[Destination, int] = {}
        self._sorted: list[SenderKey] = []
        self.rows: NDArray[np.int64] = np.zeros((len(node_ids), HW_IDS, 1), np.int64)
        """Per node, hw id and destination: address of the sender's row, 0 for none."""
        self.address = address_of(self.rows)
        """Where `rows` lie."""

    def get(self, key: SenderKey, default: _T = None) -> SequenceTracker | _T:  # type: ignore[assignment]
        """The sender's tracker; one that the compiled loop shares is made at once."""
        tracker = super().get(key)
        if tracker is not None:
            return tracker
        row = self._node_rows.get(key.node_id)
        if row is None:
            return default
        made = self[key] = self.new_tracker(key)
        destination = self.destination_row(key.destination)  # may make the array longer
        self.rows[row, key.hw_id, destination] = address_of(made.row)
        return made

    def new_tracker(self, key: SenderKey) -> CompiledTracker:
        """A tracker that the compiled loop shares."""
        return CompiledTracker()

    def losses(self) -> LossTable:
        """Counters of all senders now."""
        if len(self._sorted) != len(self):
            self._sorted = sorted(self)
        counts = np.zeros((len(self), len(fields(LossCounters))), np.int64)
        for place, key in enumerate(self._sorted):
            tracker = self[key]
            if isinstance(tracker, CompiledTracker):
                counts[place] = tracker.counts
            else:
                counts[place] = astuple(tracker.counters)
        return LossTable(self._sorted, counts)

    def destination_row(self, destination: Destination) -> int:
        """The number of a destination; the array grows with it."""
        number = self._destinations.setdefault(destination, len(self._destinations))
        if number >= self.rows.shape[2]:
            grown = np.zeros((*self.rows.shape[:2], 2 * self.rows.shape[2]), np.int64)
            grown[:, :, : self.rows.shape[2]] = self.rows
            self.rows = grown
            self.address = address_of(grown)
        return number

    def make(self, place: int) -> None:
        """Make the tracker whose address is wanted at a place of the flattened array."""
        node, hw_id, number = np.unravel_index(place, self.rows.shape)
        destination = next(d for d, row in self._destinations.items() if row == number)
        self.get(SenderKey(self._node_ids[int(node)], int(hw_id), destination))
