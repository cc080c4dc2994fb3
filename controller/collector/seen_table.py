# SPDX-License-Identifier: Apache-2.0
"""Compiled: `telemetry.seen.SeenReports`, two hash tables of 64-bit contents.

Open addressing, at most half full. A table is emptied as a whole when the younger one is full and
takes its place.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.collector.kernel import part
from controller.collector.loads import address_of, get, prefetch, put
from controller.telemetry.seen import REPORTS_REMEMBERED

SEEN_YOUNGER = 0
SEEN_OLDER = 1
SEEN_COUNT = 2
"""Contents in the younger table."""
SEEN_REMEMBERED = 3
SEEN_MASK = 4
SEEN_COLUMNS = 5


class SeenTables(NamedTuple):
    """The state row and both tables."""

    state: NDArray[np.int64]
    tables: NDArray[np.int64]
    """int64[2, slots]: a content or 0; memory is touched as it is filled."""


def seen_tables(*, remembered: int = REPORTS_REMEMBERED) -> SeenTables:
    """Nothing seen yet."""
    slots = 1 << (2 * remembered - 1).bit_length()
    tables = np.zeros((2, slots), np.int64)
    state = np.zeros(SEEN_COLUMNS, np.int64)
    state[SEEN_YOUNGER] = address_of(tables)
    state[SEEN_OLDER] = address_of(tables) + 8 * slots
    state[SEEN_REMEMBERED] = remembered
    state[SEEN_MASK] = slots - 1
    return SeenTables(state, tables)


@part
def expect(seen: int, content: int) -> None:
    """`repeats` will soon be asked for the content."""
    at = 8 * (content & get(seen, SEEN_MASK))
    prefetch(get(seen, SEEN_YOUNGER) + at)
    prefetch(get(seen, SEEN_OLDER) + at)


@part
def repeats(seen: int, content: int) -> bool:
    """Whether the content has been seen; it counts as seen from now on."""
    if content == 0:
        content = 1
    mask = get(seen, SEEN_MASK)
    younger, older = get(seen, SEEN_YOUNGER), get(seen, SEEN_OLDER)
    slot = content & mask
    found = get(younger, slot)
    while found != 0:
        if found == content:
            return True
        slot = (slot + 1) & mask
        found = get(younger, slot)
    put(younger, slot, content)
    slot = content & mask
    found = get(older, slot)
    while found != 0 and found != content:
        slot = (slot + 1) & mask
        found = get(older, slot)
    count = get(seen, SEEN_COUNT) + 1
    if count >= get(seen, SEEN_REMEMBERED):
        for index in range(mask + 1):
            put(older, index, 0)
        put(seen, SEEN_YOUNGER, older)
        put(seen, SEEN_OLDER, younger)
        count = 0
    put(seen, SEEN_COUNT, count)
    return found == content
