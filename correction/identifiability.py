# SPDX-License-Identifier: Apache-2.0
"""Which links lie in loops, which clocks hang together, and what a cut is.

Only in loops does an asymmetry show. What the data determine is judged in `mesh.certificates`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.timebase import Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A set of clocks that can move for nothing: the links that it crosses."""

    side: frozenset[int]
    """Clocks away from the reference (hosts behind them not listed)."""
    bad_links: tuple[int, ...]
    kept_links: tuple[int, ...]


def loop_links(ends: NDArray[np.int64], known: Bools, clock_count: int) -> Bools:
    """Links that remain when hosts and other dead ends are stripped: only these lie in loops."""
    alive = known.copy()
    while True:
        degree = np.bincount(ends[alive].ravel(), minlength=clock_count)
        dead = alive & ((degree[ends[:, 0]] == 1) | (degree[ends[:, 1]] == 1))
        if not dead.any():
            return alive
        alive &= ~dead


def reached(
    ends: NDArray[np.int64], usable: Bools, start: int, clock_count: int, *, blocked: Bools
) -> Bools:
    """Clocks connected to `start` by usable links without passing a blocked one."""
    seen = np.zeros(clock_count, np.bool_)
    seen[start] = True
    pairs = ends[usable]
    pairs = pairs[~(blocked[pairs[:, 0]] | blocked[pairs[:, 1]])]
    while True:
        touched = seen[pairs[:, 0]] != seen[pairs[:, 1]]
        if not touched.any():
            return seen
        seen[pairs[touched].ravel()] = True
