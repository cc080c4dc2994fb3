# SPDX-License-Identifier: Apache-2.0
"""The tables of an embedded switch as P4Runtime entities, to be written to another switch.

Entries that tests made without P4Runtime (a route with its members in line) get members and groups
of their own, since BMv2's server does not mix one-shot and member programming in one profile.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from finsy.proto import p4r

from bmv2_lab.switch import EmbeddedSwitch
from bmv2_lab.switch.p4values import EntryControl, encode_action, encode_entry
from bmv2_lab.switch.pipeline_info import PipelineInfo, TableInfo
from bmv2_lab.switch.profiles import Profile
from bmv2_lab.switch.state import SwitchState
from bmv2_lab.switch.tables import INDIRECT, Cell, Entry

OWN_MEMBERS = 0x40000000
"""Members and groups of in-line routes are numbered from here on."""

# In the order in which they must be inserted; deleted in the reverse order.
REPLICATION = ("clone_session", "multicast_group")
KINDS = ("member", "group", "table", "default", *REPLICATION)


@dataclass(frozen=True, slots=True)
class Row:
    """One entity: what it is called, and what it holds (a serialised `p4r.Entity`)."""

    kind: str
    key: object
    content: bytes
    uses_profile: bool = False

    def entity(self) -> p4r.Entity:
        return p4r.Entity.FromString(self.content)


Rows = dict[tuple[str, object], Row]


class _Reader:
    """Reads one switch."""

    def __init__(self, state: SwitchState, info: PipelineInfo) -> None:
        self.state = state
        self.info = info
        self.own = OWN_MEMBERS
        self.known: dict[int, tuple[str, int]] = {}
        """Lists of cells that a profile holds: a member's or a group's, and its id."""
        for profile in state.profiles.values():
            for number, cells in profile.member_cells.items():
                self.known[id(cells)] = ("action_profile_member_id", number)
            for number, group in profile.groups.items():
                self.known[id(group.cells)] = ("action_profile_group_id", number)

    def rows(self) -> Iterator[Row]:
        for number, profile in self.info.profiles.items():
            yield from self.profile(number, self.state.profiles[profile.preamble.name])
        for table in self.info.tables.values():
            yield from self.table(table)
        for session in self.state.clone_sessions.values():
            entity = p4r.Entity()
            clone = entity.packet_replication_engine_entry.clone_session_entry
            clone.session_id = session.session_id
            _replicas(clone, session.replicas)
            yield _row("clone_session", session.session_id, entity)
        for group_id, replicas in self.state.multicast_groups.items():
            entity = p4r.Entity()
            group = entity.packet_replication_engine_entry.multicast_group_entry
            group.multicast_group_id = group_id
            _replicas(group, replicas)
            yield _row("multicast_group", group_id, entity)

    def profile(self, number: int, profile: Profile) -> Iterator[Row]:
        for member in sorted(profile.members.values(), key=lambda item: item.handles):
            yield self.member(number, member.member_id, member.cell)
        for group in profile.groups.values():
            entity = p4r.Entity()
            message = entity.action_profile_group
            message.action_profile_id = number
            message.group_id = group.group_id
            message.max_size = group.max_size
            for member_id, weight, _ in group.members:
                message.members.add(member_id=member_id, weight=weight)
            yield _row("group", (number, group.group_id), entity)

    def member(self, profile: int, member_id: int, cell: Cell) -> Row:
        entity = p4r.Entity()
        message = entity.action_profile_member
        message.action_profile_id, message.member_id = profile, member_id
        action = encode_action(self.state, self.info, cell)
        assert action is not None
        message.action.CopyFrom(action)
        return _row("member", (profile, member_id), entity)

    def table(self, table: TableInfo) -> Iterator[Row]:
        found = self.state.tables[table.name]
        for entry in found.entries.values():
            if not entry.const:
                yield from self.entry(table, entry)
        if table.profile is None and not table.spec.default_const:
            entity = p4r.Entity()
            entity.table_entry.table_id = table.number
            entity.table_entry.is_default_action = True
            if found.initial_default is None or found.default[0:3] + found.default[5:] != (
                found.initial_default[0:3] + found.initial_default[5:]
            ):
                action = encode_action(self.state, self.info, found.default)
                if action is not None:
                    entity.table_entry.action.action.CopyFrom(action)
                    yield _row("default", table.number, entity)

    def entry(self, table: TableInfo, entry: Entry) -> Iterator[Row]:
        message = encode_entry(self.state, self.info, table, entry, p4r.TableEntry())
        control = entry.control
        in_line = entry.cell[1] == INDIRECT and (
            not isinstance(control, EntryControl) or control.action_set is not None
        )
        if in_line and id(entry.cell[5]) in self.known:
            kind, number = self.known[id(entry.cell[5])]
            message.action.Clear()
            setattr(message.action, kind, number)
        elif in_line and not self.state.profiles[str(table.profile)].with_selector:
            (cell,) = entry.cell[5]
            self.own += 1
            yield self.member(table.message.implementation_id, self.own, cell)
            message.action.Clear()
            message.action.action_profile_member_id = self.own
        elif in_line:
            number = table.message.implementation_id
            group = p4r.Entity()
            group.action_profile_group.action_profile_id = number
            self.own += 1
            group_id = group.action_profile_group.group_id = self.own
            for cell in entry.cell[5]:
                self.own += 1
                yield self.member(number, self.own, cell)
                group.action_profile_group.members.add(member_id=self.own, weight=1)
            group.action_profile_group.max_size = len(entry.cell[5])
            yield _row("group", (number, group_id), group)
            message.action.Clear()
            message.action.action_profile_group_id = group_id
        key = (table.number, tuple(entry.match), entry.priority)
        row = _row("table", key, p4r.Entity(table_entry=message))
        yield replace(row, uses_profile=table.profile is not None)


def _row(kind: str, key: object, entity: p4r.Entity) -> Row:
    return Row(kind, key, entity.SerializeToString(deterministic=True))


def _replicas(
    message: p4r.CloneSessionEntry | p4r.MulticastGroupEntry, rows: Iterable[tuple[int, int]]
) -> None:
    for port, instance in rows:
        message.replicas.add(egress_port=port, instance=instance)


def read_rows(switch: EmbeddedSwitch, info: PipelineInfo) -> Rows:
    """Everything that was programmed, by kind and key."""
    return {(row.kind, row.key): row for row in _Reader(switch.state, info).rows()}


def fingerprint(state: SwitchState) -> list[object]:
    """Equal as long as nothing was programmed; cheaper than reading all rows."""
    marks: list[object] = [
        dict(state.clone_sessions),
        dict(state.multicast_groups),
    ]
    for table in state.tables.values():
        marks.append([table.default[1], *table.default[5:]])
        for entry in table.entries.values():
            if entry.cell[1] == INDIRECT:
                marks.append((entry.order, [(cell[1], *cell[5:]) for cell in entry.cell[5]]))
            else:
                marks.append((entry.order, entry.cell[1], *entry.cell[5:]))
    for profile in state.profiles.values():
        marks.append({number: (m.cell[1], *m.cell[5:]) for number, m in profile.members.items()})
        marks.append({number: list(group.members) for number, group in profile.groups.items()})
    return marks


def kept_at_takeover(rows: Rows, wanted: Rows) -> Rows:
    """Rows that may stay when a switch becomes another one: equal, and no part of a profile.

    Members stand in a group in the order of their creation, so all of them are made anew.
    """
    return {
        key: row
        for key, row in rows.items()
        if row.content == (wanted[key].content if key in wanted else None)
        and row.kind not in ("member", "group")
        and not row.uses_profile
    }


def updates(wanted: Rows, present: Rows) -> list[list[p4r.Update]]:
    """Batches of updates that lead from what is present to what is wanted."""
    update = p4r.Update
    batches: list[list[p4r.Update]] = []
    for kind in KINDS:
        batch = []
        for key, row in wanted.items():
            old = present.get(key)
            if row.kind != kind or (old is not None and old.content == row.content):
                continue
            how = update.INSERT if old is None and kind != "default" else update.MODIFY
            batch.append(p4r.Update(type=how, entity=row.entity()))
        batches.append(batch)
    for kind in reversed(KINDS):
        batch = []
        for key, row in present.items():
            if row.kind != kind or key in wanted:
                continue
            entity = row.entity()
            if kind == "default":  # back to the program's own
                entity.table_entry.ClearField("action")
            batch.append(
                p4r.Update(
                    type=update.MODIFY if kind == "default" else update.DELETE, entity=entity
                )
            )
        batches.append(batch)
    return [batch for batch in batches if batch]
