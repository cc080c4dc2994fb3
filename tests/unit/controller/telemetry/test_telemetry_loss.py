# SPDX-License-Identifier: Apache-2.0
"""Loss accounting by 22-bit sequence numbers: gap, duplicate, late, wrap and restart told apart."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.telemetry.loss import REORDER_WINDOW, Arrival, LossCounters, SequenceTracker

_PERIOD = 2**22


def _track(numbers, **options):
    tracker = SequenceTracker(**options)
    arrivals = [tracker.observe(number % _PERIOD) for number in numbers]
    return arrivals, tracker.counters


def test_consecutive_numbers_lose_nothing_across_the_wrap():
    """4194303 is followed by 0."""
    arrivals, counters = _track(range(_PERIOD - 3, _PERIOD + 3))
    assert set(arrivals) == {Arrival.NEW}
    assert counters == LossCounters(received=6)


@pytest.mark.parametrize("start", [0, 5000, _PERIOD - 2])
def test_a_gap_is_lost_until_it_arrives_late(start):
    """3 missing; then two of them come: 1 lost, 2 reordered."""
    tracker = SequenceTracker()
    for number in (0, 1, 5):
        tracker.observe((start + number) % _PERIOD)
    assert tracker.counters == LossCounters(received=3, lost=3)
    assert tracker.observe((start + 3) % _PERIOD) is Arrival.REORDERED
    assert tracker.observe((start + 2) % _PERIOD) is Arrival.REORDERED
    assert tracker.counters == LossCounters(received=5, lost=1, reordered=2)


def test_a_number_seen_before_with_the_same_content_is_a_duplicate():
    """A clone replica or a report sent twice."""
    arrivals, counters = _track([7, 8, 7, 8, 8])
    assert arrivals[2:] == [Arrival.DUPLICATE] * 3
    assert counters == LossCounters(received=2, duplicate=3)


def test_a_number_seen_before_with_other_content_is_a_restart():
    """A device that restarted early reuses numbers; none of its reports may be dropped."""
    tracker = SequenceTracker()
    for number in range(10):
        tracker.observe(number, fingerprint=number)
    arrivals = [tracker.observe(number, fingerprint=100 + number) for number in range(5)]
    assert arrivals == [Arrival.RESTART] + [Arrival.NEW] * 4
    assert tracker.counters == LossCounters(received=15, restart=1)


@pytest.mark.parametrize("reached", [5000, 100_000, _PERIOD // 2 + 5, _PERIOD - 100_000])
def test_a_restart_from_zero_is_no_loss(reached):
    """Two numbers next to each other, far from the last, are a new run."""
    arrivals, counters = _track([reached - 1, reached, 0, 1, 2])
    assert arrivals[2:] == [Arrival.REORDERED, Arrival.RESTART, Arrival.NEW]
    assert counters == LossCounters(received=5, restart=1)


def test_one_stray_number_far_behind_changes_nothing():
    """It is neither received nor lost, and the run goes on."""
    _arrivals, counters = _track([9000, 9001, 40, 9002, 9003])
    assert counters == LossCounters(received=4)


def test_a_big_gap_is_loss():
    """A collector that was away for a second at a million reports a second lost them."""
    _arrivals, counters = _track([10, 1_000_010])
    assert counters == LossCounters(received=2, lost=999_999)


def test_counters_add_up_over_senders():
    """The total is the sum of each."""
    one = LossCounters(received=1, lost=2, reordered=3, duplicate=4, restart=5)
    assert one + LossCounters(received=10) == LossCounters(
        received=11, lost=2, reordered=3, duplicate=4, restart=5
    )


@given(
    start=st.integers(0, _PERIOD - 1),
    length=st.integers(1, 400),
    seed=st.integers(0, 2**32),
)
def test_any_loss_reordering_and_duplication_is_counted_exactly(start, length, seed):
    """Whatever happens within the window, received + lost covers first to last, once each."""
    rng = random.Random(seed)
    kept = [number for number in range(length) if rng.random() < 0.8] or [0]
    sent = sorted(
        kept + [n for n in kept if rng.random() < 0.2], key=lambda n: n + rng.random() * 50
    )
    _arrivals, counters = _track([start + number for number in sent])
    assert counters.received == len(kept)
    assert counters.duplicate == len(sent) - len(kept)
    assert counters.lost == max(kept) - min(kept) + 1 - len(kept)
    assert counters.restart == 0


@given(st.lists(st.integers(0, _PERIOD - 1), max_size=60))
def test_no_sequence_of_numbers_breaks_the_books(numbers):
    """Counters never go negative and every observation is accounted for at most once."""
    _arrivals, counters = _track(numbers, reorder_window=16)
    assert counters.lost >= 0
    assert counters.received + counters.duplicate <= len(numbers)


def test_the_window_bounds_what_can_be_told():
    """A number just inside is late, one just outside is a stray."""
    tracker = SequenceTracker()
    tracker.observe(0)
    tracker.observe(REORDER_WINDOW)
    assert tracker.observe(1) is Arrival.REORDERED
    assert tracker.counters.reordered == 1
    tracker.observe(REORDER_WINDOW + 2)
    tracker.observe(2)
    assert tracker.counters.reordered == 1
