# SPDX-License-Identifier: Apache-2.0
"""What generated code calls: arithmetic that plain Python operators do not have, header moves.

All of it is total: no value of a field makes it raise. Where BMv2 aborts, the result is zero.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

# Shifting further than this gives zero in every field that P4 can declare.
SHIFT_LIMIT_BITS = 1 << 14

Packet = list[Any]
"""A packet as generated code sees it; `layout.py` says what is in which slot."""

Blocks = tuple[tuple[tuple[int, ...], int], ...]
"""Per kind of header in a stack: first slots of its elements in order, and slots of a block."""


def shift_left(value: int, amount: int) -> int:
    """`value << amount`; a huge or negative amount gives 0."""
    return value << amount if 0 <= amount < SHIFT_LIMIT_BITS else 0


def shift_right(value: int, amount: int) -> int:
    """`value >> amount`, rounding down; 0 for a negative amount."""
    return value >> amount if amount >= 0 else 0


def divide(value: int, divisor: int) -> int:
    """The quotient, rounded down; 0 for a division by 0."""
    return value // divisor if divisor else 0


def modulo(value: int, divisor: int) -> int:
    """The remainder; 0 for a division by 0."""
    return value % divisor if divisor else 0


def _width(bits: int) -> int:
    return min(max(bits, 1), SHIFT_LIMIT_BITS)


def two_comp_mod(value: int, width: int) -> int:
    """The value of the low `width` bits in two's complement.

    >>> two_comp_mod(257, 8), two_comp_mod(-129, 8)
    (1, 127)
    """
    half = 1 << (_width(width) - 1)
    return ((value + half) & ((half << 1) - 1)) - half


def usat_cast(value: int, width: int) -> int:
    """Clamp to 0 .. 2**width - 1."""
    return min(max(value, 0), (1 << _width(width)) - 1)


def sat_cast(value: int, width: int) -> int:
    """Clamp to the range of a signed integer of `width` bits."""
    half = 1 << (_width(width) - 1)
    return min(max(value, -half), half - 1)


# Headers as blocks of slots in the packet, validity first


def copy_blocks(packet: Packet, rows: Sequence[tuple[int, int, int]]) -> None:
    """Assign headers: (target, source, slots) rows. An invalid source only invalidates."""
    for target, source, size in rows:
        if packet[source]:
            packet[target : target + size] = packet[source : source + size]
        else:
            packet[target] = 0


def copy_union(
    packet: Packet, targets: Sequence[int], sources: Sequence[int], sizes: Sequence[int]
) -> None:
    """Assign a header union whose element is known only now."""
    copy_blocks(packet, tuple(zip(targets, sources, sizes, strict=True)))


def same_union(
    packet: Packet, left: Sequence[int], right: Sequence[int], sizes: Sequence[int]
) -> bool:
    """True if the same member is valid on both sides, with the same fields."""
    return any(
        packet[a] and packet[b] and packet[a : a + size] == packet[b : b + size]
        for a, b, size in zip(left, right, sizes, strict=True)
    )


def only_member(packet: Packet, members: Sequence[int], valid: int) -> None:
    """One member of a union has become valid: the others are not any more."""
    for base in members:
        if base != valid:
            packet[base] = 0


@lru_cache(maxsize=256)
def _moved(depth: int, count: int, *, front: bool) -> tuple[int, ...]:
    """Which old element each element holds after a push or pop: BMv2 swaps its way through."""
    order = list(range(depth))
    places = range(depth - 1, count - 1, -1) if front else range(depth - count)
    for place in places:
        other = place - count if front else place + count
        order[place], order[other] = order[other], order[place]
    return tuple(order)


def move_stack(
    packet: Packet, next_slot: int, blocks: Blocks, count: int, *, front: bool, unions: bool
) -> None:
    """push_front or pop_front of P4_16: the whole stack moves, new elements are invalid.

    As in BMv2, the elements of a stack of unions go round instead: one that is pushed or popped
    out comes in at the other end, as valid as it was.
    """
    depth = len(blocks[0][0])
    count = min(max(count, 0), depth)
    if count == 0:
        return
    order = _moved(depth, count, front=front)
    fresh = range(count) if front else range(depth - count, depth)
    for bases, size in blocks:
        old = [packet[base : base + size] for base in bases]
        for base, origin in zip(bases, order, strict=True):
            packet[base : base + size] = old[origin]
        if not unions:
            for place in fresh:
                packet[bases[place]] = 0
    following = packet[next_slot]
    packet[next_slot] = min(following + count, depth) if front else max(following - count, 0)


RUNTIME: dict[str, object] = {
    function.__name__: function
    for function in (
        shift_left,
        shift_right,
        divide,
        modulo,
        two_comp_mod,
        usat_cast,
        sat_cast,
        copy_blocks,
        copy_union,
        same_union,
        only_member,
        move_stack,
    )
}
