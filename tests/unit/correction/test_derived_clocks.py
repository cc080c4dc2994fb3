# SPDX-License-Identifier: Apache-2.0
"""Clocks that no packet carries: closed forms, signs, steps, boots, damaged readings, chains."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from correction.derived.chain import derive
from correction.derived.compose import compose
from correction.derived.feasible import Slack, feasible_ns, nearest_readings
from correction.derived.phc import free_running_pairs
from correction.derived.readings import PAIR_DTYPE, PairReject
from correction.derived.relation import HOLDOVER_NS, relate
from correction.servo import ADJUSTMENT_DTYPE, ServoLog
from correction.table import UNBOUNDED_NS, Status
from tests.support.paired_clocks import (
    PARENT_NS,
    SINCE_BOOT,
    STEERED,
    S,
    pairs_of,
    parent_rows,
    reference_of,
    row_at,
)

EXACT = parent_rows((-100 * S, 1_000 * S, 0, 0.0, 0, 0, Status.OK, ""))
"""A parent that is the reference itself."""
SECONDS = [second * S for second in range(11)]


def test_a_clock_that_is_ahead_of_its_parent_has_a_positive_offset() -> None:
    """Sign, once for all: clock 250 ns ahead of a parent that is 40 ns ahead: offset 290 ns, and
    reference = local - offset."""
    ahead = parent_rows((-100 * S, 1_000 * S, 40, 0.0, 7, 5, Status.OK, ""))
    found = compose(relate(pairs_of(SECONDS, lambda _: 250), Counter()), ahead)
    local = PARENT_NS + 5 * S + 250
    row = row_at(found.rows, local)
    assert row is not None
    assert int(row["offset_ns"]) == 290
    assert reference_of(row, local) == PARENT_NS + 5 * S - 40


def test_hard_and_conditional_bounds_add_along_a_chain() -> None:
    """Window 100 ns, parent 7 and 5 ns: at least 107 and 105 ns, and a few ns of rounding."""
    ahead = parent_rows((-100 * S, 1_000 * S, 40, 0.0, 7, 5, Status.OK, ""))
    found = compose(relate(pairs_of(SECONDS, lambda _: 250), Counter()), ahead)
    row = row_at(found.rows, PARENT_NS + 5 * S)
    assert row is not None
    assert 107 <= int(row["bound_hard_ns"]) <= 115
    assert 105 <= int(row["bound_conditional_ns"]) <= 113


def test_rates_of_clock_and_parent_multiply() -> None:
    """1 + rate of the clock against the reference is the product of both: 100 ppm on top of -40 ppm
    is 59.996 ppm of the reference's time, so that 1 s later the offset has grown by 59 996 ns."""
    parent = parent_rows((-100 * S, 1_000 * S, 0, -40_000.0, 0, 0, Status.OK, ""))
    pairs = pairs_of(SECONDS, lambda at: at // 10_000, half_ns=1)
    found = compose(relate(pairs, Counter()), parent)
    row = row_at(found.rows, PARENT_NS + 5 * S)
    assert row is not None
    # parent = clock / (1 + 1e-4), reference = parent * (1 + 4e-5) of the parent's own time
    expected = 1.0 - (1.0 - 1e-4 / (1.0 + 1e-4)) * (1.0 + 4e-5)
    assert float(row["rate_ppb"]) * 1e-9 == pytest.approx(expected, abs=2e-9)


def test_windows_that_overlap_less_bound_more_tightly() -> None:
    """Readings off by +90 and -90 ns with windows of 100 ns leave 10 ns around the truth."""
    pairs = pairs_of(SECONDS, lambda _: 0, off_ns=[90, -90] * 5 + [90], behaviour=SINCE_BOOT)
    row = row_at(relate(pairs, Counter()).rows, PARENT_NS + 5 * S)
    assert row is not None
    assert int(row["anchor_local_ns"]) - int(row["anchor_parent_local_ns"]) == 0
    assert 10 <= int(row["bound_hard_ns"]) <= 15


def test_an_instant_between_two_readings_is_interpolated() -> None:
    """Windows [0, 2] and [10, 14] at 0 and 1 s: a quarter of the way in, [2.5, 5]."""
    slack = Slack(steering_ppb=0.0, wander_ns_per_s_sqrt_s=0.0, sigmas=6.0, rate_ppb_max=1e9)
    times, at = np.array([0.0, 1e9]), np.array([0.25e9])
    low, high = feasible_ns(
        at,
        nearest_readings(at, times),
        times_ns=times,
        low_ns=np.array([0.0, 10.0]),
        high_ns=np.array([2.0, 14.0]),
        slack=slack,
    )
    assert (low.tolist(), high.tolist()) == ([2.5], [5.0])


def test_an_instant_behind_all_readings_is_extrapolated_between_the_extreme_lines() -> None:
    """Windows [-1, 1] at 0 and 1 s: at 3 s the steepest lines are at -1 - 2 x 2 and 1 + 2 x 2."""
    slack = Slack(steering_ppb=0.0, wander_ns_per_s_sqrt_s=0.0, sigmas=6.0, rate_ppb_max=1e9)
    times, at = np.array([0.0, 1e9]), np.array([3e9])
    low, high = feasible_ns(
        at,
        nearest_readings(at, times),
        times_ns=times,
        low_ns=np.array([-1.0, -1.0]),
        high_ns=np.array([1.0, 1.0]),
        slack=slack,
    )
    assert (low.tolist(), high.tolist()) == ([-5.0], [5.0])


def test_a_steered_clock_may_have_moved_between_two_readings() -> None:
    """500 ppm for half a second there and back: at least 125 us for readings a second apart; with
    readings that show no steering the conditional bound is that of the windows."""
    row = row_at(
        relate(pairs_of(SECONDS, lambda _: 0, behaviour=STEERED), Counter()).rows,
        PARENT_NS + 5 * S + S // 2 + 1,
    )
    assert row is not None
    assert int(row["bound_hard_ns"]) >= 125_000
    assert 100 <= int(row["bound_conditional_ns"]) <= 200


def test_a_difference_of_tai_and_utc_is_an_offset_with_a_name() -> None:
    """A system clock in UTC is 37 s behind its NIC in TAI: that is its offset, and the method says
    so; one that is behind by 20 s is only off."""
    found = compose(
        relate(pairs_of(SECONDS, lambda _: -37 * S + 12), Counter()),
        EXACT,
    )
    assert found.method == "clock-pairs h3/system -> h3 (TAI-UTC 37 s) -> reference"
    row = row_at(found.rows, PARENT_NS - 32 * S)
    assert row is not None
    assert int(row["offset_ns"]) == -37 * S + 12
    other = compose(relate(pairs_of(SECONDS, lambda _: -20 * S), Counter()), EXACT)
    assert other.method == "clock-pairs h3/system -> h3 -> reference"


def test_a_leap_second_is_a_step_with_both_differences_named() -> None:
    """UTC repeats a second: 37 s before it, 38 s after; the repeated readings are in dispute."""
    pairs = pairs_of(SECONDS, lambda at: -37 * S if at < 5 * S else -38 * S)
    found = compose(relate(pairs, Counter()), EXACT)
    assert "TAI-UTC 37, 38 s" in found.method
    again = row_at(found.rows, PARENT_NS + 4 * S - 37 * S + S // 2)
    assert again is not None
    assert Status(int(again["status"])) is Status.INCONSISTENT
    assert "set by -1.000" in found.reasons[int(again["reason"])]


@pytest.mark.parametrize("step_ns", [3_000_000, -3_000_000, 250_000_000, -250_000_000])
def test_a_step_voids_what_the_clock_may_have_shown_meanwhile(step_ns: int) -> None:
    """On both sides of it the offset is right; readings that may have been shown while it happened,
    or twice, are disrupted, with the size of the step as the reason."""
    pairs = pairs_of(SECONDS, lambda at: 0 if at < 5 * S else step_ns, half_ns=50)
    found = relate(pairs, Counter())
    for at, offset in ((2 * S, 0), (8 * S, step_ns)):
        row = row_at(found.rows, PARENT_NS + at + offset)
        assert row is not None
        assert int(row["anchor_local_ns"]) - int(row["anchor_parent_local_ns"]) == offset
    between = row_at(found.rows, PARENT_NS + 4 * S + S // 2)
    assert between is not None
    assert Status(int(between["status"])) is Status.INCONSISTENT
    assert f"set by {step_ns / 1e9:+.9f} s" in found.reasons[int(between["reason"])]


def test_a_suspended_host_stands_still_on_its_monotonic_clock() -> None:
    """CLOCK_MONOTONIC loses the hour of a suspend; before and after it is right, between the two
    readings it says nothing, and nothing else is lost."""
    hour = 3_600 * S
    times = [*SECONDS, *(hour + second for second in SECONDS)]
    pairs = pairs_of(times, lambda at: 0 if at < hour else -hour + 10 * S, behaviour=SINCE_BOOT)
    found = relate(pairs, Counter())
    for at, offset in ((9 * S + 1, 0), (hour + S, -hour + 10 * S)):
        row = row_at(found.rows, PARENT_NS + at + offset)
        assert row is not None
        assert Status(int(row["status"])) is Status.OK
        assert int(row["anchor_local_ns"]) - int(row["anchor_parent_local_ns"]) == offset
    assert any("stood still for 3590.0" in reason for reason in found.reasons)


def test_a_reboot_is_another_clock() -> None:
    """The boot's id is part of the name: each boot has its own rows, and no reading of one boot is
    judged by the other's."""
    first = pairs_of(SECONDS, lambda _: -PARENT_NS, clock="h3/monotonic/b1", behaviour=SINCE_BOOT)
    later = pairs_of(
        [at + 60 * S for at in SECONDS],
        lambda _: -PARENT_NS - 55 * S,
        clock="h3/monotonic/b2",
        behaviour=SINCE_BOOT,
    )
    found = derive([first, later], {"h3": EXACT})
    assert [one.clock for one in found.clocks] == ["h3/monotonic/b1", "h3/monotonic/b2"]
    assert found.rejected == {}
    before, after = (row_at(one.rows, 6 * S) for one in found.clocks)
    assert before is not None
    assert after is not None
    assert reference_of(before, 6 * S) == PARENT_NS + 6 * S
    assert reference_of(after, 6 * S) == PARENT_NS + 61 * S


def test_damaged_readings_are_rejected_by_name_and_move_nothing() -> None:
    """Twice the same, a parent that goes back, no stamp, one that contradicts both its neighbours:
    each counted under its name, and the rows are bit for bit those without them."""
    good = pairs_of(SECONDS, lambda _: 250)
    bad = np.zeros(3, PAIR_DTYPE)
    bad[0] = (-(2**63), PARENT_NS, 5)
    bad[1] = (PARENT_NS + 3 * S, PARENT_NS + 3 * S - 1, 5)
    bad[2] = (PARENT_NS + 4 * S + S // 2 + 9_000, PARENT_NS + 4 * S + S // 2, 5)
    rows = np.concatenate([good.rows[:5], bad, good.rows[4:5], good.rows[5:]])
    rejected: Counter[PairReject] = Counter()
    found = relate(replace(good, rows=rows), rejected)
    assert rejected == {
        PairReject.NO_STAMP: 1,
        PairReject.REVERSED: 1,
        PairReject.CONTRADICTED: 1,
        PairReject.DUPLICATE: 1,
    }
    assert found.rows.tobytes() == relate(good, Counter()).rows.tobytes()


def test_a_counter_since_boot_that_goes_back_is_rejected() -> None:
    """Nobody sets a monotonic clock: a reading that is behind is of another boot, or swapped."""
    good = pairs_of(SECONDS, lambda _: 0, behaviour=SINCE_BOOT)
    good.rows["clock_local_ns"][7] = PARENT_NS + S
    rejected: Counter[PairReject] = Counter()
    relate(good, rejected)
    assert rejected == {PairReject.REVERSED: 1}


def test_bounds_grow_after_the_last_reading_until_nothing_is_said() -> None:
    """Holdover: each row's bounds are no smaller than the one's before; behind it, no row."""
    found = relate(pairs_of(SECONDS, lambda _: 0, behaviour=STEERED), Counter())
    tail = found.rows[found.rows["valid_from_local_ns"] >= PARENT_NS + 10 * S]
    hard = tail["bound_hard_ns"].tolist()
    assert len(hard) >= 3
    assert hard == sorted(hard)
    assert hard[-1] > 10 * hard[0]
    assert row_at(found.rows, PARENT_NS + 10 * S + HOLDOVER_NS + S) is None


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (Status.AMBIGUOUS, "two explanations"),
        (Status.INCONSISTENT, "clock-jump"),
        (Status.STALE, ""),
        (Status.FLOATING, "no way to the reference"),
    ],
)
def test_a_parents_status_is_its_childs(status: Status, reason: str) -> None:
    """Flagged, disrupted or unknown parents make the clock so, and the reason names the parent."""
    parent = parent_rows((-100 * S, 1_000 * S, 0, 0.0, UNBOUNDED_NS, UNBOUNDED_NS, status, reason))
    found = compose(relate(pairs_of(SECONDS, lambda _: 0), Counter()), parent)
    assert {Status(int(one)) for one in found.rows["status"]} == {status}
    assert {int(one) for one in found.rows["bound_hard_ns"]} == {UNBOUNDED_NS}
    assert {found.reasons[int(one)] for one in found.rows["reason"]} == {
        f"h3: {reason}" if reason else ""
    }


def test_where_the_parent_is_unknown_so_is_the_clock() -> None:
    """A parent with rows for 2 of 10 s: the clock has rows for these alone; without any parent it
    has none, and the reason is told."""
    parent = parent_rows((3 * S, 5 * S, 0, 0.0, 1, 1, Status.OK, ""))
    pairs = pairs_of(SECONDS, lambda _: 250)
    rows = compose(relate(pairs, Counter()), parent).rows
    assert int(rows["valid_from_local_ns"].min()) == PARENT_NS + 3 * S + 250
    assert int(rows["valid_to_local_ns"].max()) == PARENT_NS + 5 * S + 250
    found = derive([pairs], {})
    assert found.clocks == ()
    assert found.unknown == {"h3/system": "h3/system: its parent h3 is not known"}


def test_a_chain_of_three_names_all_and_is_never_tighter_than_a_link() -> None:
    """GPU against system clock (1 us) against NIC (100 ns), in any order of the file: the chain's
    bounds are no smaller than those of any of its links."""
    gpu = pairs_of(SECONDS, lambda _: 500, half_ns=1_000, clock="h3/gpu0", parent="h3/system")
    system = pairs_of(SECONDS, lambda _: 250)
    found = derive([gpu, system], {"h3": EXACT})
    assert [one.method for one in found.clocks] == [
        "clock-pairs h3/system -> h3 -> reference",
        "clock-pairs h3/gpu0 -> h3/system -> h3 -> reference",
    ]
    own = relate(gpu, Counter()).rows["bound_hard_ns"].min()
    assert found.clocks[1].rows["bound_hard_ns"].min() >= own + 100


def test_readings_of_a_steered_phc_are_taken_in_free_running_time() -> None:
    """A servo that makes the PHC run 1000 ppm fast for 5 s changes nothing for a clock that runs
    free: its rate against the free-running counter is 0; a reading that the PHC showed twice counts
    as such."""
    log = ServoLog.from_adjustments(
        np.array(
            [(PARENT_NS, 0, 1_000_000.0), (PARENT_NS + 5_005 * 10**6, -1_000, 0.0)],
            ADJUSTMENT_DTYPE,
        )
    )
    true_s = [1, 2, 3, 4]
    pairs = pairs_of([at * S for at in true_s], lambda _: 0, half_ns=5)
    pairs.rows["parent_local_ns"] = [PARENT_NS + at * 1_001 * 10**6 for at in true_s]
    twice = np.array([(PARENT_NS + 5 * S, PARENT_NS + 5_005 * 10**6 - 500, 5)], PAIR_DTYPE)
    rejected: Counter[PairReject] = Counter()
    free = free_running_pairs(
        replace(pairs, rows=np.concatenate([pairs.rows, twice])), log, rejected
    )
    assert rejected == {PairReject.PARENT_SHOWN_TWICE: 1}
    assert np.diff(free.rows["parent_local_ns"]).tolist() == [S, S, S]
