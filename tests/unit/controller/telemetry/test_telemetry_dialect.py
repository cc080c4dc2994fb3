# SPDX-License-Identifier: Apache-2.0
"""Stamps become local nanoseconds that never wrap; profiles are named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.telemetry.dialect import DIALECTS, STANDARD, StampTimeline, unwrap
from correction.records import NO_TSTAMP_NS

_WIDTHS = st.sampled_from([8, 18, 22, 32, 48, 62])


@given(_WIDTHS, st.integers(-(2**61), 2**61), st.data())
def test_unwrap_recovers_any_number_within_half_a_period(width_bits, near, data):
    """From its low bits and a guess that is off by less than half a period."""
    half = 2 ** (width_bits - 1)
    true = near + data.draw(st.integers(-half, half - 1))
    assert unwrap(true % 2**width_bits, width_bits, near) == true


@given(_WIDTHS, st.lists(st.tuples(st.integers(0, 2**62 - 1), st.integers(-(2**61), 2**61))))
def test_unwrap_of_arrays_is_unwrap_of_each_element(width_bits, pairs):
    """The vectorised form is the same function."""
    values = np.array([value % 2**width_bits for value, _near in pairs], dtype=np.int64)
    near = np.array([near for _value, near in pairs], dtype=np.int64)
    expected = [unwrap(int(v), width_bits, int(n)) for v, n in zip(values, near, strict=True)]
    assert unwrap(values, width_bits, near).tolist() == expected


def _local_ns(timeline, stamps, captured):
    local_ns, impossible = timeline.to_local_ns(
        np.array(stamps, dtype=np.uint64), np.array(captured, dtype=np.int64)
    )
    return local_ns.tolist(), impossible.tolist()


@pytest.mark.parametrize("width_bits", [32, 48])
def test_stamps_go_on_across_wraps(width_bits):
    """A device that wraps several times, also while nothing is reported, keeps one time line."""
    period = 2**width_bits
    true = [period - 10, period + 5, 2 * period + 7, 2 * period - 3, 7 * period + 1]
    timeline = StampTimeline(unit_ns=1, width_bits=width_bits)
    captured = [stamp + 10**18 for stamp in true]
    first, _ = _local_ns(timeline, [stamp % period for stamp in true[:2]], captured[:2])
    rest, _ = _local_ns(timeline, [stamp % period for stamp in true[2:]], captured[2:])
    assert first + rest == true


def test_the_unit_is_applied_once():
    """BMv2 counts microseconds: 5 is 5000 ns, and the collector's clock is still in ns."""
    timeline = StampTimeline(unit_ns=1000, width_bits=32)
    captured = [10**18, 10**18 + 2**32 * 1000]
    assert _local_ns(timeline, [5, 6], captured)[0] == [5_000, (2**32 + 6) * 1000]


def test_no_stamp_and_an_impossible_stamp_never_become_a_time():
    """Raw 0 is none; 49 bits from a 48-bit device are impossible and reported as such."""
    timeline = StampTimeline(unit_ns=1, width_bits=48)
    local_ns, impossible = _local_ns(timeline, [0, 2**48, 9, 2**64 - 1], [0, 0, 0, 0])
    assert local_ns == [NO_TSTAMP_NS, NO_TSTAMP_NS, 9, NO_TSTAMP_NS]
    assert impossible == [False, True, False, True]


def test_a_64_bit_stamp_is_taken_as_it_is():
    """A clock on the epoch of today does not wrap; what would overflow int64 is impossible."""
    timeline = StampTimeline(unit_ns=1, width_bits=64)
    local_ns, impossible = _local_ns(timeline, [1_800_000_000_000_000_001, 2**62], [5, 6])
    assert local_ns == [1_800_000_000_000_000_001, NO_TSTAMP_NS]
    assert impossible == [False, True]


def test_no_stamps_at_all_are_no_error():
    """An empty batch leaves the time line without an origin."""
    timeline = StampTimeline(unit_ns=1, width_bits=48)
    assert _local_ns(timeline, [], []) == ([], [])
    assert _local_ns(timeline, [3], [7])[0] == [3]


def test_profiles_are_found_by_their_names():
    """fabric.yaml names them; the standard is among them."""
    assert DIALECTS["tempotrace-v2"] is STANDARD
    assert all(name == dialect.name for name, dialect in DIALECTS.items())
