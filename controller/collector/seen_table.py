# SPDX-License-Identifier: Apache-2.0
"""Compiled: `telemetry.seen.SeenReports`, two hash tables of 64-bit contents.

Open addressing, at most half full. A table is emptied as a whole when the younger one is full and
takes its place.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.collector.content_hash import content_hash
from controller.collector.kernel import SOURCES_DIGEST, entry, part
from controller.collector.loads import address_of, get, prefetch, put
from controller.telemetry.seen import REPORTS_REMEMBERED, SeenReports, Sight, digest_and_number

SEEN_YOUNGER = 0
SEEN_OLDER = 1
SEEN_COUNT = 2
"""Contents in the younger table."""
SEEN_REMEMBERED = 3
SEEN_MASK = 4
SEEN_COLUMNS = 5

NEW = 0
REPEATED = 1
REPLICA = 2
SIGHTS = (Sight.NEW, Sight.REPEATED, Sight.REPLICA)
"""By number."""


class SeenTables(NamedTuple):
    """The state row and both tables."""

    state: NDArray[np.int64]
    tables: NDArray[np.int64]
    """int64[2, slots, 2]: content (0: free) and number; memory is touched as it is filled."""


def seen_tables(*, remembered: int = REPORTS_REMEMBERED) -> SeenTables:
    """Nothing seen yet."""
    slots = 1 << (2 * remembered - 1).bit_length()
    tables = np.zeros((2, slots, 2), np.int64)
    state = np.zeros(SEEN_COLUMNS, np.int64)
    state[SEEN_YOUNGER] = address_of(tables)
    state[SEEN_OLDER] = address_of(tables) + 16 * slots
    state[SEEN_REMEMBERED] = remembered
    state[SEEN_MASK] = slots - 1
    return SeenTables(state, tables)


@part
def expect(seen: int, content: int) -> None:
    """`look` will soon be asked for the content."""
    at = 16 * (content & get(seen, SEEN_MASK))
    prefetch(get(seen, SEEN_YOUNGER) + at)
    prefetch(get(seen, SEEN_OLDER) + at)


@part
def _find(table: int, mask: int, content: int) -> int:
    """Address of the content's slot, or of the free one where it would be."""
    slot = content & mask
    while True:
        at = table + 16 * slot
        found = get(at, 0)
        if found == content or found == 0:
            return at
        slot = (slot + 1) & mask


@part
def look(seen: int, content: int, number: int) -> int:
    """What is known of a content (its hash) with a number; it counts as seen from now on."""
    if content == 0:
        content = 1
    mask = get(seen, SEEN_MASK)
    younger, older = get(seen, SEEN_YOUNGER), get(seen, SEEN_OLDER)
    at = _find(younger, mask, content)
    if get(at, 0) != 0:
        return REPEATED if get(at, 1) == number else REPLICA
    before = _find(older, mask, content)
    sight = NEW
    known = number
    if get(before, 0) != 0:
        known = get(before, 1)
        sight = REPEATED if known == number else REPLICA
    put(at, 0, content)
    put(at, 1, known)
    count = get(seen, SEEN_COUNT) + 1
    if count >= get(seen, SEEN_REMEMBERED):
        for index in range(2 * (mask + 1)):
            put(older, index, 0)
        put(seen, SEEN_YOUNGER, older)
        put(seen, SEEN_OLDER, younger)
        count = 0
    put(seen, SEEN_COUNT, count)
    return sight


def _look_entry(digest: int) -> Any:  # noqa: ANN401
    def look_one(seen: int, content: int, number: int) -> int:
        """`look`, for callers that are not compiled."""
        return look(seen, content, number) if digest != 0 else NEW

    return entry(look_one)


def _hash_entry(digest: int) -> Any:  # noqa: ANN401
    def hash_one(start: int, end: int, seed: int) -> int:
        """`content_hash`, for callers that are not compiled."""
        return content_hash(start, end, seed) if digest != 0 else 0

    return entry(hash_one)


look_one = _look_entry(SOURCES_DIGEST)
hash_one = _hash_entry(SOURCES_DIGEST)


class CompiledSeen(SeenReports):
    """`SeenReports` in the tables of the compiled loop, whose hash has a `seed`."""

    def __init__(self, *, seed: int, remembered: int = REPORTS_REMEMBERED) -> None:
        self._arrays = seen_tables(remembered=remembered)
        self._seed = seed
        self.state = self._arrays.state

    def __len__(self) -> int:
        return int(np.count_nonzero(self._arrays.tables[:, :, 0]))

    def look(self, content: bytes) -> Sight:
        """What the content is; it counts as seen from now on."""
        digest, number = digest_and_number(content)
        if content.startswith(number):  # as the compiled loop has it: the number comes first
            payload = np.frombuffer(content, np.uint8)
            start = address_of(payload)
            digest = hash_one(start + len(number), start + len(content), self._seed)
        return SIGHTS[look_one(address_of(self.state), digest, int.from_bytes(number, "big"))]
