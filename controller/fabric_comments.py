# SPDX-License-Identifier: Apache-2.0
"""Comments of a fabric file carried over into a text that takes its place.

Pure. A comment belongs to the key or item on its line, or else to the next one; items are known
again by their names, cables by their ends. What belonged to something that is no more stands at
the end of the new text.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from controller.yaml_positions import KeyPath, PlainValue, YamlDocument, parse_yaml

LOST_HEADING = "# Of what was here before:"
_IDENTIFYING = ("name", "a", "clock", "ip", "dscp", "queue", "port", "speed_gbps")
"""Keys by which an item is known, the first that it has; cables are known by both ends."""

Identity = tuple[str | int, ...]
"""A path with what items are called in place of their numbers."""


@dataclass(frozen=True, slots=True)
class _Comment:
    """A comment with its sign."""

    text: str
    whole_line: bool
    line: int
    """Number of its line, from 1."""


def carry_comments(old: str, new: str) -> str:
    """The new text with the comments of the old one that it does not have itself."""
    before, after = parse_yaml(old), parse_yaml(new)
    present = {comment.text for comment in _comments(new)}
    places = {identity: line for line, identity in _by_line(after).items()}
    above: dict[int, list[str]] = {}
    behind: dict[int, str] = {}
    lost: list[str] = []
    owners = _by_line(before)
    lines_of_owners = sorted(owners)
    for comment in _comments(old):
        if comment.text in present or comment.text == LOST_HEADING:
            continue
        place = bisect_left(lines_of_owners, comment.line)
        owner = lines_of_owners[place] if place < len(lines_of_owners) else None
        line = places.get(owners[owner]) if owner is not None else None
        if line is None:
            lost.append(comment.text)
        elif comment.whole_line:
            above.setdefault(line, []).append(comment.text)
        else:
            behind[line] = comment.text
    result: list[str] = []
    taken = {comment.line for comment in _comments(new)}
    for number, text in enumerate(new.splitlines(), 1):
        indent = text[: len(text) - len(text.lstrip())]
        result += [f"{indent}{comment}" for comment in above.get(number, [])]
        if number in behind:
            text = (
                f"{text} {behind[number][1:]}" if number in taken else f"{text}  {behind[number]}"
            )
        result.append(text)
    if lost:
        result += ["", LOST_HEADING, *lost]
    return "\n".join(result) + "\n"


def _by_line(document: YamlDocument) -> dict[int, Identity]:
    """What stands on each line: the outermost key or item that begins there."""
    found: dict[int, Identity] = {}
    for path, identity in _identities(document.value, (), ()):
        if path:
            found.setdefault(document.line_of(path), identity)
    return found


def _identities(
    value: PlainValue, path: KeyPath, identity: Identity
) -> Iterator[tuple[KeyPath, Identity]]:
    yield path, identity
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _identities(item, (*path, key), (*identity, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _identities(item, (*path, index), (*identity, _item_name(item, index)))


def _item_name(item: PlainValue, index: int) -> str | int:
    if not isinstance(item, dict):
        return str(item)
    if "a" in item and "b" in item:
        return f"{item['a']} {item['b']}"
    return next((f"{key} {item[key]}" for key in _IDENTIFYING if key in item), index)


def _comments(text: str) -> Iterator[_Comment]:
    for number, line in enumerate(text.splitlines(), 1):
        start = _comment_start(line)
        if start is not None:
            whole = not line[:start].strip()
            yield _Comment(line[start:].rstrip(), whole, number)


def _comment_start(line: str) -> int | None:
    """Where a comment begins: a `#` at the start or after a space, outside of quotes."""
    quote = ""
    for index, char in enumerate(line):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and (index == 0 or line[index - 1] in " \t"):
            return index
    return None
