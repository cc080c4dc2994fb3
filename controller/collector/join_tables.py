# SPDX-License-Identifier: Apache-2.0
"""The tables of `join_state` as arrays that grow, and waiting reports as the reference has them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.collector import columns as c
from controller.collector import join_state as j
from controller.collector.functions import function_addresses
from controller.collector.join_reports import HOPS_MARGIN, PACKETS_MARGIN
from controller.collector.kernel import SOURCES_DIGEST, entry
from controller.collector.loads import address_of, get, put
from controller.collector.postcard_paths import EPOCHS_MAX
from controller.telemetry.int_headers import IntStack
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.packet import PacketKey, ReportedPacket
from controller.telemetry.pieces import Piece, make_piece
from controller.telemetry.postcards import PENDING_PACKETS_MAX, PIECES_PER_PACKET_MAX
from controller.telemetry.report import REP_TYPE_INT, Report
from controller.telemetry.stamp_timelines import StampTimelines
from correction.records import (
    HOP_DTYPE,
    PACKET_DTYPE,
    TRAFFIC_PROBE,
    TRAFFIC_PTP,
    TRAFFIC_ROCE,
    Hops,
    Packets,
)
from correction.recycled import RecycledArrays

_GROUPS_FIRST = 4096
_REPORTS_FIRST = 8192
_HOPS_FIRST = 16_384
_PACKETS_FIRST = 16_384
_HAND_OVER_SHARE = 128
"""Tables that are filled by more than one part in so many are handed over, others copied."""
_U64 = (1 << 64) - 1


class JoinTables:
    """Everything that the compiled joiner writes to; `state` is its row."""

    def __init__(self, timelines: StampTimelines, *, port_count: int, window_ns: int) -> None:
        self._timelines = timelines
        self._node_ids = timelines.node_ids.tolist()
        self.state = np.zeros(j.J_COLUMNS, np.int64)
        self.groups = np.zeros((0, j.G_COLUMNS), np.int64)
        self.reports = np.zeros((0, c.R_COLUMNS), np.int64)
        self.hops = np.zeros((0, c.H_COLUMNS), np.int64)
        self._packet_arrays = RecycledArrays(PACKET_DTYPE)
        self._hop_arrays = RecycledArrays(HOP_DTYPE)
        self.packets: Packets = self._packet_arrays.take(_PACKETS_FIRST + 2 * PACKETS_MARGIN)
        self.path_hops: Hops = self._hop_arrays.take(4 * _PACKETS_FIRST + 2 * HOPS_MARGIN)
        self.path_hop_nodes = np.zeros(len(self.path_hops), np.int32)
        self.addresses = np.zeros((4 * PACKETS_MARGIN, j.A_COLUMNS), np.int64)
        self._buckets = np.zeros(0, np.int64)
        self.references = np.zeros((port_count, j.REFERENCE_COLUMNS), np.int64)
        self._epochs = np.zeros((EPOCHS_MAX, 3), np.int64)
        self._scratch = np.zeros((4, PIECES_PER_PACKET_MAX), np.int64)
        for column in (j.J_GROUP_FREE, j.J_REPORT_FREE, j.J_HOP_FREE, j.J_OLDEST, j.J_NEWEST):
            self.state[column] = j.NONE
        self.state[j.J_PENDING_MAX] = PENDING_PACKETS_MAX
        self.state[j.J_WINDOW_NS] = window_ns
        self._functions = function_addresses()
        self.state[j.J_FUNCTIONS] = address_of(self._functions)
        self.state[j.J_STAMP_STATE] = address_of(timelines.state)
        self.state[j.J_REFERENCES] = address_of(self.references)
        self.state[j.J_EPOCHS] = address_of(self._epochs)
        for row, column in enumerate((j.J_PATH, j.J_LEARNED, j.J_POSTCARDS, j.J_CHAIN)):
            self.state[column] = address_of(self._scratch[row])
        self._grow_groups(_GROUPS_FIRST)
        self._grow_reports(_REPORTS_FIRST)
        self._grow_hops(_HOPS_FIRST)
        self._place_rows()

    def make_room(self) -> None:
        """Double what might not suffice."""
        self.hand_over_epochs()
        state = self.state
        if state[j.J_GROUP_ROOM] <= 1:
            self._grow_groups(2 * len(self.groups))
        if state[j.J_REPORT_ROOM] <= 1:
            self._grow_reports(2 * len(self.reports))
        if state[j.J_HOP_ROOM] <= 256:
            self._grow_hops(2 * len(self.hops))
        if state[j.J_PACKET_COUNT] + 2 * PACKETS_MARGIN > len(self.packets):
            self.packets = _grown(self.packets, 2 * len(self.packets))
        if state[j.J_PATH_HOP_COUNT] + 2 * HOPS_MARGIN > len(self.path_hops):
            self.path_hops = _grown(self.path_hops, 2 * len(self.path_hops))
        if len(self.path_hop_nodes) < len(self.path_hops):
            self.path_hop_nodes = _grown(self.path_hop_nodes, len(self.path_hops))
        if state[j.J_ADDRESS_COUNT] + 2 * PACKETS_MARGIN > len(self.addresses):
            self.addresses = _grown(self.addresses, 2 * len(self.addresses))
        self._place_rows()

    def hand_over_epochs(self) -> None:
        """Give the epochs found so far to the time lines, before anybody else finds one."""
        count = int(self.state[j.J_EPOCH_COUNT])
        if count:
            self._timelines.add_epochs(self._epochs[:count])
            self.state[j.J_EPOCH_COUNT] = 0

    def take_rows(self, packet_count: int, hop_count: int) -> tuple[Packets, Hops]:
        """The first rows of packets and hops, which are then no longer written to."""
        packets, hops = self.packets[:packet_count], self.path_hops[:hop_count]
        if packet_count * _HAND_OVER_SHARE < len(self.packets):
            return packets.copy(), hops.copy()
        self.packets = self._packet_arrays.take(len(self.packets))
        self.path_hops = self._hop_arrays.take(len(self.path_hops))
        if len(self.path_hop_nodes) < len(self.path_hops):
            self.path_hop_nodes = _grown(self.path_hop_nodes, len(self.path_hops))
        self._place_rows()
        return packets, hops

    def _place_rows(self) -> None:
        state = self.state
        state[j.J_ADDS] = 0
        state[j.J_PACKETS] = address_of(self.packets)
        state[j.J_PACKET_ROOM] = len(self.packets)
        state[j.J_PATH_HOPS] = address_of(self.path_hops)
        state[j.J_PATH_HOP_NODES] = address_of(self.path_hop_nodes)
        state[j.J_PATH_HOP_ROOM] = len(self.path_hops)
        state[j.J_ADDRESSES] = address_of(self.addresses)
        state[j.J_ADDRESS_ROOM] = len(self.addresses)

    def _grow_groups(self, rows: int) -> None:
        before = len(self.groups)
        self.groups = _grown(self.groups, rows)
        self._free(self.groups, j.G_CHAIN, before, j.J_GROUP_FREE, j.J_GROUP_ROOM)
        self._buckets = np.full(2 * rows, j.NONE, np.int64)
        self.state[j.J_GROUPS] = address_of(self.groups)
        self.state[j.J_BUCKETS] = address_of(self._buckets)
        self.state[j.J_BUCKET_MASK] = 2 * rows - 1
        _hash_again(address_of(self.state))

    def _grow_reports(self, rows: int) -> None:
        before = len(self.reports)
        self.reports = _grown(self.reports, rows)
        self._free(self.reports, c.R_NEXT, before, j.J_REPORT_FREE, j.J_REPORT_ROOM)
        self.state[j.J_REPORTS] = address_of(self.reports)

    def _grow_hops(self, rows: int) -> None:
        before = len(self.hops)
        self.hops = _grown(self.hops, rows)
        self._free(self.hops, c.H_NEXT, before, j.J_HOP_FREE, j.J_HOP_ROOM)
        self.state[j.J_HOPS] = address_of(self.hops)

    def _free(self, table: NDArray[np.int64], link: int, first: int, head: int, room: int) -> None:
        """Put the rows from `first` on in front of the free list."""
        table[first:, link] = np.arange(first + 1, len(table) + 1)
        table[-1, link] = self.state[head]
        self.state[head] = first
        self.state[room] += len(table) - first

    # ------------------------------------------------------------ as the reference has them

    def first_collector_ns(self, group: int) -> int:
        """When the first report of a group arrived."""
        return int(self.groups[group, j.G_FIRST_COLLECTOR_NS])

    def pieces(self, group: int) -> list[tuple[int, Piece]]:
        """(row, report) of all that wait in a group, in order."""
        rows = []
        row = int(self.groups[group, j.G_FIRST_REPORT])
        while row != j.NONE:
            rows.append((row, self._piece(self.reports[row].tolist())))
            row = int(self.reports[row, c.R_NEXT])
        return rows

    def forget(self, group: int, rows: Sequence[int]) -> None:
        """Take reports out of a group, and the group away when none is left."""
        for row in rows:
            _forget_report(address_of(self.state), group, row)
        if self.groups[group, j.G_REPORTS] == 0:
            self.forget_group(group)

    def forget_group(self, group: int) -> None:
        """Take a group away with its reports."""
        _forget_group(address_of(self.state), group)

    def _piece(self, row: list[int]) -> Piece:
        flags = row[c.R_FLAGS]
        stack = None
        if flags & c.FLAG_STACK:
            hops = []
            at = row[c.R_FIRST_HOP]
            for _ in range(row[c.R_HOPS]):
                hop = self.hops[at].tolist()
                hops.append(_values(hop, c.H_INGRESS_PORT, self._node_ids[hop[c.H_NODE]]))
                at = hop[c.H_NEXT]
            stack = IntStack(
                tuple(hops), 0, row[c.R_HOP_BYTES], row[c.R_SOURCE_BYTES], 0, False, False, False, 0
            )
        key = _key(row)
        packet = ReportedPacket(
            key,
            row[c.R_DSCP],
            row[c.R_WIRE_BYTES],
            stack,
            row[c.R_INT_BYTES],
            _wide(row[c.R_SRC_HIGH], row[c.R_SRC_LOW]),
            _wide(row[c.R_DST_HIGH], row[c.R_DST_LOW]),
            probe_returning=bool(flags & c.FLAG_RETURNING),
        )
        own = _values(row, c.R_INGRESS_PORT, None) if flags & c.FLAG_METADATA else None
        dropped = bool(flags & c.FLAG_DROPPED)
        report = Report(REP_TYPE_INT, own, packet, dropped, False, True, False)
        return make_piece(self._node_ids[row[c.R_NODE]], report, row[c.R_CAPTURE])


def _values(row: list[int], first: int, node_id: int | None) -> HopMetadata:
    ingress_port, egress_port, queue_id, queue_depth, ingress, egress = row[first : first + 6]
    return HopMetadata(
        node_id=node_id,
        ingress_port=ingress_port,
        egress_port=egress_port,
        queue_id=queue_id,
        queue_depth=queue_depth,
        ingress_tstamp=ingress & _U64 or None,
        egress_tstamp=egress & _U64 or None,
    )


def _wide(high: int, low: int) -> int:
    return (high & _U64) << 64 | (low & _U64)


def _key(row: list[int]) -> PacketKey:
    head, numbers, more = row[c.R_KEY], row[c.R_KEY_NUMBERS], row[c.R_KEY_MORE]
    traffic = head >> 56
    is_probe = traffic == TRAFFIC_PROBE
    key = PacketKey(
        traffic,
        0 if is_probe else _wide(row[c.R_SRC_HIGH], row[c.R_SRC_LOW]),
        0 if is_probe else _wide(row[c.R_DST_HIGH], row[c.R_DST_LOW]),
        head >> 32 & 0xFFFF,
        head >> 16 & 0xFFFF,
        head & 0xFFFF,
        network=head >> 48 & 0xFF,
    )
    if traffic == TRAFFIC_ROCE:
        return key._replace(
            bth_opcode=numbers >> 48, dest_qp=numbers >> 24 & 0xFFFFFF, psn=numbers & 0xFFFFFF
        )
    if traffic == TRAFFIC_PTP:
        return key._replace(
            ptp_domain=numbers >> 40,
            ptp_message_type=numbers >> 32 & 0xFF,
            ptp_clock_identity=more & _U64,
            ptp_port_number=numbers >> 16 & 0xFFFF,
            ptp_sequence_id=numbers & 0xFFFF,
        )
    return key._replace(
        probe_node_id=numbers >> 16, probe_egress_port=numbers & 0xFFFF, probe_sequence_number=more
    )


def report_row(
    node: int, report: Report, captured_collector_ns: int, node_row: Mapping[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The row of a report of the reference decoder, and the rows of the hops on its stack."""
    packet, key = report.packet, report.packet.key
    row = [0] * c.R_COLUMNS
    row[c.R_CAPTURE], row[c.R_NODE] = captured_collector_ns, node
    row[c.R_FLAGS] = (
        c.FLAG_METADATA * (report.metadata is not None)
        | c.FLAG_STACK * (packet.stack is not None)
        | c.FLAG_DROPPED * report.dropped
        | c.FLAG_RETURNING * packet.probe_returning
    )
    row[c.R_KEY] = (
        key.traffic << 56
        | key.network << 48
        | key.protocol << 32
        | key.src_port << 16
        | key.dst_port
    )
    row[c.R_SRC_HIGH], row[c.R_SRC_LOW] = packet.src_addr >> 64, packet.src_addr & _U64
    row[c.R_DST_HIGH], row[c.R_DST_LOW] = packet.dst_addr >> 64, packet.dst_addr & _U64
    if key.traffic == TRAFFIC_ROCE:
        row[c.R_KEY_NUMBERS] = key.bth_opcode << 48 | key.dest_qp << 24 | key.psn
    elif key.traffic == TRAFFIC_PTP:
        row[c.R_KEY_NUMBERS] = (
            key.ptp_domain << 40
            | key.ptp_message_type << 32
            | key.ptp_port_number << 16
            | key.ptp_sequence_id
        )
        row[c.R_KEY_MORE] = key.ptp_clock_identity
    else:
        row[c.R_KEY_NUMBERS] = key.probe_node_id << 16 | key.probe_egress_port
        row[c.R_KEY_MORE] = key.probe_sequence_number
    row[c.R_DSCP], row[c.R_WIRE_BYTES] = packet.dscp, packet.wire_bytes
    row[c.R_INT_BYTES] = packet.int_bytes
    hops: list[list[int]] = []
    if packet.stack is not None:
        row[c.R_HOP_BYTES] = packet.stack.hop_metadata_bytes
        row[c.R_SOURCE_BYTES] = packet.stack.source_bytes
        row[c.R_HOPS] = len(packet.stack.hops)
        hops = [[node_row[hop.node_id or 0], *_raw(hop), 0] for hop in packet.stack.hops]
    row[c.R_INGRESS_PORT : c.R_EGRESS_TSTAMP + 1] = _raw(report.metadata or HopMetadata())
    return _int64([row]), _int64(hops or [[0] * c.H_COLUMNS])


def _raw(hop: HopMetadata) -> list[int]:
    return [
        0xFFFF if hop.ingress_port is None else hop.ingress_port,
        0xFFFF if hop.egress_port is None else hop.egress_port,
        0xFF if hop.queue_id is None else hop.queue_id,
        0xFFFFFFFF if hop.queue_depth is None else hop.queue_depth,
        hop.ingress_tstamp or 0,
        hop.egress_tstamp or 0,
    ]


def _int64(rows: list[list[int]]) -> NDArray[np.int64]:
    return np.array([[value & _U64 for value in row] for row in rows], np.uint64).view(np.int64)


def _grown(array: NDArray[Any], rows: int) -> NDArray[Any]:
    grown = np.zeros((rows, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


def _hash_again_entry(digest: int) -> Any:  # noqa: ANN401
    def hash_again(joiner: int) -> None:
        """Chain all waiting groups into empty buckets."""
        group = get(joiner, j.J_OLDEST)
        while digest != 0 and group != j.NONE:
            at = j.group_at(joiner, group)
            buckets = get(joiner, j.J_BUCKETS)
            bucket = get(at, j.G_HASH) & get(joiner, j.J_BUCKET_MASK)
            put(at, j.G_CHAIN, get(buckets, bucket))
            put(buckets, bucket, group)
            group = get(at, j.G_NEWER)

    return entry(hash_again)


def _forget_report_entry(digest: int) -> Any:  # noqa: ANN401
    def forget_report(joiner: int, group: int, report: int) -> None:
        if digest != 0:
            j.remove_found(joiner, group, report)

    return entry(forget_report)


def _forget_group_entry(digest: int) -> Any:  # noqa: ANN401
    def forget_group(joiner: int, group: int) -> None:
        if digest != 0:
            j.drop_group(joiner, group)

    return entry(forget_group)


_hash_again = _hash_again_entry(SOURCES_DIGEST)
_forget_report = _forget_report_entry(SOURCES_DIGEST)
_forget_group = _forget_group_entry(SOURCES_DIGEST)
