# SPDX-License-Identifier: Apache-2.0
"""`fabric.yaml` against its JSON Schema, and what a schema cannot say of a single value.

Each problem says what was expected, in the words of the schema's descriptions.
"""

import difflib
import json
import math
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

from controller.fabric_formats import format_checker
from controller.fabric_schema_quick import QuickSchema
from controller.yaml_positions import KeyPath, PlainValue

_Schema = dict[str, Any]


class ValueProblem(NamedTuple):
    """A rule that a value of the file breaks."""

    path: KeyPath
    message: str


@cache
def fabric_schema() -> _Schema:
    """The JSON Schema (2020-12) of the file."""
    schema: _Schema = json.loads(
        files("controller.schemas").joinpath("fabric.schema.json").read_text(encoding="utf-8")
    )
    return schema


@cache
def _validator() -> Validator:
    """JSON Schema takes 1.0 for an integer; a port or an id it is not."""
    integers = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    strict: type[Validator] = extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, type_checker=integers
    )
    return strict(fabric_schema(), format_checker=format_checker())


@cache
def _quick() -> QuickSchema:
    return QuickSchema(_validator())


def satisfies(value: object, part: _Schema) -> bool:
    """Whether the value satisfies a part of the schema."""
    return _quick().satisfied(value, part)


def schema_problems(document: PlainValue) -> list[ValueProblem]:
    """What is wrong with the values by themselves, in no order."""
    problems: dict[KeyPath, ValueProblem] = {}
    for found in chain(
        _value_problems(document), _collector_problems(document), _rule_problems(document)
    ):
        problems.setdefault(found.path, found)  # one is enough of each value
    return list(problems.values())


def _value_problems(value: PlainValue, path: KeyPath = ()) -> Iterator[ValueProblem]:
    """Values that YAML has but no key of the file can hold, and that a schema lets through."""
    match value:
        case dict():
            for key, item in value.items():
                if isinstance(item, (dict, list)) or not _sound(item):
                    yield from _value_problems(item, (*path, key))
        case list():
            for index, item in enumerate(value):
                if isinstance(item, (dict, list)) or not _sound(item):
                    yield from _value_problems(item, (*path, index))
        case float() if not math.isfinite(value):
            yield ValueProblem(path, f"{shown(value)} is not finite; expected a finite number")
        case str() if not value.isprintable():
            message = f"{shown(value)} is not valid; expected a text without control characters"
            yield ValueProblem(path, message)
        case _:
            pass


def _sound(value: PlainValue) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, str) or value.isprintable()


def _collector_problems(document: PlainValue) -> Iterator[ValueProblem]:
    """One collector or a list of them: a schema could say so, but not in one line."""
    if not isinstance(document, dict):
        return
    given = {"collector", "collectors"} & document.keys()
    if len(given) == 2:
        message = "given together with collector; expected one of the two"
        yield ValueProblem(("collectors",), message)
    elif not given and not _misspelt(document, "collector"):
        what = fabric_schema()["$defs"]["collector"]["description"]
        yield ValueProblem(("collector",), f"missing key; expected {what}")


def _misspelt(value: Mapping[str, PlainValue], key: str) -> bool:
    """Some unknown key looks as if this one was meant."""
    unknown = value.keys() - fabric_schema()["properties"].keys()
    return bool(difflib.get_close_matches(key, unknown, n=1))


def _rule_problems(document: PlainValue) -> Iterator[ValueProblem]:
    errors = list(_errors(document, fabric_schema(), ()))
    misspelt = {path for path, error in errors if error.validator == "additionalProperties"}
    strange = {path[:2] for path, _ in errors if path[::2] == ("watchlists", "traffic")}
    of_another_type = {path for path, error in errors if error.validator == "type"}
    for path, error in errors:
        if error.validator != "type" and path in of_another_type:
            continue
        if error.validator == "required" and path in misspelt:
            continue  # a misspelt key leaves the right one missing: the former is the cause
        if error.validator in ("required", "additionalProperties") and path in strange:
            continue  # which keys a watchlist has depends on its traffic
        for key, message in _schema_messages(error):
            yield ValueProblem((*path, key) if key is not None else path, message)


def _errors(
    value: PlainValue, part: _Schema, path: KeyPath
) -> Iterator[tuple[KeyPath, ValidationError]]:
    """Violations with their paths: jsonschema sees only sections and items that have some."""
    if satisfies(value, part):
        return
    inner: Mapping[str, _Schema] = part.get("properties", {}) if not path else {}
    if inner and isinstance(value, dict):
        yield from _found(value, {**part, "properties": dict.fromkeys(inner, True)}, path)
        for key, item in value.items():
            if key in inner:
                yield from _errors(item, inner[key], (*path, key))
    elif "items" in part and isinstance(value, list):
        yield from _found(value, {**part, "items": True}, path)
        for index, item in enumerate(value):
            if not satisfies(item, part["items"]):
                yield from _found(item, part["items"], (*path, index))
    else:
        yield from _found(value, part, path)


def _found(
    value: PlainValue, part: _Schema, path: KeyPath
) -> Iterator[tuple[KeyPath, ValidationError]]:
    known = {"$defs": fabric_schema()["$defs"]}
    for error in _validator().evolve(schema={**part, **known}).iter_errors(value):
        yield (*path, *error.absolute_path), error


def _schema_messages(error: ValidationError) -> Iterator[tuple[str | None, str]]:
    """(key below the error's path or None, message) of one schema violation."""
    schema: _Schema = dict(error.schema) if isinstance(error.schema, Mapping) else {}
    instance: Any = error.instance
    rule: Any = error.validator_value
    expected = schema.get("description", "a valid value")
    match error.validator:
        case "additionalProperties":
            known = list(schema["properties"])
            for key in instance:
                if key not in known:
                    close = difflib.get_close_matches(key, known, n=1)
                    hint = f" (did you mean {close[0]}?)" if close else ""
                    yield key, f"unknown key{hint}; expected one of {', '.join(known)}"
        case "required":
            # One error per missing key, and only the text of the error says which.
            for key in rule:
                if error.message.startswith(f"{key!r} is a required"):
                    what = schema.get("properties", {}).get(key, {})
                    if what is True:  # the sections, each of which is looked at by itself
                        what = fabric_schema()["properties"][key]
                    yield key, f"missing key; expected {_description(what)}"
        case "dependentRequired":
            for key, needs in rule.items():
                if key in instance:
                    yield key, f"given without {', '.join(needs)}; expected both or neither"
        case "format":
            yield None, f"{shown(instance)} {error.cause}"
        case "uniqueItems":
            yield None, f"the list repeats a value; expected {expected}, each once"
        case "minItems":
            yield None, f"the list is empty; expected {expected}"
        case "type":
            yield None, f"{shown(instance)} has the wrong type; expected {expected}"
        case _:
            yield None, f"{shown(instance)} is not valid; expected {expected}"


def _description(schema: _Schema) -> str:
    """What a property's schema says it expects, through a reference."""
    if "$ref" in schema:
        schema = fabric_schema()["$defs"][schema["$ref"].rpartition("/")[2]]
    return str(schema.get("description", "a value"))


def shown(value: object) -> str:
    """The value as a message shows it: on one line and not too long."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "an empty value"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
