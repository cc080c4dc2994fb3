# SPDX-License-Identifier: Apache-2.0
"""How packets are treated by their DSCP: traffic classes, and the maps of the switches themselves.

Parts of `Fabric` (`fabric.py`). `QosMaps` are settings outside of what the P4 program's tables
hold: nothing is written from them, they are what `fabric_treatment.py` checks.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficClass:
    """One DSCP with its queue. The marked DSCP is treated alike by construction."""

    name: str
    dscp: int
    marked_dscp: int | None = None
    """DSCP of the same class that carries INT: the odd neighbour of an even dscp."""
    queue: int
    packet_bytes_max: int | None = None
    """Largest IP packet of the class as hosts send it; None: what the MTU of their links allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EcnThreshold:
    """Packets that leave a queue deeper than this are marked Congestion Experienced."""

    queue: int
    threshold_packets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """Traffic classes and ECN; a higher queue number is served first."""

    default_queue: int
    classes: tuple[TrafficClass, ...]
    ecn: tuple[EcnThreshold, ...] = ()

    def class_named(self, name: str) -> TrafficClass | None:
        """The class of that name."""
        return next((c for c in self.classes if c.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EcnProfile:
    """Thresholds of ECN marking, for a queue or for DSCPs."""

    queue: int | None = None
    """Packets of this queue; None: those of `dscps`."""
    dscps: tuple[int, ...] = ()
    min_bytes: int
    """Depth from which packets may be marked."""
    max_bytes: int
    """Depth from which packets are marked with the largest probability."""
    max_percent: int = 100
    """Largest probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QosMaps:
    """A switch's maps from DSCPs; a DSCP in no row has the default."""

    queues: tuple[tuple[tuple[int, ...], int], ...] = ()
    """(DSCPs, queue)."""
    default_queue: int = 0
    priorities: tuple[tuple[tuple[int, ...], int], ...] = ()
    """(DSCPs, PFC priority)."""
    default_priority: int = 0
    pfc_priorities: tuple[int, ...] = ()
    """Priorities that are paused, not dropped."""
    ecn: tuple[EcnProfile, ...] = ()

    def queue_of(self, dscp: int) -> int:
        """The queue of packets with this DSCP."""
        return _row_of(self.queues, dscp, self.default_queue)

    def priority_of(self, dscp: int) -> int:
        """Their PFC priority."""
        return _row_of(self.priorities, dscp, self.default_priority)

    def ecn_of(self, dscp: int) -> tuple[int, int, int] | None:
        """Their thresholds and largest probability: those of the DSCP, else of its queue."""
        queue = self.queue_of(dscp)
        for by_dscp in (True, False):
            for profile in self.ecn:
                if dscp in profile.dscps if by_dscp else profile.queue == queue:
                    return profile.min_bytes, profile.max_bytes, profile.max_percent
        return None


def _row_of(rows: Iterable[tuple[tuple[int, ...], int]], dscp: int, default: int) -> int:
    return next((value for dscps, value in rows if dscp in dscps), default)
