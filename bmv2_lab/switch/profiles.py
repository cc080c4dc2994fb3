# SPDX-License-Identifier: Apache-2.0
"""Action profiles and selectors at run time: members, groups, and what uses them.

The order in which the hash walks a group is BMv2's under its P4Runtime server: by handle. A member
has as many handles as its largest weight in any group, each the lowest one that is free when it is
needed, and a group of weight w holds the first w of them. A one-shot set takes a handle of its own
for each unit of weight. Handles whose watch port is down are left out.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.tables import Cell

WatchPort = bytes | int
"""A watch port as the controller wrote it; 0 or empty: none."""

GroupRow = tuple[int, int, WatchPort]
"""Member id, weight and watch port."""

ActionRow = tuple[Cell, int, WatchPort]
"""The same for one action of a one-shot set."""

# The largest total weight of a group without a limit of its own: each unit is a list element.
TOTAL_WEIGHT_MAX = 1 << 16


def watch_port_number(watch: WatchPort) -> int:
    """The port, 0 for none."""
    return int.from_bytes(watch, "big") if isinstance(watch, bytes) else watch


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
    slots: list[tuple[int, Cell]] = field(default_factory=list)  # watch port, cell, by handle


@dataclass(slots=True, kw_only=True, eq=False)
class ActionSet:
    """The one-shot set of one table entry; `cells` as in a group."""

    rows: list[ActionRow]
    handles: list[int]
    cells: list[Cell] = field(default_factory=list)
    slots: list[tuple[int, Cell]] = field(default_factory=list)


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
    action_sets: dict[int, ActionSet] = field(default_factory=dict)  # by id(cells)
    down_ports: set[int] = field(default_factory=set)
    counts_members: bool = False  # a group's size is its members, not the sum of their weights
    weight_max: int = 0  # of one member, 0: no limit
    _handle_count: int = 0
    _free_handles: list[int] = field(default_factory=list)  # a heap

    def _new_handle(self) -> int:
        if self._free_handles:
            return heapq.heappop(self._free_handles)
        self._handle_count += 1
        return self._handle_count - 1

    def check_manual(self) -> None:
        """INVALID_ARGUMENT while one-shot sets are in use: the two styles do not mix."""
        if self.action_sets:
            raise StateError(
                errors.INVALID_ARGUMENT, f"{self.name} is programmed with one-shot action sets"
            )

    def add_member(self, member_id: int, cell: Cell) -> None:
        """Create a member."""
        self.check_manual()
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
        self.check_manual()
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
        self.check_size([weight for _, weight, _ in members], group.max_size)
        weights = {self.member(number).member_id: weight for number, weight, _ in members}
        touched = weights.keys() | {number for number, _, _ in group.members}
        for number in sorted(weights):
            handles = self.members[number].handles
            while len(handles) < weights[number]:
                handles.append(self._new_handle())
        group.members = list(members)
        ports = {number: watch_port_number(watch) for number, _, watch in members}
        ordered = sorted(
            (handle, number)
            for number, weight in weights.items()
            for handle in self.members[number].handles[:weight]
        )
        group.slots = [(ports[number], self.members[number].cell) for _, number in ordered]
        self._choose_cells(group)
        self._drop_unused_handles(touched, group)

    def check_size(self, weights: list[int], max_size: int) -> None:
        """Weights and size of a group or set; RESOURCE_EXHAUSTED where it is too large."""
        if any(weight < 1 for weight in weights):
            raise StateError(errors.INVALID_ARGUMENT, "a weight must be at least 1")
        if self.weight_max and max(weights, default=0) > self.weight_max:
            raise StateError(errors.INVALID_ARGUMENT, f"a weight is above {self.weight_max}")
        total = sum(weights)
        size = len(weights) if self.counts_members else total
        if (max_size and size > max_size) or total > TOTAL_WEIGHT_MAX:
            raise StateError(
                errors.RESOURCE_EXHAUSTED,
                f"{self.name}: size {size} is above {max_size or TOTAL_WEIGHT_MAX}",
            )

    # One-shot sets

    def add_set(self, rows: list[ActionRow], max_size: int) -> ActionSet:
        """Make the set of one table entry."""
        if self.members or self.groups:
            raise StateError(
                errors.INVALID_ARGUMENT, f"{self.name} is programmed with members and groups"
            )
        if not rows:
            raise StateError(errors.UNIMPLEMENTED, "an action set needs an action")
        self.check_size([weight for _, weight, _ in rows], max_size)
        known = sum(len(item.rows) for item in self.action_sets.values())
        if known + len(rows) > self.max_size:
            raise StateError(errors.RESOURCE_EXHAUSTED, f"{self.name}: {self.max_size} members")
        ordered = sorted(
            (self._new_handle(), watch_port_number(watch), number)
            for number, (_, weight, watch) in enumerate(rows)
            for _ in range(weight)
        )
        made = ActionSet(rows=rows, handles=[handle for handle, _, _ in ordered])
        made.slots = [(port, rows[number][0]) for _, port, number in ordered]
        self._choose_cells(made)
        self.action_sets[id(made.cells)] = made
        return made

    def drop_set(self, cells: list[Cell]) -> None:
        """Forget the set whose `cells` these are, if it is one."""
        made = self.action_sets.pop(id(cells), None)
        if made is not None:
            for handle in made.handles:
                heapq.heappush(self._free_handles, handle)

    # Watch ports

    def _choose_cells(self, group: Group | ActionSet) -> None:
        """Leave out what waits for a port that is down."""
        group.cells[:] = [cell for port, cell in group.slots if port not in self.down_ports]

    def set_port(self, port: int, *, up: bool) -> None:
        """A port went up or down."""
        if up:
            self.down_ports.discard(port)
        else:
            self.down_ports.add(port)
        groups: list[Group | ActionSet] = [*self.groups.values(), *self.action_sets.values()]
        for group in groups:
            if any(watch == port for watch, _ in group.slots):
                self._choose_cells(group)

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
        self.action_sets.clear()
