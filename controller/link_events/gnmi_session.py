# SPDX-License-Identifier: Apache-2.0
"""The calls of a gNMI server that port states need.

finsy's messages and paths, but calls of our own: its client leaves out the prefix of notifications,
takes the end of a stream for the end of the first states, and fails in its own code where an answer
is no gNMI. Whatever a server does instead of answering is a `GnmiError`.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

import grpc
from finsy import GNMIPath, GNMIUpdate
from finsy.proto import gnmi, gnmi_grpc

from controller.link_events.gnmi_values import updates_of

_ENDED = "the switch has ended the subscription"
_NO_GNMI = "its answer is no gNMI"
"""gRPC gives None for what it cannot parse."""
_MISSING = (
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
)
"""What servers answer where they do not have a path or a call."""


class GnmiError(Exception):
    """A server did not do what it was asked; is_missing: since it does not have that."""

    def __init__(self, message: str, *, is_missing: bool = False) -> None:
        super().__init__(" ".join(message.split()))
        self.is_missing = is_missing


class GnmiSession:
    """Calls on one channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = gnmi_grpc.gNMIStub(channel)

    async def get(self, path: GNMIPath) -> list[GNMIUpdate]:
        """The state below a path."""
        request = gnmi.GetRequest(path=[path.path], encoding=gnmi.Encoding.PROTO)
        with _wrapped():
            reply = await self._stub.Get(request)
        if reply is None:
            raise GnmiError(_NO_GNMI)
        return [one for each in reply.notification for one in updates_of(each)]

    async def capabilities(self) -> None:
        """Return when the server answers."""
        with _wrapped():
            await self._stub.Capabilities(gnmi.CapabilityRequest())

    async def changes(self, path: GNMIPath) -> AsyncGenerator[list[GNMIUpdate] | None, None]:
        """All states below a path, then None, then changes as they happen; GnmiError at the end of
        the stream."""
        subscription = gnmi.Subscription(path=path.path, mode=gnmi.SubscriptionMode.ON_CHANGE)
        subscriptions = gnmi.SubscriptionList(
            mode=gnmi.SubscriptionList.Mode.STREAM, subscription=[subscription]
        )
        stream = self._stub.Subscribe(wait_for_ready=True)  # type: ignore[call-arg]
        try:
            with _wrapped():
                await stream.write(gnmi.SubscribeRequest(subscribe=subscriptions))
            while True:
                with _wrapped():
                    message = await stream.read()
                if message is None:
                    raise GnmiError(_NO_GNMI)
                if not isinstance(message, gnmi.SubscribeResponse):  # the end of the stream
                    raise GnmiError(_ENDED)
                match message.WhichOneof("response"):
                    case "update":
                        yield [*updates_of(message.update)]
                    case "sync_response":
                        yield None
        finally:
            stream.cancel()


@contextmanager
def _wrapped() -> Iterator[None]:
    try:
        yield
    except grpc.aio.AioRpcError as error:
        code = error.code()
        raise GnmiError(error.details() or code.name, is_missing=code in _MISSING) from None
    except asyncio.InvalidStateError:  # written to after its end
        raise GnmiError(_ENDED) from None
