# SPDX-License-Identifier: Apache-2.0
"""A collection as the arrays of parts, split so that each part stays below a size.

`packets` and `hops` are those of `correction.records`; addresses that are not IPv4 and the events
(drops, congestion) have arrays of their own. What was not reported is -1.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum, unique

import numpy as np

from controller.collector.outputs.part import Rows
from controller.telemetry.collector import Collection
from controller.telemetry.events import CongestedPacket, DroppedPacket
from controller.telemetry.path_records import PacketAddresses
from correction.records import HOP_DTYPE, PACKET_DTYPE

REASON_BYTES = 48
_WORD = (1 << 64) - 1


@unique
class EventKind(IntEnum):
    """`kind` of an event."""

    DROP = 1
    CONGESTION = 2


ADDRESS_DTYPE = np.dtype(
    [
        ("packet", np.int64),  # row in `packets` of the same part
        ("network", np.uint8),  # NETWORK_IPV6 or NETWORK_ETHERNET of `controller.telemetry.packet`
        ("src_addr_high", np.uint64),
        ("src_addr_low", np.uint64),
        ("dst_addr_high", np.uint64),
        ("dst_addr_low", np.uint64),
    ]
)
EVENT_DTYPE = np.dtype(
    [
        ("kind", np.uint8),  # EventKind
        ("node_id", np.uint32),
        ("reason", f"S{REASON_BYTES}"),  # of a drop; empty for congestion
        ("queue_id", np.int32),
        ("queue_depth", np.int64),
        ("ingress_port", np.int32),
        ("egress_port", np.int32),
        ("ingress_tstamp_local_ns", np.int64),  # the node's clock
        ("egress_tstamp_local_ns", np.int64),
        ("tracked_flow", np.bool_),
        ("capture_collector_ns", np.int64),
        ("traffic", np.uint8),  # the packet, as in `packets`
        ("network", np.uint8),
        ("src_addr_high", np.uint64),
        ("src_addr_low", np.uint64),
        ("dst_addr_high", np.uint64),
        ("dst_addr_low", np.uint64),
        ("protocol", np.uint16),
        ("src_port", np.uint16),
        ("dst_port", np.uint16),
        ("bth_opcode", np.uint8),
        ("dest_qp", np.uint32),
        ("psn", np.uint32),
        ("dscp", np.uint8),
        ("wire_bytes", np.uint32),
    ]
)

PARTS_OVERHEAD_BYTES = 16_384
"""More than a part's prefix and header take."""


def part_arrays(collection: Collection, *, bytes_max: int) -> Iterator[dict[str, Rows]]:
    """The collection in pieces of at most about `bytes_max`; none when there is nothing in it.

    A packet and its hops stay together; one packet is the least.
    """
    room = max(bytes_max - PARTS_OVERHEAD_BYTES, 1)
    yield from _packet_pieces(collection, room)
    events: list[DroppedPacket | CongestedPacket] = [*collection.drops, *collection.congested]
    step = max(room // EVENT_DTYPE.itemsize, 1)
    for first in range(0, len(events), step):
        yield {"events": event_rows(events[first : first + step])}


def _packet_pieces(collection: Collection, room: int) -> Iterator[dict[str, Rows]]:
    packets, hops = collection.packets, collection.hops
    if not len(packets):
        return
    packet_bytes = PACKET_DTYPE.itemsize + ADDRESS_DTYPE.itemsize
    sizes = packet_bytes + packets["hop_count"].astype(np.int64) * HOP_DTYPE.itemsize
    ends = np.cumsum(sizes)
    first = 0
    while first < len(packets):
        before = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, before + room, side="right")), first + 1)
        piece = packets[first:last].copy()
        first_hop = int(piece["first_hop"].min())
        last_hop = int((piece["first_hop"] + piece["hop_count"]).max())
        piece["first_hop"] -= first_hop
        arrays = {"packets": piece, "hops": hops[first_hop:last_hop]}
        addresses = address_rows(collection.addresses, first, last)
        if len(addresses):
            arrays["addresses"] = addresses
        yield arrays
        first = last


def address_rows(addresses: Mapping[int, PacketAddresses], first: int, last: int) -> Rows:
    """The addresses of packets [first:last], their rows counted from `first`."""
    rows = [
        (row - first, item.network, *_words(item.src_addr), *_words(item.dst_addr))
        for row, item in sorted(addresses.items())
        if first <= row < last
    ]
    return np.array(rows, ADDRESS_DTYPE)


def event_rows(events: list[DroppedPacket | CongestedPacket]) -> Rows:
    """Drops and congestion as rows."""
    return np.array([_event_row(event) for event in events], EVENT_DTYPE)


def _event_row(event: DroppedPacket | CongestedPacket) -> tuple[object, ...]:
    key = event.packet.key
    if isinstance(event, DroppedPacket):
        kind, reason, depth = EventKind.DROP, event.reason.encode()[:REASON_BYTES], None
        egress_ns = None
    else:
        kind, reason, depth = EventKind.CONGESTION, b"", event.queue_depth
        egress_ns = event.egress_tstamp_local_ns
    return (
        *(kind, event.node_id, reason, _known(event.queue_id), _known(depth)),
        *(_known(event.ingress_port), _known(event.egress_port)),
        *(_known(event.ingress_tstamp_local_ns), _known(egress_ns), event.tracked_flow),
        *(event.capture_collector_ns, key.traffic, key.network),
        *(*_words(event.packet.src_addr), *_words(event.packet.dst_addr)),
        *(key.protocol, key.src_port, key.dst_port, key.bth_opcode, key.dest_qp, key.psn),
        *(event.packet.dscp, event.packet.wire_bytes),
    )


def _known(value: int | None) -> int:
    return -1 if value is None else value


def _words(address: int) -> tuple[int, int]:
    return address >> 64, address & _WORD
