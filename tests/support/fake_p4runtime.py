# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime server that stores what it is sent, and fails where a test tells it to.

No data plane and no checks: it is there for the faults that a sound switch does not show.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from finsy import pbutil
from finsy.proto import p4r, p4r_grpc, rpc_code, rpc_status

MESSAGE_BYTES_MAX = 256 << 20


@dataclass
class FakeSwitch(p4r_grpc.P4RuntimeServicer):
    """State of one switch, and its faults."""

    entities: dict[bytes, p4r.Entity] = field(default_factory=dict)
    config: p4r.ForwardingPipelineConfig | None = None
    primary_election_id: int = 0
    push_count: int = 0
    write_sizes: list[int] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    reject: Callable[[p4r.Update], str | None] = lambda update: None
    """Message with which an update is rejected, or None."""
    forget: Callable[[p4r.Update], bool] = lambda update: False
    """Updates that are accepted but not carried out."""
    silent: bool = False
    """Never answers the arbitration."""
    dies_after: int | None = None
    """After this many write requests nothing answers any more, as if the process were gone."""
    plain_errors: bool = False
    """Errors come without the details that say which update failed."""

    async def StreamChannel(
        self, request_iterator: AsyncIterator[p4r.StreamMessageRequest], context: object
    ) -> AsyncIterator[p4r.StreamMessageResponse]:
        async for request in request_iterator:
            if self.silent:
                continue
            asked = request.arbitration.election_id.low
            code = rpc_code.OK if asked > self.primary_election_id else rpc_code.ALREADY_EXISTS
            yield p4r.StreamMessageResponse(
                arbitration=p4r.MasterArbitrationUpdate(
                    device_id=request.arbitration.device_id,
                    election_id=p4r.Uint128(low=max(asked, self.primary_election_id)),
                    status=rpc_status.Status(code=code),
                )
            )

    async def GetForwardingPipelineConfig(
        self,
        request: p4r.GetForwardingPipelineConfigRequest,
        context: "grpc.aio.ServicerContext[Any, Any]",
    ) -> p4r.GetForwardingPipelineConfigResponse:
        if self.config is None:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION, "No forwarding pipeline config set"
            )
        assert self.config is not None
        if request.response_type != p4r.GetForwardingPipelineConfigRequest.COOKIE_ONLY:
            return p4r.GetForwardingPipelineConfigResponse(config=self.config)
        return p4r.GetForwardingPipelineConfigResponse(
            config=p4r.ForwardingPipelineConfig(cookie=self.config.cookie)
        )

    async def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: object
    ) -> p4r.SetForwardingPipelineConfigResponse:
        self.log.append("push")
        self.push_count += 1
        self.config = request.config
        self.entities.clear()
        return p4r.SetForwardingPipelineConfigResponse()

    async def Write(
        self, request: p4r.WriteRequest, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> p4r.WriteResponse:
        if self.dies_after is not None and len(self.write_sizes) >= self.dies_after:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        self.write_sizes.append(len(request.updates))
        errors = []
        for update in request.updates:
            kind = update.entity.WhichOneof("entity")
            self.log.append(f"{p4r.Update.Type.Name(update.type).lower()} {kind}")
            message = self.reject(update)
            errors.append(
                p4r.Error(
                    canonical_code=rpc_code.RESOURCE_EXHAUSTED if message else rpc_code.OK,
                    message=message or "",
                )
            )
            if message or self.forget(update):
                continue
            if update.type == p4r.Update.DELETE:
                del self.entities[entity_key(update.entity)]
            else:
                self.entities[entity_key(update.entity)] = update.entity
        if any(error.canonical_code for error in errors):
            if not self.plain_errors:
                status = rpc_status.Status(
                    code=rpc_code.UNKNOWN,
                    message="some updates failed",
                    details=[pbutil.to_any(error) for error in errors],
                )
                context.set_trailing_metadata(
                    [("grpc-status-details-bin", status.SerializeToString())]
                )
            await context.abort(grpc.StatusCode.UNKNOWN, "some updates failed")
        return p4r.WriteResponse()

    async def Read(
        self, request: p4r.ReadRequest, context: "grpc.aio.ServicerContext[Any, Any]"
    ) -> AsyncIterator[p4r.ReadResponse]:
        if self.config is None:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION, "No forwarding pipeline config set"
            )
        found = [
            entity
            for wildcard in request.entities
            for entity in self.entities.values()
            if _matches(wildcard, entity)
        ]
        yield p4r.ReadResponse(entities=found)

    async def Capabilities(
        self, request: p4r.CapabilitiesRequest, context: object
    ) -> p4r.CapabilitiesResponse:
        return p4r.CapabilitiesResponse(p4runtime_api_version="1.3.0")


def entity_key(entity: p4r.Entity) -> bytes:
    """What identifies an entity: itself without its action, members or replicas."""
    key = p4r.Entity()
    key.CopyFrom(entity)
    if key.HasField("table_entry"):
        key.table_entry.ClearField("action")
    if key.HasField("action_profile_member"):
        key.action_profile_member.ClearField("action")
    if key.HasField("action_profile_group"):
        key.action_profile_group.ClearField("members")
        key.action_profile_group.ClearField("max_size")
    if key.HasField("packet_replication_engine_entry"):
        key.packet_replication_engine_entry.clone_session_entry.ClearField("replicas")
    return key.SerializeToString(deterministic=True)


def _matches(wildcard: p4r.Entity, entity: p4r.Entity) -> bool:
    kind = wildcard.WhichOneof("entity")
    if entity.WhichOneof("entity") != kind:
        return False
    if kind == "table_entry":
        asked, stored = wildcard.table_entry, entity.table_entry
        return asked.table_id == stored.table_id and (
            asked.is_default_action == stored.is_default_action
        )
    if kind == "packet_replication_engine_entry":
        return bool(
            wildcard.packet_replication_engine_entry.WhichOneof("type")
            == entity.packet_replication_engine_entry.WhichOneof("type")
        )
    return True


@asynccontextmanager
async def serve_fake(switch: FakeSwitch) -> AsyncIterator[str]:
    """Serve the switch on a free port of 127.0.0.1 and give its address."""
    # As P4Runtime servers do: a device config can be larger than gRPC's default of 4 MiB.
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", MESSAGE_BYTES_MAX)])
    p4r_grpc.add_P4RuntimeServicer_to_server(switch, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
