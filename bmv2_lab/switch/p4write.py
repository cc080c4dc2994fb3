# SPDX-License-Identifier: Apache-2.0
"""P4Runtime updates applied to a pipeline, one at a time; table entries are here."""

from finsy.proto import p4r

from bmv2_lab.switch import errors
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.p4target import Target
from bmv2_lab.switch.p4values import EntryControl, decode_action, decode_key, decode_watch
from bmv2_lab.switch.p4write_arrays import ArrayWriter, configure, write_cell
from bmv2_lab.switch.p4write_groups import GroupWriter
from bmv2_lab.switch.pipeline_info import TableInfo, lookup
from bmv2_lab.switch.profiles import Profile
from bmv2_lab.switch.tables import ARGUMENTS, BYTES, PACKETS, Cell, Entry, Match, Table

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE


def _invalid(message: str) -> StateError:
    return StateError(errors.INVALID_ARGUMENT, message)


class UpdateWriter:
    """Applies updates; each raises StateError with its canonical code and changes nothing then."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.state = target.state
        self.info = target.info
        self.groups = GroupWriter(target)
        self.arrays = ArrayWriter(target)

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
                self.groups.member(update.type, entity.action_profile_member)
            case "action_profile_group":
                self.groups.group(update.type, entity.action_profile_group)
            case "packet_replication_engine_entry":
                self.groups.replication(update.type, entity.packet_replication_engine_entry)
            case "counter_entry":
                self.arrays.counter(update.type, entity.counter_entry)
            case "direct_counter_entry":
                self.arrays.direct_counter(update.type, entity.direct_counter_entry)
            case "meter_entry":
                self.arrays.meter(update.type, entity.meter_entry)
            case "direct_meter_entry":
                self.arrays.direct_meter(update.type, entity.direct_meter_entry)
            case "value_set_entry":
                self.arrays.value_set(update.type, entity.value_set_entry)
            case "digest_entry":
                self.target.digests.write(update.type, entity.digest_entry)
            case None:
                raise _invalid("an update needs an entity")
            case _:
                raise StateError(errors.UNIMPLEMENTED, f"{kind} cannot be written")

    # Table entries

    def _table_entry(self, kind: int, message: p4r.TableEntry) -> None:
        info = lookup(self.info.tables, message.table_id, "table")
        table = self.state.tables[info.name]
        if message.is_default_action:
            self._default(kind, info, table, message)
            return
        match = decode_key(info, table, message)
        if kind == DELETE:
            self._delete(info, table, match, message.priority)
            return
        self._check_fields(info, message)
        if kind == INSERT:
            self._insert(info, table, match, message)
        else:
            self._modify(info, table, match, message)

    @staticmethod
    def _check_fields(info: TableInfo, message: p4r.TableEntry) -> None:
        """Fields that the table cannot have, or that only a read may set."""
        if message.is_const:
            raise _invalid("is_const is for the program to say")
        if message.HasField("time_since_last_hit"):
            raise _invalid("time_since_last_hit is for reads only")
        if message.idle_timeout_ns and not info.idle_timeout:
            raise _invalid(f"{info.name} has no idle timeout")
        if message.idle_timeout_ns < 0:
            raise _invalid("an idle timeout cannot be negative")
        if message.HasField("counter_data") and info.direct_counter is None:
            raise _invalid(f"{info.name} has no direct counter")
        if message.HasField("meter_config") and not info.direct_meter:
            raise _invalid(f"{info.name} has no direct meter")
        if message.HasField("meter_counter_data"):
            raise StateError(errors.UNIMPLEMENTED, "meters do not count by colour")

    def _delete(
        self, info: TableInfo, table: Table, match: tuple[Match, ...], priority: int
    ) -> None:
        if info.const:
            raise StateError(errors.PERMISSION_DENIED, f"{info.name} is constant")
        entry = table.delete(match, priority)
        self._use(info, entry, -1)
        self._drop_set(info, entry.cell)
        if info.direct_meter:
            self.state.meters[info.meter].buckets.pop(id(entry.cell), None)
        if info.idle_timeout:
            self.target.ages.stop(table, entry)

    def _insert(
        self, info: TableInfo, table: Table, match: tuple[Match, ...], message: p4r.TableEntry
    ) -> None:
        if info.const:
            raise StateError(errors.PERMISSION_DENIED, f"{info.name} is constant")
        if not info.fields:
            raise _invalid(f"{info.name} has no key, and so a default entry only")
        if message.action.WhichOneof("type") is None:
            raise _invalid(f"{info.name}: an entry needs an action")
        bucket = configure(message.meter_config) if message.HasField("meter_config") else None
        table.check_insert(match, message.priority)
        cell, control = self._action(info, message)
        if message.HasField("counter_data"):
            write_cell(info.direct_counter, cell, message.counter_data)
        entry = Entry(match=match, priority=message.priority, cell=cell, control=control)
        table.insert(entry)
        self._use(info, entry, 1)
        if bucket is not None:
            self.state.meters[info.meter].buckets[id(cell)] = bucket
        if info.idle_timeout:
            self.target.ages.start(table, entry, message.idle_timeout_ns)

    def _modify(
        self, info: TableInfo, table: Table, match: tuple[Match, ...], message: p4r.TableEntry
    ) -> None:
        with_action = message.action.WhichOneof("type") is not None
        if with_action and info.const:
            raise StateError(errors.PERMISSION_DENIED, f"{info.name} is constant")
        bucket = configure(message.meter_config) if message.HasField("meter_config") else None
        entry = table.find(match, message.priority)
        if with_action:
            if entry.const:
                raise StateError(errors.PERMISSION_DENIED, f"{info.name}: entry is constant")
            cell, control = self._action(info, message)
            cell[PACKETS], cell[BYTES] = entry.cell[PACKETS], entry.cell[BYTES]
            self._use(info, entry, -1)
            self._drop_set(info, entry.cell)
            entry.cell[:] = cell
            entry.control = control
            self._use(info, entry, 1)
        elif isinstance(entry.control, EntryControl):
            entry.control.metadata = message.metadata
            entry.control.controller_metadata = message.controller_metadata
            entry.control.idle_timeout_ns = message.idle_timeout_ns
        if message.HasField("counter_data"):
            write_cell(info.direct_counter, entry.cell, message.counter_data)
        if info.direct_meter:  # a meter that the message leaves out is green for ever
            buckets = self.state.meters[info.meter].buckets
            buckets.pop(id(entry.cell), None)
            if bucket is not None:
                buckets[id(entry.cell)] = bucket
        if info.idle_timeout:
            self.target.ages.start(table, entry, message.idle_timeout_ns)

    def _use(self, info: TableInfo, entry: Entry, change: int) -> None:
        control = entry.control
        if info.profile is not None and isinstance(control, EntryControl):
            self.state.profiles[info.profile].use(
                member_id=control.member_id, group_id=control.group_id, change=change
            )

    def _drop_set(self, info: TableInfo, cell: Cell) -> None:
        if info.profile is not None:
            self.state.profiles[info.profile].drop_set(cell[ARGUMENTS])

    def _action(self, info: TableInfo, message: p4r.TableEntry) -> tuple[Cell, EntryControl]:
        control = EntryControl(
            metadata=message.metadata,
            controller_metadata=message.controller_metadata,
            idle_timeout_ns=message.idle_timeout_ns,
        )
        kind = message.action.WhichOneof("type")
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
        if kind == "action_profile_action_set":
            cells = self._action_set(info, profile, message, control)
            return self.state.indirect_cell(cells), control
        profile.check_manual()
        if kind == "action_profile_member_id":
            control.member_id = message.action.action_profile_member_id
            profile.member(control.member_id)
            cells = profile.member_cells[control.member_id]
        else:
            if not profile.with_selector:
                raise _invalid(f"{info.name} takes members, not groups")
            control.group_id = message.action.action_profile_group_id
            cells = profile.group(control.group_id).cells
        return self.state.indirect_cell(cells), control

    def _action_set(
        self, info: TableInfo, profile: Profile, message: p4r.TableEntry, control: EntryControl
    ) -> list[Cell]:
        if not profile.with_selector:
            raise _invalid(f"{info.name} has no selector for an action set")
        control.action_set = []
        for row in message.action.action_profile_action_set.action_profile_actions:
            cell = decode_action(
                self.state, self.info, info, row.action, allowed=info.entry_actions
            )
            control.action_set.append((cell, row.weight, decode_watch(row)))
        limit = self.info.profiles[info.message.implementation_id].max_group_size
        return profile.add_set(control.action_set, limit).cells

    def _default(self, kind: int, info: TableInfo, table: Table, message: p4r.TableEntry) -> None:
        if kind != MODIFY:
            raise _invalid("a default entry can only be modified")
        if message.match or message.priority:
            raise _invalid("a default entry has neither match nor priority")
        if info.profile is not None:
            raise _invalid(f"{info.name} has an action profile: its default entry is fixed")
        if info.spec.default_const or info.message.const_default_action_id:
            raise StateError(errors.PERMISSION_DENIED, f"{info.name}: default action is constant")
        if message.idle_timeout_ns:
            raise _invalid("a default entry has no idle timeout")
        self._check_fields(info, message)
        action = message.action.WhichOneof("type")
        if action not in (None, "action"):
            raise _invalid("a default entry takes an action")
        bucket = configure(message.meter_config) if message.HasField("meter_config") else None
        if action is None:  # back to the program's own
            if table.initial_default is not None:
                table.set_default(table.initial_default)
            table.default_control = None
            table.default[PACKETS] = table.default[BYTES] = 0
        else:
            cell = decode_action(
                self.state,
                self.info,
                info,
                message.action.action,
                allowed=info.default_actions,
                hit=False,
            )
            table.set_default(cell)
            table.default_control = EntryControl(
                metadata=message.metadata, controller_metadata=message.controller_metadata
            )
        if message.HasField("counter_data"):
            write_cell(info.direct_counter, table.default, message.counter_data)
        if info.direct_meter:
            buckets = self.state.meters[info.meter].buckets
            buckets.pop(id(table.default), None)
            if bucket is not None:
                buckets[id(table.default)] = bucket
