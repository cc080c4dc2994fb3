# SPDX-License-Identifier: Apache-2.0
"""YAML text as a graph of nodes with their lines, and scalars as values.

Two libraries read the text: PyYAML's parser in C, twenty times faster, and where it is not there or
refuses the text, ruamel.yaml, whose messages people get to read. Both only say how the text is
built; what a plain scalar means is always ruamel.yaml's rules of YAML 1.2.
"""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.reader import ReaderError

ScalarValue: TypeAlias = bool | int | float | str | None

FLOW_DEPTH_MAX = 64
"""Brackets within brackets that the C parser, which recurses without a limit, is trusted with."""
_BLOCK_DEPTH = re.compile(r"(?:[-?:][ \t]+){32}")
"""Block collections that begin within each other on one line, as deep."""
_BRACKETS = re.compile(r"[\[\]{}]")

_LIBRARY_ERRORS = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError)
"""What ruamel.yaml lets through: of impossible dates, damaged tags and so on."""

_TAG = "tag:yaml.org,2002:"
_STRING_TAG = _TAG + "str"
_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*\Z")
_ADDRESS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?\Z")
_DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,17})\Z")
_FRACTION = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,17}\Z")
_NOT_TEXT = frozenset({"true", "false", "null"})


class _MergeKey:
    """What `<<` as a key stands for."""


MERGE_KEY: Final = _MergeKey()


class YamlProblem(Exception):
    """An error of a document, with the line (from 1) and the key where it shows."""

    def __init__(self, *, line: int, key: str, message: str) -> None:
        super().__init__(line, key, message)
        self.line = line
        self.key = key
        self.message = message


class NotPlain(Exception):
    """A value that is neither mapping, list, number, truth value nor text; `str()` says what."""


class Node(Protocol):
    """A node of either library: `value` is a text, nodes, or pairs of nodes, as `id` says."""

    id: Any
    tag: Any
    value: Any
    start_mark: Any
    end_mark: Any


def line_of(node: Node) -> int:
    """The line (from 1) at which a node begins."""
    return int(node.start_mark.line) + 1


def compose(text: str) -> Node | None:
    """The root of the only document, or None of an empty one; YamlProblem if the text is not YAML.

    Aliases are not copied: the nodes that they name occur several times.
    """
    root = compose_fast(text)
    return _compose_with_messages(text) if root is None else root


def collection_tag(node: Node) -> str | None:
    """The explicit tag of a collection, if it is another than that of all others."""
    tag = None if node.tag is None else str(node.tag)
    usual = _TAG + ("map" if node.id == "mapping" else "seq")
    return None if tag in (None, usual, "!") else tag


def scalar_value(node: Node) -> "ScalarValue | _MergeKey":
    """What a scalar stands for; NotPlain for dates, binary data and tags of any kind."""
    tag = None if node.tag is None else str(node.tag)
    if getattr(node, "style", None) in ('"', "'", "|", ">"):
        if tag in (None, _STRING_TAG, "!"):
            return str(node.value)
        raise NotPlain(_short(tag))
    found, value = _plain_scalar(str(node.value))
    if tag in (None, found):
        if isinstance(value, NotPlain):
            raise NotPlain(str(value))  # a new one, since the other is kept
        return value
    if tag in (_STRING_TAG, "!"):
        return str(node.value)
    raise NotPlain(_short(tag))


@lru_cache(maxsize=1 << 16)
def _plain_scalar(text: str) -> "tuple[str, ScalarValue | _MergeKey | NotPlain]":
    """Tag and value of a scalar without quotes."""
    if _DECIMAL.match(text):
        return _TAG + "int", int(text)
    if (_TEXT.match(text) and text.lower() not in _NOT_TEXT) or _ADDRESS.match(text):
        return _STRING_TAG, text
    if _FRACTION.match(text):
        return _TAG + "float", float(text)
    library = YAML(typ="safe", pure=True)
    tag = str(library.resolver.resolve(ScalarNode, text, (True, False)))
    if tag == _TAG + "merge":
        return tag, MERGE_KEY
    try:
        value = library.constructor.construct_object(ScalarNode(tag, text))
    except (YAMLError, *_LIBRARY_ERRORS):
        return tag, NotPlain(_short(tag))
    if value is not None and not isinstance(value, (bool, int, float, str)):
        return tag, NotPlain(_short(tag))
    return tag, value


def _short(tag: str | None) -> str:
    return (tag or "").removeprefix(_TAG)


class _FastParser(yaml.cyaml.CParser if yaml.__with_libyaml__ else object):  # type: ignore[misc]
    """libyaml's parser and composer; plain scalars keep no tag."""

    def descend_resolver(self, *_: object) -> None:
        """Paths have no meaning here."""

    def ascend_resolver(self) -> None:
        """Likewise."""

    def resolve(self, *_: object) -> None:
        """What is not tagged stays so."""


_OLD_LINE_BREAKS = re.compile("[\x85\u2028\u2029]")
"""End a line in YAML 1.1, and to libyaml; in YAML 1.2 they do not."""


def compose_fast(text: str) -> Node | None:
    """The root as the parser in C sees it; None where the other one has to look at the text."""
    if not yaml.__with_libyaml__ or _nests_deeply(text) or _OLD_LINE_BREAKS.search(text):
        return None
    try:
        with collector_paused():
            root: Node | None = _FastParser(text).get_single_node()
    except (yaml.YAMLError, *_LIBRARY_ERRORS):
        return None
    return root


def _nests_deeply(text: str) -> bool:
    depth = 0
    for found in _BRACKETS.finditer(text):
        depth += 1 if found.group() in "[{" else -1
        if depth > FLOW_DEPTH_MAX:
            return True
    return _BLOCK_DEPTH.search(text) is not None


@contextmanager
def collector_paused() -> Iterator[None]:
    """Hundreds of thousands of nodes are made and none is garbage: looking for some takes time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _compose_with_messages(text: str) -> Node | None:
    try:
        root: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlProblem(
            line=mark.line + 1 if mark is not None else 1,
            key="(yaml)",
            message=_said(error.problem or error.context or ""),
        ) from error
    except ReaderError as error:
        raise YamlProblem(
            line=text.count("\n", 0, error.position) + 1,
            key="(yaml)",
            message=f"the character U+{_code_point(error.character):04X} cannot be in a file; "
            "expected printable text",
        ) from error
    except (YAMLError, *_LIBRARY_ERRORS) as error:
        raise YamlProblem(
            line=1, key="(yaml)", message=_one_line(f"{error}; expected YAML 1.2")
        ) from error
    except RecursionError as error:
        raise YamlProblem(
            line=1, key="(yaml)", message="nested too deeply; expected a few levels"
        ) from error
    return root


ANOTHER_DOCUMENT = "the file has a second document"


def _said(problem: str) -> str:
    """The library's words, or clearer ones where they say little to who wrote the file."""
    if problem == "but found another document":
        return f"{ANOTHER_DOCUMENT}; expected one"
    if problem.startswith("found character '\\t'"):
        return "a tab stands where a line is indented, or before a value; expected spaces"
    return _one_line(f"{problem}; expected YAML 1.2")


def _code_point(character: object) -> int:
    """The library gives a number, a character or bytes."""
    if isinstance(character, int):
        return character
    return ord(character[:1]) if isinstance(character, str | bytes) and character else 0


def _one_line(text: str) -> str:
    return " ".join(text.split())
