# SPDX-License-Identifier: Apache-2.0
"""Reports of one packet, put in the order in which the packet met their senders.

Pure: pieces in, paths out. A path follows the cables; what it cannot follow stays a fragment.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from controller.telemetry.int_headers import IntStack
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.path_records import UNKNOWN_PORT
from controller.telemetry.report import Report
from controller.telemetry.topology import HOST_END, PortKey
from controller.telemetry.unwrap import UNWRAP_WIDTH_BITS_MAX, unwrap

NO_METADATA = HopMetadata()

Neighbours = Mapping[PortKey, PortKey]


class Piece(NamedTuple):
    """One report, who sent it and when it arrived; `make_piece` fills the rest."""

    node_id: int
    report: Report
    capture_collector_ns: int
    values: HopMetadata
    """What the sender says of itself."""
    ingress_key: PortKey
    """(node, port) at which the packet came in."""
    egress_key: PortKey
    """(node, port) at which the packet left; a dropped one left nowhere."""


def make_piece(node_id: int, report: Report, capture_collector_ns: int) -> Piece:
    """The piece of a report."""
    values = report.metadata or NO_METADATA
    ingress_port, egress_port = values.ingress_port, values.egress_port
    if ingress_port is None:
        ingress_port = UNKNOWN_PORT
    if egress_port is None or report.dropped:
        egress_port = UNKNOWN_PORT
    ingress_key, egress_key = (node_id, ingress_port), (node_id, egress_port)
    return Piece(node_id, report, capture_collector_ns, values, ingress_key, egress_key)


def without(pieces: Sequence[Piece], used: Sequence[Piece]) -> list[Piece]:
    """By identity: two reports may be equal in content."""
    return [piece for piece in pieces if not any(piece is item for item in used)]


# ---------------------------------------------------------------- INT-MD: stack and sink


class SinkHop(NamedTuple):
    """The sink's own hop, None if it is on the stack, and the reports it was taken from."""

    hop: HopMetadata | None
    pieces: tuple[Piece, ...]


def sink_is_on_stack(piece: Piece, stack: IntStack) -> bool:
    """Whether the newest entry is the reporting node's own: same node, no other ingress stamp."""
    if not stack.hops or stack.hops[-1].node_id != piece.node_id:
        return False
    stamp = piece.values.ingress_tstamp
    return stamp is None or stamp == stack.hops[-1].ingress_tstamp


def sink_hop(stack_piece: Piece, pieces: Sequence[Piece]) -> SinkHop | None:
    """The sink's own hop: on the stack, in the same report, or in one with its ingress stamp.

    None while it has not arrived.
    """
    stack = stack_piece.report.packet.stack
    assert stack is not None
    metadata = stack_piece.report.metadata
    if sink_is_on_stack(stack_piece, stack):
        return SinkHop(None, ())
    if metadata is None:
        return None
    if metadata.egress_tstamp is not None:
        return SinkHop(metadata, ())
    for piece in pieces:
        own = piece.report.metadata
        if (
            piece is not stack_piece
            and piece.node_id == stack_piece.node_id
            and own is not None
            and own.ingress_tstamp is not None
            and own.ingress_tstamp == metadata.ingress_tstamp
        ):
            return SinkHop(own, (piece,))
    return None


# ---------------------------------------------------------------- postcards: INT-XD, INT-MX, PTP


def is_repeated(postcards: Sequence[Piece]) -> bool:
    """Whether a node reports the packet twice: it was sent again, under the same key."""
    return len({piece.node_id for piece in postcards}) < len(postcards)


def copies(postcards: Sequence[Piece], neighbours: Neighbours) -> list[list[Piece]]:
    """The path of each copy of a multicast packet, backwards from where it was seen last.

    Copies share the hops in front of where they part. What two paths share begins both, and one
    stands next to the other with which it shares most.
    """
    by_egress = {piece.egress_key: piece for piece in postcards}
    arrivals = {piece.ingress_key for piece in postcards}
    paths = [
        _backwards(piece, by_egress, neighbours)
        for piece in postcards
        if neighbours.get(piece.egress_key) not in arrivals
    ]
    paths.sort(key=lambda path: [(piece.ingress_key, piece.egress_key) for piece in path])
    astray = without(postcards, [piece for path in paths for piece in path])
    return [*paths, *([piece] for piece in astray)]


def _backwards(
    last: Piece, by_egress: Mapping[PortKey, Piece], neighbours: Neighbours
) -> list[Piece]:
    """The hops that lead to `last`, as far back as they are there."""
    path = [last]
    while True:
        before = neighbours.get(path[-1].ingress_key)
        piece = None if before is None else by_egress.get(before)
        if piece is None or any(piece is one for one in path):
            return path[::-1]
        path.append(piece)


def is_repeated_copy(postcards: Sequence[Piece]) -> bool:
    """Whether a port reports a multicast packet twice: it was sent again, under the same key."""
    return len({piece.egress_key for piece in postcards}) < len(postcards)


def whole_path(postcards: Sequence[Piece], neighbours: Neighbours) -> list[Piece] | None:
    """The path from host to host, if all of it is there."""
    if all(neighbours.get(piece.egress_key) != HOST_END for piece in postcards):
        return None
    for piece in postcards:
        if neighbours.get(piece.ingress_key) == HOST_END:
            chain = _follow(piece, postcards, neighbours)
            if neighbours.get(chain[-1].egress_key) == HOST_END:
                return chain
    return None


def in_order(postcards: Sequence[Piece], neighbours: Neighbours) -> list[Piece]:
    """Fragments of a path one after the other, the one that starts at a host first."""
    rest = list(postcards)
    chain: list[Piece] = []
    while rest:
        fragment = _follow(_fragment_start(rest, neighbours), rest, neighbours)
        rest = without(rest, fragment)
        chain += fragment
    return chain


def attempts(
    postcards: Sequence[Piece],
    neighbours: Neighbours,
    fits: Callable[[Piece, Piece], bool | None],
    width_bits: Callable[[int], int],
) -> list[list[Piece]]:
    """Postcards of a packet that was sent more than once, told apart; newest attempts first.

    Two hops belong together when their stamps `fits` what the link has shown before. Where nothing
    was shown yet (None), they do when both nodes saw equally many attempts: then the newest is the
    newest of both. All else is a path of its own: a sample that spans two attempts would be off by
    the time between them. `width_bits`: of a node's stamps, whose order is that of the attempts.
    """
    seen: dict[int, list[Piece]] = {}
    for piece in postcards:
        seen.setdefault(piece.node_id, []).append(piece)
    for node_id, pieces in seen.items():
        _sort_by_stamp(pieces, width_bits(node_id))
    counts = {node_id: len(pieces) for node_id, pieces in seen.items()}
    paths = []
    while any(seen.values()):
        newest = [pieces[-1] for pieces in seen.values() if pieces]
        path: list[Piece] = []
        following: Piece | None = _fragment_start(newest, neighbours)
        while following is not None:
            here = following
            seen[here.node_id] = without(seen[here.node_id], (here,))
            path.append(here)
            far = neighbours.get(here.egress_key)
            found = [] if far is None else seen.get(far[0], [])
            found = [piece for piece in found if piece.ingress_key == far]
            following = next((piece for piece in reversed(found) if fits(here, piece)), None)
            equal = bool(found) and counts[found[-1].node_id] == counts[here.node_id]
            if following is None and equal and fits(here, found[-1]) is None:
                following = found[-1]
        paths.append(path)
    return paths


def _sort_by_stamp(pieces: list[Piece], width_bits: int) -> None:
    """Oldest first on their node's clock, across a wrap; pieces without a stamp come first."""
    stamps = [_stamp(piece) for piece in pieces]
    anchor = next((stamp for stamp in stamps if stamp is not None), 0)
    width = min(width_bits, UNWRAP_WIDTH_BITS_MAX)

    def order(piece: Piece) -> int:
        stamp = _stamp(piece)
        return -1 if stamp is None else (1 << 70) + unwrap(stamp, width, anchor)

    pieces.sort(key=order)


def _stamp(piece: Piece) -> int | None:
    values = piece.values
    return values.egress_tstamp if values.ingress_tstamp is None else values.ingress_tstamp


def _follow(start: Piece, pieces: Sequence[Piece], neighbours: Neighbours) -> list[Piece]:
    """Postcards in the order of the cables, from `start` as far as the next is there."""
    by_ingress: dict[PortKey | None, Piece] = {}
    for piece in pieces:
        by_ingress.setdefault(piece.ingress_key, piece)
    chain = [start]
    while len(chain) < len(pieces):
        following = by_ingress.get(neighbours.get(chain[-1].egress_key))
        if following is None or any(following is piece for piece in chain):
            break
        chain.append(following)
    return chain


def _fragment_start(pieces: Sequence[Piece], neighbours: Neighbours) -> Piece:
    """The first hop of a path, else one whose predecessor is missing, else any."""
    egress_keys = {piece.egress_key for piece in pieces}
    before = [neighbours.get(piece.ingress_key) for piece in pieces]
    if HOST_END in before:
        return pieces[before.index(HOST_END)]
    orphans = (p for p, far in zip(pieces, before, strict=True) if far not in egress_keys)
    return next(orphans, pieces[0])


# ---------------------------------------------------------------- link probes


def probe_path(pieces: Sequence[Piece], neighbours: Neighbours) -> tuple[list[Piece], bool]:
    """Hops of one probe in order - out of its sender, at the neighbour, home - and if they are all.

    The sender is there twice: its first hop has an egress stamp only, its last an ingress stamp.
    """
    packet_key = pieces[0].report.packet.key
    key = (packet_key.probe_node_id, packet_key.probe_egress_port)
    steps: list[list[Piece]] = [[], [], []]
    for piece in pieces:
        returning = piece.report.packet.probe_returning
        step = 1 if piece.node_id != key[0] else 2 if returning else 0
        steps[step].append(piece)
    path = [step[0] for step in steps if step]
    if len(path) < 3:
        return path, False
    out, bounced, home = path
    complete = (
        neighbours.get(key) == bounced.ingress_key == bounced.egress_key
        and home.ingress_key == key
        and out.egress_key == key
    )
    return path, complete
