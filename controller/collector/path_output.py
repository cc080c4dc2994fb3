# SPDX-License-Identifier: Apache-2.0
"""Compiled: finished paths as rows of PACKET_DTYPE and HOP_DTYPE (`telemetry.path_rows`).

Stamps stay raw until the rows are taken. A waiting report's hops are a chain, those of a report
that has just been decoded follow each other.
"""

from collections.abc import Callable

from controller.collector import columns as c
from controller.collector.fabric_tables import (
    AT_HOST,
    NO_CABLE,
    FabricTables,
    far_end,
    node_at,
    tables_at,
)
from controller.collector.join_state import (
    A_BYTES,
    A_DST_HIGH,
    A_DST_LOW,
    A_NETWORK,
    A_PACKET,
    A_SRC_HIGH,
    A_SRC_LOW,
    J_ADDRESS_COUNT,
    J_ADDRESSES,
    J_COMPLETE,
    J_FUNCTIONS,
    J_HOPS,
    J_INCOMPLETE,
    J_PACKET_COUNT,
    J_PACKETS,
    J_PATH_HOP_COUNT,
    J_PATH_HOP_NODES,
    J_PATH_HOPS,
)
from controller.collector.kernel import Function, part, routine
from controller.collector.loads import call5, call6, count_up, get, put, put8, put16, put32, put64
from controller.telemetry.packet import NETWORK_IPV4
from correction.records import HOP_DTYPE, PACKET_DTYPE, TRAFFIC_PTP, TRAFFIC_ROCE

PACKET_BYTES = PACKET_DTYPE.itemsize
HOP_BYTES = HOP_DTYPE.itemsize


def _place(dtype: object, name: str) -> int:
    fields: dict[str, tuple[object, int]] = dtype.fields  # type: ignore[attr-defined]
    return fields[name][1]


_FIRST_HOP = _place(PACKET_DTYPE, "first_hop")
_HOP_COUNT = _place(PACKET_DTYPE, "hop_count")
_COMPLETE = _place(PACKET_DTYPE, "complete")
_TRAFFIC = _place(PACKET_DTYPE, "traffic")
_SRC_IP = _place(PACKET_DTYPE, "src_ip")
_DST_IP = _place(PACKET_DTYPE, "dst_ip")
_SRC_PORT = _place(PACKET_DTYPE, "src_port")
_DST_PORT = _place(PACKET_DTYPE, "dst_port")
_DSCP = _place(PACKET_DTYPE, "dscp")
_WIRE_BYTES = _place(PACKET_DTYPE, "wire_bytes")
_BTH_OPCODE = _place(PACKET_DTYPE, "bth_opcode")
_DEST_QP = _place(PACKET_DTYPE, "dest_qp")
_PSN = _place(PACKET_DTYPE, "psn")
_PTP_DOMAIN = _place(PACKET_DTYPE, "ptp_domain")
_PTP_MESSAGE_TYPE = _place(PACKET_DTYPE, "ptp_message_type")
_PTP_CLOCK_IDENTITY = _place(PACKET_DTYPE, "ptp_clock_identity")
_PTP_PORT_NUMBER = _place(PACKET_DTYPE, "ptp_port_number")
_PTP_SEQUENCE_ID = _place(PACKET_DTYPE, "ptp_sequence_id")
_CAPTURE = _place(PACKET_DTYPE, "capture_collector_ns")
_NODE_ID = _place(HOP_DTYPE, "node_id")
_INGRESS_PORT = _place(HOP_DTYPE, "ingress_port")
_EGRESS_PORT = _place(HOP_DTYPE, "egress_port")
_QUEUE_ID = _place(HOP_DTYPE, "queue_id")
_QUEUE_DEPTH = _place(HOP_DTYPE, "queue_depth")
_INGRESS_TSTAMP = _place(HOP_DTYPE, "ingress_tstamp_local_ns")
_EGRESS_TSTAMP = _place(HOP_DTYPE, "egress_tstamp_local_ns")
_EGRESS_BYTES = _place(HOP_DTYPE, "egress_bytes")
_INGRESS_BYTES = _place(HOP_DTYPE, "ingress_bytes")


@part
def _put_hop(
    joiner: int,
    tables: FabricTables,
    node: int,
    values: int,
    first_column: int,
    ingress_bytes: int,
    egress_bytes: int,
) -> None:
    """One more hop; `values` is the row whose columns from `first_column` on are its values."""
    number = get(joiner, J_PATH_HOP_COUNT)
    put(joiner, J_PATH_HOP_COUNT, number + 1)
    row = get(joiner, J_PATH_HOPS) + number * HOP_BYTES
    put32(get(joiner, J_PATH_HOP_NODES) + 4 * number, node)
    put32(row + _NODE_ID, get(node_at(tables, node), c.N_ID))
    put16(row + _INGRESS_PORT, get(values, first_column))
    put16(row + _EGRESS_PORT, get(values, first_column + 1))
    put8(row + _QUEUE_ID, get(values, first_column + 2))
    put32(row + _QUEUE_DEPTH, get(values, first_column + 3))
    put64(row + _INGRESS_TSTAMP, get(values, first_column + 4))
    put64(row + _EGRESS_TSTAMP, get(values, first_column + 5))
    put32(row + _EGRESS_BYTES, egress_bytes)
    put32(row + _INGRESS_BYTES, ingress_bytes)


@part
def _put_packet(
    joiner: int, report: int, hop_count: int, complete: bool, captured_collector_ns: int
) -> None:
    """One more packet, whose `hop_count` hops are the last ones put."""
    if complete:
        count_up(joiner, J_COMPLETE)
    else:
        count_up(joiner, J_INCOMPLETE)
    number = get(joiner, J_PACKET_COUNT)
    put(joiner, J_PACKET_COUNT, number + 1)
    row = get(joiner, J_PACKETS) + number * PACKET_BYTES
    key = get(report, c.R_KEY)
    traffic = key >> 56
    put64(row + _FIRST_HOP, get(joiner, J_PATH_HOP_COUNT) - hop_count)
    put16(row + _HOP_COUNT, hop_count)
    put8(row + _COMPLETE, 1 if complete else 0)
    put8(row + _TRAFFIC, traffic)
    put32(row + _SRC_IP, get(report, c.R_SRC_LOW))
    put32(row + _DST_IP, get(report, c.R_DST_LOW))
    put16(row + _SRC_PORT, key >> 16)
    put16(row + _DST_PORT, key)
    put8(row + _DSCP, get(report, c.R_DSCP))
    put32(row + _WIRE_BYTES, get(report, c.R_WIRE_BYTES))
    numbers = get(report, c.R_KEY_NUMBERS)
    roce = numbers if traffic == TRAFFIC_ROCE else 0
    put8(row + _BTH_OPCODE, roce >> 48)
    put32(row + _DEST_QP, roce >> 24 & 0xFFFFFF)
    put32(row + _PSN, roce & 0xFFFFFF)
    is_ptp = traffic == TRAFFIC_PTP
    ptp = numbers if is_ptp else 0
    put8(row + _PTP_DOMAIN, ptp >> 40)
    put8(row + _PTP_MESSAGE_TYPE, ptp >> 32)
    put64(row + _PTP_CLOCK_IDENTITY, get(report, c.R_KEY_MORE) if is_ptp else 0)
    put16(row + _PTP_PORT_NUMBER, ptp >> 16)
    put16(row + _PTP_SEQUENCE_ID, ptp)
    put64(row + _CAPTURE, captured_collector_ns)
    network = key >> 48 & 0xFF
    if network != NETWORK_IPV4:
        count = get(joiner, J_ADDRESS_COUNT)
        put(joiner, J_ADDRESS_COUNT, count + 1)
        at = get(joiner, J_ADDRESSES) + count * A_BYTES
        put(at, A_PACKET, number)
        put(at, A_NETWORK, network)
        put(at, A_SRC_HIGH, get(report, c.R_SRC_HIGH))
        put(at, A_SRC_LOW, get(report, c.R_SRC_LOW))
        put(at, A_DST_HIGH, get(report, c.R_DST_HIGH))
        put(at, A_DST_LOW, get(report, c.R_DST_LOW))


@routine
def sink_is_on_stack(joiner: int, report: int, hops: int) -> bool:
    """Whether the newest entry is the reporting node's own: same node, no other ingress stamp.

    hops: address of hops that follow each other; 0 for a waiting report.
    """
    hop_count = get(report, c.R_HOPS)
    if hop_count == 0:
        return False
    if hops != 0:
        last = hops + (hop_count - 1) * c.H_BYTES
    else:
        last = get(joiner, J_HOPS) + get(report, c.R_FIRST_HOP) * c.H_BYTES
        for _ in range(hop_count - 1):
            last = get(joiner, J_HOPS) + get(last, c.H_NEXT) * c.H_BYTES
    if get(last, c.H_NODE) != get(report, c.R_NODE):
        return False
    stamp = get(report, c.R_INGRESS_TSTAMP)
    return stamp == 0 or stamp == get(last, c.H_INGRESS_TSTAMP)


@part
def put_stack(
    joiner: int, tables: FabricTables, report: int, hops: int, sink: int, joined: bool
) -> None:
    """PUT_STACK, by its address."""
    function = get(get(joiner, J_FUNCTIONS), c.F_PUT_STACK)
    call6(function, joiner, tables.at, report, hops, sink, 1 if joined else 0)


@part
def put_postcards(joiner: int, tables: FabricTables, path: int, count: int, complete: bool) -> None:
    """PUT_POSTCARDS, by its address."""
    function = get(get(joiner, J_FUNCTIONS), c.F_PUT_POSTCARDS)
    call5(function, joiner, tables.at, path, count, 1 if complete else 0)


@part
def _put_stack(
    joiner: int, tables: FabricTables, report: int, hops: int, sink: int, joined: bool
) -> None:
    """The path of an INT-MD stack; `sink` is the report with the sink's own hop, 0 if on the stack.

    Each node but the sink adds its entry, the source also shim and header. A node that dropped the
    packet takes the sink's place; nothing left it. It is complete if the cables lead from a host
    through the hops, in order, to a host.
    """
    wire_bytes = get(report, c.R_WIRE_BYTES)
    last_bytes = 0 if get(report, c.R_FLAGS) & c.FLAG_DROPPED else wire_bytes
    hop_bytes = get(report, c.R_HOP_BYTES)
    growth = hop_bytes + get(report, c.R_SOURCE_BYTES)
    on_stack = get(report, c.R_HOPS)
    count = on_stack if sink == 0 else on_stack + 1
    reporter = get(report, c.R_NODE)
    frame_bytes = wire_bytes
    table = get(joiner, J_HOPS)
    at = hops if hops != 0 else table + get(report, c.R_FIRST_HOP) * c.H_BYTES
    arrival = AT_HOST
    connected = count != 0
    for index in range(count):
        if index < on_stack:
            node, values, column = get(at, c.H_NODE), at, c.H_INGRESS_PORT
            at = at + c.H_BYTES if hops != 0 else table + get(at, c.H_NEXT) * c.H_BYTES
        else:
            node, values, column = reporter, sink, c.R_INGRESS_PORT
        is_last = index == count - 1 and node == reporter
        egress_bytes = last_bytes if is_last else frame_bytes + growth
        _put_hop(joiner, tables, node, values, column, frame_bytes, egress_bytes)
        frame_bytes = egress_bytes
        growth = hop_bytes
        ingress_port = get(values, column)
        if arrival == AT_HOST:
            if index != 0 or far_end(tables, node, ingress_port) != AT_HOST:
                connected = False
        elif arrival == NO_CABLE or arrival != (node << 16 | ingress_port):
            connected = False
        arrival = far_end(tables, node, get(values, column + 1))
    captured = get(report, c.R_CAPTURE)
    if sink != 0:
        captured = max(captured, get(sink, c.R_CAPTURE))
    complete = joined and connected and arrival == AT_HOST
    _put_packet(joiner, report, count, complete, captured)


@part
def _put_postcards(
    joiner: int, tables: FabricTables, path: int, count: int, complete: bool
) -> None:
    """A path of postcards in order; path: int64[count], addresses of reports.

    Only INT-MX makes the packet longer, at its source. A postcard shows the packet as it leaves its
    node, a drop report as it came in.
    """
    first = get(path, 0)
    wire_bytes = get(first, c.R_WIRE_BYTES)
    captured = get(first, c.R_CAPTURE)
    before = NO_CABLE
    egress_bytes = 0
    for index in range(count):
        report = get(path, index)
        captured = max(captured, get(report, c.R_CAPTURE))
        node = get(report, c.R_NODE)
        port = get(report, c.R_INGRESS_PORT)
        frame_bytes = wire_bytes + get(report, c.R_INT_BYTES)
        if far_end(tables, node, port) == AT_HOST:
            ingress_bytes = wire_bytes
        elif before >= 0 and before == (node << 16 | port):
            ingress_bytes = egress_bytes
        else:
            ingress_bytes = frame_bytes
        egress_bytes = 0 if get(report, c.R_FLAGS) & c.FLAG_DROPPED else frame_bytes
        _put_hop(joiner, tables, node, report, c.R_INGRESS_PORT, ingress_bytes, egress_bytes)
        before = egress_far_end(tables, report)
    _put_packet(joiner, first, count, complete, captured)


@part
def egress_far_end(tables: FabricTables, report: int) -> int:
    """Where the packet went next; a dropped one nowhere."""
    if get(report, c.R_FLAGS) & c.FLAG_DROPPED:
        return far_end(tables, get(report, c.R_NODE), 0xFFFF)
    return far_end(tables, get(report, c.R_NODE), get(report, c.R_EGRESS_PORT))


@part
def ingress_far_end(tables: FabricTables, report: int) -> int:
    """Where the packet came from."""
    return far_end(tables, get(report, c.R_NODE), get(report, c.R_INGRESS_PORT))


def _put_stack_function(digest: int) -> Callable[..., int]:
    def put_stack(joiner: int, tables: int, report: int, hops: int, sink: int, joined: int) -> int:
        if digest != 0:
            _put_stack(joiner, tables_at(tables), report, hops, sink, joined != 0)
        return 0

    return put_stack


def _put_postcards_function(digest: int) -> Callable[..., int]:
    def put_postcards(joiner: int, tables: int, path: int, count: int, complete: int) -> int:
        if digest != 0:
            _put_postcards(joiner, tables_at(tables), path, count, complete != 0)
        return 0

    return put_postcards


PUT_STACK = Function(_put_stack_function, 6)
PUT_POSTCARDS = Function(_put_postcards_function, 5)
"""As `_put_stack` and `_put_postcards`, the tables by the address of their row; 0."""
