# SPDX-License-Identifier: Apache-2.0
"""P4Runtime messages to entries, by the names of a p4info.

Pure. Straight from the message to our own values: reading a whole fabric back is most of what an
apply that changes nothing does.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias
from weakref import WeakKeyDictionary

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


class CodecError(ValueError):
    """An entry that the p4info cannot express, or a message that cannot be understood."""


def decode_entry(message: p4r.Entity, schema: fy.P4Schema) -> Entry | None:
    """The entry in canonical form; None for a constant entry, which nobody can change."""
    names = _names(schema)
    try:
        match message.WhichOneof("entity"):
            case "table_entry":
                return names.table_entry(message.table_entry)
            case "action_profile_member":
                member = message.action_profile_member
                return Member(
                    profile=names.profiles[member.action_profile_id],
                    member_id=member.member_id,
                    action=names.action(member.action),
                )
            case "action_profile_group":
                group = message.action_profile_group
                return Group(
                    profile=names.profiles[group.action_profile_id],
                    group_id=group.group_id,
                    max_size=group.max_size,
                    members=tuple(sorted((one.member_id, one.weight) for one in group.members)),
                )
            case "packet_replication_engine_entry":
                return _replication(message.packet_replication_engine_entry)
            case other:
                raise CodecError(f"the switch answered with a {other}")
    except KeyError as error:
        raise CodecError(
            f"an answer of the switch cannot be decoded: no id {error} in the p4info"
        ) from error
    except CodecError:
        raise
    except ValueError as error:
        raise CodecError(f"an answer of the switch cannot be decoded: {error}") from error


_FIRST = itemgetter(0)
_DecodeField: TypeAlias = Callable[[p4r.FieldMatch], MatchValue]


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    fields: dict[int, tuple[str, _DecodeField]]
    """By field id."""


class _Names:
    """What the ids of a p4info mean."""

    def __init__(self, schema: fy.P4Schema) -> None:
        self.tables = {
            table.id: _Table(
                table.alias,
                {
                    field.id: (field.alias, _decoder(f"{table.alias}.{field.alias}", field))
                    for field in table.match_fields
                },
            )
            for table in schema.tables
        }
        self.profiles = {profile.id: profile.alias for profile in schema.action_profiles}
        self.actions = {
            action.id: (
                action.alias,
                {param.id: (param.name, param.bitwidth) for param in action.params},
            )
            for action in schema.actions
        }

    def table_entry(self, message: p4r.TableEntry) -> Entry | None:
        if message.is_const:
            return None
        table = self.tables[message.table_id]
        if message.is_default_action:
            return DefaultEntry(table=table.name, action=self.action(message.action.action))
        match = []
        for field in message.match:
            name, decode = table.fields[field.field_id]
            match.append((name, decode(field)))
        match.sort(key=_FIRST)
        return TableEntry(
            table=table.name,
            match=tuple(match),
            priority=message.priority,
            action=self._table_action(table.name, message.action),
        )

    def _table_action(
        self, table: str, message: p4r.TableAction
    ) -> ActionCall | MemberRef | GroupRef:
        match message.WhichOneof("type"):
            case "action":
                return self.action(message.action)
            case "action_profile_member_id":
                return MemberRef(message.action_profile_member_id)
            case "action_profile_group_id":
                return GroupRef(message.action_profile_group_id)
            case None:
                return NO_ACTION
            case _:
                raise CodecError(f"{table} has a one-shot action set")

    def action(self, message: p4r.Action) -> ActionCall:
        if not message.action_id:
            return NO_ACTION
        name, known = self.actions[message.action_id]
        params = []
        for param in message.params:
            param_name, bits = known[param.param_id]
            params.append((param_name, _number(name, param.value, bits)))
        params.sort(key=_FIRST)
        return ActionCall(name, tuple(params))


_KNOWN: "WeakKeyDictionary[fy.P4Schema, _Names]" = WeakKeyDictionary()


def _names(schema: fy.P4Schema) -> _Names:
    """Computed once for each schema."""
    names = _KNOWN.get(schema)
    if names is None:
        names = _KNOWN[schema] = _Names(schema)
    return names


def _decoder(what: str, field: "fy.p4schema.P4MatchField") -> _DecodeField:
    bits = field.bitwidth

    def exact(message: p4r.FieldMatch) -> MatchValue:
        if not message.HasField("exact"):
            raise CodecError(f"{what} is not an exact match")
        return Exact(_number(what, message.exact.value, bits))

    def lpm(message: p4r.FieldMatch) -> MatchValue:
        if not message.HasField("lpm"):
            raise CodecError(f"{what} is not a prefix match")
        length = message.lpm.prefix_len
        if not 0 < length <= bits:
            raise CodecError(f"{what} has a prefix of {length} bits")
        spare = bits - length
        return Lpm(_number(what, message.lpm.value, bits) >> spare << spare, length)

    def ternary(message: p4r.FieldMatch) -> MatchValue:
        if not message.HasField("ternary"):
            raise CodecError(f"{what} is not a ternary match")
        mask = _number(what, message.ternary.mask, bits)
        return Ternary(_number(what, message.ternary.value, bits) & mask, mask)

    def other(message: p4r.FieldMatch) -> MatchValue:
        raise CodecError(f"{what} has match type {field.match_type}")

    match field.match_type:
        case P4MatchType.EXACT:
            return exact
        case P4MatchType.LPM:
            return lpm
        case P4MatchType.TERNARY:
            return ternary
        case _:
            return other


def _number(what: str, value: bytes, bits: int) -> int:
    if not value:
        raise CodecError(f"{what} has an empty value")
    number = int.from_bytes(value, "big")
    if number >> bits:
        raise CodecError(f"{what} = {number} is wider than {bits} bits")
    return number


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
