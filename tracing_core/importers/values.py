# SPDX-License-Identifier: Apache-2.0
"""JSON values of foreign files as span attributes, within limits."""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from tracing_core.importers.numbers import INT64_MAX
from tracing_core.model import AttributeValue

TEXT_CHARS_MAX = 4096
"""Longer texts are cut: stack traces and kernel names of generated code."""
ITEMS_MAX = 128
"""Items kept of one array or object."""
DEPTH_MAX = 8


def text(value: object) -> str:
    """The value if it is text that UTF-8 can hold, cut to its limit; else empty."""
    if not isinstance(value, str):
        return ""
    value = value[:TEXT_CHARS_MAX]
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def label(value: object) -> str:
    """Text of a name that some writers give as a number."""
    return text(value) if isinstance(value, str) else str(value) if type(value) is int else ""


def member(item: object, key: str) -> Mapping[str, object]:
    """A member that is an object; empty if it is none."""
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, dict) else {}


def objects(value: object) -> Iterable[Mapping[str, object]]:
    """The objects of an array; empty if it is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else ()


def attribute(value: object, depth: int = 0) -> AttributeValue:
    """A JSON value as an attribute; what is too large for its type becomes text."""
    match value:
        case None | bool():
            return value
        case int():
            return value if -INT64_MAX <= value <= INT64_MAX else text(str(value))
        case Decimal():
            return float(value)
        case str():
            return text(value)
        case list() | tuple():
            if depth >= DEPTH_MAX:
                return "(nested too deep)"
            return tuple(attribute(item, depth + 1) for item in value[:ITEMS_MAX])
        case dict():
            if depth >= DEPTH_MAX:
                return "(nested too deep)"
            return attributes(value, depth=depth + 1)
        case _:
            return text(str(value))


def attributes(
    items: Mapping[str, object], prefix: str = "", *, depth: int = 0
) -> dict[str, AttributeValue]:
    """An object's members as attributes, their keys behind `prefix`."""
    pairs = list(items.items())[:ITEMS_MAX]
    return {prefix + label(key): attribute(value, depth) for key, value in pairs}
