# SPDX-License-Identifier: Apache-2.0
"""Numbers of P4Runtime messages: byte strings (P4Runtime 8.4) and counters."""

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError


def decode_value(data: bytes, bits: int, what: str) -> int:
    """The number in a byte string; OUT_OF_RANGE if it needs more than `bits` bits."""
    if not data:
        raise StateError(errors.INVALID_ARGUMENT, f"{what}: empty value")
    value = int.from_bytes(data, "big")
    if bits and value >> bits:
        raise StateError(errors.OUT_OF_RANGE, f"{what}: value does not fit into {bits} bits")
    return value


def encode_value(value: int) -> bytes:
    """The shortest byte string of a number, at least one byte (P4Runtime 8.4)."""
    return value.to_bytes(max((value.bit_length() + 7) // 8, 1), "big")


def encode_signed(value: int, bits: int) -> bytes:
    """The shortest two's complement byte string of an `int<bits>` given by its bits."""
    if value >> (bits - 1) & 1:
        value -= 1 << bits
    length = 1 + (value if value >= 0 else ~value).bit_length() // 8
    return value.to_bytes(length, "big", signed=True)


def encode_count(value: int) -> int:
    """A counter as int64: BMv2 counts to 2^64."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
