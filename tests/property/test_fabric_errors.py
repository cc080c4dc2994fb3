# SPDX-License-Identifier: Apache-2.0
"""All errors of a fabric file at once: one mistake gives its line, two give both."""

import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.yaml_positions import format_key, parse_yaml
from tests.property.test_fabric_mutations import DOCUMENTS, KeyPath, at, paths
from tests.support.fabric_cases import CASES, SMALL
from tests.support.fabric_faults import faults_of

SINGLE = {case[0]: case[1:] for case in CASES}
TEXTS = [SMALL, dump_fabric(parse_fabric(json.dumps(DOCUMENTS[0])))]

HIDES: dict[str, set[str]] = {
    "tolerance above the length": {"length", "tolerance without"},
    "tolerance without a length": {"length_tolerance_m of"},
    "speed without a stamp point": {"stamp point", "two models", "negative"},
    "unknown key in a stamp point": {"two stamp points"},
    "negative uncertainty": {"two stamp points"},
    "negative latency": {"two stamp points"},
    "host of an unknown tenant": {"section", "mapping for a list", "tenant without", "empty list"},
    "watchlist of an unknown tenant": {"section", "mapping for a list", "empty list"},
    "tenant without a host": {"section", "host of an unknown tenant"},
    "host outside its switch's prefix": {"name", "prefix with", "two links"},
    "overlapping prefixes": {"prefix with"},
    "two nodes with one node id": {"node_id of"},
    "two hosts with one mac": {"MAC"},
    "link from a switch to itself": {"name"},
    "link on the drop port": {"two models"},
    "link on the report port": {"two models"},
    "link beyond the last port": {"two models"},
    "host with a switch model": {"two models"},
    "port used twice": {"not on one line"},
    "host with two links": {"switch's name"},
    "unknown grandmaster": {"switch's name"},
    "watchlist of an unmarked class": {"marked DSCP"},
    "watchlist without hops": {"reserved instruction bit"},
}
"""Mistakes that are not told next to mistakes (parts of their names) in what they are measured by:
the length of a tolerance, the tenants that a host may name, the port numbers of a model."""


def both(first: str, second: str) -> str | None:
    """The small file with both mistakes; None where they are in the same words."""
    (old, new, *_), (other_old, other_new, *_) = SINGLE[first], SINGLE[second]
    start, other = SMALL.index(old), SMALL.index(other_old)
    if start < other + len(other_old) and other < start + len(old):
        return None
    one_way = SMALL.replace(old, new, 1).replace(other_old, other_new, 1)
    other_way = SMALL.replace(other_old, other_new, 1).replace(old, new, 1)
    return one_way if one_way == other_way else None


@settings(max_examples=80, deadline=None)
@given(names=st.lists(st.sampled_from(sorted(SINGLE)), min_size=2, max_size=2, unique=True))
def test_two_mistakes_give_both_lines(names: list[str]) -> None:
    """Whatever two values are wrong, both are named, unless one is what the other is judged by."""
    text = both(*names)
    if text is None:
        return
    faults = faults_of(text)
    for name, other in (names, reversed(names)):
        _, _, _, key, message = SINGLE[name]
        if not any(fault.key == key and message in str(fault) for fault in faults):
            assert any(part in other for part in HIDES.get(name, ())), "\n".join(map(str, faults))


def damaged(text: str, line: int, junk: str) -> str:
    """The text with junk in place of the last character of a line."""
    lines = text.split("\n")
    lines[line - 1] = lines[line - 1][:-1] + junk
    return "\n".join(lines)


def item_lines(text: str) -> list[int]:
    """Lines of items in flow style."""
    return [n for n, line in enumerate(text.split("\n"), 1) if line.startswith("  - {")]


@pytest.mark.parametrize("junk", ["", "]", " {", '"', "}}", ", *nowhere}", ": }"])
def test_text_that_does_not_parse_is_named_with_its_line_next_to_others(junk: str) -> None:
    """Items of lists are read one by one where the file as a whole is no YAML: every damaged one is
    named with its own line, and so is a value of another one that is wrong."""
    lines = item_lines(SMALL)
    for first, second in pairwise(lines[:: len(lines) // 6]):
        text = damaged(damaged(SMALL, first, junk), second, junk)
        wrong = text.replace("  udp_port: 32766", "  udp_port: 0")
        told = {fault.line: fault.key for fault in faults_of(wrong)}
        port_line = wrong.split("\n").index("  udp_port: 0") + 1
        assert told.keys() == {first, second, port_line}, told
        assert told[port_line] == "collector.udp_port"


def odd(value: Any) -> st.SearchStrategy[Any]:
    """Values that a key cannot hold which holds this one."""
    if isinstance(value, dict):
        return st.sampled_from([None, 7, "text", []])
    return st.sampled_from([None, {"odd": 1}])


def json_lines(document: Any) -> str:
    """The document as YAML that is JSON with a line for each value."""
    return json.dumps(document, indent=1)


def replaced(document: Any, *changes: tuple[KeyPath, Any]) -> Any:
    """A copy with other values at these paths."""
    changed = copy.deepcopy(document)
    for path, value in changes:
        at(changed, path[:-1])[path[-1]] = value
    return changed


def told(document: Any) -> list[tuple[int, str]]:
    """(line, key) of all faults."""
    return [(fault.line, fault.key) for fault in faults_of(json_lines(document))]


def expected(document: Any, *changed: KeyPath) -> list[tuple[int, str]]:
    """Lines and keys of the paths."""
    lines = parse_yaml(json_lines(document))
    return sorted((lines.line_of(path), format_key(path)) for path in changed)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_value_of_the_wrong_kind_gives_its_own_line_alone(data: st.DataObject) -> None:
    """Nothing that merely follows from it is told."""
    document = data.draw(st.sampled_from(DOCUMENTS))
    path = data.draw(st.sampled_from([path for path in paths(document) if path]))
    changed = replaced(document, (path, data.draw(odd(at(document, path)))))
    assert told(changed) == expected(changed, path)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_two_values_of_the_wrong_kind_give_two_lines(data: st.DataObject) -> None:
    """Both, in the order of the file, and nothing else."""
    document = data.draw(st.sampled_from(DOCUMENTS))
    every = [path for path in paths(document) if path]
    first = data.draw(st.sampled_from(every))
    second = data.draw(st.sampled_from(every))
    if first[: len(second)] == second or second[: len(first)] == first:
        return
    if "traffic" in (first[-1], second[-1]) and first[:2] == second[:2]:
        return  # which keys a watchlist has depends on its traffic
    changes = [(path, data.draw(odd(at(document, path)))) for path in (first, second)]
    changed = replaced(document, *changes)
    assert told(changed) == expected(changed, first, second)
