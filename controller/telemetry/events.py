# SPDX-License-Identifier: Apache-2.0
"""What switches report beyond the packets that are followed: drops and congested queues.

A drop report (D) says which packet did not leave a node, and why; a congestion report (Q) which
packet met a long queue or waited long. Neither is a sample of a link by itself, so both are kept
apart from packets and hops. A congested packet that is followed anyway (Q and F) is in both.
"""

from collections import Counter
from dataclasses import dataclass

from controller.fabric_telemetry import DROP_REASONS
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.packet import ReportedPacket
from controller.telemetry.path_records import UNKNOWN_PORT, UNKNOWN_QUEUE_ID
from controller.telemetry.report import Report
from controller.telemetry.stamp_timelines import StampTimelines

_REASON_NAMES = {code: name for name, code in DROP_REASONS.items()}


def drop_reason_name(code: int | None) -> str:
    """The reason's name; a code that is not ours keeps its number.

    >>> drop_reason_name(29), drop_reason_name(80), drop_reason_name(None)
    ('no_route', 'reason_80', 'not_reported')
    """
    return "not_reported" if code is None else _REASON_NAMES.get(code, f"reason_{code}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedPacket:
    """One drop report: the packet as the node received it; what was not reported is None."""

    node_id: int
    reason: str
    """`drop_reason_name` of its code."""
    queue_id: int | None
    """The queue that it was meant for."""
    ingress_port: int | None
    egress_port: int | None
    """None also where no route was chosen."""
    ingress_tstamp_local_ns: int | None
    """On the node's own clock."""
    tracked_flow: bool
    """F: the packet was followed; then its hops up to here are also among the packets."""
    packet: ReportedPacket
    capture_collector_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CongestedPacket:
    """One congestion report of one hop; what was not reported is None."""

    node_id: int
    queue_id: int | None
    queue_depth: int | None
    """When the packet left the queue, in the node's unit."""
    ingress_port: int | None
    egress_port: int | None
    ingress_tstamp_local_ns: int | None
    """On the node's own clock."""
    egress_tstamp_local_ns: int | None
    """On the node's own clock."""
    tracked_flow: bool
    """F: the packet is followed. With its INT stack on it, it is still on its way, and the sink
    tells its path; else this hop is also among the packets."""
    packet: ReportedPacket
    capture_collector_ns: int


class Events:
    """Takes the reports with D or Q; hands over what they say, in order of arrival."""

    def __init__(self, timelines: StampTimelines) -> None:
        self._timelines = timelines
        self._drops: list[DroppedPacket] = []
        self._congested: list[CongestedPacket] = []
        self.drop_counts: Counter[str] = Counter()
        """Drop reports so far, by reason."""
        self.congested_count = 0
        """Congestion reports so far."""

    def add(self, node_id: int, report: Report, now_ns: int) -> None:
        """Take a report of a node of the fabric; one with neither D nor Q is none of ours."""
        values = HopMetadata() if report.metadata is None else report.metadata
        ingress_local_ns, egress_local_ns = self._timelines.instants(
            node_id, values.ingress_tstamp, values.egress_tstamp, now_ns, on_record=True
        )
        if report.dropped:
            reason = drop_reason_name(values.drop_reason)
            self.drop_counts[reason] += 1
            self._drops.append(
                DroppedPacket(
                    node_id=node_id,
                    reason=reason,
                    queue_id=_known(values.drop_queue_id, UNKNOWN_QUEUE_ID),
                    ingress_port=_known(values.ingress_port, UNKNOWN_PORT),
                    egress_port=_known(values.egress_port, UNKNOWN_PORT),
                    ingress_tstamp_local_ns=ingress_local_ns,
                    tracked_flow=report.tracked_flow,
                    packet=report.packet,
                    capture_collector_ns=now_ns,
                )
            )
        if report.congested_queue:
            self.congested_count += 1
            self._congested.append(
                CongestedPacket(
                    node_id=node_id,
                    queue_id=values.queue_id,
                    queue_depth=values.queue_depth,
                    ingress_port=_known(values.ingress_port, UNKNOWN_PORT),
                    egress_port=_known(values.egress_port, UNKNOWN_PORT),
                    ingress_tstamp_local_ns=ingress_local_ns,
                    egress_tstamp_local_ns=egress_local_ns,
                    tracked_flow=report.tracked_flow,
                    packet=report.packet,
                    capture_collector_ns=now_ns,
                )
            )

    def take(self) -> tuple[tuple[DroppedPacket, ...], tuple[CongestedPacket, ...]]:
        """Everything since the last call."""
        taken = tuple(self._drops), tuple(self._congested)
        self._drops.clear()
        self._congested.clear()
        return taken


def _known(value: int | None, unknown: int) -> int | None:
    """None for the wire's all-ones as well."""
    return None if value == unknown else value
