# SPDX-License-Identifier: Apache-2.0
"""Action profile members and groups."""

import sys

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


def steps_of_members(count: int) -> int:
    """Lines of Python that run while so many members are made."""
    made, lines = Profile("p", count, True), 0

    def trace(_frame: object, event: str, _argument: object) -> object:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type] # any function of these arguments
    try:
        for number in range(count):
            made.add_member(number, cell(number))
    finally:
        sys.settrace(before)
    return lines


def test_a_member_takes_as_many_steps_however_many_there_are() -> None:
    """A full selector has 16384; twice as many members take twice as many steps."""
    few, many = steps_of_members(500), steps_of_members(1000)
    assert many < 2.1 * few


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


# One-shot sets


def values(cells: list[Cell]) -> list[int]:
    """Which actions a set leads to, place by place."""
    return [row[5] for row in cells]


def test_set_repeats_its_actions_by_weight() -> None:
    """Each unit of weight is a handle of its own, in the order of the rows."""
    made = Profile("p", 8, True)
    first = made.add_set([(cell(1), 1, 0), (cell(2), 3, 0)], 0)
    assert values(first.cells) == [1, 2, 2, 2]
    made.drop_set(first.cells)
    assert not made.action_sets


def test_set_takes_the_lowest_free_handles_and_is_walked_by_handle() -> None:
    """As BMv2: handles that an older set left come first."""
    made = Profile("p", 8, True)
    old = made.add_set([(cell(1), 1, 0)], 0)
    made.add_set([(cell(2), 1, 0)], 0)
    made.drop_set(old.cells)
    new = made.add_set([(cell(3), 1, 0), (cell(4), 1, 0)], 0)
    assert sorted(new.handles) == [0, 2]
    assert values(new.cells) == [3, 4]


def test_sets_and_members_do_not_mix() -> None:
    """INVALID_ARGUMENT for the other style while one is in use."""
    made = profile(1)
    assert code_of(made.add_set, [(cell(1), 1, 0)], 0) == errors.INVALID_ARGUMENT
    made.delete_member(1)
    kept = made.add_set([(cell(1), 1, 0)], 0)
    assert code_of(made.add_member, 2, cell(2)) == errors.INVALID_ARGUMENT
    assert code_of(made.add_group, 2, 0, []) == errors.INVALID_ARGUMENT
    made.drop_set(kept.cells)
    made.add_member(2, cell(2))


def test_sets_that_are_too_large_are_refused() -> None:
    """By weight, by the size of the profile, and by the memory that weights would take."""
    made = Profile("p", 2, True)
    assert code_of(made.add_set, [(cell(1), 5, 0)], 4) == errors.RESOURCE_EXHAUSTED
    assert code_of(made.add_set, [(cell(1), 1 << 30, 0)], 0) == errors.RESOURCE_EXHAUSTED
    assert code_of(made.add_set, [(cell(n), 1, 0) for n in range(3)], 0) == (
        errors.RESOURCE_EXHAUSTED
    )
    assert code_of(made.add_set, [(cell(1), 0, 0)], 0) == errors.INVALID_ARGUMENT
    assert code_of(made.add_set, [], 0) == errors.UNIMPLEMENTED
    assert made._handle_count == 0


def test_size_may_count_members_instead_of_weights() -> None:
    """The `sum_of_members` semantics of P4Info, with a largest weight."""
    made = profile(2)
    made.counts_members, made.weight_max = True, 5
    made.add_group(1, 2, [(1, 5, 0), (2, 5, 0)])
    assert code_of(made.modify_group, 1, [(1, 6, 0)]) == errors.INVALID_ARGUMENT


# Watch ports


def test_members_of_a_dead_port_are_left_out() -> None:
    """In groups and sets, in the old field and the new; they come back with the port."""
    made = profile(3)
    made.add_group(1, 8, [(1, 1, b"\1"), (2, 2, 2), (3, 1, b"")])
    made.set_port(2, up=False)
    assert places(made, 1) == [1, 3]
    made.modify_group(1, [(1, 1, b"\1"), (2, 1, 2)])
    made.set_port(1, up=False)
    assert places(made, 1) == []
    made.set_port(1, up=True)
    made.set_port(2, up=True)
    assert places(made, 1) == [1, 2]
    one_shot = Profile("q", 8, True)
    one_shot.set_port(7, up=False)
    made_set = one_shot.add_set([(cell(1), 1, b"\7"), (cell(2), 1, 0)], 0)
    assert values(made_set.cells) == [2]
    one_shot.set_port(7, up=True)
    assert values(made_set.cells) == [1, 2]
