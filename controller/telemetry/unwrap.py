# SPDX-License-Identifier: Apache-2.0
"""Numbers of limited width, counted on where they wrap."""

from typing import overload

import numpy as np
from numpy.typing import NDArray

UNWRAP_WIDTH_BITS_MAX = 62
"""Wider stamps are taken as they are: in any unit they do not wrap in a device's lifetime."""


@overload
def unwrap(value: int, width_bits: int, near: int) -> int: ...
@overload
def unwrap(
    value: NDArray[np.int64], width_bits: int, near: NDArray[np.int64]
) -> NDArray[np.int64]: ...
def unwrap(
    value: int | NDArray[np.int64], width_bits: int, near: int | NDArray[np.int64]
) -> int | NDArray[np.int64]:
    """The number nearest to `near` that equals `value` modulo 2^width_bits.

    All in one unit, on one clock. Right while |true - near| < 2^(width_bits - 1); at exactly half
    a period the earlier candidate is taken.

    >>> unwrap(3, 8, 254), unwrap(254, 8, 256), unwrap(0, 32, 2**32 + 5)
    (259, 254, 4294967296)
    """
    assert 1 <= width_bits <= UNWRAP_WIDTH_BITS_MAX
    distance = (value - near) & ((1 << width_bits) - 1)
    return near + distance - ((distance >> (width_bits - 1)) << width_bits)
