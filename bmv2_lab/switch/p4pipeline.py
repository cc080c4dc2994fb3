# SPDX-License-Identifier: Apache-2.0
"""The forwarding pipeline of one switch: verify, save, commit, reconcile (P4Runtime 14 and 15)."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from finsy.proto import p4r

from bmv2_lab.switch import errors
from bmv2_lab.switch.digests import DigestLists, SendList
from bmv2_lab.switch.errors import ProgramError, StateError
from bmv2_lab.switch.idle_timeouts import IdleTimeouts
from bmv2_lab.switch.p4read import EntityReader
from bmv2_lab.switch.p4target import Target
from bmv2_lab.switch.p4write import UpdateWriter
from bmv2_lab.switch.pipeline_info import PipelineInfo
from bmv2_lab.switch.roles import object_id
from bmv2_lab.switch.switch import EmbeddedSwitch
from bmv2_lab.switch.tables import Entry, Table
from bmv2_lab.switch.timers import Timers
from bmv2_lab.switch.translate import SwitchProgram

# Updates that are kept between VERIFY_AND_SAVE and COMMIT.
REPLAY_LIMIT = 1 << 18

OnIdle = Callable[[Target, list[tuple[Table, Entry]]], None]

_ACTIONS = p4r.SetForwardingPipelineConfigRequest
_PARTS = p4r.GetForwardingPipelineConfigRequest
_NO_PIPELINE = "No forwarding pipeline config set for this device"


def _invalid(message: str) -> StateError:
    return StateError(errors.INVALID_ARGUMENT, message)


class Pipeline:
    """What runs on a switch, and what was saved to run later."""

    def __init__(self, switch: EmbeddedSwitch, timers: Timers, send_digest: SendList) -> None:
        self.running: Target | None = None
        self.on_idle: OnIdle | None = None
        self._switch = switch
        self._timers = timers
        self._send_digest = send_digest
        self._saved: Target | None = None
        self._replay: list[p4r.Update] = []

    def target(self) -> Target:
        """What reads and writes refer to: a saved pipeline before the running one."""
        target = self._saved or self.running
        if target is None:
            raise StateError(errors.FAILED_PRECONDITION, _NO_PIPELINE)
        return target

    def check_room(self, count: int) -> None:
        """RESOURCE_EXHAUSTED if so many updates cannot be kept for the commit."""
        if self._saved is not None and len(self._replay) + count > REPLAY_LIMIT:
            raise StateError(
                errors.RESOURCE_EXHAUSTED, f"more than {REPLAY_LIMIT} updates before COMMIT"
            )

    def written(self, update: p4r.Update) -> None:
        """An update was accepted."""
        if self._saved is not None:
            kept = p4r.Update()
            kept.CopyFrom(update)
            self._replay.append(kept)

    def config(self, part: int) -> p4r.ForwardingPipelineConfig:
        """The asked part of the pipeline that reads and writes refer to."""
        known = self.target().config
        if part not in _PARTS.ResponseType.values():
            raise _invalid(f"unknown response type {part}")
        config = p4r.ForwardingPipelineConfig()
        if known.HasField("cookie"):
            config.cookie.CopyFrom(known.cookie)
        if part in (_PARTS.ALL, _PARTS.P4INFO_AND_COOKIE):
            config.p4info.CopyFrom(known.p4info)
        if part in (_PARTS.ALL, _PARTS.DEVICE_CONFIG_AND_COOKIE):
            config.p4_device_config = known.p4_device_config
        return config

    def set(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """Carry out a request; a JSON that is known is not translated again."""
        action = request.action
        if action == _ACTIONS.COMMIT:
            self._commit_saved(request)
            return
        if action not in _ACTIONS.Action.values() or action == _ACTIONS.UNSPECIFIED:
            raise _invalid("the action is missing")
        if not request.HasField("config"):
            raise _invalid("the config is missing")
        config = p4r.ForwardingPipelineConfig()
        config.CopyFrom(request.config)
        try:
            program = SwitchProgram.from_json(config.p4_device_config)
        except ProgramError as error:
            raise _invalid(str(error)) from error
        info = PipelineInfo.build(config.p4info, program)
        if action == _ACTIONS.VERIFY:
            return
        if action == _ACTIONS.VERIFY_AND_SAVE:
            self._forget_saved()
            self._saved = self._make(config, info, self._spare(program))
        elif action == _ACTIONS.RECONCILE_AND_COMMIT and self.running is not None:
            self._reconcile(self.running, config, info, program)
        else:
            self._commit(config, info, program)

    def close(self) -> None:
        """Stop what waits for time to pass."""
        self._forget_saved()
        if self.running is not None:
            self.running.close()

    # Parts

    def _spare(self, program: SwitchProgram) -> EmbeddedSwitch:
        """A switch of the same kind that takes no packets."""
        spare = EmbeddedSwitch(
            program,
            self._switch.device_id,
            self._switch.stamp_unit_ns,
            cpu_port=self._switch.cpu_port,
            seed=self._switch.seed,
        )
        return spare

    def _make(
        self, config: p4r.ForwardingPipelineConfig, info: PipelineInfo, switch: EmbeddedSwitch
    ) -> Target:
        def notify(due: list[tuple[Table, Entry]]) -> None:
            running = self.running  # a saved pipeline has no hits, and so nothing to tell
            if running is not None and running.info is info and self.on_idle is not None:
                self.on_idle(running, due)

        for profile in info.profiles.values():
            known = switch.state.profiles[profile.preamble.name]
            known.counts_members = profile.HasField("sum_of_members")
            known.weight_max = profile.sum_of_members.max_member_weight
        for table in info.tables.values():
            if not table.const:  # the JSON does not tell initial entries from constant ones
                for entry in switch.state.tables[table.name].entries.values():
                    entry.const = False
        return Target(
            config=config,
            info=info,
            switch=switch,
            digests=DigestLists(info, self._timers, self._send_digest),
            ages=IdleTimeouts(self._timers, notify),
        )

    def _forget_saved(self) -> None:
        if self._saved is not None:
            self._saved.close()
        self._saved = None
        self._replay.clear()

    def _commit(
        self,
        config: p4r.ForwardingPipelineConfig,
        info: PipelineInfo,
        program: SwitchProgram,
        updates: Iterable[p4r.Update] = (),
        *,
        initial_entries: bool = True,
    ) -> None:
        """Run a pipeline from now on, with what these updates write."""
        updates = list(updates)
        self._forget_saved()
        if self.running is not None:
            self.running.close()
        self._switch.load(program)
        self.running = self._make(config, info, self._switch)
        if not initial_entries:
            _clear_tables(self.running)
        writer = UpdateWriter(self.running)
        for update in updates:
            writer.apply(update)

    def _commit_saved(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        if request.HasField("config"):
            raise _invalid("COMMIT takes no config")
        if self._saved is None:
            raise StateError(errors.NOT_FOUND, "no pipeline was saved")
        saved = self._saved
        self._commit(saved.config, saved.info, saved.switch.program, self._replay)

    def _reconcile(
        self,
        old: Target,
        config: p4r.ForwardingPipelineConfig,
        info: PipelineInfo,
        program: SwitchProgram,
    ) -> None:
        """Keep all entries, or refuse and change nothing.

        Registers of the same name and size keep their contents too.
        """
        if program is old.switch.program and config.p4info == old.config.p4info:
            self._forget_saved()
            self.running = replace(old, config=config)
            return
        updates = list(_entries(old))
        trial = self._make(config, info, self._spare(program))
        try:
            _clear_tables(trial)
            writer = UpdateWriter(trial)
            for update in updates:
                _check_names(update.entity, old.info, info)
                writer.apply(update)
        except StateError as error:
            raise _invalid(f"an entry cannot be kept: {error.message}") from error
        finally:
            trial.close()
        registers = {name: list(values) for name, values in old.state.registers.items()}
        self._commit(config, info, program, updates, initial_entries=False)
        for name, values in self._switch.state.registers.items():
            if len(registers.get(name, ())) == len(values):
                values[:] = registers[name]


def _clear_tables(target: Target) -> None:
    """Remove initial entries: those of the pipeline before it may have been changed."""
    for table in target.state.tables.values():
        table.clear()


def _entries(target: Target) -> Iterator[p4r.Update]:
    """Updates that write everything that is in a pipeline, in an order that works."""
    everything = p4r.ReadRequest()
    everything.entities.add().action_profile_member.SetInParent()
    everything.entities.add().action_profile_group.SetInParent()
    for is_default in (False, True):
        entry = everything.entities.add().table_entry
        entry.is_default_action = is_default
        entry.counter_data.SetInParent()
        entry.meter_config.SetInParent()
    replication = everything.entities.add().packet_replication_engine_entry
    replication.clone_session_entry.SetInParent()
    replication = everything.entities.add().packet_replication_engine_entry
    replication.multicast_group_entry.SetInParent()
    everything.entities.add().counter_entry.SetInParent()
    everything.entities.add().meter_entry.SetInParent()
    everything.entities.add().value_set_entry.SetInParent()
    everything.entities.add().digest_entry.SetInParent()
    reader = EntityReader(target)
    modified = ("counter_entry", "meter_entry", "value_set_entry")
    for wanted in everything.entities:
        for entity in reader.read(wanted):
            kind = entity.WhichOneof("entity")
            modify = kind in modified or entity.table_entry.is_default_action
            if kind == "table_entry" and not _is_written(target, entity.table_entry):
                continue
            how = p4r.Update.MODIFY if modify else p4r.Update.INSERT
            yield p4r.Update(type=how, entity=entity)


def _is_written(target: Target, entry: p4r.TableEntry) -> bool:
    """False for what the program itself says."""
    if entry.is_const:
        return False
    info = target.info.tables[entry.table_id]
    if entry.is_default_action:
        return target.state.tables[info.name].default_control is not None
    return True


def _check_names(entity: p4r.Entity, old: PipelineInfo, new: PipelineInfo) -> None:
    """INVALID_ARGUMENT if the new P4Info gives an id of the entity to something else."""
    numbers = {object_id(entity), *_actions(entity)} - {None, 0}
    for number in numbers:
        assert number is not None
        before, after = old.names.get(number), new.names.get(number)
        if before != after:
            raise _invalid(f"id {number:#x} was {before} and is {after or 'unknown'} now")


def _actions(entity: p4r.Entity) -> Iterator[int]:
    kind = entity.WhichOneof("entity")
    if kind == "action_profile_member":
        yield entity.action_profile_member.action.action_id
    elif kind == "table_entry":
        action = entity.table_entry.action
        yield action.action.action_id
        for row in action.action_profile_action_set.action_profile_actions:
            yield row.action.action_id
