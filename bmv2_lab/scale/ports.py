# SPDX-License-Identifier: Apache-2.0
"""Egress ports with background load, served packet by packet in compiled loops.

The model is that of `bmv2_lab.simulator.egress_port`: strict priority, work counted in ns of the
port's time, a frame already being sent is not interrupted; then the wire, first in, first out,
with one-sided jitter. A port that has had no packet for `memory_ns` starts from a stationary state:
one of a pool taken from a long run of the same arrival process (`stationary_states`), which is
what the packet-level lab finds by starting empty that much earlier. Between packets closer than
that the process is followed burst by burst, so that they see one queue and keep their order.

What a packet waits for depends on what came before it alone, so that real packets of different
queues must not be mixed in one call (a later one of a higher queue would not overtake).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bmv2_lab.scale.port_loops import QUEUES, fifo, long_run, serve_all
from bmv2_lab.simulator.background import FRAME_BYTES, MEMORY_NS, Load

POOL_STATES = 65_536
POOL_SPACING_FRAMES = 500.0
"""Port time between two states of a pool, in background frames: 61 us at 100 Gb/s. Short against
the longest busy periods, so that neighbours are alike, but the pool is 4 s long."""

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]


def memory_ns(frame_work_ns: float) -> int:
    """How long a port remembers: MEMORY_NS at 100 Gb/s, shorter where frames are.

    >>> memory_ns(FRAME_BYTES * 8.0 / 100), memory_ns(FRAME_BYTES * 8.0 / 400)
    (400000, 100000)
    """
    return round(MEMORY_NS * min(1.0, frame_work_ns / (FRAME_BYTES * 8.0 / 100)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadTable:
    """Background loads by kind, as arrays, with their stationary states."""

    share: Float64s
    """[kind, queue]."""
    burst_frames: Float64s
    """[kind, queue]; 1 where there is no load."""
    frame_work_ns: float
    states_ns: Float64s
    """[kind, state, queue]: work in queues >= queue, ns."""


@dataclass(slots=True, kw_only=True)
class Arrivals:
    """Packets at egress ports, sorted by port and by time within a port."""

    port: Int64s
    """Directed link."""
    time_ns: Int64s
    """True time at which the traffic manager gets it."""
    queue_id: int
    queued_bytes: Int64s
    """Frame with FCS as it is queued."""
    sent_bytes: Int64s
    """The same as it leaves, with what INT added here."""
    message: Int64s
    """Packets of one message follow each other at the port."""
    skipped_bytes: Int64s
    """Frames of its message, not simulated, between the packet before and this one."""
    skipped_frames: Int64s
    inject_ns: Float64s
    """Work that a fault puts into the queue just before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departures:
    """What became of them, in the same order."""

    dequeue_ns: Int64s
    depth_frames: Int64s
    """Frames that joined its queue behind it until it left."""
    arrival_ns: Int64s
    """True instant of the ingress stamp at the far end."""


def load_table(
    rng: np.random.Generator, loads: tuple[dict[int, Load], ...], speed_gbps: int
) -> LoadTable:
    """The loads as arrays, and stationary states from a long run of each."""
    kinds = len(loads)
    share, frames = np.zeros((kinds, QUEUES)), np.ones((kinds, QUEUES))
    for kind, queues in enumerate(loads):
        for queue_id, load in queues.items():
            share[kind, queue_id], frames[kind, queue_id] = load.share, load.burst_frames
    work_ns = FRAME_BYTES * 8.0 / speed_gbps
    states = np.zeros((kinds, POOL_STATES, QUEUES))
    for kind in range(kinds):
        if share[kind].sum() > 0.0:
            states[kind] = long_run(
                rng, share[kind], frames[kind], work_ns, POOL_STATES, POOL_SPACING_FRAMES * work_ns
            )
    return LoadTable(share=share, burst_frames=frames, frame_work_ns=work_ns, states_ns=states)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortConstants:
    """What the ports and wires of one world are, by directed link."""

    load: Int64s
    egress_ns: Int64s
    far_ns: Int64s
    """Propagation, and from the frame's reference point to the far end's stamp."""
    at_frame_end: NDArray[np.bool_]
    ns_per_byte: float
    overhead_bytes: int
    jitter_mean_ns: float
    jitter_max_ns: int


def serve(
    rng: np.random.Generator, arrivals: Arrivals, ports: PortConstants, table: LoadTable
) -> Departures:
    """Serve packets at their ports and carry them to the far ends of the wires."""
    count = len(arrivals.port)
    drawn_ns = rng.exponential(ports.jitter_mean_ns, count)
    jitter_ns = np.rint(np.minimum(drawn_ns, ports.jitter_max_ns)).astype(np.int64)
    dequeue_ns, depth, arrival_ns = np.zeros((3, count), np.int64)
    per_byte, overhead = ports.ns_per_byte, ports.overhead_bytes
    serve_all(
        rng,
        arrivals.port,
        arrivals.time_ns,
        arrivals.queue_id,
        (arrivals.queued_bytes + overhead) * per_byte,
        (arrivals.sent_bytes + overhead) * per_byte,
        arrivals.sent_bytes * per_byte,
        jitter_ns,
        arrivals.message,
        (arrivals.skipped_bytes + overhead * arrivals.skipped_frames) * per_byte,
        arrivals.skipped_frames,
        arrivals.inject_ns,
        ports.load,
        ports.egress_ns,
        ports.far_ns,
        ports.at_frame_end,
        table.share,
        table.burst_frames,
        table.frame_work_ns,
        table.states_ns,
        memory_ns(table.frame_work_ns),
        dequeue_ns,
        depth,
        arrival_ns,
    )
    return Departures(dequeue_ns=dequeue_ns, depth_frames=depth, arrival_ns=arrival_ns)


def send_in_order(sender: Int64s, ready_ns: Int64s, work_ns: Int64s) -> Int64s:
    """When each item starts that its sender sends first in, first out; any order of input."""
    order = np.lexsort((ready_ns, sender))
    start_ns = np.zeros(len(sender), np.int64)
    sorted_start = np.zeros(len(sender), np.int64)
    fifo(sender[order], ready_ns[order], work_ns[order], sorted_start)
    start_ns[order] = sorted_start
    return start_ns
