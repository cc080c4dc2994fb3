# SPDX-License-Identifier: Apache-2.0
"""Stores into the packet as lines that neighbours can join, so that generated code is short.

A field of a few bits is a part of a machine word: fields of one word that are set one after the
other become one statement. A header that is made valid and then filled becomes one slice
assignment.
"""

import re
from dataclasses import dataclass, field

# Reads of the packet whose slots are known only at run time: computed slots and called functions.
_DYNAMIC = re.compile(r"P\[(?!\d+\])|\(P\)|\(P,")
_SLOTS = re.compile(r"P\[(\d+)\]")


def _reads(text: str, first: int, last: int) -> bool:
    """True if source may read one of the slots first..last."""
    if _DYNAMIC.search(text):
        return True
    return any(first <= int(number) <= last for number in _SLOTS.findall(text))


@dataclass(slots=True)
class ContainerStore:
    """A store into bits of a container: `target = target & keep | values`.

    `full` covers the whole container, `written` the bits that change; `number` is the slot if it
    is known.
    """

    target: str
    number: int | None
    full: int
    written: int
    constant: int = 0
    values: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, target: str, number: int | None, full: int, bits: int, shift: int, value: str
    ) -> "ContainerStore":
        """A store of `value`, which is cut to its width already, at `shift`."""
        written = ((1 << bits) - 1) << shift
        if value.isdigit():
            return cls(target, number, full, written, int(value) << shift)
        text = f"({value}) << {shift}" if shift else value
        return cls(target, number, full, written, 0, (text,))

    def follow(self, other: "ContainerStore") -> bool:
        """Take over a later store into other bits of the same container, unless it reads them."""
        if self.number is None or other.number != self.number or self.written & other.written:
            return False
        if any(_reads(text, self.number, self.number) for text in other.values):
            return False
        self.written |= other.written
        self.constant |= other.constant
        self.values += other.values
        return True

    @property
    def value(self) -> str:
        """What the container holds afterwards."""
        terms = list(self.values)
        keep = self.full & ~self.written
        if keep:
            terms.insert(0, f"{self.target} & {keep:#x}")
        if self.constant or not terms:
            terms.append(f"{self.constant:#x}" if self.constant > 9 else f"{self.constant}")
        if len(terms) > 1:  # a shift binds tighter than `|`, anything else stands in brackets
            terms = [_bracketed(term) for term in terms]
        return " | ".join(terms)

    def render(self) -> list[str]:
        """The statement."""
        return [f"{self.target} = {self.value}"]


def _bracketed(term: str) -> str:
    """The term, in brackets if an operator in it binds less tightly than `|`."""
    if re.fullmatch(r"[\w\[\]]+|P\[\d+\] & \w+", term):
        return term
    if in_brackets(term):
        return term
    return f"({term})"


def in_brackets(text: str) -> bool:
    """True if one pair of brackets holds all of an expression."""
    depth = 0
    for position, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return sign == ")" and position == len(text) - 1
    return False


@dataclass(slots=True)
class HeaderFill:
    """setValid of a header at a known place, and the stores into it that follow at once."""

    base: int
    fresh: str  # name of the tuple that an empty valid header holds
    slots: int
    length: int
    length_slot: int
    invalidated: tuple[int, ...] = ()  # other members of its union
    stores: dict[int, ContainerStore] = field(default_factory=dict)

    def follow(self, other: "ContainerStore | HeaderFill") -> bool:
        """Take over a store into the header, unless it reads the header."""
        last = self.base + self.slots - 1
        if isinstance(other, HeaderFill):
            return other.base == self.base and not self.stores  # made valid twice
        number = other.number
        if number is None or not self.base < number <= last:
            return False
        if any(_reads(text, self.base, last) for text in other.values):
            return False
        known = self.stores.get(number)
        if known is None:
            self.stores[number] = other
            return True
        return known.follow(other)

    def render(self) -> list[str]:
        """The statements: one slice where all of the header is set."""
        grow = f"    P[{self.length_slot}] += {self.length}"
        others = [f"    P[{other}] = 0" for other in self.invalidated]
        end = self.base + self.slots
        complete = len(self.stores) == self.slots - 1 and all(
            store.written == store.full for store in self.stores.values()
        )
        opening = f"if not P[{self.base}]:"
        if complete and self.slots > 1:
            values = ", ".join(self.stores[n].value for n in range(self.base + 1, end))
            return [opening, grow, *others, f"P[{self.base}:{end}] = (1, {values})"]
        made = f"    P[{self.base}:{end}] = {self.fresh}"
        later = [line for store in self.stores.values() for line in store.render()]
        return [opening, made, grow, *others, *later]


Line = str | ContainerStore | HeaderFill
