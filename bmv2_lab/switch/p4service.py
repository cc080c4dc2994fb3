# SPDX-License-Identifier: Apache-2.0
"""The P4Runtime service of one switch: its RPCs."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NoReturn

import grpc
from finsy.proto import U128, p4r, p4r_grpc, rpc_status
from google.protobuf import any_pb2

from bmv2_lab.switch import errors
from bmv2_lab.switch.alarm import Alarm, CallAt, ClockNs, loop_call_at, real_clock
from bmv2_lab.switch.controller_header import decode_header, encode_header
from bmv2_lab.switch.controllers import Controllers, StreamItem
from bmv2_lab.switch.errors import StateError
from bmv2_lab.switch.p4pipeline import Pipeline
from bmv2_lab.switch.p4read import EntityReader
from bmv2_lab.switch.p4target import Target
from bmv2_lab.switch.p4values import EntryControl, encode_match
from bmv2_lab.switch.p4write import UpdateWriter
from bmv2_lab.switch.roles import RoleConfig, object_id, role_key
from bmv2_lab.switch.switch import EmbeddedSwitch
from bmv2_lab.switch.tables import Entry, Table
from bmv2_lab.switch.timers import Timers

API_VERSION = "1.3.0"
# Entities in one read response; gRPC refuses messages above 4 MiB by default.
READ_CHUNK = 1000
# Updates applied, or entities read, before other tasks of the loop get a turn.
SLICE = 256
# Entries in one idle timeout notification.
IDLE_CHUNK = 1000

_CODES = {code.value[0]: code for code in grpc.StatusCode}

Context = grpc.aio.ServicerContext[Any, Any]


class SwitchService(p4r_grpc.P4RuntimeServicer):
    """P4Runtime for one switch.

    Without `clock_ns` timeouts run in real time; with it they run when `advance` is called, and
    with `call_at` as well they run at their instants.
    """

    def __init__(
        self,
        switch: EmbeddedSwitch,
        clock_ns: ClockNs | None = None,
        call_at: CallAt | None = None,
    ) -> None:
        self.switch = switch
        self.controllers = Controllers(switch.device_id)
        self.timers = Timers(clock_ns or real_clock())
        self.pipeline = Pipeline(switch, self.timers, self._send_digest)
        self.malformed_packet_ins = 0
        self._loop = asyncio.get_running_loop()
        self._state_lock = asyncio.Lock()
        self._batches: set[asyncio.Task[list[p4r.Error]]] = set()
        if clock_ns is None:
            call_at = loop_call_at(self._loop, self.timers.clock_ns)
        self._alarm = None if call_at is None else Alarm(self.timers, call_at)
        self.pipeline.on_idle = self._send_idle
        self.controllers.on_new_primary = self._forget_sent_digests
        switch.clock_ns = self.timers.clock_ns
        switch.on_packet_in = self._on_packet_in
        switch.on_digest = self._on_digest

    @property
    def config(self) -> p4r.ForwardingPipelineConfig | None:
        """The pipeline that runs."""
        running = self.pipeline.running
        return running.config if running is not None else None

    async def detach(self) -> None:
        """Finish what was begun, and let the switch forget this service."""
        await asyncio.gather(*self._batches, return_exceptions=True)
        self.switch.on_packet_in = None
        self.switch.on_digest = None
        if self._alarm is not None:
            self._alarm.stop()
        self.pipeline.close()

    # Time

    def advance(self) -> None:
        """The clock has moved: do what has become due. Call it in the server's loop."""
        self.timers.run()

    # StreamChannel

    async def StreamChannel(
        self, request_iterator: AsyncIterator[p4r.StreamMessageRequest], context: Context
    ) -> AsyncIterator[p4r.StreamMessageResponse]:
        """Arbitration, packets and notifications of one controller, until a side ends it."""
        try:
            stream, queue = self.controllers.open()
        except StateError as error:
            await _abort(context, error)
        reader = asyncio.create_task(self._read_stream(stream, request_iterator, queue))
        try:
            while True:
                item = await queue.get()
                if item is None:
                    return
                if isinstance(item, StateError):
                    await _abort(context, item)
                yield item
        finally:
            self.controllers.close(stream)
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read_stream(
        self,
        stream: int,
        requests: AsyncIterator[p4r.StreamMessageRequest],
        queue: "asyncio.Queue[StreamItem]",
    ) -> None:
        async for request in requests:
            try:
                if request.WhichOneof("update") == "arbitration":
                    self.controllers.arbitrate(stream, request.arbitration)
                else:
                    self._stream_request(stream, request)
            except StateError as error:
                queue.put_nowait(error)
                return
        queue.put_nowait(None)

    def _stream_request(self, stream: int, request: p4r.StreamMessageRequest) -> None:
        try:
            if not self.controllers.arbitration.is_primary(stream):
                raise StateError(errors.PERMISSION_DENIED, "Not primary")
            match request.WhichOneof("update"):
                case "packet":
                    self._packet_out(request.packet)
                case "digest_ack":
                    self.pipeline.target().digests.acknowledge(request.digest_ack)
                case None:
                    raise StateError(errors.INVALID_ARGUMENT, "an empty stream message")
                case kind:
                    raise StateError(errors.UNIMPLEMENTED, f"{kind} is not supported")
        except StateError as error:
            self.controllers.send_error(stream, error, request)

    # Packets, digests and idle entries

    def _packet_out(self, packet: p4r.PacketOut) -> None:
        """Put the controller header in front of a packet and hand it to the fabric."""
        info = self.pipeline.running.info if self.pipeline.running else self.pipeline.target().info
        header = encode_header(info.packet_out, list(packet.metadata))
        if self.switch.on_packet_out is None:
            raise StateError(errors.UNIMPLEMENTED, "nothing takes packets of this switch")
        self.switch.on_packet_out(header + packet.payload)

    def _on_packet_in(self, frame: bytes) -> None:
        """From the data plane, in any thread."""
        self._loop.call_soon_threadsafe(self._packet_in, frame)

    def _packet_in(self, frame: bytes) -> None:
        running = self.pipeline.running
        try:
            metadata, payload = decode_header(running.info.packet_in if running else None, frame)
        except StateError:  # as BMv2's server, which drops it
            self.malformed_packet_ins += 1
            return
        message = p4r.StreamMessageResponse()
        message.packet.payload = payload
        message.packet.metadata.extend(metadata)
        self.controllers.send_to_primaries(
            message, lambda rights: rights.wants_packet(message.packet)
        )

    def _on_digest(self, list_id: int, values: list[int]) -> None:
        """From the data plane, in any thread."""
        item = self.switch.program.learn_lists.get(list_id)
        if item is not None:
            name = str(item["name"])
            self._loop.call_soon_threadsafe(self._learn, name, tuple(values))

    def _learn(self, name: str, values: tuple[int, ...]) -> None:
        if self.pipeline.running is not None:
            self.pipeline.running.digests.learn(name, values)

    def _send_digest(self, digest: p4r.DigestList) -> None:
        message = p4r.StreamMessageResponse(digest=digest)
        self.controllers.send_to_primaries(message, lambda rights: rights.allows(digest.digest_id))

    def _forget_sent_digests(self) -> None:
        if self.pipeline.running is not None:
            self.pipeline.running.digests.forget_sent()

    def _send_idle(self, target: Target, due: list[tuple[Table, Entry]]) -> None:
        numbers = {info.name: info for info in target.info.tables.values()}
        for start in range(0, len(due), IDLE_CHUNK):
            for stream, rights in self.controllers.arbitration.primaries():
                message = p4r.StreamMessageResponse()
                notification = message.idle_timeout_notification
                notification.timestamp = self.timers.clock_ns()
                for table, entry in due[start : start + IDLE_CHUNK]:
                    info = numbers[table.spec.name]
                    if rights is not None and not rights.allows(info.number):
                        continue
                    idle = notification.table_entry.add(
                        table_id=info.number, priority=entry.priority
                    )
                    idle.match.extend(encode_match(info, entry.match))
                    if isinstance(entry.control, EntryControl):
                        idle.metadata = entry.control.metadata
                        idle.controller_metadata = entry.control.controller_metadata
                        idle.idle_timeout_ns = entry.control.idle_timeout_ns
                if notification.table_entry:
                    self.controllers.send(stream, message)

    # Pipeline

    def _check_device(self, device_id: int) -> None:
        if device_id != self.switch.device_id:
            raise StateError(errors.NOT_FOUND, f"Unknown device id {device_id}")

    def _check_primary(
        self, request: p4r.WriteRequest | p4r.SetForwardingPipelineConfigRequest
    ) -> RoleConfig | None:
        self._check_device(request.device_id)
        election_id = U128.decode(request.election_id) if request.HasField("election_id") else None
        role = role_key(request.role, request.role_id)
        return self.controllers.arbitration.check_write(role, election_id)

    async def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: Context
    ) -> p4r.SetForwardingPipelineConfigResponse:
        """Verify, save, commit or reconcile a pipeline."""
        async with self._state_lock:
            try:
                rights = self._check_primary(request)
                if rights is not None and not rights.can_push_pipeline:
                    raise StateError(errors.PERMISSION_DENIED, "Not allowed for this role")
                self.pipeline.set(request)
            except StateError as error:
                await _abort(context, error)
        return p4r.SetForwardingPipelineConfigResponse()

    async def GetForwardingPipelineConfig(
        self, request: p4r.GetForwardingPipelineConfigRequest, context: Context
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """The pushed pipeline, or the asked part of it."""
        try:
            self._check_device(request.device_id)
            config = self.pipeline.config(request.response_type)
        except StateError as error:
            await _abort(context, error)
        return p4r.GetForwardingPipelineConfigResponse(config=config)

    # Entities

    async def Write(self, request: p4r.WriteRequest, context: Context) -> p4r.WriteResponse:
        """Apply a batch; an update that fails does not stop the others, nor does a client that
        does not wait for the answer.
        """
        batch = asyncio.create_task(self._write(request))
        self._batches.add(batch)
        batch.add_done_callback(self._batch_ended)
        try:
            details = await asyncio.shield(batch)
        except StateError as error:
            await _abort(context, error)
        if any(detail.canonical_code for detail in details):
            status = rpc_status.Status(code=errors.UNKNOWN, message="Write failure")
            for detail in details:
                packed = any_pb2.Any()
                packed.Pack(detail)
                status.details.append(packed)
            context.set_trailing_metadata(
                (("grpc-status-details-bin", status.SerializeToString()),)
            )
            await context.abort(grpc.StatusCode.UNKNOWN, status.message)
        return p4r.WriteResponse()

    def _batch_ended(self, batch: asyncio.Task[list[p4r.Error]]) -> None:
        self._batches.discard(batch)
        if not batch.cancelled():
            batch.exception()  # its client may be gone

    async def _write(self, request: p4r.WriteRequest) -> list[p4r.Error]:
        """What came of each update; StateError if the batch as a whole is refused."""
        async with self._state_lock:
            rights = self._check_primary(request)
            target = self.pipeline.target()
            if request.atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR:
                raise StateError(errors.UNIMPLEMENTED, "Only CONTINUE_ON_ERROR is supported")
            self.pipeline.check_room(len(request.updates))
            return await self._apply(target, rights, request)

    async def _apply(
        self, target: Target, rights: RoleConfig | None, request: p4r.WriteRequest
    ) -> list[p4r.Error]:
        writer = UpdateWriter(target)
        details = []
        for number, update in enumerate(request.updates, start=1):
            detail = p4r.Error(canonical_code=errors.OK)
            try:
                if rights is not None and not rights.allows(object_id(update.entity)):
                    raise StateError(errors.PERMISSION_DENIED, "Not allowed for this role")
                writer.apply(update)
                self.pipeline.written(update)
            except StateError as error:
                detail.canonical_code = error.code
                detail.message = error.message
            details.append(detail)
            if number % SLICE == 0:
                await asyncio.sleep(0)
        return details

    async def Read(
        self, request: p4r.ReadRequest, context: Context
    ) -> AsyncIterator[p4r.ReadResponse]:
        """The entities asked for, in chunks; an error ends the answer, as in BMv2's server."""
        found: list[p4r.Entity] = []
        failed: StateError | None = None
        async with self._state_lock:
            try:
                self._check_device(request.device_id)
                rights = self.controllers.arbitration.rights(request.role)
                reader = EntityReader(self.pipeline.target())
                answers = (item for wanted in request.entities for item in reader.read(wanted))
                for number, entity in enumerate(answers, start=1):
                    if rights is None or rights.allows(object_id(entity)):
                        found.append(entity)
                    if number % SLICE == 0:
                        await asyncio.sleep(0)
            except StateError as error:
                failed = error
        for start in range(0, len(found), READ_CHUNK):
            yield p4r.ReadResponse(entities=found[start : start + READ_CHUNK])
        if failed is not None:
            await _abort(context, failed)

    async def Capabilities(
        self, _request: p4r.CapabilitiesRequest, _context: Context
    ) -> p4r.CapabilitiesResponse:
        """The version of the P4Runtime API."""
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)


async def _abort(context: Context, error: StateError) -> NoReturn:
    await context.abort(_CODES[error.code], error.message)
    raise AssertionError("abort raises")
