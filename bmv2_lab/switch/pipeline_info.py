# SPDX-License-Identifier: Apache-2.0
"""P4Info of the pushed pipeline, indexed by id and joined to the translated program by name."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from finsy.proto import p4i

from bmv2_lab.switch import errors
from bmv2_lab.switch.digest_format import DigestFormat
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.tables import KeyField, MatchKind, TableSpec
from bmv2_lab.switch.translate import SwitchProgram

T = TypeVar("T")

_KINDS = {
    p4i.MatchField.EXACT: {MatchKind.EXACT, MatchKind.VALID},
    p4i.MatchField.LPM: {MatchKind.LPM},
    p4i.MatchField.TERNARY: {MatchKind.TERNARY},
    p4i.MatchField.RANGE: {MatchKind.RANGE},
    p4i.MatchField.OPTIONAL: {MatchKind.TERNARY},
}
# What P4Info lists under each name and id; direct resources have the ids of their own kind.
_OBJECTS = (
    "tables",
    "actions",
    "action_profiles",
    "counters",
    "direct_counters",
    "meters",
    "direct_meters",
    "controller_packet_metadata",
    "value_sets",
    "registers",
    "digests",
)
# A controller header is read as one integer.
HEADER_BITS_MAX = 1 << 16


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
    actions: frozenset[int]
    entry_actions: frozenset[int]
    default_actions: frozenset[int]
    profile: str | None
    direct_counter: int | None  # its unit
    direct_meter: bool
    idle_timeout: bool
    const: bool

    @property
    def meter(self) -> str:
        """The array of the direct meter; only where there is one."""
        assert self.spec.direct_meter is not None
        return self.spec.direct_meter


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
    names: dict[int, str] = field(default_factory=dict)  # of everything that has an id
    tables: dict[int, TableInfo] = field(default_factory=dict)
    actions: dict[int, ActionInfo] = field(default_factory=dict)
    action_numbers: dict[str, int] = field(default_factory=dict)
    profiles: dict[int, p4i.ActionProfile] = field(default_factory=dict)
    counters: dict[int, p4i.Counter] = field(default_factory=dict)
    meters: dict[int, p4i.Meter] = field(default_factory=dict)
    value_sets: dict[int, p4i.ValueSet] = field(default_factory=dict)
    digests: dict[int, p4i.Digest] = field(default_factory=dict)
    digest_formats: dict[int, DigestFormat | None] = field(default_factory=dict)
    packet_in: PacketMetadata | None = None
    packet_out: PacketMetadata | None = None

    @classmethod
    def build(cls, message: p4i.P4Info, program: SwitchProgram) -> "PipelineInfo":
        """Join P4Info and program; INVALID_ARGUMENT names the object in which they differ."""
        info = cls(message=message)
        info._name_objects()
        for action in message.actions:
            info._action(action, program)
        for profile in message.action_profiles:
            _known(profile.preamble.name, program.profiles, "action profile")
            info.profiles[profile.preamble.id] = profile
        unused = _unused_tables(message, program)
        for table in message.tables:
            if table.preamble.name not in unused:
                info.tables[table.preamble.id] = info._table(table, program)
        arrays = _array_sizes(program, "counter")
        for counter in message.counters:
            _known(counter.preamble.name, arrays, "counter")
            _same_size(counter.preamble.name, counter.size, arrays)
            info.counters[counter.preamble.id] = counter
        arrays = _array_sizes(program, "meter")
        for meter in message.meters:
            _known(meter.preamble.name, arrays, "meter")
            _same_size(meter.preamble.name, meter.size, arrays)
            info.meters[meter.preamble.id] = meter
        for value_set in message.value_sets:
            _known(value_set.preamble.name, program.value_sets, "value set")
            _widths((item.id, item.bitwidth) for item in value_set.match)
            info.value_sets[value_set.preamble.id] = value_set
        for digest in message.digests:
            info._digest(digest, program)
        for header in message.controller_packet_metadata:
            info._controller_header(header)
        return info

    def _name_objects(self) -> None:
        for kind in _OBJECTS:
            for item in getattr(self.message, kind):
                number, name = item.preamble.id, item.preamble.name
                if number == 0 or number in self.names:
                    raise _invalid(f"P4Info: id {number:#x} of {name} is zero or used twice")
                self.names[number] = name

    def _action(self, action: p4i.Action, program: SwitchProgram) -> None:
        number, name = action.preamble.id, action.preamble.name
        _widths((item.id, item.bitwidth) for item in action.params)
        self.actions[number] = ActionInfo(
            number=number,
            name=name,
            parameters=tuple((item.id, item.name, item.bitwidth) for item in action.params),
        )
        self.action_numbers[name] = number
        same_name = [item for item in program.actions.values() if str(item["name"]) == name]
        if any(len(item["runtime_data"]) != len(action.params) for item in same_name):
            raise _differs(f"action {name} has other parameters in the JSON")

    def _table(self, table: p4i.Table, program: SwitchProgram) -> TableInfo:
        name = table.preamble.name
        spec = program.tables.get(name)
        if spec is None:
            raise _differs(f"table {name} is not in the JSON")
        if len(spec.key) != len(table.match_fields):
            raise _differs(f"table {name} has {len(spec.key)} key fields in the JSON")
        fields = [
            _with_width(item, part) for part, item in zip(spec.key, table.match_fields, strict=True)
        ]
        _widths((item.id, item.bitwidth) for item in fields)
        for part, match in zip(spec.key, fields, strict=True):
            if part.bits != match.bitwidth:
                raise _differs(f"key field {match.name} of {name} has another width in the JSON")
            if part.kind not in _KINDS.get(match.match_type, set()):
                raise _differs(f"key field {match.name} of {name} matches otherwise in the JSON")
        for reference in table.action_refs:
            action = self.actions.get(reference.id)
            if action is None or action.name not in spec.action_names:
                raise _differs(f"action {reference.id} of {name} is not in the JSON")
        default_only, entry_only = p4i.ActionRef.DEFAULT_ONLY, p4i.ActionRef.TABLE_ONLY
        profile = None
        if table.implementation_id:
            if table.implementation_id not in self.profiles:
                raise _differs(f"table {name} has an unknown action profile")
            profile = self.profiles[table.implementation_id].preamble.name
        if profile != spec.profile:
            raise _differs(f"table {name} has the action profile {spec.profile} in the JSON")
        idle_timeout = table.idle_timeout_behavior == p4i.Table.NOTIFY_CONTROL
        if idle_timeout and not spec.support_timeout:
            raise _differs(f"table {name} has no idle timeout in the JSON")
        direct = set(table.direct_resource_ids)
        return TableInfo(
            message=table,
            spec=spec,
            number=table.preamble.id,
            name=name,
            fields={item.id: (place, item) for place, item in enumerate(fields)},
            actions=frozenset(r.id for r in table.action_refs),
            entry_actions=frozenset(r.id for r in table.action_refs if r.scope != default_only),
            default_actions=frozenset(r.id for r in table.action_refs if r.scope != entry_only),
            profile=profile,
            direct_counter=next(
                (c.spec.unit for c in self.message.direct_counters if c.preamble.id in direct), None
            ),
            direct_meter=spec.direct_meter is not None
            and any(item.preamble.id in direct for item in self.message.direct_meters),
            idle_timeout=idle_timeout,
            const=table.is_const_table,
        )

    def _digest(self, digest: p4i.Digest, program: SwitchProgram) -> None:
        number, name = digest.preamble.id, digest.preamble.name
        self.digests[number] = digest
        form = DigestFormat.of(digest, self.message.type_info)
        for item in program.learn_lists.values():
            if item["name"] == name and form and len(item["elements"]) != len(form.members):
                form = None  # a nested struct, which the JSON flattens
        self.digest_formats[number] = form

    def _controller_header(self, header: p4i.ControllerPacketMetadata) -> None:
        name = header.preamble.name
        _widths((item.id, item.bitwidth) for item in header.metadata)
        metadata = PacketMetadata(
            fields=tuple((item.id, item.name, item.bitwidth) for item in header.metadata)
        )
        if metadata.bits % 8 or metadata.bits > HEADER_BITS_MAX:
            raise _invalid(f"P4Info: controller header {name} is not whole bytes")
        if name == "packet_in":
            self.packet_in = metadata
        elif name == "packet_out":
            self.packet_out = metadata


def _invalid(message: str) -> StateError:
    return StateError(errors.INVALID_ARGUMENT, message)


def _differs(message: str) -> StateError:
    return _invalid(f"P4Info and device config differ: {message}")


def _unused_tables(message: p4i.P4Info, program: SwitchProgram) -> set[str]:
    """Tables that the compiler lists but has found to be never applied.

    None where P4Info lacks a table of the JSON that a controller could write to (what the compiler
    makes of a `switch` has constant entries): then the two are not of one program.
    """
    listed = {table.preamble.name for table in message.tables}
    writable = {name for name, spec in program.tables.items() if spec.key and not spec.entries}
    return listed - program.tables.keys() if writable <= listed else set()


def _with_width(field: p4i.MatchField, part: KeyField) -> p4i.MatchField:
    """The field, with the width of the JSON where P4Info has none: a key of the type `error`."""
    if field.bitwidth or field.type_name.name:
        return field
    known = p4i.MatchField()
    known.CopyFrom(field)
    known.bitwidth = part.bits
    return known


def _known(name: str, known: Iterable[str], kind: str) -> None:
    if name not in known:
        raise _differs(f"{kind} {name} is not in the JSON")


def _array_sizes(program: SwitchProgram, kind: str) -> dict[str, int]:
    """Name and size of each array of the JSON that is not a direct resource."""
    found: list[dict[str, Any]] = program.document.get(f"{kind}_arrays", [])
    return {str(item["name"]): int(item["size"]) for item in found if not item.get("is_direct")}


def _same_size(name: str, size: int, arrays: dict[str, int]) -> None:
    if size != arrays[name]:
        raise _differs(f"{name} has {arrays[name]} elements in the JSON")


def _widths(fields: Iterable[tuple[int, int]]) -> None:
    """Ids are distinct and widths positive: translation to strings is not supported."""
    seen: set[int] = set()
    for number, bits in fields:
        if number in seen:
            raise _invalid(f"P4Info: id {number} is used twice")
        if bits < 1:
            raise _invalid(f"P4Info: id {number} has no bit width")
        seen.add(number)


def lookup(known: dict[int, T], number: int, kind: str) -> T:
    """The object of that id; INVALID_ARGUMENT if P4Info has none, as BMv2's server answers."""
    try:
        return known[number]
    except KeyError:
        raise _invalid(f"no {kind} with id {number:#x}") from None
