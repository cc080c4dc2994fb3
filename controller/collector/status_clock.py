# SPDX-License-Identifier: Apache-2.0
"""Whether a device's stamps advance as the collector's clock does: a wrong unit shows at once.

Rates of real clocks differ by less than 0.01 %; a wrong unit is off by a factor. Between two
reports of one node, the stamps' difference times the declared unit is compared with the difference
of capture times.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from controller.collector.state import Sample
from controller.telemetry.codec import DecodeError
from controller.telemetry.formats import claimed_node_id, decode_datagram
from controller.telemetry.packet import IntMarking
from controller.telemetry.profiles import ReportFormat
from controller.telemetry.topology import TelemetryFabric, TelemetryNode
from controller.telemetry.unwrap import unwrap

PAIRS_MIN = 5
BASE_NS_MIN = 10_000_000
"""Shorter distances in time are spoilt by how long reports were under way."""
RATIO_ERROR_MAX = 0.05
"""Further from 1, no clock is: capture times of a busy machine are off by milliseconds."""
SPREAD_MAX = 0.05
"""Of the middle half of the ratios: with more, it is not one factor that is wrong."""
_UNITS_NS = (1, 10, 100, 1000, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """How a node's stamps advance."""

    node_id: int
    declared_unit_ns: int
    ratio: float
    """Stamp time with the declared unit, per collector time; median."""
    pairs: int
    consistent: bool
    """Whether all pairs tell about the same."""

    @property
    def is_right(self) -> bool:
        """Whether the unit may be the declared one."""
        return self.consistent and abs(self.ratio - 1) <= RATIO_ERROR_MAX

    @property
    def likely_unit_ns(self) -> int | None:
        """The unit that would explain the stamps; None where none of the usual does."""
        if not self.consistent or self.ratio <= 0:
            return None
        unit_ns = self.declared_unit_ns / self.ratio
        for usual_ns in _UNITS_NS:
            if abs(unit_ns / usual_ns - 1) <= RATIO_ERROR_MAX:
                return usual_ns
        return None


def clock_readings(samples: Sequence[Sample], fabric: TelemetryFabric) -> Iterator[ClockReading]:
    """One for each node that has sent enough stamps, far enough apart; others cannot be judged."""
    for node_id, stamps in sorted(_own_stamps(samples, fabric).items()):
        node = fabric.nodes[node_id]
        ratios = sorted(_ratios(stamps, node))
        if len(ratios) < PAIRS_MIN:
            continue
        middle = median(ratios)
        spread = ratios[len(ratios) * 3 // 4] - ratios[len(ratios) // 4]
        yield ClockReading(
            node_id=node_id,
            declared_unit_ns=node.stamp_unit_ns,
            ratio=middle,
            pairs=len(ratios),
            consistent=spread <= SPREAD_MAX * abs(middle),
        )


def _own_stamps(
    samples: Sequence[Sample], fabric: TelemetryFabric
) -> dict[int, list[tuple[int, int]]]:
    """(capture time, raw stamp) by node, of what nodes report of themselves."""
    marking = IntMarking(fabric.original_dscp, fabric.int_udp_port)
    dialects_v05 = [
        node.dialect
        for node in fabric.nodes.values()
        if node.dialect.report_format is ReportFormat.V05
    ]
    stamps: dict[int, list[tuple[int, int]]] = {}
    for sample in samples:
        try:
            node_id = claimed_node_id(sample.payload, 0, marking, dialects_v05)
            node = fabric.nodes.get(node_id)
            if node is None:
                continue
            datagram = decode_datagram(sample.payload, 0, marking, node.dialect)
        except DecodeError:
            continue
        for report in datagram.reports:
            values = report.metadata
            stamp = None if values is None else values.ingress_tstamp
            if stamp:
                stamps.setdefault(node_id, []).append((sample.capture_collector_ns, stamp))
    return stamps


def _ratios(stamps: list[tuple[int, int]], node: TelemetryNode) -> Iterator[float]:
    """Of each report to the first one that is far enough behind it."""
    stamps.sort()
    width_bits = min(node.stamp_width_bits, 62)
    far = 0
    for captured_ns, stamp in stamps:
        while far < len(stamps) and stamps[far][0] - captured_ns < BASE_NS_MIN:
            far += 1
        if far == len(stamps):
            return
        distance_ns = stamps[far][0] - captured_ns
        if distance_ns >= node.stamp_unit_ns << (width_bits - 2):
            continue  # the clock may have gone round
        advance = unwrap(stamps[far][1], width_bits, stamp) - stamp
        yield advance * node.stamp_unit_ns / distance_ns
