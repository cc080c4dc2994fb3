# SPDX-License-Identifier: Apache-2.0
"""Report frames in, packets with their hops, drops and congestion out; the rest is counted.

The collector does no I/O: `feed` takes a frame and the collector clock's time, from a pcap, a
socket (`udp.serve_udp`) or a simulation. No input makes it raise.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import NamedTuple

from controller.fabric import Fabric
from controller.fabric_telemetry import DROP_REASONS
from controller.telemetry.codec import Buffer, DecodeError, DecodeReason
from controller.telemetry.datagram import UdpDatagram, unwrap_udp
from controller.telemetry.events import CongestedPacket, DroppedPacket, Events
from controller.telemetry.formats import claimed_node_id, decode_contents, decode_header
from controller.telemetry.layout import UDP
from controller.telemetry.link_references import LinkReferences
from controller.telemetry.loss import LossCounters, SequenceTracker
from controller.telemetry.missing_tstamps import MissingTstamps
from controller.telemetry.packet import TRAFFIC_OTHER, IntMarking
from controller.telemetry.path_records import UNKNOWN_PORT, PacketAddresses, PathRecords
from controller.telemetry.postcards import JOIN_WINDOW_NS, PathJoiner
from controller.telemetry.profiles import STANDARD, ReportFormat
from controller.telemetry.rejected import RejectedSamples, named_node_id
from controller.telemetry.report import Report
from controller.telemetry.seen import SeenReports, Sight
from controller.telemetry.stamp_timelines import ClockEpoch, StampTimelines
from controller.telemetry.topology import HOST_END, TelemetryFabric, telemetry_fabric
from correction.records import TRAFFIC_PROBE, Hops, Packets

_CHECKSUM_INVALID = DROP_REASONS["ip_checksum_invalid"]


class Destination(NamedTuple):
    """Where a report was sent to: its datagram's destination."""

    ip: int
    udp_port: int

    def __str__(self) -> str:
        return f"{ip_address(self.ip)}:{self.udp_port}"


UNKNOWN_DESTINATION = Destination(0, 0)
"""Of a payload that came without the headers around it."""


class SenderKey(NamedTuple):
    """One sequence of report numbers (TR 3.2)."""

    node_id: int
    hw_id: int
    destination: Destination = UNKNOWN_DESTINATION


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorCounters:
    """Totals since the collector started.

    received = decoded + duplicates + replicas + all of `rejected`; lost reports never arrived.
    """

    received: int
    """Frames or datagrams offered."""
    decoded: int
    """Datagrams whose reports were all taken."""
    duplicates: int
    """Datagrams whose content had arrived before."""
    replicas: int
    """Datagrams that differ from earlier ones in the sequence number alone: one copy of a packet,
    reported several times."""
    lost: int
    """Gaps in the sequence numbers, over all senders."""
    reordered: int
    restarts: int
    """Senders that began their sequence anew."""
    unconfirmed: int
    """Reports whose sequence number fits no run of their sender; their content is used."""
    rejected: Mapping[DecodeReason, int]
    invalid_tstamps: Mapping[str, int]
    """Stamps that became none: not available (zero, all-ones) by field, and by field and reason
    what no clock of that device can show (`stamp_kernel.StampFault`)."""
    clock_epochs: Mapping[int, int]
    """How often a node's clock was set or began anew, by node id."""
    complete: int
    """Packets with every hop from host to host."""
    incomplete: int
    """Packets of which reports were missing when their window closed, or that were dropped."""
    resent: int
    """Packets whose reports show that they were sent again; each attempt is a packet of its own."""
    dropped: Mapping[str, int]
    """Drop reports, by reason."""
    congested: int
    """Congestion reports."""
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
    drops: tuple[DroppedPacket, ...]
    """Drop reports, in order of arrival."""
    congested: tuple[CongestedPacket, ...]
    """Congestion reports, in order of arrival."""
    addresses: Mapping[int, PacketAddresses]
    """By row of `packets`: addresses of packets that are not IPv4."""
    epochs: tuple[ClockEpoch, ...] = ()
    """Clocks that were set or began anew, in order of discovery."""


class Collector:
    """Decodes, accounts for and joins the reports of one fabric."""

    def __init__(
        self, fabric: Fabric | TelemetryFabric, *, join_window_ns: int = JOIN_WINDOW_NS
    ) -> None:
        self._fabric = fabric if isinstance(fabric, TelemetryFabric) else telemetry_fabric(fabric)
        self._marking = IntMarking(self._fabric.original_dscp, self._fabric.int_udp_port)
        self._timelines = timelines = StampTimelines(self._fabric)
        self._missing = MissingTstamps(self._fabric)
        self._records = PathRecords(self._fabric, timelines)
        self._joiner = PathJoiner(
            self._fabric, self._records, LinkReferences(timelines), window_ns=join_window_ns
        )
        self._events = Events(timelines)
        self._trackers: dict[SenderKey, SequenceTracker] = {}
        self._seen = SeenReports()
        self._received = self._decoded = self._duplicates = self._replicas = 0
        self._rejected: Counter[DecodeReason] = Counter()
        self._rejected_samples = RejectedSamples(self._fabric.nodes)
        dialects = {node.dialect.name: node.dialect for node in self._fabric.nodes.values()}
        self._dialects_v05 = [
            dialect for dialect in dialects.values() if dialect.report_format is ReportFormat.V05
        ]
        self._any_beyond_ip_length = any(
            dialect.payload_beyond_ip_length for dialect in dialects.values()
        )

    def feed(self, frame: Buffer, now_ns: int) -> None:
        """Take an Ethernet frame that should carry a report, captured at `now_ns`."""
        self._received += 1
        try:
            datagram = unwrap_udp(frame)
            destination = Destination(datagram.ip.dst_addr, datagram.udp.dst_port)
            if destination.udp_port not in self._fabric.report_udp_ports:
                port_offset = datagram.payload_start - UDP.byte_count + 2
                raise DecodeError(DecodeReason.UDP_PORT, port_offset)
        except DecodeError as error:
            self._rejected[error.reason] += 1
            return
        data = frame[: self._payload_end(frame, datagram)]
        self._take_or_reject(data, datagram.payload_start, now_ns, destination)

    def feed_payload(
        self, payload: Buffer, now_ns: int, destination: Destination = UNKNOWN_DESTINATION
    ) -> None:
        """The same for a UDP payload from a socket: the kernel has checked what is around it.

        `destination` is what tells several sockets of one collector apart.
        """
        self._received += 1
        self._take_or_reject(payload, 0, now_ns, destination)

    def drain(self) -> Collection:
        """What is finished since the last call; packets that wait for reports go on waiting."""
        packets, hops, addresses = self._records.take()
        drops, congested = self._events.take()
        return Collection(
            packets=packets,
            hops=hops,
            counters=self.counters,
            drops=drops,
            congested=congested,
            addresses=addresses,
            epochs=self._timelines.take_epochs(),
        )

    def flush(self) -> Collection:
        """The end of the input: closes what still waits as incomplete, then drains."""
        self._joiner.close()
        return self.drain()

    @property
    def rejected_samples(self) -> Mapping[int, Sequence[bytes]]:
        """The newest rejected report payloads of each node, for `detect.detect_profiles`; those of
        senders that are not in the fabric under 0."""
        return self._rejected_samples.samples

    @property
    def counters(self) -> CollectorCounters:
        """Totals so far; impossible stamps are found when a packet is drained."""
        senders, total = self._losses()
        return CollectorCounters(
            received=self._received,
            decoded=self._decoded,
            duplicates=self._duplicates,
            replicas=self._replicas,
            lost=total.lost,
            reordered=total.reordered,
            restarts=total.restart,
            unconfirmed=total.unconfirmed,
            rejected=dict(self._rejected),
            invalid_tstamps=dict(self._missing.counts + self._timelines.faults),
            clock_epochs=self._timelines.epoch_counts,
            complete=self._joiner.complete_count,
            incomplete=self._joiner.incomplete_count,
            resent=self._joiner.resent_count,
            dropped=dict(sorted(self._events.drop_counts.items())),
            congested=self._events.congested_count,
            senders=senders,
        )

    def _losses(self) -> tuple[Mapping[SenderKey, LossCounters], LossCounters]:
        """Counters of each sender, and of all together."""
        senders = {key: tracker.counters for key, tracker in sorted(self._trackers.items())}
        return senders, sum(senders.values(), LossCounters())

    def _payload_end(self, frame: Buffer, datagram: UdpDatagram) -> int:
        """Where the report ends: for some senders behind what the headers around it say."""
        if self._any_beyond_ip_length:
            payload = frame[datagram.payload_start : datagram.payload_end]
            node = self._fabric.nodes.get(named_node_id(payload))
            if node is not None and node.dialect.payload_beyond_ip_length:
                return len(frame)
        return datagram.payload_end

    def _take_or_reject(
        self, data: Buffer, offset: int, now_ns: int, destination: Destination
    ) -> None:
        try:
            self._take(data, offset, now_ns, destination)
        except DecodeError as error:
            self._rejected[error.reason] += 1
            self._rejected_samples.add(data[offset:])

    def _take(self, data: Buffer, offset: int, now_ns: int, destination: Destination) -> None:
        """A report datagram that starts at `offset` and ends with `data`."""
        # Only a known sender's dialect can be right; a stranger's version is judged first.
        node_id = claimed_node_id(data, offset, self._marking, self._dialects_v05)
        node = self._fabric.nodes.get(node_id)
        dialect = STANDARD if node is None else node.dialect
        header = decode_header(data, offset, self._marking, dialect)
        if node is None:
            raise DecodeError(DecodeReason.UNKNOWN_NODE, offset + 4)
        sight = self._seen.look(bytes(data[offset:]))
        repeated = sight is Sight.REPEATED
        if not dialect.sequence_constant:
            sender = SenderKey(node_id, header.hw_id, destination)
            tracker = self._trackers.get(sender)
            if tracker is None:
                tracker = SequenceTracker(sequence_bits=dialect.sequence_bits)
                self._trackers[sender] = tracker
            tracker.observe(header.sequence_number, repeated=repeated)
        if repeated:
            self._duplicates += 1
            return
        reports = decode_contents(data, offset, self._marking, dialect)
        if sight is Sight.REPLICA and any(report.has_tstamp for report in reports):
            self._replicas += 1
            return
        faults = [self._not_evidence(report) for report in reports]
        for report, fault in zip(reports, faults, strict=True):
            # why a packet was dropped or met a queue is news whatever the packet is
            if fault is not None and not report.is_event:
                raise DecodeError(fault, offset)
        for report, fault in zip(reports, faults, strict=True):
            report = self._missing.removed(node_id, report)
            if report.is_event:
                self._events.add(node_id, report, now_ns)
            if fault is None and self._is_path_evidence(node_id, report):
                self._joiner.add(node_id, report, now_ns)
        self._decoded += 1

    def _is_path_evidence(self, node_id: int, report: Report) -> bool:
        """Whether the report's hops are samples of links: also no host's word is taken for INT.

        A switch drops before it looks at the marking, so that what a host sends may look like a
        stack; and behind a wrong IP checksum nothing is sure.
        """
        values = report.metadata
        if report.dropped and values is not None:
            port = UNKNOWN_PORT if values.ingress_port is None else values.ingress_port
            far_end = self._fabric.neighbours.get((node_id, port))
            if far_end is None or far_end == HOST_END or values.drop_reason == _CHECKSUM_INVALID:
                return False
        return report.is_path_evidence

    def _not_evidence(self, report: Report) -> DecodeReason | None:
        """Why a report that decodes tells nothing about this fabric's links; None if it does."""
        packet = report.packet
        if packet.problem is DecodeReason.NO_PACKET:
            return DecodeReason.NO_PACKET
        if packet.key.traffic == TRAFFIC_OTHER:
            return DecodeReason.INNER_PROTOCOL
        nodes = self._fabric.nodes
        if packet.key.traffic == TRAFFIC_PROBE and packet.key.probe_node_id not in nodes:
            return DecodeReason.UNKNOWN_NODE
        if packet.stack is not None:
            for hop in packet.stack.hops:
                if hop.node_id not in nodes:
                    return DecodeReason.UNKNOWN_NODE
        return None


def collect(frames: Iterable[tuple[int, bytes]], fabric: Fabric | TelemetryFabric) -> Collection:
    """All packets and hops of captured frames (capture_collector_ns, frame), and the totals."""
    collector = Collector(fabric)
    for capture_collector_ns, frame in frames:
        collector.feed(frame, capture_collector_ns)
    return collector.flush()
