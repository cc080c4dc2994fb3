# SPDX-License-Identifier: Apache-2.0
"""Which profile a device really speaks, told from reports that were rejected under its own.

Every profile reads the same payloads; one that is right decodes them whole, meets no node that is
not in the fabric, and finds stamps and latencies that agree with each other and stacks that follow
the cables. Two profiles that read the payloads differently and equally well are ambiguous: then
nothing is said.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from controller.fabric import Fabric
from controller.telemetry.codec import DecodeError
from controller.telemetry.formats import Datagram, decode_datagram
from controller.telemetry.metadata import HopMetadata
from controller.telemetry.packet import TRAFFIC_OTHER, IntMarking
from controller.telemetry.profiles import DIALECTS, Dialect
from controller.telemetry.report import Report
from controller.telemetry.topology import TelemetryFabric, telemetry_fabric

PAYLOADS_MAX = 64
"""Payloads looked at, the newest: every profile decodes each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileMatch:
    """A profile under which rejected payloads make sense."""

    profile: str
    """Its name; the one that `fabric.yaml` declares means that the reports are refused for another
    reason (`CollectorCounters.rejected`)."""
    decoded: int
    """Payloads that decode whole, name known nodes alone and tell of a hop or an event."""
    of: int
    """Payloads looked at."""
    evidence: tuple[str, ...]
    """What speaks for it, a line each."""


@dataclass(slots=True)
class _Checks:
    """How often something that must hold did, and did not."""

    passed: int = 0
    failed: int = 0

    def note(self, holds: bool) -> None:
        if holds:
            self.passed += 1
        else:
            self.failed += 1


@dataclass(slots=True)
class _Reading:
    """What one profile makes of the payloads."""

    dialect: Dialect
    datagrams: list[Datagram] = field(default_factory=list)
    node_ids: set[int] = field(default_factory=set)
    checks: dict[str, _Checks] = field(default_factory=dict)

    @property
    def score(self) -> int:
        """The better of two readings has the higher one: a stack that agrees with stamps and
        cables weighs more than a damaged report that happens to decode."""
        checks = self.checks.values()
        return len(self.datagrams) + sum(check.passed - check.failed for check in checks)

    def note(self, name: str, holds: bool) -> None:
        self.checks.setdefault(name, _Checks()).note(holds)


def detect_profiles(
    payloads: Sequence[bytes], fabric: Fabric | TelemetryFabric
) -> list[ProfileMatch]:
    """The profiles under which most of one node's rejected payloads make sense.

    More than one only where they read these payloads alike, the plainest first; none where no
    profile reads more than half of them or two read them differently and equally well.
    """
    view = fabric if isinstance(fabric, TelemetryFabric) else telemetry_fabric(fabric)
    recent = payloads[-PAYLOADS_MAX:]
    readings = [_read(recent, dialect, view) for dialect in DIALECTS.values()]
    best_score = max(reading.score for reading in readings)
    best = [reading for reading in readings if reading.score == best_score]
    if len(best[0].datagrams) * 2 <= len(recent):
        return []
    if any(reading.datagrams != best[0].datagrams for reading in best):
        return []
    best.sort(key=lambda reading: len(reading.dialect.deviations()))
    return [_match(reading, len(recent)) for reading in best]


def _read(payloads: Iterable[bytes], dialect: Dialect, view: TelemetryFabric) -> _Reading:
    marking = IntMarking(view.original_dscp, view.int_udp_port)
    reading = _Reading(dialect)
    for payload in payloads:
        try:
            datagram = decode_datagram(payload, 0, marking, dialect)
        except DecodeError:
            continue
        node_ids = set(_node_ids(datagram))
        if not node_ids <= view.nodes.keys() or not any(map(_tells_of_a_hop, datagram.reports)):
            continue
        reading.datagrams.append(datagram)
        reading.node_ids |= node_ids
        for report in datagram.reports:
            _check(report, datagram.header.node_id, reading, view)
    return reading


def _tells_of_a_hop(report: Report) -> bool:
    """Whether there are values of any node: a report without is one whose stack went unseen."""
    own = report.metadata
    if report.packet.stack is not None or report.is_event:
        return True
    return own is not None and any(
        value is not None for value in (own.ingress_port, own.ingress_tstamp, own.egress_tstamp)
    )


def _node_ids(datagram: Datagram) -> Iterable[int]:
    yield datagram.header.node_id
    for report in datagram.reports:
        if report.metadata is not None and report.metadata.node_id is not None:
            yield report.metadata.node_id
        stack = report.packet.stack
        for hop in () if stack is None else stack.hops:
            yield -1 if hop.node_id is None else hop.node_id


def _check(report: Report, node_id: int, reading: _Reading, view: TelemetryFabric) -> None:
    """Note what agrees in a report and what does not."""
    stack = report.packet.stack
    hops = () if stack is None else stack.hops
    reading.note("packets that can be timed", report.packet.key.traffic != TRAFFIC_OTHER)
    if report.metadata is not None:
        _check_stamps(report.metadata, node_id, reading, view)
    for hop in hops:
        _check_stamps(hop, hop.node_id or 0, reading, view)
    for near, far in pairwise(hops):
        if near.egress_port is not None and far.ingress_port is not None:
            end = view.neighbours.get((near.node_id or 0, near.egress_port))
            reading.note("cables followed", end == (far.node_id, far.ingress_port))


def _check_stamps(hop: HopMetadata, node_id: int, reading: _Reading, view: TelemetryFabric) -> None:
    node = view.nodes.get(node_id)
    if node is None:
        return
    ingress, egress = hop.ingress_tstamp, hop.egress_tstamp
    egress_bits = node.egress_stamp_width_bits or node.stamp_width_bits
    for stamp, width_bits in ((ingress, node.stamp_width_bits), (egress, egress_bits)):
        if stamp is not None:
            reading.note("stamps within the device's width", stamp >> width_bits == 0)
    if ingress is None or egress is None:
        return
    residence = (egress - ingress) % (1 << egress_bits)
    # modulo the width, more than half of it is an egress before its own ingress
    reading.note("egress stamps after ingress stamps", residence >> (egress_bits - 1) == 0)
    if hop.hop_latency is not None:
        agrees = (hop.hop_latency - residence) % (1 << 32) == 0
        reading.note("hop latencies that equal the stamps' difference", agrees)


def _match(reading: _Reading, payload_count: int) -> ProfileMatch:
    decoded = len(reading.datagrams)
    nodes = ", ".join(str(node_id) for node_id in sorted(reading.node_ids))
    return ProfileMatch(
        profile=reading.dialect.name,
        decoded=decoded,
        of=payload_count,
        evidence=(
            f"{decoded} of {payload_count} payloads decode whole",
            f"nodes named: {nodes}, all of them in the fabric",
            *(
                f"{name}: {check.passed} of {check.passed + check.failed}"
                for name, check in reading.checks.items()
            ),
        ),
    )
