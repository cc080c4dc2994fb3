# SPDX-License-Identifier: Apache-2.0
"""Whatever one value of `fabric.yaml` becomes: a fabric that can be deployed, or one line."""

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.desired import desired_state
from controller.fabric import FabricError
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_model import fabric_model
from controller.p4info_codec import encode_entry
from controller.pipeline import load_pipeline
from controller.session import program_schema
from controller.yaml_positions import parse_yaml
from tests.support.fabric_faults import checked

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SCHEMA = program_schema(load_pipeline())

KeyPath = tuple[Any, ...]


def document(name: str) -> Any:
    """An example file as plain values."""
    return parse_yaml((EXAMPLES / name).read_text(encoding="utf-8")).value


DOCUMENTS = [document(path.name) for path in sorted(EXAMPLES.glob("fabric*.yaml"))]


def paths(value: Any, path: KeyPath = ()) -> list[KeyPath]:
    """Where every value of the document stands, mappings and lists included."""
    below: list[KeyPath] = []
    if isinstance(value, dict):
        below = [p for key, item in value.items() for p in paths(item, (*path, key))]
    elif isinstance(value, list):
        below = [p for index, item in enumerate(value) for p in paths(item, (*path, index))]
    return [path, *below]


def at(value: Any, path: KeyPath) -> Any:
    """The value at the path."""
    for step in path:
        value = value[step]
    return value


NUMBERS = [0, 1, -1, 63, 64, 255, 256, 509, 510, 511, 4095, 65_535, 65_536, 2**24, 2**32, 2**48]
LARGE = [2**32 - 1, 2**63, 2**64, 10**30, 10**400, 1e300, math.inf, math.nan, 0.5]
WHOLE_FLOATS = [0.0, 1.0, 510.0, -0.0]
TEXTS = ["", " ", "x", "0", "1.0", "none", "h1", "leaf1", "leaf1:1", "leaf1:510", "leaf1:999"]
STRANGE = ["h1:1", "a\nb", "\u0000", "\u0663", "[::1]:1", "x:0", "ff:ff:ff:ff:ff:ff"]
ADDRESSES = ["0.0.0.0", "255.255.255.255", "127.0.0.1", "224.0.0.1", "10.0.1.0", "::", "ff02::1"]
ADDRESSES += ["fe80::1%eth0", "::1", "00:00:00:00:00:00"]
PREFIXES = ["0.0.0.0/0", "0.0.0.0/32", "10.0.1.1/32", "10.0.1.0/24", "10.0.0.0/8", "::/0"]
PREFIXES += ["1.2.3.4/33", "224.0.0.0/4"]
OTHERS: list[Any] = [None, True, False, [], {}, [[]], [1.0], {"name": "x"}, ["h1", "h1"]]
ODD = st.sampled_from(
    [*NUMBERS, *LARGE, *WHOLE_FLOATS, *TEXTS, *STRANGE, *ADDRESSES, *PREFIXES, *OTHERS]
)
"""Edges of ranges, wrong types, and texts that mean something elsewhere in the file."""


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A document with one to three values replaced, copied from elsewhere, doubled or left out."""
    changed = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 3))):
        every = paths(changed)
        path = draw(st.sampled_from(every))
        if not path:
            continue
        parent, step = at(changed, path[:-1]), path[-1]
        match draw(st.sampled_from(["odd", "odd", "copy", "number", "float", "double", "drop"])):
            case "odd":
                parent[step] = copy.deepcopy(draw(ODD))
            case "copy":
                same = [p for p in every if p and p[-1] == step] or every
                source = draw(st.sampled_from(same) | st.sampled_from(every))
                parent[step] = copy.deepcopy(at(changed, source))
            case "number" if isinstance(parent[step], int):
                parent[step] = draw(st.integers(-2, 70_000))
            case "float" if isinstance(parent[step], int):
                parent[step] = float(parent[step])
            case "double" if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[step]))
            case _:
                del parent[step]
    return changed


def use(text: str) -> bool:
    """Whether the text is a fabric, of which everything is made that others make of it."""
    try:
        fabric = parse_fabric(text)
    except FabricError as error:
        checked(error)
        return False
    for name, entries in desired_state(fabric).items():
        assert len({entry.key for entry in entries}) == len(entries)
        if name in (fabric.switches[0].name, fabric.switches[-1].name):
            for entry in entries:
                encode_entry(entry, SCHEMA)
    fabric_model(fabric)
    assert parse_fabric(dump_fabric(fabric)) == fabric
    return True


@settings(max_examples=100, deadline=None)
@given(changed=mutated())
def test_changed_file_can_be_deployed_or_is_refused_in_one_line(changed: Any) -> None:
    """A file with other values gives entries that every switch can hold, or a FabricError that
    names file, line and key; never another exception."""
    use(json.dumps(changed, indent=1))


@pytest.mark.parametrize("text", [json.dumps(one, indent=1) for one in DOCUMENTS])
def test_examples_can_be_deployed(text: str) -> None:
    """What is mutated above is sound to begin with."""
    assert use(text)
