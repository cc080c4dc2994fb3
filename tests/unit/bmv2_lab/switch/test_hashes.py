# SPDX-License-Identifier: Apache-2.0
"""Hash algorithms against their published check values."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.hashes import algorithm, crc_function, csum16

CHECK = b"123456789"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("crc32", 0xCBF43926),
        ("crc16", 0xBB3D),  # CRC-16/ARC
        ("crcCCITT", 0x29B1),  # CRC-16/CCITT-FALSE
        ("crc8_custom", 0xF4),  # CRC-8 (SMBus)
        ("identity", 0x3132333435363738),
        ("xor16", 0x3132 ^ 0x3334 ^ 0x3536 ^ 0x3738 ^ 0x3900),
        ("xor32", 0x31323334 ^ 0x35363738 ^ 0x39000000),
    ],
)
def test_algorithms_give_their_check_values(name: str, value: int) -> None:
    """The catalogued check values of CRC algorithms over "123456789"; xor by hand."""
    assert algorithm(name, "here")(CHECK) == value


@given(st.binary(max_size=80))
def test_table_driven_crc_equals_zlib(data: bytes) -> None:
    """The generic CRC with Ethernet's parameters is zlib's crc32."""
    crc = crc_function(
        width_bits=32,
        polynomial=0x04C11DB7,
        initial=0xFFFFFFFF,
        final_xor=0xFFFFFFFF,
        reflected=True,
    )
    assert crc(data) == zlib.crc32(data)


def test_internet_checksum_of_rfc_1071() -> None:
    """RFC 1071 section 3: the words 0001 f203 f4f5 f6f7 sum to ddf2."""
    assert csum16(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2


@given(st.binary(max_size=60))
def test_internet_checksum_by_definition(data: bytes) -> None:
    """The complement of the ones' complement sum of 16-bit words, zero padded."""
    padded = data + b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(padded[i : i + 2], "big") for i in range(0, len(padded), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert csum16(data) == ~total & 0xFFFF


def test_round_robin_counts_and_consistent_remembers() -> None:
    """Each use counts for itself; the consistent one repeats its answer for a known input."""
    first, second = algorithm("round_robin", "a"), algorithm("round_robin", "b")
    assert [first(b""), first(b""), second(b"")] == [0, 1, 0]
    consistent = algorithm("round_robin_consistent", "c")
    assert [consistent(b"x"), consistent(b"y"), consistent(b"x")] == [0, 1, 0]


def test_unknown_algorithm_names_the_place() -> None:
    """BMv2 refuses such a program too."""
    with pytest.raises(ProgramError, match=r"calculations\[c\].*sha1"):
        algorithm("sha1", "calculations[c]")
