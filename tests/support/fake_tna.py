# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime server of a Tofino: takes the device config of Stratum or PI, holds entries by the
TNA program's P4Info, and refuses what Stratum refuses.

No data plane. What it checks is what the P4Info and the P4Runtime specification say, and for clone
sessions what Stratum's replication manager does with mirror sessions.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
from finsy.proto import p4i, p4r
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.support.fake_p4runtime import FakeSwitch, entity_key

PRIORITY_MAX = (1 << 24) - 1
"""Tofino's match priorities have 24 bits."""
CLONE_SESSION_ID_MAX = 1015
"""Mirror sessions that a program can use."""


def _bf_pipeline_config() -> Any:
    """The class of Stratum's message, declared as in its bf.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="bf.proto", package="bf", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def add(
        message: descriptor_pb2.DescriptorProto,
        *fields: tuple[str, int],
        repeated: tuple[str, ...] = (),
        of: str = "",
    ) -> None:
        for number, (name, kind) in enumerate(fields, 1):
            one = message.field.add(name=name, number=number, type=kind)
            one.label = kinds.LABEL_REPEATED if name in repeated else kinds.LABEL_OPTIONAL
            if kind == kinds.TYPE_MESSAGE:
                one.type_name = of

    config = file.message_type.add(name="BfPipelineConfig")
    profile = config.nested_type.add(name="Profile")
    add(
        profile,
        ("profile_name", kinds.TYPE_STRING),
        ("context", kinds.TYPE_BYTES),
        ("binary", kinds.TYPE_BYTES),
        ("pipe_scope", kinds.TYPE_UINT32),
        repeated=("pipe_scope",),
    )
    add(
        config,
        ("p4_name", kinds.TYPE_STRING),
        ("bfruntime_info", kinds.TYPE_BYTES),
        ("profiles", kinds.TYPE_MESSAGE),
        repeated=("profiles",),
        of=".bf.BfPipelineConfig.Profile",
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("bf.BfPipelineConfig"))


BfPipelineConfig = _bf_pipeline_config()


@dataclass(frozen=True, kw_only=True)
class LoadedProgram:
    """What a driver would load."""

    name: str
    binary: bytes
    context: dict[str, Any]
    schema: dict[str, Any] | None
    """bfrt.json; PI's packing has none."""
    pipe_scope: tuple[int, ...] = ()


def unpack_stratum(blob: bytes) -> LoadedProgram:
    """The program in a BfPipelineConfig; ValueError for anything else."""
    config = BfPipelineConfig()
    config.ParseFromString(blob)
    (profile,) = config.profiles
    return LoadedProgram(
        name=config.p4_name,
        binary=profile.binary,
        context=json.loads(profile.context),
        schema=json.loads(config.bfruntime_info),
        pipe_scope=tuple(profile.pipe_scope),
    )


def unpack_pi(blob: bytes) -> LoadedProgram:
    """The program in PI's packing; ValueError for anything else."""
    blocks = []
    while blob:
        size = int.from_bytes(blob[:4], "little")
        if len(blob) < 4 + size:
            raise ValueError("a block is longer than the config")
        blocks.append(blob[4 : 4 + size])
        blob = blob[4 + size :]
    name, binary, context = blocks
    return LoadedProgram(
        name=name.decode(), binary=binary, context=json.loads(context), schema=None
    )


@dataclass
class TnaSwitch(FakeSwitch):
    """One switch whose server is Stratum's, or PI's."""

    is_pi: bool = False
    loaded: LoadedProgram | None = None
    _tables: dict[int, p4i.Table] = field(default_factory=dict)
    _actions: dict[int, p4i.Action] = field(default_factory=dict)
    _profiles: dict[int, p4i.ActionProfile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reject = self._problem

    async def SetForwardingPipelineConfig(
        self,
        request: p4r.SetForwardingPipelineConfigRequest,
        context: "grpc.aio.ServicerContext[Any, Any]",
    ) -> p4r.SetForwardingPipelineConfigResponse:
        actions = p4r.SetForwardingPipelineConfigRequest
        if request.action != actions.VERIFY_AND_COMMIT:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "action not supported yet")
        unpack = unpack_pi if self.is_pi else unpack_stratum
        try:
            self.loaded = unpack(request.config.p4_device_config)
        except Exception as error:  # whatever the parsers raise
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"Unknown format for p4_device_config: {error}"
            )
        info = request.config.p4info
        self._tables = {table.preamble.id: table for table in info.tables}
        self._actions = {action.preamble.id: action for action in info.actions}
        self._profiles = {profile.preamble.id: profile for profile in info.action_profiles}
        return await super().SetForwardingPipelineConfig(request, context)

    async def Read(
        self, request: p4r.ReadRequest, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> AsyncIterator[p4r.ReadResponse]:
        """As Stratum answers: all bytes of a field, and the program's default action where nobody
        has set one."""
        async for reply in super().Read(request, context):
            answer = p4r.ReadResponse()
            answer.CopyFrom(reply)
            for asked in request.entities:
                answer.entities.extend(self._unset_default(asked))
            for entity in answer.entities:
                self._pad(entity)
            yield answer

    def _unset_default(self, asked: p4r.Entity) -> list[p4r.Entity]:
        if not asked.HasField("table_entry") or not asked.table_entry.is_default_action:
            return []
        table = self._tables[asked.table_entry.table_id]
        entity = p4r.Entity(
            table_entry=p4r.TableEntry(table_id=table.preamble.id, is_default_action=True)
        )
        if entity_key(entity) in self.entities:
            return []
        entity.table_entry.action.action.action_id = table.initial_default_action.action_id
        return [entity]

    def _pad(self, entity: p4r.Entity) -> None:
        if entity.HasField("table_entry"):
            entry = entity.table_entry
            bits = {one.id: one.bitwidth for one in self._tables[entry.table_id].match_fields}
            for match in entry.match:
                size = (bits[match.field_id] + 7) // 8
                if match.HasField("exact"):
                    match.exact.value = match.exact.value.rjust(size, b"\0")
                elif match.HasField("ternary"):
                    match.ternary.value = match.ternary.value.rjust(size, b"\0")
                    match.ternary.mask = match.ternary.mask.rjust(size, b"\0")
                elif match.HasField("lpm"):
                    match.lpm.value = match.lpm.value.rjust(size, b"\0")
            if entry.action.HasField("action"):
                self._pad_action(entry.action.action)
        if entity.HasField("action_profile_member"):
            self._pad_action(entity.action_profile_member.action)

    def _pad_action(self, action: p4r.Action) -> None:
        bits = {one.id: one.bitwidth for one in self._actions[action.action_id].params}
        for param in action.params:
            param.value = param.value.rjust((bits[param.param_id] + 7) // 8, b"\0")

    # What is refused, and why

    def _problem(self, update: p4r.Update) -> str | None:
        entity = update.entity
        match entity.WhichOneof("entity"):
            case "table_entry":
                return self._table_problem(update.type, entity.table_entry)
            case "action_profile_member":
                member = entity.action_profile_member
                if member.action_profile_id not in self._profiles:
                    return f"no action profile {member.action_profile_id}"
                return self._action_problem(member.action)
            case "action_profile_group":
                return self._group_problem(entity.action_profile_group)
            case "packet_replication_engine_entry":
                return _replication_problem(update.type, entity.packet_replication_engine_entry)
            case other:
                return f"Unsupported entity type: {other}"

    def _table_problem(self, how: int, entry: p4r.TableEntry) -> str | None:
        table = self._tables.get(entry.table_id)
        if table is None:
            return f"no table {entry.table_id}"
        if table.is_const_table or (entry.is_default_action and table.const_default_action_id):
            return "The table is constant."
        if entry.is_default_action and how != p4r.Update.MODIFY:
            return "The table default entry can only be modified."
        fields = {one.id: one for one in table.match_fields}
        for match in entry.match:
            known = fields.get(match.field_id)
            if known is None:
                return f"no match field {match.field_id}"
            kind = p4i.MatchField.MatchType.Name(known.match_type).lower()
            if match.WhichOneof("field_match_type") != kind:
                return f"{known.name} is no {match.WhichOneof('field_match_type')} match"
            if _too_wide(_values(match), known.bitwidth):
                return f"{known.name} is wider than {known.bitwidth} bits"
        exact = {one.id for one in fields.values() if one.match_type == p4i.MatchField.EXACT}
        if not entry.is_default_action and exact - {match.field_id for match in entry.match}:
            return "an exact match field is missing"
        ordered = {p4i.MatchField.TERNARY, p4i.MatchField.RANGE} & {
            one.match_type for one in fields.values()
        }
        if entry.is_default_action or not ordered:
            if entry.priority:
                return "Non-zero priority for ternary/range/optional match."
        elif not 0 < entry.priority <= PRIORITY_MAX:
            return "Zero priority for ternary/range/optional match."
        if how == p4r.Update.DELETE:
            return None
        kind = entry.action.WhichOneof("type") or ""
        if table.implementation_id:
            return None if kind.startswith("action_profile_") else "the table has a selector"
        if kind != "action":
            return "the table has no selector"
        if entry.action.action.action_id not in {one.id for one in table.action_refs}:
            return f"no action {entry.action.action.action_id} in {table.preamble.alias}"
        if how == p4r.Update.INSERT and self._count(entry.table_id) >= table.size:
            return "the table is full"
        return self._action_problem(entry.action.action)

    def _count(self, table_id: int) -> int:
        return sum(
            entity.HasField("table_entry")
            and entity.table_entry.table_id == table_id
            and not entity.table_entry.is_default_action
            for entity in self.entities.values()
        )

    def _action_problem(self, action: p4r.Action) -> str | None:
        known = self._actions.get(action.action_id)
        if known is None:
            return f"no action {action.action_id}"
        bits = {one.id: one.bitwidth for one in known.params}
        if {param.param_id for param in action.params} != bits.keys():
            return f"{known.preamble.alias} has other parameters"
        for param in action.params:
            if _too_wide([param.value], bits[param.param_id]):
                return f"a parameter of {known.preamble.alias} is too wide"
        return None

    def _group_problem(self, group: p4r.ActionProfileGroup) -> str | None:
        profile = self._profiles.get(group.action_profile_id)
        if profile is None or not profile.with_selector:
            return f"no action selector {group.action_profile_id}"
        limit = group.max_size or profile.max_group_size
        if limit > profile.max_group_size or len(group.members) > limit:
            return f"a group has at most {profile.max_group_size} members"
        for member in group.members:
            one = p4r.Entity(
                action_profile_member=p4r.ActionProfileMember(
                    action_profile_id=group.action_profile_id, member_id=member.member_id
                )
            )
            if entity_key(one) not in self.entities:
                return f"no member {member.member_id}"
        return None


def _replication_problem(how: int, entry: p4r.PacketReplicationEngineEntry) -> str | None:
    if entry.HasField("multicast_group_entry"):
        return None
    session = entry.clone_session_entry
    if not 0 < session.session_id <= CLONE_SESSION_ID_MAX:
        return "Invalid session id in CloneSessionEntry"
    if how == p4r.Update.DELETE:
        return None
    if len(session.replicas) != 1:
        return "Multiple replicas are not supported"
    (replica,) = session.replicas
    if not replica.egress_port:
        return "Invalid egress port in Replica"
    if replica.instance:
        return "Instances on Replicas are not supported"
    if session.class_of_service >= 8 or session.packet_length_bytes > 0xFFFF:
        return "Packet length exceeds maximum value"
    return None


def _values(match: p4r.FieldMatch) -> list[bytes]:
    if match.HasField("exact"):
        return [match.exact.value]
    if match.HasField("ternary"):
        return [match.ternary.value, match.ternary.mask]
    return [match.lpm.value]


def _too_wide(values: list[bytes], bits: int) -> bool:
    return any(int.from_bytes(value, "big") >> bits for value in values)
