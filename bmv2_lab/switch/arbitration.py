# SPDX-License-Identifier: Apache-2.0
"""Who may write: primary and backup controllers per role (P4Runtime 1.3, section 5).

The primary of a role is the controller with the highest election id that was ever seen for it.
When it leaves there is none, until a controller announces an id that is at least as high; BMv2's
server still promotes the backup with the next lower id by itself, as P4Runtime 1.0 had it.

No I/O: the server calls these functions and sends the updates that they return.
"""

from dataclasses import dataclass, field

from google.protobuf.any_pb2 import Any as AnyMessage

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.roles import RoleConfig

# Streams per role and device; each costs a task and a queue.
STREAM_LIMIT = 32
# Roles per device: their highest election ids are kept when their controllers are gone.
ROLE_LIMIT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbitrationUpdate:
    """What to tell one stream: its status code, and the highest election id so far.

    `election_id` is None as long as the role never had a primary; `config` is the primary's.
    """

    stream: int
    role: str
    code: int
    election_id: int | None
    config: AnyMessage | None = None


@dataclass(slots=True, kw_only=True)
class _Role:
    name: str
    streams: dict[int, int | None] = field(default_factory=dict)  # stream -> election id
    primary: int | None = None
    highest: int | None = None  # highest election id ever seen
    config: AnyMessage | None = None
    rights: RoleConfig | None = None


@dataclass(slots=True)
class Arbitration:
    """The controllers of one device."""

    _roles: dict[str, _Role] = field(default_factory=lambda: {"": _Role(name="")})
    _role_of: dict[int, _Role] = field(default_factory=dict)

    def request(
        self,
        stream: int,
        role_name: str,
        election_id: int | None,
        config: AnyMessage | None = None,
    ) -> list[ArbitrationUpdate]:
        """A controller announces itself; with `election_id` None it never becomes primary.

        StateError ends the stream: the id is taken, the role is another one than before, its
        configuration is not understood, or there are too many streams.
        """
        current = self._role_of.get(stream)
        if current is not None and current.name != role_name:
            raise StateError(errors.FAILED_PRECONDITION, "The role of a stream cannot change")
        rights = RoleConfig.parse(config) if config is not None else None
        self._check_overlap(role_name, rights)
        role = self._find(role_name)
        if election_id is not None and any(
            known == election_id for other, known in role.streams.items() if other != stream
        ):
            raise StateError(errors.INVALID_ARGUMENT, "Election id is used by another stream")
        if current is None and len(role.streams) >= STREAM_LIMIT:
            raise StateError(errors.RESOURCE_EXHAUSTED, f"More than {STREAM_LIMIT} streams")
        self._roles[role_name] = self._role_of[stream] = role
        role.streams[stream] = election_id
        if election_id is not None and (role.highest is None or election_id >= role.highest):
            role.highest = election_id
            role.primary = stream
            role.config, role.rights = config, rights
            return self._updates(role)
        if role.primary == stream:
            role.primary = None  # the primary lowered its own id
            return self._updates(role)
        return [self._update(role, stream)]

    def _find(self, name: str) -> _Role:
        role = self._roles.get(name)
        if role is None:
            if len(self._roles) >= ROLE_LIMIT:
                raise StateError(errors.RESOURCE_EXHAUSTED, f"More than {ROLE_LIMIT} roles")
            role = _Role(name=name)
        return role

    def _check_overlap(self, name: str, rights: RoleConfig | None) -> None:
        if rights is None:
            return
        for other in self._roles.values():
            if other.name == name or other.rights is None or not other.streams:
                continue
            theirs = other.rights
            if rights.exclusive_ids & (theirs.exclusive_ids | theirs.shared_ids) or (
                rights.shared_ids & theirs.exclusive_ids
            ):
                raise StateError(
                    errors.INVALID_ARGUMENT, f"An exclusive id is shared with role {other.name}"
                )

    def close(self, stream: int) -> list[ArbitrationUpdate]:
        """A stream ended; the backups hear about it if it was the primary."""
        role = self._role_of.pop(stream, None)
        if role is None:
            return []
        del role.streams[stream]
        if role.primary != stream:
            return []
        role.primary = None
        return self._updates(role)

    def check_write(self, role_name: str, election_id: int | None) -> RoleConfig | None:
        """The rights of the primary that writes.

        NOT_FOUND for an unknown role, PERMISSION_DENIED unless the id is that of its primary.
        """
        role = self._roles.get(role_name)
        if role is None:
            raise StateError(errors.NOT_FOUND, f"Unknown role {role_name}")
        if role.primary is None or election_id is None or role.streams[role.primary] != election_id:
            raise StateError(errors.PERMISSION_DENIED, "Not primary")
        return role.rights

    def rights(self, role_name: str) -> RoleConfig | None:
        """What a role may see: None is everything, as for a role that never was announced."""
        role = self._roles.get(role_name)
        return None if role is None else role.rights

    def is_announced(self, stream: int) -> bool:
        """True once the stream has a role."""
        return stream in self._role_of

    def is_primary(self, stream: int) -> bool:
        """True if the stream is the primary of its role."""
        role = self._role_of.get(stream)
        return role is not None and role.primary == stream

    def primaries(self) -> list[tuple[int, RoleConfig | None]]:
        """The primary stream of each role that has one, and its rights."""
        return [
            (role.primary, role.rights) for role in self._roles.values() if role.primary is not None
        ]

    def _updates(self, role: _Role) -> list[ArbitrationUpdate]:
        """For all streams of a role, the primary last."""
        streams = sorted(role.streams, key=lambda stream: stream == role.primary)
        return [self._update(role, stream) for stream in streams]

    @staticmethod
    def _update(role: _Role, stream: int) -> ArbitrationUpdate:
        if role.primary is None:
            code = errors.NOT_FOUND
        elif role.primary == stream:
            code = errors.OK
        else:
            code = errors.ALREADY_EXISTS
        return ArbitrationUpdate(
            stream=stream,
            role=role.name,
            code=code,
            election_id=role.highest,
            config=role.config,
        )
