# SPDX-License-Identifier: Apache-2.0
"""The few calls of BMv2's Thrift interface that P4Runtime has no words for: clock and queue rates.

Written from the interface description (`simple_switch.thrift`): strict binary protocol, and the
service's name in front of the method's, as its multiplexed server wants it. Writing tables this way
would desynchronise the P4Runtime server, so there is no call for that.
"""

import socket
import struct

from bmv2_lab.backends.needs import BackendError

DEADLINE_S = 10.0

I32, I64, STRING = 8, 10, 11
"""Types of arguments."""
_STOP, _BOOL, _BYTE, _DOUBLE, _I16, _STRUCT = 0, 2, 3, 4, 6, 12
_CALL, _EXCEPTION = 1, 3
_VERSION = 0x80010000
_SIZES = {_BOOL: 1, _BYTE: 1, _DOUBLE: 8, _I16: 2, I32: 4, I64: 8}
_RESULT = 0
"""Field number of a method's result; the others are its exceptions."""


class Thrift:
    """One connection to a switch."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.settimeout(DEADLINE_S)
        self._file = self._socket.makefile("rb")
        self._sequence = 0

    def close(self) -> None:
        """End the connection."""
        self._file.close()
        self._socket.close()

    def time_elapsed_us(self) -> int:
        """The switch's clock, which stamps packets: microseconds since it started."""
        return self.call("simple_switch:get_time_elapsed_us")

    def set_queue_rate(self, port: int, packets_per_s: int) -> None:
        """How fast all queues of a port are emptied."""
        self.call("simple_switch:set_egress_queue_rate", (I32, port), (I64, packets_per_s))

    def call(self, method: str, *arguments: tuple[int, int | str]) -> int:
        """Call `service:method` with (type, value) rows; its result, 0 if that is no integer."""
        self._sequence += 1
        name = method.encode()
        request = struct.pack(">II", _VERSION | _CALL, len(name)) + name
        request += struct.pack(">I", self._sequence)
        for number, (kind, value) in enumerate(arguments, start=1):
            request += struct.pack(">BH", kind, number)
            if isinstance(value, str):
                request += struct.pack(">I", len(value)) + value.encode()
            else:
                request += struct.pack(">i" if kind == I32 else ">q", value)
        try:
            self._socket.sendall(request + bytes([_STOP]))
            return self._answer(method)
        except OSError as error:
            raise BackendError(f"BMv2's Thrift server: {method}: {error}") from None

    def _answer(self, method: str) -> int:
        kind = self._number(4) & 0xFF
        self._take(self._number(4))  # the method's name again
        self._number(4)  # the sequence number
        result, failed = 0, kind == _EXCEPTION
        while (kind := self._number(1)) != _STOP:
            field = self._number(2)
            if kind in (I32, I64) and field == _RESULT:
                result = int.from_bytes(self._take(_SIZES[kind]), "big", signed=True)
            else:
                failed |= field != _RESULT
                self._skip(kind)
        if failed:
            raise BackendError(f"BMv2's Thrift server: {method} failed")
        return result

    def _take(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise BackendError("BMv2's Thrift server closed the connection")
        return data

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _skip(self, kind: int) -> None:
        if kind == STRING:
            self._take(self._number(4))
        elif kind == _STRUCT:
            while (inner := self._number(1)) != _STOP:
                self._number(2)
                self._skip(inner)
        else:
            self._take(_SIZES[kind])
