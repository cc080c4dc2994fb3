# SPDX-License-Identifier: Apache-2.0
"""Report datagrams from UDP sockets into batches, without a copy and without Python per report.

One recvmmsg call fills many slots of one buffer. UDP_GRO lets the kernel hand over runs of equally
long datagrams of one flow as one message; SO_TIMESTAMPNS gives the time at which the kernel took
a datagram from the network card; SO_RXQ_OVFL tells how many found the socket's buffer full.
"""

import ctypes
import errno
import os
import select
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

import numpy as np
from numpy.typing import NDArray

from controller.collector.messages import (
    IP_PKTINFO,
    IPPROTO_IP,
    IPPROTO_IPV6,
    IPPROTO_UDP,
    IPV6_RECVPKTINFO,
    MESSAGES_MAX,
    SO_RXQ_OVFL,
    SO_TIMESTAMPNS,
    SOL_SOCKET,
    UDP_GRO,
    AddressRows,
    Messages,
    Told,
)
from controller.telemetry.collector import Destination

RECEIVE_BUFFER_BYTES = 1 << 26
"""Asked of each socket: 64 MiB hold 0.1 s of a million reports a second even when the kernel
charges a report with several hundred bytes."""
ADDRESSES_MAX = 1024
"""Destination addresses of one wildcard socket that are told apart; those beyond share a row."""
_ON_THE_WAY_NS = 1_000_000
"""How long a datagram may be on its way from where the kernel stamps it to the socket."""
_SO_RCVBUFFORCE, _SO_MEMINFO = 33, 55
_MEMINFO_WORDS, _MEMINFO_DROPS = 9, 8
_COUNTER_MASK = (1 << 32) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveOptions:
    """How sockets receive; every default is the fastest that loses nothing."""

    receive_buffer_bytes: int = RECEIVE_BUFFER_BYTES
    """SO_RCVBUF of each socket. Above net.core.rmem_max it needs CAP_NET_ADMIN."""
    coalesce: bool = True
    """UDP_GRO: runs of equally long datagrams of one flow come as one message."""
    kernel_time: bool = True
    """Capture time is when the kernel took the datagram; else when the collector read it."""
    messages_per_call: int = MESSAGES_MAX
    """The most that one call may return; buffers are made for so many."""


def wrapped_increase(counter: int, before: int) -> int:
    """By how much a counter of 32 bits grew since it was `before`; right below 2^32.

    >>> wrapped_increase(3, 0xFFFFFFFE)
    5
    """
    return (counter - before) & _COUNTER_MASK


class ReportSocket:
    """A bound UDP socket with everything switched on that receiving in batches needs."""

    def __init__(
        self, sock: socket.socket, *, destinations: list[Destination], options: ReceiveOptions
    ) -> None:
        """Take over a bound socket; `destinations` is shared with the batches and grows."""
        self.sock = sock
        self._destinations = destinations
        host, self.udp_port = sock.getsockname()[:2]
        address = ip_address(host.partition("%")[0])
        self.is_ipv6 = isinstance(address, IPv6Address)
        self.receive_buffer_bytes = _size_buffer(sock, options.receive_buffer_bytes)
        """What the kernel granted, in its own accounting: report plus overhead."""
        sock.setblocking(False)
        sock.setsockopt(SOL_SOCKET, SO_RXQ_OVFL, 1)
        self.coalesces = options.coalesce and _try_option(sock, IPPROTO_UDP, UDP_GRO)
        if options.kernel_time:
            sock.setsockopt(SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._addresses: NDArray[np.uint64] = np.zeros((0, 2), np.uint64)
        self._address_rows: NDArray[np.int32] = np.zeros(0, np.int32)
        self._own_row = len(destinations)
        destinations.append(Destination(int(address), self.udp_port))
        self._is_wildcard = int(address) == 0
        if self._is_wildcard:
            if self.is_ipv6:
                sock.setsockopt(IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
            else:
                sock.setsockopt(IPPROTO_IP, IP_PKTINFO, 1)
        self._drop_counter = self.read_drop_counter()
        self.kernel_drops = 0
        """Messages for which the socket's buffer had no room, since it was taken over: a run of
        datagrams that came coalesced counts as one. How many reports are missing, their sequence
        numbers tell."""
        self.cut = 0
        """Messages that did not fit the buffers offered to the kernel."""
        self.complete_until_ns = -(1 << 63)
        """Collector time up to which nothing waits in the socket, when the kernel gives the times
        and `now_ns` is of the same clock."""

    def receive(self, messages: Messages, *, now_ns: int) -> int:
        """Fill the batch of `messages` with what has arrived, at most a call's worth.

        Returns the number of messages, 0 when nothing waits. `now_ns` is the capture time where
        the kernel gives none.
        """
        received = recvmmsg(self.sock.fileno(), messages)
        messages.batch.destinations = self._destinations
        messages.batch.count = 0
        if received:
            self._split(messages, received, now_ns)
            if messages.batch.count:
                newest_ns = int(messages.batch.capture_collector_ns[messages.batch.count - 1])
                self.complete_until_ns = max(self.complete_until_ns, newest_ns)
        else:
            self.complete_until_ns = max(self.complete_until_ns, now_ns - _ON_THE_WAY_NS)
        return received

    def count_drops(self) -> int:
        """Bring `kernel_drops` up to date, also with drops after the newest message."""
        self.see_drop_counter(self.read_drop_counter())
        return self.kernel_drops

    def see_drop_counter(self, counter: int) -> None:
        """Add to `kernel_drops` what the kernel's count grew by.

        A message tells the count of when it was queued, which may be older than the last reading.
        """
        grown = wrapped_increase(counter, self._drop_counter)
        if grown <= _COUNTER_MASK // 2:
            self.kernel_drops += grown
            self._drop_counter = counter

    def read_drop_counter(self) -> int:
        """The kernel's own count, modulo 2^32."""
        info = self.sock.getsockopt(SOL_SOCKET, _SO_MEMINFO, 4 * _MEMINFO_WORDS)
        return int(np.frombuffer(info, np.uint32)[_MEMINFO_DROPS])

    def close(self) -> None:
        """Release the port; the drops of the last moment are counted first."""
        self.count_drops()
        self.sock.close()

    def _split(self, messages: Messages, received: int, now_ns: int) -> None:
        while True:
            messages.split(received, now_ns=now_ns, where=self._where())
            unknown = int(messages.told[Told.NEW_ADDRESS])
            if unknown < 0:
                break
            self._add_address(messages.address_of(unknown))
        counter = int(messages.told[Told.DROP_COUNTER])
        if counter >= 0:
            self.see_drop_counter(counter)
        self.cut += int(messages.told[Told.CUT])

    def _where(self) -> AddressRows:
        is_open = self._is_wildcard and len(self._addresses) < ADDRESSES_MAX
        return AddressRows(self._addresses, self._address_rows, -1 if is_open else self._own_row)

    def _add_address(self, address: NDArray[np.uint64]) -> None:
        raw = address.tobytes()[: 16 if self.is_ipv6 else 4]
        destination = Destination(int.from_bytes(raw, "big"), self.udp_port)
        row = len(self._destinations)
        self._destinations.append(destination)
        self._addresses = np.concatenate([self._addresses, address[None]])
        self._address_rows = np.append(self._address_rows, np.int32(row)).astype(np.int32)


def bind_udp(host: str, udp_port: int, *, reuse_port: bool = False) -> socket.socket:
    """A UDP socket bound to an address (port 0: any free one); IPv6 ones take no IPv4.

    `reuse_port`: several sockets may share the port, see `steering`.
    """
    family, _kind, _protocol, _name, address = socket.getaddrinfo(
        host, udp_port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICHOST
    )[0]
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


class BatchReceiver:
    """Takes turns between the sockets of one worker."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        *,
        collector_clock_ns: Callable[[], int],
        options: ReceiveOptions | None = None,
    ) -> None:
        """Take over bound sockets."""
        self.options = options or ReceiveOptions()
        self.destinations: list[Destination] = []
        self.sockets = [
            ReportSocket(sock, destinations=self.destinations, options=self.options)
            for sock in sockets
        ]
        self._clock_ns = collector_clock_ns
        self._turn = 0
        self._poll = select.poll()
        for report_socket in self.sockets:
            self._poll.register(report_socket.sock, select.POLLIN)

    def prepare(self) -> Messages:
        """Buffers for `receive`, as many as shall be in use at the same time."""
        return Messages.prepare(message_count=self.options.messages_per_call)

    def receive(self, messages: Messages) -> int:
        """Fill the batch of `messages` from the next socket that has something; 0: none has."""
        now_ns = self._clock_ns()
        for _ in self.sockets:
            report_socket = self.sockets[self._turn]
            self._turn = (self._turn + 1) % len(self.sockets)
            received = report_socket.receive(messages, now_ns=now_ns)
            if received:
                return received
        return 0

    def wait(self, timeout_ns: int) -> bool:
        """Sleep until something arrives; False after `timeout_ns` without."""
        return bool(self._poll.poll(timeout_ns / 1e6))

    @property
    def kernel_drops(self) -> int:
        """Over all sockets, see `ReportSocket.kernel_drops`."""
        return sum(report_socket.count_drops() for report_socket in self.sockets)

    @property
    def complete_until_ns(self) -> int:
        """Over all sockets, see `ReportSocket.complete_until_ns`."""
        return min(report_socket.complete_until_ns for report_socket in self.sockets)

    @property
    def cut(self) -> int:
        """Over all sockets, see `ReportSocket.cut`."""
        return sum(report_socket.cut for report_socket in self.sockets)

    def close(self) -> None:
        """Release the ports."""
        for report_socket in self.sockets:
            report_socket.close()


def recvmmsg(file_number: int, messages: Messages) -> int:
    """Receive what waits, without blocking; the number of messages, 0 for none."""
    call = _recvmmsg()
    while True:
        received = call(
            file_number,
            messages.headers.ctypes.data,
            messages.limit,
            socket.MSG_DONTWAIT,
            None,
        )
        if received >= 0:
            return int(received)
        error = ctypes.get_errno()
        if error == errno.EAGAIN:
            return 0
        if error not in (errno.EINTR, errno.ECONNREFUSED):
            raise OSError(error, os.strerror(error))


_libc: list[ctypes.CDLL] = []


def _recvmmsg() -> "ctypes._NamedFuncPointer":
    """The C library's function, which releases the interpreter lock while it runs."""
    if not _libc:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.recvmmsg.argtypes = [
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_uint,
            ctypes.c_int,
            ctypes.c_void_p,
        ]
        _libc.append(libc)
    return _libc[0].recvmmsg


def _size_buffer(sock: socket.socket, byte_count: int) -> int:
    """Ask for a receive buffer, past the system's limit where that is allowed; what was granted."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, byte_count)
    if sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) < 2 * byte_count:
        with suppress(PermissionError):
            sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, byte_count)
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def _try_option(sock: socket.socket, level: int, option: int) -> bool:
    """Switch an option on that older kernels do not have."""
    try:
        sock.setsockopt(level, option, 1)
    except OSError:
        return False
    return True
