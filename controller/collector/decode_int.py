# SPDX-License-Identifier: Apache-2.0
"""Compiled: INT shim, INT-MD header with its stack, INT-MX header (`telemetry.int_headers`).

Functions return 0 or a `ReasonCode`; what they read is in the row of the report and its hops.
"""

from controller.collector import columns as c
from controller.collector.columns import ReasonCode
from controller.collector.fabric_tables import FabricTables, node_at, node_row
from controller.collector.kernel import part, routine
from controller.collector.loads import be16, be32, be64, count_up, get, put

NPT_UDP_PORT = 1
NPT_INSERTED_UDP = 2
UNKNOWN_U32 = 0xFFFFFFFF
UNKNOWN_QUEUE_ID = 0xFF
UNKNOWN_PORT = 0xFFFF
_NO_NODE = 0xFFFFFFFF
_TRUNCATED = int(ReasonCode.TRUNCATED)
_INT_SHIM_TYPE = int(ReasonCode.INT_SHIM_TYPE)
_INT_VERSION = int(ReasonCode.INT_VERSION)
_INT_STACK_LENGTH = int(ReasonCode.INT_STACK_LENGTH)
_INT_HOP_LENGTH = int(ReasonCode.INT_HOP_LENGTH)
_UNKNOWN_NODE = int(ReasonCode.UNKNOWN_NODE)


@part
def bitmap_words(bitmap: int) -> int:
    """Words that the values of a bitmap take, domain specific ones not counted."""
    pairs = bitmap - (bitmap >> 1 & 0x5555)
    fours = (pairs & 0x3333) + (pairs >> 2 & 0x3333)
    eights = (fours + (fours >> 4)) & 0x0F0F
    two_words = (bitmap >> 11 & 1) + (bitmap >> 10 & 1) + (bitmap >> 9 & 1)
    return (eights & 0xFF) + (eights >> 8) + two_words


@routine
def decode_int(
    offset: int,
    end: int,
    tables: FabricTables,
    shim_counts_shim: int,
    report: int,
    hops: int,
    datagram: int,
    shim: int,
) -> int:
    """Shim at `offset` and what it announces; `end` is that of the report.

    Columns of `shim`: NPT, its value, the bytes from the shim to the end of the stack, and the
    fault of a stack whose nodes are not all known.
    """
    if offset + 4 > end:
        return _TRUNCATED
    word = be32(offset)
    shim_type = word >> 28
    npt = word >> 26 & 0x3
    if (shim_type != 1 and shim_type != 3) or npt > NPT_INSERTED_UDP:
        return _INT_SHIM_TYPE
    length_bytes = ((word >> 16 & 0xFF) - shim_counts_shim) * 4
    if length_bytes < 12:
        return _INT_STACK_LENGTH
    start = offset + 4
    stack_end = start + length_bytes
    if start + 12 > end:
        return _TRUNCATED
    put(shim, 0, npt)
    put(shim, 1, word & 0xFFFF)
    put(shim, 2, length_bytes + 4)
    put(shim, 3, 0)
    head = be32(start)
    if head >> 28 != 2:
        return _INT_VERSION
    bitmap = be16(start + 4)
    domain = be16(start + 6)
    if shim_type == 3:
        if length_bytes > 12 and domain == 0:
            return _INT_STACK_LENGTH
        return _TRUNCATED if stack_end > end else 0
    hop_words = head >> 8 & 0x1F
    hop_bytes = hop_words * 4
    stack_bytes = length_bytes - 12
    ds_words = hop_words - bitmap_words(bitmap)
    if ds_words < 0 or (ds_words != 0 and domain == 0):
        return _INT_HOP_LENGTH
    hop_count = 0
    source_only = 0
    if hop_bytes == 0:
        if stack_bytes != 0:
            return _INT_STACK_LENGTH
    else:
        hop_count = stack_bytes // hop_bytes
        source_only = stack_bytes - hop_count * hop_bytes
        if source_only != 0 and (domain == 0 or hop_count == 0):
            return _INT_STACK_LENGTH
    if stack_end > end:
        return _TRUNCATED
    put(report, c.R_FLAGS, get(report, c.R_FLAGS) | c.FLAG_STACK)
    put(report, c.R_HOP_BYTES, hop_bytes)
    put(report, c.R_SOURCE_BYTES, 16 + source_only)
    put(report, c.R_HOPS, hop_count)
    if hop_count != 0:
        fault = _decode_stack(start + 12, bitmap, hop_bytes, hop_count, tables, hops, datagram)
        put(shim, 3, fault)
    return 0


@part
def _decode_stack(
    offset: int,
    bitmap: int,
    hop_bytes: int,
    hop_count: int,
    tables: FabricTables,
    hops: int,
    datagram: int,
) -> int:
    """Hops of a stack whose length has been checked, oldest first; 0 or the fault."""
    has_ports = bitmap & 0x4000 != 0
    has_queue = bitmap & 0x1000 != 0
    has_ingress = bitmap & 0x0800 != 0
    has_egress = bitmap & 0x0400 != 0
    ports_at = (bitmap >> 15 & 1) * 4
    queue_at = ports_at + ((bitmap >> 14 & 1) + (bitmap >> 13 & 1)) * 4
    ingress_at = queue_at + (bitmap >> 12 & 1) * 4
    egress_at = ingress_at + (bitmap >> 11 & 1) * 8
    fault = 0
    stamps = 0
    at = offset + hop_count * hop_bytes
    for index in range(hop_count):
        at -= hop_bytes
        hop = hops + index * c.H_BYTES
        ingress = be64(at + ingress_at) if has_ingress else 0
        egress = be64(at + egress_at) if has_egress else 0
        ingress = 0 if ingress == -1 else ingress
        egress = 0 if egress == -1 else egress
        stamps |= ingress | egress
        node_id = be32(at) if bitmap & 0x8000 else _NO_NODE
        row = node_row(tables, node_id) if node_id != _NO_NODE else -1
        if row < 0:
            fault = _UNKNOWN_NODE
            continue
        node = node_at(tables, row)
        if ingress == get(node, c.N_INGRESS_ONES):
            ingress = 0
        if egress == get(node, c.N_EGRESS_ONES):
            egress = 0
        if ingress == 0 and has_ingress:
            count_up(datagram, c.D_NO_INGRESS_TSTAMP)
        if egress == 0 and has_egress:
            count_up(datagram, c.D_NO_EGRESS_TSTAMP)
        ports = be32(at + ports_at) if has_ports else UNKNOWN_U32
        queue = be32(at + queue_at) if has_queue else UNKNOWN_U32
        put(hop, c.H_NODE, row)
        put(hop, c.H_INGRESS_PORT, ports >> 16)
        put(hop, c.H_EGRESS_PORT, ports & 0xFFFF)
        put(hop, c.H_QUEUE_ID, queue >> 24)
        put(hop, c.H_QUEUE_DEPTH, queue & 0xFFFFFF if queue != UNKNOWN_U32 else UNKNOWN_U32)
        put(hop, c.H_INGRESS_TSTAMP, ingress)
        put(hop, c.H_EGRESS_TSTAMP, egress)
    put(datagram, c.D_STAMPS, get(datagram, c.D_STAMPS) | stamps)
    return fault


@part
def decode_report_values(
    offset: int, bitmap: int, tables: FabricTables, report: int, datagram: int
) -> None:
    """The reporting node's own values, whose bitmap and length have been checked."""
    node = node_at(tables, get(report, c.R_NODE))
    queue_at = ((bitmap >> 14 & 1) + (bitmap >> 13 & 1)) * 4
    ingress_at = queue_at + (bitmap >> 12 & 1) * 4
    egress_at = ingress_at + (bitmap >> 11 & 1) * 8
    ports = be32(offset) if bitmap & 0x4000 else UNKNOWN_U32
    queue = be32(offset + queue_at) if bitmap & 0x1000 else UNKNOWN_U32
    ingress = be64(offset + ingress_at) if bitmap & 0x0800 else 0
    egress = be64(offset + egress_at) if bitmap & 0x0400 else 0
    ingress = 0 if ingress == -1 else ingress
    egress = 0 if egress == -1 else egress
    put(datagram, c.D_STAMPS, get(datagram, c.D_STAMPS) | ingress | egress)
    if ingress == get(node, c.N_INGRESS_ONES):
        ingress = 0
    if egress == get(node, c.N_EGRESS_ONES):
        egress = 0
    if ingress == 0 and bitmap & 0x0800:
        count_up(datagram, c.D_NO_INGRESS_TSTAMP)
    if egress == 0 and bitmap & 0x0400:
        count_up(datagram, c.D_NO_EGRESS_TSTAMP)
    put(report, c.R_INGRESS_PORT, ports >> 16)
    put(report, c.R_EGRESS_PORT, ports & 0xFFFF)
    put(report, c.R_QUEUE_ID, queue >> 24)
    put(report, c.R_QUEUE_DEPTH, queue & 0xFFFFFF if queue != UNKNOWN_U32 else UNKNOWN_U32)
    put(report, c.R_INGRESS_TSTAMP, ingress)
    put(report, c.R_EGRESS_TSTAMP, egress)
