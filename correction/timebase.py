# SPDX-License-Identifier: Apache-2.0
"""Integer time: unwrapping, and the split of huge stamps into an integer anchor and a small rest.

A float64 resolves 256 ns at today's epoch (style rule: floats are only for differences). Every
stamp therefore loses its clock's integer anchor before it meets a float; the rests stay below
2^53 ns (104 days), where float64 is exact.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.records import NO_TSTAMP_NS

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]
Bools = NDArray[np.bool_]

NS_PER_S = 1_000_000_000
STAMP_NS_MAX = 2**62
"""Larger magnitudes cannot be subtracted without overflow; no real clock reads them (146 years)."""


def has_stamp(stamps_local_ns: Int64s) -> Bools:
    """Whether each stamp is usable: present, and small enough to be subtracted exactly."""
    usable: Bools = (
        (stamps_local_ns != NO_TSTAMP_NS)
        & (stamps_local_ns > -STAMP_NS_MAX)
        & (stamps_local_ns < STAMP_NS_MAX)
    )
    return usable


def modular_difference_ns(later_ns: Int64s, earlier_ns: Int64s, *, bits: int) -> Int64s:
    """`later - earlier` of one counter of `bits` bits, as the nearest signed value.

    >>> modular_difference_ns(np.array([5]), np.array([2**32 - 10]), bits=32).tolist()
    [15]
    """
    difference = later_ns - earlier_ns
    if bits >= 64:
        return difference
    half = np.int64(1) << np.int64(bits - 1)
    mask = (np.int64(1) << np.int64(bits)) - np.int64(1)
    return ((difference + half) & mask) - half


def unwrap(stamps_local_ns: Int64s, near_ns: Int64s, *, bits: int) -> Int64s:
    """The values congruent to the stamps modulo 2^bits that lie nearest to `near_ns`.

    `near_ns` is a coarse reading of the same counter, right to within half a wrap.

    >>> unwrap(np.array([3]), np.array([2**32 - 1]), bits=32).tolist()
    [4294967299]
    """
    return near_ns + modular_difference_ns(stamps_local_ns, near_ns, bits=bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """One integer reading per clock; `local - anchor` is small and becomes a float exactly."""

    anchor_local_ns: Int64s

    def rest_ns(self, clock: NDArray[np.integer], stamps_local_ns: Int64s) -> Float64s:
        """Stamps minus the anchors of their clocks (`clock` holds clock indices)."""
        rest: Float64s = (stamps_local_ns - self.anchor_local_ns[clock]).astype(np.float64)
        return rest

    def difference_ns(self, clock: int, other: int) -> int:
        """Anchor of `clock` minus anchor of `other`, exact."""
        return int(self.anchor_local_ns[clock]) - int(self.anchor_local_ns[other])
