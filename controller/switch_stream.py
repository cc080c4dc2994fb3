# SPDX-License-Identifier: Apache-2.0
"""The stream of one P4Runtime session: who is primary, and packets to and from the controller.

Messages are taken off the stream as they come; what nobody fetches is bounded, and what finds no
room is counted.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

import finsy as fy
from finsy.proto import U128, p4r, rpc_code

from controller.arbitration import Arbitration
from controller.p4channel import P4Channel
from controller.session_errors import wrapped
from controller.switch_error import SwitchError

PACKET_IN_COUNT_MAX = 1_024
"""Packet-ins that wait for whoever reads them; further ones are dropped and counted."""
ARBITRATION_COUNT_MAX = 64
"""Arbitration messages that wait to be read; a switch that sends more is out of its mind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketIn:
    """A frame that a switch sent to its controller."""

    frame: bytes
    metadata: Mapping[str, int]
    """Fields of the program's `packet_in` header, such as `ingress_port`."""


@dataclass(slots=True)
class StreamCounters:
    """Messages of the stream, as far as they are nobody's answer."""

    packets: int = 0
    packets_dropped: int = 0
    """Packet-ins that found the queue full."""
    errors: int = 0
    """Stream errors: packet-outs that the switch refused."""
    others: int = 0


class SwitchStream:
    """Reads from the first bid until it is closed."""

    def __init__(
        self,
        name: str,
        device_id: int,
        schema: fy.P4Schema,
        channel: P4Channel,
        counters: StreamCounters,
        *,
        role: str = "",
    ) -> None:
        self.counters = counters
        self._role = role
        self.packets_in: asyncio.Queue[PacketIn] = asyncio.Queue(PACKET_IN_COUNT_MAX)
        self._name = name
        self._device_id = device_id
        self.schema = schema
        self._channel = channel
        self._arbitrations: asyncio.Queue[Arbitration | SwitchError] = asyncio.Queue()
        self._reader: asyncio.Task[None] | None = None

    async def announce(self, election_id: int) -> None:
        """Bid for being primary; the switch answers in `arbitration`."""
        request = p4r.StreamMessageRequest(
            arbitration=p4r.MasterArbitrationUpdate(
                device_id=self._device_id, election_id=U128.encode(election_id)
            )
        )
        if self._role:  # an empty role is another one than none to some servers
            request.arbitration.role.name = self._role
        with wrapped(self._name):
            await self._channel.send(request)
        if self._reader is None:
            self._reader = asyncio.create_task(self._read_stream())

    async def arbitration(self) -> Arbitration:
        """What the switch says next of who is primary; SwitchError at the end of the stream."""
        said = await self._arbitrations.get()
        if isinstance(said, SwitchError):
            self._arbitrations.put_nowait(said)  # for whoever asks again
            raise said
        return said

    async def _read_stream(self) -> None:
        """Take messages off the stream as they come: nothing that waits here can stop the rest."""
        try:
            with wrapped(self._name):
                while (message := await self._channel.receive()) is not None:
                    self._take(message)
            end = SwitchError(
                switch=self._name, message="the switch closed the P4Runtime stream", lost=True
            )
        except SwitchError as error:
            end = error
        self._arbitrations.put_nowait(end)

    def _take(self, message: p4r.StreamMessageResponse) -> None:
        match message.WhichOneof("update"):
            case "arbitration":
                if self._arbitrations.qsize() >= ARBITRATION_COUNT_MAX:
                    raise SwitchError(switch=self._name, message="too many arbitration messages")
                code = message.arbitration.status.code
                self._arbitrations.put_nowait(
                    Arbitration(
                        is_primary=code == rpc_code.OK,
                        has_primary=code != rpc_code.NOT_FOUND,
                        highest_election_id=U128.decode(message.arbitration.election_id),
                    )
                )
            case "packet":
                self._take_packet(message)
            case "error":
                self.counters.errors += 1
            case _:
                self.counters.others += 1

    def _take_packet(self, message: p4r.StreamMessageResponse) -> None:
        self.counters.packets += 1
        if self.packets_in.full():
            self.counters.packets_dropped += 1
            return
        try:
            packet = fy.P4PacketIn.decode(message, self.schema)
            metadata = {name: int(value) for name, value in packet.metadata.items()}
        except (KeyError, ValueError):  # of another program
            self.counters.others += 1
            return
        self.packets_in.put_nowait(PacketIn(frame=packet.payload, metadata=metadata))

    async def packet_out(self, frame: bytes, *, egress_port: int) -> None:
        """Send a frame out of a port as it is; the switch confirms none."""
        packet = fy.P4PacketOut(frame, egress_port=egress_port, submit_to_ingress=0, pad=0)
        with wrapped(self._name):
            await self._channel.send(packet.encode_update(self.schema))

    async def close(self) -> None:
        """Read no more."""
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
