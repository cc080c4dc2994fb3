# SPDX-License-Identifier: Apache-2.0
"""How and where a switch reports: destinations, filters, congestion, drops, clone sessions.

Pure. Reports are packets of their own: a clone waits at the recirculation port until it is one,
and is then routed to its collector like anything else (docs/p4.md).
"""

import hashlib
from collections.abc import Iterator

from controller.entries import (
    NO_ACTION,
    ActionCall,
    CloneSession,
    DefaultEntry,
    MatchValue,
    TableEntry,
    Ternary,
)
from controller.fabric import Collector, Fabric, Switch
from controller.fabric_telemetry import (
    DROP_REASONS,
    DropReport,
    IpNetwork,
    QueueReport,
    Watchlist,
    WatchMode,
)
from controller.targets import TARGETS, egress_copy_bytes, ingress_copy_bytes
from controller.telemetry.metadata import bitmap_words

CLONE_SESSION_INGRESS = 1
"""Reports of a sink: the packet as it was received, with its INT stack; and of drops."""
CLONE_SESSION_EGRESS = 2
"""Postcards: this node's own view of a packet."""

DESTINATION_BUCKET_COUNT = 64
"""Flows are spread over the collectors by the low 6 bits of their hash."""

PRIORITY_QUEUE_PORT = 200
"""A queue of one port wins over the same queue of all ports."""
PRIORITY_QUEUE = 100
PRIORITY_DROP_EXEMPT = 200
"""Reports are exempt whatever else is reported."""
PRIORITY_DROP = 100

DEPTH_MAX = 0xFF_FFFF
LATENCY_MAX = 0xFFFF_FFFF
STACK_BYTES_MAX = 252 * 4
"""What the shim's length leaves for a stack (INT v2.1 section 5.7)."""
_PORT, _U8, _U32 = 0x1FF, 0xFF, 0xFFFF_FFFF


def report_entries(fabric: Fabric, switch: Switch) -> Iterator[TableEntry]:
    """Entries of the report tables that have keys."""
    yield from _destinations(fabric)
    for queue in fabric.reports.queues:
        yield from _queue(fabric, switch, queue)
    drops = {entry.match: entry for drop in fabric.reports.drops for entry in _drops(drop)}
    yield from drops.values()
    if drops:
        yield from _unreported_drops(fabric)


def report_defaults(fabric: Fabric, switch: Switch) -> Iterator[DefaultEntry]:
    """Default actions of the report tables."""
    chosen = fabric.reports.filter
    unit_ns = fabric.model(switch.model).stamp_unit_ns
    yield DefaultEntry(
        table="report_config",
        action=ActionCall.of(
            "set_report_config",
            switch_mac=switch.mac,
            switch_ip=switch.ip,
            dscp=fabric.reports.dscp,
            truncate_bytes=fabric.int_domain.truncate_bytes,
        ),
    )
    yield DefaultEntry(table="report_destination", action=_destination(fabric.collector))
    yield DefaultEntry(
        table="report_filter",
        action=ActionCall.of(
            "set_report_filter",
            filter_mx=int(chosen.mx),
            filter_drops=int(chosen.drops),
            latency_shift=shift_of(chosen.latency_quantum_ns, unit_ns),
            interval_shift=shift_of(chosen.interval_ns, unit_ns),
        ),
    )


def clone_sessions(fabric: Fabric, switch: Switch) -> Iterator[CloneSession]:
    """Both sessions make exactly one copy, which comes back as a report."""
    target = TARGETS[fabric.model(switch.model).target]
    kept = fabric.int_domain.truncate_bytes
    stack = max((_stack_bytes_max(watchlist) for watchlist in fabric.watchlists), default=0)
    for session_id, packet_bytes in (
        (
            CLONE_SESSION_INGRESS,
            ingress_copy_bytes(target, truncate_bytes=kept, stack_bytes_max=stack),
        ),
        (CLONE_SESSION_EGRESS, egress_copy_bytes(target, truncate_bytes=kept)),
    ):
        yield CloneSession(
            session_id=session_id,
            replicas=((target.recirculation_port, target.clone_instance),),
            packet_bytes=packet_bytes,
        )


def _stack_bytes_max(watchlist: Watchlist) -> int:
    """The longest INT-MD stack that the watchlist's packets can carry."""
    if watchlist.mode is not WatchMode.MD or watchlist.remaining_hop_count is None:
        return 0
    hop_bytes = 4 * bitmap_words(watchlist.instruction_bitmap)
    return min(hop_bytes * watchlist.remaining_hop_count, STACK_BYTES_MAX)


def shift_of(duration_ns: int, unit_ns: int) -> int:
    """Largest power of two of stamp units within a duration, as its exponent.

    >>> shift_of(1_000_000_000, 1), shift_of(256, 1), shift_of(256, 1000)
    (29, 8, 0)
    """
    return max(0, (duration_ns // unit_ns).bit_length() - 1)


def collector_of_bucket(collectors: tuple[Collector, ...], bucket: int) -> Collector:
    """The collector of one bucket of flows, the same on every switch (rendezvous hashing).

    Each collector bids for each bucket and the highest bid wins, so that taking one collector out
    of the file, or adding one, moves no bucket between the others. The shares are even on average.
    """

    def bid(collector: Collector) -> tuple[bytes, int]:
        text = collector.ip.to_bytes(4, "big") + bucket.to_bytes(1, "big")
        return hashlib.sha256(text).digest(), collector.ip

    return max(collectors, key=bid)


def _destinations(fabric: Fabric) -> Iterator[TableEntry]:
    if len(fabric.collectors) == 1:
        return
    for bucket in range(DESTINATION_BUCKET_COUNT):
        yield TableEntry.of(
            "report_destination",
            {"bucket": bucket},
            _destination(collector_of_bucket(fabric.collectors, bucket)),
        )


def _destination(collector: Collector) -> ActionCall:
    return ActionCall.of(
        "set_report_destination",
        destination_id=collector.destination_id,
        collector_ip=collector.ip,
        udp_port=collector.udp_port,
    )


def _queue(fabric: Fabric, switch: Switch, queue: QueueReport) -> Iterator[TableEntry]:
    """Either threshold alone starts an episode; one that is not declared is never reached."""
    unit_ns = fabric.model(switch.model).stamp_unit_ns
    latency = LATENCY_MAX
    if queue.latency_ns is not None:
        latency = max(1, -(-queue.latency_ns // unit_ns))
    action = ActionCall.of(
        "set_queue_report",
        depth=DEPTH_MAX if queue.depth_packets is None else queue.depth_packets,
        latency=latency,
        quota=queue.quota,
    )
    match: dict[str, MatchValue | int] = {"queue_id": Ternary(queue.queue, _U8)}
    if not queue.ports:
        yield TableEntry.of("queue_report", match, action, priority=PRIORITY_QUEUE)
    for end in queue.ports:
        if end.node == switch.name:
            of_port = {**match, "egress_port": Ternary(end.port, _PORT)}
            yield TableEntry.of("queue_report", of_port, action, priority=PRIORITY_QUEUE_PORT)


def _drops(drop: DropReport) -> Iterator[TableEntry]:
    flow: dict[str, MatchValue | int] = {}
    if drop.source is not None:
        flow["src_addr"] = prefix_match(drop.source)
    if drop.destination is not None:
        flow["dst_addr"] = prefix_match(drop.destination)
    for reason in drop.reasons or (None,):
        match = flow if reason is None else {**flow, "reason": Ternary(DROP_REASONS[reason], _U8)}
        yield TableEntry.of(
            "drop_report", match, ActionCall.of("report_drop"), priority=PRIORITY_DROP
        )


def _unreported_drops(fabric: Fabric) -> Iterator[TableEntry]:
    """A report that is lost is not reported: reports about reports would never end."""
    for collector in fabric.collectors:
        yield TableEntry.of(
            "drop_report",
            {"dst_addr": Ternary(collector.ip, _U32)},
            NO_ACTION,
            priority=PRIORITY_DROP_EXEMPT,
        )


def prefix_match(prefix: IpNetwork) -> Ternary:
    """The prefix as value and mask.

    >>> from ipaddress import ip_network
    >>> hex(prefix_match(ip_network("10.0.1.0/24")).mask)
    '0xffffff00'
    """
    return Ternary(int(prefix.network_address), int(prefix.netmask))
