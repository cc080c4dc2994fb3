# SPDX-License-Identifier: Apache-2.0
"""Big arrays that are used again when their last user has let go of them.

Fresh memory costs several times what is written to it: the kernel maps and clears it page by page.
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

_KEPT_MAX = 4
_OWN_REFERENCES = 3
"""Of an array that nobody uses: the list, the loop variable and the argument of `getrefcount`."""


class RecycledArrays:
    """Arrays of one dtype, handed out whole; a view keeps its array in use.

    >>> arrays = RecycledArrays(np.dtype(np.int64))
    >>> rows = arrays.take(1000)[:10]
    >>> arrays.take(1000).base is rows.base
    False
    """

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._arrays: list[NDArray[Any]] = []

    def take(self, count: int) -> NDArray[Any]:
        """An array of at least `count` rows that nobody else uses, with anything in it."""
        for array in self._arrays:
            if len(array) >= count and sys.getrefcount(array) <= _OWN_REFERENCES:
                return array
        made: NDArray[Any] = np.zeros(count, self._dtype)
        self._arrays = [*self._arrays[1 - _KEPT_MAX :], made]
        return made
