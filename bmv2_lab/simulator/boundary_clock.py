# SPDX-License-Identifier: Apache-2.0
"""Switches as boundary clocks (IEEE 1588-2019 clause 3.1): PTP ends and starts anew at each.

The switch's CPU runs the same client and time transmitter as hosts do. Its messages are packet-outs
and punted packets of the P4 program, stamped where INT stamps are taken. The PTP clock is kept in
software over the stamp counter, which itself runs free, so INT stamps are not steered.
"""

import networkx as nx

from bmv2_lab.simulator.clocks import SteeredClock
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.host_node import FLOW, UDP_DST_PORT, OnFrame, OnSent
from bmv2_lab.simulator.switch_node import SwitchNode
from controller.fabric import Fabric, Host, StampPoints, Switch
from controller.ptp_entries import EVENT_FRAME_BYTES
from controller.telemetry.datagram import UDP_PORT_PTP_EVENT

PACKET_IN_BYTES = 2
PORT_SHIFT = 7
"""Of the egress port in a `packet_out` header; submit_to_ingress stays 0."""
SRC_IP = slice(26, 30)
DST_IP = slice(30, 34)
EVENT_PORT = UDP_PORT_PTP_EVENT.to_bytes(2, "big")


def as_host(switch: Switch) -> Host:
    """The switch as PTP sees it: an address and a clock identity."""
    return Host(name=switch.name, model="", ip=switch.ip, mac=switch.mac, tenant="")


def parents(fabric: Fabric) -> dict[str, str]:
    """Whom each switch and host takes the time from: the shortest-path tree of the grandmaster."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_edges_from((link.a.node, link.b.node) for link in fabric.links)
    tree = nx.bfs_edges(graph, fabric.ptp.grandmaster, sort_neighbors=sorted)
    return {child: parent for parent, child in tree}


class BoundaryClockNode:
    """What a PTP client or transmitter needs of a node, on a switch's CPU."""

    def __init__(
        self,
        engine: Engine,
        node: SwitchNode,
        switch: Switch,
        phc: SteeredClock,
        points: StampPoints,
        ports: dict[int, int],
    ) -> None:
        """points: declared stamp points, which it takes off. ports: by neighbour's IPv4 address."""
        self.phc = phc
        self._engine = engine
        self._node = node
        self._ip = switch.ip.to_bytes(4, "big")
        self._ports = ports
        self._handlers: dict[int, list[OnFrame]] = {}
        self._sent: dict[bytes, OnSent] = {}
        self._egress_ns = points.egress.latency_ns
        serialisation_ns = round(EVENT_FRAME_BYTES * 8 / points.speed_gbps)
        self._ingress_ns = points.ingress.latency_ns + (
            serialisation_ns if points.ingress.at_frame_end else 0
        )
        node.on_punted = self._punted
        node.on_frame_sent = self._frame_sent

    def handle(self, udp_dst_port: int, on_frame: OnFrame) -> None:
        """Give messages to this UDP port to `on_frame` as well."""
        self._handlers.setdefault(udp_dst_port, []).append(on_frame)

    def send(self, frame: bytes, on_sent: OnSent | None = None) -> None:
        """Packet-out on the port that leads to the destination."""
        port = self._ports[int.from_bytes(frame[DST_IP], "big")]
        if on_sent is not None:
            self._sent[frame[FLOW.start :]] = on_sent
        header = (port << PORT_SHIFT).to_bytes(2, "big")
        self._node.packet_out(header + frame)

    def _frame_sent(self, frame: bytes) -> None:
        if frame[UDP_DST_PORT] == EVENT_PORT and frame[SRC_IP] == self._ip:
            on_sent = self._sent.pop(frame[FLOW.start :], None)
            if on_sent is not None:
                on_sent(self.phc.read_ns(self._engine.now_ns) + self._egress_ns)

    def _punted(self, frame: bytes, stamp_true_ns: int) -> None:
        packet = frame[PACKET_IN_BYTES:]
        if packet[DST_IP] != self._ip:
            return
        rx_local_ns = self.phc.read_ns(stamp_true_ns) - self._ingress_ns
        for handler in self._handlers.get(int.from_bytes(packet[UDP_DST_PORT], "big"), ()):
            handler(packet, rx_local_ns)


def neighbour_ports(fabric: Fabric, name: str) -> dict[int, int]:
    """By a neighbour's IPv4 address, the port that leads to it."""
    ips = {node.name: node.ip for node in fabric.nodes}
    found: dict[int, int] = {}
    for link in fabric.links:
        for near, far in ((link.a, link.b), (link.b, link.a)):
            if near.node == name:
                found[ips[far.node]] = near.port
    return found
