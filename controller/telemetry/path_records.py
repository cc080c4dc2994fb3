# SPDX-License-Identifier: Apache-2.0
"""Finished paths collected row by row and handed over as the arrays of `correction.records`.

Rows hold raw stamps; conversion to local nanoseconds is done per device over whole columns.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from controller.telemetry.metadata import HopMetadata
from controller.telemetry.packet import NETWORK_IPV4, ReportedPacket
from controller.telemetry.stamp_timelines import StampTimelines
from controller.telemetry.topology import TelemetryFabric
from correction.records import HOP_DTYPE, PACKET_DTYPE, UNKNOWN_U32, Hops, Packets

UNKNOWN_PORT = 0xFFFF
"""`ingress_port` or `egress_port` that the node did not report."""
UNKNOWN_QUEUE_ID = 0xFF
"""`queue_id` that the node did not report."""


class HopRow(NamedTuple):
    """A row of HOP_DTYPE with raw stamps (0: none), in the order of that dtype."""

    node_id: int
    ingress_port: int
    egress_port: int
    queue_id: int
    queue_depth: int
    ingress_tstamp: int
    egress_tstamp: int
    egress_bytes: int
    ingress_bytes: int


def hop_row(node_id: int, hop: HopMetadata, *, ingress_bytes: int, egress_bytes: int) -> HopRow:
    """The row of what a node said about a packet; frame lengths are those on its two links."""
    return HopRow(
        node_id,
        UNKNOWN_PORT if hop.ingress_port is None else hop.ingress_port,
        UNKNOWN_PORT if hop.egress_port is None else hop.egress_port,
        UNKNOWN_QUEUE_ID if hop.queue_id is None else hop.queue_id,
        UNKNOWN_U32 if hop.queue_depth is None else hop.queue_depth,
        hop.ingress_tstamp or 0,
        hop.egress_tstamp or 0,
        egress_bytes,
        ingress_bytes,
    )


class PacketAddresses(NamedTuple):
    """Addresses that do not fit `src_ip` and `dst_ip` of a packet record."""

    network: int
    """NETWORK_IPV6 or NETWORK_ETHERNET of `packet`."""
    src_addr: int
    dst_addr: int


class PathRecords:
    """Rows of finished packets; every node must be one of the fabric's."""

    def __init__(self, fabric: TelemetryFabric, timelines: StampTimelines) -> None:
        self._timelines = timelines
        self._host_ips = fabric.host_ips
        self._host_ip_at = fabric.host_ip_at
        self._packet_rows: list[tuple[int, ...]] = []
        self._hop_rows: list[HopRow] = []
        self._addresses: dict[int, PacketAddresses] = {}

    def append(
        self,
        packet: ReportedPacket,
        hops: Sequence[HopRow],
        *,
        complete: bool,
        captured_collector_ns: int,
    ) -> None:
        """One finished packet with its hops, source first."""
        key = packet.key
        src_ip, dst_ip = packet.src_addr, packet.dst_addr
        if key.network != NETWORK_IPV4:
            self._addresses[len(self._packet_rows)] = PacketAddresses(key.network, src_ip, dst_ip)
            src_ip = self._host_ips.get((key.network, src_ip), 0)
            if key.is_multicast:
                dst_ip = self._host_ip_at.get((hops[-1].node_id, hops[-1].egress_port), 0)
            else:
                dst_ip = self._host_ips.get((key.network, dst_ip), 0)
        row = (  # in the order of PACKET_DTYPE
            *(len(self._hop_rows), len(hops), complete, key.traffic, src_ip, dst_ip),
            *(key.src_port, key.dst_port, packet.dscp, packet.wire_bytes),
            *(key.bth_opcode, key.dest_qp, key.psn),
            *(key.ptp_domain, key.ptp_message_type, key.ptp_clock_identity),
            *(key.ptp_port_number, key.ptp_sequence_id, captured_collector_ns),
        )
        self._packet_rows.append(row)
        self._hop_rows.extend(hops)

    def take(self) -> tuple[Packets, Hops, Mapping[int, PacketAddresses]]:
        """All rows since the last call, as arrays; a stamp that is not valid is NO_TSTAMP_NS.

        And the addresses of packets that are not IPv4, by their row.
        """
        packets = np.zeros(len(self._packet_rows), dtype=PACKET_DTYPE)
        hops = np.zeros(len(self._hop_rows), dtype=HOP_DTYPE)
        # column by column: ten times faster than assigning a list of tuples
        for name, column in zip(
            PACKET_DTYPE.names or (), _columns(self._packet_rows), strict=False
        ):
            packets[name] = column
        raw_stamps = {name: np.zeros(0, np.uint64) for name in ("ingress_tstamp", "egress_tstamp")}
        for name, column in zip(HopRow._fields, _columns(self._hop_rows), strict=False):
            if name in raw_stamps:
                raw_stamps[name] = np.array(column, dtype=np.uint64)
            else:
                hops[name] = column
        captured = np.repeat(packets["capture_collector_ns"], packets["hop_count"])
        hops["ingress_tstamp_local_ns"], hops["egress_tstamp_local_ns"] = (
            self._timelines.to_local_ns(
                hops["node_id"], raw_stamps["ingress_tstamp"], raw_stamps["egress_tstamp"], captured
            )
        )
        self._packet_rows.clear()
        self._hop_rows.clear()
        addresses, self._addresses = self._addresses, {}
        return packets, hops, addresses


def _columns(rows: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The columns of equally long rows; none where there are no rows."""
    return list(zip(*rows, strict=True))
