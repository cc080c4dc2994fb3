# SPDX-License-Identifier: Apache-2.0
"""Hop rows of a path, with the length of the frame on each of its links.

A frame is as long as the packet was when it entered the fabric, plus what INT adds on the way; the
sink takes all of that off again.
"""

from collections.abc import Sequence

from controller.telemetry.metadata import HopMetadata
from controller.telemetry.path_records import HopRow, hop_row
from controller.telemetry.pieces import Neighbours, Piece, sink_is_on_stack
from controller.telemetry.topology import HOST_END, PortKey


def stack_rows(piece: Piece, sink: HopMetadata | None) -> list[HopRow]:
    """Hops of an INT-MD stack and the sink's own, if it is not on the stack.

    Each node but the sink adds its entry, the source also shim and header. A node that dropped the
    packet takes the sink's place; nothing left it, so its egress length is 0.
    """
    packet = piece.report.packet
    stack = packet.stack
    assert stack is not None
    hops = [(hop.node_id or 0, hop) for hop in stack.hops]
    if sink is not None and not sink_is_on_stack(piece, stack):
        hops.append((piece.node_id, sink))
    last_bytes = 0 if piece.report.dropped else packet.wire_bytes
    rows = []
    frame_bytes = packet.wire_bytes
    growth = stack.hop_metadata_bytes + stack.source_bytes
    for index, (node_id, hop) in enumerate(hops):
        is_last = index == len(hops) - 1 and node_id == piece.node_id
        egress_bytes = last_bytes if is_last else frame_bytes + growth
        rows.append(hop_row(node_id, hop, ingress_bytes=frame_bytes, egress_bytes=egress_bytes))
        frame_bytes = egress_bytes
        growth = stack.hop_metadata_bytes
    return rows


def postcard_rows(pieces: Sequence[Piece], neighbours: Neighbours) -> list[HopRow]:
    """Hops of postcards in order; only INT-MX makes the packet longer, at its source.

    A postcard shows the packet as it leaves its node, a drop report as it came in.
    """
    wire_bytes = pieces[0].report.packet.wire_bytes
    rows: list[HopRow] = []
    before: PortKey | None = None
    for piece in pieces:
        frame_bytes = wire_bytes + piece.report.packet.int_bytes
        if neighbours.get(piece.ingress_key) == HOST_END:
            ingress_bytes = wire_bytes
        elif before is not None and neighbours.get(before) == piece.ingress_key:
            ingress_bytes = rows[-1].egress_bytes
        else:
            ingress_bytes = frame_bytes
        rows.append(
            hop_row(
                piece.node_id,
                piece.values,
                ingress_bytes=ingress_bytes,
                egress_bytes=0 if piece.report.dropped else frame_bytes,
            )
        )
        before = piece.egress_key
    return rows
