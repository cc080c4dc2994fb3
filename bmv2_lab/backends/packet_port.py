# SPDX-License-Identifier: Apache-2.0
"""Raw Ethernet on one interface (AF_PACKET), with the kernel's receive and transmit stamps.

Stamps are of CLOCK_REALTIME, in ns, taken by the kernel when the interface hands the frame over;
those of ptp4l's software stamping are the same kind.
"""

import contextlib
import ctypes
import fcntl
import socket
import struct
from collections.abc import Collection
from typing import NamedTuple

from bmv2_lab.backends.namespaces import Namespace

ETH_P_ALL = 0x0003
FRAME_BYTES_MAX = 65_535
RECEIVE_BUFFER_BYTES = 8 << 20
FRAMES_PER_TURN = 32
"""A busy interface lets others have their turn after so many frames."""
MTU_BYTES = 9_216

_SOL_PACKET = 263
_PACKET_IGNORE_OUTGOING = 23
_PACKET_TX_TIMESTAMP = 16
_SO_RCVBUFFORCE = 33
_SO_TIMESTAMPNS = 35
_SO_TIMESTAMPING = 37
_TX_SOFTWARE, _RX_SOFTWARE, _SOFTWARE = 1 << 1, 1 << 3, 1 << 4
_OPT_ID, _OPT_TSONLY = 1 << 7, 1 << 11
_ANCILLARY_BYTES = 256
_SIOCETHTOOL = 0x8946
_ETHTOOL_STXCSUM = 0x17


class Received(NamedTuple):
    """A frame and when the kernel got it, CLOCK_REALTIME in ns."""

    frame: bytes
    stamp_ns: int


class Transmitted(NamedTuple):
    """The transmit stamp of the `number`-th frame that was sent with stamps, from 0."""

    number: int
    stamp_ns: int


class PacketPort:
    """All frames of one interface of the namespace that the calling thread is in."""

    def __init__(self, interface: str, *, transmit_stamps: bool = False) -> None:
        self.interface = interface
        self.sent = 0
        """Frames handed to the kernel: the next one's number."""
        self.refused = 0
        """Frames that the kernel did not take, its queue being full or the link down."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            self._set_up(transmit_stamps)
        except BaseException:
            self._socket.close()
            raise

    def _set_up(self, transmit_stamps: bool) -> None:
        sock = self._socket
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
        sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        if transmit_stamps:
            flags = _TX_SOFTWARE | _RX_SOFTWARE | _SOFTWARE | _OPT_ID | _OPT_TSONLY
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPING, flags)
        else:
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sock.bind((self.interface, ETH_P_ALL))

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def receive(self) -> Received | None:
        """The next frame, or None if there is none now."""
        try:
            frame, ancillary, _flags, _address = self._socket.recvmsg(
                FRAME_BYTES_MAX, _ANCILLARY_BYTES
            )
        except BlockingIOError:
            return None
        except OSError:  # the interface went down; it is still bound when it comes back
            return None
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind in (_SO_TIMESTAMPNS, _SO_TIMESTAMPING):
                seconds, nanoseconds = struct.unpack_from("qq", data)
                return Received(frame, seconds * 1_000_000_000 + nanoseconds)
        raise AssertionError("the kernel stamps what it was asked to stamp")

    def send(self, frame: bytes) -> None:
        """Put a frame on the wire; one that the kernel does not take is counted and lost."""
        try:
            self._socket.send(frame)
        except OSError:
            self.refused += 1
        else:
            self.sent += 1

    def transmitted(self) -> Transmitted | None:
        """The next transmit stamp, or None; only with `transmit_stamps`."""
        try:
            _data, ancillary, _flags, _address = self._socket.recvmsg(
                FRAME_BYTES_MAX, _ANCILLARY_BYTES, socket.MSG_ERRQUEUE
            )
        except BlockingIOError:
            return None
        number = stamp_ns = None
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPING:
                seconds, nanoseconds = struct.unpack_from("qq", data)
                stamp_ns = seconds * 1_000_000_000 + nanoseconds
            elif level == _SOL_PACKET and kind == _PACKET_TX_TIMESTAMP:
                # struct sock_extended_err: errno u32, origin, type, code, pad u8, info, data u32
                number = struct.unpack_from("=IBBBBII", data)[6]
        if number is None or stamp_ns is None:
            return None
        return Transmitted(number, stamp_ns)

    def close(self) -> None:
        """Leave the interface."""
        self._socket.close()


def open_ports(namespace: Namespace, interfaces: Collection[str]) -> dict[str, PacketPort]:
    """A port on each of these interfaces of a namespace."""
    return namespace.call(lambda: {name: PacketPort(name) for name in interfaces})


def disable_checksum_offload(interface: str) -> None:
    """Have the kernel fill in UDP checksums before the frame leaves, as a NIC would on the wire.

    For the namespace that the calling thread is in.
    """
    request = struct.pack("II", _ETHTOOL_STXCSUM, 0)
    buffer = ctypes.create_string_buffer(request, len(request))
    argument = struct.pack("16sP16x", interface.encode(), ctypes.addressof(buffer))
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
        fcntl.ioctl(sock.fileno(), _SIOCETHTOOL, argument)
