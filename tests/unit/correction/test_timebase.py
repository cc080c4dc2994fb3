# SPDX-License-Identifier: Apache-2.0
"""Integer time: unwrapping, anchors, usable stamps."""

import numpy as np
import pytest

from correction.records import NO_TSTAMP_NS
from correction.timebase import Anchors, has_stamp, modular_difference_ns, unwrap


@pytest.mark.parametrize("bits", [32, 48])
def test_residence_across_a_wrap_is_small(bits: int) -> None:
    """A counter that wraps between two stamps still gives their true difference."""
    before, after = np.array([2**bits - 7]), np.array([5])
    assert modular_difference_ns(after, before, bits=bits).tolist() == [12]


def test_modular_difference_is_signed() -> None:
    """A later stamp that is earlier by the counter gives a small negative difference."""
    assert modular_difference_ns(np.array([2**48 - 1]), np.array([0]), bits=48).tolist() == [-1]


def test_unwrap_keeps_the_residue_and_stays_near() -> None:
    """The result is congruent to the stamp and within half a wrap of the coarse reading."""
    near = np.array([10 * 2**32 + 17, 10 * 2**32 - 17])
    got = unwrap(np.array([2**32 - 1, 3]), near, bits=32)
    assert ((got - np.array([2**32 - 1, 3])) % 2**32 == 0).all()
    assert (np.abs(got - near) <= 2**31).all()


def test_anchors_keep_nanoseconds_at_huge_epochs() -> None:
    """1 ns survives at a TAI epoch of 1.8e18, where a float64 resolves 256 ns."""
    anchors = Anchors(anchor_local_ns=np.array([1_800_000_000_000_000_000, 5]))
    stamps = np.array([1_800_000_000_000_000_001, 1_800_000_000_000_000_002])
    assert anchors.rest_ns(np.array([0, 0]), stamps).tolist() == [1.0, 2.0]
    assert anchors.difference_ns(0, 1) == 1_799_999_999_999_999_995


def test_missing_and_absurd_stamps_are_not_usable() -> None:
    """Neither the marker for "no stamp" nor values that would overflow reach arithmetic."""
    stamps = np.array([NO_TSTAMP_NS, NO_TSTAMP_NS + 1, 0, 2**62, 2**62 - 1])
    assert has_stamp(stamps).tolist() == [False, False, True, False, True]
