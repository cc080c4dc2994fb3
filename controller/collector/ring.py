# SPDX-License-Identifier: Apache-2.0
"""Reports from an AF_PACKET ring (TPACKET_V3): read where the kernel wrote them, without a call.

Worth it where reports come one by one, each of its own flow, so that nothing is coalesced: the
kernel copies a report into memory shared with it while it handles the interrupt, and the
collector only walks that memory. It needs CAP_NET_RAW, and IP fragments are not put together.
"""

import mmap
import select
import socket
import struct
from ipaddress import ip_address

import numpy as np
from numpy.typing import NDArray

from controller.collector.batch import ReportBatch
from controller.collector.messages import AddressRows
from controller.collector.packet_filter import drop_all, report_filter
from controller.collector.receive import ADDRESSES_MAX, bind_udp
from controller.collector.ring_block import RingTold, read_block
from controller.collector.state import ReceiveCounters
from controller.telemetry.collector import Destination

BLOCK_BYTES = 1 << 18
"""What is handed over at once; about as much as a receive call returns."""
BLOCKS = 256
"""64 MiB, as the buffer of a socket."""
_RETIRE_MS = 10
"""A block that is not full is handed over after this."""
_SOL_PACKET, _PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION = 263, 5, 6, 10
_TPACKET_V3 = 2
_ETHER_TYPES = {socket.AF_INET: 0x0800, socket.AF_INET6: 0x86DD}
_FRAME_BYTES = 2048  # of no meaning to version 3, but checked
_STATUS_USER = 1
_WORD_STATUS, _WORD_PACKETS, _WORD_FIRST = 2, 3, 4


class RingSource:
    """One report address of this machine, read through a ring; a source of batches."""

    def __init__(
        self,
        host: str,
        udp_port: int,
        *,
        interface: str | None = None,
        block_bytes: int = BLOCK_BYTES,
        blocks: int = BLOCKS,
    ) -> None:
        """Bind host:port (0: any free one) and listen on `interface`, or on all.

        PermissionError without CAP_NET_RAW.
        """
        self._drops = self._refused = 0
        # The port is bound as well: it is ours, and nobody answers reports with ICMP errors.
        self._holder = bind_udp(host, udp_port)
        try:
            drop_all(self._holder)
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        except OSError:
            self._holder.close()
            raise
        self.address: tuple[str, int] = self._holder.getsockname()[:2]
        family = self._holder.family
        destination = int(ip_address(self.address[0].partition("%")[0]))
        self._destinations = [Destination(destination, self.address[1])]
        self._is_wildcard = destination == 0
        self._address_bytes = 16 if family == socket.AF_INET6 else 4
        self._block_words = block_bytes // 4
        self._blocks = blocks
        size = block_bytes * blocks
        request = (block_bytes, blocks, _FRAME_BYTES, size // _FRAME_BYTES, _RETIRE_MS, 0, 0)
        try:
            self._socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V3)
            self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, struct.pack("=7I", *request))
            report_filter(self._socket, family, self.address)
            self._socket.bind((interface or "", _ETHER_TYPES[family]))
        except OSError:
            self.close()
            raise
        self._memory = mmap.mmap(self._socket.fileno(), size)
        buffer: NDArray[np.uint8] = np.frombuffer(self._memory, np.uint8)
        self._words: NDArray[np.uint32] = buffer.view(np.uint32)
        self._batch = ReportBatch.empty(rows=block_bytes // 64, buffer_bytes=0)
        self._batch.buffer = buffer
        self._batch.destinations = self._destinations
        self._addresses: NDArray[np.uint64] = np.zeros((0, 2), np.uint64)
        self._rows: NDArray[np.int32] = np.zeros(0, np.int32)
        self._told = np.zeros(len(RingTold), np.int64)
        self._block = 0
        self._held = -1
        """Block that the newest batch lies in; it is given back by the next call."""
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """What is bound."""
        return [self.address]

    def receive(self) -> ReportBatch | None:
        """The reports of the next block, None when none is ready; valid until the next call."""
        self._give_back()
        at = self._block * self._block_words
        if not self._words[at + _WORD_STATUS] & _STATUS_USER:
            return None
        self._held = self._block
        self._block = (self._block + 1) % self._blocks
        self._read(at)
        return self._batch

    def wait(self, timeout_ns: int) -> bool:
        """Sleep until a block is ready."""
        self._give_back()
        return bool(self._poll.poll(timeout_ns / 1e6))

    @property
    def receive_counters(self) -> ReceiveCounters:
        """What found the ring full, and what was not a whole UDP datagram."""
        if self._socket.fileno() >= 0:
            counts = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 12)
            self._drops += struct.unpack("=3I", counts)[1]  # the kernel counts from zero again
        return ReceiveCounters(kernel_drops=self._drops, cut=self._refused)

    def close(self) -> None:
        """Release port and ring; the counters stay."""
        _ = self.receive_counters
        self._socket.close()
        self._holder.close()

    def _read(self, at: int) -> None:
        packets, first = self._words[at + _WORD_PACKETS : at + _WORD_FIRST + 1].tolist()
        while True:
            self._batch.count = read_block(
                self._batch, 4 * at + first, packets, self._where(), self._told
            )
            if self._told[RingTold.NEW_ADDRESS] < 0:
                break
            self._add_address(int(self._told[RingTold.NEW_ADDRESS]))
        self._refused += int(self._told[RingTold.REFUSED])

    def _where(self) -> AddressRows:
        is_open = self._is_wildcard and len(self._rows) < ADDRESSES_MAX
        return AddressRows(self._addresses, self._rows, -1 if is_open else 0)

    def _add_address(self, offset: int) -> None:
        raw = self._batch.buffer[offset : offset + self._address_bytes].tobytes()
        words = np.frombuffer(raw.ljust(16, b"\0"), np.uint64)
        self._addresses = np.concatenate([self._addresses, words[None]])
        self._rows = np.append(self._rows, np.int32(len(self._destinations))).astype(np.int32)
        self._destinations.append(Destination(int.from_bytes(raw, "big"), self.address[1]))

    def _give_back(self) -> None:
        if self._held >= 0:
            self._words[self._held * self._block_words + _WORD_STATUS] = 0
            self._held = -1
