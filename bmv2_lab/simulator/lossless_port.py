# SPDX-License-Identifier: Apache-2.0
"""An egress port whose queues can be paused (PFC, IEEE 802.1Qbb): explicit FIFOs, no background.

Strict priority, the highest number first; a frame that is being sent is not interrupted, and a
paused queue keeps its frames while the others go on.
"""

from collections import deque
from dataclasses import dataclass, field

from bmv2_lab.simulator.egress_port import OVERHEAD_BYTES, Dequeued, QueueState
from bmv2_lab.simulator.engine import Engine


@dataclass(frozen=True, slots=True)
class _Waiting:
    time_ns: int
    depth: int
    on_dequeue: Dequeued


@dataclass(slots=True)
class _Queue:
    frames: deque[_Waiting] = field(default_factory=deque)
    is_paused: bool = False


class LosslessPort:
    """One port's queues; `enqueue` calls back at the instant at which the packet is dequeued."""

    __slots__ = ("_busy", "_engine", "_queues", "dropped", "rate_bps")

    def __init__(self, engine: Engine, rate_bps: int) -> None:
        self._engine = engine
        self._queues: dict[int, _Queue] = {}
        self._busy = False
        self.rate_bps = rate_bps
        self.dropped = 0
        """Always 0: what would overflow is paused before."""

    def frame_work_ns(self, frame_bytes: int) -> float:
        """Port time of a frame of `frame_bytes` (with FCS), ns."""
        return (frame_bytes + OVERHEAD_BYTES) * 8e9 / self.rate_bps

    def enqueue(self, queue_id: int, frame_bytes: int, on_dequeue: Dequeued) -> None:
        """Put a packet into a queue now."""
        del frame_bytes  # the callback says what it took
        queue = self._queue(queue_id)
        waiting = _Waiting(self._engine.now_ns, len(queue.frames), on_dequeue)
        queue.frames.append(waiting)
        self._serve()

    def inject(self, queue_id: int, work_ns: float) -> None:
        """A burst that is no packet (an injected fault) takes `work_ns` of the port's time."""
        self.enqueue(queue_id, 0, lambda _state: round(work_ns))

    def pause(self, queue_id: int, paused: bool) -> None:
        """XOFF (True) or XON for a queue, from the port at the other end."""
        self._queue(queue_id).is_paused = paused
        self._serve()

    def _queue(self, queue_id: int) -> _Queue:
        return self._queues.setdefault(queue_id, _Queue())

    def _serve(self) -> None:
        while not self._busy:
            ready = [
                number
                for number, queue in self._queues.items()
                if queue.frames and not queue.is_paused
            ]
            if not ready:
                return
            queue = self._queues[max(ready)]
            waiting = queue.frames.popleft()
            now_ns = self._engine.now_ns
            self._busy = True  # what the callback sends must not overtake it
            took_ns = waiting.on_dequeue(
                QueueState(
                    enqueue_ns=waiting.time_ns,
                    dequeue_ns=now_ns,
                    enqueue_depth=waiting.depth,
                    dequeue_depth=len(queue.frames),
                )
            )
            self._busy = took_ns > 0
            if self._busy:
                self._engine.at(now_ns + took_ns, self._sent)

    def _sent(self) -> None:
        self._busy = False
        self._serve()
