# SPDX-License-Identifier: Apache-2.0
"""Damaged programs: refused in one line that names the object, or run without an exception."""

import contextlib
import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from bmv2_lab.switch import EgressCopy, EmbeddedSwitch, ProgramError, SwitchProgram
from bmv2_lab.switch.errors import AssertionFailed
from tests.unit.bmv2_lab.switch.bmv2_json import egress

DATA = Path(__file__).parents[3] / "data" / "switch"
EXAMPLES = 120
FRAMES = 8
PASSES_MAX = 100
LINE_CHARACTERS_MAX = 330
STRANGE: list[Any] = [
    None,
    0,
    -1,
    1 << 40,
    "",
    "x",
    "0x0",
    "-0x05",
    "0xffffffffffffffffffff",
    [],
    {},
    True,
    1.5,
    ["a"],
    [[]],
    {"type": "hexstr", "value": "0x1"},
    "default",
]


def places(item: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every part of a document."""
    if isinstance(item, dict):
        children = list(item.items())
    elif isinstance(item, list):
        children = list(enumerate(item))
    else:
        return []
    found = []
    for key, child in children:
        found += [(*path, key), *places(child, (*path, key))]
    return found


def part(item: Any, path: tuple[Any, ...]) -> Any:
    """The part at a path."""
    for key in path:
        item = item[key]
    return item


def damage(document: Any, dice: random.Random) -> Any:
    """One to three parts removed, replaced, moved, doubled or changed a little."""
    damaged = copy.deepcopy(document)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        paths = places(damaged)
        path = dice.choice(paths)
        parent, key = part(damaged, path[:-1]), path[-1]
        match dice.randrange(5):
            case 0:
                del parent[key]
            case 1:
                parent[key] = copy.deepcopy(dice.choice(STRANGE))
            case 2:
                parent[key] = copy.deepcopy(part(damaged, dice.choice(paths)))
            case 3 if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[key]))
            case _ if isinstance(parent[key], int):
                parent[key] += dice.choice((-1, 1, 8, 1000))
            case _ if isinstance(parent[key], str):
                parent[key] = parent[key][:-1] or "q"
    return damaged


def run(program: SwitchProgram, dice: random.Random) -> None:
    """Some frames through a switch with that program."""
    switch = EmbeddedSwitch(program)
    for _ in range(FRAMES):
        frame = bytes(dice.getrandbits(8) for _ in range(dice.randrange(65)))
        work = list(switch.ingress(frame, dice.randrange(511), dice.getrandbits(40)))
        for _ in range(PASSES_MAX):
            if not work:
                break
            outputs = egress(switch, work.pop(), egress_tstamp=5)
            work += [output for output in outputs if isinstance(output, EgressCopy)]


@pytest.mark.parametrize("name", ["kinds", "features"])
def test_damaged_documents_are_refused_in_one_line_or_run(name: str) -> None:
    """Nothing but ProgramError at load, nothing at all per packet; most damage is found."""
    document = json.loads((DATA / f"{name}.json").read_text())
    dice = random.Random(name)
    refused = 0
    for _ in range(EXAMPLES if name == "kinds" else EXAMPLES // 4):
        text = json.dumps(damage(document, dice))
        said = ""
        try:
            program = SwitchProgram.from_json(text)
        except ProgramError as error:
            said = str(error)
        if said:
            refused += 1
            assert "\n" not in said
            assert len(said) <= LINE_CHARACTERS_MAX
            assert ":" in said, "names no object"
            continue
        with contextlib.suppress(AssertionFailed):  # an assertion of the program, damaged as well
            run(program, dice)
    assert refused > EXAMPLES // 10
