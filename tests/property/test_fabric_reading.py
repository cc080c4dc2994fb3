# SPDX-License-Identifier: Apache-2.0
"""The fast ways through a fabric file say what the slow ones say."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import controller.yaml_nodes
import controller.yaml_positions
import controller.yaml_recovery
from controller.fabric_schema import _validator, fabric_schema, satisfies
from controller.yaml_positions import YamlDocument, parse_yaml
from tests.property.test_fabric_mutations import mutated
from tests.support.fabric_cases import SMALL

ODD_SCALARS = [
    *("0x1F", "0o17", "017", "1_000", "+5", "-0", ".5", "5.", "1e3", "1E-3", ".inf", "-.INF"),
    *(".NaN", "~", "null", "Null", "true", "True", "TRUE", "yes", "no", "on", "y", "=", "<<"),
    *("2001-02-03", "2001-02-03T04:05:06Z", "12:30:45", "1:2", "0b101", "!!str 5", "!!int '5'"),
    *("!!float 1", "!foo bar", "! 7", "'5'", '"a\\x41"', "a b", "a: b", "a:b", "10.0.0.1", "a#b"),
    *("1" * 30, "1" * 5000, "&x 1", "|\n  text", ">-\n  a\n  b", "''", "", "[a, {b: c}]", "\u2028"),
]


def slowly(text: str) -> YamlDocument:
    """The document as ruamel.yaml alone reads it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(controller.yaml_nodes, "compose_fast", lambda text: None)
        patch.setattr(controller.yaml_positions, "compose_fast", lambda text: None)
        patch.setattr(controller.yaml_recovery, "compose_fast", lambda text: None)
        return parse_yaml(text)


def shape(document: YamlDocument, text: str) -> tuple[str, list[tuple[int, str]], list[int]]:
    """Value, problems and lines of the document, comparable with NaN in it."""
    lines = [document.line_of(path) for path in _paths(document.value)]
    return repr(document.value), [(one.line, one.key) for one in document.problems], lines


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    below = value.items() if isinstance(value, dict) else ()
    below = enumerate(value) if isinstance(value, list) else below
    return [path, *(one for step, item in below for one in _paths(item, (*path, step)))]


@pytest.mark.parametrize("scalar", ODD_SCALARS)
def test_every_scalar_means_the_same_to_both_parsers(scalar: str) -> None:
    """YAML 1.2 decides, not the rules of 1.1 that libyaml's own resolver has."""
    for text in (f"a: {scalar}\n", f"- {scalar}\n", f"{scalar}: 1\n", f"[1, {scalar}, x]\n"):
        assert shape(parse_yaml(text), text) == shape(slowly(text), text)


@pytest.mark.parametrize("character", "\x85\u2028\u2029")
def test_what_ended_a_line_in_yaml_1_1_ends_none(character: str) -> None:
    """Lines count as YAML 1.2 and editors count them."""
    text = f"# a{character}b\nversion: 1\nname: x\n"
    assert shape(parse_yaml(text), text) == shape(slowly(text), text)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_text_is_read_alike_by_both_parsers(data: st.DataObject) -> None:
    """What both accept has the same values on the same lines; the parser in C lets some tabs and
    separators pass that ruamel.yaml refuses."""
    start = data.draw(st.integers(0, 2500))
    text = SMALL[start : start + data.draw(st.integers(0, 600))]
    cut = data.draw(st.integers(0, len(text)))
    junk = data.draw(
        st.text("{}[]:-#&*!|>'\"%@`,? \n\tax1", max_size=6) | st.sampled_from(ODD_SCALARS)
    )
    text = text[:cut] + junk + text[cut + data.draw(st.integers(0, 3)) :]
    slow = slowly(text)
    if not any(problem.key == "(yaml)" for problem in slow.problems):
        assert shape(parse_yaml(text), text) == shape(slow, text)


@settings(max_examples=60, deadline=None)
@given(document=mutated())
def test_the_quick_schema_agrees_with_jsonschema(document: Any) -> None:
    """Both call the same documents valid."""
    assert satisfies(document, fabric_schema()) == _validator().is_valid(document)
