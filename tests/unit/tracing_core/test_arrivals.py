# SPDX-License-Identifier: Apache-2.0
"""Who was first and last over several clocks: against every possible truth."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracing_core.arrivals import (
    ALWAYS_NS,
    Stamps,
    between,
    first_of,
    from_member,
    last_of,
    order_is_certain,
    spread_of,
)

EPOCH_NS = 1_800_000_000_000_000_000
Row = tuple[int, int, int, bool]
rows_drawn = st.lists(
    st.tuples(st.integers(-1, 2), st.integers(0, 12), st.integers(0, 4), st.booleans()),
    min_size=1,
    max_size=5,
)


def stamps(rows: list[Row], offset_ns: int = EPOCH_NS) -> Stamps:
    """(clock, time, bound, usable) each; raw stamps are ahead by a million per clock."""
    clock, at, bound, usable = (np.array(column) for column in zip(*rows, strict=True))
    usable = usable.astype(bool) & (clock >= 0)
    return Stamps(
        clock=clock.astype(np.int64),
        raw_local_ns=at.astype(np.int64) + offset_ns + 1_000_000 * clock,
        corrected_reference_ns=at.astype(np.int64) + offset_ns,
        bound_ns=np.where(usable, bound, ALWAYS_NS).astype(np.int64),
        usable=usable,
    )


def possible_truths(rows: list[Row]) -> list[tuple[int, ...]]:
    """True times that the stamps allow, in steps of 1 ns: a clock's error is common to its stamps
    and within each of their bounds; a clock that is not known or usable may be off by 40 ns."""
    clocks = sorted({clock for clock, *_ in rows if clock >= 0})
    errors: list[range] = []
    for clock in clocks:
        bounds = [b if usable else 40 for c, _, b, usable in rows if c == clock]
        errors.append(range(-min(bounds), min(bounds) + 1))
    unknown = [index for index, (clock, *_) in enumerate(rows) if clock < 0]
    found = []
    for error in product(*errors, *([range(-40, 41, 8)] * len(unknown))):
        by_clock = dict(zip(clocks, error, strict=False))
        alone = dict(zip(unknown, error[len(clocks) :], strict=True))
        found.append(
            tuple(
                at + (by_clock[clock] if clock >= 0 else alone[index])
                for index, (clock, at, _, _) in enumerate(rows)
            )
        )
    return found


small_rows = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 3), st.just(True)),
    min_size=1,
    max_size=4,
)


@given(small_rows)
def test_no_possible_truth_contradicts_a_verdict(rows: list[Row]) -> None:
    """Whatever the clocks' errors within their bounds, the last one is among the candidates, the
    true last instant is in the interval, and the true spread within its bound."""
    given_stamps = stamps(rows, 0)
    last, first = last_of(given_stamps), first_of(given_stamps)
    spread = spread_of(given_stamps)
    assert spread.value_ns is not None
    assert spread.bound_ns is not None
    assert last.earliest_reference_ns is not None
    assert last.latest_reference_ns is not None
    assert first.earliest_reference_ns is not None
    assert first.latest_reference_ns is not None
    for truth in possible_truths(rows):
        latest = max(truth)
        assert any(truth[index] == latest for index in last.candidates)
        assert any(truth[index] == min(truth) for index in first.candidates)
        assert last.earliest_reference_ns <= latest <= last.latest_reference_ns
        assert first.earliest_reference_ns <= min(truth) <= first.latest_reference_ns
        assert abs(latest - min(truth) - spread.value_ns) <= spread.bound_ns


@given(small_rows)
def test_a_certain_order_is_the_same_in_every_possible_truth(rows: list[Row]) -> None:
    """If every two members are ordered, all truths sort them alike."""
    if not order_is_certain(stamps(rows, 0)):
        return
    orders = {tuple(np.argsort(truth, kind="stable")) for truth in possible_truths(rows)}
    assert len(orders) == 1


@given(rows_drawn)
def test_two_clocks_are_ordered_by_disjoint_intervals_only(rows: list[Row]) -> None:
    """Brute force over pairs: one clock by its stamps, two by intervals, else not."""
    given_stamps = stamps(rows)
    certain = True
    for one in range(len(rows)):
        for other in range(one):
            (c1, t1, b1, u1), (c2, t2, b2, u2) = rows[one], rows[other]
            if c1 == c2 and c1 >= 0:
                certain &= t1 != t2
            else:
                apart = abs(t1 - t2) > b1 + b2
                certain &= apart and u1 and u2 and c1 >= 0 and c2 >= 0
    assert order_is_certain(given_stamps) == certain


def test_overlapping_intervals_leave_the_last_one_open() -> None:
    """5 +- 3 and 9 +- 3 on two clocks: either can have been last."""
    found = last_of(stamps([(0, 5, 3, True), (1, 9, 3, True)]))
    assert (found.member, found.candidates, found.is_certain) == (1, (0, 1), False)


def test_one_clock_decides_whatever_its_error() -> None:
    """Two stamps 1 ns apart on a clock without a correction; the spread is exact."""
    both = stamps([(0, 5, 0, False), (0, 6, 0, False)])
    assert last_of(both).candidates == (1,)
    assert (spread_of(both).value_ns, spread_of(both).bound_ns) == (1, 0)


def test_an_unknown_clock_can_have_been_anything() -> None:
    """It stays a candidate for first and last, and no spread is known."""
    found = stamps([(0, 5, 1, True), (-1, 0, 0, False), (1, 90, 1, True)])
    assert last_of(found).candidates == (1, 2)
    assert first_of(found).candidates == (0, 1)
    assert last_of(found).latest_reference_ns is None
    assert spread_of(found).value_ns is None


def test_lateness_adds_both_bounds() -> None:
    """Against another clock; against its own it is exact."""
    found = from_member(stamps([(0, 5, 1, True), (0, 8, 1, True), (1, 9, 4, True)]), 0)
    assert [(one.value_ns, one.bound_ns) for one in found] == [(0, 0), (3, 0), (4, 5)]


def test_a_duration_is_from_the_first_start_to_the_last_end() -> None:
    """100 ns on two clocks with 2 and 3 ns: the true one lies between 95 and 105."""
    starts = stamps([(0, 0, 2, True), (1, 40, 3, True)])
    ends = stamps([(0, 50, 2, True), (1, 100, 3, True)])
    found = between(starts, ends)
    assert (found.value_ns, found.bound_ns) == (100, 5)
