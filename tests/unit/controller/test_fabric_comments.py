# SPDX-License-Identifier: Apache-2.0
"""Comments survive when a generated file takes the place of one."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.fabric_comments import LOST_HEADING, carry_comments
from controller.fabric_dump import dump_fabric
from controller.fabric_file import parse_fabric
from controller.fabric_generate import leaf_spine
from tests.support.fabric_cases import SMALL

LARGER = dump_fabric(leaf_spine(leaves=3, spines=2, hosts_per_leaf=2))


def test_comments_follow_what_they_belong_to() -> None:
    """Sections, keys, items by name, cables by their ends, whichever line they move to."""
    old = SMALL.replace("switches:\n", "# racks 1 to 4\nswitches:\n  # row 7\n", 1)
    old = old.replace('{a: "leaf2:2"', '{a:   "leaf2:2"')
    line = next(line for line in old.splitlines() if '{a:   "leaf2:2"' in line)
    old = old.replace(line, f"{line}  # replaced in May")
    old = old.replace("  domain: 0\n", "  domain: 0  # ours\n", 1)
    new = carry_comments(old, LARGER).splitlines()
    assert new[new.index("switches:") - 1] == "# racks 1 to 4"
    assert new[new.index("  # row 7") + 1].startswith("  - {name: leaf1,")
    assert any('{a: "leaf2:2"' in one and one.endswith("}  # replaced in May") for one in new)
    assert "  domain: 0  # ours" in new
    assert parse_fabric("\n".join(new)) == parse_fabric(LARGER)


def test_comments_of_what_is_gone_stand_at_the_end() -> None:
    """They are not lost with it."""
    old = re.sub(r"(  - \{name: leaf3,.*)", r"  # the old one\n\1", LARGER)
    assert carry_comments(old, SMALL) == SMALL + f"\n{LOST_HEADING}\n# the old one\n"


def test_generated_comments_are_not_doubled() -> None:
    """Nor is a carried one, however often."""
    assert carry_comments(SMALL, LARGER) == LARGER
    old = f"# mine\n{SMALL}"
    once = carry_comments(old, LARGER)
    assert once.splitlines()[1:3] == ["# mine", "version: 1"] or once.startswith("# mine")
    assert carry_comments(once, LARGER) == once


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_every_comment_survives(data: st.DataObject) -> None:
    """Wherever it stands, and the fabric stays that of the new text."""
    lines = SMALL.splitlines()
    places = data.draw(st.lists(st.integers(0, len(lines) - 1), unique=True, max_size=6))
    marks = []
    for number, place in enumerate(sorted(places, reverse=True)):
        mark = f'# note {number}: \'it is "so"'
        marks.append(mark[2:])
        if data.draw(st.booleans()):
            lines.insert(place, mark)
        else:
            lines[place] += f" {mark}"
    new = carry_comments("\n".join(lines) + "\n", LARGER)
    assert all(mark in new for mark in marks)
    assert parse_fabric(new) == parse_fabric(LARGER)
