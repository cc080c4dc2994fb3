# SPDX-License-Identifier: Apache-2.0
"""Text of the generated Python, and the values that it refers to by name."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

# Reads of the packet whose slots are known only at run time: computed slots and called functions.
_DYNAMIC = re.compile(r"P\[(?!\d+\])|\(P\)")


@dataclass(slots=True)
class ContainerStore:
    """`target = target & keep | values`: a store into a part of a container.

    Neighbours that store into the same container become one statement.
    """

    target: str
    keep: int
    values: tuple[str, ...]

    @classmethod
    def of(cls, target: str, keep: int, value: str, shift: int) -> "ContainerStore":
        """A store of `value`, which is cut to its width already, at `shift`."""
        if value.isdigit():
            number = int(value) << shift
            return cls(target, keep, (f"{number:#x}",) if number else ())
        return cls(target, keep, (f"({value}) << {shift}" if shift else f"({value})",))

    def follow(self, other: "ContainerStore") -> bool:
        """Take over a later store into the same container, unless it reads the container."""
        if other.target != self.target or _DYNAMIC.search(self.target):
            return False
        if any(self.target in text or _DYNAMIC.search(text) for text in other.values):
            return False
        if ~self.keep & ~other.keep:
            return False  # both write the same bits
        self.keep &= other.keep
        self.values += other.values
        return True

    @property
    def text(self) -> str:
        """The statement."""
        old = (f"{self.target} & {self.keep:#x}",) if self.keep else ()
        return f"{self.target} = {' | '.join((*old, *self.values)) or '0'}"


class Writer:
    """Collects indented lines of Python and hands out unique names.

    `constants` are objects built at translation time (structs, tuples, hash functions); the
    generated module sees them as globals.
    """

    def __init__(self) -> None:
        self.lines: list[tuple[int, str | ContainerStore]] = []
        self.constants: dict[str, object] = {}
        self.depth = 0
        self._counter = 0

    def line(self, text: str | ContainerStore) -> None:
        """Append one line at the present depth."""
        if isinstance(text, ContainerStore) and self.lines:
            depth, last = self.lines[-1]
            if depth == self.depth and isinstance(last, ContainerStore) and last.follow(text):
                return
        self.lines.append((self.depth, text))

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """`header`, then the lines written inside, one level deeper; never an empty body."""
        self.line(header)
        self.depth += 1
        start = len(self.lines)
        yield
        if len(self.lines) == start:
            self.line("pass")
        self.depth -= 1

    def name(self, prefix: str) -> str:
        """A name that nothing else in this program has."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def constant(self, prefix: str, value: object) -> str:
        """The global name of a value, the same name for an equal value where it can be compared."""
        for name, known in self.constants.items():
            if name.startswith(prefix) and type(known) is type(value) and known is value:
                return name
            if isinstance(value, tuple) and isinstance(known, tuple) and known == value:
                return name
        return self.own_constant(prefix, value)

    def own_constant(self, prefix: str, value: object) -> str:
        """A global name for this use alone."""
        name = self.name(prefix)
        self.constants[name] = value
        return name

    def text(self) -> str:
        """The whole module."""
        return "".join(
            "    " * depth + (item if isinstance(item, str) else item.text) + "\n"
            for depth, item in self.lines
        )
