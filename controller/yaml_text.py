# SPDX-License-Identifier: Apache-2.0
"""Small pieces of YAML text, for the writers of our own files."""

from collections.abc import Iterable
from typing import TypeAlias

Fields: TypeAlias = list[tuple[str, str]]
"""Keys and values as they stand in the file."""

_NOT_PLAIN = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Names that YAML (1.1 readers included) would not take as a text."""


def scalar(name: str) -> str:
    """A name of the schema's pattern; quoted where YAML would read something else.

    >>> scalar("leaf1"), scalar("on")
    ('leaf1', '"on"')
    """
    return f'"{name}"' if name.lower() in _NOT_PLAIN else name


def truth(value: bool) -> str:
    """A truth value."""
    return "true" if value else "false"


def flow(fields: Fields) -> str:
    """A mapping on one line."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in fields) + "}"


def flow_list(texts: Iterable[str]) -> str:
    """A list on one line."""
    return f"[{', '.join(texts)}]"


def item(fields: Fields) -> str:
    """An item of a list, on one line."""
    return f"  - {flow(fields)}"
