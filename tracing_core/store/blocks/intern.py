# SPDX-License-Identifier: Apache-2.0
"""Texts that stand in a buffer: copied into string columns, or numbered for dictionaries.

A LowCardinality column is a dictionary and a number a row. A text is known by where it stands, so
only the dictionary itself is copied.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from correction.compiled import compiled, inlined
from tracing_core.otlp.wire import Bytes, hash_bytes, load64, signed
from tracing_core.store.blocks.native import Keys

Numbers = NDArray[np.int64]

_SLOTS_FIRST = 1 << 12
_GROWTH = 8


@inlined
def same_bytes(buf: Bytes, a: int, b: int, size: int) -> bool:
    """Whether `size` bytes at `a` and at `b` are equal."""
    pos = 0
    while pos + 8 <= size:
        if load64(buf, a + pos) != load64(buf, b + pos):
            return False
        pos += 8
    while pos < size:
        if buf[a + pos] != buf[b + pos]:
            return False
        pos += 1
    return True


@compiled
def _number(
    buf: Bytes, table: Numbers, column: int, slots: NDArray[np.int32], offsets: Numbers,
    sizes: Numbers, hashes: NDArray[np.uint64], follower: NDArray[np.int32],
    out: NDArray[np.uint32],
) -> int:  # fmt: skip
    """Numbers the texts at (offset, size) in `column` of all rows, in order of first appearance.

    Returns the number of entries, whose offsets, sizes and hashes it fills, or -1 when there is
    no room. What followed a text once mostly follows it again, so that entry is tried first.
    """
    mask = len(slots) - 1
    count = 0
    before = 0
    for row in range(len(out)):
        offset, size = table[row, column], table[row, column + 1]
        entry = signed(follower[before])
        if entry < 0 or sizes[entry] != size or not same_bytes(buf, offsets[entry], offset, size):
            code = hash_bytes(buf, offset, offset + size, np.uint64(0))
            slot = signed(code & np.uint64(mask))
            while True:
                entry = signed(slots[slot]) - 1
                if entry < 0 or (
                    hashes[entry] == code
                    and sizes[entry] == size
                    and same_bytes(buf, offsets[entry], offset, size)
                ):
                    break
                slot = (slot + 1) & mask
            if entry < 0:
                entry = count
                if entry == len(offsets):
                    return -1
                slots[slot] = entry + 1
                offsets[entry], sizes[entry], hashes[entry] = offset, size, code
                follower[entry] = -1
                count += 1
            if row:
                follower[before] = entry
        out[row] = entry
        before = entry
    return count


@compiled
def _put_texts(buf: Bytes, offsets: Numbers, sizes: Numbers, out: Bytes) -> int:
    at = 0
    for row in range(len(offsets)):
        size = sizes[row]
        rest = size
        while rest >= 128:
            out[at] = (rest & 127) | 128
            rest >>= 7
            at += 1
        out[at] = rest
        at += 1
        offset = offsets[row]
        for i in range(size):
            out[at + i] = buf[offset + i]
        at += size
    return at


@compiled
def put_fixed(buf: Bytes, offsets: Numbers, size: int, out: Bytes) -> None:
    """Copies `size` bytes of each row; zeros where the offset is negative."""
    for row in range(len(offsets)):
        offset = offsets[row]
        for i in range(size):
            out[row * size + i] = buf[offset + i] if offset >= 0 else np.uint8(0)


def text_column(buf: Bytes, offsets: Numbers, sizes: Numbers) -> Bytes:
    """The data of a String column: a varint length and the bytes of each row."""
    longest = 10 * len(offsets) + int(sizes.sum())
    out = np.empty(longest, np.uint8)
    return out[: _put_texts(buf, offsets, sizes, out)]


def fixed_column(buf: Bytes, offsets: Numbers, size: int) -> Bytes:
    """The data of a FixedString column."""
    out = np.empty(len(offsets) * size, np.uint8)
    put_fixed(buf, offsets, size, out)
    return out


@dataclass(frozen=True, slots=True)
class Numbered:
    """Texts as numbers into a dictionary."""

    keys: Keys
    index: NDArray[np.uint32]


def number_texts(buf: Bytes, table: Numbers, column: int) -> Numbered:
    """Texts whose offset and size stand in two columns: their numbers and the dictionary."""
    index = np.empty(len(table), np.uint32)
    slot_count = _SLOTS_FIRST
    while True:
        entries = slot_count // 2
        offsets, sizes = np.empty(entries, np.int64), np.empty(entries, np.int64)
        hashes = np.empty(entries, np.uint64)
        count = _number(
            buf, table, column, np.zeros(slot_count, np.int32), offsets, sizes, hashes,
            np.full(entries, -1, np.int32), index,
        )  # fmt: skip
        if count >= 0:
            data = text_column(buf, offsets[:count], sizes[:count]).tobytes()
            return Numbered(Keys(int(count), data), index)
        slot_count *= _GROWTH
