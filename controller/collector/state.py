# SPDX-License-Identifier: Apache-2.0
"""What a running collector tells of itself: one immutable picture, taken between two batches."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from controller.collector.batch import ReportBatch
from controller.collector.outputs.output import OutputCounters
from controller.telemetry.collector import Collection, CollectorCounters

SAMPLES_MAX = 1024
"""Accepted and refused payloads kept for diagnosis: 2 MiB at most."""
SAMPLES_PER_BATCH_MAX = 64
SAMPLE_INTERVAL_NS = 10_000_000
"""Between batches that samples are taken of: 6400 a second cost less than a hundredth of a core."""
NODE_ROWS_MAX = 4096
"""Rows of one drain that are looked through for node ids: a device that is there soon shows."""
SAMPLE_BYTES_MAX = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveCounters:
    """What happened before the decoder, since the start."""

    kernel_drops: int = 0
    """Messages for which a socket's buffer had no room."""
    queue_drops: int = 0
    """Reports for which the queue between receiver and decoder had no room."""
    cut: int = 0
    """Messages longer than the buffers offered."""


class Sample(NamedTuple):
    """A report payload as it came."""

    capture_collector_ns: int
    payload: bytes


class SampleRing:
    """Some payloads of each batch, the newest."""

    def __init__(
        self,
        *,
        per_batch: int = SAMPLES_PER_BATCH_MAX,
        interval_ns: int = SAMPLE_INTERVAL_NS,
        samples_max: int = SAMPLES_MAX,
    ) -> None:
        self._samples: deque[Sample] = deque(maxlen=samples_max)
        self._per_batch = per_batch
        self._interval_ns = interval_ns
        self._next_ns = -(1 << 63)

    def take(self, batch: ReportBatch) -> None:
        """Keep rows spread evenly over the batch, unless the last ones are very recent."""
        if not batch.count:
            return
        newest_ns = int(batch.capture_collector_ns[batch.count - 1])
        if newest_ns < self._next_ns <= newest_ns + self._interval_ns:
            return
        self._next_ns = newest_ns + self._interval_ns
        count = min(batch.count, self._per_batch)
        for row in np.linspace(0, batch.count - 1, count).astype(np.int64).tolist():
            if batch.byte_count[row] <= SAMPLE_BYTES_MAX:
                captured_ns = int(batch.capture_collector_ns[row])
                self._samples.append(Sample(captured_ns, bytes(batch.payload(row))))

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Oldest first."""
        return tuple(self._samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """How many nodes the reports of a packet came from."""

    complete: int = 0
    lone: int = 0
    """Incomplete packets seen by one node."""
    joined: int = 0
    """Incomplete packets seen by two nodes or more."""
    lone_nodes: frozenset[int] = frozenset()
    """Nodes that reported packets which no other node reported."""
    path_nodes: frozenset[int] = frozenset()
    """Nodes that are hops of any packet."""

    def with_collection(self, collection: Collection) -> "Pairing":
        """With what one drain gave."""
        packets = collection.packets
        if not len(packets):
            return self
        complete = packets["complete"]
        lone = ~complete & (packets["hop_count"] == 1)
        node_ids = collection.hops["node_id"]
        rows = packets["first_hop"][lone][:NODE_ROWS_MAX]
        return Pairing(
            complete=self.complete + int(complete.sum()),
            lone=self.lone + int(lone.sum()),
            joined=self.joined + int((~complete & (packets["hop_count"] > 1)).sum()),
            lone_nodes=self.lone_nodes | set(np.unique(node_ids[rows]).tolist()),
            path_nodes=self.path_nodes | set(np.unique(node_ids[:NODE_ROWS_MAX]).tolist()),
        )


class LastReports:
    """When each node's count of reports last grew; as exact as it is asked."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._last_ns: dict[int, int] = {}

    def see(self, counters: CollectorCounters, now_ns: int) -> Mapping[int, int]:
        """Collector time by node id, from the totals at `now_ns`."""
        counts: dict[int, int] = {}
        for key, sender in counters.senders.items():
            counts[key.node_id] = counts.get(key.node_id, 0) + (
                sender.received + sender.duplicate + sender.unconfirmed
            )
        for node_id, count in counts.items():
            if count != self._counts.get(node_id, 0):
                self._last_ns[node_id] = now_ns
        self._counts = counts
        return dict(self._last_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorState:
    """The picture: totals since the start and the newest samples."""

    run: str
    started_collector_ns: int
    now_collector_ns: int
    counters: CollectorCounters
    receive: ReceiveCounters = ReceiveCounters()
    outputs: Mapping[str, OutputCounters] = field(default_factory=dict)
    pairing: Pairing = Pairing()
    last_report_ns: Mapping[int, int] = field(default_factory=dict)
    """By node id."""
    worker_restarts: int = 0
    """Workers that ended on their own and were replaced: what they had at hand is lost."""
    decode_cpu_ns: int = 0
    """Processor time of decoding and joining."""
    output_ns: int = 0
    """Time spent handing parts to outputs, waiting included."""
    samples: Sequence[Sample] = ()
    rejected_samples: Mapping[int, Sequence[bytes]] = field(default_factory=dict)
    """Newest refused payloads by the node that they name, 0 for strangers."""
