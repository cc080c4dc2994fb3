# SPDX-License-Identifier: Apache-2.0
"""A gRPC channel to the P4Runtime server of one switch.

finsy's messages, schema and errors, on a channel of our own: its client ends every RPC after 10 s
and fixes the options of the channel, which is too little for a pipeline push to a slow switch, for
the answer to a large read, and for the error details of a large write.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, TypeAlias

import finsy as fy
import grpc
from finsy.proto import p4r, p4r_grpc
from google.protobuf.message import DecodeError

from controller.access import Tls, read_certificate

METADATA_BYTES_MAX: Final = 1 << 20
"""Error details of a write come in metadata, at most some 150 bytes an update."""
MESSAGE_BYTES_MAX: Final = 64 << 20
"""One answer to a read, or a pipeline config."""
RPC_DEADLINE_S: Final = 30.0
"""A write or a read of bounded size, on a busy machine."""
PUSH_DEADLINE_S: Final = 60.0
"""A pipeline push: hardware takes tens of seconds."""


class ChannelClosedError(Exception):
    """The channel was closed before a call, or while it was under way."""


_Stream: TypeAlias = "grpc.aio.StreamStreamCall[Any, Any]"


class P4Channel:
    """Calls of the P4Runtime service; errors are finsy's `P4ClientError`."""

    def __init__(self, address: str, tls: Tls | None = None) -> None:
        options: list[tuple[str, int | str]] = [
            ("grpc.max_metadata_size", METADATA_BYTES_MAX),
            ("grpc.absolute_max_metadata_size", METADATA_BYTES_MAX),
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
            # One connection per session: a switch that restarts is another one.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self._channel = open_channel(address, tls, options)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._stream: _Stream | None = None
        self._closed = False

    async def __aenter__(self) -> "P4Channel":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the stream and all calls."""
        self._closed = True
        if self._stream is not None:
            self._stream.cancel()
        await self._channel.close(None)

    async def get_pipeline(
        self, request: p4r.GetForwardingPipelineConfigRequest, *, deadline_s: float = RPC_DEADLINE_S
    ) -> p4r.ForwardingPipelineConfig | None:
        """The asked part of the running pipeline; None where the switch runs none."""
        try:
            with self._call("GetForwardingPipelineConfig"):
                reply = await self._stub.GetForwardingPipelineConfig(request, timeout=deadline_s)
                _require_message(reply)
        except fy.P4ClientError as error:
            if error.is_pipeline_missing:
                return None
            raise
        return reply.config

    async def push_pipeline(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """Load a pipeline."""
        with self._call("SetForwardingPipelineConfig"):
            await self._stub.SetForwardingPipelineConfig(request, timeout=PUSH_DEADLINE_S)

    async def write(self, request: p4r.WriteRequest) -> None:
        """Carry out updates; the error says which of them failed."""
        with self._call("Write", request):
            await self._stub.Write(request, timeout=RPC_DEADLINE_S)

    async def read(self, request: p4r.ReadRequest) -> list[p4r.Entity]:
        """All entities asked for."""
        found: list[p4r.Entity] = []
        with self._call("Read"):
            async for reply in self._stub.Read(request, timeout=RPC_DEADLINE_S):
                _require_message(reply)
                found += reply.entities
        return found

    async def send(self, message: p4r.StreamMessageRequest) -> None:
        """Send on the stream, which the first message opens."""
        if self._stream is None:
            self._stream = self._stub.StreamChannel()  # type: ignore[call-arg]
        # After the stream's end this is an invalid state; `receive` says why it ended.
        with self._call("send"), contextlib.suppress(asyncio.InvalidStateError):
            await self._stream.write(message)

    async def receive(self) -> p4r.StreamMessageResponse | None:
        """The next message of the stream; None when the switch has ended it."""
        assert self._stream is not None, "the first message opens the stream"
        with self._call("receive"):
            message = await self._stream.read()
        return message if isinstance(message, p4r.StreamMessageResponse) else None  # or EOF

    @contextmanager
    def _call(self, name: str, request: p4r.WriteRequest | None = None) -> Iterator[None]:
        """Turns gRPC's errors into finsy's."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            raise _client_error(error, name, request) from None
        except grpc.aio.UsageError:
            if self._closed:
                raise ChannelClosedError from None
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise ChannelClosedError from None  # the call was cancelled, not its task
            raise


def _require_message(reply: object | None) -> None:
    """gRPC gives None for what it cannot parse."""
    if reply is None:
        raise _plain_error(grpc.StatusCode.INTERNAL, "its answer is no P4Runtime message")


def _client_error(
    error: grpc.aio.AioRpcError, name: str, request: p4r.WriteRequest | None
) -> fy.P4ClientError:
    """finsy's error; without details, where those of the switch cannot be read or name no error."""
    try:
        found = fy.P4ClientError(error, name, msg=request)
        if found.code is not fy.GRPCStatusCode.OK:
            return found
    except (DecodeError, ValueError, IndexError):  # no status, unknown codes, too many of them
        pass
    return fy.P4ClientError(_plain_error(error.code(), error.details() or ""), name)


def _plain_error(code: grpc.StatusCode, message: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=message, debug_error_string=""
    )


def open_channel(
    address: str, tls: Tls | None, options: Sequence[tuple[str, int | str]] = ()
) -> grpc.aio.Channel:
    """A channel to a switch; tls: None for plain TCP."""
    if tls is None:
        return grpc.aio.insecure_channel(address, options=[*options])
    name = [("grpc.ssl_target_name_override", tls.server_name)] if tls.server_name else []
    return grpc.aio.secure_channel(address, _credentials(tls), options=[*options, *name])


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        root_certificates=read_certificate(tls.ca),
        private_key=None if tls.key is None else read_certificate(tls.key),
        certificate_chain=None if tls.certificate is None else read_certificate(tls.certificate),
    )
