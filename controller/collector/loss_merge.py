# SPDX-License-Identifier: Apache-2.0
"""Sequence numbers that several workers saw, put back into the order of arrival and counted.

A sender numbers all its reports in one row, and workers share them by flow: each sees some of the
numbers. The kernel stamped every report when it arrived, with one clock; so the workers' lists are
merged by time, as far as every worker has got, and then count as if one process had received all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.collector.kernel import SOURCES_DIGEST, entry
from controller.collector.loads import address_of, get, put
from controller.collector.senders import CompiledTracker
from controller.collector.sequence_numbers import OBSERVE, observe
from controller.telemetry.collector import SenderKey
from controller.telemetry.dialect import SEQUENCE_BITS
from controller.telemetry.loss import LossCounters, SequenceTracker

WAITING_MAX = 1 << 22
"""Arrivals that wait for a worker that lags; beyond it they are counted without it: 64 MiB."""
_REPEATED = 1 << 32
_NUMBER_MASK = _REPEATED - 1
_SENDER_SHIFT = 33

Arrivals = NDArray[np.int64]
"""Rows of (capture_collector_ns, sender row << 33 | repeated << 32 | sequence number)."""


def arrival(sender_row: int, sequence_number: int, *, repeated: bool) -> int:
    """The second column of `Arrivals`."""
    return sender_row << _SENDER_SHIFT | (_REPEATED if repeated else 0) | sequence_number


@dataclass(slots=True)
class _Worker:
    senders: list[SenderKey] = field(default_factory=list)
    waiting: list[Arrivals] = field(default_factory=list)
    complete_until_ns: int = -(1 << 63)
    is_open: bool = True


class LossAccount:
    """Counts what workers tell of; times are the collector's."""

    def __init__(
        self,
        workers: int,
        *,
        waiting_max: int = WAITING_MAX,
        sequence_bits: Callable[[int], int] = lambda node_id: SEQUENCE_BITS,
    ) -> None:
        """`sequence_bits`: how wide a node's sequence numbers are."""
        self._places = workers
        self._sequence_bits = sequence_bits
        self._workers = [_Worker() for _ in range(workers)]
        self._waiting = 0
        self._waiting_max = waiting_max
        self._trackers: dict[SenderKey, SequenceTracker] = {}
        self.unordered = 0
        """Arrivals that were counted before a worker that lagged had told of that time."""

    @property
    def senders(self) -> Mapping[SenderKey, LossCounters]:
        """Totals of every sender, of all that has been merged."""
        return {key: tracker.counters for key, tracker in sorted(self._trackers.items())}

    def add(
        self,
        worker: int,
        arrivals: Arrivals,
        *,
        new_senders: list[SenderKey],
        complete_until_ns: int,
    ) -> None:
        """What a worker saw since the last call, in order; `new_senders` get its next rows.

        It will tell of nothing that arrived before `complete_until_ns` any more.
        """
        own = self._workers[worker]
        own.senders += new_senders
        if len(arrivals):
            own.waiting.append(arrivals)
            self._waiting += len(arrivals)
        own.complete_until_ns = max(own.complete_until_ns, complete_until_ns)
        self._merge()

    def end(self, worker: int) -> None:
        """The worker tells no more: nobody waits for it."""
        self._workers[worker].is_open = False
        self._merge()

    def restart(self, worker: int) -> None:
        """A new process in the worker's place, which numbers senders anew."""
        self.end(worker)
        kept = self._workers[worker].waiting
        senders = self._workers[worker].senders
        self._workers.append(_Worker(senders=senders, waiting=kept, is_open=False))
        self._workers[worker] = _Worker()

    def _merge(self) -> None:
        """Count what arrived before the time that all workers have told of."""
        limits = [own.complete_until_ns for own in self._workers if own.is_open]
        until_ns = min(limits, default=(1 << 63) - 1)
        self._count(until_ns)
        if self._waiting > self._waiting_max:
            self.unordered += self._waiting
            self._count((1 << 63) - 1)

    def _count(self, until_ns: int) -> None:
        ready = [self._take(own, until_ns) for own in self._workers]
        count = sum(map(len, ready))
        if not count:
            return
        self._waiting -= count
        trackers = [self._tracker(key) for own in self._workers for key in own.senders]
        addresses = np.array(
            [address_of(t.row) if isinstance(t, CompiledTracker) else 0 for t in trackers],
            np.int64,
        )
        first_rows = np.cumsum([0, *(len(own.senders) for own in self._workers)])[:-1]
        ends = np.cumsum([len(item) for item in ready])
        heads = ends - [len(item) for item in ready]
        table = np.concatenate(ready)
        table[:, 1] += np.repeat(first_rows, ends - heads) << _SENDER_SHIFT
        if not addresses.all():
            self._observe_others(table, trackers)
        observe_in_order(
            OBSERVE.address,
            *map(address_of, (table, heads, ends, addresses)),
            len(self._workers),
            count,
        )
        self._workers = [
            own for number, own in enumerate(self._workers) if number < self._places or own.waiting
        ]

    def _tracker(self, key: SenderKey) -> SequenceTracker:
        tracker = self._trackers.get(key)
        if tracker is None:
            bits = self._sequence_bits(key.node_id)
            is_standard = bits == SEQUENCE_BITS
            tracker = CompiledTracker() if is_standard else SequenceTracker(sequence_bits=bits)
            self._trackers[key] = tracker
        return tracker

    def _observe_others(self, table: Arrivals, trackers: Sequence[SequenceTracker]) -> None:
        """Senders whose numbers are wider or narrower than the compiled loop's: rare devices."""
        for _time, told in table[np.argsort(table[:, 0], kind="stable")].tolist():
            tracker = trackers[told >> _SENDER_SHIFT]
            if not isinstance(tracker, CompiledTracker):
                tracker.observe(told & _NUMBER_MASK, repeated=bool(told & _REPEATED))

    def _take(self, own: _Worker, until_ns: int) -> Arrivals:
        """Remove and return what arrived until then."""
        if not own.waiting:
            return np.zeros((0, 2), np.int64)
        waiting = np.concatenate(own.waiting) if len(own.waiting) > 1 else own.waiting[0]
        is_ready = waiting[:, 0] <= until_ns
        if is_ready.all():
            own.waiting = []
            return waiting
        own.waiting = [waiting[~is_ready]]
        return waiting[is_ready]


def _observe_entry(digest: int) -> Any:  # noqa: ANN401
    def observe_in_order(
        function: int, table: int, heads: int, ends: int, trackers: int, lists: int, count: int
    ) -> None:
        """Count `count` arrivals of several lists, each in order, by time.

        Addresses: of OBSERVE, the lists one after the other, where each begins (moved on) and
        ends, and the tracker row of each sender, 0 for one that is not counted here.
        """
        if digest == 0:
            return
        for _ in range(count):
            chosen = -1
            first_ns = 0
            for number in range(lists):
                head = get(heads, number)
                if head < get(ends, number):
                    captured_ns = get(table, 2 * head)
                    if chosen < 0 or captured_ns < first_ns:
                        chosen = number
                        first_ns = captured_ns
            head = get(heads, chosen)
            put(heads, chosen, head + 1)
            told = get(table, 2 * head + 1)
            tracker = get(trackers, told >> 33)
            if tracker != 0:
                observe(function, tracker, told & 0xFFFFFFFF, told >> 32 & 1 != 0)

    return entry(observe_in_order)


observe_in_order = _observe_entry(SOURCES_DIGEST)
