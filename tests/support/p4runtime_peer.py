# SPDX-License-Identifier: Apache-2.0
"""A plain P4Runtime client that says exactly what a server answered, and short ways to messages.

finsy refuses to send much of what the tests want to send.
"""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from finsy.proto import U128, p4i, p4r, p4r_grpc, rpc_code, rpc_status
from google.protobuf import text_format

DATA = Path(__file__).parents[1] / "data" / "switch"
DEADLINE_S = 20.0

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
UNSPECIFIED = p4r.Update.UNSPECIFIED


@dataclass(frozen=True, slots=True)
class Program:
    """A program of tests/data/switch: what is pushed, and its ids by short name."""

    name: str
    p4info: p4i.P4Info
    json: bytes

    @classmethod
    def load(cls, name: str) -> "Program":
        p4info = text_format.Parse((DATA / f"{name}.p4info.txt").read_text(), p4i.P4Info())
        return cls(name, p4info, (DATA / f"{name}.json").read_bytes())

    def id(self, alias: str) -> int:
        """The id of a table, action, profile, counter, ... of the P4Info."""
        for descriptor, value in self.p4info.ListFields():
            if descriptor.name in ("pkg_info", "type_info"):
                continue
            for item in value:
                if item.preamble.alias == alias:
                    return int(item.preamble.id)
        raise KeyError(alias)

    # Messages

    def action(self, alias: str, *values: bytes) -> p4r.Action:
        """An action with its parameters in order."""
        action = p4r.Action(action_id=self.id(alias))
        for number, value in enumerate(values, start=1):
            action.params.add(param_id=number, value=value)
        return action

    def entry(self, table: str, *match: p4r.FieldMatch, **more: Any) -> p4r.Entity:
        """A table entry; `action` and the other fields of TableEntry by name."""
        entry = p4r.TableEntry(table_id=self.id(table), **more)
        entry.match.extend(match)
        return p4r.Entity(table_entry=entry)

    def direct(self, alias: str, *values: bytes) -> p4r.TableAction:
        """An action of a table entry."""
        return p4r.TableAction(action=self.action(alias, *values))

    def one_shot(self, *rows: tuple[str, bytes, int, bytes]) -> p4r.TableAction:
        """(action, argument, weight, watch port) as an action set."""
        made = p4r.TableAction()
        for alias, value, weight, watch in rows:
            row = made.action_profile_action_set.action_profile_actions.add(weight=weight)
            row.action.CopyFrom(self.action(alias, value))
            if watch:
                row.watch_port = watch
        made.action_profile_action_set.SetInParent()
        return made

    def member(self, profile: str, number: int, action: p4r.Action | None = None) -> p4r.Entity:
        """A member of an action profile."""
        entity = p4r.Entity()
        entity.action_profile_member.action_profile_id = self.id(profile)
        entity.action_profile_member.member_id = number
        if action is not None:
            entity.action_profile_member.action.CopyFrom(action)
        return entity

    def group(
        self, profile: str, number: int, *rows: tuple[int, int], max_size: int = 0
    ) -> p4r.Entity:
        """A group of (member id, weight)."""
        entity = p4r.Entity()
        group = entity.action_profile_group
        group.action_profile_id, group.group_id = self.id(profile), number
        group.max_size = max_size
        for member_id, weight in rows:
            group.members.add(member_id=member_id, weight=weight)
        return entity

    def counter(self, alias: str, **more: Any) -> p4r.Entity:
        """An element of an indirect counter."""
        return p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=self.id(alias), **more))

    def meter(self, alias: str, **more: Any) -> p4r.Entity:
        """An element of an indirect meter."""
        return p4r.Entity(meter_entry=p4r.MeterEntry(meter_id=self.id(alias), **more))

    @staticmethod
    def direct_counter(entry: p4r.Entity, **more: Any) -> p4r.Entity:
        """The counter of a table entry."""
        message = p4r.DirectCounterEntry(table_entry=entry.table_entry, **more)
        return p4r.Entity(direct_counter_entry=message)

    @staticmethod
    def direct_meter(entry: p4r.Entity, **more: Any) -> p4r.Entity:
        """The meter of a table entry."""
        message = p4r.DirectMeterEntry(table_entry=entry.table_entry, **more)
        return p4r.Entity(direct_meter_entry=message)

    def digest(self, alias: str, **config: int) -> p4r.Entity:
        """A digest's configuration; an empty name is all of them."""
        message = p4r.DigestEntry(digest_id=self.id(alias) if alias else 0)
        if config:
            message.config.CopyFrom(p4r.DigestEntry.Config(**config))
        return p4r.Entity(digest_entry=message)

    def value_set(self, *values: bytes, vid: str = "extended") -> p4r.Entity:
        """A parser value set with its members; an empty name is all of them."""
        message = p4r.ValueSetEntry(value_set_id=self.id(vid) if vid else 0)
        for value in values:
            message.members.add().match.append(exact(value))
        return p4r.Entity(value_set_entry=message)

    def config(self, cookie: int = 0) -> p4r.ForwardingPipelineConfig:
        """What a pipeline push carries."""
        config = p4r.ForwardingPipelineConfig(p4info=self.p4info, p4_device_config=self.json)
        if cookie:
            config.cookie.cookie = cookie
        return config


def exact(value: bytes, number: int = 1) -> p4r.FieldMatch:
    """An exact match field."""
    return p4r.FieldMatch(field_id=number, exact=p4r.FieldMatch.Exact(value=value))


def ternary(value: bytes, mask: bytes, number: int = 1) -> p4r.FieldMatch:
    """A ternary match field."""
    return p4r.FieldMatch(field_id=number, ternary=p4r.FieldMatch.Ternary(value=value, mask=mask))


def lpm(value: bytes, length: int, number: int = 1) -> p4r.FieldMatch:
    """An LPM match field."""
    return p4r.FieldMatch(field_id=number, lpm=p4r.FieldMatch.LPM(value=value, prefix_len=length))


def between(low: bytes, high: bytes, number: int = 1) -> p4r.FieldMatch:
    """A range match field."""
    return p4r.FieldMatch(field_id=number, range=p4r.FieldMatch.Range(low=low, high=high))


def optional(value: bytes, number: int = 1) -> p4r.FieldMatch:
    """An optional match field."""
    return p4r.FieldMatch(field_id=number, optional=p4r.FieldMatch.Optional(value=value))


def clone_session(number: int, *replicas: p4r.Replica, **more: int) -> p4r.Entity:
    """A clone session."""
    entity = p4r.Entity()
    session = entity.packet_replication_engine_entry.clone_session_entry
    session.session_id = number
    session.replicas.extend(replicas)
    for name, value in more.items():
        setattr(session, name, value)
    session.SetInParent()
    return entity


def multicast(number: int, *replicas: p4r.Replica) -> p4r.Entity:
    """A multicast group."""
    entity = p4r.Entity()
    group = entity.packet_replication_engine_entry.multicast_group_entry
    group.multicast_group_id = number
    group.replicas.extend(replicas)
    group.SetInParent()
    return entity


def replica(port: int, instance: int = 1) -> p4r.Replica:
    """A replica, its port in the old field."""
    return p4r.Replica(egress_port=port, instance=instance)


RATES = p4r.MeterConfig(cir=1, cburst=2, pir=3, pburst=4)


@dataclass(frozen=True, slots=True)
class Case:
    """One request: updates to write, or an entity to read, and the codes that it gets."""

    name: str
    updates: tuple[tuple[int, p4r.Entity], ...]
    wanted: tuple[p4r.Entity, ...]
    codes: tuple[str, ...]
    bmv2_codes: tuple[str, ...]
    count: int = 0
    alike: bool = True


def _codes(code: str | tuple[str, ...]) -> tuple[str, ...]:
    return (code,) if isinstance(code, str) else code


def write(
    name: str,
    *updates: tuple[int, p4r.Entity],
    code: str | tuple[str, ...],
    bmv2: str | tuple[str, ...] = "",
) -> Case:
    """A batch: one code for all of it, or one for each update."""
    return Case(name, updates, (), _codes(code), _codes(bmv2 or code))


def read(
    name: str,
    *wanted: p4r.Entity,
    code: str,
    count: int,
    bmv2: str = "",
    alike: bool = True,
) -> Case:
    """A read and the number of entities that come back before its code."""
    return Case(name, (), wanted, (code,), (bmv2 or code,), count, alike)


@dataclass(slots=True)
class Answer:
    """What an RPC came back with: its code, text, and the code of each update."""

    code: int
    text: str = ""
    details: list[int] = field(default_factory=list)
    entities: list[p4r.Entity] = field(default_factory=list)


class Peer:
    """One connection with one stream."""

    def __init__(self, address: str, device_id: int = 1, election_id: int = 1) -> None:
        self.address = address
        self.device_id = device_id
        self.election_id = election_id
        self.role = ""
        self._channel = grpc.aio.insecure_channel(
            address,
            options=[
                ("grpc.max_metadata_size", 4 << 20),
                ("grpc.absolute_max_metadata_size", 4 << 20),
                ("grpc.max_send_message_length", 256 << 20),
                ("grpc.max_receive_message_length", 256 << 20),
            ],
        )
        self.stub = p4r_grpc.P4RuntimeStub(self._channel)
        self.stream: Any = None

    async def __aenter__(self) -> "Peer":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.stream is not None:
            self.stream.cancel()
        await self._channel.close()

    # Stream

    async def announce(self, election_id: int | None = None, **role: Any) -> None:
        """Send a MasterArbitrationUpdate; open the stream if there is none."""
        if self.stream is None:
            self.stream = self.stub.StreamChannel()
        message = p4r.StreamMessageRequest()
        message.arbitration.device_id = self.device_id
        if role:
            message.arbitration.role.CopyFrom(p4r.Role(**role))
            self.role = role.get("name", "")
        if election_id is not None:
            self.election_id = election_id
            message.arbitration.election_id.CopyFrom(U128.encode(election_id))
        await self.stream.write(message)

    async def say(self, **message: Any) -> None:
        """Send another stream message."""
        await self.stream.write(p4r.StreamMessageRequest(**message))

    async def hear(self, timeout_s: float = DEADLINE_S) -> p4r.StreamMessageResponse:
        """The next stream message."""
        message = await asyncio.wait_for(self.stream.read(), timeout_s)
        if message == grpc.aio.EOF:
            raise AssertionError(f"the stream has ended: {await self.stream.code()}")
        return message

    async def end(self) -> Answer:
        """How the server ended the stream."""
        try:
            while await asyncio.wait_for(self.stream.read(), DEADLINE_S) != grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError:
            pass
        code = await self.stream.code()
        return Answer(code.value[0], await self.stream.details() or "")

    async def become_primary(self, election_id: int = 1) -> None:
        """Announce, and expect to be primary."""
        await self.announce(election_id)
        answer = await self.hear()
        assert answer.arbitration.status.code == rpc_code.OK, answer

    # Unary

    async def write(self, *updates: tuple[int, p4r.Entity], **more: Any) -> Answer:
        """A batch of (type, entity)."""
        request = p4r.WriteRequest(device_id=self.device_id, role=self.role, **more)
        if not request.HasField("election_id"):
            request.election_id.CopyFrom(U128.encode(self.election_id))
        for kind, entity in updates:
            request.updates.add(type=kind, entity=entity)  # type: ignore[arg-type] # any int
        return await _answer(self.stub.Write(request, timeout=DEADLINE_S))

    async def push(
        self,
        config: p4r.ForwardingPipelineConfig | None,
        action: int = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        **more: Any,
    ) -> Answer:
        """Set the pipeline."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            role=self.role,
            action=action,  # type: ignore[arg-type] # any int
            config=config,
            **more,
        )
        if not request.HasField("election_id"):
            request.election_id.CopyFrom(U128.encode(self.election_id))
        return await _answer(self.stub.SetForwardingPipelineConfig(request, timeout=DEADLINE_S))

    async def read(self, *entities: p4r.Entity, role: str = "") -> Answer:
        """Entities, up to the error if there is one."""
        request = p4r.ReadRequest(device_id=self.device_id, role=role, entities=entities)
        found: list[p4r.Entity] = []
        try:
            async for response in self.stub.Read(request, timeout=DEADLINE_S):
                found.extend(response.entities)
        except grpc.aio.AioRpcError as error:
            return Answer(error.code().value[0], error.details() or "", entities=found)
        return Answer(rpc_code.OK, entities=found)


_NAMES = {code.value[0]: code.name for code in grpc.StatusCode}


async def outcome(peer: Peer, case: Case) -> tuple[tuple[str, ...], list[p4r.Entity]]:
    """The codes that a case gets from a server, and the entities."""
    if case.wanted:
        answer = await peer.read(*case.wanted)
    else:
        answer = await peer.write(*case.updates)
    codes = answer.details or [answer.code]
    return tuple(_NAMES[code] for code in codes), answer.entities


def canonical(entities: list[p4r.Entity]) -> list[bytes]:
    """Entities without their order."""
    return sorted(entity.SerializeToString(deterministic=True) for entity in entities)


async def _answer(call: Any) -> Answer:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        details = []
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                for packed in rpc_status.Status.FromString(value).details:
                    detail = p4r.Error()
                    packed.Unpack(detail)
                    details.append(detail.canonical_code)
        return Answer(error.code().value[0], error.details() or "", details)
    return Answer(rpc_code.OK)
