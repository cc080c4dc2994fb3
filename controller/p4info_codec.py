# SPDX-License-Identifier: Apache-2.0
"""Entries to P4Runtime messages and back, by the names of a p4info.

Pure. Together with `session.py` the only place that knows the P4Runtime library, so that another
client can take its place.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

import finsy as fy
from finsy.p4schema import P4MatchType
from finsy.proto import p4r

from controller.entries import (
    NO_ACTION,
    ActionCall,
    CloneSession,
    DefaultEntry,
    Entry,
    Exact,
    Group,
    GroupRef,
    Lpm,
    MatchValue,
    Member,
    MemberRef,
    MulticastGroup,
    TableEntry,
    Ternary,
)
from controller.reconcile import Operation, Update

_OPERATIONS = {
    Operation.INSERT: p4r.Update.INSERT,
    Operation.MODIFY: p4r.Update.MODIFY,
    Operation.DELETE: p4r.Update.DELETE,
}

READ_ALONE_SIZE_MIN = 1024
"""Tables declared larger than this are read in a request of their own: the library ends every
request after 10 s."""


class CodecError(ValueError):
    """An entry that the p4info cannot express, or a message that cannot be understood."""


def encode_update(update: Update, schema: fy.P4Schema) -> p4r.Update:
    """The update as a P4Runtime message; CodecError if the p4info lacks a name or width."""
    return p4r.Update(type=_OPERATIONS[update.operation], entity=encode_entry(update.entry, schema))


def encode_entry(entry: Entry, schema: fy.P4Schema) -> p4r.Entity:
    """The entry as a P4Runtime message; CodecError if the p4info lacks a name or width."""
    try:
        return _entity(entry).encode(schema)
    except ValueError as error:
        raise CodecError(f"{entry.where}: {error}") from error


def decode_entry(message: p4r.Entity, schema: fy.P4Schema) -> Entry | None:
    """The entry in canonical form; None for a constant entry, which nobody can change."""
    try:
        match message.WhichOneof("entity"):
            case "table_entry":
                return _table_entry(fy.P4TableEntry.decode(message, schema), schema)
            case "action_profile_member":
                member = fy.P4ActionProfileMember.decode(message, schema)
                return Member(
                    profile=member.action_profile_id,
                    member_id=member.member_id,
                    action=_action_call(member.action),
                )
            case "action_profile_group":
                return _group(fy.P4ActionProfileGroup.decode(message, schema))
            case "packet_replication_engine_entry":
                return _replication(message.packet_replication_engine_entry)
            case other:
                raise CodecError(f"the switch answered with a {other}")
    except (ValueError, KeyError) as error:
        raise CodecError(f"an answer of the switch cannot be decoded: {error}") from error


def read_requests(
    schema: fy.P4Schema, names: Collection[str] | None = None
) -> Iterator[list[p4r.Entity]]:
    """What to read to see all entries of a switch, in groups of bounded size.

    names: only the entries of these tables and profiles, without defaults.
    """
    together: list[p4r.Entity] = []
    for table in schema.tables:
        if table.is_const or (names is not None and table.alias not in names):
            continue
        entity = p4r.Entity(table_entry=p4r.TableEntry(table_id=table.id))
        if table.size > READ_ALONE_SIZE_MIN:
            yield [entity]
        else:
            together.append(entity)
        if names is None and table.action_profile is None and table.const_default_action is None:
            together.append(
                p4r.Entity(table_entry=p4r.TableEntry(table_id=table.id, is_default_action=True))
            )
    for profile in schema.action_profiles:
        if names is not None and profile.alias not in names:
            continue
        yield [
            p4r.Entity(action_profile_member=p4r.ActionProfileMember(action_profile_id=profile.id)),
            p4r.Entity(action_profile_group=p4r.ActionProfileGroup(action_profile_id=profile.id)),
        ]
    if names is None:
        together += replication_entities()
    if together:
        yield together


def overfull(entries: Iterable[Entry], schema: fy.P4Schema) -> Iterator[str]:
    """One line for each table or profile that is too small for its entries."""
    wanted = Counter(
        entry.table if isinstance(entry, TableEntry) else entry.profile
        for entry in entries
        if isinstance(entry, TableEntry | Member)
    )
    sizes = table_sizes(schema)
    sizes |= {profile.alias: profile.size for profile in schema.action_profiles}
    for name, count in sorted(wanted.items()):
        if count > sizes.get(name, count):
            yield f"{name} would need {count} entries and has room for {sizes[name]}"


def table_sizes(schema: fy.P4Schema) -> dict[str, int]:
    """Entries that each table has room for."""
    return {table.alias: table.size for table in schema.tables}


def replication_entities() -> list[p4r.Entity]:
    """Wildcards for clone sessions and multicast groups; these need no p4info."""
    clone_sessions = p4r.PacketReplicationEngineEntry(clone_session_entry=p4r.CloneSessionEntry())
    groups = p4r.PacketReplicationEngineEntry(multicast_group_entry=p4r.MulticastGroupEntry())
    return [p4r.Entity(packet_replication_engine_entry=entry) for entry in (clone_sessions, groups)]


def _entity(
    entry: Entry,
) -> (
    fy.P4ActionProfileMember
    | fy.P4ActionProfileGroup
    | fy.P4TableEntry
    | fy.P4MulticastGroupEntry
    | fy.P4CloneSessionEntry
):
    match entry:
        case Member():
            return fy.P4ActionProfileMember(
                entry.profile, member_id=entry.member_id, action=_fy_action(entry.action)
            )
        case Group():
            return fy.P4ActionProfileGroup(
                entry.profile,
                group_id=entry.group_id,
                max_size=entry.max_size,
                members=[
                    fy.P4Member(member_id, weight=weight) for member_id, weight in entry.members
                ],
            )
        case TableEntry():
            action: fy.P4TableAction | fy.P4IndirectAction
            match entry.action:
                case ActionCall():
                    action = _fy_action(entry.action)
                case MemberRef(member_id):
                    action = fy.P4IndirectAction(member_id=member_id)
                case GroupRef(group_id):
                    action = fy.P4IndirectAction(group_id=group_id)
            return fy.P4TableEntry(
                entry.table,
                match=fy.P4TableMatch({name: _fy_match(value) for name, value in entry.match}),
                action=action,
                priority=entry.priority,
            )
        case DefaultEntry():
            return fy.P4TableEntry(
                entry.table, action=_fy_action(entry.action), is_default_action=True
            )
        case MulticastGroup():
            return fy.P4MulticastGroupEntry(entry.group_id, replicas=entry.replicas)
        case CloneSession():
            return fy.P4CloneSessionEntry(
                entry.session_id,
                replicas=entry.replicas,
                packet_length_bytes=entry.packet_bytes,
            )


def _fy_action(action: ActionCall) -> fy.P4TableAction:
    return fy.P4TableAction(action.name, **dict(action.params))


def _fy_match(value: MatchValue) -> int | tuple[int, int]:
    match value:
        case Exact(number):
            return number
        case Lpm(number, prefix_len):
            return number, prefix_len
        case Ternary(number, mask):
            return number, mask


def _table_entry(entry: fy.P4TableEntry, schema: fy.P4Schema) -> Entry | None:
    table = schema.tables[entry.table_id]
    if entry.is_const:
        return None
    if entry.is_default_action:
        assert not isinstance(entry.action, fy.P4IndirectAction), "tables with a profile have none"
        return DefaultEntry(table=entry.table_id, action=_action_call(entry.action))
    match: dict[str, MatchValue | int] = {}
    for field in table.match_fields:
        if field.alias not in (entry.match or {}):
            continue
        value = entry[field.alias]
        match field.match_type:
            case P4MatchType.EXACT:
                match[field.alias] = Exact(int(value))
            case P4MatchType.LPM:
                match[field.alias] = Lpm(int(value[0]), int(value[1]))
            case P4MatchType.TERNARY:
                match[field.alias] = Ternary(int(value[0]), int(value[1]))
            case other:
                raise CodecError(f"{entry.table_id}.{field.alias} has match type {other}")
    action: ActionCall | MemberRef | GroupRef
    match entry.action:
        case fy.P4IndirectAction(member_id=int(member_id)):
            action = MemberRef(member_id)
        case fy.P4IndirectAction(group_id=int(group_id)):
            action = GroupRef(group_id)
        case fy.P4IndirectAction():
            raise CodecError(f"{entry.table_id} has a one-shot action set")
        case direct:
            action = _action_call(direct)
    return TableEntry.of(entry.table_id, match, action, priority=entry.priority)


def _action_call(action: fy.P4TableAction | None) -> ActionCall:
    if action is None:
        return NO_ACTION
    return ActionCall.of(action.name, **{name: int(value) for name, value in action.args.items()})


def _group(group: fy.P4ActionProfileGroup) -> Group:
    members = []
    for member in group.members or ():
        weight = member.weight if isinstance(member.weight, int) else member.weight[0]
        members.append((member.member_id, weight))
    return Group(
        profile=group.action_profile_id,
        group_id=group.group_id,
        max_size=group.max_size,
        members=tuple(sorted(members)),
    )


def _replication(entry: p4r.PacketReplicationEngineEntry) -> CloneSession | MulticastGroup:
    match entry.WhichOneof("type"):
        case "clone_session_entry":
            session = entry.clone_session_entry
            return CloneSession(
                session_id=session.session_id,
                replicas=_replicas(session.replicas),
                packet_bytes=session.packet_length_bytes,
            )
        case "multicast_group_entry":
            group = entry.multicast_group_entry
            return MulticastGroup(
                group_id=group.multicast_group_id, replicas=_replicas(group.replicas)
            )
        case other:
            raise CodecError(f"the switch answered with a {other}")


def _replicas(replicas: Iterable[p4r.Replica]) -> tuple[tuple[int, int], ...]:
    found = []
    for replica in replicas:
        # P4Runtime 1.4 moved the port from a number to bytes; servers answer with either.
        port = (
            int.from_bytes(replica.port, "big") if replica.HasField("port") else replica.egress_port
        )
        found.append((port, replica.instance))
    return tuple(sorted(found))
