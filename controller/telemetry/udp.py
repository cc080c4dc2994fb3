# SPDX-License-Identifier: Apache-2.0
"""The asyncio shell around the collector: receives datagrams, stamps them, hands them over."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

from controller.telemetry.collector import UNKNOWN_DESTINATION, Collector, Destination


@dataclass(frozen=True, slots=True, kw_only=True)
class UdpServer:
    """A bound report socket; `close` releases the port."""

    host: str
    port: int
    transport: asyncio.DatagramTransport

    def close(self) -> None:
        """Stop receiving. What the collector has taken stays there."""
        self.transport.close()


async def serve_udp(
    collector: Collector, *, host: str, port: int, collector_clock_ns: Callable[[], int]
) -> UdpServer:
    """Feed the collector with the datagrams that arrive at host:port (0: any free port)."""
    loop = asyncio.get_running_loop()
    transport, _protocol = await loop.create_datagram_endpoint(
        lambda: _ReportProtocol(collector, collector_clock_ns), local_addr=(host, port)
    )
    bound = transport.get_extra_info("sockname")
    return UdpServer(host=bound[0], port=bound[1], transport=transport)


class _ReportProtocol(asyncio.DatagramProtocol):
    def __init__(self, collector: Collector, collector_clock_ns: Callable[[], int]) -> None:
        self._collector = collector
        self._clock_ns = collector_clock_ns
        self._destination = UNKNOWN_DESTINATION

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is bound: reports to it are one destination."""
        host, port = transport.get_extra_info("sockname")[:2]
        self._destination = Destination(int(ip_address(host.partition("%")[0])), port)

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        """A report from `addr`, which is not trusted: the node id in it says who reports."""
        self._collector.feed_payload(data, self._clock_ns(), self._destination)
