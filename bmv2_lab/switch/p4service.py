# SPDX-License-Identifier: Apache-2.0
"""The P4Runtime service of one switch: streams, pipeline, writes and reads."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
from finsy.proto import U128, p4r, p4r_grpc, rpc_status
from google.protobuf import any_pb2

from bmv2_lab.switch import errors
from bmv2_lab.switch.arbitration import Arbitration, ArbitrationUpdate
from bmv2_lab.switch.controller_header import decode_header, encode_header
from bmv2_lab.switch.errors import ProgramError, StateError
from bmv2_lab.switch.p4read import EntityReader
from bmv2_lab.switch.p4values import encode_value
from bmv2_lab.switch.p4write import UpdateWriter
from bmv2_lab.switch.pipeline_info import PipelineInfo
from bmv2_lab.switch.switch import EmbeddedSwitch
from bmv2_lab.switch.translate import SwitchProgram

API_VERSION = "1.3.0"
# Messages waiting for one slow controller; further packet-ins are dropped and counted.
STREAM_QUEUE_LIMIT = 1024
# Entities in one read response; gRPC refuses messages above 4 MiB by default.
READ_CHUNK = 1000

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_NO_PIPELINE = "No forwarding pipeline config set for this device"

Context = grpc.aio.ServicerContext[Any, Any]


def _status(code: int) -> grpc.StatusCode:
    return _CODES[code]


class SwitchService(p4r_grpc.P4RuntimeServicer):
    """P4Runtime for one switch."""

    def __init__(self, switch: EmbeddedSwitch) -> None:
        self.switch = switch
        self.arbitration = Arbitration()
        self.config: p4r.ForwardingPipelineConfig | None = None
        self.info: PipelineInfo | None = None
        self.dropped_stream_messages = 0
        self._saved: tuple[p4r.ForwardingPipelineConfig, SwitchProgram, PipelineInfo] | None = None
        self._streams: dict[int, asyncio.Queue[p4r.StreamMessageResponse | StateError | None]] = {}
        self._next_stream = 1
        self._digest_lists = 0
        self._loop = asyncio.get_running_loop()
        switch.on_packet_in = self._on_packet_in
        switch.on_digest = self._on_digest

    # Small helpers

    def _check_device(self, device_id: int) -> None:
        if device_id != self.switch.device_id:
            raise StateError(errors.NOT_FOUND, f"Unknown device id {device_id}")

    def _pipeline(self) -> PipelineInfo:
        if self.info is None:
            raise StateError(errors.FAILED_PRECONDITION, _NO_PIPELINE)
        return self.info

    def _send(self, stream: int, message: p4r.StreamMessageResponse) -> None:
        queue = self._streams.get(stream)
        if queue is None:
            return
        if queue.qsize() >= STREAM_QUEUE_LIMIT:
            self.dropped_stream_messages += 1
            return
        queue.put_nowait(message)

    def _send_arbitration(self, updates: Iterable[ArbitrationUpdate], role: str) -> None:
        for update in updates:
            message = p4r.StreamMessageResponse()
            message.arbitration.device_id = self.switch.device_id
            if role:
                message.arbitration.role.name = role
            message.arbitration.election_id.CopyFrom(U128.encode(update.election_id))
            message.arbitration.status.code = update.code
            if update.code == errors.OK:
                message.arbitration.status.message = "Is primary"
            elif update.code == errors.ALREADY_EXISTS:
                message.arbitration.status.message = "Is backup"
            else:
                message.arbitration.status.message = "There is no primary"
            self._send(update.stream, message)

    # StreamChannel

    async def StreamChannel(
        self, request_iterator: AsyncIterator[p4r.StreamMessageRequest], context: Context
    ) -> AsyncIterator[p4r.StreamMessageResponse]:
        """Arbitration and packets of one controller, until either side ends the stream."""
        stream = self._next_stream
        self._next_stream += 1
        queue: asyncio.Queue[p4r.StreamMessageResponse | StateError | None] = asyncio.Queue()
        self._streams[stream] = queue
        roles: set[str] = set()
        reader = asyncio.create_task(self._read_stream(stream, request_iterator, queue, roles))
        try:
            while True:
                item = await queue.get()
                if item is None:
                    return
                if isinstance(item, StateError):  # abort raises
                    await context.abort(_status(item.code), item.message)
                yield item
        finally:
            del self._streams[stream]
            for role in roles or {""}:
                self._send_arbitration(self.arbitration.close(stream), role)
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def _read_stream(
        self,
        stream: int,
        requests: AsyncIterator[p4r.StreamMessageRequest],
        queue: "asyncio.Queue[p4r.StreamMessageResponse | StateError | None]",
        roles: set[str],
    ) -> None:
        async for request in requests:
            try:
                kind = request.WhichOneof("update")
                if kind == "arbitration":
                    self._arbitrate(stream, request.arbitration, roles)
                elif kind == "packet":
                    self._packet_out(stream, request.packet)
                elif kind != "digest_ack":
                    self._stream_error(
                        stream, StateError(errors.UNIMPLEMENTED, f"{kind} is not supported"), None
                    )
            except StateError as error:
                queue.put_nowait(error)
                return
        queue.put_nowait(None)

    def _arbitrate(
        self, stream: int, message: p4r.MasterArbitrationUpdate, roles: set[str]
    ) -> None:
        self._check_device(message.device_id)
        role = message.role.name if message.HasField("role") else ""
        election_id = U128.decode(message.election_id) if message.HasField("election_id") else None
        updates = self.arbitration.request(stream, role, election_id)
        roles.add(role)
        self._send_arbitration(updates, role)

    def _stream_error(self, stream: int, error: StateError, packet: p4r.PacketOut | None) -> None:
        message = p4r.StreamMessageResponse()
        message.error.canonical_code = error.code
        message.error.message = error.message
        if packet is not None:
            message.error.packet_out.packet_out.CopyFrom(packet)
        self._send(stream, message)

    # Packets and digests

    def _packet_out(self, stream: int, packet: p4r.PacketOut) -> None:
        """Put the controller header in front of a packet and hand it to the fabric."""
        try:
            if not self.arbitration.is_primary(stream):
                raise StateError(errors.PERMISSION_DENIED, "Not primary")
            header = encode_header(self._pipeline().packet_out, list(packet.metadata))
            if self.switch.on_packet_out is None:
                raise StateError(errors.UNIMPLEMENTED, "nothing takes packets of this switch")
            self.switch.on_packet_out(header + packet.payload)
        except StateError as error:
            self._stream_error(stream, error, packet)

    def _on_packet_in(self, frame: bytes) -> None:
        """From the data plane, in any thread."""
        self._loop.call_soon_threadsafe(self._packet_in, frame)

    def _packet_in(self, frame: bytes) -> None:
        metadata, payload = decode_header(self.info.packet_in if self.info else None, frame)
        message = p4r.StreamMessageResponse()
        message.packet.payload = payload
        message.packet.metadata.extend(metadata)
        for stream in self.arbitration.primaries():
            self._send(stream, message)

    def _on_digest(self, list_id: int, values: list[int]) -> None:
        """From the data plane, in any thread."""
        self._loop.call_soon_threadsafe(self._digest, list_id, values)

    def _digest(self, list_id: int, values: list[int]) -> None:
        item = self.switch.program.learn_lists.get(list_id)
        if item is None or self.info is None:
            return
        for number, digest in self.info.digests.items():
            if digest.preamble.name != item["name"]:
                continue
            self._digest_lists += 1
            message = p4r.StreamMessageResponse()
            message.digest.digest_id = number
            message.digest.list_id = self._digest_lists
            data = message.digest.data.add()
            if len(values) == 1 and not digest.type_spec.HasField("struct"):
                data.bitstring = encode_value(values[0])
            else:
                for value in values:
                    data.struct.members.add().bitstring = encode_value(value)
            for stream in self.arbitration.primaries():
                self._send(stream, message)

    # Pipeline

    async def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: Context
    ) -> p4r.SetForwardingPipelineConfigResponse:
        """Verify, save or commit a pipeline; a known JSON is not translated again."""
        try:
            self._check_device(request.device_id)
            self.arbitration.check_write(request.role, U128.decode(request.election_id))
            self._set_pipeline(request)
        except StateError as error:
            await context.abort(_status(error.code), error.message)
        return p4r.SetForwardingPipelineConfigResponse()

    def _set_pipeline(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        actions = p4r.SetForwardingPipelineConfigRequest
        action = request.action
        if action == actions.COMMIT:
            if self._saved is None:
                raise StateError(errors.FAILED_PRECONDITION, "No pipeline was saved")
            self._commit(*self._saved)
            return
        if action == actions.UNSPECIFIED:
            raise StateError(errors.INVALID_ARGUMENT, "The action is missing")
        if not request.HasField("config"):
            raise StateError(errors.INVALID_ARGUMENT, "The config is missing")
        config = p4r.ForwardingPipelineConfig()
        config.CopyFrom(request.config)
        try:
            program = SwitchProgram.from_json(config.p4_device_config)
        except ProgramError as error:
            raise StateError(errors.INVALID_ARGUMENT, str(error)) from error
        info = PipelineInfo.build(config.p4info, program)
        if action == actions.VERIFY:
            return
        if action == actions.VERIFY_AND_SAVE:
            self._saved = (config, program, info)
            return
        if action == actions.RECONCILE_AND_COMMIT and self.config is not None:
            if program is not self.switch.program or config.p4info != self.config.p4info:
                raise StateError(
                    errors.UNIMPLEMENTED, "Entries can be kept only for the same program"
                )
            self.config = config
            return
        self._commit(config, program, info)

    def _commit(
        self, config: p4r.ForwardingPipelineConfig, program: SwitchProgram, info: PipelineInfo
    ) -> None:
        self.switch.load(program)
        self.config, self.info, self._saved = config, info, None

    async def GetForwardingPipelineConfig(
        self, request: p4r.GetForwardingPipelineConfigRequest, context: Context
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """The pushed pipeline, or the asked part of it."""
        response = p4r.GetForwardingPipelineConfigResponse()
        try:
            self._check_device(request.device_id)
            if self.config is None:
                raise StateError(errors.FAILED_PRECONDITION, _NO_PIPELINE)
            kinds = p4r.GetForwardingPipelineConfigRequest
            if self.config.HasField("cookie"):
                response.config.cookie.CopyFrom(self.config.cookie)
            if request.response_type in (kinds.ALL, kinds.P4INFO_AND_COOKIE):
                response.config.p4info.CopyFrom(self.config.p4info)
            if request.response_type in (kinds.ALL, kinds.DEVICE_CONFIG_AND_COOKIE):
                response.config.p4_device_config = self.config.p4_device_config
        except StateError as error:
            await context.abort(_status(error.code), error.message)
        return response

    # Write and read

    async def Write(self, request: p4r.WriteRequest, context: Context) -> p4r.WriteResponse:
        """Apply a batch; an update that fails does not stop the others."""
        try:
            self._check_device(request.device_id)
            self.arbitration.check_write(request.role, U128.decode(request.election_id))
            info = self._pipeline()
            if request.atomicity != p4r.WriteRequest.CONTINUE_ON_ERROR:
                raise StateError(errors.UNIMPLEMENTED, "Only CONTINUE_ON_ERROR is supported")
        except StateError as error:
            await context.abort(_status(error.code), error.message)
            raise
        details = self._apply(info, request)
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

    def _apply(self, info: PipelineInfo, request: p4r.WriteRequest) -> list[p4r.Error]:
        writer = UpdateWriter(self.switch.state, info)
        details = []
        for update in request.updates:
            detail = p4r.Error(canonical_code=errors.OK)
            try:
                writer.apply(update)
            except StateError as error:
                detail.canonical_code = error.code
                detail.message = error.message
            details.append(detail)
        return details

    async def Read(
        self, request: p4r.ReadRequest, context: Context
    ) -> AsyncIterator[p4r.ReadResponse]:
        """The entities asked for, in chunks."""
        try:
            self._check_device(request.device_id)
            reader = EntityReader(self.switch.state, self._pipeline())
            found = [answer for entity in request.entities for answer in reader.read(entity)]
        except StateError as error:
            await context.abort(_status(error.code), error.message)
            raise
        for start in range(0, len(found), READ_CHUNK):
            yield p4r.ReadResponse(entities=found[start : start + READ_CHUNK])

    async def Capabilities(
        self, _request: p4r.CapabilitiesRequest, _context: Context
    ) -> p4r.CapabilitiesResponse:
        """The version of the P4Runtime API."""
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def detach(self) -> None:
        """Let the switch forget this service."""
        self.switch.on_packet_in = None
        self.switch.on_digest = None
