# SPDX-License-Identifier: Apache-2.0
"""P4Runtime updates applied to the switch state, one at a time."""

from finsy.proto import p4r

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.meters import Bucket, MeterArray
from bmv2_lab.switch.p4values import (
    EntryControl,
    decode_action,
    decode_match,
    decode_member_action,
    decode_value,
)
from bmv2_lab.switch.pipeline_info import PipelineInfo, TableInfo, lookup
from bmv2_lab.switch.profiles import Profile
from bmv2_lab.switch.state import CloneSession, SwitchState
from bmv2_lab.switch.tables import BYTES, PACKETS, Cell, Entry, Table

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

# Ids of clone sessions that BMv2 accepts.
CLONE_SESSION_MAX = 32767


def _invalid(message: str) -> StateError:
    return StateError(errors.INVALID_ARGUMENT, message)


def _unimplemented(message: str) -> StateError:
    return StateError(errors.UNIMPLEMENTED, message)


class UpdateWriter:
    """Applies updates; each raises StateError with its canonical code and changes nothing then."""

    def __init__(self, state: SwitchState, info: PipelineInfo) -> None:
        self.state = state
        self.info = info

    def apply(self, update: p4r.Update) -> None:
        """One update of a WriteRequest."""
        if update.type not in (INSERT, MODIFY, DELETE):
            raise _invalid("an update needs a type")
        entity = update.entity
        kind = entity.WhichOneof("entity")
        match kind:
            case "table_entry":
                self._table_entry(update.type, entity.table_entry)
            case "action_profile_member":
                self._member(update.type, entity.action_profile_member)
            case "action_profile_group":
                self._group(update.type, entity.action_profile_group)
            case "packet_replication_engine_entry":
                self._replication(update.type, entity.packet_replication_engine_entry)
            case "counter_entry":
                self._counter(update.type, entity.counter_entry)
            case "direct_counter_entry":
                self._direct_counter(update.type, entity.direct_counter_entry)
            case "meter_entry":
                self._meter(update.type, entity.meter_entry)
            case "direct_meter_entry":
                self._direct_meter(update.type, entity.direct_meter_entry)
            case "value_set_entry":
                self._value_set(update.type, entity.value_set_entry)
            case "digest_entry":
                lookup(self.info.digests, entity.digest_entry.digest_id, "digest")
            case None:
                raise _invalid("an update needs an entity")
            case _:
                raise _unimplemented(f"{kind} cannot be written")

    # Table entries

    def _tables_of(self, message: p4r.TableEntry) -> tuple[TableInfo, Table]:
        info = lookup(self.info.tables, message.table_id, "table")
        return info, self.state.tables[info.name]

    def _key(self, info: TableInfo, table: Table, message: p4r.TableEntry) -> tuple[object, int]:
        match = decode_match(info, list(message.match))
        if table.ranked and message.priority <= 0:
            raise _invalid(f"{info.name}: an entry needs a priority above 0")
        if not table.ranked and message.priority:
            raise _invalid(f"{info.name}: entries have no priority")
        return match, message.priority

    def _table_entry(self, kind: int, message: p4r.TableEntry) -> None:
        info, table = self._tables_of(message)
        if message.is_default_action:
            self._default(kind, info, table, message)
            return
        if info.spec.const_entries or info.message.is_const_table:
            raise StateError(errors.PERMISSION_DENIED, f"{info.name} is constant")
        match = decode_match(info, list(message.match))
        self._key(info, table, message)
        if kind == DELETE:
            deleted = table.delete(match, message.priority)
            self._use(info, deleted, -1)
            if info.spec.direct_meter is not None:
                self.state.meters[info.spec.direct_meter].buckets.pop(id(deleted.cell), None)
            return
        if message.idle_timeout_ns and not info.spec.support_timeout:
            raise _invalid(f"{info.name} has no idle timeout")
        if message.HasField("counter_data") and not info.direct_counter:
            raise _invalid(f"{info.name} has no direct counter")
        if message.HasField("meter_config") and not info.direct_meter:
            raise _invalid(f"{info.name} has no direct meter")
        cell, control = self._action(info, message)
        if message.HasField("counter_data"):
            cell[PACKETS] = message.counter_data.packet_count
            cell[BYTES] = message.counter_data.byte_count
        if kind == INSERT:
            entry = Entry(match=match, priority=message.priority, cell=cell, control=control)
            table.insert(entry)
            self._use(info, entry, 1)
            self._entry_meter(info, entry.cell, message)
            return
        entry = table.find(match, message.priority)
        if not message.HasField("counter_data"):
            cell[PACKETS], cell[BYTES] = entry.cell[PACKETS], entry.cell[BYTES]
        self._use(info, entry, -1)
        entry.cell[:] = cell
        entry.control = control
        self._use(info, entry, 1)
        self._entry_meter(info, entry.cell, message)

    def _entry_meter(self, info: TableInfo, cell: Cell, message: p4r.TableEntry) -> None:
        if message.HasField("meter_config") and info.spec.direct_meter is not None:
            configure(self.state.meters[info.spec.direct_meter], id(cell), message.meter_config)

    def _use(self, info: TableInfo, entry: Entry, change: int) -> None:
        control = entry.control
        if info.profile is not None and isinstance(control, EntryControl):
            self.state.profiles[info.profile].use(
                member_id=control.member_id, group_id=control.group_id, change=change
            )

    def _action(self, info: TableInfo, message: p4r.TableEntry) -> tuple[Cell, EntryControl]:
        control = EntryControl(
            metadata=message.metadata,
            controller_metadata=message.controller_metadata,
            idle_timeout_ns=message.idle_timeout_ns,
        )
        kind = message.action.WhichOneof("type")
        if kind is None:
            raise _invalid(f"{info.name}: an entry needs an action")
        if kind == "action":
            if info.profile is not None:
                raise _invalid(f"{info.name} takes members or groups, not actions")
            cell = decode_action(
                self.state, self.info, info, message.action.action, allowed=info.entry_actions
            )
            return cell, control
        if info.profile is None:
            raise _invalid(f"{info.name} takes actions, not members or groups")
        profile = self.state.profiles[info.profile]
        if kind == "action_profile_member_id":
            control.member_id = message.action.action_profile_member_id
            profile.member(control.member_id)
            cells = profile.member_cells[control.member_id]
        elif kind == "action_profile_group_id":
            control.group_id = message.action.action_profile_group_id
            cells = profile.group(control.group_id).cells
        else:
            cells = self._action_set(info, profile, message, control)
        return self.state.indirect_cell(cells), control

    def _action_set(
        self, info: TableInfo, profile: Profile, message: p4r.TableEntry, control: EntryControl
    ) -> list[Cell]:
        if not profile.with_selector:
            raise _invalid(f"{info.name} has no selector for an action set")
        control.action_set = []
        cells: list[Cell] = []
        for row in message.action.action_profile_action_set.action_profile_actions:
            if row.weight < 1:
                raise _invalid("a weight must be at least 1")
            cell = decode_action(
                self.state, self.info, info, row.action, allowed=info.entry_actions
            )
            watch = row.watch_port if row.WhichOneof("watch_kind") == "watch_port" else row.watch
            control.action_set.append((cell, row.weight, watch))
            cells += [cell] * row.weight
        return cells

    def _default(self, kind: int, info: TableInfo, table: Table, message: p4r.TableEntry) -> None:
        if kind != MODIFY:
            raise _invalid("a default entry can only be modified")
        if message.match or message.priority:
            raise _invalid("a default entry has neither match nor priority")
        if info.spec.default_const or info.message.const_default_action_id:
            raise StateError(errors.PERMISSION_DENIED, f"{info.name}: default action is constant")
        if not message.action.HasField("action"):
            if message.action.WhichOneof("type") is not None:
                raise _invalid("a default entry takes an action")
            if table.initial_default is not None:  # no action: back to the program's own
                table.set_default(table.initial_default)
            table.default_control = None
            return
        cell = decode_action(
            self.state,
            self.info,
            info,
            message.action.action,
            allowed=info.default_actions,
            hit=False,
        )
        table.set_default(cell)
        if message.HasField("counter_data"):
            table.default[PACKETS] = message.counter_data.packet_count
            table.default[BYTES] = message.counter_data.byte_count
        table.default_control = EntryControl(
            metadata=message.metadata, controller_metadata=message.controller_metadata
        )

    # Action profiles

    def _profile(self, number: int) -> tuple[Profile, list[TableInfo], int]:
        message = lookup(self.info.profiles, number, "action profile")
        tables = [self.info.tables[n] for n in message.table_ids if n in self.info.tables]
        return self.state.profiles[message.preamble.name], tables, message.max_group_size

    def _member(self, kind: int, message: p4r.ActionProfileMember) -> None:
        profile, tables, _ = self._profile(message.action_profile_id)
        if message.member_id == 0:
            raise _invalid("member id 0 is not allowed")
        if kind == DELETE:
            profile.delete_member(message.member_id)
            return
        cell = decode_member_action(self.state, self.info, tables, message.action)
        if kind == INSERT:
            profile.add_member(message.member_id, cell)
        else:
            profile.modify_member(message.member_id, cell)

    def _group(self, kind: int, message: p4r.ActionProfileGroup) -> None:
        profile, _, limit = self._profile(message.action_profile_id)
        if message.group_id == 0:
            raise _invalid("group id 0 is not allowed")
        if kind == DELETE:
            profile.delete_group(message.group_id)
            return
        members = []
        for row in message.members:
            watch = row.watch_port if row.WhichOneof("watch_kind") == "watch_port" else row.watch
            members.append((row.member_id, row.weight, watch))
        if kind == INSERT:
            if limit and message.max_size > limit:
                raise _invalid(f"max_size {message.max_size} is above {limit}")
            profile.add_group(message.group_id, message.max_size or limit, members)
            profile.groups[message.group_id].control = message.max_size
        else:
            group = profile.group(message.group_id)
            if message.max_size and group.control and message.max_size != group.control:
                raise _invalid("max_size of a group cannot change")
            profile.modify_group(message.group_id, members)

    # Replication

    def _replication(self, kind: int, message: p4r.PacketReplicationEngineEntry) -> None:
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
        self._presence(kind, number in known, f"clone session {number}")
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
        if not 0 < number < 1 << 16:
            raise _invalid("multicast group ids are 1 to 65535")
        known = self.state.multicast_groups
        self._presence(kind, number in known, f"multicast group {number}")
        if kind == DELETE:
            del known[number]
            self.state.multicast_control.pop(number, None)
            return
        known[number] = _replicas(message.replicas)
        self.state.multicast_control[number] = (
            [bool(replica.port) for replica in message.replicas],
            message.metadata,
        )

    @staticmethod
    def _presence(kind: int, exists: bool, what: str) -> None:
        if kind == INSERT and exists:
            raise StateError(errors.ALREADY_EXISTS, f"{what} exists already")
        if kind != INSERT and not exists:
            raise StateError(errors.NOT_FOUND, f"no {what}")

    # Counters, meters, value sets

    @staticmethod
    def _only_modify(kind: int, what: str) -> None:
        if kind != MODIFY:
            raise _invalid(f"{what} can only be modified")

    @staticmethod
    def _indices(message: p4r.CounterEntry | p4r.MeterEntry, size: int) -> range:
        if not message.HasField("index"):
            return range(size)
        index = message.index.index
        if not 0 <= index < size:
            raise StateError(errors.OUT_OF_RANGE, f"index {index} is outside of 0 to {size - 1}")
        return range(index, index + 1)

    def _counter(self, kind: int, message: p4r.CounterEntry) -> None:
        self._only_modify(kind, "a counter")
        counter = lookup(self.info.counters, message.counter_id, "counter")
        name = counter.preamble.name
        for index in self._indices(message, len(self.state.counter_packets[name])):
            self.state.counter_packets[name][index] = message.data.packet_count
            self.state.counter_bytes[name][index] = message.data.byte_count

    def _cell_of(self, message: p4r.TableEntry) -> tuple[TableInfo, Cell]:
        info, table = self._tables_of(message)
        if message.is_default_action:
            return info, table.default
        self._key(info, table, message)
        return info, table.find(decode_match(info, list(message.match)), message.priority).cell

    def _direct_counter(self, kind: int, message: p4r.DirectCounterEntry) -> None:
        self._only_modify(kind, "a direct counter")
        info, cell = self._cell_of(message.table_entry)
        if not info.direct_counter:
            raise _invalid(f"{info.name} has no direct counter")
        cell[PACKETS] = message.data.packet_count
        cell[BYTES] = message.data.byte_count

    def _meter(self, kind: int, message: p4r.MeterEntry) -> None:
        self._only_modify(kind, "a meter")
        meter = lookup(self.info.meters, message.meter_id, "meter")
        array = self.state.meters[meter.preamble.name]
        config = message.config if message.HasField("config") else None
        for index in self._indices(message, meter.size):
            configure(array, index, config)

    def _direct_meter(self, kind: int, message: p4r.DirectMeterEntry) -> None:
        self._only_modify(kind, "a direct meter")
        info, cell = self._cell_of(message.table_entry)
        if not info.direct_meter or info.spec.direct_meter is None:
            raise _invalid(f"{info.name} has no direct meter")
        config = message.config if message.HasField("config") else None
        configure(self.state.meters[info.spec.direct_meter], id(cell), config)

    def _value_set(self, kind: int, message: p4r.ValueSetEntry) -> None:
        self._only_modify(kind, "a value set")
        info = lookup(self.info.value_sets, message.value_set_id, "value set")
        name = info.preamble.name
        if info.size and len(message.members) > info.size:
            raise StateError(errors.RESOURCE_EXHAUSTED, f"{name} holds {info.size} members")
        members = set()
        for member in message.members:
            values = []
            given = {item.field_id: item for item in member.match}
            for field in info.match:
                item = given.get(field.id)
                if item is None or item.WhichOneof("field_match_type") != "exact":
                    raise _unimplemented(f"{name}: members match exactly")
                values.append(decode_value(item.exact.value, field.bitwidth, name))
            members.add(tuple(values))
        known = self.state.value_sets[name]
        known.clear()
        known.update(members)


def _replicas(messages: object) -> tuple[tuple[int, int], ...]:
    """(port, instance) rows; the port in the old or the new field."""
    rows = []
    for replica in messages:  # type: ignore[attr-defined]  # a repeated field has no common base
        if replica.backup_replicas:
            raise _unimplemented("backup replicas are not supported")
        port = int.from_bytes(replica.port, "big") if replica.port else replica.egress_port
        rows.append((port, replica.instance))
    if len(set(rows)) != len(rows):
        raise _invalid("a replica stands twice")
    return tuple(rows)


def configure(array: MeterArray, index: int, config: p4r.MeterConfig | None) -> None:
    """Set the rates of one meter, with full buckets; None makes it green for ever."""
    if config is None:
        array.buckets.pop(index, None)
        return
    if min(config.cir, config.cburst, config.pir, config.pburst) < 0:
        raise _invalid("meter rates and bursts cannot be negative")
    array.buckets[index] = Bucket(
        committed_rate=config.cir,
        committed_burst=config.cburst,
        peak_rate=config.pir,
        peak_burst=config.pburst,
    )
