# SPDX-License-Identifier: Apache-2.0
"""Who may write: primary and backup controllers per role (P4Runtime 1.3, section 5).

No I/O: the server calls these functions and sends the updates that they return.
"""

from dataclasses import dataclass, field

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError

# Streams per role and device; each costs a task and a queue.
STREAM_LIMIT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ArbitrationUpdate:
    """What to tell one stream: its status code, and the highest election id so far."""

    stream: int
    code: int
    election_id: int


@dataclass(slots=True, kw_only=True)
class _Role:
    streams: dict[int, int | None] = field(default_factory=dict)  # stream -> election id
    primary: int | None = None
    highest: int | None = None  # highest election id ever seen


@dataclass(slots=True)
class Arbitration:
    """The controllers of one device."""

    _roles: dict[str, _Role] = field(default_factory=dict)

    def request(
        self, stream: int, role_name: str, election_id: int | None
    ) -> list[ArbitrationUpdate]:
        """A controller announces itself; `election_id` None (or 0) never becomes primary.

        StateError ends the stream: the id is taken, or there are too many streams.
        """
        role = self._roles.setdefault(role_name, _Role())
        if stream not in role.streams and any(
            stream in other.streams for name, other in self._roles.items() if name != role_name
        ):
            raise StateError(errors.INVALID_ARGUMENT, "The role of a stream cannot change")
        if stream not in role.streams and len(role.streams) >= STREAM_LIMIT:
            raise StateError(errors.RESOURCE_EXHAUSTED, f"More than {STREAM_LIMIT} streams")
        wanted = election_id or None
        if wanted is not None and any(
            known == wanted for other, known in role.streams.items() if other != stream
        ):
            raise StateError(errors.INVALID_ARGUMENT, "Election id is used by another stream")
        first = stream not in role.streams
        role.streams[stream] = wanted
        before = role.primary
        if wanted is not None and (role.highest is None or wanted >= role.highest):
            role.highest = wanted
            role.primary = stream
        elif before == stream:
            role.primary = None  # the primary lowered its own id
        changed = role.primary != before or (not first and role.primary == stream)
        if changed:
            return self._updates(role)
        return [self._update(role, stream)]

    def close(self, stream: int) -> list[ArbitrationUpdate]:
        """A stream ended; the backups hear about it if it was the primary."""
        updates = []
        for role in self._roles.values():
            if stream not in role.streams:
                continue
            del role.streams[stream]
            if role.primary == stream:
                role.primary = None
                updates += self._updates(role)
        return updates

    def check_write(self, role_name: str, election_id: int) -> None:
        """PERMISSION_DENIED unless the id is that of the primary of the role."""
        role = self._roles.get(role_name)
        if (
            role is None
            or role.primary is None
            or election_id == 0
            or role.streams.get(role.primary) != election_id
        ):
            raise StateError(errors.PERMISSION_DENIED, "Not primary")

    def is_primary(self, stream: int) -> bool:
        """True if the stream is the primary of its role."""
        return any(role.primary == stream for role in self._roles.values())

    def primaries(self) -> list[int]:
        """The primary stream of each role that has one."""
        return [role.primary for role in self._roles.values() if role.primary is not None]

    def _updates(self, role: _Role) -> list[ArbitrationUpdate]:
        return [self._update(role, stream) for stream in role.streams]

    @staticmethod
    def _update(role: _Role, stream: int) -> ArbitrationUpdate:
        if role.primary is None:
            code = errors.NOT_FOUND
        elif role.primary == stream:
            code = errors.OK
        else:
            code = errors.ALREADY_EXISTS
        return ArbitrationUpdate(stream=stream, code=code, election_id=role.highest or 0)
