# SPDX-License-Identifier: Apache-2.0
"""Hash algorithms against their published check values."""

import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.hashes import (
    HashFunction,
    PerSwitch,
    algorithm,
    crc_function,
    csum16,
    toeplitz_function,
)
from bmv2_lab.switch.xxhash import xxh64

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


def own(name: str, seed: int = 0) -> HashFunction:
    """The algorithm with a state of its own."""
    found = algorithm(name, "test")
    assert isinstance(found, PerSwitch)
    return found.make(random.Random(seed))


def test_round_robin_counts_and_consistent_remembers() -> None:
    """Each use counts for itself; the consistent one repeats its answer for a known input."""
    first, second = own("round_robin"), own("round_robin")
    assert [first(b""), first(b""), second(b"")] == [0, 1, 0]
    consistent = own("round_robin_consistent")
    assert [consistent(b"x"), consistent(b"y"), consistent(b"x")] == [0, 1, 0]


def test_random_comes_from_the_seed() -> None:
    """P4's HashAlgorithm.random: no function of the input, but the same run again."""
    first, again, other = own("random", 1), own("random", 1), own("random", 2)
    numbers = [first(b"x") for _ in range(4)]
    assert numbers == [again(b"y") for _ in range(4)]
    assert numbers != [other(b"x") for _ in range(4)]
    assert len(set(numbers)) == 4


@pytest.mark.parametrize(
    ("polynomial", "initial", "final_xor", "data_reflected", "output_reflected", "check"),
    [
        (0x1021, 0xFFFF, 0x0000, False, False, 0x29B1),  # CRC-16/CCITT-FALSE
        (0x1021, 0x0000, 0x0000, True, True, 0x2189),  # CRC-16/KERMIT
        (0x3D65, 0x0000, 0xFFFF, True, True, 0xEA82),  # CRC-16/DNP
        (0x1021, 0x0000, 0x0000, False, False, 0x31C3),  # CRC-16/XMODEM
    ],
)
def test_crc_parameters_of_the_catalogue(
    polynomial: int,
    initial: int,
    final_xor: int,
    data_reflected: bool,
    output_reflected: bool,
    check: int,
) -> None:
    """The check values over "123456789" of the catalogue of parametrised CRC algorithms."""
    crc = crc_function(
        width_bits=16,
        polynomial=polynomial,
        initial=initial,
        final_xor=final_xor,
        reflected=data_reflected,
        reflected_output=output_reflected,
    )
    assert crc(b"123456789") == check


@given(st.binary(max_size=40), st.booleans())
def test_crc_with_one_reflection_is_the_other_turned_around(data: bytes, reflected: bool) -> None:
    """CRC-12/UMTS is of this kind: bytes as they are, the remainder turned around."""
    both, one = (
        crc_function(
            width_bits=16,
            polynomial=0x8005,
            initial=0x1234,
            final_xor=0,
            reflected=reflected,
            reflected_output=output,
        )
        for output in (reflected, not reflected)
    )
    assert int(f"{both(data):016b}"[::-1], 2) == one(data)


MICROSOFT_KEY = bytes.fromhex(
    "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa"
)


@pytest.mark.parametrize(
    ("source", "destination", "value"),
    [
        ("420995bb0aea", "a18e645006e6", 0x51CCC178),
        ("c75c6f023796", "41458c531283", 0xC626B0EA),
    ],
)
def test_toeplitz_as_in_receive_side_scaling(source: str, destination: str, value: int) -> None:
    """Microsoft's verification suite: addresses, then ports (TCP over IPv4)."""
    a, b = bytes.fromhex(source), bytes.fromhex(destination)
    assert toeplitz_function(MICROSOFT_KEY)(a[:4] + b[:4] + a[4:] + b[4:]) == value


def test_toeplitz_starts_with_a_key_of_zeros() -> None:
    """As in BMv2: every hash is 0 until a key is set."""
    found = algorithm("toeplitz", "test")
    assert callable(found)
    assert found(b"abcdefg") == 0


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_xxh64_of_known_texts(data: bytes, value: int) -> None:
    """Published hashes with seed 0: empty, bytes, and one stripe of 32 with a tail."""
    assert xxh64(data) == value


def test_unknown_algorithm_names_the_place() -> None:
    """BMv2 refuses such a program too."""
    with pytest.raises(ProgramError, match=r"calculations\[c\].*sha1"):
        algorithm("sha1", "calculations[c]")
