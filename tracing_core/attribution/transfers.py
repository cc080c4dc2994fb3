# SPDX-License-Identifier: Apache-2.0
"""Transfers: an `rdma.send` span, its `rdma.recv` span on the peer and their NIC stamps."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SEND_NAME = "rdma.send"
RECV_NAME = "rdma.recv"
TX_FIRST, TX_LAST = "nic.tx_first", "nic.tx_last"
RX_FIRST, RX_LAST = "nic.rx_first", "nic.rx_last"

NO_STAMP = 0
"""A NIC event that the span does not have."""

PSN_MODULUS = 2**24

Int64Array = NDArray[np.int64]
ObjectArray = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """One row per transfer; `send_*`, `tx_*` are on the sender's clock, the rest on the peer's."""

    tenant: ObjectArray
    trace_id: ObjectArray
    send_span_id: ObjectArray
    recv_span_id: ObjectArray
    job: ObjectArray
    step: Int64Array
    """-1 when the trace names none."""
    clocks: tuple[str, ...]
    sender_clock: Int64Array
    """Index into `clocks`."""
    receiver_clock: Int64Array
    hosts: tuple[str, ...]
    sender_host: Int64Array
    """Index into `hosts`."""
    receiver_host: Int64Array
    src_ip: Int64Array
    dst_ip: Int64Array
    src_port: Int64Array
    dest_qp: Int64Array
    psn_first: Int64Array
    psn_last: Int64Array
    bytes: Int64Array
    send_start_local_ns: Int64Array
    send_end_local_ns: Int64Array
    tx_first_local_ns: Int64Array
    tx_last_local_ns: Int64Array
    recv_start_local_ns: Int64Array
    recv_end_local_ns: Int64Array
    rx_first_local_ns: Int64Array
    rx_last_local_ns: Int64Array

    def __len__(self) -> int:
        return len(self.send_start_local_ns)
