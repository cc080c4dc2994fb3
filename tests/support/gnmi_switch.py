# SPDX-License-Identifier: Apache-2.0
"""A gNMI server with the ports of one switch, for tests: Get, Capabilities and Subscribe."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
from finsy import GNMIPath
from finsy.proto import gnmi, gnmi_grpc


@dataclass
class GnmiSwitch(gnmi_grpc.gNMIServicer):
    """Port states by port number; interfaces are called `eth` and the number."""

    ports: dict[int, str]
    number_leaf: str = "id"
    """Under `state`, what tells the port number; servers have `id`, `ifindex`, or neither."""
    port: int = 0
    """Where it serves; kept over a restart."""
    subscriptions: int = 0
    """So many were opened, since the start."""
    _server: grpc.aio.Server | None = None
    _queues: set["asyncio.Queue[gnmi.SubscribeResponse]"] = field(default_factory=set)

    @property
    def address(self) -> str:
        """`HOST:PORT`."""
        return f"127.0.0.1:{self.port}"

    async def start(self, credentials: grpc.ServerCredentials | None = None) -> None:
        """Serve."""
        self._server = grpc.aio.server()
        gnmi_grpc.add_gNMIServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        if credentials is None:
            self.port = self._server.add_insecure_port(self.address)
        else:
            self.port = self._server.add_secure_port(self.address, credentials)
        await self._server.start()

    async def stop(self) -> None:
        """Gone, with all streams."""
        assert self._server is not None, "started before"
        await self._server.stop(None)

    def set_port(self, number: int, status: str) -> None:
        """The port has another state now."""
        self.ports[number] = status
        for queue in self._queues:
            queue.put_nowait(self._status(number))

    def remove_port(self, number: int) -> None:
        """Its module is taken out: the interface is deleted."""
        del self.ports[number]
        path = GNMIPath(f"interfaces/interface[name=eth{number}]").path
        for queue in self._queues:
            queue.put_nowait(
                gnmi.SubscribeResponse(update=gnmi.Notification(timestamp=1, delete=[path]))
            )

    def _status(self, number: int) -> gnmi.SubscribeResponse:
        return gnmi.SubscribeResponse(
            update=self._notification(
                number, "oper-status", gnmi.TypedValue(string_val=self.ports[number])
            )
        )

    def _notification(self, number: int, leaf: str, value: gnmi.TypedValue) -> gnmi.Notification:
        path = GNMIPath(f"interfaces/interface[name=eth{number}]/state/{leaf}").path
        return gnmi.Notification(timestamp=1, update=[gnmi.Update(path=path, val=value)])

    # The service

    async def Capabilities(self, request: Any, context: Any) -> gnmi.CapabilityResponse:
        """Whether it lives."""
        return gnmi.CapabilityResponse(gNMI_version="0.8.0")

    async def Get(self, request: Any, context: Any) -> gnmi.GetResponse:
        """Port numbers, at the leaf that this server has; no other leaf exists."""
        leaf = request.path[0].elem[-1].name
        if leaf != self.number_leaf:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no {leaf}")
        return gnmi.GetResponse(
            notification=[
                self._notification(number, leaf, gnmi.TypedValue(uint_val=number))
                for number in self.ports
            ]
        )

    async def Set(self, request: Any, context: Any) -> gnmi.SetResponse:
        """Nothing can be set."""
        return await context.abort(grpc.StatusCode.UNIMPLEMENTED, "read only")

    async def Subscribe(
        self, request_iterator: Any, context: Any
    ) -> AsyncIterator[gnmi.SubscribeResponse]:
        """All states, then changes as they happen."""
        request = await anext(aiter(request_iterator))
        one = request.subscribe.subscription[0]
        assert one.mode == gnmi.SubscriptionMode.ON_CHANGE
        assert one.path.elem[-1].name == "oper-status"
        queue: asyncio.Queue[gnmi.SubscribeResponse] = asyncio.Queue()
        self._queues.add(queue)
        self.subscriptions += 1
        try:
            for number in [*self.ports]:
                yield self._status(number)
            yield gnmi.SubscribeResponse(sync_response=True)
            while True:
                yield await queue.get()
        finally:
            self._queues.discard(queue)
