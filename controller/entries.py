# SPDX-License-Identifier: Apache-2.0
"""The entries of a P4Runtime switch as plain values, in one canonical form.

Pure, and independent of the P4Runtime library: what a switch should hold, what it does hold, and
the difference of the two are all made of these. Names are those of the p4info, without prefixes.
Canonical form: match fields in the order of their names, a ternary value has no bits outside its
mask, and fields that match everything are left out (P4Runtime 1.3 section 9.1.1). Two entries
are equal exactly when a switch would behave alike with either.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Self, TypeAlias

from controller.addresses import format_ip, format_ipv6, format_mac


@unique
class Kind(IntEnum):
    """Kinds of entry, in the order in which they must be inserted."""

    MEMBER = 1
    GROUP = 2
    MULTICAST = 3
    TABLE = 4
    DEFAULT = 5
    CLONE_SESSION = 6


@dataclass(frozen=True, slots=True)
class Exact:
    """Matches one value."""

    value: int


@dataclass(frozen=True, slots=True)
class Lpm:
    """Matches a prefix: the first `prefix_len` bits of `value`."""

    value: int
    prefix_len: int


@dataclass(frozen=True, slots=True)
class Ternary:
    """Matches the bits of `value` that `mask` selects."""

    value: int
    mask: int


MatchValue: TypeAlias = Exact | Lpm | Ternary
MatchFields: TypeAlias = tuple[tuple[str, MatchValue], ...]


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action with its parameters, in the order of their names."""

    name: str
    params: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, name: str, /, **params: int) -> Self:
        """The action with these parameters."""
        return cls(name, tuple(sorted(params.items())))

    def __str__(self) -> str:
        params = ", ".join(f"{name}={show_value(name, value)}" for name, value in self.params)
        return f"{self.name}({params})"


NO_ACTION = ActionCall("NoAction")


@dataclass(frozen=True, slots=True)
class MemberRef:
    """The action of one member of the table's action profile."""

    member_id: int

    def __str__(self) -> str:
        return f"member {self.member_id}"


@dataclass(frozen=True, slots=True)
class GroupRef:
    """The action of a member that the table's selector picks from a group."""

    group_id: int

    def __str__(self) -> str:
        return f"group {self.group_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One action of an action profile."""

    profile: str
    member_id: int
    action: ActionCall

    @property
    def kind(self) -> Kind:
        """Members come first: groups and tables refer to them."""
        return Kind.MEMBER

    @property
    def key(self) -> "EntryKey":
        """What identifies the entry within its switch."""
        return (self.kind, self.profile, self.member_id)

    @property
    def where(self) -> str:
        """The entry's place, for messages."""
        return f"{self.profile} member {self.member_id}"

    def __str__(self) -> str:
        return f"{self.where}: {self.action}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Members that share traffic, with their weights, by member id."""

    profile: str
    group_id: int
    max_size: int
    members: tuple[tuple[int, int], ...]
    """(member id, weight)"""

    @property
    def kind(self) -> Kind:
        """Groups refer to members, tables to groups."""
        return Kind.GROUP

    @property
    def key(self) -> "EntryKey":
        """What identifies the entry within its switch."""
        return (self.kind, self.profile, self.group_id)

    @property
    def where(self) -> str:
        """The entry's place, for messages."""
        return f"{self.profile} group {self.group_id}"

    def __str__(self) -> str:
        members = ", ".join(
            str(member_id) if weight == 1 else f"{member_id} x {weight}"
            for member_id, weight in self.members
        )
        return f"{self.where}: members {members}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEntry:
    """One entry of a table; `priority` (higher wins) only where the match needs one."""

    table: str
    match: MatchFields
    priority: int = 0
    action: ActionCall | MemberRef | GroupRef

    @classmethod
    def of(
        cls,
        table: str,
        match: Mapping[str, MatchValue | int],
        action: ActionCall | MemberRef | GroupRef,
        *,
        priority: int = 0,
    ) -> Self:
        """The entry in canonical form; a plain number is an exact match."""
        return cls(table=table, match=canonical_match(match), priority=priority, action=action)

    @property
    def kind(self) -> Kind:
        """Table entries refer to groups and members."""
        return Kind.TABLE

    @property
    def key(self) -> "EntryKey":
        """What identifies the entry within its switch (P4Runtime 1.3 section 9.1)."""
        return (self.kind, self.table, (self.match, self.priority))

    @property
    def where(self) -> str:
        """The entry's place, for messages."""
        fields = (
            f"{name}={show_match(name, value, table=self.table)}" for name, value in self.match
        )
        return f"{self.table} [{', '.join(fields) or 'any'}]" + (
            f" priority {self.priority}" if self.priority else ""
        )

    def __str__(self) -> str:
        return f"{self.where}: {self.action}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultEntry:
    """What a table does on a miss. It always exists, so it is only ever modified."""

    table: str
    action: ActionCall

    @property
    def kind(self) -> Kind:
        """Defaults depend on nothing."""
        return Kind.DEFAULT

    @property
    def key(self) -> "EntryKey":
        """What identifies the entry within its switch."""
        return (self.kind, self.table, 0)

    @property
    def where(self) -> str:
        """The entry's place, for messages."""
        return f"{self.table} [default]"

    def __str__(self) -> str:
        return f"{self.where}: {self.action}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MulticastGroup:
    """Where packets of a multicast group go: (egress port, instance) of every replica."""

    group_id: int
    replicas: tuple[tuple[int, int], ...]

    @property
    def kind(self) -> Kind:
        """Tables refer to multicast groups."""
        return Kind.MULTICAST

    @property
    def key(self) -> "EntryKey":
        """What identifies the entry within its switch."""
        return (self.kind, "", self.group_id)

    @property
    def where(self) -> str:
        """The entry's place, for messages."""
        return f"multicast group {self.group_id}"

    def __str__(self) -> str:
        return f"{self.where}: {_show_replicas(self.replicas)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneSession:
    """Where clones of a session go: (egress port, instance) of every replica."""

    session_id: int
    replicas: tuple[tuple[int, int], ...]
    packet_bytes: int = 0
    """Clones are cut to this length; 0: they are not."""

    @property
    def kind(self) -> Kind:
        """Clone sessions come last, so that no report leaves before its header is configured."""
        return Kind.CLONE_SESSION

    @property
    def key(self) -> "EntryKey":
        """What identifies the entry within its switch."""
        return (self.kind, "", self.session_id)

    @property
    def where(self) -> str:
        """The entry's place, for messages."""
        return f"clone session {self.session_id}"

    def __str__(self) -> str:
        cut = f", cut to {self.packet_bytes} bytes" if self.packet_bytes else ""
        return f"{self.where}: {_show_replicas(self.replicas)}{cut}"


Entry: TypeAlias = Member | Group | MulticastGroup | TableEntry | DefaultEntry | CloneSession
EntryKey: TypeAlias = tuple[Kind, str, object]


def _show_replicas(replicas: tuple[tuple[int, int], ...]) -> str:
    ports = ", ".join(f"port {port} instance {instance}" for port, instance in replicas)
    return ports or "no replica"


def show_value(name: str, value: int, *, table: str = "") -> str:
    """A value as people write it; name and table say whether it is an address or a bit map.

    >>> show_value("dst_addr", 0x0A000101), show_value("report_metadata_bits", 0x7C00)
    ('10.0.1.1', '0x7c00')
    >>> show_value("dst_addr", 1, table="ipv6_lpm"), show_value("delay", (1 << 64) - 3)
    ('::1', '-3')
    """
    if name.endswith("_mac") or (table == "l2_ptp" and name == "dst_addr"):
        return format_mac(value)
    if name.endswith("_addr") and ("ipv6" in table or "ipv6" in name):
        return format_ipv6(value)
    if name.endswith(("_addr", "_ip")):
        return format_ip(value)
    if name.endswith(("_bitmap", "_bits", "ether_type")):
        return f"{value:#x}"
    if name in _SIGNED_64 and value >> 63:
        return str(value - (1 << 64))
    return str(value)


_SIGNED_64 = frozenset({"delay", "residence_offset"})
"""Parameters in two's complement, 2^-16 ns."""


def show_match(name: str, value: MatchValue, *, table: str = "") -> str:
    """A match value as people write it; a mask is shown where it leaves bits out.

    >>> show_match("dst_addr", Lpm(0x0A000100, 24)), show_match("roce_psn", Ternary(0, 7))
    ('10.0.1.0/24', '0 & 0x7')
    """
    match value:
        case Exact(number):
            return show_value(name, number, table=table)
        case Lpm(number, prefix_len):
            return f"{show_value(name, number, table=table)}/{prefix_len}"
        case Ternary(number, mask):
            text = show_value(name, number, table=table)
            whole = mask in _WHOLE_FIELD_MASKS and number != 0
            return text if whole else f"{text} & {mask:#x}"


_WHOLE_FIELD_MASKS = frozenset((1 << bits) - 1 for bits in (4, 6, 8, 9, 16, 24, 32, 48, 128))
"""Masks that select a field of a usual width as a whole, and need no mention."""


def canonical_match(match: Mapping[str, MatchValue | int]) -> MatchFields:
    """Match fields in canonical form.

    >>> canonical_match({"b": Ternary(7, 0), "a": Ternary(0xFF, 0xF0), "c": 5})
    (('a', Ternary(value=240, mask=240)), ('c', Exact(value=5)))
    """
    fields: list[tuple[str, MatchValue]] = []
    for name, value in sorted(match.items()):
        match value:
            case int():
                fields.append((name, Exact(value)))
            case Ternary(mask=0) | Lpm(prefix_len=0):
                pass
            case Ternary():
                fields.append((name, Ternary(value.value & value.mask, value.mask)))
            case _:
                fields.append((name, value))
    return tuple(fields)
