# SPDX-License-Identifier: Apache-2.0
"""The UDP shell: what arrives on the socket reaches the collector, stamped once."""

import socket

import anyio
import pytest

from controller.telemetry.codec import DecodeReason
from controller.telemetry.collector import Collector, Destination, SenderKey
from controller.telemetry.udp import serve_udp
from tests.support.telemetry_reports import (
    LEAF1,
    ReportSender,
    hop,
    sink_postcard,
    three_switch_fabric,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    """The shell is asyncio's."""
    return "asyncio"


async def test_datagrams_reach_the_collector_with_the_shells_clock():
    """Two reports and one piece of noise over loopback; the port is free again afterwards."""
    collector = Collector(three_switch_fabric())
    clock = iter(range(1_000, 2_000))
    server = await serve_udp(
        collector, host="127.0.0.1", port=0, collector_clock_ns=lambda: next(clock)
    )
    sender = ReportSender()
    local = hop(None, 11, 12, 5_000, 6_000)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        for psn in (1, 2):
            payload = sender.payload(LEAF1, 1, sink_postcard(psn=psn, metadata=local))
            client.sendto(payload, (server.host, server.port))
        client.sendto(b"noise", (server.host, server.port))
        with anyio.fail_after(10):
            while collector.counters.received < 3:
                await anyio.lowlevel.checkpoint()
    server.close()
    collection = collector.flush()
    assert collection.packets["psn"].tolist() == [1, 2]
    assert collection.packets["capture_collector_ns"].tolist() == [1_000, 1_001]
    assert collection.counters.rejected == {DecodeReason.TRUNCATED: 1}
    bound = Destination(0x7F000001, server.port)
    assert list(collection.counters.senders) == [SenderKey(LEAF1, 1, bound)]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
        await anyio.lowlevel.checkpoint()
        again.bind((server.host, server.port))
