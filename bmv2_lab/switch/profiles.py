# SPDX-License-Identifier: Apache-2.0
"""Action profiles and selectors at run time: members, groups, and what uses them.

The order in which the hash walks a group is BMv2's under its P4Runtime server: by handle. A member
has as many handles as its largest weight in any group, each the lowest one that is free when it is
needed, and a group of weight w holds the first w of them.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.tables import Cell

GroupRow = tuple[int, int, bytes | int]
"""Member id, weight, and the watch port as the controller wrote it (0 or empty: none)."""


@dataclass(slots=True, kw_only=True)
class Member:
    """One member and its handles, the oldest first."""

    member_id: int
    handles: list[int]
    cell: Cell


@dataclass(slots=True, kw_only=True)
class Group:
    """One group. `cells` is the list that the data plane indexes with the hash; it never moves."""

    group_id: int
    max_size: int
    members: list[GroupRow] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    control: int = 0  # max_size as the controller wrote it


@dataclass(slots=True)
class Profile:
    """Members and groups of one action profile, and how many table entries use each."""

    name: str
    max_size: int
    with_selector: bool
    members: dict[int, Member] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    member_cells: dict[int, list[Cell]] = field(default_factory=dict)
    used_members: dict[int, int] = field(default_factory=dict)
    used_groups: dict[int, int] = field(default_factory=dict)
    _handle_count: int = 0
    _free_handles: list[int] = field(default_factory=list)  # a heap

    def _new_handle(self) -> int:
        if self._free_handles:
            return heapq.heappop(self._free_handles)
        self._handle_count += 1
        return self._handle_count - 1

    def add_member(self, member_id: int, cell: Cell) -> None:
        """Create a member."""
        if member_id in self.members:
            raise StateError(errors.ALREADY_EXISTS, f"{self.name}: member {member_id} exists")
        if len(self.members) >= self.max_size:
            raise StateError(errors.RESOURCE_EXHAUSTED, f"{self.name}: {self.max_size} members")
        self.members[member_id] = Member(
            member_id=member_id, handles=[self._new_handle()], cell=cell
        )
        self.member_cells[member_id] = [cell]

    def member(self, member_id: int) -> Member:
        """The member of that id; NOT_FOUND otherwise."""
        try:
            return self.members[member_id]
        except KeyError:
            raise StateError(errors.NOT_FOUND, f"{self.name}: no member {member_id}") from None

    def modify_member(self, member_id: int, cell: Cell) -> None:
        """Change action and arguments in place, for all groups and entries that use the member."""
        self.member(member_id).cell[:] = cell

    def delete_member(self, member_id: int) -> None:
        """Remove a member that nothing uses; FAILED_PRECONDITION otherwise."""
        self.member(member_id)
        in_group = any(
            member_id == number for group in self.groups.values() for number, _, _ in group.members
        )
        if in_group or self.used_members.get(member_id):
            raise StateError(
                errors.FAILED_PRECONDITION, f"{self.name}: member {member_id} is in use"
            )
        for handle in self.members.pop(member_id).handles:
            heapq.heappush(self._free_handles, handle)
        del self.member_cells[member_id]

    def group(self, group_id: int) -> Group:
        """The group of that id; NOT_FOUND otherwise."""
        try:
            return self.groups[group_id]
        except KeyError:
            raise StateError(errors.NOT_FOUND, f"{self.name}: no group {group_id}") from None

    def add_group(self, group_id: int, max_size: int, members: list[GroupRow]) -> None:
        """Create a group."""
        if not self.with_selector:
            raise StateError(errors.INVALID_ARGUMENT, f"{self.name} has no selector")
        if group_id in self.groups:
            raise StateError(errors.ALREADY_EXISTS, f"{self.name}: group {group_id} exists")
        group = Group(group_id=group_id, max_size=max_size)
        self._fill(group, members)
        self.groups[group_id] = group

    def modify_group(self, group_id: int, members: list[GroupRow]) -> None:
        """Replace the members of a group."""
        self._fill(self.group(group_id), members)

    def delete_group(self, group_id: int) -> None:
        """Remove a group that no entry uses; FAILED_PRECONDITION otherwise."""
        self.group(group_id)
        if self.used_groups.get(group_id):
            raise StateError(errors.FAILED_PRECONDITION, f"{self.name}: group {group_id} is in use")
        members = self.groups.pop(group_id).members
        self._drop_unused_handles(number for number, _, _ in members)

    def _fill(self, group: Group, members: list[GroupRow]) -> None:
        if len({number for number, _, _ in members}) != len(members):
            raise StateError(errors.INVALID_ARGUMENT, "a member stands twice in one group")
        if any(weight < 1 for _, weight, _ in members):
            raise StateError(errors.INVALID_ARGUMENT, "a weight must be at least 1")
        total = sum(weight for _, weight, _ in members)
        if group.max_size and total > group.max_size:
            raise StateError(
                errors.RESOURCE_EXHAUSTED,
                f"group {group.group_id}: total weight {total} is above {group.max_size}",
            )
        weights = {self.member(number).member_id: weight for number, weight, _ in members}
        touched = weights.keys() | {number for number, _, _ in group.members}
        for number in sorted(weights):
            handles = self.members[number].handles
            while len(handles) < weights[number]:
                handles.append(self._new_handle())
        group.members = list(members)
        ordered = sorted(
            (handle, number)
            for number, weight in weights.items()
            for handle in self.members[number].handles[:weight]
        )
        group.cells[:] = [self.members[number].cell for _, number in ordered]
        self._drop_unused_handles(touched, group)

    def _drop_unused_handles(self, touched: Iterable[int], changed: Group | None = None) -> None:
        """Free the handles above the largest weight that a member has in any group."""
        several = [number for number in sorted(touched) if len(self.members[number].handles) > 1]
        if not several:
            return
        largest = dict.fromkeys(several, 1)
        groups = list(self.groups.values())
        if changed is not None:
            groups.append(changed)  # a new group is not in the table yet
        for group in groups:
            for number, weight, _ in group.members:
                if number in largest:
                    largest[number] = max(largest[number], weight)
        for number in several:
            handles = self.members[number].handles
            while len(handles) > largest[number]:
                heapq.heappush(self._free_handles, handles.pop())

    def use(self, *, member_id: int | None, group_id: int | None, change: int) -> None:
        """Count a table entry that refers to a member or group (+1), or no longer does (-1)."""
        if member_id is not None:
            self.used_members[member_id] = self.used_members.get(member_id, 0) + change
        if group_id is not None:
            self.used_groups[group_id] = self.used_groups.get(group_id, 0) + change

    def clear(self) -> None:
        """Forget everything."""
        self.members.clear()
        self.groups.clear()
        self.member_cells.clear()
        self.used_members.clear()
        self.used_groups.clear()
