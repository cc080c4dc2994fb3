# SPDX-License-Identifier: Apache-2.0
"""Two more calls of BMv2's Thrift interface, which only tests need: registers and single queues."""

import socket

from bmv2_lab.backends.thrift import I32, I64, STRING, Thrift


class TestThrift(Thrift):
    """One connection to a switch's Thrift port on this machine."""

    __test__ = False  # no class of tests

    def __init__(self, port: int) -> None:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(connection)

    def write_register(self, name: str, index: int, value: int) -> None:
        """One cell of a register array; the value is below 2^63."""
        self.call(
            "standard:bm_register_write", (I32, 0), (STRING, name), (I32, index), (I64, value)
        )

    def set_priority_queue_rate(self, port: int, queue: int, packets_per_s: int) -> None:
        """How fast a queue of a port is emptied; 0 for without limit."""
        self.call(
            "simple_switch:set_egress_priority_queue_rate",
            (I32, port),
            (I32, queue),
            (I64, packets_per_s),
        )
