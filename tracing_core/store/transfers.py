# SPDX-License-Identifier: Apache-2.0
"""Transfers, joined from their two spans by SQL."""

import numpy as np

from tracing_core.attribution.transfers import (
    RECV_NAME,
    RX_FIRST,
    RX_LAST,
    SEND_NAME,
    TX_FIRST,
    TX_LAST,
    Transfers,
)
from tracing_core.store.engine import Engine
from tracing_core.store.pairs import indices

_COLUMNS = (
    "tenant",
    "trace_id",
    "send_span_id",
    "recv_span_id",
    "job",
    "step",
    "sender_clock",
    "receiver_clock",
    "sender_host",
    "receiver_host",
    "src_ip",
    "dst_ip",
    "src_port",
    "dest_qp",
    "psn_first",
    "psn_last",
    "bytes",
    "send_start_local_ns",
    "send_end_local_ns",
    "tx_first_local_ns",
    "tx_last_local_ns",
    "recv_start_local_ns",
    "recv_end_local_ns",
    "rx_first_local_ns",
    "rx_last_local_ns",
)
_TEXT = {
    "tenant",
    "trace_id",
    "send_span_id",
    "recv_span_id",
    "job",
    "sender_clock",
    "receiver_clock",
    "sender_host",
    "receiver_host",
}


def _event(name: str) -> str:
    return f"event_time_local_ns[indexOf(event_name, '{name}')]"


def _ip(key: str) -> str:
    return f"toInt64(IPv4StringToNumOrDefault(attributes_string['{key}']))"


_SQL = f"""
SELECT send.tenant, lower(hex(send.trace_id)), lower(hex(send.span_id)), lower(hex(recv.span_id)),
    run.job, run.step, send.clock_domain, recv.clock_domain, send.host, recv.host,
    send.src_ip, send.dst_ip, send.src_port, send.dest_qp, send.psn_first, send.psn_last,
    send.bytes, send.start_local_ns, send.end_local_ns, send.first_ns, send.last_ns,
    recv.start_local_ns, recv.end_local_ns, recv.first_ns, recv.last_ns
FROM (
    SELECT tenant, trace_id, span_id, clock_domain, host, start_local_ns, end_local_ns,
        {_ip("rdma.src_ip")} AS src_ip, {_ip("rdma.dst_ip")} AS dst_ip,
        attributes_int['rdma.src_port'] AS src_port, attributes_int['rdma.dest_qp'] AS dest_qp,
        attributes_int['rdma.psn_first'] AS psn_first, attributes_int['rdma.psn_last'] AS psn_last,
        attributes_int['rdma.bytes'] AS bytes,
        {_event(TX_FIRST)} AS first_ns, {_event(TX_LAST)} AS last_ns
    FROM span_rows WHERE name = '{SEND_NAME}'
    LIMIT 1 BY tenant, trace_id, span_id, kind
) AS send
INNER JOIN (
    SELECT tenant, trace_id, span_id, parent_span_id, clock_domain, host, start_local_ns,
        end_local_ns, {_event(RX_FIRST)} AS first_ns, {_event(RX_LAST)} AS last_ns
    FROM span_rows WHERE name = '{RECV_NAME}'
    LIMIT 1 BY tenant, trace_id, span_id, kind
) AS recv
ON send.tenant = recv.tenant AND send.trace_id = recv.trace_id
    AND send.span_id = recv.parent_span_id
LEFT JOIN (
    SELECT tenant, trace_id, max(job) AS job, max(step) AS step
    FROM trace_parts GROUP BY tenant, trace_id
) AS run
ON send.tenant = run.tenant AND send.trace_id = run.trace_id
ORDER BY send.trace_id, send.start_local_ns, send.span_id
"""


def read_transfers(engine: Engine) -> Transfers:
    """All transfers whose two spans have arrived."""
    columns = engine.columns(_SQL, _COLUMNS)
    values = {
        name: column if name in _TEXT else column.astype(np.int64)
        for name, column in columns.items()
    }
    clocks, sender_clock, receiver_clock = indices(
        values.pop("sender_clock"), values.pop("receiver_clock")
    )
    hosts, sender_host, receiver_host = indices(
        values.pop("sender_host"), values.pop("receiver_host")
    )
    return Transfers(
        clocks=clocks,
        sender_clock=sender_clock,
        receiver_clock=receiver_clock,
        hosts=hosts,
        sender_host=sender_host,
        receiver_host=receiver_host,
        **values,
    )
