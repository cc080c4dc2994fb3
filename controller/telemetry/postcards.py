# SPDX-License-Identifier: Apache-2.0
"""Reports of one packet joined into its path: hops in order, source to sink.

Reports of one packet share its key (`packet.PacketKey`) and arrive within a window. Three kinds of
evidence are joined: an INT-MD stack, reported at the sink, with the sink's own hop from a second
report of the same node and ingress stamp; postcards, one per node, ordered by the cables; and link
probes, which meet their sender twice. What does not become a whole path within the window is
handed over as incomplete and counted. Paths are per packet, never assumed per flow.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.telemetry.link_references import Fit, LinkReferences
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.packet import PacketKey, ReportedPacket
from controller.telemetry.path_records import HopRow, PathRecords
from controller.telemetry.path_rows import postcard_rows, stack_rows
from controller.telemetry.pieces import (
    Piece,
    attempts,
    copies,
    in_order,
    is_repeated,
    is_repeated_copy,
    make_piece,
    probe_path,
    sink_hop,
    whole_path,
    without,
)
from controller.telemetry.report import Report
from controller.telemetry.topology import HOST_END, PortKey, TelemetryFabric
from correction.records import TRAFFIC_PROBE

JOIN_WINDOW_NS = 1_000_000_000
"""Reports of one packet arrive within this of each other: far above any queueing of reports, far
below the time in which a PTP sequence id or a PSN comes round (more than a minute)."""
PENDING_PACKETS_MAX = 200_000
"""Packets that wait for more reports; beyond it the oldest are closed as incomplete."""
PIECES_PER_PACKET_MAX = 64
"""Reports that wait under one key; a path has fewer hops, so more are a sender that repeats a key
(a constant PSN or sequence id), and all that wait is closed as incomplete."""


@dataclass(slots=True)
class _Pending:
    """Reports of one packet key that are not yet a path."""

    first_collector_ns: int
    pieces: list[Piece] = field(default_factory=list)


class PathJoiner:
    """Joins reports into packets and hops; time is the collector's and comes in as an argument."""

    def __init__(
        self,
        fabric: TelemetryFabric,
        records: PathRecords,
        references: LinkReferences,
        *,
        window_ns: int = JOIN_WINDOW_NS,
    ) -> None:
        self._neighbours: Mapping[PortKey, PortKey] = fabric.neighbours
        self._nodes = fabric.nodes
        self._window_ns = window_ns
        self._pending: OrderedDict[PacketKey, _Pending] = OrderedDict()
        self._records = records
        self._references = references
        self.complete_count = 0
        self.incomplete_count = 0
        self.resent_count = 0
        """Packets that were sent more than once while their reports waited."""

    def add(self, node_id: int, report: Report, now_ns: int) -> None:
        """Take one report; every node in it must be one of the fabric's."""
        self.expire(now_ns)
        packet = report.packet
        pending = self._pending.get(packet.key)
        if pending is None:
            pending = self._pending[packet.key] = _Pending(now_ns)
        pending.pieces.append(make_piece(node_id, report, now_ns))
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

    # ------------------------------------------------------------ for who keeps the reports himself

    def join(self, pieces: Sequence[Piece]) -> list[Piece] | None:
        """Emit the path that the newest of one packet's reports completes.

        What is left of them; None if there is no path yet.
        """
        pending = _Pending(pieces[0].capture_collector_ns, list(pieces))
        return pending.pieces if self._emit_path(pending) else None

    def give_up(self, pieces: Sequence[Piece]) -> None:
        """Emit the reports of one packet that will not become whole."""
        self._close(_Pending(pieces[0].capture_collector_ns, list(pieces)))

    # ------------------------------------------------------------ joining

    def _emit_path(self, pending: _Pending) -> bool:
        """Emit the path that the newest piece completes, and drop its pieces."""
        pieces = pending.pieces
        if len(pieces) > 1 and pieces[0].report.packet.key.is_multicast:
            return False  # a hop may be of more copies than have come
        if pieces[0].report.packet.key.traffic == TRAFFIC_PROBE:
            path, complete = probe_path(pieces, self._neighbours)
            if complete:
                self._emit_postcards(path, complete=True)
                pending.pieces = without(pieces, path)
            return complete
        for piece in pieces:
            if piece.report.packet.stack is None:
                continue
            if piece.report.dropped:  # no sink will tell more
                self._emit_stack(piece, piece.report.metadata, (), joined=False)
                pending.pieces = without(pieces, (piece,))
                return True
            own = sink_hop(piece, pieces)
            if own is not None:
                self._emit_stack(piece, own.hop, own.pieces, joined=True)
                pending.pieces = without(pieces, (piece, *own.pieces))
                return True
        postcards = _postcards(pieces)
        whole = whole_path(postcards, self._neighbours)
        if whole is None or is_repeated(postcards) or not self._references.admit(whole):
            return False  # which postcard is of which attempt shows when all have come
        self._emit_postcards(whole, complete=True)
        pending.pieces = without(pieces, whole)
        return True

    def _close_oldest(self) -> None:
        """Give up on the packet that has waited longest."""
        _key, pending = self._pending.popitem(last=False)
        self._close(pending)

    def _close(self, pending: _Pending) -> None:
        """Emit the pieces of a packet that will not become whole."""
        if pending.pieces[0].report.packet.key.traffic == TRAFFIC_PROBE:
            rest = pending.pieces
            while rest:
                path, complete = probe_path(rest, self._neighbours)
                self._emit_postcards(path, complete=complete)
                rest = without(rest, path)
            return
        for piece in pending.pieces:
            if piece.report.packet.stack is not None:
                self._emit_stack(piece, piece.report.metadata, (), joined=False)
        postcards = _postcards(pending.pieces)
        if pending.pieces[0].report.packet.key.is_multicast:
            self._close_copies(postcards)
        elif is_repeated(postcards):
            self.resent_count += 1
            for path in attempts(postcards, self._neighbours, self._fits, self._stamp_width_bits):
                self._emit_parts([path])
        elif postcards:
            whole = whole_path(postcards, self._neighbours)
            if whole is not None and self._references.is_possible(whole):
                self._references.learn(whole)
                self._emit_postcards(whole, complete=True)
                postcards = without(postcards, whole)
            if postcards:
                self._emit_parts(self._references.cut(in_order(postcards, self._neighbours)))

    def _close_copies(self, postcards: Sequence[Piece]) -> None:
        """Emit the paths of a multicast packet's copies."""
        if is_repeated_copy(postcards):  # which are of one sending cannot be told
            self.resent_count += 1
            self._emit_parts([[piece] for piece in postcards])
            return
        for path in copies(postcards, self._neighbours):
            whole = whole_path(path, self._neighbours)
            if whole is not None and self._references.is_possible(whole):
                self._references.learn(whole)
                self._emit_postcards(whole, complete=True)
            else:
                self._emit_parts(self._references.cut(path))

    def _emit_parts(self, parts: Sequence[Sequence[Piece]]) -> None:
        for part in parts:
            complete = whole_path(part, self._neighbours) is not None
            self._emit_postcards(part, complete=complete)

    def _fits(self, sender: Piece, receiver: Piece) -> bool | None:
        fit = self._references.compare(sender, receiver)
        return None if fit is Fit.UNKNOWN else fit is Fit.FITS

    def _stamp_width_bits(self, node_id: int) -> int:
        return self._nodes[node_id].stamp_width_bits

    # ------------------------------------------------------------ rows

    def _emit_stack(
        self,
        piece: Piece,
        sink: HopMetadata | None,
        sink_pieces: Sequence[Piece],
        *,
        joined: bool,
    ) -> None:
        """The path of an INT-MD stack; `sink_pieces` are the reports that `sink` came from."""
        rows = stack_rows(piece, sink)
        complete = joined and self._is_complete(rows)
        self._emit(piece.report.packet, rows, (piece, *sink_pieces), complete=complete)

    def _emit_postcards(self, pieces: Sequence[Piece], *, complete: bool) -> None:
        """A path of postcards in order."""
        rows = postcard_rows(pieces, self._neighbours)
        self._emit(pieces[0].report.packet, rows, pieces, complete=complete)

    def _emit(
        self,
        packet: ReportedPacket,
        rows: list[HopRow],
        pieces: Sequence[Piece],
        *,
        complete: bool,
    ) -> None:
        if complete:
            self.complete_count += 1
        else:
            self.incomplete_count += 1
        captured_collector_ns = max(piece.capture_collector_ns for piece in pieces)
        self._records.append(
            packet, rows, complete=complete, captured_collector_ns=captured_collector_ns
        )

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


def _postcards(pieces: Sequence[Piece]) -> list[Piece]:
    return [piece for piece in pieces if piece.report.packet.stack is None]
