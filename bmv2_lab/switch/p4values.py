# SPDX-License-Identifier: Apache-2.0
"""Table entries of P4Runtime to and from the switch state."""

from dataclasses import dataclass

from finsy.proto import p4i, p4r

from bmv2_lab.switch import errors
from bmv2_lab.switch.bytestrings import decode_value, encode_count, encode_value
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.meters import Bucket
from bmv2_lab.switch.pipeline_info import ActionInfo, PipelineInfo, TableInfo, lookup
from bmv2_lab.switch.profiles import ActionRow, WatchPort
from bmv2_lab.switch.state import SwitchState, lpm_match
from bmv2_lab.switch.tables import ARGUMENTS, BYTES, PACKETS, Cell, Entry, Match, Table

# v1model's ports have nine bits.
PORT_MAX = 511


@dataclass(slots=True, kw_only=True)
class EntryControl:
    """What P4Runtime keeps with an entry beside match, priority and action."""

    metadata: bytes = b""
    controller_metadata: int = 0
    idle_timeout_ns: int = 0
    member_id: int | None = None
    group_id: int | None = None
    action_set: list[ActionRow] | None = None  # one-shot


def _invalid(message: str) -> StateError:
    return StateError(errors.INVALID_ARGUMENT, message)


# Match keys


def decode_match(table: TableInfo, fields: list[p4r.FieldMatch]) -> tuple[Match, ...]:
    """The key of an entry; fields that are left out match everything."""
    found: dict[int, Match] = {}
    for item in fields:
        known = table.fields.get(item.field_id)
        if known is None:
            raise _invalid(f"{table.name}: no match field {item.field_id}")
        place, info = known
        if place in found:
            raise _invalid(f"{table.name}: match field {info.name} stands twice")
        found[place] = _decode_field(table, info, item)
    result = []
    for place, info in table.fields.values():
        match = found.get(place)
        if match is None:
            if info.match_type == p4i.MatchField.EXACT:
                raise _invalid(f"{table.name}: match field {info.name} is missing")
            whole = (1 << info.bitwidth) - 1
            match = Match(0, high=whole) if info.match_type == p4i.MatchField.RANGE else Match(0)
        result.append(match)
    return tuple(result)


def decode_key(info: TableInfo, table: Table, message: p4r.TableEntry) -> tuple[Match, ...]:
    """Match and priority of an entry; INVALID_ARGUMENT if they cannot be those of one."""
    match = decode_match(info, list(message.match))
    if table.ranked and message.priority <= 0:
        raise _invalid(f"{info.name}: an entry needs a priority above 0")
    if not table.ranked and message.priority:
        raise _invalid(f"{info.name}: entries have no priority")
    return match


def find_cell(table: Table, info: TableInfo, message: p4r.TableEntry) -> Cell:
    """The cell of the entry that a message names, or of the default entry."""
    if message.is_default_action:
        if message.match or message.priority:
            raise _invalid("a default entry has neither match nor priority")
        return table.default
    return table.find(decode_key(info, table, message), message.priority).cell


def _decode_field(table: TableInfo, info: p4i.MatchField, item: p4r.FieldMatch) -> Match:
    what = f"{table.name}.{info.name}"
    bits = info.bitwidth
    kind = item.WhichOneof("field_match_type")
    expected = {
        p4i.MatchField.EXACT: "exact",
        p4i.MatchField.LPM: "lpm",
        p4i.MatchField.TERNARY: "ternary",
        p4i.MatchField.RANGE: "range",
        p4i.MatchField.OPTIONAL: "optional",
    }[info.match_type]
    if kind != expected:
        raise _invalid(f"{what}: {kind} match where {expected} is declared")
    match kind:
        case "exact":
            return Match(decode_value(item.exact.value, bits, what))
        case "optional":
            return Match(decode_value(item.optional.value, bits, what), (1 << bits) - 1)
        case "lpm":
            length = item.lpm.prefix_len
            if not 0 < length <= bits:
                raise _invalid(
                    f"{what}: prefix length {length}; leave out a field that matches all"
                )
            value = decode_value(item.lpm.value, bits, what)
            prefix = lpm_match(value, length, bits)
            if prefix.value != value:
                raise _invalid(f"{what}: bits are set behind the prefix")
            return prefix
        case "ternary":
            value = decode_value(item.ternary.value, bits, what)
            mask = decode_value(item.ternary.mask, bits, what)
            if mask == 0:
                raise _invalid(f"{what}: zero mask; leave out a field that matches all")
            if value & ~mask:
                raise _invalid(f"{what}: bits are set outside of the mask")
            return Match(value, mask)
    low = decode_value(item.range.low, bits, what)
    high = decode_value(item.range.high, bits, what)
    if low > high:
        raise _invalid(f"{what}: low is above high")
    if (low, high) == (0, (1 << bits) - 1):
        raise _invalid(f"{what}: whole range; leave out a field that matches all")
    return Match(low, high=high)


def encode_match(table: TableInfo, match: tuple[Match, ...]) -> list[p4r.FieldMatch]:
    """The fields of a key that match less than everything."""
    result = []
    for number, (place, info) in table.fields.items():
        part = match[place]
        item = p4r.FieldMatch(field_id=number)
        if info.match_type == p4i.MatchField.EXACT:
            item.exact.value = encode_value(part.value)
        elif info.match_type == p4i.MatchField.LPM:
            if part.prefix_bits == 0:
                continue
            item.lpm.value = encode_value(part.value)
            item.lpm.prefix_len = part.prefix_bits
        elif info.match_type == p4i.MatchField.RANGE:
            if (part.value, part.high) == (0, (1 << info.bitwidth) - 1):
                continue
            item.range.low = encode_value(part.value)
            item.range.high = encode_value(part.high)
        elif part.mask == 0:
            continue
        elif info.match_type == p4i.MatchField.OPTIONAL:
            item.optional.value = encode_value(part.value)
        else:
            item.ternary.value = encode_value(part.value)
            item.ternary.mask = encode_value(part.mask)
        result.append(item)
    return result


# Actions


def decode_action(
    state: SwitchState,
    info: PipelineInfo,
    table: TableInfo,
    action: p4r.Action,
    *,
    allowed: frozenset[int],
    hit: bool = True,
) -> Cell:
    """The cell of a direct action of a table."""
    known = lookup(info.actions, action.action_id, "action")
    if action.action_id not in table.actions:
        raise _invalid(f"{table.name} has no action {known.name}")
    if action.action_id not in allowed:
        raise StateError(
            errors.PERMISSION_DENIED, f"{table.name}: action {known.name} is out of its scope here"
        )
    number = state.action_id(table.spec, known.name)
    return state.cell(number, _arguments(known, action), hit=hit)


def decode_member_action(
    state: SwitchState, info: PipelineInfo, tables: list[TableInfo], action: p4r.Action
) -> Cell:
    """The cell of an action profile member; the action must belong to a table of the profile."""
    known = lookup(info.actions, action.action_id, "action")
    for table in tables:
        if action.action_id in table.entry_actions:
            return state.cell(state.action_id(table.spec, known.name), _arguments(known, action))
    raise _invalid(f"action {known.name} is not allowed in this action profile")


def _arguments(action: ActionInfo, message: p4r.Action) -> list[int]:
    given: dict[int, bytes] = {}
    for item in message.params:
        if item.param_id in given:
            raise _invalid(f"{action.name}: parameter {item.param_id} stands twice")
        given[item.param_id] = item.value
    values = []
    for number, name, bits in action.parameters:
        if number not in given:
            raise _invalid(f"{action.name}: parameter {name} is missing")
        values.append(decode_value(given.pop(number), bits, f"{action.name}.{name}"))
    if given:
        raise _invalid(f"{action.name}: no parameter {next(iter(given))}")
    return values


def encode_action(state: SwitchState, info: PipelineInfo, cell: Cell) -> p4r.Action | None:
    """The action of a cell; None if it has none that P4Info knows."""
    item = state.program.actions.get(cell[1])
    number = info.action_numbers.get(str(item["name"])) if item is not None else None
    if number is None:
        return None
    action = p4r.Action(action_id=number)
    arguments = zip(info.actions[number].parameters, cell[ARGUMENTS:], strict=True)
    for (parameter, _, _), value in arguments:
        action.params.add(param_id=parameter, value=encode_value(value))
    return action


# Whole entries


def encode_entry(
    state: SwitchState,
    info: PipelineInfo,
    table: TableInfo,
    entry: Entry,
    wanted: p4r.TableEntry,
) -> p4r.TableEntry:
    """An entry as a read returns it; counters only where the request has them."""
    message = p4r.TableEntry(table_id=table.number, priority=entry.priority)
    message.match.extend(encode_match(table, entry.match))
    if entry.const:
        message.is_const = True
    control = entry.control
    if isinstance(control, EntryControl):
        message.metadata = control.metadata
        message.controller_metadata = control.controller_metadata
        message.idle_timeout_ns = control.idle_timeout_ns
        _encode_reference(state, info, message.action, control, entry.cell)
    else:
        action = encode_action(state, info, entry.cell)
        if action is not None:
            message.action.action.CopyFrom(action)
    _encode_direct(state, table, message, entry.cell, wanted)
    return message


def encode_meter(bucket: Bucket, config: p4r.MeterConfig) -> None:
    """The rates of a meter."""
    config.SetInParent()
    config.cir, config.cburst = bucket.committed_rate, bucket.committed_burst
    config.pir, config.pburst = bucket.peak_rate, bucket.peak_burst


def _encode_reference(
    state: SwitchState,
    info: PipelineInfo,
    message: p4r.TableAction,
    control: EntryControl,
    cell: Cell,
) -> None:
    if control.member_id is not None:
        message.action_profile_member_id = control.member_id
    elif control.group_id is not None:
        message.action_profile_group_id = control.group_id
    elif control.action_set is not None:
        for member, weight, watch in control.action_set:
            row = message.action_profile_action_set.action_profile_actions.add(weight=weight)
            action = encode_action(state, info, member)
            if action is not None:
                row.action.CopyFrom(action)
            encode_watch(row, watch)
    else:
        action = encode_action(state, info, cell)
        if action is not None:
            message.action.CopyFrom(action)


def decode_watch(row: p4r.ActionProfileGroup.Member | p4r.ActionProfileAction) -> WatchPort:
    """The watch port of a member; INVALID_ARGUMENT if no port has that number."""
    watch: WatchPort = row.watch
    if row.WhichOneof("watch_kind") == "watch_port":
        watch = row.watch_port
        if watch and not 0 < int.from_bytes(watch, "big") <= PORT_MAX:
            raise _invalid("a watch port must be a port of the switch")
    elif not 0 <= row.watch <= PORT_MAX:
        raise _invalid("a watch port must be a port of the switch")
    return watch


def encode_watch(
    row: p4r.ActionProfileGroup.Member | p4r.ActionProfileAction, watch: WatchPort
) -> None:
    """The watch port in the field in which it was written."""
    if isinstance(watch, bytes):
        row.watch_port = watch
    elif watch:
        row.watch = watch


def encode_default(
    state: SwitchState, info: PipelineInfo, table: TableInfo, wanted: p4r.TableEntry
) -> p4r.TableEntry:
    """The default entry of a table."""
    found = state.tables[table.name]
    message = p4r.TableEntry(table_id=table.number, is_default_action=True)
    action = encode_action(state, info, found.default)
    if action is not None:
        message.action.action.CopyFrom(action)
    if table.spec.default_const:
        message.is_const = True
    if isinstance(found.default_control, EntryControl):
        message.metadata = found.default_control.metadata
        message.controller_metadata = found.default_control.controller_metadata
    _encode_direct(state, table, message, found.default, wanted)
    return message


def encode_counter(unit: int, packets: int, octets: int, data: p4r.CounterData) -> None:
    """A counter's values, as far as it counts them."""
    data.SetInParent()
    if unit != p4i.CounterSpec.BYTES:
        data.packet_count = encode_count(packets)
    if unit != p4i.CounterSpec.PACKETS:
        data.byte_count = encode_count(octets)


def _encode_direct(
    state: SwitchState,
    table: TableInfo,
    message: p4r.TableEntry,
    cell: Cell,
    wanted: p4r.TableEntry,
) -> None:
    """Counter and meter of an entry, where the request has them."""
    if wanted.HasField("counter_data") and table.direct_counter is not None:
        encode_counter(table.direct_counter, cell[PACKETS], cell[BYTES], message.counter_data)
    if wanted.HasField("meter_config") and table.direct_meter:
        bucket = state.meters[table.meter].buckets.get(id(cell))
        if bucket is not None:
            encode_meter(bucket, message.meter_config)
