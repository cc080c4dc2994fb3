# SPDX-License-Identifier: Apache-2.0
"""All clocks at once read what the packet-level lab's single clocks read."""

import numpy as np

from bmv2_lab.scale.clocks import Oscillators, SteeredPhcs, draw_oscillators, servo_logs
from bmv2_lab.scale.ptp import PiServos
from bmv2_lab.simulator.clocks import WANDER_STEP_NS, Oscillator, SteeredClock
from bmv2_lab.simulator.servo import PiServo

DURATION_NS = 2_000_000_000


def _both() -> tuple[list[Oscillator], Oscillators]:
    single = [
        Oscillator(
            np.random.default_rng(seed),
            epoch_ns=10**18 + seed,
            rate_offset_ppb=5_000.0 * (seed - 1),
            wander_ns_per_s_sqrt_s=10.0,
            duration_ns=DURATION_NS,
        )
        for seed in range(3)
    ]
    steps = range(DURATION_NS // WANDER_STEP_NS + 1)
    phase = [
        [one.elapsed_ns(k * WANDER_STEP_NS) - k * WANDER_STEP_NS for k in steps] for one in single
    ]
    epochs = np.array([one.epoch_ns for one in single])
    return single, Oscillators(epoch_ns=epochs, phase_ns=np.array(phase))


def test_oscillators_read_as_single_ones_do() -> None:
    """Readings agree to the nanosecond at any instant."""
    single, arrays = _both()
    times = np.random.default_rng(1).integers(0, DURATION_NS - 1, 300)
    for clock, one in enumerate(single):
        read = arrays.read_ns(np.full(len(times), clock), times)
        wrong = read - np.array([one.read_ns(int(at)) for at in times])
        assert np.abs(wrong).max() <= 1  # a half may round either way


def test_steered_phcs_read_as_steered_clocks_do() -> None:
    """Frequencies and steps in force are those of the last adjustment before each reading."""
    single, arrays = _both()
    clocks = [SteeredClock(one) for one in single]
    phcs = SteeredPhcs(arrays, len(single))
    every = np.arange(len(single))
    rng = np.random.default_rng(4)
    for at_ns in range(200_000_000, DURATION_NS, 300_000_000):
        frequency, step = rng.normal(0, 1_000, len(single)), rng.integers(-900, 900, len(single))
        instant = np.full(len(single), at_ns) + every
        phcs.adjust(every, instant, frequency_ppb=frequency, step_ns=step)
        for clock, one in enumerate(clocks):
            one.adjust(
                at_ns + clock, frequency_ppb=float(frequency[clock]), step_ns=int(step[clock])
            )
        later = np.full(len(single), at_ns + 100_000_000)
        wrong = phcs.read_ns(every, later) - [one.read_ns(int(later[0])) for one in clocks]
        assert np.abs(wrong).max() <= 2
    assert {len(rows) for rows in phcs.adjustments().values()} == {6}


def test_the_servo_log_gives_back_the_free_running_counter() -> None:
    """Differences of free-running time are those of the oscillator."""
    _, arrays = _both()
    phcs = SteeredPhcs(arrays, 3)
    every = np.arange(3)
    for at_ns in (200_000_000, 600_000_000, 1_000_000_000):
        phcs.adjust(
            every,
            np.full(3, at_ns),
            frequency_ppb=np.array([500.0, -700.0, 10_000.0]),
            step_ns=np.array([0, 30, -20]),
        )
    phcs.forget_before(700_000_000)
    logs = servo_logs(phcs.adjustments())
    times = np.array([800_000_000, 1_400_000_000])
    for clock in range(3):
        free = logs[clock].to_free_ns(phcs.read_ns(np.full(2, clock), times))
        true = arrays.read_ns(np.full(2, clock), times)
        assert abs(int(np.diff(free)[0] - np.diff(true)[0])) <= 3


def test_servos_at_once_do_what_one_servo_does() -> None:
    """Locked, they answer the same offsets with the same frequencies."""
    interval_s = 0.25
    one = PiServo(interval_s)
    one.sample(0.0, 0)
    started = one.sample(1_000.0, 250_000_000)
    assert started is not None
    drift = np.array([-started.frequency_ppb])
    many = PiServos(interval_s, drift)
    for offset_ns in (300.0, -80.0, 5_000.0, 12.0):
        adjustment = one.sample(offset_ns, 0)
        assert adjustment is not None
        assert abs(adjustment.frequency_ppb - many.sample(np.array([offset_ns]))[0]) < 1e-6


def test_wander_has_the_declared_size() -> None:
    """The rate's change over a second has the declared standard deviation."""
    clocks = draw_oscillators(
        np.random.default_rng(5),
        epoch_ns=np.zeros(4_000, np.int64),
        rate_offset_ppb=np.zeros(4_000),
        wander_ns_per_s_sqrt_s=10.0,
        duration_ns=1_000_000_000,
    )
    every = np.arange(4_000)
    change = clocks.rate_ppb(every, np.full(4_000, 999_000_000)) - clocks.rate_ppb(
        every, np.zeros(4_000, np.int64)
    )
    assert abs(np.std(change) / 10.0 - 1.0) < 0.05
