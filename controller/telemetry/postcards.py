# SPDX-License-Identifier: Apache-2.0
"""Reports of one packet joined into its path: hops in order, source to sink.

Reports of one packet share its key (`packet.PacketKey`) and arrive within a window. Two kinds of
evidence are joined: an INT-MD stack, reported at the sink, with the sink's own hop from a second
report of the same node and ingress stamp; and postcards, one per node, ordered by the cables.
What does not become a path from host to host within the window is handed over as incomplete and
counted. Paths are per packet, never assumed per flow.
"""

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.telemetry.metadata import HopMetadata
from controller.telemetry.missing_tstamps import MissingTstamps
from controller.telemetry.packet import IntStack, PacketKey, ReportedPacket
from controller.telemetry.path_records import UNKNOWN_PORT, HopRow, PathRecords, hop_row
from controller.telemetry.report import Report
from controller.telemetry.topology import HOST_END, PortKey, TelemetryFabric
from correction.records import Hops, Packets

JOIN_WINDOW_NS = 1_000_000_000
"""Reports of one packet arrive within this of each other: far above any queueing of reports, far
below the time in which a PTP sequence id or a PSN comes round (more than a minute)."""
PENDING_PACKETS_MAX = 200_000
"""Packets that wait for more reports; beyond it the oldest are closed as incomplete."""
PIECES_PER_PACKET_MAX = 64
"""Reports that wait under one key; a path has fewer hops, so more are a sender that repeats a key
(a constant PSN or sequence id), and all that wait is closed as incomplete."""


class _Piece(NamedTuple):
    """One report, and who sent it."""

    node_id: int
    report: Report


@dataclass(slots=True)
class _Pending:
    """Reports of one packet key that are not yet a path."""

    first_collector_ns: int
    last_collector_ns: int
    pieces: list[_Piece] = field(default_factory=list)


class PathJoiner:
    """Joins reports into packets and hops; time is the collector's and comes in as an argument."""

    def __init__(self, fabric: TelemetryFabric, *, window_ns: int = JOIN_WINDOW_NS) -> None:
        self._neighbours: Mapping[PortKey, PortKey] = fabric.neighbours
        self._window_ns = window_ns
        self._missing = MissingTstamps(fabric)
        self._pending: OrderedDict[PacketKey, _Pending] = OrderedDict()
        self._records = PathRecords(fabric)
        self.complete_count = 0
        self.incomplete_count = 0

    def add(self, node_id: int, report: Report, now_ns: int) -> None:
        """Take one report; every node in it must be one of the fabric's."""
        self.expire(now_ns)
        report = self._missing.removed(node_id, report)
        packet = report.packet
        pending = self._pending.get(packet.key)
        if pending is None:
            pending = self._pending[packet.key] = _Pending(now_ns, now_ns)
        pending.pieces.append(_Piece(node_id, report))
        pending.last_collector_ns = max(pending.last_collector_ns, now_ns)
        if self._emit_path(pending):
            if not pending.pieces:
                del self._pending[packet.key]
        elif len(pending.pieces) >= PIECES_PER_PACKET_MAX:
            del self._pending[packet.key]
            self._close(pending)
        if len(self._pending) > PENDING_PACKETS_MAX:
            self._close_oldest()

    def expire(self, now_ns: int) -> None:
        """Close as incomplete what has waited longer than the window."""
        oldest_ns = now_ns - self._window_ns
        while self._pending:
            if next(iter(self._pending.values())).first_collector_ns >= oldest_ns:
                break
            self._close_oldest()

    def close(self) -> None:
        """No more reports will come: close everything that waits."""
        while self._pending:
            self._close_oldest()

    @property
    def invalid_tstamps(self) -> Counter[str]:
        """Stamps that were asked for but are zero, all-ones or impossible, by field."""
        return self._missing.counts + self._records.impossible_tstamps

    def take(self) -> tuple[Packets, Hops]:
        """The packets finished since the last call, with their hops; stamps in local ns."""
        return self._records.take()

    # ------------------------------------------------------------ joining

    def _emit_path(self, pending: _Pending) -> bool:
        """Emit the path that the newest piece completes, and drop its pieces."""
        now_ns = pending.last_collector_ns
        for piece in pending.pieces:
            if piece.report.packet.stack is not None:
                own = _sink_hop(piece, pending.pieces)
                if own is not None:
                    self._emit_stack(piece, own.hop, now_ns, joined=True)
                    pending.pieces = _without(pending.pieces, (piece, *own.pieces))
                    return True
        for piece in pending.pieces:
            if self._neighbours.get(_ingress_key(piece)) == HOST_END:
                chain = self._follow(piece, pending.pieces)
                if self._neighbours.get(_egress_key(chain[-1])) == HOST_END:
                    self._emit_postcards(chain, now_ns, joined=True)
                    pending.pieces = _without(pending.pieces, chain)
                    return True
        return False

    def _follow(self, start: _Piece, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Postcards in the order of the cables, from `start` as far as the next is there."""
        by_ingress: dict[PortKey | None, _Piece] = {}
        for piece in pieces:
            by_ingress.setdefault(_ingress_key(piece), piece)
        chain = [start]
        while len(chain) < len(pieces):
            following = by_ingress.get(self._neighbours.get(_egress_key(chain[-1])))
            if following is None or any(following is piece for piece in chain):
                break
            chain.append(following)
        return chain

    def _close_oldest(self) -> None:
        """Give up on the packet that has waited longest."""
        _key, pending = self._pending.popitem(last=False)
        self._close(pending)

    def _close(self, pending: _Pending) -> None:
        """Emit the pieces of a packet that will not become whole."""
        now_ns = pending.last_collector_ns
        postcards = [piece for piece in pending.pieces if piece.report.packet.stack is None]
        for piece in pending.pieces:
            if piece.report.packet.stack is not None:
                self._emit_stack(piece, piece.report.metadata, now_ns, joined=False)
        chain: list[_Piece] = []
        while postcards:
            fragment = self._follow(self._fragment_start(postcards), postcards)
            postcards = _without(postcards, fragment)
            chain += fragment
        if chain:
            self._emit_postcards(chain, now_ns, joined=False)

    def _fragment_start(self, pieces: Sequence[_Piece]) -> _Piece:
        """The first hop of a path, else one whose predecessor is missing, else any."""
        egress_keys = {_egress_key(piece) for piece in pieces}
        before = [self._neighbours.get(_ingress_key(piece)) for piece in pieces]
        if HOST_END in before:
            return pieces[before.index(HOST_END)]
        orphans = (p for p, far in zip(pieces, before, strict=True) if far not in egress_keys)
        return next(orphans, pieces[0])

    # ------------------------------------------------------------ rows

    def _emit_stack(
        self, piece: _Piece, sink: HopMetadata | None, now_ns: int, *, joined: bool
    ) -> None:
        """A path of stack hops and the sink's own hop; the frame grows at each but the sink."""
        packet = piece.report.packet
        stack = packet.stack
        assert stack is not None
        hops = [(hop.node_id or 0, hop) for hop in stack.hops]
        if sink is not None and not _sink_is_on_stack(piece, stack):
            hops.append((piece.node_id, sink))
        rows = []
        frame_bytes = packet.wire_bytes
        growth = stack.hop_metadata_bytes + stack.source_bytes
        for index, (node_id, hop) in enumerate(hops):
            is_sink = index == len(hops) - 1 and node_id == piece.node_id
            egress_bytes = packet.wire_bytes if is_sink else frame_bytes + growth
            rows.append(hop_row(node_id, hop, ingress_bytes=frame_bytes, egress_bytes=egress_bytes))
            frame_bytes = egress_bytes
            growth = stack.hop_metadata_bytes
        self._emit(packet, rows, now_ns, joined=joined)

    def _emit_postcards(self, pieces: Sequence[_Piece], now_ns: int, *, joined: bool) -> None:
        """A path of postcards; the packet is the same on all its links."""
        packet = pieces[0].report.packet
        rows = [
            hop_row(
                piece.node_id,
                piece.report.metadata or _NO_METADATA,
                ingress_bytes=packet.wire_bytes,
                egress_bytes=packet.wire_bytes,
            )
            for piece in pieces
        ]
        self._emit(packet, rows, now_ns, joined=joined)

    def _emit(
        self, packet: ReportedPacket, rows: list[HopRow], now_ns: int, *, joined: bool
    ) -> None:
        complete = joined and self._is_complete(rows)
        if complete:
            self.complete_count += 1
        else:
            self.incomplete_count += 1
        self._records.append(packet, rows, complete=complete, captured_collector_ns=now_ns)

    def _is_complete(self, rows: Sequence[HopRow]) -> bool:
        """Whether the cables lead from a host through these hops, in order, to a host."""
        if not rows:
            return False
        neighbours = self._neighbours
        arrival: PortKey | None = HOST_END
        for row in rows:
            ingress = (row.node_id, row.ingress_port)
            if arrival == HOST_END:
                if row is not rows[0] or neighbours.get(ingress) != HOST_END:
                    return False
            elif arrival != ingress:
                return False
            arrival = neighbours.get((row.node_id, row.egress_port))
        return arrival == HOST_END


_NO_METADATA = HopMetadata()


def _ingress_key(piece: _Piece) -> PortKey:
    port = (piece.report.metadata or _NO_METADATA).ingress_port
    return piece.node_id, UNKNOWN_PORT if port is None else port


def _egress_key(piece: _Piece) -> PortKey:
    port = (piece.report.metadata or _NO_METADATA).egress_port
    return piece.node_id, UNKNOWN_PORT if port is None else port


def _without(pieces: Sequence[_Piece], used: Sequence[_Piece]) -> list[_Piece]:
    """By identity: two reports may be equal in content."""
    return [piece for piece in pieces if not any(piece is item for item in used)]


class _SinkHop(NamedTuple):
    """The sink's own hop, None if it is on the stack, and the reports it was taken from."""

    hop: HopMetadata | None
    pieces: tuple[_Piece, ...]


def _sink_is_on_stack(piece: _Piece, stack: IntStack) -> bool:
    """Whether the newest entry is the reporting node's own: same node, no other ingress stamp."""
    if not stack.hops or stack.hops[-1].node_id != piece.node_id:
        return False
    metadata = piece.report.metadata
    stamp = None if metadata is None else metadata.ingress_tstamp
    return stamp is None or stamp == stack.hops[-1].ingress_tstamp


def _sink_hop(stack_piece: _Piece, pieces: Sequence[_Piece]) -> _SinkHop | None:
    """The sink's own hop: on the stack, in the same report, or in one with its ingress stamp.

    None while it has not arrived.
    """
    stack = stack_piece.report.packet.stack
    assert stack is not None
    metadata = stack_piece.report.metadata
    if _sink_is_on_stack(stack_piece, stack):
        return _SinkHop(None, ())
    if metadata is None:
        return None
    if metadata.egress_tstamp is not None:
        return _SinkHop(metadata, ())
    for piece in pieces:
        own = piece.report.metadata
        if (
            piece is not stack_piece
            and piece.node_id == stack_piece.node_id
            and own is not None
            and own.ingress_tstamp is not None
            and own.ingress_tstamp == metadata.ingress_tstamp
        ):
            return _SinkHop(own, (piece,))
    return None
