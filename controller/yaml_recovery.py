# SPDX-License-Identifier: Apache-2.0
"""What can still be read of a YAML text with errors, so that all of its errors are told at once.

A fabric file is a mapping of sections, most of them lists of items. A section that does not parse
by itself is put together from those of its items that do.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from controller.yaml_nodes import (
    Node,
    NotPlain,
    YamlProblem,
    compose,
    compose_fast,
    line_of,
    scalar_value,
)

_SECTION = re.compile(r"[^\s#\-\]}][^\n]*:(?:\s|\Z)")
_ITEM = re.compile(r"( *)- ")
_UNDEFINED = re.compile(r"undefined alias '?([^\s';]+)")
_TAG = "tag:yaml.org,2002:"


@dataclass(slots=True, kw_only=True)
class ReadableParts:
    """The readable parts as one mapping."""

    root: Node
    problems: list[YamlProblem] = field(default_factory=list)
    broken: list[tuple[str | int, ...]] = field(default_factory=list)
    """Paths of sections and items that do not parse; there they are empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Consecutive lines of the text."""

    first: int
    """Number of its first line, from 0."""
    lines: Sequence[str]

    @property
    def text(self) -> str:
        """The piece with as many empty lines before it as it has lines above."""
        return "\n" * self.first + "\n".join(self.lines) + "\n"

    @property
    def last_line(self) -> int:
        """Number (from 1) of its last line with anything but a comment."""
        last = max(
            (n for n, line in enumerate(self.lines) if line.strip() and line.lstrip()[0] != "#"),
            default=0,
        )
        return self.first + last + 1


def readable_parts(text: str) -> ReadableParts | None:
    """The sections and items that parse by themselves; None where no section is to blame."""
    whole = _Piece(first=0, lines=text.split("\n"))
    pairs: list[tuple[Node, Node]] = []
    parts = ReadableParts(root=_mapping(pairs))
    for piece in _split(whole, _SECTION):
        whole_section = compose_fast(piece.text)
        section = None if whole_section is not None else _items(piece, parts, text)
        if section is not None:
            pairs.append(section)
            continue
        try:
            pairs += _pairs(whole_section or compose(piece.text))
        except YamlProblem as problem:
            if not _is_section(piece):
                return None
            if not _is_defined_elsewhere(problem, text):
                parts.problems.append(_within(problem, piece))
            section = _head(piece)
            parts.broken.append((_name(section[0]),))
            pairs.append(section)
    return parts if parts.problems else None


def _items(piece: _Piece, parts: ReadableParts, text: str) -> tuple[Node, Node] | None:
    """A section with those of its items that parse; None if it is no list, or all of them do."""
    rows = [number for number, line in enumerate(piece.lines) if _ITEM.match(line)]
    if (
        not rows
        or not _is_section(piece)
        or any(line.strip() and line.lstrip()[0] != "#" for line in piece.lines[1 : rows[0]])
    ):
        return None
    indent = _ITEM.match(piece.lines[rows[0]])
    assert indent is not None
    try:
        key, head = _head(piece)
    except YamlProblem:
        return None
    if head.id != "scalar" or head.value:
        return None
    body = _Piece(first=piece.first + rows[0], lines=piece.lines[rows[0] :])
    name = _name(key)
    pieces = list(_split(body, re.compile(re.escape(indent.group(1)) + "- ")))
    items: list[Node] = []
    problems: list[YamlProblem] = []
    lost: list[tuple[str | int, ...]] = []
    for node in _read_items(pieces):
        if isinstance(node, _Failed):
            lost.append((name, len(items)))
            if not _is_defined_elsewhere(node.problem, text):
                problems.append(_within(node.problem, node.piece))
            items.append(_empty(node.piece.first))
        else:
            items.append(node)
    parts.problems += problems
    parts.broken += lost
    sequence: Node = SequenceNode(_TAG + "seq", items, start_mark=key.start_mark)
    return (key, sequence) if lost else None


@dataclass(frozen=True, slots=True)
class _Failed:
    """An item that does not parse."""

    piece: _Piece
    problem: YamlProblem


def _read_items(pieces: Sequence[_Piece]) -> Iterator["Node | _Failed"]:
    """An answer per item; many are read together, and by halves where one of them is wrong."""
    first = pieces[0].first
    lines = [line for piece in pieces for line in piece.lines]
    together = _Piece(first=first, lines=lines)
    node = compose_fast(together.text)
    if node is not None and node.id == "sequence" and len(node.value) == len(pieces):
        yield from node.value
    elif len(pieces) > 1:
        middle = len(pieces) // 2
        yield from _read_items(pieces[:middle])
        yield from _read_items(pieces[middle:])
    else:
        try:
            alone = compose(together.text)
        except YamlProblem as problem:
            yield _Failed(together, problem)
            return
        if alone is None or alone.id != "sequence" or len(alone.value) != 1:
            message = "expected one item of a list"
            yield _Failed(together, YamlProblem(line=first + 1, key="(yaml)", message=message))
        else:
            yield alone.value[0]


def _is_defined_elsewhere(problem: YamlProblem, text: str) -> bool:
    """The piece is sound but for the name of an anchor in another one."""
    found = _UNDEFINED.search(problem.message)
    return found is not None and f"&{found.group(1)}" in text


def _split(piece: _Piece, start: re.Pattern[str]) -> Iterator[_Piece]:
    """The piece in parts that begin at lines of this form; what stands before the first is one."""
    rows = [number for number, line in enumerate(piece.lines) if start.match(line)]
    bounds = [*([0] if not rows or rows[0] else []), *rows, len(piece.lines)]
    for begin, end in pairwise(bounds):
        part = _Piece(first=piece.first + begin, lines=piece.lines[begin:end])
        if any(line.strip() and line.lstrip()[0] != "#" for line in part.lines):
            yield part


def _is_section(piece: _Piece) -> bool:
    try:
        _head(piece)
    except YamlProblem:
        return False
    return True


def _head(piece: _Piece) -> tuple[Node, Node]:
    """The section's key, with an empty value or what stands on the same line."""
    line = piece.lines[0]
    for text in (line, line.partition(":")[0] + ":"):
        try:
            pairs = _pairs(compose("\n" * piece.first + text + "\n"))
        except YamlProblem:
            continue
        if len(pairs) == 1 and pairs[0][0].id == "scalar":
            return pairs[0]
    raise YamlProblem(line=piece.first + 1, key="(yaml)", message="expected a section")


def _pairs(node: Node | None) -> list[tuple[Node, Node]]:
    if node is None:
        return []
    if node.id != "mapping":
        raise YamlProblem(
            line=line_of(node), key="(yaml)", message="no key stands here; expected one"
        )
    return list(node.value)


def _within(problem: YamlProblem, piece: _Piece) -> YamlProblem:
    """The problem on a line of the piece: what a bracket lacks is noticed behind its end."""
    return YamlProblem(
        line=min(problem.line, piece.last_line), key=problem.key, message=problem.message
    )


def _name(key: Node) -> str:
    try:
        value = scalar_value(key)
    except NotPlain:
        value = None
    return value if isinstance(value, str) else str(key.value)


@dataclass(frozen=True, slots=True)
class _Mark:
    line: int


def _empty(line: int) -> Node:
    node: Node = ScalarNode(_TAG + "null", "", start_mark=_Mark(line))
    return node


def _mapping(pairs: list[tuple[Node, Node]]) -> Node:
    node: Node = MappingNode(_TAG + "map", pairs, start_mark=_Mark(0))
    return node
