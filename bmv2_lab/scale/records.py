# SPDX-License-Identifier: Apache-2.0
"""Batches that were carried, as the collector would hand them over: packets and hops.

A RoCEv2 packet is reported twice by its last switch (the INT-MD stack when it comes in, the
switch's own hop when it leaves); a PTP packet once by every switch. A packet's capture time is the
arrival of its last report on the collector's clock. Nothing is lost or rejected here.
"""

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.nuisance import Nuisance
from bmv2_lab.scale.transit import Batch, Transit, hop_lengths
from bmv2_lab.scale.world import World
from bmv2_lab.simulator.switch_node import INGRESS_PROCESSING_NS
from correction.records import (
    HOP_DTYPE,
    PACKET_DTYPE,
    TRAFFIC_PTP,
    TRAFFIC_ROCE,
    Hops,
    Packets,
)

Int64s = NDArray[np.int64]


def reported(
    batch: Batch,
    transit: Transit,
    rows: Int64s,
    world: World,
    rng: np.random.Generator,
    *,
    traffic: int,
    dscp: int,
) -> tuple[Packets, Hops]:
    """Records of these rows, in order of capture; identities beyond the 5-tuple are left zero."""
    topology, paths = world.topology, transit.paths
    capture_true_ns = _capture_true_ns(transit, rows, rng, world.nuisance, traffic)
    collector = np.full(len(rows), world.collector)
    capture_ns = world.oscillators.read_ns(collector, capture_true_ns)

    count = paths.count[rows].astype(np.int64)
    first = np.cumsum(count) - count
    packets = np.zeros(len(rows), PACKET_DTYPE)
    packets["first_hop"], packets["hop_count"] = first, count
    packets["complete"], packets["traffic"] = True, traffic
    packets["src_ip"] = topology.nic_ip[batch.src_nic[rows]]
    packets["dst_ip"] = topology.nic_ip[batch.dst_nic[rows]]
    packets["src_port"], packets["dst_port"] = batch.src_port[rows], batch.dst_port[rows]
    packets["dscp"], packets["wire_bytes"] = dscp, batch.wire_bytes[rows]
    packets["capture_collector_ns"] = capture_ns

    row = np.repeat(np.arange(len(rows)), count)
    hop = np.arange(len(row)) - first[row]
    link = paths.link[rows[row], hop].astype(np.int64)
    before = paths.link[rows[row], np.maximum(hop - 1, 0)].astype(np.int64)
    into = np.where(hop > 0, before, topology.access_link[batch.src_nic[rows[row]]] ^ 1)
    clock = topology.sender[link]
    came, left = hop_lengths(
        batch.wire_bytes[rows[row]], batch.instrumented[rows[row]], hop, hop == count[row] - 1
    )
    hops = np.zeros(len(row), HOP_DTYPE)
    hops["node_id"] = topology.node_id[clock - topology.nic_count]
    hops["ingress_port"] = topology.receiver_port[into]
    hops["egress_port"] = topology.sender_port[link]
    hops["queue_id"] = batch.queue_id
    hops["queue_depth"] = transit.depth_frames[rows[row], hop]
    unit_ns = world.nuisance.stamp_unit_ns
    for name, true_ns in (("ingress", transit.ingress_ns), ("egress", transit.egress_ns)):
        local_ns = world.oscillators.read_ns(clock, true_ns[rows[row], hop])
        hops[f"{name}_tstamp_local_ns"] = local_ns // unit_ns * unit_ns
    hops["ingress_bytes"], hops["egress_bytes"] = came, left
    return packets, hops


def in_order_of_capture(packets: Packets, hops: Hops) -> tuple[Packets, Hops]:
    """The same packets as a collector finishes them."""
    order = np.argsort(packets["capture_collector_ns"], kind="stable")
    packets = packets[order]
    count = packets["hop_count"].astype(np.int64)
    first = np.cumsum(count) - count
    within = np.arange(int(count.sum())) - np.repeat(first, count)
    source = np.repeat(packets["first_hop"], count) + within
    packets["first_hop"] = first
    return packets, hops[source]


def joined(parts: list[tuple[Packets, Hops]]) -> tuple[Packets, Hops]:
    """Several pairs of arrays as one."""
    if not parts:
        return np.zeros(0, PACKET_DTYPE), np.zeros(0, HOP_DTYPE)
    packets = np.concatenate([part[0] for part in parts])
    starts = np.cumsum([0, *(len(part[1]) for part in parts[:-1])])
    packets["first_hop"] += np.repeat(starts, [len(part[0]) for part in parts])
    return packets, np.concatenate([part[1] for part in parts])


def _capture_true_ns(
    transit: Transit, rows: Int64s, rng: np.random.Generator, nuisance: Nuisance, traffic: int
) -> Int64s:
    count = transit.paths.count[rows].astype(np.int64)
    last = count - 1

    def arrival_ns(left_ns: Int64s) -> Int64s:
        jitter_ns = np.rint(rng.exponential(nuisance.report_jitter_mean_ns, len(rows)))
        return left_ns + nuisance.report_latency_ns + jitter_ns.astype(np.int64)

    capture_ns = arrival_ns(transit.egress_ns[rows, last])
    if traffic == TRAFFIC_ROCE:
        stack_ns = arrival_ns(transit.ingress_ns[rows, last] + INGRESS_PROCESSING_NS)
        return np.where(count > 1, np.maximum(capture_ns, stack_ns), capture_ns)
    assert traffic == TRAFFIC_PTP, "nothing else is simulated"
    for hop in range(int(count.max(initial=1)) - 1):
        postcard_ns = arrival_ns(transit.egress_ns[rows, np.minimum(hop, last)])
        capture_ns = np.where(hop < last, np.maximum(capture_ns, postcard_ns), capture_ns)
    return capture_ns
