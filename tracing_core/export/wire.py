# SPDX-License-Identifier: Apache-2.0
"""Protobuf's wire format, writing only: the few field types that a Perfetto trace needs.

https://protobuf.dev/programming-guides/encoding/
"""

import struct

_VARINT, _FIXED64, _LENGTH = 0, 1, 2
_MASK = 2**64 - 1


def varint(value: int) -> bytes:
    """Base 128, low group first; negative numbers as their 64-bit two's complement.

    >>> varint(300).hex(), varint(-1).hex()
    ('ac02', 'ffffffffffffffffff01')
    """
    value &= _MASK
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def varint_field(number: int, value: int) -> bytes:
    """An integer, bool or enum."""
    return varint(number << 3 | _VARINT) + varint(value)


def fixed64_field(number: int, value: int) -> bytes:
    """A fixed64."""
    return varint(number << 3 | _FIXED64) + struct.pack("<Q", value)


def double_field(number: int, value: float) -> bytes:
    """A double."""
    return varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def bytes_field(number: int, value: bytes) -> bytes:
    """Bytes or an embedded message."""
    return varint(number << 3 | _LENGTH) + varint(len(value)) + value


def text_field(number: int, value: str) -> bytes:
    """A string."""
    return bytes_field(number, value.encode("utf-8", "replace"))
