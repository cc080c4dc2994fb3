# SPDX-License-Identifier: Apache-2.0
"""A host on a real interface, as the simulator's RoCEv2 endpoints know a host.

Its PHC is the kernel's clock: what is sent and received is stamped by the kernel.
"""

from collections import OrderedDict

from bmv2_lab.backends.packet_port import FRAMES_PER_TURN, PacketPort
from bmv2_lab.backends.real_time_engine import RealTimeEngine
from bmv2_lab.backends.time_base import TimeBase
from bmv2_lab.simulator.clocks import SteeredClock
from bmv2_lab.simulator.host_node import UDP_DST_PORT, HostNode, OnSent
from controller.fabric import PROTOCOL_UDP

WAITING_MAX = 4_096
"""Frames whose transmit stamp is awaited at once; the kernel loses some when it is short of
memory."""
_ETHER_TYPE, _PROTOCOL = slice(12, 14), 23
_IPV4 = b"\x08\x00"


class RealTimeHost(HostNode):
    """Sends through a raw socket; asks for the kernel's stamps."""

    __slots__ = ("_port", "_time", "_waiting", "stamps_lost")

    def __init__(
        self,
        engine: RealTimeEngine,
        name: str,
        phc: SteeredClock,
        time_base: TimeBase,
        port: PacketPort,
    ) -> None:
        super().__init__(engine, name, phc, rate_bps=1)
        self.stamps_lost = 0
        """Frames that were sent without their stamp coming back."""
        self._time = time_base
        self._port = port
        self._waiting: OrderedDict[int, OnSent] = OrderedDict()
        engine.add_reader(port, self._readable)

    def send(self, frame: bytes, on_sent: OnSent | None = None) -> None:
        """Send at once; `on_sent` gets the kernel's transmit stamp when it is known."""
        number = self._port.sent
        if on_sent is not None:
            self._waiting[number] = on_sent
            if len(self._waiting) > WAITING_MAX:
                self._waiting.popitem(last=False)
                self.stamps_lost += 1
        self._port.send(frame)
        if self._port.sent == number:  # refused
            self._waiting.pop(number, None)
        else:
            self._take_stamps()

    def _readable(self) -> None:
        self._take_stamps()
        for _ in range(FRAMES_PER_TURN):
            received = self._port.receive()
            if received is None:
                return
            frame = received.frame
            if frame[_ETHER_TYPE] != _IPV4 or frame[_PROTOCOL : _PROTOCOL + 1] != _UDP:
                continue
            if int.from_bytes(frame[UDP_DST_PORT], "big") not in self._handlers:
                continue  # ptp4l's and chronyd's
            self.receive(frame, 1, self._time.true_of_realtime(received.stamp_ns))

    def _take_stamps(self) -> None:
        while (sent := self._port.transmitted()) is not None:
            on_sent = self._waiting.pop(sent.number, None)
            if on_sent is not None:
                on_sent(self.stamp_ns(self._time.true_of_realtime(sent.stamp_ns)))


_UDP = bytes([PROTOCOL_UDP])
