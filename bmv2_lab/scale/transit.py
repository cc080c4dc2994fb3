# SPDX-License-Identifier: Apache-2.0
"""Packets from NIC to NIC: every hop's instants, stage by stage.

A path goes up the tiers and down again, so that a port's packets come from lower stages alone:
stage after stage is served as one array, sorted by port and time.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.scale.paths import NO_LINK, Paths, find_paths
from bmv2_lab.scale.ports import (
    Arrivals,
    LoadTable,
    PortConstants,
    load_table,
    send_in_order,
    serve,
)
from bmv2_lab.scale.world import World
from bmv2_lab.simulator.egress_port import OVERHEAD_BYTES
from bmv2_lab.simulator.faults import LINK_FAULT_NS
from bmv2_lab.simulator.switch_node import INGRESS_PROCESSING_NS

INT_SOURCE_BYTES = 16
"""Shim and INT-MD header."""
INT_HOP_BYTES = 32
"""Eight words of the demo's instruction bitmap."""

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]


@dataclass(slots=True, kw_only=True)
class Batch:
    """Packets that are sent; one row each."""

    src_nic: Int64s
    dst_nic: Int64s
    src_port: Int64s
    dst_port: Int64s
    ready_ns: Int64s
    """True time at which its NIC has it to send."""
    wire_bytes: Int64s
    """Frame with FCS as it enters the fabric."""
    instrumented: NDArray[np.bool_]
    """INT-MD is inserted at the first switch and removed at the last."""
    queue_id: int
    message: Int64s
    """Consecutive packets of one message have one number; -1 - row for single ones."""
    skipped_frames: Int64s
    """Frames of its message, as long as it, that are sent before it but not simulated."""
    stream_of_message: bool = False
    """ready_ns already are the instants at which the NIC sends: messages queue as a whole."""

    def __len__(self) -> int:
        return len(self.src_nic)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitFault:
    """One injected delay on the way of one packet."""

    row: int
    hop: int
    extra_ns: int
    on_link: bool
    """The link after the hop is slow for a while; else a burst is in the hop's queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transit:
    """When a batch's packets were where; true instants, [packet] or [packet, hop]."""

    paths: Paths
    sent_ns: Int64s
    """First bit's stamp at the sending NIC."""
    ingress_ns: Int64s
    egress_ns: Int64s
    depth_frames: Int64s
    received_ns: Int64s
    """Stamp at the receiving NIC."""


class Network:
    """One world's ports, ready to carry batches."""

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        """rng draws the pools of stationary queue states."""
        self.world = world
        self._stage = world.topology.stage
        self._table: LoadTable = load_table(rng, world.loads, world.speed_gbps)
        self._ports = PortConstants(
            load=world.load,
            egress_ns=world.egress_ns,
            far_ns=world.delay_ns + world.ingress_ns,
            at_frame_end=world.at_frame_end,
            ns_per_byte=world.ns_per_byte,
            overhead_bytes=OVERHEAD_BYTES,
            jitter_mean_ns=world.nuisance.egress_jitter_mean_ns,
            jitter_max_ns=world.nuisance.egress_jitter_max_ns,
        )

    def frame_work_ns(self, wire_bytes: Int64s) -> Int64s:
        """Port time of frames, preamble and gap included, whole ns."""
        work = (wire_bytes + OVERHEAD_BYTES) * self.world.ns_per_byte
        return np.asarray(np.rint(work), np.int64)

    def paths(self, batch: Batch) -> Paths:
        """The ways that the batch's packets take."""
        return find_paths(
            self.world.topology, batch.src_nic, batch.dst_nic, batch.src_port, batch.dst_port
        )

    def carry(
        self,
        batch: Batch,
        rng: np.random.Generator,
        faults: tuple[TransitFault, ...] = (),
        paths: Paths | None = None,
    ) -> Transit:
        """Send a batch; rows keep their order, whatever happens on the way."""
        topology = self.world.topology
        paths = paths or self.paths(batch)
        count, hops_max = paths.link.shape
        sent_ns = batch.ready_ns
        if not batch.stream_of_message:
            work_ns = self.frame_work_ns(batch.wire_bytes)
            sent_ns = send_in_order(batch.src_nic, batch.ready_ns, work_ns)
        every = np.arange(count)
        arrival_ns = self._one_stage(
            batch,
            every,
            rng,
            port=topology.access_link[batch.src_nic] ^ 1,
            time_ns=sent_ns,
            queued_bytes=np.zeros(count, np.int64),
            sent_bytes=batch.wire_bytes,
            from_nic=True,
        )[2]
        ingress_ns, egress_ns, depth = np.zeros((3, count, hops_max), np.int64)
        received_ns = np.zeros(count, np.int64)
        at_hop = np.zeros(count, np.int64)
        stage = np.where(paths.link != NO_LINK, self._stage[paths.link], -1)
        for now in range(1, 2 * topology.tier_count + 1):
            rows = np.flatnonzero(stage[every, np.minimum(at_hop, hops_max - 1)] == now)
            if not len(rows):
                continue
            hop = at_hop[rows]
            port = paths.link[rows, hop].astype(np.int64)
            ingress_ns[rows, hop] = arrival_ns[rows]
            last = hop == paths.count[rows] - 1
            came, leaves = hop_lengths(batch.wire_bytes[rows], batch.instrumented[rows], hop, last)
            inject_ns = np.zeros(len(rows))
            for fault in faults:
                if not fault.on_link:
                    inject_ns[(rows == fault.row) & (hop == fault.hop)] += fault.extra_ns
            out_ns, deep, far_ns = self._one_stage(
                batch,
                rows,
                rng,
                port=port,
                time_ns=arrival_ns[rows] + INGRESS_PROCESSING_NS,
                # the sink takes INT off before it queues the packet
                queued_bytes=np.where(last, batch.wire_bytes[rows], came),
                sent_bytes=leaves,
                inject_ns=inject_ns,
            )
            for fault in faults:
                struck = np.flatnonzero((rows == fault.row) & (hop == fault.hop))
                if fault.on_link and len(struck):
                    since_ns = out_ns - out_ns[struck[0]]
                    slow = (port == port[struck[0]]) & (since_ns >= 0)
                    far_ns[slow & (since_ns <= LINK_FAULT_NS)] += fault.extra_ns
            egress_ns[rows, hop], depth[rows, hop] = out_ns, deep
            arrival_ns[rows] = far_ns
            received_ns[rows[last]] = far_ns[last]
            at_hop[rows] += 1
        return Transit(
            paths=paths,
            sent_ns=sent_ns,
            ingress_ns=ingress_ns,
            egress_ns=egress_ns,
            depth_frames=depth,
            received_ns=received_ns,
        )

    def _one_stage(
        self,
        batch: Batch,
        rows: Int64s,
        rng: np.random.Generator,
        *,
        port: Int64s,
        time_ns: Int64s,
        queued_bytes: Int64s,
        sent_bytes: Int64s,
        inject_ns: Float64s | None = None,
        from_nic: bool = False,
    ) -> tuple[Int64s, Int64s, Int64s]:
        """Serve one stage: dequeue instants, depths and arrivals at the far ends, by row."""
        order = np.lexsort((rows, time_ns, port))
        chosen = rows[order]
        skipped = np.zeros(len(rows), np.int64) if from_nic else batch.skipped_frames[chosen]
        left = serve(
            rng,
            Arrivals(
                port=port[order],
                time_ns=time_ns[order],
                queue_id=batch.queue_id,
                queued_bytes=queued_bytes[order],
                sent_bytes=sent_bytes[order],
                message=batch.message[chosen],
                skipped_bytes=skipped * batch.wire_bytes[chosen],
                skipped_frames=skipped,
                inject_ns=np.zeros(len(rows)) if inject_ns is None else inject_ns[order],
            ),
            self._ports,
            self._table,
        )
        out_ns, depth, far_ns = np.zeros((3, len(rows)), np.int64)
        out_ns[order], depth[order] = left.dequeue_ns, left.depth_frames
        far_ns[order] = left.arrival_ns
        return out_ns, depth, far_ns


def hop_lengths(
    wire_bytes: Int64s, instrumented: NDArray[np.bool_], hop: Int64s, last: NDArray[np.bool_]
) -> tuple[Int64s, Int64s]:
    """Bytes of frames before and behind a hop: INT grows by hop, the sink takes it off.

    A packet whose source is its sink never carries INT on a wire.
    """
    growth = np.where(instrumented, INT_SOURCE_BYTES + hop * INT_HOP_BYTES, 0)
    came = wire_bytes + np.where(hop > 0, growth, 0)
    return came, np.where(last | ~instrumented, wire_bytes, wire_bytes + growth + INT_HOP_BYTES)
