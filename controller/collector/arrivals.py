# SPDX-License-Identifier: Apache-2.0
"""A worker's list of sequence numbers: written down instead of counted, see `loss_merge`."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from controller.collector.arrival_list import COLUMNS
from controller.collector.loads import address_of
from controller.collector.loss_merge import Arrivals, arrival
from controller.collector.senders import CompiledTracker, SenderTable
from controller.telemetry.collector import SenderKey
from controller.telemetry.loss import Arrival, SequenceTracker


class ArrivalLog:
    """The list and the senders in it."""

    def __init__(self) -> None:
        self._rows: NDArray[np.int64] = np.zeros((1, COLUMNS), np.int64)
        self._senders: dict[int, int] = {}
        """Row number by address."""
        self._new_senders: list[SenderKey] = []
        self._keep: list[CompiledTracker] = []
        self.now_ns = 0
        """Capture time of the report that the reference decoder has at hand."""

    def __len__(self) -> int:
        return int(self._rows[0, 0])

    def reserve(self, count: int) -> int:
        """Make room for `count` more; the address of the list."""
        need = len(self) + count + 1
        if need > len(self._rows):
            rows = np.zeros((2 * need, COLUMNS), np.int64)
            rows[: len(self._rows)] = self._rows
            self._rows = rows
        return address_of(self._rows)

    def add_sender(self, key: SenderKey, tracker: CompiledTracker) -> None:
        """A sender whose numbers may come from now on."""
        self._senders[address_of(tracker.row)] = len(self._senders)
        self._new_senders.append(key)
        self._keep.append(tracker)  # its address stays its own

    def add(self, tracker: CompiledTracker, sequence_number: int, *, repeated: bool) -> None:
        """One report that the reference decoder took."""
        self.reserve(1)
        told = arrival(0, sequence_number, repeated=repeated)
        count = len(self)
        self._rows[count + 1] = self.now_ns, address_of(tracker.row), told
        self._rows[0, 0] = count + 1

    def take(self) -> tuple[Arrivals, list[SenderKey]]:
        """All arrivals since the last call, and the senders that are new; see `LossAccount`."""
        rows = self._rows[1 : len(self) + 1]
        addresses, places = np.unique(rows[:, 1], return_inverse=True)
        numbers = np.array([self._senders[a] for a in addresses.tolist()], np.int64)
        taken = np.empty((len(rows), 2), np.int64)
        taken[:, 0] = rows[:, 0]
        taken[:, 1] = rows[:, 2]
        if len(rows):
            taken[:, 1] += numbers[places.reshape(-1)] << 33
        self._rows[0, 0] = 0
        new_senders, self._new_senders = self._new_senders, []
        return taken, new_senders


class _NotedTracker(CompiledTracker):
    """Writes down what the reference decoder takes."""

    def __init__(self, log: ArrivalLog) -> None:
        super().__init__()
        self._log = log

    def observe(self, sequence_number: int, *, repeated: bool = False) -> Arrival:
        """One report; what its number means is found out later."""
        self._log.add(self, sequence_number, repeated=repeated)
        return Arrival.DUPLICATE if repeated else Arrival.NEW


class NotedSenders(SenderTable):
    """Senders whose numbers are written down, whatever their dialect."""

    def __init__(
        self, node_ids: Sequence[int], node_rows: Mapping[int, int], log: ArrivalLog
    ) -> None:
        super().__init__(node_ids, node_rows)
        self._log = log

    def new_tracker(self, key: SenderKey) -> CompiledTracker:
        """A tracker of the compiled loop."""
        tracker = _NotedTracker(self._log)
        self._log.add_sender(key, tracker)
        return tracker

    def get(  # type: ignore[override]
        self, key: SenderKey, default: SequenceTracker | None = None
    ) -> SequenceTracker:
        """The sender's tracker; made at once for every dialect."""
        tracker: SequenceTracker | None = super().get(key)
        return self.setdefault(key, self.new_tracker(key)) if tracker is None else tracker
