# SPDX-License-Identifier: Apache-2.0
"""A servo log turns a steered PHC back into the free-running counter below it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmv2_lab.simulator.clocks import Oscillator, SteeredClock
from correction import servo
from correction.servo import ADJUSTMENT_DTYPE, EMPTY_SERVO_LOG, ServoLog, steered_rows
from correction.table import CORRECTION_DTYPE

EPOCH_NS = 1_790_000_000_000_000_000


def test_steered_clock_becomes_linear() -> None:
    """Free-running time of a PHC under a busy servo is the oscillator's, to a few ns in 10 s."""
    oscillator = Oscillator(
        np.random.default_rng(3),
        epoch_ns=EPOCH_NS,
        rate_offset_ppb=7_000.0,
        wander_ns_per_s_sqrt_s=0.0,
        duration_ns=11_000_000_000,
    )
    phc = SteeredClock(oscillator)
    rng = np.random.default_rng(4)
    rows, true_ns, readings = [], [], []
    for step in range(40):
        at_ns = (step + 1) * 250_000_000
        frequency_ppb = float(rng.normal(0, 2_000.0))
        step_ns = int(rng.integers(-50_000, 50_000))
        before_ns = phc.adjust(at_ns, frequency_ppb=frequency_ppb, step_ns=step_ns)
        rows.append((before_ns, step_ns, frequency_ppb))
        for within_ns in (1_000_000, 130_000_000, 240_000_000):
            true_ns.append(at_ns + within_ns)
            readings.append(phc.read_ns(at_ns + within_ns))
    log = ServoLog.from_adjustments(np.array(rows, dtype=ADJUSTMENT_DTYPE))
    free_ns = log.to_free_ns(np.array(readings, dtype=np.int64))
    residual = free_ns - np.array([oscillator.elapsed_ns(t) for t in true_ns])
    assert np.ptp(residual) < 25  # one rounding per adjustment, 40 of them


def test_no_servo_leaves_readings_alone() -> None:
    """An unsteered clock is its own free-running counter."""
    stamps = np.array([EPOCH_NS, EPOCH_NS + 5], dtype=np.int64)
    assert np.array_equal(EMPTY_SERVO_LOG.to_free_ns(stamps), stamps)


def test_a_log_that_runs_backwards_is_refused() -> None:
    """Two adjustments out of order cannot come from one PHC."""
    rows = np.array([(1_000, 0, 0.0), (900, 0, 0.0)], dtype=ADJUSTMENT_DTYPE)
    with pytest.raises(ValueError, match="adjustment 1 is earlier"):
        ServoLog.from_adjustments(rows)


@pytest.mark.parametrize("step_ns", [700_000, -700_000])
def test_readings_before_the_first_step_are_as_far_from_it_as_they_read(step_ns: int) -> None:
    """A PHC that read 1 s and 1 ms less before its first adjustment, a step, was there so long
    before it, and 2 ms later than the second where it reads 1 ms beyond the step."""
    log = ServoLog.from_adjustments(np.array([(EPOCH_NS, step_ns, 0.0)], dtype=ADJUSTMENT_DTYPE))
    before_ns = EPOCH_NS - np.array([1_000_000_000, 1_000_000])
    after_ns = EPOCH_NS + step_ns + 1_000_000
    free_ns = log.to_free_ns(np.array([*before_ns, after_ns], dtype=np.int64))
    assert free_ns.tolist() == [-1_000_000_000, -1_000_000, 1_000_000]


@pytest.mark.parametrize("frequency_ppb", [np.nan, np.inf, -np.inf, -1e9, -2e9])
def test_a_frequency_no_clock_can_have_is_refused(frequency_ppb: float) -> None:
    """Not finite, stopped or backwards: ValueError that names the adjustment."""
    rows = np.array([(900, 0, 0.0), (1_000, 0, frequency_ppb)], dtype=ADJUSTMENT_DTYPE)
    with pytest.raises(ValueError, match="adjustment 1: a frequency of"):
        ServoLog.from_adjustments(rows)


@given(st.lists(st.integers(-20_000, 20_000), min_size=1, max_size=20), st.integers(1, 10**9))
def test_conversion_keeps_the_order_of_stamps_without_steps(
    frequencies: list[int], gap_ns: int
) -> None:
    """Without steps, a later reading is never an earlier free-running instant."""
    rows = np.array(
        [(EPOCH_NS + i * gap_ns, 0, float(f)) for i, f in enumerate(frequencies)],
        dtype=ADJUSTMENT_DTYPE,
    )
    log = ServoLog.from_adjustments(rows)
    span_ns = gap_ns * (len(frequencies) + 1)
    stamps = EPOCH_NS + np.linspace(0, span_ns, 97).astype(np.int64)
    assert np.all(np.diff(log.to_free_ns(stamps)) >= 0)


@pytest.mark.parametrize("seed", range(6))
def test_rows_meet_exactly_the_pieces_that_they_overlap(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking only at near pieces gives the rows that looking at all of them gives."""
    rng = np.random.default_rng(seed)
    gaps_ns = rng.integers(1, 400_000_000, 30)
    steps_ns = np.where(rng.random(30) < 0.2, rng.integers(-900_000_000, 900_000_000, 30), 0)
    adjustments = np.zeros(30, ADJUSTMENT_DTYPE)
    reading_ns = EPOCH_NS
    for index in range(30):
        reading_ns += int(gaps_ns[index])
        adjustments[index] = (reading_ns, steps_ns[index], rng.normal(0.0, 20_000.0))
        reading_ns += int(steps_ns[index])
    log = ServoLog.from_adjustments(adjustments)
    rows = np.zeros(12, CORRECTION_DTYPE)
    rows["valid_from_local_ns"] = rng.integers(-(10**9), 7 * 10**9, 12)
    rows["valid_to_local_ns"] = rows["valid_from_local_ns"] + rng.integers(1, 3 * 10**9, 12)
    rows["anchor_local_ns"] = rows["valid_from_local_ns"]
    near = steered_rows(rows, log)
    monkeypatch.setattr(servo, "_pieces_of", lambda _row, all_of: range(len(all_of.adjustments)))
    assert np.array_equal(near, steered_rows(rows, log))
    assert len(near) > 12


def test_readings_that_a_step_back_repeats_are_covered_by_no_row() -> None:
    """A PHC that is set back by 400 us shows 400 us of readings twice: neither time is claimed; a
    reading from before them or after them has its row."""
    rows = np.array([(EPOCH_NS, 0, 0.0), (EPOCH_NS + 10**9, -400_000, 0.0)], ADJUSTMENT_DTYPE)
    log = ServoLog.from_adjustments(rows)
    row = np.zeros(1, CORRECTION_DTYPE)
    row["valid_to_local_ns"] = 2 * 10**9
    row["anchor_local_ns"] = 10**9
    found = steered_rows(row, log)
    asked_ns = EPOCH_NS + 10**9 + np.array([-500_000, -400_000, -200_000, 0, 1, 300_000])
    covered = [
        bool(((found["valid_from_local_ns"] <= at) & (at < found["valid_to_local_ns"])).any())
        for at in asked_ns.tolist()
    ]
    assert covered == [True, False, False, False, True, True]
