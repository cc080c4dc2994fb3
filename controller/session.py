# SPDX-License-Identifier: Apache-2.0
"""One P4Runtime session with one switch, in the controller's own terms.

The adapter around finsy: what it raises is wrapped once, into a `SwitchError` that names switch
and entry. Everything above this file sees entries and updates only.
"""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import finsy as fy
from finsy import pbutil
from finsy.p4client import P4RpcStatus
from finsy.proto import U128, p4i, p4r

from controller.entries import Entry, EntryKey
from controller.p4info_codec import (
    CodecError,
    decode_entry,
    encode_update,
    read_requests,
    replication_entities,
)
from controller.pipeline import Pipeline
from controller.reconcile import Update

CONNECT_DEADLINE_S = 10.0
"""Longest wait for the switch to answer the arbitration."""
ELECTION_ID = 1_000
"""Election id of a controller that is alone; a backup would use a smaller one."""
STREAM_MESSAGE_COUNT_MAX = 16
"""Other stream messages (packets, digests) that may come before the answer to the arbitration."""


class SwitchError(Exception):
    """A switch did not do what was asked; `str()` is one line naming switch and entry."""

    def __init__(self, *, switch: str, message: str, where: str | None = None) -> None:
        super().__init__(switch, message, where)
        self.switch = switch
        self.message = " ".join(message.split())
        self.where = where
        """The entry concerned, if it is one."""

    def __str__(self) -> str:
        place = f"{self.switch}: {self.where}" if self.where else self.switch
        return f"{place}: {self.message}"


def program_schema(pipeline: Pipeline) -> fy.P4Schema:
    """Names, ids and widths of the pipeline's program; its cookie is a hash of all of it."""
    p4info = pbutil.from_text(pipeline.p4info, p4i.P4Info)
    return fy.P4Schema(p4info, pipeline.bmv2_json.encode())


class SwitchSession:
    """A connection to one switch. Reads need nothing more; writes need `become_primary`."""

    def __init__(
        self, *, name: str, device_id: int, schema: fy.P4Schema, client: fy.P4Client
    ) -> None:
        self.name = name
        self._device_id = device_id
        self._schema = schema
        self._client = client
        self._election_id = 0

    async def become_primary(self, election_id: int = ELECTION_ID) -> None:
        """Win the arbitration (P4Runtime 1.3 section 5), or fail: two must not write at once.

        A switch remembers the highest election id that it has seen. Where nobody is primary, a
        controller that is gone had a higher one, and the next above it wins.
        """
        answer = await self._arbitrate(election_id)
        status = P4RpcStatus.from_status(answer.status)
        if status.code is fy.GRPCStatusCode.NOT_FOUND:
            election_id = U128.decode(answer.election_id) + 1
            answer = await self._arbitrate(election_id)
            status = P4RpcStatus.from_status(answer.status)
        if status.code is not fy.GRPCStatusCode.OK:
            primary = U128.decode(answer.election_id)
            raise SwitchError(
                switch=self.name,
                message=f"another controller is primary (election id {primary}, ours "
                f"{election_id}); stop it or wait",
            )
        self._election_id = election_id

    async def _arbitrate(self, election_id: int) -> p4r.MasterArbitrationUpdate:
        """Ask for mastership with an election id; the switch's answer."""
        request = p4r.StreamMessageRequest(
            arbitration=p4r.MasterArbitrationUpdate(
                device_id=self._device_id, election_id=U128.encode(election_id)
            )
        )
        async with self._wrapped(None):
            await self._client.send(request)
            for _ in range(STREAM_MESSAGE_COUNT_MAX):
                answer = await self._receive()
                if answer.WhichOneof("update") == "arbitration":
                    return answer.arbitration
        raise SwitchError(switch=self.name, message="no answer to the arbitration")

    async def pipeline_cookie(self) -> int | None:
        """Cookie of the pipeline that the switch runs; None if it runs none."""
        request = p4r.GetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            response_type=p4r.GetForwardingPipelineConfigRequest.COOKIE_ONLY,
        )
        try:
            reply = await self._client.request(request)
        except fy.P4ClientError as error:
            if error.is_pipeline_missing:
                return None
            raise self._error(error, None) from error
        return reply.config.cookie.cookie if reply.config.HasField("cookie") else None

    async def push_pipeline(self) -> None:
        """Load the pipeline, which empties the switch.

        Clone sessions and multicast groups go first: BMv2 forgets them at a push but keeps their
        replicas, and one more report per packet would leave it after every push.
        """
        async with self._wrapped(None):
            request = p4r.ReadRequest(
                device_id=self._device_id,
                entities=replication_entities(),
            )
            try:
                old = [
                    entity
                    async for reply in self._client.request_iter(request)
                    for entity in reply.entities
                ]
            except fy.P4ClientError as error:
                if not error.is_pipeline_missing:
                    raise
                old = []
            if old:
                await self._client.request(
                    self._write_request(
                        [p4r.Update(type=p4r.Update.DELETE, entity=entity) for entity in old]
                    )
                )
            await self._client.request(
                p4r.SetForwardingPipelineConfigRequest(
                    device_id=self._device_id,
                    election_id=U128.encode(self._election_id),
                    action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                    config=self._schema.get_pipeline_config(),
                )
            )

    async def read_entries(self, names: Collection[str] | None = None) -> list[Entry]:
        """All entries of the switch: tables, defaults, members, groups of all kinds, sessions.

        names: only those of these tables and profiles, without defaults.
        """
        found: dict[EntryKey, Entry] = {}
        async with self._wrapped(None):
            for entities in read_requests(self._schema, names):
                request = p4r.ReadRequest(device_id=self._device_id, entities=entities)
                async for reply in self._client.request_iter(request):
                    for message in reply.entities:
                        entry = decode_entry(message, self._schema)
                        if entry is not None:
                            found[entry.key] = entry
        return list(found.values())

    async def write(self, batch: list[Update]) -> None:
        """Carry out updates that do not depend on each other, in one request.

        On an error the switch may have carried out the others of the batch: read back, or apply
        again.
        """
        async with self._wrapped(None):
            updates = [encode_update(update, self._schema) for update in batch]
        async with self._wrapped(batch):
            await self._client.request(self._write_request(updates))

    async def packet_out(self, frame: bytes, *, egress_port: int) -> None:
        """Send a frame out of a port as it is, past the routes (a link probe, say).

        The switch confirms none; needs `become_primary`.
        """
        packet = fy.P4PacketOut(frame, egress_port=egress_port, submit_to_ingress=0, pad=0)
        async with self._wrapped(None):
            await self._client.send(packet.encode_update(self._schema))

    async def _receive(self) -> p4r.StreamMessageResponse:
        try:
            return await self._client.receive()
        except RuntimeError as error:  # how the library reports the end of the stream
            raise SwitchError(
                switch=self.name, message="the switch closed the P4Runtime stream"
            ) from error

    def _write_request(self, updates: list[p4r.Update]) -> p4r.WriteRequest:
        return p4r.WriteRequest(
            device_id=self._device_id,
            election_id=U128.encode(self._election_id),
            updates=updates,
        )

    @asynccontextmanager
    async def _wrapped(self, batch: list[Update] | None) -> AsyncIterator[None]:
        """Wraps what the library raises, once."""
        try:
            yield
        except fy.P4ClientError as error:
            raise self._error(error, batch) from error
        except CodecError as error:
            raise SwitchError(switch=self.name, message=str(error)) from error

    def _error(self, error: fy.P4ClientError, batch: list[Update] | None) -> SwitchError:
        """The first entry at fault, what the switch said, and how many others failed with it."""
        failed = sorted(error.details.items())
        if batch and failed and failed[0][0] < len(batch):
            index, detail = failed[0]
            update = batch[index]
            message = (
                f"{update.operation.name.lower()} failed: "
                f"{_said(detail.canonical_code, detail.message)}"
            )
            if len(batch) > 1:
                message += f" ({len(failed)} of {len(batch)} updates of this request failed)"
            return SwitchError(switch=self.name, where=update.entry.where, message=message)
        message = _said(error.code, error.message)
        if batch:
            where = batch[0].entry.where
            if len(batch) > 1:
                message += f" (in a request of {len(batch)} updates that starts there)"
            return SwitchError(switch=self.name, where=where, message=message)
        return SwitchError(switch=self.name, message=message)


@asynccontextmanager
async def open_session(
    *, name: str, address: str, device_id: int, schema: fy.P4Schema
) -> AsyncIterator[SwitchSession]:
    """Connect to a switch; nothing is sent before the first call of the session."""
    client = fy.P4Client(address, wait_for_ready=False)
    await client.open(schema=schema)
    try:
        yield SwitchSession(name=name, device_id=device_id, schema=schema, client=client)
    finally:
        await client.close()


def _said(code: fy.GRPCStatusCode, message: str) -> str:
    return f"{code.name}: {message}" if message else code.name
