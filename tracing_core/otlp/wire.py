# SPDX-License-Identifier: Apache-2.0
"""Compiled reading of protobuf's wire format: the loads and hashes that other kernels share.

Positions are byte offsets into one uint8 array. Nothing here checks bounds: `wire_check` has
done so for whatever these functions are called on.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from correction.compiled import compiled, inlined

Bytes = NDArray[np.uint8]

WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_FIXED32 = 0, 1, 2, 5
"""Wire types of the protobuf encoding; 3 and 4 are groups, which OTLP has none of."""

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_SEED = np.uint64(0x243F6A8885A308D3)


@inlined
def signed(value: np.integer[Any]) -> int:
    """The same bits as a signed 64-bit integer."""
    return np.int64(value)  # type: ignore[return-value]  # in compiled code there is one kind


@inlined
def load64(buf: Bytes, pos: int) -> np.uint64:
    """Eight bytes as a little-endian integer; the compiler makes one load of it."""
    return (
        np.uint64(buf[pos])
        | np.uint64(buf[pos + 1]) << np.uint64(8)
        | np.uint64(buf[pos + 2]) << np.uint64(16)
        | np.uint64(buf[pos + 3]) << np.uint64(24)
        | np.uint64(buf[pos + 4]) << np.uint64(32)
        | np.uint64(buf[pos + 5]) << np.uint64(40)
        | np.uint64(buf[pos + 6]) << np.uint64(48)
        | np.uint64(buf[pos + 7]) << np.uint64(56)
    )


@inlined
def load32(buf: Bytes, pos: int) -> np.uint32:
    """Four bytes as a little-endian integer."""
    return np.uint32(
        np.uint32(buf[pos])
        | np.uint32(buf[pos + 1]) << np.uint32(8)
        | np.uint32(buf[pos + 2]) << np.uint32(16)
        | np.uint32(buf[pos + 3]) << np.uint32(24)
    )


@inlined
def read_varint(buf: Bytes, pos: int) -> tuple[np.uint64, int]:
    """A varint and the position behind it; bits beyond the 64th are dropped, as protobuf does."""
    first = buf[pos]
    pos += 1
    if first < 128:
        return np.uint64(first), pos
    value = np.uint64(first & 127)
    shift = np.uint64(7)
    while True:
        byte = buf[pos]
        pos += 1
        if shift < np.uint64(64):
            value |= np.uint64(byte & 127) << shift
        shift += np.uint64(7)
        if byte < 128:
            return value, pos


@inlined
def mix64(state: np.uint64, word: np.uint64) -> np.uint64:
    """One step of a multiplicative hash."""
    state = (state ^ word) * _PRIME
    return state ^ (state >> np.uint64(29))


@compiled
def hash_bytes(buf: Bytes, start: int, end: int, seed: np.uint64) -> np.uint64:
    """A 64-bit hash of buf[start:end]; not for adversaries, so equality is always checked."""
    state = seed ^ _SEED ^ np.uint64(end - start)
    pos = start
    while pos + 8 <= end:
        state = mix64(state, load64(buf, pos))
        pos += 8
    if pos < end:
        word = np.uint64(0)
        shift = np.uint64(0)
        while pos < end:
            word |= np.uint64(buf[pos]) << shift
            shift += np.uint64(8)
            pos += 1
        state = mix64(state, word)
    return mix64(state, state >> np.uint64(32))


@compiled
def checksum64(buf: Bytes, seed: np.uint64) -> int:
    """A 64-bit checksum in four lanes: tells a torn or damaged record from a whole one."""
    size = len(buf)
    a = mix64(_SEED ^ np.uint64(size), seed)
    b, c, d = a + np.uint64(1), a + np.uint64(2), a + np.uint64(3)
    pos = 0
    while pos + 32 <= size:
        a = mix64(a, load64(buf, pos))
        b = mix64(b, load64(buf, pos + 8))
        c = mix64(c, load64(buf, pos + 16))
        d = mix64(d, load64(buf, pos + 24))
        pos += 32
    tail = hash_bytes(buf, pos, size, a)
    return signed(mix64(mix64(mix64(tail, b), c), d))
