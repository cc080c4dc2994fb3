# SPDX-License-Identifier: Apache-2.0
"""Action profiles and selectors at run time: members, groups, and what uses them."""

from dataclasses import dataclass, field

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.tables import Cell

GroupRow = tuple[int, int, bytes | int]
"""Member id, weight, and the watch port as the controller wrote it (0 or empty: none)."""


@dataclass(slots=True, kw_only=True)
class Member:
    """One member; `handle` is its place in BMv2's order, the lowest one free when it was made."""

    member_id: int
    handle: int
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

    def add_member(self, member_id: int, cell: Cell) -> None:
        """Create a member."""
        if member_id in self.members:
            raise StateError(errors.ALREADY_EXISTS, f"{self.name}: member {member_id} exists")
        if len(self.members) >= self.max_size:
            raise StateError(errors.RESOURCE_EXHAUSTED, f"{self.name}: {self.max_size} members")
        taken = {member.handle for member in self.members.values()}
        handle = next(number for number in range(len(taken) + 1) if number not in taken)
        self.members[member_id] = Member(member_id=member_id, handle=handle, cell=cell)
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
        del self.members[member_id]
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
        del self.groups[group_id]

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
        ordered = sorted(members, key=lambda row: self.member(row[0]).handle)
        group.members = list(members)
        group.cells[:] = [
            self.members[number].cell for number, weight, _ in ordered for _ in range(weight)
        ]

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
