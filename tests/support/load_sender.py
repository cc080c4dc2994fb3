# SPDX-License-Identifier: Apache-2.0
"""Reports of whole paths over real UDP, without a pause, whoever listens."""

import socket
import threading
from contextlib import ExitStack, suppress

from controller.fabric import Fabric
from tests.support.telemetry_reports import PATH_HOPS, ReportSender, delayed, xd_postcard

PACKET_INTERVAL_UNITS = 20_000
SOURCE_PORTS = 8
"""All reports of a packet come from one, as switches send them: workers share by it."""
BURST = 20
PAUSE_S = 0.005
"""After each burst: the collector needs the processor, too."""
PSN_COUNT = 1 << 24


class PathSender:
    """Postcards of RoCEv2 packets over leaf1, spine1 and leaf2 of a generated fabric."""

    def __init__(self, fabric: Fabric, udp_port: int) -> None:
        assert {switch.node_id for switch in fabric.switches} >= {node for node, _hop in PATH_HOPS}
        self._address = ("127.0.0.1", udp_port)
        self._sender = ReportSender()
        self.packets = 0
        """Sent so far; packet n has the PSN n."""

    def send_until(self, ended: threading.Event) -> None:
        """Send one packet's three postcards after another, some thousand reports a second."""
        with ExitStack() as stack:
            sockets = [
                stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                for _ in range(SOURCE_PORTS)
            ]
            while self.packets < PSN_COUNT:
                if self.packets % BURST == 0 and ended.wait(PAUSE_S):
                    return
                sock = sockets[self.packets % SOURCE_PORTS]
                later = PACKET_INTERVAL_UNITS * self.packets
                for node_id, values in PATH_HOPS:
                    postcard = xd_postcard(delayed(values, later), psn=self.packets)
                    payload = self._sender.payload(node_id, 1, postcard)
                    with suppress(ConnectionRefusedError):  # nobody listens just now
                        sock.sendto(payload, self._address)
                self.packets += 1
