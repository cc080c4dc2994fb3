# SPDX-License-Identifier: Apache-2.0
"""What one recvmmsg call fills: message headers and control data, split into report rows.

The kernel's structures (mmsghdr, iovec and cmsghdr of 64-bit Linux) are laid out in numpy arrays,
so that one compiled pass over them finds the rows: with UDP_GRO a message holds several datagrams
of one size, and a control message says which.
"""

from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.collector.address_index import address_index
from controller.collector.batch import ReportBatch
from correction.compiled import compiled

SLOT_BYTES = 1 << 16
"""Room for one message: no UDP datagram, and no coalesced run of them, is longer."""
SLOT_STRIDE_BYTES = SLOT_BYTES + 7 * 64
"""From slot to slot: a power of two would put the beginnings of all slots into the same few sets
of the processor's cache."""
MESSAGES_MAX = 1024
"""Messages that one call can return (UIO_MAXIOV)."""
_MESSAGES_MIN = 16
_CALL_BYTES = 1 << 18
"""What a call should return: enough reports for one batch, few enough to be in the processor's
cache still when they are decoded."""
CONTROL_BYTES = 160
"""Control data of one message: 24 bytes for each of drop counter and segment size, 32 for the
time, 40 for the destination address."""
ROWS_PER_MESSAGE = 128
"""UDP_MAX_SEGMENTS: what a sender on this machine may coalesce; a network card's driver stops at
64. The arrays grow when a kernel exceeds it."""

SOL_SOCKET, SO_TIMESTAMPNS, SO_RXQ_OVFL = 1, 35, 40
_SO_TIMESTAMPNS_NEW = 64
IPPROTO_IP, IP_PKTINFO = 0, 8
IPPROTO_UDP, UDP_GRO = 17, 104
IPPROTO_IPV6, IPV6_RECVPKTINFO, _IPV6_PKTINFO = 41, 49, 50
_MSG_CTRUNC, _MSG_TRUNC = 0x08, 0x20
_NS_PER_S = 1_000_000_000

# words of struct mmsghdr: eight of 8 bytes, or sixteen of 4
_WORD_IOV, _WORD_IOV_COUNT, _WORD_CONTROL, _WORD_CONTROL_BYTES = 2, 3, 4, 5
_HALF_FLAGS, _HALF_MESSAGE_BYTES = 12, 14
_HEADER_WORDS = 8
_CMSG_HEADER_BYTES = 16


@unique
class Told(IntEnum):
    """What a pass over messages tells besides rows: places in an array, -1 for nothing."""

    DROP_COUNTER = 0
    """The socket's drop counter, modulo 2^32, as the newest message saw it."""
    CUT = 1
    """Messages whose data or control data did not fit; they make no rows."""
    NEW_ADDRESS = 2
    """A message for an address that has no row yet; the pass stopped there."""
    ROWS_NEEDED = 3
    """Rows of all messages together."""
    BYTES = 4
    """Bytes of all messages together."""


class AddressRows(NamedTuple):
    """Rows of destinations by the address that a message was sent to."""

    addresses: NDArray[np.uint64]
    """Two words each, as the kernel writes them; of IPv4 the first, upper half 0."""
    rows: NDArray[np.int32]
    fallback_row: int
    """Of a message without an address; -1: every new address is to have a row of its own."""


@dataclass(slots=True)
class Messages:
    """The structures of one recvmmsg call around the buffer of one batch."""

    batch: ReportBatch
    headers: NDArray[np.uint64]
    """struct mmsghdr, a row each."""
    io_vectors: NDArray[np.uint64]
    control: NDArray[np.uint64]
    told: NDArray[np.int64] = field(default_factory=lambda: np.full(len(Told), -1, np.int64))
    limit: int = _MESSAGES_MIN
    """How many messages to ask for: as many as will be about `_CALL_BYTES`, going by the last."""

    @classmethod
    def prepare(cls, *, message_count: int = MESSAGES_MAX) -> "Messages":
        """Buffers for calls of up to `message_count` messages; memory is taken when first used."""
        batch = ReportBatch.empty(
            rows=message_count * ROWS_PER_MESSAGE, buffer_bytes=message_count * SLOT_STRIDE_BYTES
        )
        headers = np.zeros((message_count, _HEADER_WORDS), np.uint64)
        io_vectors = np.zeros((message_count, 2), np.uint64)
        control = np.zeros((message_count, CONTROL_BYTES // 8), np.uint64)
        slot = np.arange(message_count, dtype=np.uint64)
        io_vectors[:, 0] = batch.buffer.ctypes.data + slot * np.uint64(SLOT_STRIDE_BYTES)
        io_vectors[:, 1] = SLOT_BYTES
        headers[:, _WORD_IOV] = io_vectors.ctypes.data + slot * np.uint64(16)
        headers[:, _WORD_IOV_COUNT] = 1
        headers[:, _WORD_CONTROL] = control.ctypes.data + slot * np.uint64(CONTROL_BYTES)
        headers[:, _WORD_CONTROL_BYTES] = CONTROL_BYTES
        made = cls(batch=batch, headers=headers, io_vectors=io_vectors, control=control)
        made.limit = min(made.limit, message_count)
        return made

    def bytes_of(self, received: int) -> int:
        """Bytes in the first `received` messages together."""
        return int(self.headers.view(np.uint32)[:received, _HALF_MESSAGE_BYTES].sum())

    def offer_again(self, received: int, byte_count: int) -> None:
        """Make ready for the next call, after one that gave so many messages and bytes."""
        self.headers[:received, _WORD_CONTROL_BYTES] = CONTROL_BYTES
        expected = _CALL_BYTES * received // max(byte_count, 1)
        self.limit = min(max(expected, _MESSAGES_MIN), len(self.headers))

    def split(self, received: int, *, now_ns: int, where: AddressRows) -> None:
        """Make rows of the first `received` messages; see `told` for what else they told.

        `now_ns` stands in where the kernel gave no time. With a `NEW_ADDRESS` there are no rows:
        give it one and call again.
        """
        batch = self.batch
        batch.count = 0
        while True:
            rows = _split(
                self.headers.view(np.int64),
                self.headers.view(np.int32),
                self.control.view(np.int64),
                self.control.view(np.int32),
                received,
                now_ns,
                where.addresses.view(np.int64),
                where.rows,
                where.fallback_row,
                batch.start,
                batch.byte_count,
                batch.capture_collector_ns,
                batch.destination,
                self.told,
            )
            if self.told[Told.ROWS_NEEDED] <= len(batch.start):
                break
            self._grow(int(self.told[Told.ROWS_NEEDED]))
        if self.told[Told.NEW_ADDRESS] < 0:
            batch.count = rows
            self.offer_again(received, int(self.told[Told.BYTES]))

    def address_of(self, message: int) -> NDArray[np.uint64]:
        """The address that a message was sent to, as in `AddressRows`."""
        address = np.zeros(2, np.uint64)
        for level, kind, start in _control_items(self, message):
            data = self.control[message].view(np.uint32)[start // 4 :]
            if (level, kind) == (IPPROTO_IP, IP_PKTINFO):
                address.view(np.uint32)[0] = data[2]
            elif (level, kind) == (IPPROTO_IPV6, _IPV6_PKTINFO):
                address.view(np.uint32)[:] = data[:4]
        return address

    def _grow(self, rows: int) -> None:
        batch = self.batch
        batch.start = np.zeros(rows, np.int64)
        batch.byte_count = np.zeros(rows, np.int32)
        batch.capture_collector_ns = np.zeros(rows, np.int64)
        batch.destination = np.zeros(rows, np.int32)


def _control_items(messages: Messages, message: int) -> list[tuple[int, int, int]]:
    """(level, type, offset of the data) of each control message."""
    end = min(int(messages.headers[message, _WORD_CONTROL_BYTES]), CONTROL_BYTES)
    words = messages.control[message]
    items = []
    offset = 0
    while offset + _CMSG_HEADER_BYTES <= end:
        byte_count = int(words[offset // 8])
        if not _CMSG_HEADER_BYTES <= byte_count <= end - offset:
            break
        level, kind = words.view(np.int32)[offset // 4 + 2 : offset // 4 + 4].tolist()
        items.append((level, kind, offset + _CMSG_HEADER_BYTES))
        offset += (byte_count + 7) & ~7
    return items


@compiled
def _split(
    headers: NDArray[np.int64],
    headers32: NDArray[np.int32],
    control: NDArray[np.int64],
    control32: NDArray[np.int32],
    received: int,
    now_ns: int,
    addresses: NDArray[np.int64],
    address_rows: NDArray[np.int32],
    fallback_row: int,
    starts: NDArray[np.int64],
    byte_counts: NDArray[np.int32],
    captures: NDArray[np.int64],
    destinations: NDArray[np.int32],
    told: NDArray[np.int64],
) -> int:
    """Rows of the first `received` messages; counts on when the arrays are full.

    All words are signed here: unsigned ones would turn differences below zero into huge numbers.
    """
    told[:] = -1
    cut = 0
    row = 0
    total_bytes = 0
    room = len(starts)
    last_address = 0
    for message in range(received):
        message_bytes = int(headers32[message, _HALF_MESSAGE_BYTES])
        total_bytes += message_bytes
        segment_bytes = message_bytes
        captured_ns = now_ns
        low = 0
        high = 0
        has_address = False
        end = min(int(headers[message, _WORD_CONTROL_BYTES]), CONTROL_BYTES)
        offset = 0
        while offset + _CMSG_HEADER_BYTES <= end:
            item_bytes = int(control[message, offset // 8])
            if item_bytes < _CMSG_HEADER_BYTES or item_bytes > end - offset:
                break
            level = control32[message, offset // 4 + 2]
            kind = control32[message, offset // 4 + 3]
            data = (offset + _CMSG_HEADER_BYTES) // 4
            if level == IPPROTO_UDP and kind == UDP_GRO:
                segment_bytes = int(control32[message, data])
            elif level == SOL_SOCKET and kind == SO_RXQ_OVFL:
                told[0] = int(control32[message, data]) & 0xFFFFFFFF
            elif level == SOL_SOCKET and kind in (SO_TIMESTAMPNS, _SO_TIMESTAMPNS_NEW):
                seconds = int(control[message, data // 2])
                captured_ns = seconds * _NS_PER_S + int(control[message, data // 2 + 1])
            elif level == IPPROTO_IP and kind == IP_PKTINFO:
                low = int(control32[message, data + 2]) & 0xFFFFFFFF
                has_address = True
            elif level == IPPROTO_IPV6 and kind == _IPV6_PKTINFO:
                low = int(control[message, data // 2])
                high = int(control[message, data // 2 + 1])
                has_address = True
            offset += (item_bytes + 7) & ~7
        if headers32[message, _HALF_FLAGS] & (_MSG_TRUNC | _MSG_CTRUNC):
            cut += 1
            continue
        destination = fallback_row
        if has_address:
            index = address_index(addresses, low, high, last_address)
            if index >= 0:
                last_address = index
                destination = address_rows[index]
        if destination < 0:
            told[2] = message
            return 0
        if segment_bytes <= 0 or segment_bytes > message_bytes:
            segment_bytes = message_bytes
        place = message * SLOT_STRIDE_BYTES
        rest = message_bytes
        while True:
            if row < room:
                starts[row] = place
                byte_counts[row] = min(segment_bytes, rest)
                captures[row] = captured_ns
                destinations[row] = destination
            row += 1
            place += segment_bytes
            rest -= segment_bytes
            if rest <= 0:
                break
    told[1] = cut
    told[3] = row
    told[4] = total_bytes
    return row
