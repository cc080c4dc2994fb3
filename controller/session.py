# SPDX-License-Identifier: Apache-2.0
"""One P4Runtime session with one switch, in the controller's own terms.

The adapter around finsy: what it raises is wrapped once, into a `SwitchError` that names switch
and entry (`session_errors.py`). Everything above this file sees entries and updates only.
"""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import finsy as fy
from finsy.proto import U128, p4r

from controller.access import DEFAULT_ACCESS, Access, AccessError
from controller.arbitration import Arbitration, next_bid, show_election_id
from controller.entries import Entry, EntryKey
from controller.entry_counts import CounterKey, counted_entry
from controller.p4channel import RPC_DEADLINE_S, P4Channel
from controller.p4info_codec import (
    decode_entry,
    read_requests,
    replication_entities,
    shared_update,
)
from controller.programs import program_schema
from controller.reconcile import Update
from controller.session_errors import wrapped
from controller.switch_error import SwitchError
from controller.switch_stream import PacketIn, StreamCounters, SwitchStream

__all__ = [
    "PacketIn",
    "StreamCounters",
    "SwitchError",
    "SwitchSession",
    "open_session",
    "program_schema",
]

CONNECT_DEADLINE_S = 10.0
"""Longest wait for the switch to answer the arbitration."""
HEARTBEAT_DEADLINE_S = 10.0
"""Longest wait for a cookie: longer, and the switch is taken for gone."""


class SwitchSession:
    """A connection to one switch. Reads need nothing more; writes need `become_primary`."""

    def __init__(
        self,
        *,
        name: str,
        device_id: int,
        schema: fy.P4Schema,
        channel: P4Channel,
        counters: StreamCounters | None = None,
        role: str = "",
    ) -> None:
        self.name = name
        self._device_id = device_id
        self._schema = schema
        self._channel = channel
        self._election_id = 0
        self._role = role
        self._stream = SwitchStream(
            name, device_id, schema, channel, counters or StreamCounters(), role=role
        )

    # Who is in charge

    async def become_primary(self, election_id: int = DEFAULT_ACCESS.election_id) -> None:
        """Win the arbitration, or fail: two controllers must not write at once.

        A switch remembers the highest election id that it has seen. Where nobody is primary, a
        controller that is gone had a higher one, and the next term begins.
        """
        await self.announce(election_id)
        try:
            answer = await self.arbitration()
        except SwitchError as error:
            if error.election_id_taken:
                raise SwitchError(
                    switch=self.name,
                    message=f"another controller has the election id {election_id} too; stop it "
                    "or wait",
                ) from error
            raise
        if not answer.has_primary:
            election_id = next_bid(election_id, answer.highest_election_id)
            await self.announce(election_id)
            answer = await self.arbitration()
        if not answer.is_primary:
            raise SwitchError(
                switch=self.name,
                message="another controller is primary (election id "
                f"{show_election_id(answer.highest_election_id)}, ours "
                f"{show_election_id(election_id)}); stop it or wait",
            )

    async def announce(self, election_id: int) -> None:
        """Bid for being primary; the switch answers in `arbitration`."""
        self._election_id = election_id
        await self._stream.announce(election_id)

    async def arbitration(self) -> Arbitration:
        """What the switch says next of who is primary; SwitchError at the end of the stream."""
        return await self._stream.arbitration()

    @property
    def packets_in(self) -> "asyncio.Queue[PacketIn]":
        """Frames that the switch has sent to the controller."""
        return self._stream.packets_in

    async def packet_out(self, frame: bytes, *, egress_port: int) -> None:
        """Send a frame out of a port as it is, past the routes (a link probe, say).

        The switch confirms none; needs `become_primary`.
        """
        await self._stream.packet_out(frame, egress_port=egress_port)

    # The pipeline

    async def pipeline_cookie(self, *, deadline_s: float = RPC_DEADLINE_S) -> int | None:
        """Cookie of the pipeline that the switch runs, 0 if it has none; None without pipeline."""
        config = await self._pipeline(
            p4r.GetForwardingPipelineConfigRequest.COOKIE_ONLY, deadline_s=deadline_s
        )
        return None if config is None else config.cookie.cookie

    async def running_pipeline(self) -> p4r.ForwardingPipelineConfig | None:
        """The pipeline that the switch runs, all of it; None if it runs none."""
        return await self._pipeline(p4r.GetForwardingPipelineConfigRequest.ALL)

    async def _pipeline(
        self, part: int, *, deadline_s: float = RPC_DEADLINE_S
    ) -> p4r.ForwardingPipelineConfig | None:
        request = p4r.GetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            response_type=part,  # type: ignore[arg-type]  # finsy.proto has no types
        )
        with wrapped(self.name):
            return await self._channel.get_pipeline(request, deadline_s=deadline_s)

    async def push_pipeline(self, config: p4r.ForwardingPipelineConfig | None = None) -> None:
        """Load a pipeline, by default that of the session's schema. It empties the switch.

        Clone sessions and multicast groups go first: BMv2 forgets them at a push but keeps their
        replicas, and one more report per packet would leave it after every push.
        """
        with wrapped(self.name):
            request = p4r.ReadRequest(device_id=self._device_id, entities=replication_entities())
            try:
                old = await self._channel.read(request)
            except fy.P4ClientError as error:
                if not error.is_pipeline_missing:
                    raise
                old = []
            if old:
                updates = [p4r.Update(type=p4r.Update.DELETE, entity=entity) for entity in old]
                await self._channel.write(self._write_request(updates))
            await self._channel.push_pipeline(
                p4r.SetForwardingPipelineConfigRequest(
                    device_id=self._device_id,
                    role=self._role,
                    election_id=U128.encode(self._election_id),
                    action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                    config=config or self._schema.get_pipeline_config(),
                )
            )

    def use_schema(self, schema: fy.P4Schema) -> None:
        """Read and write by the names of another program from now on."""
        self._schema = self._stream.schema = schema

    # Entries

    async def read_entries(self, names: Collection[str] | None = None) -> list[Entry]:
        """All entries of the switch: tables, defaults, members, groups of all kinds, sessions.

        names: only those of these tables and profiles, without defaults.
        """
        return list((await self.read_by_key(names)).values())

    async def read_by_key(self, names: Collection[str] | None = None) -> dict[EntryKey, Entry]:
        """The same by key."""
        found: dict[EntryKey, Entry] = {}
        with wrapped(self.name):
            for message in await self.read_messages(names):
                entry = decode_entry(message, self._schema)
                if entry is not None:
                    found[entry.key] = entry
        return found

    async def read_messages(self, names: Collection[str] | None = None) -> list[p4r.Entity]:
        """The same as the switch sends it, for writing it back."""
        found: list[p4r.Entity] = []
        with wrapped(self.name):
            for entities in read_requests(self._schema, names):
                request = p4r.ReadRequest(device_id=self._device_id, entities=entities)
                found += await self._channel.read(request)
        return found

    async def packet_counts(self, tables: Collection[str]) -> dict[CounterKey, int]:
        """Packets that each entry of these tables has counted since it was inserted."""
        ids = {table.id: table.alias for table in self._schema.tables if table.alias in tables}
        request = p4r.ReadRequest(
            device_id=self._device_id,
            entities=[
                p4r.Entity(
                    direct_counter_entry=p4r.DirectCounterEntry(
                        table_entry=p4r.TableEntry(table_id=number)
                    )
                )
                for number in ids
            ],
        )
        with wrapped(self.name):
            found = await self._channel.read(request)
            return dict(counted_entry(entity, ids) for entity in found)

    async def write(self, batch: list[Update]) -> None:
        """Carry out updates that do not depend on each other, in one request.

        On an error the switch may have carried out the others of the batch: read back, or apply
        again.
        """
        with wrapped(self.name):
            updates = [shared_update(update, self._schema) for update in batch]
        with wrapped(self.name, batch):
            await self._channel.write(self._write_request(updates))

    async def write_messages(self, updates: list[p4r.Update]) -> None:
        """Carry out updates in the form in which they are sent."""
        with wrapped(self.name):
            await self._channel.write(self._write_request(updates))

    async def close(self) -> None:
        """End the stream, and with it being primary."""
        await self._stream.close()
        await self._channel.close()

    def _write_request(self, updates: list[p4r.Update]) -> p4r.WriteRequest:
        return p4r.WriteRequest(
            device_id=self._device_id,
            role=self._role,
            election_id=U128.encode(self._election_id),
            updates=updates,
        )


@asynccontextmanager
async def open_session(
    *,
    name: str,
    address: str,
    device_id: int,
    schema: fy.P4Schema,
    access: Access = DEFAULT_ACCESS,
    counters: StreamCounters | None = None,
) -> AsyncIterator[SwitchSession]:
    """Connect to a switch; nothing is sent before the first call of the session.

    counters: go on with these.
    """
    try:
        channel = P4Channel(address, access.tls)
    except AccessError as error:
        raise SwitchError(switch=name, message=str(error)) from error
    session = SwitchSession(
        name=name,
        device_id=device_id,
        schema=schema,
        channel=channel,
        counters=counters,
        role=access.role,
    )
    try:
        yield session
    finally:
        await session.close()
