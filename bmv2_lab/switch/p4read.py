# SPDX-License-Identifier: Apache-2.0
"""P4Runtime reads, with the wildcards of the specification (section 12)."""

from collections.abc import Iterator

from finsy.proto import p4r

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.meters import MeterArray
from bmv2_lab.switch.p4values import (
    decode_match,
    encode_action,
    encode_default,
    encode_entry,
    encode_meter,
    encode_value,
)
from bmv2_lab.switch.pipeline_info import PipelineInfo, TableInfo, lookup
from bmv2_lab.switch.profiles import Group
from bmv2_lab.switch.state import SwitchState
from bmv2_lab.switch.tables import BYTES, PACKETS, Cell


class EntityReader:
    """Yields what a ReadRequest asks for; an entity that does not exist yields nothing."""

    def __init__(self, state: SwitchState, info: PipelineInfo) -> None:
        self.state = state
        self.info = info

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """All entities that one request entity stands for."""
        kind = entity.WhichOneof("entity")
        match kind:
            case "table_entry":
                for entry in self._table_entries(entity.table_entry):
                    yield p4r.Entity(table_entry=entry)
            case "direct_counter_entry":
                yield from self._direct_counters(entity.direct_counter_entry)
            case "direct_meter_entry":
                yield from self._direct_meters(entity.direct_meter_entry)
            case "action_profile_member":
                yield from self._members(entity.action_profile_member)
            case "action_profile_group":
                yield from self._groups(entity.action_profile_group)
            case "counter_entry":
                yield from self._counters(entity.counter_entry)
            case "meter_entry":
                yield from self._meters(entity.meter_entry)
            case "packet_replication_engine_entry":
                yield from self._replication(entity.packet_replication_engine_entry)
            case "value_set_entry":
                yield from self._value_sets(entity.value_set_entry)
            case "digest_entry":
                return
            case None:
                raise StateError(errors.INVALID_ARGUMENT, "an entity is empty")
            case _:
                raise StateError(errors.UNIMPLEMENTED, f"{kind} cannot be read")

    # Tables

    def _tables(self, number: int) -> list[TableInfo]:
        if number == 0:
            return list(self.info.tables.values())
        return [lookup(self.info.tables, number, "table")]

    def _table_entries(self, wanted: p4r.TableEntry) -> Iterator[p4r.TableEntry]:
        for table in self._tables(wanted.table_id):
            if wanted.is_default_action:
                yield encode_default(self.state, self.info, table, wanted)
                continue
            found = self.state.tables[table.name]
            if wanted.match:
                key = (decode_match(table, list(wanted.match)), wanted.priority)
                entry = found.entries.get(key)
                if entry is not None:
                    yield encode_entry(self.state, self.info, table, entry, wanted)
                continue
            for entry in list(found.entries.values()):
                if wanted.priority and entry.priority != wanted.priority:
                    continue
                yield encode_entry(self.state, self.info, table, entry, wanted)

    def _cells(self, wanted: p4r.TableEntry) -> Iterator[tuple[TableInfo, p4r.TableEntry, Cell]]:
        """Entries of a direct resource with the cell that holds it."""
        for table in self._tables(wanted.table_id):
            found = self.state.tables[table.name]
            if wanted.is_default_action:
                entry = p4r.TableEntry(table_id=table.number, is_default_action=True)
                yield table, entry, found.default
                continue
            for known in list(found.entries.values()):
                if wanted.match:
                    key = (decode_match(table, list(wanted.match)), wanted.priority)
                    if key != (known.match, known.priority):
                        continue
                yield (
                    table,
                    encode_entry(self.state, self.info, table, known, p4r.TableEntry()),
                    known.cell,
                )

    def _direct_counters(self, wanted: p4r.DirectCounterEntry) -> Iterator[p4r.Entity]:
        number = wanted.table_entry.table_id
        if number and not lookup(self.info.tables, number, "table").direct_counter:
            raise StateError(errors.INVALID_ARGUMENT, "the table has no direct counter")
        for table, entry, cell in self._cells(wanted.table_entry):
            if not table.direct_counter:
                continue
            entity = p4r.Entity()
            entity.direct_counter_entry.table_entry.CopyFrom(entry)
            entity.direct_counter_entry.data.packet_count = cell[PACKETS]
            entity.direct_counter_entry.data.byte_count = cell[BYTES]
            yield entity

    def _direct_meters(self, wanted: p4r.DirectMeterEntry) -> Iterator[p4r.Entity]:
        for table, entry, cell in self._cells(wanted.table_entry):
            if not table.direct_meter or table.spec.direct_meter is None:
                continue
            entity = p4r.Entity()
            entity.direct_meter_entry.table_entry.CopyFrom(entry)
            array = self.state.meters[table.spec.direct_meter]
            _meter_config(array, id(cell), entity.direct_meter_entry.config)
            yield entity

    # Action profiles

    def _profiles(self, number: int) -> list[tuple[int, str]]:
        if number == 0:
            return [(n, item.preamble.name) for n, item in self.info.profiles.items()]
        return [(number, lookup(self.info.profiles, number, "action profile").preamble.name)]

    def _members(self, wanted: p4r.ActionProfileMember) -> Iterator[p4r.Entity]:
        for number, name in self._profiles(wanted.action_profile_id):
            for member in list(self.state.profiles[name].members.values()):
                if wanted.member_id and member.member_id != wanted.member_id:
                    continue
                entity = p4r.Entity()
                message = entity.action_profile_member
                message.action_profile_id = number
                message.member_id = member.member_id
                action = encode_action(self.state, self.info, member.cell)
                if action is not None:
                    message.action.CopyFrom(action)
                yield entity

    def _groups(self, wanted: p4r.ActionProfileGroup) -> Iterator[p4r.Entity]:
        for number, name in self._profiles(wanted.action_profile_id):
            for group in list(self.state.profiles[name].groups.values()):
                if wanted.group_id and group.group_id != wanted.group_id:
                    continue
                entity = p4r.Entity()
                entity.action_profile_group.CopyFrom(_group(number, group))
                yield entity

    # Counters and meters

    def _counters(self, wanted: p4r.CounterEntry) -> Iterator[p4r.Entity]:
        if wanted.counter_id:
            known = {wanted.counter_id: lookup(self.info.counters, wanted.counter_id, "counter")}
        else:
            known = dict(self.info.counters)
        for number, counter in known.items():
            name = counter.preamble.name
            packets, octets = self.state.counter_packets[name], self.state.counter_bytes[name]
            for index in _indices(wanted, len(packets)):
                entity = p4r.Entity()
                entity.counter_entry.counter_id = number
                entity.counter_entry.index.index = index
                entity.counter_entry.data.packet_count = packets[index]
                entity.counter_entry.data.byte_count = octets[index]
                yield entity

    def _meters(self, wanted: p4r.MeterEntry) -> Iterator[p4r.Entity]:
        if wanted.meter_id:
            known = {wanted.meter_id: lookup(self.info.meters, wanted.meter_id, "meter")}
        else:
            known = dict(self.info.meters)
        for number, meter in known.items():
            array = self.state.meters[meter.preamble.name]
            for index in _indices(wanted, meter.size):
                entity = p4r.Entity()
                entity.meter_entry.meter_id = number
                entity.meter_entry.index.index = index
                if index in array.buckets:
                    _meter_config(array, index, entity.meter_entry.config)
                yield entity

    # Replication and value sets

    def _replication(self, wanted: p4r.PacketReplicationEngineEntry) -> Iterator[p4r.Entity]:
        kind = wanted.WhichOneof("type")
        if kind == "clone_session_entry":
            for number, session in sorted(self.state.clone_sessions.items()):
                if wanted.clone_session_entry.session_id in (0, number):
                    entity = p4r.Entity()
                    clone = entity.packet_replication_engine_entry.clone_session_entry
                    clone.session_id = number
                    _add_replicas(clone, session.replicas, session.control)
                    yield entity
        elif kind == "multicast_group_entry":
            for number, replicas in sorted(self.state.multicast_groups.items()):
                if wanted.multicast_group_entry.multicast_group_id in (0, number):
                    entity = p4r.Entity()
                    group = entity.packet_replication_engine_entry.multicast_group_entry
                    group.multicast_group_id = number
                    as_bytes, metadata = self.state.multicast_control[number]
                    group.metadata = metadata
                    _add_replicas(group, replicas, as_bytes)
                    yield entity
        else:
            raise StateError(errors.INVALID_ARGUMENT, "a replication entry needs a type")

    def _value_sets(self, wanted: p4r.ValueSetEntry) -> Iterator[p4r.Entity]:
        if wanted.value_set_id:
            known = {wanted.value_set_id: lookup(self.info.value_sets, wanted.value_set_id, "set")}
        else:
            known = dict(self.info.value_sets)
        for number, info in known.items():
            entity = p4r.Entity()
            entity.value_set_entry.value_set_id = number
            for values in sorted(self.state.value_sets[info.preamble.name]):
                member = entity.value_set_entry.members.add()
                for field, value in zip(info.match, values, strict=True):
                    member.match.add(field_id=field.id).exact.value = encode_value(value)
            yield entity


def _group(profile_id: int, group: Group) -> p4r.ActionProfileGroup:
    message = p4r.ActionProfileGroup(
        action_profile_id=profile_id, group_id=group.group_id, max_size=group.control or 0
    )
    for member_id, weight, watch in group.members:
        row = message.members.add(member_id=member_id, weight=weight)
        if isinstance(watch, bytes) and watch:
            row.watch_port = watch
        elif isinstance(watch, int) and watch:
            row.watch = watch
    return message


def _add_replicas(
    message: p4r.CloneSessionEntry | p4r.MulticastGroupEntry,
    replicas: tuple[tuple[int, int], ...],
    as_bytes: list[bool] | None,
) -> None:
    """The replicas, each port in the field in which it was written."""
    flags = as_bytes or [False] * len(replicas)
    for (port, instance), new_field in zip(replicas, flags, strict=True):
        if new_field:
            message.replicas.add(port=encode_value(port), instance=instance)
        else:
            message.replicas.add(egress_port=port, instance=instance)


def _indices(wanted: p4r.CounterEntry | p4r.MeterEntry, size: int) -> range:
    if not wanted.HasField("index"):
        return range(size)
    index = wanted.index.index
    if not 0 <= index < size:
        raise StateError(errors.OUT_OF_RANGE, f"index {index} is outside of 0 to {size - 1}")
    return range(index, index + 1)


def _meter_config(array: MeterArray, index: int, config: p4r.MeterConfig) -> None:
    bucket = array.buckets.get(index)
    if bucket is not None:
        encode_meter(bucket, config)
