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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from bmv2_lab.simulator.background import FRAME_BYTES, MEMORY_NS, Load

QUEUES = 3
PENDING_MAX = 65_536
"""Bursts drawn ahead of the packet being served; at load 0.85 a wait of 1 ms sees some 1,000."""
POOL_STATES = 65_536
POOL_SPACING_FRAMES = 500.0
"""Port time between two states of a pool, in background frames: 61 us at 100 Gb/s. Short against
the longest busy periods, so that neighbours are alike, but the pool is 4 s long."""

Int64s = NDArray[np.int64]
Float64s = NDArray[np.float64]

_F = TypeVar("_F", bound=Callable[..., Any])


def _compiled(function: _F) -> _F:
    compiled: Any = numba.njit(cache=True)(function)
    return cast("_F", compiled)


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


@_compiled
def _draw_burst(rng: Any, share: Any, frames: Any, work_ns: float) -> Any:  # noqa: ANN401
    """(gap, queue, work) of the next burst of all queues together."""
    total = 0.0
    for q in range(QUEUES):
        total += share[q] / (work_ns * frames[q])
    gap = -np.log(1.0 - rng.random()) / total
    pick = rng.random() * total
    queue = 0
    for q in range(QUEUES):
        rate = share[q] / (work_ns * frames[q])
        if rate > 0.0:
            queue = q
            if pick < rate:
                break
            pick -= rate
    number = 1.0
    if frames[queue] > 1.0:
        number = np.ceil(np.log(1.0 - rng.random()) / np.log(1.0 - 1.0 / frames[queue]))
        number = max(number, 1.0)
    return gap, queue, number * work_ns


@_compiled
def _long_run(
    rng: Any,  # noqa: ANN401
    share: Any,  # noqa: ANN401
    frames: Any,  # noqa: ANN401
    work_ns: float,
    states: int,
    spacing_ns: float,
) -> Any:  # noqa: ANN401
    result = np.zeros((states, QUEUES))
    work = np.zeros(QUEUES)
    now = 0.0
    gap, queue, burst = _draw_burst(rng, share, frames, work_ns)
    next_burst = gap
    for state in range(-states // 64, states):  # the first stretch forgets the empty start
        until = now + spacing_ns
        while next_burst <= until:
            for q in range(QUEUES):
                work[q] = max(0.0, work[q] - (next_burst - now))
                if q <= queue:
                    work[q] += burst
            now = next_burst
            gap, queue, burst = _draw_burst(rng, share, frames, work_ns)
            next_burst = now + gap
        for q in range(QUEUES):
            work[q] = max(0.0, work[q] - (until - now))
            if state >= 0:
                result[state, q] = work[q]
        now = until
    return result


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
            states[kind] = _long_run(
                rng, share[kind], frames[kind], work_ns, POOL_STATES, POOL_SPACING_FRAMES * work_ns
            )
    return LoadTable(share=share, burst_frames=frames, frame_work_ns=work_ns, states_ns=states)


@_compiled
def _serve(
    rng: Any,  # noqa: ANN401
    port: Any,  # noqa: ANN401
    time_ns: Any,  # noqa: ANN401
    queue_id: int,
    queued_work: Any,  # noqa: ANN401
    sent_work: Any,  # noqa: ANN401
    serialisation: Any,  # noqa: ANN401
    jitter: Any,  # noqa: ANN401
    message: Any,  # noqa: ANN401
    skipped_work: Any,  # noqa: ANN401
    skipped_frames: Any,  # noqa: ANN401
    inject: Any,  # noqa: ANN401
    load: Any,  # noqa: ANN401
    egress_ns: Any,  # noqa: ANN401
    far_ns: Any,  # noqa: ANN401
    at_frame_end: Any,  # noqa: ANN401
    share: Any,  # noqa: ANN401
    frames: Any,  # noqa: ANN401
    frame_work: float,
    states: Any,  # noqa: ANN401
    memory: int,
    dequeue_ns: Any,  # noqa: ANN401
    depth: Any,  # noqa: ANN401
    arrival_ns: Any,  # noqa: ANN401
) -> None:
    work = np.zeros(QUEUES)
    burst_time = np.zeros(PENDING_MAX)
    burst_work = np.zeros(PENDING_MAX)
    burst_queue = np.zeros(PENDING_MAX, np.int64)
    head = tail = 0
    last_port = -1
    last_ns = 0
    last_message = -1
    free_ns = 0
    wire_free_ns = 0
    loaded = below = False
    kind = 0
    for i in range(len(port)):
        p = port[i]
        now = time_ns[i]
        if p != last_port:
            kind = load[p]
            loaded = kind >= 0 and share[kind].sum() > 0.0
            below = loaded and share[kind, :queue_id].sum() > 0.0
            free_ns = wire_free_ns = 0
            last_message = -1
        if p != last_port or now - last_ns > memory:
            head = tail = 0
            work[:] = 0.0
            if loaded:
                work[:] = states[kind, int(rng.random() * states.shape[1])]
                gap, queue, burst = _draw_burst(rng, share[kind], frames[kind], frame_work)
                burst_time[0], burst_queue[0], burst_work[0] = now + gap, queue, burst
                tail = 1
        else:
            # the message's own frames in between come as a stream, not as bursts
            drain = 1.0
            if message[i] == last_message and now > last_ns:
                drain = max(0.0, 1.0 - skipped_work[i] / (now - last_ns))
            at = float(last_ns)
            while head < tail and burst_time[head] <= now:
                for q in range(QUEUES):
                    work[q] = max(0.0, work[q] - (burst_time[head] - at) * drain)
                    if q <= burst_queue[head]:
                        work[q] += burst_work[head]
                at = burst_time[head]
                head += 1
                if head == tail:
                    gap, queue, burst = _draw_burst(rng, share[kind], frames[kind], frame_work)
                    head, tail = 0, 1
                    burst_time[0], burst_queue[0], burst_work[0] = at + gap, queue, burst
            for q in range(QUEUES):
                work[q] = max(0.0, work[q] - (now - at) * drain)
        if inject[i] > 0.0:
            for q in range(queue_id + 1):
                work[q] += inject[i]
        ahead = work[queue_id]
        if ahead == 0.0:
            ahead = float(max(0, free_ns - now))
            if below:
                ahead = max(ahead, work[0] % frame_work)
        start = now + ahead
        behind = 0.0
        if loaded:
            j = head
            while True:
                if j == tail:
                    if tail == PENDING_MAX:
                        if head == 0:
                            break  # longer than any wait at a load below 1
                        for k in range(head, tail):
                            burst_time[k - head] = burst_time[k]
                            burst_work[k - head] = burst_work[k]
                            burst_queue[k - head] = burst_queue[k]
                        j, tail, head = j - head, tail - head, 0
                    gap, queue, burst = _draw_burst(rng, share[kind], frames[kind], frame_work)
                    burst_time[tail] = burst_time[tail - 1] + gap
                    burst_queue[tail], burst_work[tail] = queue, burst
                    tail += 1
                if burst_time[j] > start:
                    break
                if burst_queue[j] > queue_id:
                    start += burst_work[j]
                elif burst_queue[j] == queue_id:
                    behind += burst_work[j]
                j += 1
        leave = max(max(np.int64(np.rint(start)), now), free_ns)
        free_ns = leave + np.int64(np.rint(sent_work[i]))
        for q in range(queue_id + 1):
            work[q] += queued_work[i]
        dequeue_ns[i] = leave
        depth[i] = np.int64(np.rint(behind / frame_work))
        j = i - 1
        while j >= 0 and port[j] == p and dequeue_ns[j] >= now:
            if dequeue_ns[j] > time_ns[j]:
                depth[j] += 1
                if message[j] == message[i]:
                    depth[j] += skipped_frames[i]
            j -= 1
        first_bit = max(leave + egress_ns[p] + jitter[i], wire_free_ns)
        wire_free_ns = first_bit + np.int64(serialisation[i])
        stamp = first_bit + far_ns[p]
        if at_frame_end[p]:
            stamp += np.int64(np.rint(serialisation[i]))
        arrival_ns[i] = stamp
        last_port, last_ns, last_message = p, now, message[i]


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
    _serve(
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


@_compiled
def _fifo(sender: Any, ready_ns: Any, work_ns: Any, start_ns: Any) -> None:  # noqa: ANN401
    last = -1
    free = 0
    for i in range(len(sender)):
        if sender[i] != last:
            free = 0
            last = sender[i]
        start_ns[i] = max(ready_ns[i], free)
        free = start_ns[i] + work_ns[i]


def send_in_order(sender: Int64s, ready_ns: Int64s, work_ns: Int64s) -> Int64s:
    """When each item starts that its sender sends first in, first out; any order of input."""
    order = np.lexsort((ready_ns, sender))
    start_ns = np.zeros(len(sender), np.int64)
    sorted_start = np.zeros(len(sender), np.int64)
    _fifo(sender[order], ready_ns[order], work_ns[order], sorted_start)
    start_ns[order] = sorted_start
    return start_ns
