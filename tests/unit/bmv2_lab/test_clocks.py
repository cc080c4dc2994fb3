# SPDX-License-Identifier: Apache-2.0
"""Emulated clocks run as their parameters say, and a PHC does what its servo asks."""

import numpy as np

from bmv2_lab.simulator.clocks import Oscillator, SteeredClock

SECOND_NS = 1_000_000_000


def _oscillator(
    *, rate_ppb: float = 0.0, wander: float = 0.0, seed: int = 1, epoch_ns: int = 0
) -> Oscillator:
    return Oscillator(
        np.random.default_rng(seed),
        epoch_ns=epoch_ns,
        rate_offset_ppb=rate_ppb,
        wander_ns_per_s_sqrt_s=wander,
        duration_ns=70 * SECOND_NS,
    )


def test_constant_rate_error_accumulates_linearly() -> None:
    """10 ppm fast is 10 microseconds a second."""
    clock = _oscillator(rate_ppb=10_000.0, epoch_ns=500)
    assert clock.read_ns(0) == 500
    assert clock.read_ns(30 * SECOND_NS) == 500 + 30 * SECOND_NS + 300_000


def test_rate_walks_by_the_stated_wander() -> None:
    """After T seconds the rate's standard deviation is wander * sqrt(T)."""
    rates = [
        _oscillator(wander=10.0, seed=seed).rate_offset(60 * SECOND_NS) * 1e9 for seed in range(400)
    ]
    assert 0.9 < np.std(rates) / (10.0 * 60**0.5) < 1.1


def test_reading_is_continuous_between_wander_steps() -> None:
    """The phase has no jump where the rate is drawn anew."""
    clock = _oscillator(rate_ppb=3_000.0, wander=10.0)
    for step in range(1, 50):
        edge_ns = step * 10_000_000
        assert clock.elapsed_ns(edge_ns) - clock.elapsed_ns(edge_ns - 1) < 1.1


def test_steering_changes_rate_and_phase_from_that_instant_on() -> None:
    """A step shows at once, a frequency in what follows; history is not rewritten."""
    phc = SteeredClock(_oscillator(rate_ppb=20_000.0))
    before_ns = phc.adjust(SECOND_NS, frequency_ppb=-20_000.0, step_ns=-20_000)
    assert before_ns == SECOND_NS + 20_000
    assert phc.read_ns(SECOND_NS) == SECOND_NS
    assert abs(phc.read_ns(11 * SECOND_NS) - 11 * SECOND_NS) <= 5


def test_offset_between_two_clocks_has_no_rounding() -> None:
    """Scoring compares fractions of a nanosecond, not rounded readings."""
    fast = SteeredClock(_oscillator(rate_ppb=0.5))
    still = SteeredClock(_oscillator())
    assert abs(fast.offset_from_ns(still, SECOND_NS) - 0.5) < 1e-6
