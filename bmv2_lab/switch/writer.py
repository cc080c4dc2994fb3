# SPDX-License-Identifier: Apache-2.0
"""Text of the generated Python, and the values that it refers to by name."""

from collections.abc import Iterator
from contextlib import contextmanager

from bmv2_lab.switch.known_values import KnownValues
from bmv2_lab.switch.stores import ContainerStore, HeaderFill, Line


class Writer:
    """Collects indented lines of Python and hands out unique names.

    `constants` are objects built at translation time (structs, tuples, hash functions); the
    generated module sees them as globals.
    """

    def __init__(self) -> None:
        self.lines: list[tuple[int, Line]] = []
        self.constants: dict[str, object] = {}
        self.depth = 0
        self._counter = 0
        self._known = KnownValues()

    def line(self, line: Line) -> None:
        """Append one line at the present depth, or let the line before take it over."""
        self._known.at(self.depth)
        if isinstance(line, str):
            line = self._known.use(line)
        elif isinstance(line, ContainerStore):
            line.values = tuple(map(self._known.use, line.values))
        self._known.written(line)
        if not isinstance(line, str) and self.lines:
            depth, last = self.lines[-1]
            if depth == self.depth and self._joined(last, line):
                return
        self.lines.append((self.depth, line))
        if isinstance(line, ContainerStore):
            self._known.learn(line)

    @staticmethod
    def _joined(last: Line, line: Line) -> bool:
        if isinstance(last, HeaderFill):
            return not isinstance(line, str) and last.follow(line)
        if isinstance(last, ContainerStore):
            return isinstance(line, ContainerStore) and last.follow(line)
        return False

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
            "    " * depth + text + "\n"
            for depth, line in self.lines
            for text in ([line] if isinstance(line, str) else line.render())
        )
