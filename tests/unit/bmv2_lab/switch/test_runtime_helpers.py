# SPDX-License-Identifier: Apache-2.0
"""Functions that generated code calls: total, and stacks that move as BMv2's do."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmv2_lab.switch.runtime import (
    copy_blocks,
    divide,
    modulo,
    move_stack,
    only_member,
    same_union,
    sat_cast,
    shift_left,
    shift_right,
    two_comp_mod,
    usat_cast,
)

NUMBERS = st.integers(-(1 << 70), 1 << 70)


@given(NUMBERS, NUMBERS)
def test_arithmetic_never_raises(a: int, b: int) -> None:
    """Division by zero, shifts by negative and huge amounts, widths of zero and less."""
    for function in (divide, modulo, shift_left, shift_right, two_comp_mod, usat_cast, sat_cast):
        assert isinstance(function(a, b), int)
    assert (divide(a, 0), modulo(a, 0)) == (0, 0)


@given(NUMBERS, st.integers(1, 64))
def test_casts_stay_in_their_range(value: int, width: int) -> None:
    """Saturating casts clamp, the modular one agrees in the low bits."""
    half = 1 << (width - 1)
    assert usat_cast(value, width) == min(max(value, 0), 2 * half - 1)
    assert sat_cast(value, width) == min(max(value, -half), half - 1)
    wrapped = two_comp_mod(value, width)
    assert -half <= wrapped < half
    assert (wrapped - value) % (2 * half) == 0


def swapped(stack: list[Any], count: int, *, front: bool) -> list[Any]:
    """The moves of push and pop written as BMv2 does them: by swaps."""
    stack = stack[:]
    if front:
        for index in range(len(stack) - 1, count - 1, -1):
            stack[index], stack[index - count] = stack[index - count], stack[index]
    else:
        for index in range(len(stack) - count):
            stack[index], stack[index + count] = stack[index + count], stack[index]
    return stack


@given(st.integers(1, 6), st.integers(-1, 8), st.booleans(), st.booleans(), st.integers(0, 6))
def test_stack_moves(depth: int, count: int, front: bool, unions: bool, following: int) -> None:
    """All values as after the swaps; new elements invalid, but in a stack of unions."""
    following = min(following, depth)
    packet: list[Any] = [following] + [part for n in range(depth) for part in (1, 100 + n)]
    bases = tuple(1 + 2 * n for n in range(depth))
    move_stack(packet, 0, ((bases, 2),), count, front=front, unions=unions)
    moved = min(max(count, 0), depth)
    expected = swapped([100 + n for n in range(depth)], moved, front=front)
    assert [packet[base + 1] for base in bases] == expected
    fresh = range(moved) if front else range(depth - moved, depth)
    valid = [0 if n in fresh and not unions else 1 for n in range(depth)]
    assert [packet[base] for base in bases] == valid
    assert packet[0] == (min(following + moved, depth) if front else max(following - moved, 0))


def test_copying_an_invalid_header_leaves_the_fields_of_the_target() -> None:
    """As in BMv2: only its validity goes over."""
    packet = [1, 5, 0, 7]
    copy_blocks(packet, ((0, 2, 2),))
    assert packet == [0, 5, 0, 7]
    copy_blocks(packet, ((2, 0, 2),))
    assert packet == [0, 5, 0, 7]
    packet[0] = 1
    copy_blocks(packet, ((2, 0, 2),))
    assert packet == [1, 5, 1, 5]


@pytest.mark.parametrize(
    ("packet", "same"),
    [
        ([1, 5, 0, 0, 1, 5, 0, 0], True),
        ([1, 5, 0, 0, 1, 6, 0, 0], False),
        ([0, 0, 1, 5, 1, 5, 0, 0], False),
        ([0, 0, 0, 0, 0, 0, 0, 0], False),
    ],
)
def test_unions_are_equal_if_the_same_member_is(packet: list[int], same: bool) -> None:
    """Two unions without a valid member are not equal in BMv2."""
    assert same_union(packet, (0, 2), (4, 6), (2, 2)) is same


def test_only_one_member_of_a_union_is_valid() -> None:
    """The others are made invalid."""
    packet = [1, 0, 1, 0, 1]
    only_member(packet, (0, 2, 4), 2)
    assert packet == [0, 0, 1, 0, 0]
