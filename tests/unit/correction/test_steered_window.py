# SPDX-License-Identifier: Apache-2.0
"""A window's rows on steered clocks: those of `servo.steered_rows`, as far as a log is known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correction.servo import ADJUSTMENT_DTYPE, ServoLog, steered_rows
from correction.stream.rows import WindowRows
from correction.stream.servo_logs import KEPT_ADJUSTMENTS, ServoLogs
from correction.stream.steered import steered_window
from correction.table import CORRECTION_DTYPE, UNBOUNDED_NS, Status, with_worst_bounds

PHC_NS = 1_790_000_000_000_000_000
PIECE_NS = 125_000_000


def adjustments(count, rng, *, steps=()):
    """One every eighth of a second, up to 1 ppm; `steps` in ns by number."""
    rows = np.zeros(count, ADJUSTMENT_DTYPE)
    rows["frequency_ppb"] = rng.uniform(-1_000, 1_000, count)
    at = PHC_NS
    for number, row in enumerate(rows):
        row["phc_local_ns"], row["step_ns"] = at, dict(steps).get(number, 0)
        at += row["step_ns"] + PIECE_NS
    return rows


def window(clock, start_free_ns, length_ns=1_000_000_000):
    row = np.zeros(1, CORRECTION_DTYPE)
    row["clock"], row["status"], row["sigmas"] = clock, Status.OK, 3.0
    row["valid_from_local_ns"] = start_free_ns
    row["valid_to_local_ns"] = start_free_ns + length_ns
    row["anchor_local_ns"] = start_free_ns + length_ns // 2
    row["offset_ns"], row["rate_ppb"], row["rate_sd_ppb"] = -PHC_NS + 123_456, 8_000.0, 2.0
    row["wander_ns_per_s_sqrt_s"] = 14.0
    row["bound_hard_ns"], row["bound_conditional_ns"] = 150, 25
    return with_worst_bounds(row)


def logs_of(*per_clock):
    logs = ServoLogs()
    for clock, rows in enumerate(per_clock):
        logs.add(clock, rows)
    return logs


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(-(10**9), 4 * 10**9))
def test_rows_are_those_of_the_whole_recordings_conversion(seed, start) -> None:
    """Clock by clock and piece by piece, to the last digit."""
    rng = np.random.default_rng(seed)
    parts = [adjustments(40, rng), adjustments(33, rng, steps=[(20, -700), (25, 3_000)])]
    logs = logs_of(*parts)
    rows = np.concatenate([window(0, start), window(1, start + 77), window(2, start)])
    told = steered_window(WindowRows(rows=rows, held=np.zeros(3, np.bool_)), logs)
    for clock, part in enumerate(parts):
        log = ServoLog.from_adjustments(part)
        reach = log.to_free_ns(np.array([logs.reach_ns[clock]]))[0]
        mine = rows[rows["clock"] == clock].copy()
        mine["valid_to_local_ns"] = np.minimum(mine["valid_to_local_ns"], reach)
        mine = mine[mine["valid_from_local_ns"] < mine["valid_to_local_ns"]]
        expected = steered_rows(mine, log)
        got = told.rows[(told.rows["clock"] == clock) & (told.rows["status"] == Status.OK)]
        assert np.array_equal(got, expected)
    assert np.array_equal(told.rows[told.rows["clock"] == 2], rows[2:])


def test_nothing_is_said_beyond_the_log() -> None:
    """An adjustment may have come that nobody has told yet."""
    logs = logs_of(adjustments(5, np.random.default_rng(1)))
    told = steered_window(WindowRows(rows=window(0, 0), held=np.zeros(1, np.bool_)), logs)
    assert told.rows["valid_to_local_ns"].max() <= logs.reach_ns[0]
    logs.told(0, logs.reach_ns[0] + 60_000_000)
    longer = steered_window(WindowRows(rows=window(0, 0), held=np.zeros(1, np.bool_)), logs)
    grown = longer.rows["valid_to_local_ns"].max() - told.rows["valid_to_local_ns"].max()
    assert grown == pytest.approx(60_000_000, abs=2)


def test_what_a_servos_step_back_repeats_is_taken_back() -> None:
    """5 ms back: readings that the window before may have covered get a row without a bound."""
    logs = logs_of(adjustments(20, np.random.default_rng(1), steps=[(10, -5_000_000)]))
    told = steered_window(WindowRows(rows=window(0, 700_000_000), held=np.zeros(1, np.bool_)), logs)
    void = told.rows[told.rows["status"] == Status.INCONSISTENT]
    assert len(void) == 1
    assert void["bound_hard_ns"][0] == UNBOUNDED_NS
    assert void["valid_to_local_ns"][0] - void["valid_from_local_ns"][0] == 5_000_001
    rest = told.rows[told.rows["status"] == Status.OK]
    inside = (rest["valid_from_local_ns"] < void["valid_to_local_ns"][0]) & (
        rest["valid_to_local_ns"] > void["valid_from_local_ns"][0]
    )
    assert not inside.any()


def test_a_log_grows_as_if_it_had_been_known_at_once() -> None:
    """Piece by piece; free-running time goes on where it was, also when the front is forgotten."""
    rows = adjustments(2 * KEPT_ADJUSTMENTS + 500, np.random.default_rng(2))
    logs = ServoLogs()
    for first in range(0, len(rows), 100):
        logs.add(0, rows[first : first + 100])
    whole = ServoLog.from_adjustments(rows)
    stamps = rows["phc_local_ns"][-400:] + 1_000_000
    assert np.array_equal(logs.logs[0].to_free_ns(stamps), whole.to_free_ns(stamps))
    assert len(logs.logs[0].adjustments) < 2 * KEPT_ADJUSTMENTS


def test_logs_are_the_same_after_a_restart() -> None:
    """By clock, under other numbers."""
    logs = logs_of(*(adjustments(9, np.random.default_rng(n)) for n in range(3)))
    logs.broken = 2
    back = ServoLogs.restored(logs.arrays(), {0: 1, 2: 0})
    assert sorted(back.logs) == [0, 1]
    for new, old in ((1, 0), (0, 2)):
        assert np.array_equal(back.logs[new].adjustments, logs.logs[old].adjustments)
        assert np.array_equal(back.logs[new].start_free_ns, logs.logs[old].start_free_ns)
        assert back.reach_ns[new] == logs.reach_ns[old]
    assert back.broken == 2


def test_a_log_that_goes_back_begins_anew_and_is_counted() -> None:
    """Whatever came before is no longer what the clock's free-running time rests on."""
    rows = adjustments(6, np.random.default_rng(1))
    logs = logs_of(rows)
    logs.add(0, rows[2:4])
    assert logs.broken == 1
    assert len(logs.logs[0].adjustments) == 1
