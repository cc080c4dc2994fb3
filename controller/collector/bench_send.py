# SPDX-License-Identifier: Apache-2.0
"""The other end of the collector's bench: sends generated reports over loopback without pause.

To overload a receiver, a sender must be cheaper than it. One sendmmsg call hands over many
messages, and the kernel treats each as one until it is received (UDP_SEGMENT).
"""

import ctypes
import multiprocessing
import os
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.collector.bench_reports import BLOCK_ROWS, ReportKind, ReportLoad, Rows

_SOL_UDP, _UDP_SEGMENT = 17, 103
_MESSAGE_HEADER_BYTES, _IO_VECTOR_BYTES, _CONTROL_BYTES = 64, 16, 24
_BUFFER_BYTES = 1 << 18
"""About what is sent between two looks at the clock: it stays in the processor's cache."""
_STARTED_S_MAX = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sending:
    """Messages over a buffer of reports, as sendmmsg takes them."""

    headers: NDArray[np.uint64]
    io_vectors: NDArray[np.uint64]
    control: NDArray[np.uint8]


def _prepare(rows: Rows, reports_per_message: int) -> _Sending:
    """A message for so many reports of one flow and one length."""
    starts = rows.start[::reports_per_message]
    sizes = rows.byte_count[::reports_per_message]
    count = len(starts)
    headers = np.zeros((count, _MESSAGE_HEADER_BYTES // 8), np.uint64)
    io_vectors = np.zeros((count, 2), np.uint64)
    control = np.zeros((count, _CONTROL_BYTES), np.uint8)
    message = np.arange(count, dtype=np.uint64)
    for number, size in enumerate(sizes.tolist()):
        item = struct.pack("=QiiH6x", 16 + 2, _SOL_UDP, _UDP_SEGMENT, size)
        control[number] = np.frombuffer(item, np.uint8)
    io_vectors[:, 0] = starts.astype(np.uint64) + np.uint64(rows.buffer.ctypes.data)
    io_vectors[:, 1] = sizes.astype(np.uint64) * np.uint64(reports_per_message)
    headers[:, 2] = message * np.uint64(_IO_VECTOR_BYTES) + np.uint64(io_vectors.ctypes.data)
    headers[:, 3] = 1
    if reports_per_message == 1:  # nothing to take apart
        return _Sending(headers=headers, io_vectors=io_vectors, control=control)
    headers[:, 4] = message * np.uint64(_CONTROL_BYTES) + np.uint64(control.ctypes.data)
    headers[:, 5] = _CONTROL_BYTES
    return _Sending(headers=headers, io_vectors=io_vectors, control=control)


class LoadSender:
    """Sends the reports of a load to one address."""

    def __init__(self, kind: ReportKind, address: tuple[str, int], *, single: bool) -> None:
        """`single`: each report is a datagram for the kernel from the beginning."""
        self._load = ReportLoad(kind)
        round_bytes = len(self._load.room(1).buffer)
        self._rows = self._load.room(max(1, _BUFFER_BYTES // round_bytes))
        self._sending = _prepare(self._rows, 1 if single else BLOCK_ROWS)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect(address)
        self._load.fill(self._rows, now_ns=time.monotonic_ns())

    def send(self, *, fresh: bool, now_ns: int) -> int:
        """Send one buffer of reports; how many. Not `fresh`: the same as before, byte by byte."""
        if fresh:
            self._load.fill(self._rows, now_ns=now_ns)
        messages = len(self._sending.headers)
        done = 0
        while done < messages:
            at = self._sending.headers.ctypes.data + done * _MESSAGE_HEADER_BYTES
            sent = _libc().sendmmsg(self._socket.fileno(), ctypes.c_void_p(at), messages - done, 0)
            if sent < 0:
                error = ctypes.get_errno()
                raise OSError(error, os.strerror(error))
            done += sent
        return len(self._rows.start)

    def close(self) -> None:
        """Release the socket."""
        self._socket.close()


def _send_until_stopped(
    kind: ReportKind,
    address: tuple[str, int],
    core: int,
    fresh: bool,
    single: bool,
    shared: Any,  # noqa: ANN401
) -> None:
    """What a sender process does; `shared`: stop, reports sent."""
    os.sched_setaffinity(0, {core})
    sender = LoadSender(kind, address, single=single)
    while not shared[0]:
        shared[1] += sender.send(fresh=fresh, now_ns=time.monotonic_ns())
    sender.close()


@contextmanager
def senders(
    kind: ReportKind,
    address: tuple[str, int],
    *,
    cores: Sequence[int],
    fresh: bool,
    single: bool = False,
) -> Iterator[None]:
    """Processes that send as fast as they can, one pinned to each of `cores`.

    `fresh`: no two reports are equal. `single`: see `LoadSender`.
    """
    context = multiprocessing.get_context("spawn")
    shared = [context.Array("q", 2, lock=False) for _ in cores]
    processes = [
        context.Process(
            target=_send_until_stopped, args=(kind, address, core, fresh, single, own), daemon=True
        )
        for core, own in zip(cores, shared, strict=True)
    ]
    for process in processes:
        process.start()
    try:
        deadline = time.monotonic() + _STARTED_S_MAX
        while not all(own[1] for own in shared):
            if time.monotonic() > deadline or not all(p.is_alive() for p in processes):
                raise RuntimeError("bench: the sender process did not start")
            time.sleep(0.01)
        yield
    finally:
        for own in shared:
            own[0] = 1
        for process in processes:
            process.join(timeout=10)
            if process.is_alive():
                process.kill()


_loaded: list[ctypes.CDLL] = []


def _libc() -> ctypes.CDLL:
    if not _loaded:
        _loaded.append(ctypes.CDLL(None, use_errno=True))
    return _loaded[0]
