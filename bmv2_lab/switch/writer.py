# SPDX-License-Identifier: Apache-2.0
"""Text of the generated Python, and the values that it refers to by name."""

from collections.abc import Iterator
from contextlib import contextmanager


class Writer:
    """Collects indented lines of Python and hands out unique names.

    `constants` are objects built at translation time (structs, tuples, hash functions); the
    generated module sees them as globals.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, object] = {}
        self.depth = 0
        self._counter = 0

    def line(self, text: str) -> None:
        """Append one line at the present depth."""
        self.lines.append("    " * self.depth + text)

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
        name = self.name(prefix)
        self.constants[name] = value
        return name

    def text(self) -> str:
        """The whole module."""
        return "\n".join(self.lines) + "\n"
