# SPDX-License-Identifier: Apache-2.0
"""Whether two postcards can be of one packet: the stamps across a link differ as they did before.

The clocks of two switches have any offset, but it hardly changes between packets: the difference of
the receiver's ingress and the sender's egress stamp on one link is nearly a constant. Only a link
that was paused makes it larger, and only a clock that was set makes it smaller. Postcards of two
attempts to send one packet are apart by the time between the attempts, at least a round trip.
"""

from collections.abc import Sequence
from enum import Enum, unique
from itertools import pairwise
from typing import NamedTuple

from controller.telemetry.pieces import Piece
from controller.telemetry.stamp_timelines import StampTimelines
from controller.telemetry.topology import PortKey

TOLERANCE_UNITS = 3_000
"""So many stamp units two differences may be apart at once: 3 us for nanosecond stamps, less than
any retransmission takes, and 3 ms for BMv2, whose stamps are microseconds with jitter."""
RATE_OFFSET_MAX_PPM = 200
"""How fast two clocks may drift apart: 100 ppm each."""
REFERENCE_AGE_NS_MAX = 10_000_000_000
"""An older reference says nothing."""
LATE_AGE_NS = 500_000_000
"""No link is paused for longer: where all packets have been late since, a clock was set."""


@unique
class Fit(Enum):
    """How a difference compares with what its link has shown."""

    UNKNOWN = "unknown"
    FITS = "fits"
    LATE = "late"
    EARLY = "early"


class Reference(NamedTuple):
    difference_ns: int
    collector_ns: int
    """When it was last seen."""


class LinkReferences:
    """The newest difference of each directed link that was not late."""

    def __init__(self, timelines: StampTimelines) -> None:
        self._timelines = timelines
        self._references: dict[tuple[PortKey, PortKey], Reference] = {}
        """By egress and ingress port: at most two per cable."""

    def compare(self, sender: Piece, receiver: Piece) -> Fit:
        """How the stamps of two neighbouring postcards fit together."""
        reference = self._references.get((sender.egress_key, receiver.ingress_key))
        difference_ns = self._difference_ns(sender, receiver)
        if reference is None or difference_ns is None:
            return Fit.UNKNOWN
        return self._compare(reference, difference_ns, sender, receiver)

    def admit(self, path: Sequence[Piece]) -> bool:
        """Whether nothing speaks against the path; then its differences are the newest."""
        learned = {}
        for sender, receiver in pairwise(path):
            difference_ns = self._difference_ns(sender, receiver)
            if difference_ns is None:
                continue
            ports = (sender.egress_key, receiver.ingress_key)
            reference = self._references.get(ports)
            if reference is not None:
                fit = self._compare(reference, difference_ns, sender, receiver)
                if fit is Fit.LATE or fit is Fit.EARLY:
                    return False
            learned[ports] = Reference(difference_ns, receiver.capture_collector_ns)
        self._references.update(learned)
        return True

    def is_possible(self, path: Sequence[Piece]) -> bool:
        """Whether a whole path that does not fit may be one all the same.

        A hop may be late: a paused link is likelier than two attempts of which the fitting reports
        are lost. It may be early where no packet has shown otherwise since: a clock was set.
        """
        for sender, receiver in pairwise(path):
            if self.compare(sender, receiver) is Fit.EARLY:
                reference = self._references[sender.egress_key, receiver.ingress_key]
                if reference.collector_ns > receiver.capture_collector_ns:
                    return False
        return True

    def cut(self, path: Sequence[Piece]) -> list[list[Piece]]:
        """The path in parts, cut where its hops do not fit together."""
        parts = [[path[0]]]
        for sender, receiver in pairwise(path):
            if self.compare(sender, receiver) in (Fit.LATE, Fit.EARLY):
                parts.append([])
            parts[-1].append(receiver)
        return parts

    def learn(self, path: Sequence[Piece]) -> None:
        """Take the differences of a path that did not fit, unless they are late for now."""
        for sender, receiver in pairwise(path):
            difference_ns = self._difference_ns(sender, receiver)
            if difference_ns is None:
                continue
            ports = (sender.egress_key, receiver.ingress_key)
            reference = self._references.get(ports)
            now_ns = receiver.capture_collector_ns
            late = (
                reference is not None
                and now_ns - reference.collector_ns < LATE_AGE_NS
                and self._compare(reference, difference_ns, sender, receiver) is Fit.LATE
            )
            if not late:
                self._references[ports] = Reference(difference_ns, now_ns)

    def _compare(
        self, reference: Reference, difference_ns: int, sender: Piece, receiver: Piece
    ) -> Fit:
        age_ns = abs(receiver.capture_collector_ns - reference.collector_ns)
        if age_ns > REFERENCE_AGE_NS_MAX:
            return Fit.UNKNOWN
        units = [self._timelines.unit_ns(piece.node_id) for piece in (sender, receiver)]
        tolerance_ns = TOLERANCE_UNITS * max(units) + age_ns * RATE_OFFSET_MAX_PPM // 1_000_000
        deviation_ns = difference_ns - reference.difference_ns
        if abs(deviation_ns) <= tolerance_ns:
            return Fit.FITS
        return Fit.LATE if deviation_ns > 0 else Fit.EARLY

    def _difference_ns(self, sender: Piece, receiver: Piece) -> int | None:
        _, sent_ns = self._instants(sender)
        received_ns, _ = self._instants(receiver)
        return None if sent_ns is None or received_ns is None else received_ns - sent_ns

    def _instants(self, piece: Piece) -> tuple[int | None, int | None]:
        values = piece.values
        return self._timelines.instants(
            piece.node_id, values.ingress_tstamp, values.egress_tstamp, piece.capture_collector_ns
        )
