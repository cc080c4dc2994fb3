# SPDX-License-Identifier: Apache-2.0
"""The hash and checksum algorithms of BMv2 v1model, over bytes.

Names are those in the JSON (`calculations[].algo`, `selector.algo`).
"""

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.xxhash import xxh64

HashFunction = Callable[[bytes], int]


@dataclass(frozen=True, slots=True, eq=False)
class PerSwitch:
    """An algorithm with a state of its own in each place of use of each switch."""

    make: Callable[[random.Random], HashFunction]


def _reflect(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def crc_function(
    *,
    width_bits: int,
    polynomial: int,
    initial: int,
    final_xor: int,
    reflected: bool,
    reflected_output: bool | None = None,
) -> HashFunction:
    """A table-driven CRC; `reflected` turns each byte around, and the remainder too.

    `reflected_output` is for CRCs that turn only one of them.
    """
    mask = (1 << width_bits) - 1
    turned = reflected if reflected_output is None else reflected_output
    poly = _reflect(polynomial, width_bits) if reflected else polynomial
    table = []
    for byte in range(256):
        register = byte if reflected else byte << (width_bits - 8)
        for _ in range(8):
            if reflected:
                register = register >> 1 ^ (poly if register & 1 else 0)
            else:
                top = register >> (width_bits - 1)
                register = (register << 1) & mask ^ (poly if top else 0)
        table.append(register)
    start = _reflect(initial, width_bits) if reflected else initial

    def forward(data: bytes) -> int:
        register = start
        for byte in data:
            register = (register << 8) & mask ^ table[register >> (width_bits - 8) ^ byte]
        return (_reflect(register, width_bits) if turned else register) ^ final_xor

    def backward(data: bytes) -> int:
        register = start
        for byte in data:
            register = register >> 8 ^ table[register & 0xFF ^ byte]
        return (register if turned else _reflect(register, width_bits)) ^ final_xor

    return backward if reflected else forward


def csum16(data: bytes) -> int:
    """The Internet checksum (RFC 1071) as a number; an odd last byte counts as high byte."""
    if len(data) & 1:
        data += b"\0"
    total = int.from_bytes(data, "big")
    if total == 0:
        return 0xFFFF
    # 2**16 is 1 modulo 0xFFFF, so the remainder is the ones' complement sum; a sum of
    # all-ones is 0 there.
    return ~(total % 0xFFFF or 0xFFFF) & 0xFFFF


def _xor(width_bytes: int) -> HashFunction:
    def xor(data: bytes) -> int:
        result = 0
        for start in range(0, len(data), width_bytes):
            part = data[start : start + width_bytes].ljust(width_bytes, b"\0")
            result ^= int.from_bytes(part, "big")
        return result

    return xor


def identity(data: bytes) -> int:
    """The first eight bytes as a number."""
    return int.from_bytes(data[:8], "big")


def crc32(data: bytes) -> int:
    """CRC-32 as in Ethernet (zlib)."""
    return zlib.crc32(data)


def toeplitz_function(key: bytes) -> HashFunction:
    """The Toeplitz hash; the key has a multiple of four bytes and is used over and over.

    BMv2 starts with a key of zeros, which makes every hash 0.
    """
    words = [int.from_bytes(key[at : at + 4], "big") for at in range(0, len(key), 4)]

    def toeplitz(data: bytes) -> int:
        result = 0
        for number, at in enumerate(range(0, len(data), 4)):
            word = int.from_bytes(data[at : at + 4].ljust(4, b"\0"), "big")
            window = words[number % len(words)] << 32 | words[(number + 1) % len(words)]
            for bit in range(32):
                if word >> (31 - bit) & 1:
                    result ^= window >> (32 - bit) & 0xFFFFFFFF
        return result

    return toeplitz


def hash_ex(data: bytes) -> int:
    """BMv2's example of a hash: FNV-1a, stirred; bytes count as signed."""
    result = 2166136261
    for byte in data:
        result = (result ^ (byte | 0xFFFFFF00 if byte & 0x80 else byte)) * 16777619 & 0xFFFFFFFF
    result = result + (result << 13) & 0xFFFFFFFF
    result ^= result >> 7
    result = result + (result << 3) & 0xFFFFFFFF
    result ^= result >> 17
    return result + (result << 5) & 0xFFFFFFFF


def _round_robin(_: random.Random) -> HashFunction:
    """Counts up by one per call, whatever the input."""
    count = 0

    def round_robin(data: bytes) -> int:
        nonlocal count
        count += 1
        return count - 1

    return round_robin


def _round_robin_consistent(_: random.Random) -> HashFunction:
    """As round robin, but the same input gives the same number again."""
    known: dict[bytes, int] = {}
    return lambda data: known.setdefault(data, len(known))


def _random(generator: random.Random) -> HashFunction:
    """A number of 64 bits that has nothing to do with the input."""
    return lambda data: generator.getrandbits(64)


crc16 = crc_function(
    width_bits=16, polynomial=0x8005, initial=0, final_xor=0, reflected=True
)  # CRC-16/ARC
crc_ccitt = crc_function(
    width_bits=16, polynomial=0x1021, initial=0xFFFF, final_xor=0, reflected=False
)  # CRC-16/CCITT-FALSE

_ALGORITHMS: dict[str, HashFunction | PerSwitch] = {
    "crc32": crc32,
    "crc32_custom": crc32,
    "crc16": crc16,
    "crc16_custom": crc16,
    "crcCCITT": crc_ccitt,
    "csum16": csum16,
    "cksum16": csum16,
    "identity": identity,
    "xor16": _xor(2),
    "xor32": _xor(4),
    "crc8_custom": crc_function(
        width_bits=8, polynomial=0x07, initial=0, final_xor=0, reflected=False
    ),
    "crc64_custom": crc_function(
        width_bits=64, polynomial=0x1B, initial=0, final_xor=0, reflected=True
    ),
    "toeplitz": toeplitz_function(bytes(4)),
    "xxh64": xxh64,
    "bmv2_hash": xxh64,
    "hash_ex": hash_ex,
    "round_robin": PerSwitch(_round_robin),
    "round_robin_consistent": PerSwitch(_round_robin_consistent),
    "random": PerSwitch(_random),  # P4_16's HashAlgorithm.random, which BMv2 refuses
}

CUSTOM_CRC_BITS = {"crc8_custom": 8, "crc16_custom": 16, "crc32_custom": 32, "crc64_custom": 64}
"""CRCs whose parameters the control plane may change, and their widths."""


def algorithm(name: str, where: str) -> HashFunction | PerSwitch:
    """The function of that JSON name; ProgramError for one that BMv2 or we do not have."""
    try:
        return _ALGORITHMS[name]
    except KeyError:
        raise ProgramError(where, f"unsupported hash algorithm {name}") from None
