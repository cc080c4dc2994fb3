# SPDX-License-Identifier: Apache-2.0
"""A fast answer to whether a value satisfies a JSON Schema: functions made of the schema.

jsonschema takes a minute for what these do in a second, on a file with 50,000 cables. They know
the keywords that `fabric.schema.json` uses for its large lists; where a schema has another one,
they ask jsonschema. They only say yes or no: what is wrong is jsonschema's to tell.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from jsonschema.protocols import Validator

from controller.fabric_formats import CHECKS

Check: TypeAlias = Callable[[Any], bool]
_Part: TypeAlias = "dict[str, Any] | bool"

_ANNOTATIONS = frozenset({"$schema", "$id", "$defs", "title", "description"})
_TYPES: Mapping[str, Check] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}


class QuickSchema:
    """A schema and its definitions as functions."""

    def __init__(self, validator: Validator) -> None:
        assert isinstance(validator.schema, dict)
        self._validator = validator
        self._root: dict[str, Any] = validator.schema
        self._made: dict[int, Check] = {}

    def satisfied(self, value: object, schema: _Part) -> bool:
        """Whether the value satisfies a part of the schema."""
        return self._check(schema)(value)

    def _check(self, schema: _Part) -> Check:
        """The function of a part, made once: parts are looked up by identity."""
        made = self._made.get(id(schema))
        if made is None:
            made = self._made[id(schema)] = self._make(schema)
        return made

    def _make(self, schema: _Part) -> Check:
        if isinstance(schema, bool):
            return lambda value: bool(schema)
        if set(schema) <= {"$ref", "description"} and "$ref" in schema:
            name = schema["$ref"].removeprefix("#/$defs/")
            return self._check(self._root["$defs"][name])
        checks: list[Check] = []
        for keyword, rule in schema.items():
            if keyword in _ANNOTATIONS:
                continue
            check = self._keyword(keyword, rule, schema)
            if check is None:
                whole = self._validator.evolve(
                    schema={**schema, "$defs": self._root.get("$defs", {})}
                )
                return whole.is_valid
            checks.append(check)
        return _all_of(checks)

    def _keyword(self, keyword: str, rule: Any, schema: dict[str, Any]) -> Check | None:  # noqa: ANN401 JSON
        """One keyword as a function; None of one that is left to jsonschema."""
        match keyword:
            case "type" if rule in _TYPES:
                return _TYPES[rule]
            case "enum" if all(isinstance(choice, str) for choice in rule):
                return lambda value: isinstance(value, str) and value in rule
            case "minimum":
                return _of_numbers(lambda value: bool(value >= rule))
            case "maximum":
                return _of_numbers(lambda value: bool(value <= rule))
            case "exclusiveMinimum":
                return _of_numbers(lambda value: bool(value > rule))
            case "multipleOf":
                return _of_numbers(lambda value: value % rule == 0)
            case "pattern":
                return _of_texts(re.compile(rule).search)
            case "format" if rule in CHECKS:
                return _of_texts(_passes(CHECKS[rule]))
            case "minItems":
                return lambda value: not isinstance(value, list) or len(value) >= rule
            case "maxItems":
                return lambda value: not isinstance(value, list) or len(value) <= rule
            case "items":
                return _of_items(self._check(rule))
            case "required":
                needed = frozenset(rule)
                return lambda value: not isinstance(value, dict) or needed <= value.keys()
            case "dependentRequired":
                return lambda value: (
                    not isinstance(value, dict)
                    or all(
                        key not in value or set(needs) <= value.keys()
                        for key, needs in rule.items()
                    )
                )
            case "additionalProperties" if rule is False and "properties" in schema:
                known = schema["properties"].keys()
                return lambda value: not isinstance(value, dict) or value.keys() <= known
            case "properties":
                return _of_properties({key: self._check(part) for key, part in rule.items()})
        return None


def _all_of(checks: list[Check]) -> Check:
    return lambda value: all(check(value) for check in checks)


def _of_numbers(check: Check) -> Check:
    return lambda value: (
        isinstance(value, bool) or not isinstance(value, (int, float)) or check(value)
    )


def _of_texts(check: Callable[[str], object]) -> Check:
    return lambda value: not isinstance(value, str) or bool(check(value))


def _passes(check: Callable[[str], None]) -> Callable[[str], bool]:
    def passes(text: str) -> bool:
        try:
            check(text)
        except ValueError:
            return False
        return True

    return passes


def _of_items(check: Check) -> Check:
    return lambda value: not isinstance(value, list) or all(check(item) for item in value)


def _of_properties(checks: dict[str, Check]) -> Check:
    return lambda value: (
        not isinstance(value, dict)
        or all(checks[key](item) for key, item in value.items() if key in checks)
    )
