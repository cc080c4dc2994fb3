# SPDX-License-Identifier: Apache-2.0
"""XXH64, seed 0, written from the algorithm's specification (xxHash, revision 0.1.1)."""

_MASK = (1 << 64) - 1
_PRIME1 = 0x9E3779B185EBCA87
_PRIME2 = 0xC2B2AE3D27D4EB4F
_PRIME3 = 0x165667B19E3779F9
_PRIME4 = 0x85EBCA77C2B2AE63
_PRIME5 = 0x27D4EB2F165667C5


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _round(accumulator: int, lane: int) -> int:
    return _rotate(accumulator + lane * _PRIME2 & _MASK, 31) * _PRIME1 & _MASK


def _stripes(data: bytes) -> int:
    """The accumulators over whole stripes of 32 bytes, merged."""
    lanes = [_PRIME1 + _PRIME2 & _MASK, _PRIME2, 0, -_PRIME1 & _MASK]
    for at in range(0, len(data) - 31, 32):
        for number in range(4):
            begin = at + 8 * number
            lane = int.from_bytes(data[begin : begin + 8], "little")
            lanes[number] = _round(lanes[number], lane)
    result = sum(_rotate(lanes[n], bits) for n, bits in enumerate((1, 7, 12, 18))) & _MASK
    for lane in lanes:
        result = ((result ^ _round(0, lane)) * _PRIME1 + _PRIME4) & _MASK
    return result


def xxh64(data: bytes) -> int:
    """The 64-bit hash as a number.

    >>> hex(xxh64(b""))
    '0xef46db3751d8e999'
    """
    result = (_stripes(data) if len(data) >= 32 else _PRIME5) + len(data) & _MASK
    at = len(data) // 32 * 32
    while at + 8 <= len(data):
        result ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        result = (_rotate(result, 27) * _PRIME1 + _PRIME4) & _MASK
        at += 8
    if at + 4 <= len(data):
        result ^= int.from_bytes(data[at : at + 4], "little") * _PRIME1 & _MASK
        result = (_rotate(result, 23) * _PRIME2 + _PRIME3) & _MASK
        at += 4
    for byte in data[at:]:
        result = _rotate(result ^ byte * _PRIME5 & _MASK, 11) * _PRIME1 & _MASK
    result ^= result >> 33
    result = result * _PRIME2 & _MASK
    result ^= result >> 29
    result = result * _PRIME3 & _MASK
    return result ^ result >> 32
