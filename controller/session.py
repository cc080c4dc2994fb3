# SPDX-License-Identifier: Apache-2.0
"""One P4Runtime session with one switch, in the controller's own terms.

The adapter around finsy: what it raises is wrapped once, into a `SwitchError` that names switch
and entry. Everything above this file sees entries and updates only.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import finsy as fy
from finsy import pbutil
from finsy.p4client import P4RpcStatus
from finsy.proto import U128, p4i, p4r

from controller.access import DEFAULT_ACCESS, Access, AccessError, next_bid, show_election_id
from controller.entries import Entry, EntryKey
from controller.p4channel import RPC_DEADLINE_S, ChannelClosedError, P4Channel
from controller.p4info_codec import (
    CodecError,
    decode_entry,
    encode_update,
    read_requests,
    replication_entities,
)
from controller.pipeline import Pipeline
from controller.reconcile import Update
from controller.switch_error import SwitchError

__all__ = ["Arbitration", "SwitchError", "SwitchSession", "open_session", "program_schema"]

CONNECT_DEADLINE_S = 10.0
"""Longest wait for the switch to answer the arbitration."""
HEARTBEAT_DEADLINE_S = 5.0
"""Longest wait for a cookie: longer, and the switch is taken for gone."""
PACKET_IN_COUNT_MAX = 1_024
"""Packet-ins that wait for whoever reads them; further ones are dropped and counted."""
ARBITRATION_COUNT_MAX = 64
"""Arbitration messages that wait to be read; a switch that sends more is out of its mind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arbitration:
    """What a switch says of who is primary (P4Runtime 1.3 section 5)."""

    is_primary: bool
    """We are."""
    has_primary: bool
    highest_election_id: int
    """The highest election id that the switch has seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketIn:
    """A frame that a switch sent to its controller."""

    frame: bytes
    metadata: Mapping[str, int]
    """Fields of the program's `packet_in` header, such as `ingress_port`."""


@dataclass(slots=True)
class StreamCounters:
    """Messages of the stream, as far as they are nobody's answer."""

    packets: int = 0
    packets_dropped: int = 0
    """Packet-ins that found the queue full."""
    errors: int = 0
    """Stream errors: packet-outs that the switch refused."""
    others: int = 0


def program_schema(pipeline: Pipeline) -> fy.P4Schema:
    """Names, ids and widths of the pipeline's program; its cookie is a hash of all of it."""
    p4info = pbutil.from_text(pipeline.p4info, p4i.P4Info)
    return fy.P4Schema(p4info, pipeline.bmv2_json.encode())


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
    ) -> None:
        self.name = name
        self.counters = counters or StreamCounters()
        self.packets_in: asyncio.Queue[PacketIn] = asyncio.Queue(PACKET_IN_COUNT_MAX)
        self._device_id = device_id
        self._schema = schema
        self._channel = channel
        self._election_id = 0
        self._arbitrations: asyncio.Queue[Arbitration | SwitchError] = asyncio.Queue()
        self._reader: asyncio.Task[None] | None = None

    # Who is in charge

    async def become_primary(self, election_id: int = DEFAULT_ACCESS.election_id) -> None:
        """Win the arbitration, or fail: two controllers must not write at once.

        A switch remembers the highest election id that it has seen. Where nobody is primary, a
        controller that is gone had a higher one, and the next term begins.
        """
        await self.announce(election_id)
        answer = await self.arbitration()
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
        request = p4r.StreamMessageRequest(
            arbitration=p4r.MasterArbitrationUpdate(
                device_id=self._device_id, election_id=U128.encode(election_id)
            )
        )
        with self._wrapped(None):
            await self._channel.send(request)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_stream())

    async def arbitration(self) -> Arbitration:
        """What the switch says next of who is primary; SwitchError at the end of the stream."""
        said = await self._arbitrations.get()
        if isinstance(said, SwitchError):
            self._arbitrations.put_nowait(said)  # for whoever asks again
            raise said
        return said

    async def _read_stream(self) -> None:
        """Take messages off the stream as they come: nothing that waits here can stop the rest."""
        try:
            with self._wrapped(None):
                while (message := await self._channel.receive()) is not None:
                    self._take(message)
            end = SwitchError(
                switch=self.name, message="the switch closed the P4Runtime stream", lost=True
            )
        except SwitchError as error:
            end = error
        self._arbitrations.put_nowait(end)

    def _take(self, message: p4r.StreamMessageResponse) -> None:
        match message.WhichOneof("update"):
            case "arbitration":
                if self._arbitrations.qsize() >= ARBITRATION_COUNT_MAX:
                    raise SwitchError(switch=self.name, message="too many arbitration messages")
                status = P4RpcStatus.from_status(message.arbitration.status)
                self._arbitrations.put_nowait(
                    Arbitration(
                        is_primary=status.code is fy.GRPCStatusCode.OK,
                        has_primary=status.code is not fy.GRPCStatusCode.NOT_FOUND,
                        highest_election_id=U128.decode(message.arbitration.election_id),
                    )
                )
            case "packet":
                self._take_packet(message)
            case "error":
                self.counters.errors += 1
            case _:
                self.counters.others += 1

    def _take_packet(self, message: p4r.StreamMessageResponse) -> None:
        self.counters.packets += 1
        if self.packets_in.full():
            self.counters.packets_dropped += 1
            return
        try:
            packet = fy.P4PacketIn.decode(message, self._schema)
            metadata = {name: int(value) for name, value in packet.metadata.items()}
        except (KeyError, ValueError):  # of another program
            self.counters.others += 1
            return
        self.packets_in.put_nowait(PacketIn(frame=packet.payload, metadata=metadata))

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
        with self._wrapped(None):
            return await self._channel.get_pipeline(request, deadline_s=deadline_s)

    async def push_pipeline(self, config: p4r.ForwardingPipelineConfig | None = None) -> None:
        """Load a pipeline, by default that of the session's schema. It empties the switch.

        Clone sessions and multicast groups go first: BMv2 forgets them at a push but keeps their
        replicas, and one more report per packet would leave it after every push.
        """
        with self._wrapped(None):
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
                    election_id=U128.encode(self._election_id),
                    action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                    config=config or self._schema.get_pipeline_config(),
                )
            )

    def use_schema(self, schema: fy.P4Schema) -> None:
        """Read and write by the names of another program from now on."""
        self._schema = schema

    # Entries

    async def read_entries(self, names: Collection[str] | None = None) -> list[Entry]:
        """All entries of the switch: tables, defaults, members, groups of all kinds, sessions.

        names: only those of these tables and profiles, without defaults.
        """
        found: dict[EntryKey, Entry] = {}
        with self._wrapped(None):
            for message in await self.read_messages(names):
                entry = decode_entry(message, self._schema)
                if entry is not None:
                    found[entry.key] = entry
        return list(found.values())

    async def read_messages(self, names: Collection[str] | None = None) -> list[p4r.Entity]:
        """The same as the switch sends it, for writing it back."""
        found: list[p4r.Entity] = []
        with self._wrapped(None):
            for entities in read_requests(self._schema, names):
                request = p4r.ReadRequest(device_id=self._device_id, entities=entities)
                found += await self._channel.read(request)
        return found

    async def write(self, batch: list[Update]) -> None:
        """Carry out updates that do not depend on each other, in one request.

        On an error the switch may have carried out the others of the batch: read back, or apply
        again.
        """
        with self._wrapped(None):
            updates = [encode_update(update, self._schema) for update in batch]
        with self._wrapped(batch):
            await self._channel.write(self._write_request(updates))

    async def write_messages(self, updates: list[p4r.Update]) -> None:
        """Carry out updates in the form in which they are sent."""
        with self._wrapped(None):
            await self._channel.write(self._write_request(updates))

    async def packet_out(self, frame: bytes, *, egress_port: int) -> None:
        """Send a frame out of a port as it is, past the routes (a link probe, say).

        The switch confirms none; needs `become_primary`.
        """
        packet = fy.P4PacketOut(frame, egress_port=egress_port, submit_to_ingress=0, pad=0)
        with self._wrapped(None):
            await self._channel.send(packet.encode_update(self._schema))

    async def close(self) -> None:
        """End the stream, and with it being primary."""
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        await self._channel.close()

    def _write_request(self, updates: list[p4r.Update]) -> p4r.WriteRequest:
        return p4r.WriteRequest(
            device_id=self._device_id,
            election_id=U128.encode(self._election_id),
            updates=updates,
        )

    @contextmanager
    def _wrapped(self, batch: list[Update] | None) -> Iterator[None]:
        """Wraps what the library raises, once."""
        try:
            yield
        except fy.P4ClientError as error:
            raise self._error(error, batch) from error
        except CodecError as error:
            raise SwitchError(switch=self.name, message=str(error)) from error
        except ChannelClosedError as error:
            raise SwitchError(
                switch=self.name, message="the session was closed", lost=True
            ) from error

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
        lost = error.code in _LOST
        message = _said(error.code, error.message)
        if batch:
            where = batch[0].entry.where
            if len(batch) > 1:
                message += f" (in a request of {len(batch)} updates that starts there)"
            return SwitchError(switch=self.name, where=where, message=message, lost=lost)
        return SwitchError(
            switch=self.name,
            message=message,
            lost=lost,
            election_id_taken=error.is_election_id_used,
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
        name=name, device_id=device_id, schema=schema, channel=channel, counters=counters
    )
    try:
        yield session
    finally:
        await session.close()


_LOST = frozenset(
    {
        fy.GRPCStatusCode.UNAVAILABLE,
        fy.GRPCStatusCode.DEADLINE_EXCEEDED,
        fy.GRPCStatusCode.CANCELLED,
    }
)
"""Codes of a switch that is gone or hangs, rather than one that refuses."""


def _said(code: fy.GRPCStatusCode, message: str) -> str:
    return f"{code.name}: {message}" if message else code.name
