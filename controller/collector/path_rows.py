# SPDX-License-Identifier: Apache-2.0
"""Finished rows: taken from the tables, their stamps placed on the nodes' time lines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controller.collector import join_state as j
from controller.collector.join_tables import JoinTables
from controller.collector.kernel import SOURCES_DIGEST, entry
from controller.collector.loads import (
    address_of,
    count_up,
    get16,
    get32,
    get64,
    put,
    put64,
    row_at,
)
from controller.collector.path_output import HOP_BYTES, PACKET_BYTES
from controller.telemetry.packet import (
    MAC_GROUP_BIT,
    NETWORK_ETHERNET,
    NETWORK_IPV4,
    ReportedPacket,
)
from controller.telemetry.path_records import HopRow, PacketAddresses, PathRecords
from controller.telemetry.stamp_kernel import (
    EPOCHS,
    JUMP_UNITS,
    STATE_COLUMNS,
    StampFault,
    place_hop_inlined,
)
from controller.telemetry.stamp_timelines import StampTimelines
from controller.telemetry.topology import TelemetryFabric
from correction.records import HOP_DTYPE, PACKET_DTYPE, Hops, Packets

_EPOCHS_PER_CALL = 64
FAULT_KINDS = len(StampFault)
_HOP_COUNT = PACKET_DTYPE.fields["hop_count"][1]  # type: ignore[index]
_CAPTURE = PACKET_DTYPE.fields["capture_collector_ns"][1]  # type: ignore[index]
_INGRESS = HOP_DTYPE.fields["ingress_tstamp_local_ns"][1]  # type: ignore[index]
_EGRESS = HOP_DTYPE.fields["egress_tstamp_local_ns"][1]  # type: ignore[index]
_U64 = (1 << 64) - 1


class AddressTable(Mapping[int, PacketAddresses]):
    """Addresses by row of packets that are not IPv4: read from an array when asked for."""

    def __init__(self, rows: NDArray[np.int64]) -> None:
        self._rows = rows
        self._place: dict[int, int] | None = None

    def __getitem__(self, packet: int) -> PacketAddresses:
        if self._place is None:
            self._place = {row: at for at, row in enumerate(self._rows[:, j.A_PACKET].tolist())}
        return _addresses(self._rows[self._place[packet]].tolist())

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows[:, j.A_PACKET].tolist())

    def __len__(self) -> int:
        return len(self._rows)


def _addresses(row: Sequence[int]) -> PacketAddresses:
    src = (row[j.A_SRC_HIGH] & _U64) << 64 | (row[j.A_SRC_LOW] & _U64)
    dst = (row[j.A_DST_HIGH] & _U64) << 64 | (row[j.A_DST_LOW] & _U64)
    return PacketAddresses(row[j.A_NETWORK], src, dst)


class PathTables(PathRecords):
    """Rows of finished packets in the joiner's tables, whoever finished them."""

    def __init__(
        self, fabric: TelemetryFabric, timelines: StampTimelines, tables: JoinTables
    ) -> None:
        super().__init__(fabric, timelines)
        self._tables = tables
        self._faults = np.zeros((2, len(StampFault)), np.int64)
        self._epochs_found = np.zeros((_EPOCHS_PER_CALL, 3), np.int64)
        self._rows_at = (
            address_of(timelines.state),
            address_of(self._faults),
            address_of(self._epochs_found),
        )
        self._row_of = {node_id: row for row, node_id in enumerate(timelines.node_ids.tolist())}

    def append(
        self,
        packet: ReportedPacket,
        hops: Sequence[HopRow],
        *,
        complete: bool,
        captured_collector_ns: int,
    ) -> None:
        """One packet that the reference joiner finished."""
        self._tables.make_room()
        state = self._tables.state
        key = packet.key
        number, first_hop = int(state[j.J_PACKET_COUNT]), int(state[j.J_PATH_HOP_COUNT])
        src, dst = packet.src_addr, packet.dst_addr
        if key.network != NETWORK_IPV4:
            values = (number, key.network, src >> 64, src & _U64, dst >> 64, dst & _U64)
            at = int(state[j.J_ADDRESS_COUNT])
            self._tables.addresses[at] = np.array(values, np.uint64).view(np.int64)
            state[j.J_ADDRESS_COUNT] += 1
            src = dst = 0  # named when they are taken
        self._tables.packets[number] = (
            *(first_hop, len(hops), complete, key.traffic, src, dst),
            *(key.src_port, key.dst_port, packet.dscp, packet.wire_bytes),
            *(key.bth_opcode, key.dest_qp, key.psn),
            *(key.ptp_domain, key.ptp_message_type, key.ptp_clock_identity),
            *(key.ptp_port_number, key.ptp_sequence_id, captured_collector_ns),
        )
        for at, hop in enumerate(hops, first_hop):
            raw = np.array([hop.ingress_tstamp, hop.egress_tstamp], np.uint64).view(np.int64)
            self._tables.path_hops[at] = (
                *(hop.node_id, hop.ingress_port, hop.egress_port, hop.queue_id, hop.queue_depth),
                *(raw[0], raw[1], hop.egress_bytes, hop.ingress_bytes),
            )
            self._tables.path_hop_nodes[at] = self._row_of[hop.node_id]
        state[j.J_PACKET_COUNT] += 1
        state[j.J_PATH_HOP_COUNT] += len(hops)

    def take(self) -> tuple[Packets, Hops, Mapping[int, PacketAddresses]]:
        """All rows since the last call, as arrays of their own.

        Many rows are not copied: the arrays are those that they were written to, which are used
        again when nobody holds them any more.
        """
        tables, state = self._tables, self._tables.state
        tables.hand_over_epochs()
        packet_count, hop_count = int(state[j.J_PACKET_COUNT]), int(state[j.J_PATH_HOP_COUNT])
        packets, hops = tables.take_rows(packet_count, hop_count)
        addresses = tables.addresses[: int(state[j.J_ADDRESS_COUNT])].copy()
        self._faults[:] = 0
        begun = place_stamps(
            address_of(packets),
            packet_count,
            address_of(hops),
            address_of(tables.path_hop_nodes),
            *self._rows_at,
        )
        if self._faults.any():
            self._timelines.add_faults(self._faults)
        if begun:
            self._timelines.add_epochs(self._epochs_found[: min(begun, _EPOCHS_PER_CALL)])
        for column in (j.J_PACKET_COUNT, j.J_PATH_HOP_COUNT, j.J_ADDRESS_COUNT):
            state[column] = 0
        if len(addresses):
            self._name_hosts(packets, hops, addresses)
        return packets, hops, AddressTable(addresses)

    def _name_hosts(self, packets: Packets, hops: Hops, addresses: NDArray[np.int64]) -> None:
        """IPv4 addresses of the hosts that IPv6 and MAC addresses belong to, 0 for strangers; of a
        multicast, the host that the copy was sent to."""
        rows = addresses[:, j.A_PACKET]
        for name, first in (("src_ip", j.A_SRC_HIGH), ("dst_ip", j.A_DST_HIGH)):
            pairs, place = np.unique(
                addresses[:, [j.A_NETWORK, first, first + 1]], axis=0, return_inverse=True
            )
            ips = [
                self._host_ips.get((network, (high & _U64) << 64 | (low & _U64)), 0)
                for network, high, low in pairs.tolist()
            ]
            packets[name][rows] = np.array(ips, np.uint32)[place.reshape(-1)]
        group = addresses[:, j.A_DST_LOW] >> MAC_GROUP_BIT & 1 != 0
        for packet in rows[group & (addresses[:, j.A_NETWORK] == NETWORK_ETHERNET)].tolist():
            last = hops[int(packets["first_hop"][packet]) + int(packets["hop_count"][packet]) - 1]
            port = (int(last["node_id"]), int(last["egress_port"]))
            packets["dst_ip"][packet] = self._host_ip_at.get(port, 0)


def _place_entry(digest: int) -> Any:  # noqa: ANN401
    none = int(StampFault.NONE)

    def place_stamps(
        packets: int,
        packet_count: int,
        hops: int,
        nodes: int,
        state: int,
        faults: int,
        epochs: int,
    ) -> int:
        """Raw stamps to local ns, in place and in order; how many epochs began.

        state, faults and epochs are those of `stamp_kernel.place_hops`, by their addresses.
        """
        begun = 0
        if digest == 0:
            return begun
        hop = 0
        for packet in range(packet_count):
            row = packets + packet * PACKET_BYTES
            captured = get64(row + _CAPTURE)
            for _ in range(get16(row + _HOP_COUNT)):
                at = hops + hop * HOP_BYTES
                node = get32(nodes + 4 * hop)
                hop += 1
                one = row_at(state + node * (8 * STATE_COLUMNS), STATE_COLUMNS)
                before = one[EPOCHS]
                ingress_fault, ingress_ns, egress_fault, egress_ns = place_hop_inlined(
                    one, get64(at + _INGRESS), get64(at + _EGRESS), captured
                )
                put64(at + _INGRESS, ingress_ns)
                put64(at + _EGRESS, egress_ns)
                if ingress_fault != none:
                    count_up(faults, ingress_fault)
                if egress_fault != none:
                    count_up(faults, FAULT_KINDS + egress_fault)
                if one[EPOCHS] != before:
                    if begun < _EPOCHS_PER_CALL:
                        put(epochs, 3 * begun, node)
                        put(epochs, 3 * begun + 1, captured)
                        put(epochs, 3 * begun + 2, one[JUMP_UNITS])
                    begun += 1
        return begun

    return entry(place_stamps)


place_stamps = _place_entry(SOURCES_DIGEST)
