# SPDX-License-Identifier: Apache-2.0
"""The hash and checksum algorithms of BMv2 v1model, over bytes.

Names are those in the JSON (`calculations[].algo`, `selector.algo`).
"""

import zlib
from collections.abc import Callable

from bmv2_lab.switch.errors import ProgramError

HashFunction = Callable[[bytes], int]


def _reflect(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def crc_function(
    *, width_bits: int, polynomial: int, initial: int, final_xor: int, reflected: bool
) -> HashFunction:
    """A table-driven CRC; `reflected` means that input and remainder both are."""
    mask = (1 << width_bits) - 1
    table = []
    for byte in range(256):
        if reflected:
            register = byte
            poly = _reflect(polynomial, width_bits)
            for _ in range(8):
                register = register >> 1 ^ (poly if register & 1 else 0)
        else:
            register = byte << (width_bits - 8)
            for _ in range(8):
                top = register >> (width_bits - 1)
                register = (register << 1) & mask ^ (polynomial if top else 0)
        table.append(register)
    start = _reflect(initial, width_bits) if reflected else initial

    def forward(data: bytes) -> int:
        register = start
        for byte in data:
            register = (register << 8) & mask ^ table[register >> (width_bits - 8) ^ byte]
        return register ^ final_xor

    def backward(data: bytes) -> int:
        register = start
        for byte in data:
            register = register >> 8 ^ table[register & 0xFF ^ byte]
        return register ^ final_xor

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


class RoundRobin:
    """Counts up by one per call, whatever the input; one counter per place of use."""

    def __init__(self) -> None:
        self.next = 0

    def __call__(self, data: bytes) -> int:
        self.next += 1
        return self.next - 1


class RoundRobinConsistent:
    """As RoundRobin, but the same input gives the same number again."""

    def __init__(self) -> None:
        self.known: dict[bytes, int] = {}

    def __call__(self, data: bytes) -> int:
        return self.known.setdefault(data, len(self.known))


crc16 = crc_function(
    width_bits=16, polynomial=0x8005, initial=0, final_xor=0, reflected=True
)  # CRC-16/ARC
crc_ccitt = crc_function(
    width_bits=16, polynomial=0x1021, initial=0xFFFF, final_xor=0, reflected=False
)  # CRC-16/CCITT-FALSE

_ALGORITHMS: dict[str, HashFunction] = {
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
}


def algorithm(name: str, where: str) -> HashFunction:
    """The function of that JSON name; ProgramError for one that BMv2 or we do not have."""
    if name == "round_robin":
        return RoundRobin()
    if name == "round_robin_consistent":
        return RoundRobinConsistent()
    # p4c writes `random` for HashAlgorithm.random, which BMv2 does not register either.
    try:
        return _ALGORITHMS[name]
    except KeyError:
        raise ProgramError(where, f"unsupported hash algorithm {name}") from None
