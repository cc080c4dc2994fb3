# SPDX-License-Identifier: Apache-2.0
"""P4Info of the pushed pipeline, indexed by id and joined to the translated program by name."""

from dataclasses import dataclass, field
from typing import TypeVar

from finsy.proto import p4i

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.tables import MatchKind, TableSpec
from bmv2_lab.switch.translate import SwitchProgram

T = TypeVar("T")

_KINDS = {
    p4i.MatchField.EXACT: {MatchKind.EXACT, MatchKind.VALID},
    p4i.MatchField.LPM: {MatchKind.LPM},
    p4i.MatchField.TERNARY: {MatchKind.TERNARY},
    p4i.MatchField.RANGE: {MatchKind.RANGE},
    p4i.MatchField.OPTIONAL: {MatchKind.TERNARY},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionInfo:
    """One action of the P4Info: its parameters as (id, name, bits) in order."""

    number: int
    name: str
    parameters: tuple[tuple[int, str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInfo:
    """One table: the P4Info message, and the same table in the program."""

    message: p4i.Table
    spec: TableSpec
    number: int
    name: str
    # A field id -> its place in the key, the P4Info field
    fields: dict[int, tuple[int, p4i.MatchField]]
    entry_actions: frozenset[int]
    default_actions: frozenset[int]
    profile: str | None
    direct_counter: bool
    direct_meter: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketMetadata:
    """A controller header: (id, name, bits) in wire order, and its length."""

    fields: tuple[tuple[int, str, int], ...]

    @property
    def bits(self) -> int:
        return sum(bits for _, _, bits in self.fields)


@dataclass(slots=True, kw_only=True)
class PipelineInfo:
    """What the server needs to translate between P4Runtime and the switch state."""

    message: p4i.P4Info
    tables: dict[int, TableInfo] = field(default_factory=dict)
    actions: dict[int, ActionInfo] = field(default_factory=dict)
    action_numbers: dict[str, int] = field(default_factory=dict)
    profiles: dict[int, p4i.ActionProfile] = field(default_factory=dict)
    counters: dict[int, p4i.Counter] = field(default_factory=dict)
    meters: dict[int, p4i.Meter] = field(default_factory=dict)
    value_sets: dict[int, p4i.ValueSet] = field(default_factory=dict)
    digests: dict[int, p4i.Digest] = field(default_factory=dict)
    packet_in: PacketMetadata | None = None
    packet_out: PacketMetadata | None = None

    @classmethod
    def build(cls, message: p4i.P4Info, program: SwitchProgram) -> "PipelineInfo":
        """Join P4Info and program; INVALID_ARGUMENT names the object in which they differ."""
        info = cls(message=message)
        for action in message.actions:
            number = action.preamble.id
            info.actions[number] = ActionInfo(
                number=number,
                name=action.preamble.name,
                parameters=tuple((item.id, item.name, item.bitwidth) for item in action.params),
            )
            info.action_numbers[action.preamble.name] = number
        for profile in message.action_profiles:
            if profile.preamble.name not in program.profiles:
                raise _differs(f"action profile {profile.preamble.name} is not in the JSON")
            info.profiles[profile.preamble.id] = profile
        direct_counters = {item.preamble.id for item in message.direct_counters}
        direct_meters = {item.preamble.id for item in message.direct_meters}
        for table in message.tables:
            info.tables[table.preamble.id] = info._table(
                table, program, direct_counters, direct_meters
            )
        for counter in message.counters:
            _known(counter.preamble.name, program.arrays, "counter")
            info.counters[counter.preamble.id] = counter
        for meter in message.meters:
            _known(meter.preamble.name, program.arrays, "meter")
            info.meters[meter.preamble.id] = meter
        for value_set in message.value_sets:
            info.value_sets[value_set.preamble.id] = value_set
        for digest in message.digests:
            info.digests[digest.preamble.id] = digest
        for header in message.controller_packet_metadata:
            metadata = PacketMetadata(
                fields=tuple((item.id, item.name, item.bitwidth) for item in header.metadata)
            )
            if metadata.bits % 8:
                raise _differs(f"controller header {header.preamble.name} is not whole bytes")
            if header.preamble.name == "packet_in":
                info.packet_in = metadata
            elif header.preamble.name == "packet_out":
                info.packet_out = metadata
        return info

    def _table(
        self,
        table: p4i.Table,
        program: SwitchProgram,
        direct_counters: set[int],
        direct_meters: set[int],
    ) -> TableInfo:
        name = table.preamble.name
        spec = program.tables.get(name)
        if spec is None:
            raise _differs(f"table {name} is not in the JSON")
        if len(spec.key) != len(table.match_fields):
            raise _differs(f"table {name} has {len(spec.key)} key fields in the JSON")
        for part, match in zip(spec.key, table.match_fields, strict=True):
            if part.bits != match.bitwidth and match.bitwidth:
                raise _differs(f"key field {match.name} of {name} has another width in the JSON")
            if part.kind not in _KINDS.get(match.match_type, set()):
                raise _differs(f"key field {match.name} of {name} matches otherwise in the JSON")
        for reference in table.action_refs:
            action = self.actions.get(reference.id)
            if action is None or action.name not in spec.action_names:
                raise _differs(f"action {reference.id} of {name} is not in the JSON")
        default_only, entry_only = p4i.ActionRef.DEFAULT_ONLY, p4i.ActionRef.TABLE_ONLY
        profile = self.profiles.get(table.implementation_id)
        return TableInfo(
            message=table,
            spec=spec,
            number=table.preamble.id,
            name=name,
            fields={item.id: (place, item) for place, item in enumerate(table.match_fields)},
            entry_actions=frozenset(r.id for r in table.action_refs if r.scope != default_only),
            default_actions=frozenset(r.id for r in table.action_refs if r.scope != entry_only),
            profile=profile.preamble.name if profile is not None else None,
            direct_counter=any(number in direct_counters for number in table.direct_resource_ids),
            direct_meter=any(number in direct_meters for number in table.direct_resource_ids),
        )


def _differs(message: str) -> StateError:
    return StateError(errors.INVALID_ARGUMENT, f"P4Info and device config differ: {message}")


def _known(name: str, known: dict[str, str], kind: str) -> None:
    if name not in known:
        raise _differs(f"{kind} {name} is not in the JSON")


def lookup(known: dict[int, T], number: int, kind: str) -> T:
    """The object of that id; NOT_FOUND otherwise."""
    try:
        return known[number]
    except KeyError:
        raise StateError(errors.NOT_FOUND, f"no {kind} with id {number:#x}") from None
