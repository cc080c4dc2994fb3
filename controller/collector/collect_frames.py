# SPDX-License-Identifier: Apache-2.0
"""Captured frames that are at hand: `telemetry.collector.collect`, at the speed of the loops."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from controller.collector.batch import ReportBatch
from controller.collector.capture_frames import (
    DESTINATION_DTYPE,
    DESTINATIONS_MAX,
    FRAME_REASONS,
    unwrap_frames,
)
from controller.collector.capture_records import FRAME_DTYPE
from controller.collector.fast_collector import FastCollector
from controller.collector.loads import address_of
from controller.fabric import Fabric
from controller.telemetry.codec import DecodeReason
from controller.telemetry.collector import Collection, Destination
from controller.telemetry.link_types import LINKTYPE_ETHERNET
from controller.telemetry.topology import TelemetryFabric, telemetry_fabric

_FRAMES_PER_BATCH = 16_384
_WORD = (1 << 64) - 1


def collect_frames(
    frames: Iterable[tuple[int, bytes]], fabric: Fabric | TelemetryFabric
) -> Collection:
    """All packets and hops of captured Ethernet frames (capture_collector_ns, frame)."""
    view = fabric if isinstance(fabric, TelemetryFabric) else telemetry_fabric(fabric)
    collector = FastCollector(view)
    refused: Counter[DecodeReason] = Counter()
    for batch in _batches(frames, view, refused):
        collector.feed_batch(batch)
    collection = collector.flush()
    counters = replace(
        collection.counters,
        received=collection.counters.received + refused.total(),
        rejected=dict(Counter(collection.counters.rejected) + refused),
    )
    return replace(collection, counters=counters)


def _batches(
    frames: Iterable[tuple[int, bytes]], fabric: TelemetryFabric, refused: Counter[DecodeReason]
) -> Iterator[ReportBatch]:
    """The payloads of frames, batch by batch; counts the frames that hold no report datagram."""
    ports = np.array(sorted(fabric.report_udp_ports), np.int64)
    nodes = fabric.nodes.values()
    beyond = [node.node_id for node in nodes if node.dialect.payload_beyond_ip_length]
    beyond_nodes = np.array(beyond, np.int64)
    known = np.zeros(DESTINATIONS_MAX, DESTINATION_DTYPE)
    counts = np.zeros(len(FRAME_REASONS), np.int64)
    rest = iter(frames)
    while chunk := list(islice(rest, _FRAMES_PER_BATCH)):
        rows = np.zeros(len(chunk), FRAME_DTYPE)
        rows["capture_collector_ns"] = [capture_ns for capture_ns, _frame in chunk]
        rows["byte_count"] = [len(frame) for _capture_ns, frame in chunk]
        rows["start"] = np.cumsum(rows["byte_count"]) - rows["byte_count"]
        rows["link_type"] = LINKTYPE_ETHERNET
        batch = ReportBatch.empty(rows=len(chunk), buffer_bytes=0)
        batch.buffer = np.frombuffer(
            bytearray(b"".join(frame for _capture_ns, frame in chunk)), np.uint8
        )
        first = 0
        while first < len(chunk):
            used, batch.count, destination_count = unwrap_frames(
                address_of(batch.buffer),
                rows[first:],
                (ports, beyond_nodes),
                (known, counts),
                (batch.start, batch.byte_count, batch.capture_collector_ns, batch.destination),
            )
            first += used
            batch.destinations = [
                Destination((high & _WORD) << 64 | (low & _WORD), udp_port)
                for high, low, udp_port in known[:destination_count][
                    ["high", "low", "udp_port"]
                ].tolist()
            ]
            if batch.count:
                yield batch
    for reason, count in zip(FRAME_REASONS, counts.tolist(), strict=True):
        if count:
            refused[reason] += count
