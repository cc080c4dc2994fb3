# SPDX-License-Identifier: Apache-2.0
"""The functions that compiled loops call by address."""

import functools

import numpy as np
from numpy.typing import NDArray

from controller.collector import columns as c
from controller.collector.decode_reports import DECODE
from controller.collector.join_reports import ADD, CLOSE
from controller.collector.path_output import PUT_POSTCARDS, PUT_STACK
from controller.collector.postcard_paths import DIFFERENCE
from controller.collector.sequence_numbers import OBSERVE


@functools.cache
def function_addresses() -> NDArray[np.int64]:
    """int64[F_COLUMNS]; compiles them, when it is first called."""
    addresses = np.zeros(c.F_COLUMNS, np.int64)
    addresses[c.F_DECODE] = DECODE.address
    addresses[c.F_OBSERVE] = OBSERVE.address
    addresses[c.F_ADD] = ADD.address
    addresses[c.F_CLOSE] = CLOSE.address
    addresses[c.F_PUT_STACK] = PUT_STACK.address
    addresses[c.F_PUT_POSTCARDS] = PUT_POSTCARDS.address
    addresses[c.F_DIFFERENCE] = DIFFERENCE.address
    return addresses
