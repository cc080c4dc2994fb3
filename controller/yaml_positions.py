# SPDX-License-Identifier: Apache-2.0
"""A YAML document as plain values, with the line of every key and item.

Pure: takes the text. ruamel.yaml's own types stay in here. A document is bounded in depth and
size before anything walks it further, so that aliases cannot blow it up.
"""

import re
from dataclasses import dataclass
from io import StringIO
from typing import TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

PlainValue: TypeAlias = "bool | int | float | str | list[PlainValue] | dict[str, PlainValue] | None"
KeyPath: TypeAlias = tuple[str | int, ...]

DEPTH_MAX = 32
"""Nesting of a document; fabric files need six."""
NODE_COUNT_MAX = 300_000
"""Values in a document, aliases expanded; a fabric of 200 switches has about 50,000."""


_LIBRARY_ERRORS = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError)
"""What ruamel.yaml lets through: of impossible dates, mappings as keys, damaged tags and so on."""


class YamlProblem(Exception):
    """A document that cannot be used, with the line (from 1) and the key where it shows."""

    def __init__(self, *, line: int, key: str, message: str) -> None:
        super().__init__(line, key, message)
        self.line = line
        self.key = key
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlDocument:
    """Plain values, and the line (from 1) at which each path stands."""

    value: PlainValue
    lines: dict[KeyPath, int]

    def line_of(self, path: KeyPath) -> int:
        """The line of the path, or of the closest parent that the document has."""
        while path not in self.lines:
            path = path[:-1]
        return self.lines[path]


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
    """Parse YAML 1.2; raises YamlProblem for anything but one document of plain values."""
    yaml = YAML(typ="rt", pure=True)
    try:
        node = yaml.load(StringIO(text))
    except DuplicateKeyError as error:
        found = re.search(r'duplicate key "([^"]*)"', error.problem or "")
        raise YamlProblem(
            line=error.problem_mark.line + 1,
            key=found.group(1) if found else "(yaml)",
            message="the key stands twice in one mapping; expected it once",
        ) from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlProblem(
            line=mark.line + 1 if mark is not None else 1,
            key="(yaml)",
            message=_one_line(f"{error.problem or error.context}; expected YAML 1.2"),
        ) from error
    except (YAMLError, *_LIBRARY_ERRORS) as error:
        raise YamlProblem(
            line=1, key="(yaml)", message=_one_line(f"{error}; expected YAML 1.2")
        ) from error
    except RecursionError as error:
        raise YamlProblem(
            line=1, key="(yaml)", message=f"nested too deeply; expected at most {DEPTH_MAX} levels"
        ) from error
    walk = _Walk()
    value = walk.plain(node, (), 1)
    return YamlDocument(value=value, lines=walk.lines)


class _Walk:
    """Copies ruamel's nodes into plain values and notes their lines."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}

    def plain(self, node: object, path: KeyPath, line: int) -> PlainValue:
        self.lines[path] = line
        if len(path) > DEPTH_MAX:
            raise YamlProblem(
                line=line,
                key=format_key(path[:3]),
                message=f"nested too deeply; expected at most {DEPTH_MAX} levels",
            )
        if len(self.lines) > NODE_COUNT_MAX:
            raise YamlProblem(
                line=line,
                key=format_key(path),
                message=f"too large; expected at most {NODE_COUNT_MAX} values",
            )
        match node:
            case CommentedMap():
                return self._mapping(node, path, line)
            case CommentedSeq():
                return [
                    self.plain(item, (*path, index), _line(node, index, line))
                    for index, item in enumerate(node)
                ]
            case None | bool():
                return node
            case int():  # HexInt and its like
                return int(node)
            case float():
                return float(node)
            case str():
                return str(node)
            case _:
                raise YamlProblem(
                    line=line,
                    key=format_key(path),
                    message=f"a YAML {type(node).__name__} is not used here; "
                    "expected a mapping, a list, a number or a text (in quotes if need be)",
                )

    def _mapping(self, node: CommentedMap, path: KeyPath, line: int) -> dict[str, PlainValue]:
        values: dict[str, PlainValue] = {}
        for key, item in node.items():
            item_line = _line(node, key, line)
            if not isinstance(key, str):
                raise YamlProblem(
                    line=item_line,
                    key=format_key((*path, str(key))),
                    message=f"the key {key!r} is not a text; expected a name",
                )
            values[str(key)] = self.plain(item, (*path, str(key)), item_line)
        return values


def _line(node: CommentedMap | CommentedSeq, key: object, parent_line: int) -> int:
    """Line (from 1) of a key or item; a merged-in key (`<<`) has none of its own."""
    try:
        if isinstance(node, CommentedMap):
            return int(node.lc.key(key)[0]) + 1
        return int(node.lc.item(key)[0]) + 1
    except (KeyError, TypeError, IndexError):
        return parent_line


def _one_line(text: str) -> str:
    return " ".join(text.split())
