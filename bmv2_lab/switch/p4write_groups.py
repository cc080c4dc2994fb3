# SPDX-License-Identifier: Apache-2.0
"""Updates of action profiles, clone sessions and multicast groups."""

from collections.abc import Iterable

from finsy.proto import p4r

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.p4target import Target
from bmv2_lab.switch.p4values import PORT_MAX, decode_member_action, decode_watch
from bmv2_lab.switch.pipeline_info import TableInfo, lookup
from bmv2_lab.switch.profiles import Profile
from bmv2_lab.switch.state import CloneSession

INSERT, DELETE = p4r.Update.INSERT, p4r.Update.DELETE

# Ids of clone sessions that BMv2 accepts; its multicast groups of higher ids serve them.
CLONE_SESSION_MAX = MULTICAST_GROUP_MAX = 32767
INSTANCE_MAX = (1 << 16) - 1  # v1model's egress_rid


def _invalid(message: str) -> StateError:
    return StateError(errors.INVALID_ARGUMENT, message)


def _unimplemented(message: str) -> StateError:
    return StateError(errors.UNIMPLEMENTED, message)


class GroupWriter:
    """Applies updates; an update that raises StateError changes nothing."""

    def __init__(self, target: Target) -> None:
        self.state = target.state
        self.info = target.info

    # Action profiles

    def _profile(self, number: int) -> tuple[Profile, list[TableInfo], int]:
        message = lookup(self.info.profiles, number, "action profile")
        tables = [self.info.tables[n] for n in message.table_ids if n in self.info.tables]
        return self.state.profiles[message.preamble.name], tables, message.max_group_size

    def member(self, kind: int, message: p4r.ActionProfileMember) -> None:
        """A member."""
        profile, tables, _ = self._profile(message.action_profile_id)
        if message.member_id == 0:
            raise _invalid("member id 0 is not allowed")
        if kind == DELETE:
            profile.delete_member(message.member_id)
            return
        profile.check_manual()
        if not message.HasField("action"):
            raise _invalid("a member needs an action")
        cell = decode_member_action(self.state, self.info, tables, message.action)
        if kind == INSERT:
            profile.add_member(message.member_id, cell)
        else:
            profile.modify_member(message.member_id, cell)

    def group(self, kind: int, message: p4r.ActionProfileGroup) -> None:
        """A group."""
        profile, _, limit = self._profile(message.action_profile_id)
        if message.group_id == 0:
            raise _invalid("group id 0 is not allowed")
        if kind == DELETE:
            profile.delete_group(message.group_id)
            return
        members = [(row.member_id, row.weight, decode_watch(row)) for row in message.members]
        if kind == INSERT:
            if message.max_size < 0 or (limit and message.max_size > limit):
                raise _invalid(f"max_size {message.max_size} is not in 0 to {limit or 'any'}")
            profile.add_group(message.group_id, message.max_size or limit, members)
            profile.groups[message.group_id].control = message.max_size
        else:
            group = profile.group(message.group_id)
            if message.max_size and message.max_size != group.control:
                raise _invalid("max_size of a group cannot change")
            profile.modify_group(message.group_id, members)

    # Replication

    def replication(self, kind: int, message: p4r.PacketReplicationEngineEntry) -> None:
        """A clone session or a multicast group."""
        match message.WhichOneof("type"):
            case "clone_session_entry":
                self._clone_session(kind, message.clone_session_entry)
            case "multicast_group_entry":
                self._multicast(kind, message.multicast_group_entry)
            case _:
                raise _invalid("a replication entry needs a type")

    def _clone_session(self, kind: int, message: p4r.CloneSessionEntry) -> None:
        number = message.session_id
        if not 0 < number <= CLONE_SESSION_MAX:
            raise _invalid(f"clone session ids are 1 to {CLONE_SESSION_MAX}")
        known = self.state.clone_sessions
        _presence(kind, number in known, f"clone session {number}")
        if kind == DELETE:
            del known[number]
            return
        if message.class_of_service or message.packet_length_bytes:
            # As BMv2: a program that wants shorter clones truncates them itself.
            raise _unimplemented("class of service and truncation of clones are not supported")
        known[number] = CloneSession(
            session_id=number,
            replicas=_replicas(message.replicas),
            control=[bool(replica.port) for replica in message.replicas],
        )

    def _multicast(self, kind: int, message: p4r.MulticastGroupEntry) -> None:
        number = message.multicast_group_id
        if number == 0:
            raise _invalid("multicast group id 0 is not allowed")
        if number > MULTICAST_GROUP_MAX:
            raise StateError(
                errors.OUT_OF_RANGE, f"multicast group ids are 1 to {MULTICAST_GROUP_MAX}"
            )
        known = self.state.multicast_groups
        _presence(kind, number in known, f"multicast group {number}")
        if kind == DELETE:
            del known[number]
            self.state.multicast_control.pop(number, None)
            return
        known[number] = _replicas(message.replicas)
        self.state.multicast_control[number] = (
            [bool(replica.port) for replica in message.replicas],
            message.metadata,
        )


def _presence(kind: int, exists: bool, what: str) -> None:
    if kind == INSERT and exists:
        raise StateError(errors.ALREADY_EXISTS, f"{what} exists already")
    if kind != INSERT and not exists:
        raise StateError(errors.NOT_FOUND, f"no {what}")


def _replicas(messages: Iterable[p4r.Replica]) -> tuple[tuple[int, int], ...]:
    """(port, instance) rows; the port in the old or the new field."""
    rows = []
    for replica in messages:
        if replica.backup_replicas:
            raise _unimplemented("backup replicas are not supported")
        kind = replica.WhichOneof("port_kind")
        if kind is None or (kind == "port" and not replica.port):
            raise _invalid("a replica needs a port")
        port = int.from_bytes(replica.port, "big") if kind == "port" else replica.egress_port
        if port > PORT_MAX or (kind == "port" and port == 0):
            raise _invalid(f"ports are 1 to {PORT_MAX}")
        if replica.instance > INSTANCE_MAX:
            raise _invalid(f"instances are 0 to {INSTANCE_MAX}")
        rows.append((port, replica.instance))
    if len(set(rows)) != len(rows):
        raise _invalid("a replica stands twice")
    return tuple(rows)
