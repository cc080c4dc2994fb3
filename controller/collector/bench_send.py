# SPDX-License-Identifier: Apache-2.0
"""The other end of the collector's bench: sends generated reports over loopback, at any cost.

To overload a receiver, a sender must be cheaper than it. One sendmmsg call hands over many
messages, each of which the kernel treats as one until it is received (UDP_SEGMENT).
"""

import ctypes
import os
import socket
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SOL_UDP, _UDP_SEGMENT = 17, 103
SEGMENTS_MAX = 64
"""What every kernel with UDP_SEGMENT takes; newer ones take 128."""
_DATAGRAM_BYTES_MAX = 65000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """A buffer of reports cut into messages."""

    headers: NDArray[np.uint64]
    io_vectors: NDArray[np.uint64]
    control: NDArray[np.uint8]
    buffer: NDArray[np.uint8]


def prepare_sending(
    buffer: NDArray[np.uint8], start: NDArray[np.int64], byte_count: NDArray[np.int32]
) -> tuple[Sending, NDArray[np.int64]]:
    """Messages of neighbouring reports of one length, and how many reports each holds."""
    runs: list[tuple[int, int, int]] = []
    row = 0
    while row < len(start):
        size = int(byte_count[row])
        limit = min(SEGMENTS_MAX, _DATAGRAM_BYTES_MAX // size)
        end = row + 1
        while end < len(start) and end - row < limit and byte_count[end] == size:
            end += 1
        runs.append((int(start[row]), end - row, size))
        row = end
    count = len(runs)
    headers = np.zeros((count, 8), np.uint64)
    io_vectors = np.zeros((count, 2), np.uint64)
    control = np.zeros((count, 24), np.uint8)
    for message, (first, reports, size) in enumerate(runs):
        item = struct.pack("=QiiH6x", 18, _SOL_UDP, _UDP_SEGMENT, size)
        control[message] = np.frombuffer(item, np.uint8)
        io_vectors[message] = (buffer.ctypes.data + first, reports * size)
        headers[message, 2] = io_vectors.ctypes.data + 16 * message
        headers[message, 3] = 1
        if reports > 1:
            headers[message, 4] = control.ctypes.data + 24 * message
            headers[message, 5] = 24
    reports_of = np.array([reports for _first, reports, _size in runs], np.int64)
    return Sending(
        headers=headers, io_vectors=io_vectors, control=control, buffer=buffer
    ), reports_of


def sendmmsg(sock: socket.socket, sending: Sending, first: int, count: int) -> int:
    """Send messages [first, first + count); how many the kernel took."""
    address = sending.headers.ctypes.data + first * 64
    sent = _LIBC.sendmmsg(sock.fileno(), ctypes.c_void_p(address), count, 0)
    if sent < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(sent)


_LIBC = ctypes.CDLL(None, use_errno=True)
