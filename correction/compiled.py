# SPDX-License-Identifier: Apache-2.0
"""Loops that numba compiles once and keeps beside the file.

Arrays and numbers in and out, no objects. Nothing is compiled on import: the first call does it.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., Any])


def compiled(function: _F) -> _F:
    """The function as machine code; `function.py_func` is the Python it was made of."""
    try:
        made: Any = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # neither this folder nor the user's cache can be written
        made = numba.njit(nogil=True)(function)
    return cast("_F", made)


def inlined(function: _F) -> _F:
    """A function that becomes part of the compiled functions that call it, and has no cache."""
    return cast("_F", numba.njit(nogil=True, forceinline=True)(function))
