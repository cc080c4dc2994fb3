# SPDX-License-Identifier: Apache-2.0
"""The collector for millions of reports a second: compiled loops over batches.

`FastCollector` gives what `telemetry.Collector` gives for the same datagrams in the same order:
packets, hops and every counter. What is rare - drop and congestion events, dialects that the
compiled decoder does not know, paths that need more than matching ports - goes through the
reference's own code at its place in the order, on the same tables.
"""

import secrets
from collections.abc import Mapping
from typing import cast

import numpy as np

from controller.collector import columns as c
from controller.collector import run_batch as run
from controller.collector.arrivals import ArrivalLog, NotedSenders
from controller.collector.batch import ReportBatch
from controller.collector.compiled_joiner import CompiledJoiner
from controller.collector.decode_reports import BATCH_COLUMNS, decoded_arrays
from controller.collector.fabric_tables import fabric_tables
from controller.collector.join_tables import JoinTables
from controller.collector.link_table import TableReferences
from controller.collector.loads import address_of
from controller.collector.path_rows import PathTables
from controller.collector.seen_table import CompiledSeen
from controller.collector.senders import SenderTable
from controller.fabric import Fabric
from controller.telemetry.collector import Collector, Destination, SenderKey
from controller.telemetry.loss import LossCounters
from controller.telemetry.postcards import JOIN_WINDOW_NS, PathJoiner
from controller.telemetry.rejected import SAMPLES_PER_NODE
from controller.telemetry.topology import TelemetryFabric

_SEED_BITS = 61
_TSTAMP_NAMES = ("ingress_tstamp", "egress_tstamp")


class FastCollector(Collector):
    """`Collector` that also takes batches; nothing is done in Python per report of a batch."""

    def __init__(
        self,
        fabric: Fabric | TelemetryFabric,
        *,
        join_window_ns: int = JOIN_WINDOW_NS,
        arrivals: ArrivalLog | None = None,
    ) -> None:
        """`arrivals`: one of several workers, which writes sequence numbers down there instead of
        counting losses itself."""
        super().__init__(fabric, join_window_ns=join_window_ns)
        timelines = self._timelines
        node_ids = timelines.node_ids.tolist()
        node_rows = {node_id: row for row, node_id in enumerate(node_ids)}
        seed = secrets.randbits(_SEED_BITS) | 1
        self._arrays = fabric_tables(self._fabric, seed=seed)
        compiled = self._arrays.nodes[:, c.N_COMPILED]
        compiled_rows = {node_id: row for node_id, row in node_rows.items() if compiled[row]}
        self._arrivals = arrivals
        self._senders = (
            SenderTable(node_ids, compiled_rows)
            if arrivals is None
            else NotedSenders(node_ids, compiled_rows, arrivals)
        )
        self._trackers = self._senders
        self._compiled_seen = CompiledSeen(seed=seed)
        self._seen = self._compiled_seen
        self._join_tables = JoinTables(
            timelines, port_count=len(self._arrays.far_ends), window_ns=join_window_ns
        )
        self._records = PathTables(self._fabric, timelines, self._join_tables)
        references = TableReferences(timelines, self._arrays, self._join_tables.references)
        reference = PathJoiner(self._fabric, self._records, references, window_ns=join_window_ns)
        self._compiled_joiner = CompiledJoiner(
            self._join_tables, self._arrays.addresses, reference, node_rows
        )
        self._joiner = cast("PathJoiner", self._compiled_joiner)  # what `Collector` needs of it
        self._decoded_rows = decoded_arrays()
        self._samples = np.zeros((len(node_ids) + 1, run.SAMPLE_COLUMNS), np.int64)
        self._progress = np.zeros(run.P_COLUMNS, np.int64)
        self._progress[run.P_REJECTED_SAMPLES] = address_of(self._samples)
        self._progress[run.P_STRANGERS] = len(node_ids)
        self._destinations: list[Destination] = []
        self._destination_rows = np.zeros(0, np.int64)
        self._batch_row = np.zeros(BATCH_COLUMNS, np.int64)
        self._rows_at = (
            address_of(self._batch_row),
            self._arrays.addresses.at,
            address_of(self._decoded_rows.row),
            address_of(self._progress),
            address_of(self._join_tables.state),
            address_of(self._compiled_seen.state),
        )

    def feed_batch(self, batch: ReportBatch) -> None:
        """Take all datagrams of a batch, in order."""
        if batch.count > min(len(batch.start), len(batch.byte_count), len(batch.destination)):
            raise ValueError("a batch of more datagrams than its arrays have rows")
        self._received += batch.count
        self._batch_row[:] = *batch.addresses(), batch.count, len(batch.buffer)
        if batch.destinations != self._destinations:
            self._destinations = list(batch.destinations)
            rows = [self._senders.destination_row(item) for item in batch.destinations]
            self._destination_rows = np.array(rows, np.int64)
            self._progress[run.P_DESTINATION_ROWS] = address_of(self._destination_rows)
        progress = self._progress
        progress[: run.P_AT_HAND] = 0
        arrivals = self._arrivals
        while True:
            progress[run.P_ARRIVALS] = 0 if arrivals is None else arrivals.reserve(batch.count)
            progress[run.P_SENDERS] = self._senders.address
            progress[run.P_DESTINATIONS] = self._senders.rows.shape[2]
            code = run.run_batch(*self._rows_at)
            if code == run.FINISHED:
                break
            at_hand = int(progress[run.P_AT_HAND])
            if code == run.ASK_SENDER:
                self._senders.make(at_hand)
            elif code == run.ASK_REFERENCE:
                self._take_with_reference(batch, at_hand)
            elif code == run.OUTSIDE_BUFFER:
                raise ValueError("a batch with a datagram outside its buffer")
            else:
                self._compiled_joiner.answer(code)
        self._add_counts(batch)

    def _losses(self) -> tuple[Mapping[SenderKey, LossCounters], LossCounters]:
        senders = self._senders.losses()
        return senders, senders.total()

    def _take_with_reference(self, batch: ReportBatch, row: int) -> None:
        self._join_tables.hand_over_epochs()
        self._keep_samples(batch)
        destination = batch.destinations[batch.destination[row]]
        captured_collector_ns = int(batch.capture_collector_ns[row])
        if self._arrivals is not None:
            self._arrivals.now_ns = captured_collector_ns
        payload = bytes(batch.payload(row))
        self._take_or_reject(payload, 0, captured_collector_ns, destination)

    def _keep_samples(self, batch: ReportBatch) -> None:
        """Keep the newest rejected payloads; what pushed them out of the ring is newer."""
        for samples in self._samples[self._samples[:, 0] != 0]:
            count = int(samples[0])
            for number in range(max(0, count - SAMPLES_PER_NODE), count):
                row = int(samples[1 + number % SAMPLES_PER_NODE])
                self._rejected_samples.add(bytes(batch.payload(row)))
        self._samples[:, 0] = 0

    def _add_counts(self, batch: ReportBatch) -> None:
        """Add what the compiled loop has counted to the totals."""
        counts = self._progress[run.P_DECODED :].tolist()
        first = run.P_DECODED
        self._decoded += counts[run.P_DECODED - first]
        self._duplicates += counts[run.P_DUPLICATES - first]
        self._replicas += counts[run.P_REPLICAS - first]
        missing = counts[run.P_NO_INGRESS_TSTAMP - first : run.P_NO_EGRESS_TSTAMP - first + 1]
        for name, count in zip(_TSTAMP_NAMES, missing, strict=True):
            if count:
                self._missing.counts[name] += count
        rejected = counts[run.P_REJECTED - first :]
        if any(rejected):
            self._keep_samples(batch)
        for code, count in enumerate(rejected):
            if count:
                self._rejected[c.reason_of(code)] += count
        self._progress[first:] = 0
