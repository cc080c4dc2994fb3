# SPDX-License-Identifier: Apache-2.0
"""Puts `drained` of links into the text of a fabric file, and changes nothing else. Pure."""

from collections.abc import Collection

from controller.yaml_nodes import Node, compose


def with_drained(text: str, links: Collection[str], *, drained: bool) -> tuple[str, set[str]]:
    """The text with these links drained, or not; and those of them that the text has.

    links: names as in the file, `leaf1:1-spine1:1`. YamlProblem where the text is no YAML.
    """
    root = compose(text)
    value = "true" if drained else "false"
    edits: list[tuple[int, int, str]] = []
    found: set[str] = set()
    items = _items(_value(root, "links"))
    for item in items:
        name = "-".join(str(getattr(_value(item, end), "value", "")) for end in "ab")
        if name not in links:
            continue
        found.add(name)
        known = _value(item, "drained")
        if known is not None:
            edits.append((_at(known), _end(known), value))
        elif drained:
            first = item.value[0][0]
            start = _at(first)
            is_flow = text.startswith("{", _at(item))
            edits.append((start, start, f"drained: true{', ' if is_flow else _break(text, start)}"))
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text, found


def _break(text: str, start: int) -> str:
    """The next line, indented as what begins here."""
    line_start = text.rfind("\n", 0, start) + 1
    return ("\r\n" if "\r\n" in text else "\n") + " " * (start - line_start)


def _value(node: Node | None, key: str) -> Node | None:
    """The value of a key of a mapping; None where there is none."""
    if node is None or node.id != "mapping":
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _items(node: Node | None) -> list[Node]:
    if node is None or node.id != "sequence":
        return []
    return [item for item in node.value if item.id == "mapping"]


def _at(node: Node) -> int:
    return int(node.start_mark.index)


def _end(node: Node) -> int:
    return int(node.end_mark.index)
