# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind, as a real fabric would; whichever backend ran it."""

from dataclasses import dataclass, field

import numpy as np

from bmv2_lab.truth import TrueWindow
from controller.clock_pairs import CrossStamp
from controller.fabric import LinkEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClockReading:
    """A clock of a host that no packet carries, at one true instant; for scoring alone."""

    clock: str
    local_ns: int
    reference_ns: int
    """What the reference read then."""


@dataclass(slots=True, kw_only=True)
class LabResult:
    """What a run leaves behind."""

    reports: list[tuple[int, bytes]] = field(default_factory=list)
    """(capture time on the collector's clock, frame), in order of arrival."""
    reports_sent: int = 0
    reports_lost: int = 0
    """On the way to the collector."""
    ptp_lines: list[str] = field(default_factory=list)
    """Lines of `exchanges.jsonl`."""
    exchanges: list[tuple[str, np.void]] = field(default_factory=list)
    """(host, row of `EXCHANGE_DTYPE`), the same as the lines hold."""
    switch_exchanges: list[tuple[str, np.void]] = field(default_factory=list)
    """The same of switches that are boundary clocks."""
    adjustments: dict[str, list[tuple[int, int, float]]] = field(default_factory=dict)
    """By steered clock, rows of `ADJUSTMENT_DTYPE`, the same as the lines hold."""
    cross_stamps: list[tuple[int, CrossStamp]] = field(default_factory=list)
    """(true instant, for scoring alone; what the machine logs)."""
    clock_pair_lines: list[str] = field(default_factory=list)
    """Lines of `clock_pairs.jsonl` about hosts' other clocks."""
    host_clocks_observed: list[HostClockReading] = field(default_factory=list)
    """System clocks and GPUs at regular true instants; in no file."""
    pauses: list[tuple[int, LinkEnd, bool]] = field(default_factory=list)
    """(true instant, sending end, whether it is paused or may go on)."""
    observed: list[TrueWindow] = field(default_factory=list)
    """All clocks at regular true instants, where the scenario has limits on estimates; for scoring
    alone, in no file."""
    cpu_frames: int = 0
    """Packets that switches sent to the controller."""

    @property
    def has_clock_pairs(self) -> bool:
        """There is something for `clock_pairs.jsonl`."""
        return bool(self.cross_stamps or self.clock_pair_lines)
