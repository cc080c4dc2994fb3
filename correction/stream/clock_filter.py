# SPDX-License-Identifier: Apache-2.0
"""Each clock over time: offset, rate and wander; steps and rate jumps; holdover with a growing sd.

A Kalman filter per clock, all clocks at once. Between windows the offset follows its rate, the rate
walks at random (declared wander, or more where the clock shows more). An innovation beyond
STEP_SIGMAS is a step, or a rate jump if the rate itself departs; then the filter starts anew from
the measurement. A clock without measurement coasts: its sd grows with the rate's and the wander.
The constant error of cables is not in here: it does not grow and is no news between windows.
"""

from dataclasses import dataclass

import numpy as np

from correction.records import NO_TSTAMP_NS
from correction.timebase import NS_PER_S, Bools, Float64s, Int64s

STEP_SIGMAS = 6.0
STEP_NS_MIN = 3.0
"""A departure below this is no step, whatever its significance."""
RATE_JUMP_PPB_MIN = 20.0
WANDER_MEMORY = 0.1
"""Share of the newest innovation in the estimate of a clock's wander."""
LOST_S = 60.0
"""After coasting for longer a clock is not known any more; it starts anew."""


@dataclass(slots=True, kw_only=True)
class ClockStates:
    """Arrays over clocks; the state that is saved."""

    anchor_local_ns: Int64s
    """Reading at the newest update; NO_TSTAMP_NS: never updated, or lost."""
    offset_ns: Int64s
    """clock - reference there, whole part, without what stays (the tracker's averages)."""
    rest_ns: Float64s
    """The rest of it."""
    rate_ppb: Float64s
    offset_var: Float64s
    """ns^2"""
    cross_var: Float64s
    rate_var: Float64s
    """ppb^2"""
    wander: Float64s
    """ns/s per square root of a second, of this clock against the reference."""
    steps: Int64s
    """Steps and rate jumps so far."""
    updates: Int64s
    """Since it was acquired."""

    @classmethod
    def new(cls, count: int, wander: float) -> "ClockStates":
        """Nothing known; `wander` is declared of one clock."""
        return cls(
            anchor_local_ns=np.full(count, NO_TSTAMP_NS),
            offset_ns=np.zeros(count, np.int64),
            rest_ns=np.zeros(count),
            rate_ppb=np.zeros(count),
            offset_var=np.zeros(count),
            cross_var=np.zeros(count),
            rate_var=np.zeros(count),
            wander=np.full(count, np.sqrt(2.0) * wander),
            steps=np.zeros(count, np.int64),
            updates=np.zeros(count, np.int64),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What a window did to the clocks."""

    stepped: Bools
    rate_jumped: Bools
    step_ns: Float64s
    """Departure from the prediction; NaN where there was none."""
    acquired: Bools
    """Known again, or for the first time."""
    coasting: Bools
    """Known, but not measured in this window."""


def update(
    states: ClockStates,
    reading_ns: Int64s,
    offset_ns: Int64s,
    rest_ns: Float64s,
    sd_ns: Float64s,
    rate_ppb: Float64s,
    rate_sd_ppb: Float64s,
    measured: Bools,
    wander: float,
) -> Update:
    """Advance the measured clocks to their readings; `sd_ns` without what is constant.

    `wander` is declared of one clock and a lower limit of what is assumed.
    """
    known = states.anchor_local_ns != NO_TSTAMP_NS
    elapsed_s = np.where(known & measured, reading_ns - states.anchor_local_ns, 0) / NS_PER_S
    unusable = (elapsed_s <= 0.0) | (elapsed_s > LOST_S)
    fresh = measured & (~known | unusable)
    tracked = measured & ~fresh
    dt = np.where(tracked, elapsed_s, 1.0)
    q = states.wander**2
    moved = np.where(tracked, offset_ns - states.offset_ns, 0).astype(np.float64)
    predicted = states.rest_ns + states.rate_ppb * dt - moved  # relative to the new whole part
    p00 = states.offset_var + 2 * dt * states.cross_var + dt**2 * states.rate_var + q * dt**3 / 3
    p01 = states.cross_var + dt * states.rate_var + q * dt**2 / 2
    p11 = states.rate_var + q * dt
    off, off_var = rest_ns - predicted, p00 + sd_ns**2
    rate_off, rate_off_var = rate_ppb - states.rate_ppb, p11 + rate_sd_ppb**2
    warm = tracked & (states.updates >= 2)
    turned = np.abs(rate_off) > np.maximum(STEP_SIGMAS * np.sqrt(rate_off_var), RATE_JUMP_PPB_MIN)
    departs = np.abs(off) > np.maximum(STEP_SIGMAS * np.sqrt(off_var), STEP_NS_MIN)
    rate_jumped, stepped = warm & turned, warm & departs & ~turned
    restart = fresh | stepped | rate_jumped
    kept = tracked & ~restart

    # two scalar corrections one after the other: offset, then rate
    gain0, gain1 = p00 / off_var, p01 / off_var
    rest, rate = predicted + gain0 * off, states.rate_ppb + gain1 * off
    p11, p01, p00 = p11 - gain1 * p01, (1.0 - gain0) * p01, (1.0 - gain0) * p00
    total = p11 + rate_sd_ppb**2
    with np.errstate(invalid="ignore"):
        gain0 = np.where(np.isfinite(total), p01 / total, 0.0)
        gain1 = np.where(np.isfinite(total), p11 / total, 0.0)
    remaining = np.where(np.isfinite(total), rate_ppb - rate, 0.0)
    rest, rate = rest + gain0 * remaining, rate + gain1 * remaining
    p00, p01, p11 = p00 - gain0 * p01, (1.0 - gain1) * p01, (1.0 - gain1) * p11

    floor = np.sqrt(2.0) * wander
    seen = np.maximum(off**2 - (off_var - q * dt**3 / 3.0), 0.0) * 3.0 / dt**3
    learnt = (1.0 - WANDER_MEMORY) * q + WANDER_MEMORY * np.minimum(seen, 25.0 * q)
    states.wander[kept] = np.maximum(np.sqrt(learnt), floor)[kept]
    for column, filtered, began in (
        (states.rest_ns, rest, rest_ns),
        (states.rate_ppb, rate, rate_ppb),
        (states.offset_var, p00, sd_ns**2),
        (states.cross_var, p01, np.zeros_like(p01)),
        (states.rate_var, p11, rate_sd_ppb**2),
    ):
        column[kept], column[restart] = filtered[kept], began[restart]
    states.wander[restart] = floor
    states.offset_ns[measured] = offset_ns[measured]
    states.anchor_local_ns[measured] = reading_ns[measured]
    states.steps[stepped | rate_jumped] += 1
    states.updates[restart] = 0
    states.updates[measured] += 1
    return Update(
        stepped=stepped,
        rate_jumped=rate_jumped,
        step_ns=np.where(tracked, off, np.nan),
        acquired=fresh,
        coasting=known & ~measured,
    )


def coast(states: ClockStates, elapsed_s: Float64s) -> tuple[Float64s, Float64s]:
    """(change of the offset in ns, sd of the offset) so long after each clock's newest update."""
    dt = elapsed_s
    variance = states.offset_var + 2 * dt * states.cross_var + dt**2 * states.rate_var
    variance = variance + states.wander**2 * np.abs(dt) ** 3 / 3.0
    return states.rate_ppb * dt, np.sqrt(np.maximum(variance, 0.0))
