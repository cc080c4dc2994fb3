# SPDX-License-Identifier: Apache-2.0
"""A host in the virtual fabric: one NIC with a PHC, stamping what it sends and receives.

A NIC with several cables sends each flow over one of them.
"""

import zlib
from collections.abc import Callable

from bmv2_lab.simulator.clocks import SteeredClock
from bmv2_lab.simulator.egress_port import OVERHEAD_BYTES, QueueState
from bmv2_lab.simulator.engine import Engine
from bmv2_lab.simulator.lossless_port import LosslessPort
from bmv2_lab.simulator.pfc import LOSSLESS_QUEUE
from bmv2_lab.simulator.wire import Wire, wire_bytes
from controller.fabric import ROCE_UDP_PORT
from controller.telemetry.datagram import ETHER_TYPE_PTP

FLOW = slice(26, 38)
"""Addresses and ports in an Ethernet/IPv4/UDP frame without IP options."""
ETHER_TYPE = slice(12, 14)
UDP_DST_PORT = slice(36, 38)
"""Destination port in an Ethernet/IPv4/UDP frame without IP options."""

OnSent = Callable[[int], None]
"""Called with the NIC's transmit stamp (PHC, ns)."""
OnFrame = Callable[[bytes, int], None]
"""`on_frame(frame, rx_stamp_local_ns)`."""


class HostNode:
    """Sends first in, first out at the port's rate; hands received frames to their protocol."""

    __slots__ = (
        "_engine",
        "_free_ns",
        "_handlers",
        "_ports",
        "_rate_bps",
        "_wires",
        "name",
        "phc",
        "true_of_stamp",
        "unknown",
    )

    def __init__(self, engine: Engine, name: str, phc: SteeredClock, rate_bps: int) -> None:
        self.name = name
        self.phc = phc
        self.true_of_stamp: dict[int, int] = {}
        """True instant of every stamp taken, for scoring alone."""
        self.unknown = 0
        """Received frames that no protocol asked for."""
        self._engine = engine
        self._rate_bps = rate_bps
        self._free_ns: list[int] = []
        self._wires: list[Wire] = []
        self._ports: list[LosslessPort] = []
        self._handlers: dict[int, list[OnFrame]] = {}

    def attach(self, wire: Wire, port: LosslessPort | None = None) -> None:
        """Cable the NIC's next port; `port`: its queues, where they can be paused."""
        self._wires.append(wire)
        self._free_ns.append(0)
        if port is not None:
            self._ports.append(port)

    def handle(self, udp_dst_port: int, on_frame: OnFrame) -> None:
        """Give frames to this UDP port, or of the EtherType of PTP, to `on_frame` as well."""
        self._handlers.setdefault(udp_dst_port, []).append(on_frame)

    def send(self, frame: bytes, on_sent: OnSent | None = None) -> None:
        """Queue a frame in the NIC; `on_sent` gets the stamp when its first bit leaves."""
        assert self._wires, "attach() comes first"
        way = zlib.crc32(frame[FLOW]) % len(self._wires) if len(self._wires) > 1 else 0
        if self._ports:
            self._queue(self._ports[way], self._wires[way], frame, on_sent)
            return
        start_ns = max(self._engine.now_ns, self._free_ns[way])
        work_ns = (wire_bytes(frame) + OVERHEAD_BYTES) * 8e9 / self._rate_bps
        self._free_ns[way] = start_ns + round(work_ns)
        self._engine.at(start_ns, self._transmit, self._wires[way], frame, on_sent)

    def receive(self, frame: bytes, _port: int, stamp_true_ns: int) -> None:
        """A frame arrived; its stamp was taken at `stamp_true_ns`."""
        kind = int.from_bytes(frame[ETHER_TYPE], "big")
        if kind != ETHER_TYPE_PTP:
            kind = int.from_bytes(frame[UDP_DST_PORT], "big")
        handlers = self._handlers.get(kind, ())
        if not handlers:
            self.unknown += 1
            return
        stamp_ns = self.stamp_ns(stamp_true_ns)
        for handler in handlers:
            handler(frame, stamp_ns)

    def stamp_ns(self, true_ns: int) -> int:
        """Read the PHC at a true instant, which is remembered for scoring."""
        local_ns = self.phc.read_ns(true_ns)
        self.true_of_stamp[local_ns] = true_ns
        return local_ns

    def _queue(self, port: LosslessPort, wire: Wire, frame: bytes, on_sent: OnSent | None) -> None:
        """Through the NIC's queues: RoCE can be paused, all else goes on."""
        frame_bytes = wire_bytes(frame)

        def send(_state: QueueState) -> int:
            self._transmit(wire, frame, on_sent)
            return round(port.frame_work_ns(frame_bytes))

        is_roce = frame[UDP_DST_PORT] == ROCE_UDP_PORT.to_bytes(2, "big")
        port.enqueue(LOSSLESS_QUEUE if is_roce else 0, frame_bytes, send)

    def _transmit(self, wire: Wire, frame: bytes, on_sent: OnSent | None) -> None:
        if on_sent is not None:
            on_sent(self.stamp_ns(self._engine.now_ns))
        wire.send(frame)
