# SPDX-License-Identifier: Apache-2.0
"""References to headers, unions and stacks in the JSON, as slots or source that computes slots.

An index that is known only when a packet runs may lie outside of its stack, where BMv2 aborts. It
then leads to a block of its own that no deparser sends.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bmv2_lab.switch.containers import JsonObject
from bmv2_lab.switch.errors import ProgramError
from bmv2_lab.switch.layout import (
    HeaderInstance,
    PhvLayout,
    StackInstance,
    UnionStackInstance,
)

IndexSource = Callable[[JsonObject], tuple[str, int | None]]
"""Translates an index: source, and its width in bits where known."""


def parse_hex(text: str) -> int:
    """A JSON hexstr, which may have a sign.

    >>> parse_hex("0x1f"), parse_hex("-0x01")
    (31, -1)
    """
    return int(str(text), 16)


def slot(base: int | str, offset: int) -> str:
    """Source of a slot: `base` is a number, or source that computes the first slot of a block."""
    if isinstance(base, int):
        return f"P[{base + offset}]"
    return f"P[{base} + {offset}]" if offset else f"P[{base}]"


def end_of(base: int | str, size: int) -> int | str:
    """The slot behind a block."""
    return base + size if isinstance(base, int) else f"{base} + {size}"


def unwrap(item: JsonObject) -> JsonObject:
    """Strip the `expression` wrappers until an operation or a typed value is left."""
    while "op" not in item and item.get("type") == "expression":
        item = item["value"]
    return item


@dataclass(frozen=True, slots=True)
class HeaderPlace:
    """One header: first slot, an instance of its type, and the union that it belongs to.

    `union` holds the first slots of the other members, or is source that computes those of all.
    """

    base: int | str
    header: HeaderInstance
    union: tuple[int, ...] | str = ()


@dataclass(frozen=True, slots=True)
class UnionPlace:
    """One header union: the first slots of its members or source of that tuple, and examples."""

    bases: tuple[int, ...] | str
    members: tuple[HeaderInstance, ...]


class HeaderRefs:
    """Resolves the header expressions of one program."""

    def __init__(self, layout: PhvLayout, fail: Callable[[str], ProgramError]) -> None:
        self.layout = layout
        self.fail = fail

    def stack(self, name: str) -> StackInstance:
        """The header stack of that name."""
        try:
            return self.layout.stacks[name]
        except KeyError:
            raise self.fail(f"unknown header stack {name}") from None

    def union_stack(self, name: str) -> UnionStackInstance:
        """The stack of header unions of that name."""
        try:
            return self.layout.union_stacks[name]
        except KeyError:
            raise self.fail(f"unknown header union stack {name}") from None

    def place_of(self, header: HeaderInstance) -> HeaderPlace:
        """The place of a header that is known by name."""
        others = tuple(self.layout.headers[name].base for name in header.siblings)
        return HeaderPlace(header.base, header, others)

    def element(self, stack: StackInstance, index: JsonObject, value: IndexSource) -> HeaderPlace:
        """The element of a stack at an index."""
        item = unwrap(index)
        if item.get("type") == "hexstr":
            number = parse_hex(item["value"])
            if not 0 <= number < stack.depth:
                raise self.fail(f"index {number} is outside of stack {stack.name}")
            return self.place_of(self.layout.headers[stack.elements[number]])
        example = self.layout.headers[stack.elements[0]]
        text, bits = value(item)
        width = stack.type.slots
        if bits is not None and 1 << bits <= stack.depth:
            return HeaderPlace(f"({stack.base} + {width} * {text})", example)
        void = self.layout.void(stack.type)
        inside = f"0 <= (q := {text}) < {stack.depth}"
        return HeaderPlace(f"({stack.base} + {width} * q if {inside} else {void})", example)

    def last(self, stack: StackInstance) -> HeaderPlace:
        """The element that was extracted last; a block of its own while there is none."""
        void = self.layout.void(stack.type)
        width = stack.type.slots
        text = f"({stack.base - width} + {width} * q if (q := P[{stack.next_slot}]) else {void})"
        return HeaderPlace(text, self.layout.headers[stack.elements[0]])

    def named_union(self, name: str) -> UnionPlace:
        """A header union by name."""
        try:
            members = tuple(self.layout.headers[member] for member in self.layout.unions[name])
        except KeyError:
            raise self.fail(f"unknown header union {name}") from None
        return UnionPlace(tuple(member.base for member in members), members)

    def union(self, item: JsonObject, value: IndexSource) -> UnionPlace:
        """The union that an expression means."""
        item = unwrap(item)
        # p4c 1.2.4 calls an element of a union stack a header here.
        by_name = item.get("type") == "header" and str(item["value"]) in self.layout.unions
        if item.get("type") == "header_union" or by_name:
            return self.named_union(str(item["value"]))
        if item.get("op") != "dereference_union_stack":
            what = item.get("op") or item.get("type")
            raise self.fail(f"unsupported header union expression {what}")
        stack = self.union_stack(str(unwrap(item["left"])["value"]))
        depth = len(stack.elements)
        index = unwrap(item["right"])
        if index.get("type") == "hexstr":
            number = parse_hex(index["value"])
            if not 0 <= number < depth:
                raise self.fail(f"index {number} is outside of stack {stack.name}")
            members = tuple(self.layout.headers[name] for name in stack.elements[number])
            return UnionPlace(tuple(member.base for member in members), members)
        members = tuple(self.layout.headers[name] for name in stack.elements[0])
        rows = (*self.bases(stack), tuple(self.layout.void(member.type) for member in members))
        text, _ = value(index)
        return UnionPlace(f"{rows!r}[q if 0 <= (q := {text}) < {depth} else {depth}]", members)

    def bases(self, stack: UnionStackInstance) -> tuple[tuple[int, ...], ...]:
        """First slots of the members of each element of a union stack."""
        return tuple(
            tuple(self.layout.headers[name].base for name in element) for element in stack.elements
        )

    def member(self, union: UnionPlace, number: int) -> HeaderPlace:
        """One member of a union."""
        if not 0 <= number < len(union.members):
            raise self.fail(f"a header union has no member {number}")
        header = union.members[number]
        if isinstance(union.bases, str):
            return HeaderPlace(f"{union.bases}[{number}]", header, union.bases)
        return self.place_of(header)
