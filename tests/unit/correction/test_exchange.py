# SPDX-License-Identifier: Apache-2.0
"""Sign and factor of asymmetry in one PTP exchange (clocks.md 1 and 1.1)."""

import pytest

from correction.exchange import estimate_offset, half_difference_ns, servo_error_ns

EPOCH_NS = 1_800_000_000_000_000_000
D_MS_NS, D_SM_NS = 10_000, 4_000


def _exchange(theta_ns: int, *, c1_ns: int = 0, c2_ns: int = 0, configured_ns: float = 0.0):
    """An exchange of a client that is `theta_ns` ahead, residences added to the delays."""
    t1 = EPOCH_NS
    t2 = t1 + D_MS_NS + c1_ns + theta_ns
    t3 = t2 + 500_000
    t4 = t3 - theta_ns + D_SM_NS + c2_ns
    return estimate_offset(
        t1_reference_ns=t1,
        t2_local_ns=t2,
        t3_local_ns=t3,
        t4_reference_ns=t4,
        c1_ns=c1_ns,
        c2_ns=c2_ns,
        delay_asymmetry_ns=configured_ns,
    )


def test_offset_error_is_half_the_path_difference() -> None:
    """10 us there, 4 us back: an equal clock looks 3 us ahead, the mean delay is 7 us."""
    estimate = _exchange(0)
    assert estimate.offset_ns == 3_000
    assert estimate.mean_path_delay_ns == 7_000


@pytest.mark.parametrize("theta_ns", [-3_001, 0, 1, 250_000])
def test_half_difference_as_asymmetry_recovers_the_offset(theta_ns: int) -> None:
    """theta = offset_est - A, with A half the one-way difference, at a TAI epoch, exactly."""
    a_ns = half_difference_ns(D_MS_NS, D_SM_NS)
    assert a_ns == 3_000
    assert _exchange(theta_ns, configured_ns=a_ns).offset_ns == theta_ns


def test_asymmetry_is_positive_when_reference_to_client_is_slower() -> None:
    """Swapping the directions flips the sign."""
    assert half_difference_ns(D_SM_NS, D_MS_NS) == -3_000


@pytest.mark.parametrize(("configured_ns", "error_ns"), [(0, -3_000), (3_000, 0), (6_000, 3_000)])
def test_locked_servo_sits_at_configured_minus_true(configured_ns: int, error_ns: int) -> None:
    """The table of clocks.md 1.1: the full difference over-corrects by 100 %."""
    assert servo_error_ns(configured_asymmetry_ns=configured_ns, true_asymmetry_ns=3_000) == (
        error_ns
    )
    # and indeed there the servo sees nothing
    assert _exchange(error_ns, configured_ns=configured_ns).offset_ns == 0


def test_configured_asymmetry_leaves_the_mean_delay_alone() -> None:
    """The applied A shifts the offset only."""
    assert _exchange(0, configured_ns=3_000).mean_path_delay_ns == 7_000


def test_residence_in_the_corrections_cancels_queueing() -> None:
    """c1 and c2 equal to the residences leave the estimate as without queues."""
    assert _exchange(42, c1_ns=30_000, c2_ns=2_000) == _exchange(42)


def test_ignored_corrections_bias_by_half_their_difference() -> None:
    """Corrections of 36 035 and 105 045 ns, not subtracted, bias the offset by -34 505 ns."""
    t1 = EPOCH_NS
    t2 = t1 + 1_000 + 36_035
    t4 = t2 + 10 + 1_000 + 105_045
    estimate = estimate_offset(
        t1_reference_ns=t1, t2_local_ns=t2, t3_local_ns=t2 + 10, t4_reference_ns=t4
    )
    assert estimate.offset_ns == (36_035 - 105_045) / 2 == -34_505
