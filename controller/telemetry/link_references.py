# SPDX-License-Identifier: Apache-2.0
"""Whether two postcards can be of one packet: the stamps across a link differ as they did before.

The clocks of two switches have any offset, but it hardly changes between packets: the difference of
the receiver's ingress and the sender's egress stamp on one link is nearly a constant. Postcards of
two attempts to send one packet are apart by the time between the attempts, which is at least a
round trip.
"""

from collections.abc import Sequence
from itertools import pairwise

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


class LinkReferences:
    """The newest difference of each directed link, of packets that were sent once."""

    def __init__(self, timelines: StampTimelines) -> None:
        self._timelines = timelines
        self._references: dict[tuple[PortKey, PortKey], tuple[int, int]] = {}
        """(difference in ns, collector time) by egress and ingress port; at most two per cable."""

    def fits(self, sender: Piece, receiver: Piece) -> bool | None:
        """Whether both can be of one attempt; None where nothing is known to compare with."""
        reference = self._references.get((sender.egress_key, receiver.ingress_key))
        difference_ns = self._difference_ns(sender, receiver)
        if reference is None or difference_ns is None:
            return None
        age_ns = abs(receiver.capture_collector_ns - reference[1])
        if age_ns > REFERENCE_AGE_NS_MAX:
            return None
        unit_ns = max(self._timelines.of(node).unit_ns for node in (sender[0], receiver[0]))
        tolerance_ns = TOLERANCE_UNITS * unit_ns + age_ns * RATE_OFFSET_MAX_PPM // 1_000_000
        return abs(difference_ns - reference[0]) <= tolerance_ns

    def path_fits(self, path: Sequence[Piece]) -> bool:
        """Whether nothing speaks against the path."""
        return all(self.fits(*pair) is not False for pair in pairwise(path))

    def learn(self, path: Sequence[Piece]) -> None:
        """Take the differences of a path of one attempt, hops in order."""
        for sender, receiver in pairwise(path):
            difference_ns = self._difference_ns(sender, receiver)
            if difference_ns is not None:
                ports = (sender.egress_key, receiver.ingress_key)
                self._references[ports] = (difference_ns, receiver.capture_collector_ns)

    def _difference_ns(self, sender: Piece, receiver: Piece) -> int | None:
        sent, received = sender.values.egress_tstamp, receiver.values.ingress_tstamp
        if sent is None or received is None:
            return None
        sent_ns = self._timelines.of(sender.node_id).one_to_local_ns(
            sent, sender.capture_collector_ns
        )
        received_ns = self._timelines.of(receiver.node_id).one_to_local_ns(
            received, receiver.capture_collector_ns
        )
        return None if sent_ns is None or received_ns is None else received_ns - sent_ns
