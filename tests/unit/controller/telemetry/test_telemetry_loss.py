# SPDX-License-Identifier: Apache-2.0
"""Loss accounting by 22-bit sequence numbers: gap, duplicate, late, wrap and restart told apart."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.telemetry.loss import (
    NEAR,
    REORDER_WINDOW,
    Arrival,
    LossCounters,
    SequenceTracker,
)

_PERIOD = 2**22


def _track(numbers, **options):
    """Each number is a report of its own content; the same number again is that report again."""
    tracker = SequenceTracker(**options)
    arrivals = []
    seen = set()
    for number in numbers:
        arrivals.append(tracker.observe(number % _PERIOD, repeated=number in seen))
        seen.add(number)
    return arrivals, tracker.counters


def _observe(tracker, numbers):
    """Reports whose content is new, whatever their numbers."""
    return [tracker.observe(number % _PERIOD) for number in numbers]


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


def test_numbers_seen_before_with_other_content_are_a_restart():
    """A device that restarted early reuses numbers: the third in a row tells."""
    tracker = SequenceTracker()
    _observe(tracker, range(10))
    arrivals = _observe(tracker, range(5))
    assert arrivals == [Arrival.UNCONFIRMED] * 2 + [Arrival.RESTART] + [Arrival.NEW] * 2
    assert tracker.counters == LossCounters(received=15, restart=1)


def test_a_restart_is_found_through_duplicates_and_reordering():
    """Every report comes twice, two in the other order."""
    tracker = SequenceTracker()
    _observe(tracker, range(10))
    for number in (1, 0, 2, 3):
        tracker.observe(number)
        tracker.observe(number, repeated=True)
    assert tracker.counters == LossCounters(received=14, duplicate=4, restart=1)


def test_a_damaged_copy_of_a_report_is_no_restart():
    """Its number is taken and its content is new; the copies around it are known."""
    tracker = SequenceTracker()
    _observe(tracker, range(10))
    for number in range(10):
        tracker.observe(number, repeated=number not in (3, 4, 8))
    assert tracker.counters == LossCounters(received=10, duplicate=7, unconfirmed=3)


def test_a_device_whose_number_stands_still_never_restarts():
    """Nothing piles up either."""
    tracker = SequenceTracker()
    _observe(tracker, [7] * 1000)
    assert tracker.counters == LossCounters(received=1, unconfirmed=999)


@pytest.mark.parametrize("reached", [5000, 100_000, _PERIOD // 2 + 5, _PERIOD - 100_000])
def test_a_restart_from_zero_is_no_loss(reached):
    """Three numbers next to each other, far from the last, are a new run."""
    tracker = SequenceTracker()
    arrivals = _observe(tracker, [reached - 1, reached, 0, 1, 2, 3])
    assert arrivals[2:] == [Arrival.UNCONFIRMED] * 2 + [Arrival.RESTART, Arrival.NEW]
    assert tracker.counters == LossCounters(received=6, restart=1)


@pytest.mark.parametrize("bit", range(22))
@pytest.mark.parametrize("start", [0, 100_000, _PERIOD - 500])
def test_one_damaged_number_is_no_burst_of_loss(bit, start):
    """Whichever bit flips, in any report: one is unconfirmed at most, nothing restarts.

    Up to NEAR count as lost where the damage is near the end: no later number fills the gap.
    """
    for at in (1, 40, 500, 998):
        numbers = [start + k for k in range(1000)]
        numbers[at] = (numbers[at] % _PERIOD) ^ (1 << bit)
        tracker = SequenceTracker()
        _observe(tracker, numbers)
        counters = tracker.counters
        assert counters.received + counters.unconfirmed == 1000
        assert counters.unconfirmed <= 1
        assert counters.lost <= NEAR
        assert counters.restart == 0


@pytest.mark.parametrize("bit", [0, 5, 10, 13, 15, 21])
def test_a_damaged_first_number_does_not_begin_the_run(bit):
    """The reports that follow bear each other out; the first alone is unconfirmed."""
    tracker = SequenceTracker()
    _observe(tracker, [5000 ^ (1 << bit), *range(5001, 6000)])
    counters = tracker.counters
    assert counters.restart == 0
    assert counters.received + counters.unconfirmed == 1000
    assert counters.lost <= NEAR


def test_one_number_in_a_hundred_damaged_reads_as_that_much_loss():
    """Each damaged number leaves its own gap; no gap between it and the run is counted."""
    rng = random.Random(4)
    tracker = SequenceTracker()
    damaged = 0
    for number in range(20_000):
        hit = rng.random() < 0.01
        damaged += hit
        tracker.observe(number ^ (1 << rng.randrange(22)) if hit else number)
    counters = tracker.counters
    assert counters.restart == 0
    assert damaged * 0.9 <= counters.lost <= damaged + NEAR
    assert damaged * 0.9 <= counters.unconfirmed <= damaged


@pytest.mark.parametrize("length", [500, 5000, REORDER_WINDOW])
def test_reports_in_any_order_within_the_window_lose_nothing(length):
    """A shuffled capture: every number is there."""
    numbers = list(range(100_000, 100_000 + length))
    random.Random(length).shuffle(numbers)
    tracker = SequenceTracker()
    _observe(tracker, numbers)
    counters = tracker.counters
    assert (counters.received, counters.lost) == (length, 0)
    assert (counters.restart, counters.unconfirmed) == (0, 0)


def test_one_stray_number_far_behind_changes_nothing():
    """It is neither received nor lost, and the run goes on."""
    arrivals, counters = _track([90_000, 90_001, 40, 90_002, 90_003])
    assert arrivals[2] is Arrival.UNCONFIRMED
    assert counters == LossCounters(received=4, unconfirmed=1)


@pytest.mark.parametrize("gap", [NEAR, NEAR + 1, 5000, 1_000_000])
def test_a_big_gap_is_loss(gap):
    """A collector that was away for a second at a million reports a second lost them."""
    _arrivals, counters = _track([9, 10, *range(10 + gap, 13 + gap)])
    assert counters == LossCounters(received=5, lost=gap - 1)


def test_what_follows_a_gap_is_held_until_three_bear_it_out():
    """Then all three are received, and the gap is lost."""
    tracker = SequenceTracker()
    _observe(tracker, [9, 10, 1000, 1001])
    assert tracker.counters == LossCounters(received=2, unconfirmed=2)
    assert tracker.observe(1002) is Arrival.NEW
    assert tracker.counters == LossCounters(received=5, lost=989)


def test_counters_add_up_over_senders():
    """The total is the sum of each."""
    one = LossCounters(received=1, lost=2, reordered=3, duplicate=4, restart=5, unconfirmed=6)
    assert one + LossCounters(received=10) == LossCounters(
        received=11, lost=2, reordered=3, duplicate=4, restart=5, unconfirmed=6
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


@given(
    st.lists(
        st.tuples(st.integers(0, 2**7 - 1) | st.integers(0, _PERIOD - 1), st.booleans()),
        max_size=200,
    ),
    st.sampled_from([16, 256, REORDER_WINDOW]),
)
def test_no_sequence_of_numbers_breaks_the_books(reports, window):
    """Every report is received, a duplicate or unconfirmed; no counter is negative."""
    tracker = SequenceTracker(reorder_window=window)
    for number, repeated in reports:
        tracker.observe(number, repeated=repeated)
    counters = tracker.counters
    assert counters.received + counters.duplicate + counters.unconfirmed == len(reports)
    assert min(counters.lost, counters.received, counters.unconfirmed) >= 0


def test_the_window_bounds_what_can_be_told():
    """A number just inside is late, one just outside fits no run."""
    tracker = SequenceTracker()
    _observe(tracker, [0, *range(2, REORDER_WINDOW + 1)])
    assert tracker.observe(1) is Arrival.REORDERED
    tracker = SequenceTracker()
    _observe(tracker, [0, *range(2, REORDER_WINDOW + 2)])
    assert tracker.observe(1) is Arrival.UNCONFIRMED
