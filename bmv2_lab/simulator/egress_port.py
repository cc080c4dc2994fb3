# SPDX-License-Identifier: Apache-2.0
"""An egress port with strict-priority queues that real packets and background load share.

Work is counted in ns of the port's time. A packet starts when all work of its own and of higher
queues that is ahead of it has been served, and what arrives in higher queues meanwhile; a frame
already being sent is not interrupted. Depths and drops follow from the same work, so that depth,
stamps and losses agree.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bmv2_lab.simulator.background import MEMORY_NS, BackgroundLoad
from bmv2_lab.simulator.engine import Engine

QUEUE_COUNT = 3
"""Strict priority, the highest number first: 2 PTP and control, 1 RoCE, 0 best effort."""
OVERHEAD_BYTES = 20
"""Preamble and inter-frame gap, on the wire but in no frame."""
QUEUE_LIMIT_FRAMES = 4_096
"""Tail drop above this depth."""
PASSES_MAX = 64
"""Bound on the search for the start of service; reached only at loads above 1."""


@dataclass(frozen=True, slots=True, eq=False)
class _Arrival:
    time_ns: int
    sequence: int
    work_ns: float
    queue_id: int

    def before(self, other: "_Arrival") -> bool:
        """It was put into the port before `other`; equal instants keep their order."""
        return (self.time_ns, self.sequence) < (other.time_ns, other.sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """What the traffic manager tells egress about a packet: true instants and depths in frames."""

    enqueue_ns: int
    dequeue_ns: int
    enqueue_depth: int
    dequeue_depth: int


Dequeued = Callable[[QueueState], int]
"""Called at dequeue; sends the frame and returns the port time it took, ns."""


class EgressPort:
    """One port's queues. `enqueue` calls back at the instant at which the packet is dequeued."""

    __slots__ = ("_background", "_engine", "_free_ns", "_real", "_sequence", "dropped", "rate_bps")

    def __init__(
        self, engine: Engine, rate_bps: int, background: dict[int, BackgroundLoad]
    ) -> None:
        self._engine = engine
        self._background = background
        self._real: list[_Arrival] = []
        self._free_ns = 0
        self._sequence = 0
        self.rate_bps = rate_bps
        self.dropped = 0

    def frame_work_ns(self, frame_bytes: int) -> float:
        """Port time of a frame of `frame_bytes` (with FCS), ns."""
        return (frame_bytes + OVERHEAD_BYTES) * 8e9 / self.rate_bps

    def enqueue(self, queue_id: int, frame_bytes: int, on_dequeue: Dequeued) -> None:
        """Put a packet into a queue now; drop and count it when the queue is full."""
        self._forget(self._engine.now_ns)
        own = self._arrival(queue_id, self.frame_work_ns(frame_bytes))
        ahead_ns = self._work_ns(queue_id, own)
        depth = self._depth_frames(own, ahead_ns)
        if depth >= QUEUE_LIMIT_FRAMES:
            self.dropped += 1
            return
        start_ns = self._start_ns(own, ahead_ns)
        self._real.append(own)
        self._engine.at(start_ns, self._dequeue, own, ahead_ns, depth, on_dequeue)

    def inject(self, queue_id: int, work_ns: float) -> None:
        """A burst of `work_ns` of port time arrives in a queue now (an injected fault)."""
        self._real.append(self._arrival(queue_id, work_ns))

    def _arrival(self, queue_id: int, work_ns: float) -> _Arrival:
        self._sequence += 1
        return _Arrival(self._engine.now_ns, self._sequence, work_ns, queue_id)

    def _dequeue(self, own: _Arrival, ahead_ns: float, depth: int, on_dequeue: Dequeued) -> None:
        now_ns = self._engine.now_ns
        start_ns = max(self._start_ns(own, ahead_ns), self._free_ns)
        if start_ns > now_ns:  # a packet in a higher queue overtook it meanwhile
            self._engine.at(start_ns, self._dequeue, own, ahead_ns, depth, on_dequeue)
            return
        took_ns = on_dequeue(
            QueueState(
                enqueue_ns=own.time_ns,
                dequeue_ns=now_ns,
                enqueue_depth=depth,
                dequeue_depth=self._behind_frames(own, now_ns),
            )
        )
        self._free_ns = now_ns + took_ns

    def _start_ns(self, own: _Arrival, ahead_ns: float) -> int:
        """First instant at which nothing that goes before `own` is left to serve."""
        if ahead_ns == 0.0:
            ahead_ns = self._residual_ns(own)
        start_ns = own.time_ns + ahead_ns
        for _ in range(PASSES_MAX):
            overtaken_ns = own.time_ns + ahead_ns + self._higher_work_ns(own, start_ns)
            if overtaken_ns <= start_ns:
                break
            start_ns = overtaken_ns
        return max(round(start_ns), own.time_ns)

    def _work_ns(self, queue_min: int, own: _Arrival) -> float:
        """Unserved work in queues >= queue_min at the arrival of `own` (Lindley), without it."""
        at_ns = own.time_ns
        parts = [
            load.between(at_ns - MEMORY_NS, at_ns)
            for queue_id, load in self._background.items()
            if queue_id >= queue_min
        ]
        real = [a for a in self._real if a.queue_id >= queue_min and a.before(own)]
        if not parts:
            return self._lindley_real(real, at_ns) if real else 0.0
        if real:
            parts.append(
                (
                    np.array([a.time_ns for a in real], dtype=np.float64),
                    np.array([a.work_ns for a in real]),
                )
            )
        times = np.concatenate([part[0] for part in parts])
        work = np.concatenate([part[1] for part in parts])
        if not times.size:
            return 0.0
        if len(parts) > 1:
            order = np.argsort(times, kind="stable")
            times = times[order]
            work = work[order]
        since_ns = np.cumsum(work[::-1])[::-1] - (at_ns - times)
        return max(0.0, float(since_ns.max()))

    @staticmethod
    def _lindley_real(real: list[_Arrival], at_ns: int) -> float:
        left = 0.0
        last_ns = at_ns
        for index, arrival in enumerate(real):
            if index:
                left = max(0.0, left - (arrival.time_ns - last_ns))
            left += arrival.work_ns
            last_ns = arrival.time_ns
        return max(0.0, left - (at_ns - last_ns))

    def _residual_ns(self, own: _Arrival) -> float:
        """Rest of a lower queue's frame that is being sent; it is not interrupted."""
        rest_ns = float(max(0, self._free_ns - own.time_ns))
        if any(queue_id < own.queue_id for queue_id in self._background):
            frame_ns = next(iter(self._background.values())).frame_work_ns
            rest_ns = max(rest_ns, self._work_ns(0, own) % frame_ns)
        return rest_ns

    def _higher_work_ns(self, own: _Arrival, until_ns: float) -> float:
        """Work that arrived in higher queues after `own` and up to `until_ns`."""
        work_ns = 0.0
        for queue_id, load in self._background.items():
            if queue_id > own.queue_id:
                work_ns += float(load.between(own.time_ns, int(until_ns))[1].sum())
        for arrival in self._real:
            if (
                arrival.queue_id > own.queue_id
                and own.before(arrival)
                and arrival.time_ns <= until_ns
            ):
                work_ns += arrival.work_ns
        return work_ns

    def _depth_frames(self, own: _Arrival, ahead_ns: float) -> int:
        """Frames in the queue of `own` when it arrives."""
        if ahead_ns == 0.0:
            return 0
        work_ns = ahead_ns - self._work_ns(own.queue_id + 1, own)
        return round(max(0.0, work_ns) / self._unit_ns(own.queue_id))

    def _behind_frames(self, own: _Arrival, now_ns: int) -> int:
        """Frames that joined its queue behind `own` until it left."""
        frames = 0
        if now_ns > own.time_ns:
            if own.queue_id in self._background:
                work = self._background[own.queue_id].between(own.time_ns, now_ns)[1]
                frames = round(float(work.sum()) / self._unit_ns(own.queue_id))
            frames += sum(
                1
                for a in self._real
                if a.queue_id == own.queue_id and own.before(a) and a.time_ns <= now_ns
            )
        return frames

    def _unit_ns(self, queue_id: int) -> float:
        load = self._background.get(queue_id)
        return load.frame_work_ns if load else 1_520 * 8e9 / self.rate_bps

    def _forget(self, now_ns: int) -> None:
        if self._real and self._real[0].time_ns < now_ns - MEMORY_NS:
            self._real = [a for a in self._real if a.time_ns >= now_ns - MEMORY_NS]
