# SPDX-License-Identifier: Apache-2.0
"""The Thrift client against prepared answers."""

import socket
import struct

import pytest

from bmv2_lab.backends.needs import BackendError
from bmv2_lab.backends.thrift import Thrift


def answer(kind: int, method: bytes, result: bytes) -> bytes:
    """A reply message of the strict binary protocol."""
    head = struct.pack(">II", 0x80010000 | kind, len(method)) + method + struct.pack(">I", 1)
    return head + result


REPLY, EXCEPTION = 2, 3


def test_the_switchs_clock_is_read() -> None:
    """The call names service and method; the answer is the 64-bit result field."""
    ours, theirs = socket.socketpair()
    with theirs:
        thrift = Thrift(ours)
        theirs.sendall(
            answer(REPLY, b"get_time_elapsed_us", struct.pack(">BHq", 10, 0, 123_456_789) + b"\0")
        )
        assert thrift.time_elapsed_us() == 123_456_789
        request = theirs.recv(200)
        thrift.close()
    assert request[:4] == b"\x80\x01\x00\x01"
    assert b"simple_switch:get_time_elapsed_us" in request


def test_queue_rates_are_written_in_order() -> None:
    """Port as i32, rate as i64."""
    ours, theirs = socket.socketpair()
    with theirs:
        thrift = Thrift(ours)
        theirs.sendall(answer(REPLY, b"x", struct.pack(">BHi", 8, 0, 0) + b"\0"))
        thrift.set_queue_rate(5, 2_000)
        request = theirs.recv(200)
        thrift.close()
    assert request.endswith(struct.pack(">BHiBHq", 8, 1, 5, 10, 2, 2_000) + b"\0")


def test_a_refusal_and_a_dead_switch_are_errors() -> None:
    """Both name what happened."""
    ours, theirs = socket.socketpair()
    thrift = Thrift(ours)
    text = struct.pack(">BHI", 11, 1, 3) + b"bad" + b"\0"
    theirs.sendall(answer(EXCEPTION, b"x", text))
    with pytest.raises(BackendError, match="set_egress_queue_rate failed"):
        thrift.set_queue_rate(1, 1)
    theirs.close()
    with pytest.raises(BackendError, match="Thrift"):
        thrift.time_elapsed_us()
    thrift.close()
