# SPDX-License-Identifier: Apache-2.0
"""A description with errors made checkable: values that are wrong become some that are allowed.

So that all errors of a file are told at once, checks between values run even where some are
wrong by themselves. What a check says because of a stand-in is not told (`Doubt`).
"""

import copy
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from controller.fabric_schema import ValueProblem, fabric_schema, satisfies, schema_problems
from controller.yaml_positions import KeyPath, PlainValue

ROUNDS_MAX = 8
"""A value put right can show that one within it is missing; nesting is no deeper than this."""
UNKNOWN_ITEM = -1
"""Index of an item of a list that could not be read at all, among others that could."""

MANY = 1_000_000_000

_Schema = dict[str, Any]


class Doubt:
    """Paths of values that are not what the operator meant, and what depends on them."""

    def __init__(self, paths: Iterable[KeyPath]) -> None:
        self._exact: set[KeyPath] = set()
        self._above: set[KeyPath] = set()
        self._any: set[KeyPath] = set()
        self._above_any: set[KeyPath] = set()
        for path in paths:
            self.add(path)

    def __bool__(self) -> bool:
        return bool(self._exact)

    def add(self, path: KeyPath) -> None:
        """One more value that nobody knows."""
        for known, above, one in (
            (self._exact, self._above, path),
            (self._any, self._above_any, _any_index(path)),
        ):
            known.add(one)
            above.update(_beginnings(one))

    def count(self, names: Iterable[KeyPath]) -> int:
        """How many values at paths of these forms are not known; many, if a whole list is not."""
        wanted = set(names)
        if any(path in self._any for name in wanted for path in _beginnings(name)):
            return MANY
        return sum(_any_index(path) in wanted for path in self._exact)

    def about(self, path: KeyPath) -> bool:
        """Whether the value at the path, one above or one below is not known.

        An index `*` stands for any.
        """
        if "*" in path:
            return _related(path, self._any, self._above_any)
        return _related(path, self._exact, self._above)


def _related(path: KeyPath, known: Collection[KeyPath], above: Collection[KeyPath]) -> bool:
    return path in above or any(one in known for one in (*_beginnings(path), path))


def _beginnings(path: KeyPath) -> Iterator[KeyPath]:
    return (path[:length] for length in range(len(path)))


def _any_index(path: KeyPath) -> KeyPath:
    return tuple("*" if isinstance(step, int) else step for step in path)


def repaired(
    document: dict[str, PlainValue], problems: Iterable[ValueProblem], broken: Iterable[KeyPath]
) -> tuple[dict[str, Any], Doubt] | None:
    """The document with stand-ins, and where they are; None where that does not help."""
    whole: dict[str, Any] = copy.deepcopy(document)
    doubt = Doubt(broken)
    wrong = [problem.path for problem in problems] + [path for path in broken if path]
    for _ in range(ROUNDS_MAX):
        for path in sorted(set(wrong), key=len):
            if UNKNOWN_ITEM not in path:
                _replace(whole, path)
            doubt.add(path)
        wrong = [problem.path for problem in schema_problems(whole)]
        if not wrong:
            return whole, doubt
    return None


def _replace(whole: dict[str, Any], path: KeyPath) -> None:
    """Put a stand-in where one is needed; leave out what may be left out."""
    value: Any = whole
    part: _Schema = fabric_schema()
    for step in path[:-1]:
        part = _within(part, step, value)
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return  # something above has been replaced or left out
    last = path[-1]
    part = _resolved(part, value)
    if isinstance(value, list) and isinstance(last, int):
        if last < len(value):
            value[last] = stand_in(_within(part, last, value))
    elif isinstance(value, dict) and isinstance(last, str):
        if last in part.get("required", ()) or path == ("collector",):
            value[last] = stand_in(_within(part, last, value))
        else:
            value.pop(last, None)


def _within(part: _Schema, step: str | int, value: object) -> _Schema:
    """The schema of a key or an item."""
    part = _resolved(part, value)
    if isinstance(step, int):
        found = part.get("items", {})
    else:
        found = part.get("properties", {}).get(step, {})
    if found is True:
        found = fabric_schema()["$defs"].get(step, {})
    return dict(found) if isinstance(found, dict) else {}


def _resolved(part: _Schema, value: object) -> _Schema:
    """The schema behind a reference, and the branch of a condition that holds for the value."""
    if "$ref" in part:
        part = fabric_schema()["$defs"][part["$ref"].rpartition("/")[2]]
    if "if" in part:
        is_ptp = isinstance(value, dict) and value.get("traffic") == "ptp"
        branch = part["then" if is_ptp else "else"]
        part = {**part, **branch, "required": [*part["required"], *branch["required"]]}
    return part


_TEXTS = (
    *("unknown-node", "unknown-node:1", "02:ff:ff:ff:ff:ff"),
    *("192.0.2.1", "192.0.2.1/32", "2001:db8::1", "2001:db8::1/128"),
)


def stand_in(part: _Schema) -> object:
    """A value that the schema allows."""
    whole = _resolved(part, None)
    if "const" in whole:
        return whole["const"]
    if "enum" in whole:
        return whole["enum"][0]
    match whole.get("type"):
        case "object":
            return _mapping(whole)
        case "array":
            return [stand_in(whole["items"]) for _ in range(whole.get("minItems", 0))]
        case "boolean":
            return False
        case "integer" | "number":
            return _number(whole)
        case _:
            return next((text for text in _TEXTS if satisfies(text, part)), "")


def _number(part: _Schema) -> object:
    """The largest of many, since small numbers are what others have."""
    return next(part[bound] for bound in ("maximum", "minimum") if bound in part)


def _mapping(part: _Schema) -> dict[str, Any]:
    properties = part.get("properties", {})
    value = {key: _property(properties, key) for key in dict.fromkeys(part.get("required", ()))}
    missing = [key for key in properties if key not in value]
    choice = part.get("anyOf") or part.get("oneOf")
    if choice:
        missing = list(choice[0]["required"])
    elif len(value) >= part.get("minProperties", 0):
        return value
    value[missing[0]] = _property(properties, missing[0])
    return value


def _property(properties: _Schema, key: str) -> object:
    found = properties[key]
    return stand_in(fabric_schema()["$defs"][key] if found is True else found)
