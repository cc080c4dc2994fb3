# SPDX-License-Identifier: Apache-2.0
"""P4Runtime reads, with the wildcards of the specification (section 12)."""

from collections.abc import Iterator

from finsy.proto import p4r

from bmv2_lab.switch import errors
from bmv2_lab.switch.bytestrings import encode_value
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.meters import MeterArray
from bmv2_lab.switch.p4target import Target
from bmv2_lab.switch.p4values import (
    EntryControl,
    decode_key,
    encode_action,
    encode_counter,
    encode_default,
    encode_entry,
    encode_match,
    encode_meter,
    encode_watch,
    find_cell,
)
from bmv2_lab.switch.p4write_arrays import indices
from bmv2_lab.switch.p4write_groups import MULTICAST_GROUP_MAX
from bmv2_lab.switch.pipeline_info import TableInfo, lookup
from bmv2_lab.switch.profiles import Group
from bmv2_lab.switch.tables import BYTES, INDIRECT, PACKETS, Cell, Entry


def _invalid(message: str) -> StateError:
    return StateError(errors.INVALID_ARGUMENT, message)


def _not_found(message: str) -> StateError:
    return StateError(errors.NOT_FOUND, message)


class EntityReader:
    """Yields what a ReadRequest asks for.

    As in BMv2's server, an entry, member or group that does not exist yields nothing; a clone
    session, multicast group, digest or direct resource that does not exist is NOT_FOUND.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.state = target.state
        self.info = target.info

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
                for digest in self.target.digests.read(entity.digest_entry.digest_id):
                    yield p4r.Entity(digest_entry=digest)
            case None:
                raise _invalid("an entity is empty")
            case _:
                raise StateError(errors.UNIMPLEMENTED, f"{kind} cannot be read")

    # Tables

    def _tables(self, number: int) -> list[TableInfo]:
        if number == 0:
            return list(self.info.tables.values())
        return [lookup(self.info.tables, number, "table")]

    def _table_entries(self, wanted: p4r.TableEntry) -> Iterator[p4r.TableEntry]:
        ages = wanted.HasField("time_since_last_hit")
        for info in self._tables(wanted.table_id):
            table = self.state.tables[info.name]
            if wanted.is_default_action:
                if ages:
                    raise _invalid("a default entry has no idle timeout")
                yield encode_default(self.state, self.info, info, wanted)
                continue
            if ages and not info.idle_timeout:
                raise _invalid(f"{info.name} has no idle timeout")
            for entry in self._selected(info, wanted):
                message = encode_entry(self.state, self.info, info, entry, wanted)
                if ages:
                    message.time_since_last_hit.elapsed_ns = self.target.ages.since_last_hit_ns(
                        table, entry
                    )
                yield message

    def _selected(self, info: TableInfo, wanted: p4r.TableEntry) -> list[Entry]:
        """The entries that match, action, priority and metadata of a request leave."""
        table = self.state.tables[info.name]
        if wanted.match:
            key = (decode_key(info, table, wanted), wanted.priority)
            found = [table.entries[key]] if key in table.entries else []
        else:
            found = list(table.entries.values())
        if wanted.table_id == 0:  # then nothing else selects
            return found
        action = wanted.action.action.action_id if wanted.action.HasField("action") else 0
        return [
            entry
            for entry in found
            if (not wanted.priority or entry.priority == wanted.priority)
            and (not action or self._action_number(entry) == action)
            and _metadata_match(entry, wanted)
        ]

    def _action_number(self, entry: Entry) -> int | None:
        if entry.cell[1] == INDIRECT:
            return None
        return self.info.action_numbers.get(str(self.state.program.actions[entry.cell[1]]["name"]))

    def _cells(self, wanted: p4r.TableEntry) -> Iterator[tuple[TableInfo, p4r.TableEntry, Cell]]:
        """Entries of a direct resource with the cell that holds it."""
        for info in self._tables(wanted.table_id):
            table = self.state.tables[info.name]
            if wanted.is_default_action or wanted.match:
                cell = find_cell(table, info, wanted)
                yield info, wanted, cell
                continue
            for entry in self._selected(info, wanted):
                message = p4r.TableEntry(table_id=info.number, priority=entry.priority)
                message.match.extend(encode_match(info, entry.match))
                yield info, message, entry.cell

    def _direct_counters(self, wanted: p4r.DirectCounterEntry) -> Iterator[p4r.Entity]:
        if not wanted.HasField("table_entry"):
            raise _invalid("a direct counter needs a table entry")
        number = wanted.table_entry.table_id
        if number and lookup(self.info.tables, number, "table").direct_counter is None:
            raise _invalid("the table has no direct counter")
        for table, entry, cell in self._cells(wanted.table_entry):
            if table.direct_counter is None:
                continue
            entity = p4r.Entity()
            entity.direct_counter_entry.table_entry.CopyFrom(entry)
            data = entity.direct_counter_entry.data
            encode_counter(table.direct_counter, cell[PACKETS], cell[BYTES], data)
            yield entity

    def _direct_meters(self, wanted: p4r.DirectMeterEntry) -> Iterator[p4r.Entity]:
        if not wanted.HasField("table_entry"):
            raise _invalid("a direct meter needs a table entry")
        number = wanted.table_entry.table_id
        if number and not lookup(self.info.tables, number, "table").direct_meter:
            raise _invalid("the table has no direct meter")
        for table, entry, cell in self._cells(wanted.table_entry):
            if not table.direct_meter:
                continue
            entity = p4r.Entity()
            entity.direct_meter_entry.table_entry.CopyFrom(entry)
            _meter_config(self.state.meters[table.meter], id(cell), entity.direct_meter_entry)
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
            for index in indices(wanted, len(packets)):
                entity = p4r.Entity()
                entity.counter_entry.counter_id = number
                entity.counter_entry.index.index = index
                data = entity.counter_entry.data
                encode_counter(counter.spec.unit, packets[index], octets[index], data)
                yield entity

    def _meters(self, wanted: p4r.MeterEntry) -> Iterator[p4r.Entity]:
        if wanted.meter_id:
            known = {wanted.meter_id: lookup(self.info.meters, wanted.meter_id, "meter")}
        else:
            known = dict(self.info.meters)
        for number, meter in known.items():
            array = self.state.meters[meter.preamble.name]
            for index in indices(wanted, meter.size):
                entity = p4r.Entity()
                entity.meter_entry.meter_id = number
                entity.meter_entry.index.index = index
                _meter_config(array, index, entity.meter_entry)
                yield entity

    # Replication and value sets

    def _replication(self, wanted: p4r.PacketReplicationEngineEntry) -> Iterator[p4r.Entity]:
        kind = wanted.WhichOneof("type")
        if kind == "clone_session_entry":
            number = wanted.clone_session_entry.session_id
            if number and number not in self.state.clone_sessions:
                raise _not_found(f"no clone session {number}")
            for known in [number] if number else sorted(self.state.clone_sessions):
                session = self.state.clone_sessions[known]
                entity = p4r.Entity()
                clone = entity.packet_replication_engine_entry.clone_session_entry
                clone.session_id = known
                _add_replicas(clone, session.replicas, session.control)
                yield entity
        elif kind == "multicast_group_entry":
            number = wanted.multicast_group_entry.multicast_group_id
            if number > MULTICAST_GROUP_MAX:
                raise StateError(errors.OUT_OF_RANGE, "there is no such multicast group id")
            if number and number not in self.state.multicast_groups:
                raise _not_found(f"no multicast group {number}")
            for known in [number] if number else sorted(self.state.multicast_groups):
                entity = p4r.Entity()
                group = entity.packet_replication_engine_entry.multicast_group_entry
                group.multicast_group_id = known
                as_bytes, group.metadata = self.state.multicast_control.get(known, (None, b""))
                _add_replicas(group, self.state.multicast_groups[known], as_bytes)
                yield entity
        else:
            raise _invalid("a replication entry needs a type")

    def _value_sets(self, wanted: p4r.ValueSetEntry) -> Iterator[p4r.Entity]:
        if wanted.value_set_id:
            number = wanted.value_set_id
            known = {number: lookup(self.info.value_sets, number, "value set")}
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


def _metadata_match(entry: Entry, wanted: p4r.TableEntry) -> bool:
    control = entry.control if isinstance(entry.control, EntryControl) else EntryControl()
    return (not wanted.metadata or control.metadata == wanted.metadata) and (
        not wanted.controller_metadata or control.controller_metadata == wanted.controller_metadata
    )


def _group(profile_id: int, group: Group) -> p4r.ActionProfileGroup:
    message = p4r.ActionProfileGroup(
        action_profile_id=profile_id, group_id=group.group_id, max_size=group.control or 0
    )
    for member_id, weight, watch in group.members:
        row = message.members.add(member_id=member_id, weight=weight)
        encode_watch(row, watch)
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


def _meter_config(
    array: MeterArray, index: int, message: p4r.MeterEntry | p4r.DirectMeterEntry
) -> None:
    bucket = array.buckets.get(index)
    if bucket is not None:
        encode_meter(bucket, message.config)
