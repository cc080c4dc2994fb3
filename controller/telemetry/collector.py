# SPDX-License-Identifier: Apache-2.0
"""Report frames in, packets with their hops out; everything that does not fit is counted.

The collector does no I/O: `feed` takes a frame and the collector clock's time, from a pcap, a
socket (`udp.serve_udp`) or a simulation. No input makes it raise.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.fabric import Fabric
from controller.telemetry.codec import Buffer, DecodeError, DecodeReason, decode
from controller.telemetry.datagram import unwrap_udp
from controller.telemetry.dialect import STANDARD
from controller.telemetry.layout import REPORT_GROUP, UDP
from controller.telemetry.loss import LossCounters, SequenceTracker
from controller.telemetry.packet import TRAFFIC_OTHER, IntMarking
from controller.telemetry.postcards import JOIN_WINDOW_NS, PathJoiner
from controller.telemetry.report import Report, decode_group, decode_reports
from controller.telemetry.seen import SeenReports
from controller.telemetry.topology import TelemetryFabric, telemetry_fabric
from correction.records import Hops, Packets

SenderKey = tuple[int, int]
"""(node id, hw id): one sequence of report numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorCounters:
    """Totals since the collector started.

    received = decoded + duplicates + all of `rejected`; lost reports never arrived.
    """

    received: int
    """Frames or datagrams offered."""
    decoded: int
    """Datagrams whose reports were all taken."""
    duplicates: int
    """Datagrams whose content had arrived before."""
    lost: int
    """Gaps in the sequence numbers, over all senders."""
    reordered: int
    restarts: int
    """Senders that began their sequence anew."""
    unconfirmed: int
    """Reports whose sequence number fits no run of their sender; their content is used."""
    rejected: Mapping[DecodeReason, int]
    invalid_tstamps: Mapping[str, int]
    """Stamps that are zero, all-ones or impossible, by field; such a stamp becomes none."""
    complete: int
    """Packets with every hop from host to host."""
    incomplete: int
    """Packets of which reports were missing when their window closed."""
    senders: Mapping[SenderKey, LossCounters]

    @property
    def rejected_total(self) -> int:
        """Frames and datagrams refused, whatever the reason."""
        return sum(self.rejected.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Finished packets and their hops (dtypes of `correction.records`) and the totals so far."""

    packets: Packets
    hops: Hops
    counters: CollectorCounters


class Collector:
    """Decodes, accounts for and joins the reports of one fabric."""

    def __init__(
        self, fabric: Fabric | TelemetryFabric, *, join_window_ns: int = JOIN_WINDOW_NS
    ) -> None:
        self._fabric = fabric if isinstance(fabric, TelemetryFabric) else telemetry_fabric(fabric)
        self._marking = IntMarking(self._fabric.original_dscp, self._fabric.int_udp_port)
        self._joiner = PathJoiner(self._fabric, window_ns=join_window_ns)
        self._trackers: dict[SenderKey, SequenceTracker] = {}
        self._seen = SeenReports()
        self._received = self._decoded = self._duplicates = 0
        self._rejected: Counter[DecodeReason] = Counter()

    def feed(self, frame: Buffer, now_ns: int) -> None:
        """Take an Ethernet frame that should carry a report, captured at `now_ns`."""
        self._received += 1
        try:
            datagram = unwrap_udp(frame)
            if datagram.udp.dst_port != self._fabric.report_udp_port:
                port_offset = datagram.payload_start - UDP.byte_count + 2
                raise DecodeError(DecodeReason.UDP_PORT, port_offset)
            self._take(frame[: datagram.payload_end], datagram.payload_start, now_ns)
        except DecodeError as error:
            self._rejected[error.reason] += 1

    def feed_payload(self, payload: Buffer, now_ns: int) -> None:
        """The same for a UDP payload from a socket: the kernel has checked what is around it."""
        self._received += 1
        try:
            self._take(payload, 0, now_ns)
        except DecodeError as error:
            self._rejected[error.reason] += 1

    def drain(self) -> Collection:
        """What is finished since the last call; packets that wait for reports go on waiting."""
        packets, hops = self._joiner.take()
        return Collection(packets=packets, hops=hops, counters=self.counters)

    def flush(self) -> Collection:
        """The end of the input: closes what still waits as incomplete, then drains."""
        self._joiner.close()
        return self.drain()

    @property
    def counters(self) -> CollectorCounters:
        """Totals so far; impossible stamps are found when a packet is drained."""
        senders = {key: tracker.counters for key, tracker in sorted(self._trackers.items())}
        total = sum(senders.values(), LossCounters())
        return CollectorCounters(
            received=self._received,
            decoded=self._decoded,
            duplicates=self._duplicates,
            lost=total.lost,
            reordered=total.reordered,
            restarts=total.restart,
            unconfirmed=total.unconfirmed,
            rejected=dict(self._rejected),
            invalid_tstamps=dict(self._joiner.invalid_tstamps),
            complete=self._joiner.complete_count,
            incomplete=self._joiner.incomplete_count,
            senders=senders,
        )

    def _take(self, data: Buffer, offset: int, now_ns: int) -> None:
        """A report datagram that starts at `offset` and ends with `data`."""
        # Only a known sender's dialect can be right; a stranger's version is judged first.
        node = self._fabric.nodes.get(decode(REPORT_GROUP, data, offset).node_id)
        dialect = STANDARD if node is None else node.dialect
        group = decode_group(data, offset, dialect)
        if node is None:
            raise DecodeError(DecodeReason.UNKNOWN_NODE, offset + 4)
        repeated = self._seen.repeats(bytes(data[offset:]))
        if not dialect.sequence_constant:
            sender = (group.node_id, group.hw_id)
            tracker = self._trackers.get(sender)
            if tracker is None:
                tracker = self._trackers[sender] = SequenceTracker()
            tracker.observe(group.sequence_number, repeated=repeated)
        if repeated:
            self._duplicates += 1
            return
        reports = decode_reports(data, offset + REPORT_GROUP.byte_count, self._marking, dialect)
        for report in reports:
            self._check(report, offset)
        for report in reports:
            self._joiner.add(group.node_id, report, now_ns)
        self._decoded += 1

    def _check(self, report: Report, offset: int) -> None:
        """Reject what decodes but is no evidence about this fabric's links."""
        packet = report.packet
        if packet.key.traffic == TRAFFIC_OTHER:
            raise DecodeError(DecodeReason.INNER_PROTOCOL, offset)
        if packet.stack is not None:
            for hop in packet.stack.hops:
                if hop.node_id not in self._fabric.nodes:
                    raise DecodeError(DecodeReason.UNKNOWN_NODE, offset)


def collect(frames: Iterable[tuple[int, bytes]], fabric: Fabric | TelemetryFabric) -> Collection:
    """All packets and hops of captured frames (capture_collector_ns, frame), and the totals."""
    collector = Collector(fabric)
    for capture_collector_ns, frame in frames:
        collector.feed(frame, capture_collector_ns)
    return collector.flush()
