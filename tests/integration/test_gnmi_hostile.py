# SPDX-License-Identifier: Apache-2.0
"""gNMI servers that answer with anything but port states: said once, and tried again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import grpc
import pytest
from finsy.proto import gnmi, gnmi_grpc

from controller.access import DEFAULT_ACCESS
from controller.fabric_generate import leaf_spine
from controller.keeper.events import Event, EventKind
from controller.keeper.phases import Phase
from controller.link_events.gnmi_ports import GnmiPorts
from controller.link_events.link_watch import LinkWatch
from tests.support.gnmi_switch import GnmiSwitch
from tests.support.grpc_loop import in_grpc_loop
from tests.support.kept_fabric import DEADLINE_S, kept, park

LINK = "leaf1:1-spine1:1"
FABRIC = leaf_spine(leaves=1, spines=1, hosts_per_leaf=1, tenants=["t"])


class Garbage(grpc.GenericRpcHandler):
    """Answers everything with bytes that are no message."""

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """Of any call."""

        async def once(request: bytes, context: object) -> bytes:
            return b"\xff\xff\xff"

        async def stream(requests: object, context: object) -> AsyncIterator[bytes]:
            yield b"\xff\xff\xff"

        if handler_call_details.method.endswith("Subscribe"):
            return grpc.stream_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(once)


class EndsEarly(GnmiSwitch):
    """Ends each subscription before all states are told."""

    async def Subscribe(
        self, request_iterator: object, context: object
    ) -> AsyncIterator[gnmi.SubscribeResponse]:
        """One state, and the end."""
        self.subscriptions += 1
        yield self._status(1)


class Refuses(GnmiSwitch):
    """Tells port numbers, and no states."""

    async def Subscribe(
        self, request_iterator: object, context: "grpc.aio.ServicerContext[object, object]"
    ) -> AsyncIterator[gnmi.SubscribeResponse]:
        """A status that no client expects."""
        self.subscriptions += 1
        await context.abort(grpc.StatusCode.DATA_LOSS, "broken\nTraceback")
        yield gnmi.SubscribeResponse()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.02)


def garbage_server() -> tuple[grpc.aio.Server, int]:
    """Of bytes that are no message."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Garbage(),))
    return server, server.add_insecure_port("127.0.0.1:0")


def gnmi_server(servicer: GnmiSwitch) -> tuple[grpc.aio.Server, int]:
    """Of a switch that misbehaves."""
    server = grpc.aio.server()
    gnmi_grpc.add_gNMIServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    return server, server.add_insecure_port("127.0.0.1:0")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (garbage_server, "its answer is no gNMI"),
        (lambda: gnmi_server(EndsEarly({1: "UP"})), "the switch has ended the subscription"),
        (lambda: gnmi_server(Refuses({1: "UP"})), "broken Traceback"),
    ],
    ids=["garbage", "ends early", "refuses"],
)
@in_grpc_loop
async def test_server_that_tells_no_states_is_named_once_and_asked_again(
    make: Callable[[], tuple[grpc.aio.Server, int]], error: str
) -> None:
    """However often it is asked, there is one event; a sound server in its place is followed."""
    server, port = make()
    await server.start()
    events: list[Event] = []
    links = LinkWatch()
    ports = GnmiPorts(links, DEFAULT_ACCESS, events.append, draw=lambda: 0.99)
    async with park(FABRIC) as switches:
        leaf, spine = FABRIC.switches
        leaf = replace(leaf, gnmi=f"127.0.0.1:{port}")
        described = replace(FABRIC, switches=(leaf, spine))
        async with kept(switches, fabric=described, companions=[links, ports]) as running:
            await running.in_phase(Phase.IN_SYNC)
            await until(lambda: bool(ports.state.by_switch["leaf1"].error))
            assert ports.state.by_switch["leaf1"].error == f"gNMI server 127.0.0.1:{port}: {error}"
            await server.stop(None)
            sound = GnmiSwitch({1: "DOWN"}, port=port)
            await sound.start()
            try:
                await until(lambda: set(running.keeper.failed_links) == {LINK})
            finally:
                await sound.stop()
    kinds = [event.kind for event in events]
    assert kinds[:2] == [EventKind.PORTS_UNKNOWN, EventKind.PORTS_KNOWN]
