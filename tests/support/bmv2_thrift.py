# SPDX-License-Identifier: Apache-2.0
"""The few calls of BMv2's Thrift interface that P4Runtime has no words for.

Registers and queue rates. Written from the interface description; strict binary protocol, and the
service's name in front of the method's, as its multiplexed server wants it.
"""

import socket
import struct

DEADLINE_S = 20.0

_STOP, _BOOL, _BYTE, _DOUBLE, _I16, _I32, _I64 = 0, 2, 3, 4, 6, 8, 10
_STRING, _STRUCT, _MAP, _SET, _LIST = 11, 12, 13, 14, 15
_CALL, _EXCEPTION = 1, 3
_VERSION = 0x80010000
_SIZES = {_BOOL: 1, _BYTE: 1, _DOUBLE: 8, _I16: 2, _I32: 4, _I64: 8}


class ThriftError(Exception):
    """The switch refused a call; the message names it."""


class Thrift:
    """One connection to a switch's Thrift port on this machine."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._sequence = 0

    def close(self) -> None:
        """End the connection."""
        self._file.close()
        self._socket.close()

    def reset_register(self, name: str) -> None:
        """All cells of a register array become 0."""
        self._call("standard:bm_register_reset", (_I32, 0), (_STRING, name))

    def write_register(self, name: str, index: int, value: int) -> None:
        """One cell of a register array; the value is below 2^63."""
        self._call(
            "standard:bm_register_write", (_I32, 0), (_STRING, name), (_I32, index), (_I64, value)
        )

    def set_queue_rate(self, port: int, queue: int, packets_per_s: int) -> None:
        """How fast a queue of a port is emptied; 0 for without limit."""
        self._call(
            "simple_switch:set_egress_priority_queue_rate",
            (_I32, port),
            (_I32, queue),
            (_I64, packets_per_s),
        )

    def _call(self, method: str, *arguments: tuple[int, int | str]) -> None:
        self._sequence += 1
        name = method.encode()
        request = struct.pack(">II", _VERSION | _CALL, len(name)) + name
        request += struct.pack(">I", self._sequence)
        for number, (kind, value) in enumerate(arguments, start=1):
            request += struct.pack(">BH", kind, number)
            if isinstance(value, str):
                request += struct.pack(">I", len(value)) + value.encode()
            else:
                request += struct.pack(">i" if kind == _I32 else ">q", value)
        self._socket.sendall(request + bytes([_STOP]))
        kind = self._number(4) & 0xFF
        self._take(self._number(4))  # the method's name again
        self._number(4)  # the sequence number
        failed = self._struct()
        if kind == _EXCEPTION or failed:
            raise ThriftError(f"{method}{tuple(value for _, value in arguments)} failed")

    def _take(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise ThriftError("the switch closed the Thrift connection")
        return data

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _struct(self) -> bool:
        """Read an answer's struct to its end; True if a field beside the result (0) is set."""
        failed = False
        while (kind := self._number(1)) != _STOP:
            failed |= self._number(2) != 0
            self._skip(kind)
        return failed

    def _skip(self, kind: int) -> None:
        if kind == _STRING:
            self._take(self._number(4))
        elif kind == _STRUCT:
            self._struct()
        else:
            self._take(_SIZES[kind])
