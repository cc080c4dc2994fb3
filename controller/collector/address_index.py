# SPDX-License-Identifier: Apache-2.0
"""Which of a receiver's own addresses a datagram was sent to; for compiled loops."""

import numpy as np
from numpy.typing import NDArray

from correction.compiled import inlined


@inlined
def address_index(addresses: NDArray[np.int64], low: int, high: int, guess: int) -> int:
    """Index of the address (its two words) in `addresses`; -1 if it is none of them.

    `guess` is looked at first: most datagrams go to the address of the one before.
    """
    if not len(addresses):
        return -1
    if addresses[guess, 0] == low and addresses[guess, 1] == high:
        return guess
    for candidate in range(len(addresses)):
        if addresses[candidate, 0] == low and addresses[candidate, 1] == high:
            return candidate
    return -1
