# SPDX-License-Identifier: Apache-2.0
"""Action profile members and groups."""

import pytest

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.profiles import Profile
from bmv2_lab.switch.tables import Cell


def cell(number: int) -> Cell:
    """A member's cell, told apart by its argument."""
    return [None, 0, True, 0, 0, number]


def profile(count: int) -> Profile:
    """A profile with members 1 to `count`."""
    made = Profile("p", 8, True)
    for number in range(1, count + 1):
        made.add_member(number, cell(number))
    return made


def code_of(action: object, *arguments: object) -> int:
    """The status of a refused change."""
    with pytest.raises(StateError) as caught:
        action(*arguments)  # type: ignore[operator]
    return caught.value.code


def test_weights_repeat_members_in_the_order_of_their_creation() -> None:
    """BMv2 orders a group by member handle, whatever order the controller wrote."""
    made = profile(3)
    made.add_group(1, 8, [(3, 1, 0), (1, 2, 0)])
    assert [row[5] for row in made.groups[1].cells] == [1, 1, 3]


def test_freed_handle_is_used_again() -> None:
    """A new member takes the place of a deleted one, as BMv2's handles do."""
    made = profile(3)
    made.delete_member(1)
    made.add_member(9, cell(9))
    made.add_group(1, 8, [(2, 1, 0), (9, 1, 0)])
    assert [row[5] for row in made.groups[1].cells] == [9, 2]


def test_group_changes_in_place() -> None:
    """The list that entries hold stays the same object."""
    made = profile(2)
    made.add_group(1, 8, [(1, 1, 0)])
    cells = made.group(1).cells
    made.modify_group(1, [(2, 1, 0)])
    assert [row[5] for row in cells] == [2]
    made.modify_member(2, cell(7))
    assert [row[5] for row in cells] == [7]


def test_refusals_have_canonical_codes() -> None:
    """Duplicates, unknown ids, too much weight, and things in use."""
    made = profile(2)
    made.add_group(1, 2, [(1, 1, 0)])
    assert code_of(made.add_member, 1, cell(1)) == errors.ALREADY_EXISTS
    assert code_of(made.add_group, 1, 2, []) == errors.ALREADY_EXISTS
    assert code_of(made.add_group, 2, 2, [(9, 1, 0)]) == errors.NOT_FOUND
    assert code_of(made.modify_group, 1, [(1, 2, 0), (2, 1, 0)]) == errors.RESOURCE_EXHAUSTED
    assert code_of(made.modify_group, 1, [(1, 1, 0), (1, 1, 0)]) == errors.INVALID_ARGUMENT
    assert code_of(made.modify_group, 1, [(1, 0, 0)]) == errors.INVALID_ARGUMENT
    assert code_of(made.delete_member, 1) == errors.FAILED_PRECONDITION
    made.use(member_id=None, group_id=1, change=1)
    assert code_of(made.delete_group, 1) == errors.FAILED_PRECONDITION
    made.use(member_id=None, group_id=1, change=-1)
    made.delete_group(1)
    made.delete_member(1)
    assert [row[5] for row in (m.cell for m in made.members.values())] == [2]


def test_group_that_is_refused_does_not_exist() -> None:
    """An error leaves no half-made group."""
    made = profile(1)
    code_of(made.add_group, 5, 0, [(1, 1, 0), (7, 1, 0)])
    assert 5 not in made.groups
