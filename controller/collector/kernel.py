# SPDX-License-Identifier: Apache-2.0
"""How the collector's loops are compiled: parts without a cache, entry points with one.

numba keeps an entry's machine code beside its file and takes it for fresh while that file is the
same, whatever it was inlined from. So every entry carries a digest of all sources that its parts
come from: a change in any of them is compiled anew.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from controller.telemetry import (
    link_references,
    loss,
    packet,
    postcards,
    rejected,
    seen,
    stamp_kernel,
)
from correction import records

_CONSTANTS_FROM = (
    link_references,
    loss,
    packet,
    postcards,
    rejected,
    seen,
    stamp_kernel,
    records,
)
_F = TypeVar("_F", bound=Callable[..., Any])


_MARKS = (b"@part", b"@routine", b"_COLUMNS", b"intrinsic(")
"""What sources hold that are compiled."""


def _digest() -> int:
    whole = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        text = source.read_bytes()
        if any(mark in text for mark in _MARKS):
            whole.update(text)
    for module in _CONSTANTS_FROM:
        whole.update(Path(module.__file__ or "").read_bytes())
    return int.from_bytes(whole.digest()[:7], "big") | 1


SOURCES_DIGEST = _digest()
"""Never 0; an entry point holds it as a free variable, which is part of numba's cache key."""


_PART: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""Nothing outside calls a part, so that it needs no wrapper, whose making takes as long."""


def part(function: _F) -> _F:
    """A function of the path that every report takes: becomes part of its callers."""
    return cast("_F", numba.njit(**_PART, forceinline=True)(function))


def routine(function: _F) -> _F:
    """A function that is called: what fewer reports need, or what has many callers."""
    return cast("_F", numba.njit(**_PART)(function))


class Function:
    """A compiled function that others call by its address, of int64 arguments.

    numba optimises all that a function calls once more for each of its callers, level by level.
    Behind an address, it is compiled once. `make` gets SOURCES_DIGEST and gives the Python
    function, which holds it as a free variable.
    """

    def __init__(self, make: Callable[[int], Callable[..., int]], arguments: int) -> None:
        self._make = make
        self._signature = numba.types.int64(*[numba.types.int64] * arguments)
        self._compiled: Any = None

    @property
    def address(self) -> int:
        """Compiled when it is first asked for."""
        if self._compiled is None:
            function = self._make(SOURCES_DIGEST)
            try:
                self._compiled = numba.cfunc(self._signature, cache=True)(function)
            except RuntimeError:  # as in `entry`
                self._compiled = numba.cfunc(self._signature)(function)
        return int(self._compiled.address)


def entry(function: _F) -> _F:
    """An entry point as machine code, kept for the next start where a folder can be written."""
    try:
        made: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # neither this folder nor the user's cache can be written
        made = numba.njit(nogil=True, error_model="numpy")(function)
    return cast("_F", made)
