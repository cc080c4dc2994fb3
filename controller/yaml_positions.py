# SPDX-License-Identifier: Apache-2.0
"""A YAML document as plain values, with the line of every key and item, and all of its errors.

Pure: takes the text. The types of the YAML libraries stay in `yaml_nodes.py`. A document is bounded
in depth and size, so that aliases cannot blow it up.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from controller.yaml_nodes import (
    ANOTHER_DOCUMENT,
    MERGE_KEY,
    Node,
    NotPlain,
    YamlProblem,
    collection_tag,
    compose,
    compose_fast,
    line_of,
    scalar_value,
)
from controller.yaml_recovery import readable_parts

__all__ = ["KeyPath", "PlainValue", "YamlDocument", "YamlProblem", "format_key", "parse_yaml"]

PlainValue: TypeAlias = "bool | int | float | str | list[PlainValue] | dict[str, PlainValue] | None"
KeyPath: TypeAlias = tuple[str | int, ...]

DEPTH_MAX = 32
"""Nesting of a document; fabric files need six."""
NODE_COUNT_MAX = 1_000_000
"""Values in a document, aliases expanded; a fabric of 49,000 cables has 450,000."""


class _Unusable(Exception):
    """The document is beyond its bounds, and nothing of it is used."""


@dataclass(slots=True, kw_only=True)
class YamlDocument:
    """Plain values, and the line (from 1) at which each path stands."""

    value: PlainValue
    problems: list[YamlProblem] = field(default_factory=list)
    """What is wrong with the text as YAML."""
    broken: set[KeyPath] = field(default_factory=set)
    """Paths of values that could not be read, and are None (or one of two); () is all of it."""
    _root: Node | None = None
    _lines: dict[KeyPath, int] | None = None

    def line_of(self, path: KeyPath) -> int:
        """The line of the path, or of the closest parent that the document has."""
        if self._lines is None:
            self._lines = {(): 1}
            if self._root is not None:
                walk = _Walk(self._lines)
                walk.plain(self._root, (), 1)
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]


def format_key(path: KeyPath) -> str:
    """The path as people write it.

    >>> format_key(("links", 3, "a"))
    'links[3].a'
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text or "(document)"


def parse_yaml(text: str) -> YamlDocument:
    """Parse YAML 1.2: a document of plain values, or what can be read of it, and its problems."""
    problems: list[YamlProblem] = []
    broken: set[KeyPath] = set()
    root = compose_fast(text)
    if root is None:
        rest = readable_parts(text)
        if rest is None:
            try:
                root = compose(text)
            except YamlProblem as problem:
                return YamlDocument(value=None, problems=[problem], broken={()})
        else:
            root, problems, broken = rest.root, list(rest.problems), set(rest.broken)
            second = [one for one in problems if one.message.startswith(ANOTHER_DOCUMENT)]
            if second:  # whatever stands in it repeats what stands in the first one
                return YamlDocument(value=None, problems=second[:1], broken={()})
    if root is not None and not problems:
        try:
            return YamlDocument(value=_PlainTree().value(root, 0), _root=root)
        except _NotSimple:
            pass  # whatever it is, the walk below sees it and knows where
    walk = _Walk(None)
    try:
        value = walk.plain(root, (), 1)
    except _Unusable:
        return YamlDocument(value=None, problems=walk.problems[-1:], broken={()})
    return YamlDocument(
        value=value,
        problems=problems + walk.problems,
        broken=broken | walk.broken,
        _root=root,
    )


class _NotSimple(Exception):
    """Something that a walk without paths does not do."""


class _PlainTree:
    """Turns nodes into plain values, in the plainest way: no paths, no merges, no errors."""

    def __init__(self) -> None:
        self._node_count = 0

    def value(self, node: Node, depth: int) -> PlainValue:
        """The value of a node."""
        self._node_count += 1
        if depth > DEPTH_MAX or self._node_count > NODE_COUNT_MAX:
            raise _NotSimple
        kind = node.id
        if kind == "scalar":
            try:
                value = scalar_value(node)
            except NotPlain:
                raise _NotSimple from None
            if value is MERGE_KEY:
                raise _NotSimple
            return value  # type: ignore[return-value]  # no merge key
        if collection_tag(node) is not None:
            raise _NotSimple
        if kind == "sequence":
            return [self.value(item, depth + 1) for item in node.value]
        values: dict[str, PlainValue] = {}
        for key_node, item in node.value:
            key = self.value(key_node, depth)
            if not isinstance(key, str) or key in values:
                raise _NotSimple
            values[key] = self.value(item, depth + 1)
        return values


class _Walk:
    """Turns nodes into plain values, and notes lines where a dict for them is given."""

    def __init__(self, lines: dict[KeyPath, int] | None) -> None:
        self.problems: list[YamlProblem] = []
        self.broken: set[KeyPath] = set()
        self._lines = lines
        self._node_count = 0

    def plain(
        self, node: Node | None, path: KeyPath, line: int, *, fixed: bool = False
    ) -> PlainValue:
        """The value of a node; `fixed`: all that is below it counts as standing on that line."""
        if self._lines is not None:
            self._lines[path] = line
        self._count(path, line)
        if node is None:
            return None
        if node.id == "scalar":
            try:
                value = scalar_value(node)
            except NotPlain as error:
                self._not_plain(str(error), path, line)
                return None
            return "<<" if value is MERGE_KEY else value  # type: ignore[return-value]
        tag = collection_tag(node)
        if tag is not None:
            self._not_plain(tag, path, line)
            return None
        if node.id == "mapping":
            return self._mapping(node, path, line, fixed)
        return [
            self.plain(item, (*path, index), line if fixed else line_of(item), fixed=fixed)
            for index, item in enumerate(node.value)
        ]

    def _count(self, path: KeyPath, line: int) -> None:
        """One value more; aliases can make any number of them out of a short text."""
        self._node_count += 1
        if len(path) > DEPTH_MAX:
            self._problem(path[:3], line, f"nested too deeply; expected at most {DEPTH_MAX} levels")
            raise _Unusable
        if self._node_count > NODE_COUNT_MAX:
            self._problem(path, line, f"too large; expected at most {NODE_COUNT_MAX} values")
            raise _Unusable

    def _mapping(self, node: Node, path: KeyPath, line: int, fixed: bool) -> dict[str, PlainValue]:
        values: dict[str, PlainValue] = {}
        merged: list[tuple[Node, int]] = []
        for key_node, item in node.value:
            item_line = line if fixed else line_of(key_node)
            key = _key(key_node)
            if key is MERGE_KEY:
                merged.append((item, item_line))
            elif not isinstance(key, str):
                name = str(key_node.value) if key_node.id == "scalar" else "?"
                what = f"the key {name}" if key_node.id == "scalar" else f"a {key_node.id} as key"
                message = f"{what} is not a text; expected a name"
                self._problem((*path, name), item_line, message)
            elif key in values:
                message = "the key stands twice in one mapping; expected it once"
                self._problem((*path, key), item_line, message)
            else:
                values[key] = self.plain(item, (*path, key), item_line, fixed=fixed)
        for item, item_line in merged:
            self._merge(values, item, path, item_line)
        return values

    def _merge(self, values: dict[str, PlainValue], node: Node, path: KeyPath, line: int) -> None:
        """Keys of `<<` that the mapping does not have itself; they count as standing there."""
        for source in node.value if node.id == "sequence" else [node]:
            if source.id != "mapping":
                message = "it merges what is no mapping; expected a mapping, or a list of them"
                self._problem((*path, "<<"), line, message)
                continue
            for key_node, item in source.value:
                key = _key(key_node)
                if key is MERGE_KEY:
                    self._count(path, line)
                    self._merge(values, item, path, line)
                elif isinstance(key, str) and key not in values:
                    values[key] = self.plain(item, (*path, key), line, fixed=True)

    def _not_plain(self, tag: str, path: KeyPath, line: int) -> None:
        self._problem(
            path,
            line,
            f"a YAML {tag} is not used here; "
            "expected a mapping, a list, a number or a text (in quotes if need be)",
        )

    def _problem(self, path: KeyPath, line: int, message: str) -> None:
        message = " ".join(message.split())
        self.problems.append(YamlProblem(line=line, key=format_key(path), message=message))
        self.broken.add(path)


def _key(node: Node) -> object:
    """The key; what is no text is an error of its own, told by what it is."""
    if node.id != "scalar":
        return None
    try:
        return scalar_value(node)
    except NotPlain as error:
        return error
