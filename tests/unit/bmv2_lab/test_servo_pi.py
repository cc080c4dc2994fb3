# SPDX-License-Identifier: Apache-2.0
"""The PI servo locks, and locks onto the path's asymmetry as a real client does."""

from bmv2_lab.simulator.servo import PiServo

INTERVAL_S = 0.25


def _run(*, asymmetry_ns: float, rate_ppb: float, offset_ns: float, samples: int) -> float:
    """Simulate a noiseless loop; returns the client's true offset at the end, ns."""
    servo = PiServo(INTERVAL_S)
    servo.path_delay(5_000.0)
    frequency_ppb = 0.0
    for index in range(samples):
        seen_ns = offset_ns + asymmetry_ns
        adjustment = servo.sample(seen_ns, round(index * INTERVAL_S * 1e9))
        if adjustment is not None:
            offset_ns += adjustment.step_ns
            frequency_ppb = adjustment.frequency_ppb
        offset_ns += (rate_ppb + frequency_ppb) * INTERVAL_S
    return offset_ns


def test_servo_removes_offset_and_rate() -> None:
    """With a symmetric path the client ends at the reference."""
    end_ns = _run(asymmetry_ns=0.0, rate_ppb=12_000.0, offset_ns=400_000.0, samples=120)
    assert abs(end_ns) < 5.0


def test_offset_error_is_half_the_path_difference() -> None:
    """A locked client sits at minus the asymmetry, whatever it logs."""
    end_ns = _run(asymmetry_ns=3_000.0, rate_ppb=-5_000.0, offset_ns=0.0, samples=120)
    assert abs(end_ns + 3_000.0) < 5.0
