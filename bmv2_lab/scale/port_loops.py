# SPDX-License-Identifier: Apache-2.0
"""The compiled loops of `ports`: bursts of background load, service at ports, plain queues.

Arrays in and out, no objects: numba compiles them once and keeps the result beside the file.
"""

from typing import Any

import numpy as np

from correction.compiled import compiled

QUEUES = 3
PENDING_MAX = 65_536
"""Bursts drawn ahead of the packet being served; at load 0.85 a wait of 1 ms sees some 1,000."""


@compiled
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


@compiled
def long_run(
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


@compiled
def serve_all(
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


@compiled
def fifo(sender: Any, ready_ns: Any, work_ns: Any, start_ns: Any) -> None:  # noqa: ANN401
    last = -1
    free = 0
    for i in range(len(sender)):
        if sender[i] != last:
            free = 0
            last = sender[i]
        start_ns[i] = max(ready_ns[i], free)
        free = start_ns[i] + work_ns[i]
