# SPDX-License-Identifier: Apache-2.0
"""Action profile members and groups."""

from time import perf_counter

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


def places(made: Profile, group: int) -> list[int]:
    """Which member stands at each place that the hash may give."""
    return [row[5] for row in made.groups[group].cells]


def test_group_is_ordered_by_the_creation_of_members() -> None:
    """BMv2 orders a group by member handle, whatever order the controller wrote."""
    made = profile(3)
    made.add_group(1, 8, [(3, 1, 0), (1, 1, 0), (2, 1, 0)])
    assert places(made, 1) == [1, 2, 3]


def test_copies_of_a_weight_stand_where_they_were_made() -> None:
    """Further handles come when the first group needs them, and stay for the next group."""
    made = profile(3)
    made.add_group(1, 8, [(3, 1, 0), (1, 2, 0)])
    assert places(made, 1) == [1, 3, 1]
    made.add_group(2, 8, [(1, 3, 0), (2, 2, 0)])
    assert places(made, 2) == [1, 2, 1, 1, 2]


def test_handles_of_a_weight_that_is_gone_are_used_again() -> None:
    """With the only heavy group its copies go; the next member takes the lowest free handle."""
    made = profile(2)
    made.add_group(1, 8, [(1, 3, 0), (2, 2, 0)])
    assert places(made, 1) == [1, 2, 1, 1, 2]
    made.modify_group(1, [(1, 1, 0), (2, 2, 0)])
    made.add_member(3, cell(3))
    made.add_group(2, 8, [(3, 1, 0), (2, 2, 0)])
    assert places(made, 2) == [2, 3, 2]
    made.delete_group(1)
    made.delete_group(2)
    made.add_group(3, 8, [(1, 2, 0), (3, 1, 0)])
    assert places(made, 3) == [1, 3, 1]


def test_many_members_are_made_in_no_time() -> None:
    """16384 members, as a full selector has, take far below a second."""
    made = Profile("p", 1 << 14, True)
    begin_s = perf_counter()
    for number in range(1 << 14):
        made.add_member(number, cell(number))
    assert perf_counter() - begin_s < 2


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
