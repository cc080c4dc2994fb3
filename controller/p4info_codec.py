# SPDX-License-Identifier: Apache-2.0
"""Entries to P4Runtime messages and back, by the names of a p4info.

Pure. Together with `session.py` the only place that knows the P4Runtime library, so that another
client can take its place.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

import finsy as fy
from finsy.proto import p4r

from controller.entries import (
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
from controller.p4info_decode import CodecError, decode_entry
from controller.reconcile import Operation, Update

__all__ = [
    "CodecError",
    "decode_entry",
    "encode_entry",
    "encode_update",
    "overfull",
    "read_requests",
    "replication_entities",
    "shared_update",
    "table_sizes",
]

_OPERATIONS = {
    Operation.INSERT: p4r.Update.INSERT,
    Operation.MODIFY: p4r.Update.MODIFY,
    Operation.DELETE: p4r.Update.DELETE,
}

SHARED_COUNT_MAX = 4_096
"""Updates that are remembered: some hundred bytes each."""
READ_ALONE_SIZE_MIN = 1024
"""Tables declared larger than this are read in a request of their own: the library ends every
request after 10 s."""


def encode_update(update: Update, schema: fy.P4Schema) -> p4r.Update:
    """The update as a P4Runtime message; CodecError if the p4info lacks a name or width."""
    return p4r.Update(type=_OPERATIONS[update.operation], entity=encode_entry(update.entry, schema))


def shared_update(update: Update, schema: fy.P4Schema) -> p4r.Update:
    """As `encode_update`, but a message that is shared and must not be changed.

    Switches of a tier get many updates that are the same, and to encode one takes longer than to
    find it again.
    """
    return _shared(update.operation, update.entry, schema)


@lru_cache(maxsize=SHARED_COUNT_MAX)
def _shared(operation: Operation, entry: Entry, schema: fy.P4Schema) -> p4r.Update:
    return encode_update(Update(operation=operation, entry=entry), schema)


def encode_entry(entry: Entry, schema: fy.P4Schema) -> p4r.Entity:
    """The entry as a P4Runtime message; CodecError if the p4info lacks a name or width."""
    try:
        return _entity(entry).encode(schema)
    except ValueError as error:
        raise CodecError(f"{entry.where}: {error}") from error


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
