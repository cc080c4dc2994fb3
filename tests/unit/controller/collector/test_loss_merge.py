# SPDX-License-Identifier: Apache-2.0
"""Loss per sender is the same whether one process received its reports or several did."""

import random

import numpy as np
import pytest

from controller.collector.loss_merge import Arrivals, LossAccount, arrival
from controller.telemetry.collector import Destination, SenderKey
from controller.telemetry.loss import LossCounters, SequenceTracker

DESTINATION = Destination(0x0AFF0001, 32766)
FIRST, SECOND = SenderKey(1, 0, DESTINATION), SenderKey(2, 1, DESTINATION)


def arrivals(*rows: tuple[int, int, int]) -> Arrivals:
    """(time, sender row, sequence number) as a worker tells of them."""
    table = [(time, arrival(sender, number, repeated=False)) for time, sender, number in rows]
    return np.array(table, np.int64).reshape(-1, 2)


def test_numbers_shared_by_two_workers_are_not_lost() -> None:
    """Each worker sees every other number; together nothing is missing and nothing is late."""
    account = LossAccount(2)
    even = arrivals(*((10 * n, 0, n) for n in range(0, 400, 2)))
    odd = arrivals(*((10 * n, 0, n) for n in range(1, 400, 2)))
    account.add(0, even, new_senders=[FIRST], complete_until_ns=4000)
    assert account.senders == {}  # the other worker has told nothing yet
    account.add(1, odd, new_senders=[FIRST], complete_until_ns=4000)
    assert account.senders == {FIRST: LossCounters(received=400)}


def test_a_gap_is_lost_once() -> None:
    """A number that no worker saw is lost; one that a single worker did not see is not."""
    account = LossAccount(2)
    account.add(0, arrivals((1, 0, 0), (3, 0, 2)), new_senders=[FIRST], complete_until_ns=10)
    account.add(1, arrivals((2, 0, 1), (5, 0, 4)), new_senders=[FIRST], complete_until_ns=10)
    assert account.senders == {FIRST: LossCounters(received=4, lost=1)}


def test_a_lagging_worker_is_waited_for() -> None:
    """Reports that wait in one worker's socket for a second are not counted as lost meanwhile."""
    account = LossAccount(2)
    account.add(0, arrivals((10, 0, 0)), new_senders=[FIRST], complete_until_ns=10)
    account.add(1, arrivals((11, 0, 1)), new_senders=[FIRST], complete_until_ns=2_000_000_000)
    account.add(
        1, arrivals((2_000_000_000, 0, 50_000)), new_senders=[], complete_until_ns=2_000_000_000
    )
    assert account.senders == {FIRST: LossCounters(received=1)}
    late = arrivals(*((20 + n, 0, n) for n in range(2, 50_000)))
    account.add(0, late, new_senders=[], complete_until_ns=2_000_000_000)
    assert account.senders == {FIRST: LossCounters(received=50_001)}


def test_rows_of_senders_are_each_workers_own() -> None:
    """Two workers number the same senders in different orders."""
    account = LossAccount(2)
    account.add(
        0, arrivals((1, 0, 5), (2, 1, 9)), new_senders=[FIRST, SECOND], complete_until_ns=10
    )
    account.add(
        1, arrivals((3, 0, 10), (4, 1, 6)), new_senders=[SECOND, FIRST], complete_until_ns=10
    )
    assert account.senders == {FIRST: LossCounters(received=2), SECOND: LossCounters(received=2)}


def test_repetitions_are_counted_as_such() -> None:
    """A report whose content a worker had before is a duplicate, not a second number."""
    account = LossAccount(1)
    table = [(1, arrival(0, 7, repeated=False)), (2, arrival(0, 7, repeated=True))]
    account.add(0, np.array(table, np.int64), new_senders=[FIRST], complete_until_ns=5)
    assert account.senders == {FIRST: LossCounters(received=1, duplicate=1)}


def test_waiting_arrivals_are_bounded() -> None:
    """A worker that tells nothing does not make the others' arrivals pile up for ever."""
    account = LossAccount(2, waiting_max=100)
    for first in range(0, 500, 50):
        some = arrivals(*((n, 0, n) for n in range(first, first + 50)))
        account.add(0, some, new_senders=[FIRST] if first == 0 else [], complete_until_ns=first)
    assert account.senders[FIRST].received >= 400
    assert account.unordered >= 400


def test_a_worker_that_ended_is_not_waited_for() -> None:
    """What the others saw is counted to the end, and what the ended one had told is kept."""
    account = LossAccount(2)
    account.add(0, arrivals((1, 0, 0)), new_senders=[FIRST], complete_until_ns=1)
    account.add(1, arrivals((2, 0, 1)), new_senders=[FIRST], complete_until_ns=2)
    account.end(0)
    assert account.senders == {FIRST: LossCounters(received=2)}


def test_a_worker_that_was_started_again_numbers_senders_anew() -> None:
    """What the old process told keeps its senders; the new one begins with its own."""
    account = LossAccount(2)
    account.add(0, arrivals((1, 0, 0), (9, 0, 2)), new_senders=[FIRST], complete_until_ns=9)
    account.restart(0)
    account.add(0, arrivals((10, 0, 40)), new_senders=[SECOND], complete_until_ns=20)
    account.add(1, arrivals((5, 0, 1)), new_senders=[FIRST], complete_until_ns=20)
    assert account.senders == {FIRST: LossCounters(received=3), SECOND: LossCounters(received=1)}


@pytest.mark.parametrize("seed", range(5))
def test_any_sharing_counts_like_one_tracker(seed: int) -> None:
    """Numbers with losses, repetitions, reordering and a restart, shared at random between three
    workers that report in turns of random length, count as one tracker counts them in order."""
    rng = random.Random(seed)
    stream = [n for n in range(5000) if rng.random() > 0.02]
    for _ in range(30):
        at = rng.randrange(len(stream) - 10)
        stream[at], stream[at + 5] = stream[at + 5], stream[at]
    stream += range(1000)
    alone = SequenceTracker()
    shared: list[list[tuple[int, int]]] = [[], [], []]
    for time, number in enumerate(stream):
        repeated = rng.random() < 0.01
        alone.observe(number, repeated=repeated)
        shared[rng.randrange(3)].append((time, arrival(0, number, repeated=repeated)))
    account = LossAccount(3)
    told = [False] * 3
    while any(shared):
        worker = rng.randrange(3)
        count = rng.randrange(1, 400)
        some, shared[worker] = shared[worker][:count], shared[worker][count:]
        table = np.array(some, np.int64).reshape(-1, 2)
        until = shared[worker][0][0] - 1 if shared[worker] else len(stream)
        account.add(
            worker, table, new_senders=[] if told[worker] else [FIRST], complete_until_ns=until
        )
        told[worker] = True
    for worker in range(3):
        account.end(worker)
    assert account.senders == {FIRST: alone.counters}


def test_senders_with_wider_numbers() -> None:
    """A device whose numbers have 32 bits is counted by its own width, beside the others."""
    account = LossAccount(2, sequence_bits=lambda node_id: 32 if node_id == 2 else 22)
    wrap = 1 << 22
    account.add(
        0,
        arrivals((1, 0, wrap - 1), (3, 1, wrap + 1)),
        new_senders=[FIRST, SECOND],
        complete_until_ns=10,
    )
    account.add(
        1, arrivals((2, 0, wrap), (4, 1, 0)), new_senders=[SECOND, FIRST], complete_until_ns=10
    )
    assert account.senders == {FIRST: LossCounters(received=2), SECOND: LossCounters(received=2)}
