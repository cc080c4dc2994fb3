# SPDX-License-Identifier: Apache-2.0
"""Splits every transfer's latency into components that add up to it exactly.

Along the chosen packet: sender host (span start to the NIC's first packet), sender NIC (first to
last packet), access link, then residence in each switch and the link behind it, last access
link, receiver host (last packet's arrival to span end). Host parts and residences are
differences on one clock and need no correction. Links are differences of two clocks: they are
corrected and carry the sum of both conditional bounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, unique

import numpy as np
from numpy.typing import NDArray

from correction.records import Hops, Packets
from tracing_core.attribution.paths import NO_PACKET, MatchedPackets
from tracing_core.attribution.transfers import NO_STAMP, Transfers
from tracing_core.correction_layers import UNCOVERED
from tracing_core.corrections import CorrectedArray, CorrectionTable
from tracing_core.model import FabricLink, FabricNode

Int64Array = NDArray[np.int64]
FloatArray = NDArray[np.float64]

NO_LINK = -1
COLUMN_COUNT = 10


@unique
class ComponentKind(IntEnum):
    """A part of a transfer's latency, in the order of the path."""

    SENDER_HOST = 0
    SENDER_NIC = 1
    LINK = 2
    HOP = 3
    RECEIVER_HOST = 4
    NETWORK = 5
    """NIC to NIC as a whole, where no packet's path is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """One row per component, transfer by transfer, in the order of the path.

    `entity` is what the component belongs to: (kind, a, b, c) with
    hosts: (kind, host, 0, 0); links: (LINK, link index, 1 for b -> a, 0);
    hops: (HOP, node index, egress port, queue); NETWORK: (kind, sender, receiver, 0).
    """

    transfer: Int64Array
    position: Int64Array
    """Place on the path, from 0."""
    entity: NDArray[np.int64]
    """Shape (n, 4)."""
    value_ns: FloatArray
    """NaN where a clock is not corrected."""
    bound_ns: FloatArray
    """Conditional bound of the value: 0 on one clock, infinite where a clock is flagged."""
    size_bytes: Int64Array
    """What the usual value depends on: the frame's length, or the message's for hosts."""
    first_clock: Int64Array
    """Index of the clock that started it, in `Topology.clocks`."""
    second_clock: Int64Array
    rows: Int64Array
    """Shape (n, 2): the correction row of either stamp, -1 where none covers it or none is needed.
    Components of equal rows share both clocks' errors."""
    hop: Int64Array
    """Index into the hops for a HOP, else -1."""


class Topology:
    """Looks up nodes and directed links of the fabric."""

    def __init__(self, nodes: Sequence[FabricNode], links: Sequence[FabricLink]) -> None:
        self.clocks: tuple[str, ...] = tuple(node.name for node in nodes)
        self.links = tuple(links)
        self.index: Mapping[str, int] = {name: i for i, name in enumerate(self.clocks)}
        self._node_of_id = {node.node_id: i for i, node in enumerate(nodes) if node.node_id}
        self._egress: dict[tuple[int, int], tuple[int, int, int, int]] = {}
        for number, link in enumerate(links):
            a, b = self.index[link.a], self.index[link.b]
            self._egress[a, link.a_port] = (number, 0, b, link.b_port)
            self._egress[b, link.b_port] = (number, 1, a, link.a_port)

    def nodes_of(self, node_ids: Int64Array) -> Int64Array:
        """Clock index per INT node id, -1 for an unknown one."""
        distinct, inverse = np.unique(node_ids, return_inverse=True)
        known = np.array([self._node_of_id.get(int(i), -1) for i in distinct], np.int64)
        return known[inverse] if len(node_ids) else np.empty(0, np.int64)

    def links_of(self, node: Int64Array, port: Int64Array) -> Int64Array:
        """Per (node, egress port): columns link, reverse, far node, far port; -1 if unknown."""
        if len(node) == 0:
            return np.empty((0, 4), np.int64)
        keys, inverse = np.unique(np.stack([node, port], axis=1), axis=0, return_inverse=True)
        unknown = (NO_LINK, 0, -1, -1)
        table = np.array([self._egress.get((int(a), int(b)), unknown) for a, b in keys], np.int64)
        result: Int64Array = table[inverse.reshape(-1)]
        return result

    def link_label(self, number: int, reverse: bool) -> str:
        """Directed name, `from:port->to:port`."""
        link = self.links[number]
        a, b = f"{link.a}:{link.a_port}", f"{link.b}:{link.b_port}"
        return f"{b}->{a}" if reverse else f"{a}->{b}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HopTimes:
    """Hops with their node and both stamps corrected."""

    node: Int64Array
    """Clock index in the topology, -1 if unknown."""
    ingress: CorrectedArray
    egress: CorrectedArray


def correct_hops(hops: Hops, topology: Topology, table: CorrectionTable) -> HopTimes:
    """Corrects all hop stamps."""
    node = topology.nodes_of(hops["node_id"].astype(np.int64))
    return HopTimes(
        node=node,
        ingress=table.correct(topology.clocks, node, hops["ingress_tstamp_local_ns"]),
        egress=table.correct(topology.clocks, node, hops["egress_tstamp_local_ns"]),
    )


def split_transfers(
    transfers: Transfers,
    packets: Packets,
    hops: Hops,
    times: HopTimes,
    matched: MatchedPackets,
    topology: Topology,
    table: CorrectionTable,
) -> Components:
    """All components of all transfers."""
    builder = _Builder(topology)
    to_topology = np.array([topology.index.get(name, -1) for name in transfers.clocks], np.int64)
    if len(to_topology) == 0:
        return builder.build()
    sender, receiver = to_topology[transfers.sender_clock], to_topology[transfers.receiver_clock]
    builder.hosts(transfers, sender, receiver)
    tx = table.correct(transfers.clocks, transfers.sender_clock, transfers.tx_last_local_ns)
    rx = table.correct(transfers.clocks, transfers.receiver_clock, transfers.rx_last_local_ns)
    has_path = (matched.packet != NO_PACKET) & _path_is_consistent(
        packets, hops, times, matched, topology, sender, receiver
    )
    stamped = (transfers.tx_last_local_ns != NO_STAMP) & (transfers.rx_last_local_ns != NO_STAMP)
    no_path = np.flatnonzero(stamped & ~has_path)
    builder.network(transfers, no_path, sender, receiver, tx, rx)
    rows = np.flatnonzero(stamped & has_path)
    builder.path(transfers, rows, packets, hops, times, matched, sender, receiver, tx, rx)
    return builder.build()


def nic_to_nic(
    transfers: Transfers, table: CorrectionTable
) -> tuple[NDArray[np.int64], Int64Array, FloatArray]:
    """Entity (NETWORK), message size and last packet's NIC-to-NIC time of every transfer."""
    rows = np.flatnonzero(
        (transfers.tx_last_local_ns != NO_STAMP) & (transfers.rx_last_local_ns != NO_STAMP)
    )
    tx = table.correct(transfers.clocks, transfers.sender_clock, transfers.tx_last_local_ns)
    rx = table.correct(transfers.clocks, transfers.receiver_clock, transfers.rx_last_local_ns)
    value_ns, _, _ = _between(tx, rows, rx, rows)
    entity = _entities(
        ComponentKind.NETWORK, transfers.sender_host[rows], transfers.receiver_host[rows]
    )
    return entity, transfers.bytes[rows], value_ns


def _path_is_consistent(
    packets: Packets,
    hops: Hops,
    times: HopTimes,
    matched: MatchedPackets,
    topology: Topology,
    sender: Int64Array,
    receiver: Int64Array,
) -> NDArray[np.bool_]:
    """The hops follow the cables from the sender's NIC to the receiver's."""
    good = np.zeros(len(matched.packet), bool)
    rows = np.flatnonzero(matched.packet != NO_PACKET)
    if len(rows) == 0:
        return good
    chosen = packets[matched.packet[rows]]
    first = chosen["first_hop"].astype(np.int64)
    last = first + chosen["hop_count"] - 1
    behind = topology.links_of(times.node, hops["egress_port"].astype(np.int64))
    breaks = np.zeros(len(hops) + 1, np.int64)
    broken = (behind[:-1, 2] != times.node[1:]) | (behind[:-1, 3] != hops["ingress_port"][1:])
    breaks[1:-1] = np.cumsum(broken)
    breaks[-1] = breaks[-2] if len(hops) else 0
    inside = breaks[last] == breaks[first]
    before = topology.links_of(times.node[first], hops["ingress_port"][first].astype(np.int64))
    ends = (before[:, 2] == sender[rows]) & (behind[last, 2] == receiver[rows])
    good[rows] = inside & ends & (sender[rows] >= 0) & (receiver[rows] >= 0)
    return good


class _Builder:
    """Collects component rows and sorts them by transfer and place."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._parts: list[tuple[NDArray[np.generic], ...]] = []

    def hosts(self, t: Transfers, sender: Int64Array, receiver: Int64Array) -> None:
        """Sender host, sender NIC and receiver host; each on one clock."""
        last_position = np.iinfo(np.int64).max
        for kind, position, host, clock, start, end in (
            (
                ComponentKind.SENDER_HOST,
                0,
                t.sender_host,
                sender,
                t.send_start_local_ns,
                t.tx_first_local_ns,
            ),
            (
                ComponentKind.SENDER_NIC,
                1,
                t.sender_host,
                sender,
                t.tx_first_local_ns,
                t.tx_last_local_ns,
            ),
            (
                ComponentKind.RECEIVER_HOST,
                last_position,
                t.receiver_host,
                receiver,
                t.rx_last_local_ns,
                t.recv_end_local_ns,
            ),
        ):
            rows = np.flatnonzero((start != NO_STAMP) & (end != NO_STAMP))
            self._add(
                rows,
                np.full(len(rows), position),
                _entities(kind, host[rows]),
                (end - start)[rows].astype(np.float64),
                np.zeros(len(rows)),
                t.bytes[rows],
                clock[rows],
                clock[rows],
                np.full((len(rows), 2), UNCOVERED),
            )

    def network(
        self,
        t: Transfers,
        rows: Int64Array,
        sender: Int64Array,
        receiver: Int64Array,
        tx: CorrectedArray,
        rx: CorrectedArray,
    ) -> None:
        """NIC to NIC as one component."""
        value_ns, bound_ns, used = _between(tx, rows, rx, rows)
        entity = _entities(ComponentKind.NETWORK, t.sender_host[rows], t.receiver_host[rows])
        position = np.full(len(rows), 2)
        self._add(
            rows,
            position,
            entity,
            value_ns,
            bound_ns,
            t.bytes[rows],
            sender[rows],
            receiver[rows],
            used,
        )

    def path(
        self,
        t: Transfers,
        rows: Int64Array,
        packets: Packets,
        hops: Hops,
        times: HopTimes,
        matched: MatchedPackets,
        sender: Int64Array,
        receiver: Int64Array,
        tx: CorrectedArray,
        rx: CorrectedArray,
    ) -> None:
        """Access links, residences and fabric links along the chosen packets."""
        chosen = packets[matched.packet[rows]]
        count = chosen["hop_count"].astype(np.int64)
        first = chosen["first_hop"].astype(np.int64)
        last = first + count - 1
        wire_bytes = chosen["wire_bytes"].astype(np.int64)
        node, egress_port = times.node, hops["egress_port"].astype(np.int64)
        behind = self._topology.links_of(node, egress_port)
        lead_ns = _injection_lead_ns(t, matched, rows)

        before = self._topology.links_of(node[first], hops["ingress_port"][first].astype(np.int64))
        value_ns, bound_ns, used = _between(tx, rows, times.ingress, first)
        direction = 1 - before[:, 1]  # towards the switch, the other way round than its egress
        self._add(
            rows,
            np.full(len(rows), 2),
            _entities(ComponentKind.LINK, before[:, 0], direction),
            value_ns + lead_ns,
            bound_ns + lead_ns,
            wire_bytes,
            sender[rows],
            node[first],
            used,
        )
        value_ns, bound_ns, used = _between(times.egress, last, rx, rows)
        self._add(
            rows,
            2 + 2 * count,
            _entities(ComponentKind.LINK, behind[last, 0], behind[last, 1]),
            value_ns - lead_ns,
            bound_ns + lead_ns,
            wire_bytes,
            node[last],
            receiver[rows],
            used,
        )
        owner = np.repeat(np.arange(len(rows)), count)
        order = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
        hop = first[owner] + order
        residence_ns = hops["egress_tstamp_local_ns"][hop] - hops["ingress_tstamp_local_ns"][hop]
        self._add(
            rows[owner],
            3 + 2 * order,
            _entities(ComponentKind.HOP, node[hop], egress_port[hop], hops["queue_id"][hop]),
            residence_ns.astype(np.float64),
            np.zeros(len(hop)),
            wire_bytes[owner],
            node[hop],
            node[hop],
            np.full((len(hop), 2), UNCOVERED),
            hop,
        )
        inner = order < count[owner] - 1
        hop, owner, order = hop[inner], owner[inner], order[inner]
        value_ns, bound_ns, used = _between(times.egress, hop, times.ingress, hop + 1)
        self._add(
            rows[owner],
            4 + 2 * order,
            _entities(ComponentKind.LINK, behind[hop, 0], behind[hop, 1]),
            value_ns,
            bound_ns,
            wire_bytes[owner],
            node[hop],
            node[hop + 1],
            used,
        )

    def _add(self, *columns: NDArray[np.generic]) -> None:
        if len(columns) == COLUMN_COUNT - 1:  # not a hop
            columns = (*columns, np.full(len(columns[0]), -1, np.int64))
        self._parts.append(columns)

    def build(self) -> Components:
        """All rows in order."""
        if not self._parts:
            none = np.empty(0, np.int64)
            return Components(
                transfer=none,
                position=none,
                entity=none.reshape(0, 4),
                value_ns=none.astype(np.float64),
                bound_ns=none.astype(np.float64),
                size_bytes=none,
                first_clock=none,
                second_clock=none,
                rows=none.reshape(0, 2),
                hop=none,
            )
        columns = [np.concatenate(parts) for parts in zip(*self._parts, strict=True)]
        order = np.lexsort((columns[1], columns[0]))
        transfer, position, entity, value_ns, bound_ns, size, first, second, used, hop = (
            column[order] for column in columns
        )
        return Components(
            transfer=transfer.astype(np.int64),
            position=position.astype(np.int64),
            entity=entity.astype(np.int64),
            value_ns=value_ns.astype(np.float64),
            bound_ns=bound_ns.astype(np.float64),
            size_bytes=size.astype(np.int64),
            first_clock=first.astype(np.int64),
            second_clock=second.astype(np.int64),
            rows=used.astype(np.int64),
            hop=hop.astype(np.int64),
        )


def _injection_lead_ns(t: Transfers, matched: MatchedPackets, rows: Int64Array) -> FloatArray:
    """How long before the message's last packet the chosen one was sent, interpolated.

    0 when it is the last one. Access links of an earlier packet are shifted by it, and their
    bound is widened by as much, since even spacing is an assumption.
    """
    behind = matched.behind_last[rows].astype(np.float64)
    length = ((t.psn_last - t.psn_first) % (1 << 24))[rows].astype(np.float64)
    span_ns = (t.tx_last_local_ns - t.tx_first_local_ns)[rows].astype(np.float64)
    return np.divide(behind * span_ns, length, out=np.zeros(len(rows)), where=length > 0)


def _entities(kind: ComponentKind, *parts: NDArray[np.generic]) -> NDArray[np.int64]:
    entity = np.zeros((len(parts[0]), 4), np.int64)
    entity[:, 0] = kind
    for column, part in enumerate(parts, start=1):
        entity[:, column] = part
    return entity


def _between(
    start: CorrectedArray, start_rows: Int64Array, end: CorrectedArray, end_rows: Int64Array
) -> tuple[FloatArray, FloatArray, Int64Array]:
    """end - start on the reference scale, the sum of both conditional bounds, the rows used."""
    known = ~(start.unknown[start_rows] | end.unknown[end_rows])
    gap_ns = end.corrected_reference_ns[end_rows] - start.corrected_reference_ns[start_rows]
    value_ns = np.where(known, gap_ns.astype(np.float64), np.nan)
    bound_ns = start.bound_conditional_ns[start_rows] + end.bound_conditional_ns[end_rows]
    flagged = start.flagged[start_rows] | end.flagged[end_rows]
    used = np.column_stack([start.row[start_rows], end.row[end_rows]])
    return value_ns, np.where(flagged | ~known, np.inf, bound_ns), used
