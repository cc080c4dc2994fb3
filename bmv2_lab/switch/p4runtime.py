# SPDX-License-Identifier: Apache-2.0
"""The P4Runtime service of embedded switches: one gRPC server per switch.

    server = await serve([switch])
    ... server.addresses[switch.device_id] is "127.0.0.1:PORT" ...
    await server.stop()

Everything runs in one asyncio loop. The data plane runs in the same thread between two awaits, or
in another thread while no controller writes; packet-ins and digests reach the loop either way.

Timeouts (idle entries, digests) run in real time; with `serve(..., clock_ns=clock)` they run on
that clock: at their instants with `call_at=`, else whenever its owner calls `server.advance()`.
"""

import asyncio
from collections.abc import Iterable

import grpc
from finsy.proto import p4r_grpc

from bmv2_lab.switch.alarm import CallAt, ClockNs
from bmv2_lab.switch.p4service import SwitchService
from bmv2_lab.switch.switch import EmbeddedSwitch
from bmv2_lab.switch.undecodable import UndecodableRequests

# A pipeline config is some hundred KiB of JSON; BMv2 sets no limit.
MESSAGE_LIMIT_BYTES = 64 << 20


class Server:
    """The running servers of some switches."""

    def __init__(self) -> None:
        self.addresses: dict[int, str] = {}
        self.services: dict[int, SwitchService] = {}
        self._servers: list[grpc.aio.Server] = []

    async def _add(
        self,
        switch: EmbeddedSwitch,
        host: str,
        port: int,
        clock_ns: ClockNs | None,
        call_at: CallAt | None,
        credentials: grpc.ServerCredentials | None,
    ) -> None:
        if switch.device_id in self.services:
            raise ValueError(f"two switches have device id {switch.device_id}")
        server = grpc.aio.server(
            interceptors=(UndecodableRequests(),),
            options=(
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", MESSAGE_LIMIT_BYTES),
                ("grpc.max_send_message_length", MESSAGE_LIMIT_BYTES),
            ),
        )
        service = SwitchService(switch, clock_ns, call_at)
        p4r_grpc.add_P4RuntimeServicer_to_server(service, server)
        address = f"{host}:{port}"
        if credentials is None:
            bound = server.add_insecure_port(address)
        else:
            bound = server.add_secure_port(address, credentials)
        await server.start()
        self._servers.append(server)
        self.services[switch.device_id] = service
        self.addresses[switch.device_id] = f"{host}:{bound}"

    def advance(self) -> None:
        """The clock given to `serve` has moved: timeouts that have passed take effect."""
        for service in self.services.values():
            service.advance()

    async def stop(self) -> None:
        """End all streams and close all ports."""
        await asyncio.gather(*(server.stop(None) for server in self._servers))
        self._servers.clear()
        for service in self.services.values():
            await service.detach()


async def serve(
    switches: Iterable[EmbeddedSwitch],
    *,
    host: str = "127.0.0.1",
    first_port: int = 0,
    clock_ns: ClockNs | None = None,
    call_at: CallAt | None = None,
    credentials: grpc.ServerCredentials | None = None,
) -> Server:
    """Start one P4Runtime server per switch; port 0 lets the system choose each port.

    `credentials` are those of TLS; without them it is plain TCP. `clock_ns` and
    `call_at(when_ns, action)` are those of a simulation that runs in this thread.
    """
    server = Server()
    try:
        for number, switch in enumerate(switches):
            port = first_port + number if first_port else 0
            await server._add(switch, host, port, clock_ns, call_at, credentials)
    except BaseException:
        await server.stop()
        raise
    return server
