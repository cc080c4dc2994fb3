# SPDX-License-Identifier: Apache-2.0
"""Report loss by sequence number, per sender: what arrived, what is missing, what came twice.

A sender is (node id, hw id); there is one collector, so the destination is implied. Numbers are
compared modulo 2^22 (they wrap after 4.2 s at a million reports a second).
"""

from dataclasses import dataclass
from enum import Enum, unique

from controller.telemetry.dialect import SEQUENCE_BITS, unwrap

REORDER_WINDOW = 1024
"""How far a report may come late and still be told from a duplicate: 1 ms at 1 M reports/s."""
_RESTART_GAP_MIN = 1 << 16
"""A forward jump this large that lands near 0 is a restart; elsewhere, and for a device that
restarts this close before its wrap, it is counted as loss."""


@unique
class Arrival(Enum):
    """What a sequence number says about the report that carries it."""

    NEW = "new"
    REORDERED = "reordered"
    DUPLICATE = "duplicate"
    RESTART = "restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCounters:
    """Totals of one sender, or of several added up.

    Every number between the first and the newest was received or is in `lost`:
    received + lost = newest - first + 1, summed over the runs between restarts.
    """

    received: int = 0
    """Distinct reports."""
    lost: int = 0
    reordered: int = 0
    """Received later than a higher number; part of `received`."""
    duplicate: int = 0
    restart: int = 0

    def __add__(self, other: "LossCounters") -> "LossCounters":
        return LossCounters(
            received=self.received + other.received,
            lost=self.lost + other.lost,
            reordered=self.reordered + other.reordered,
            duplicate=self.duplicate + other.duplicate,
            restart=self.restart + other.restart,
        )


class SequenceTracker:
    """Accounts for the sequence numbers of one sender."""

    def __init__(self, *, reorder_window: int = REORDER_WINDOW) -> None:
        self._window = reorder_window
        self._window_mask = (1 << reorder_window) - 1
        self._newest = -1
        """Highest number so far, unwrapped; -1 before the first."""
        self._seen = 0
        """Bit k: number newest - k has arrived."""
        self._fingerprints = [0] * reorder_window
        """Content of the reports in the window, at number modulo window."""
        self._run_start = 0
        self._restart_candidate: tuple[int, int] | None = None
        self._received = self._lost = self._reordered = self._duplicate = self._restart = 0

    @property
    def counters(self) -> LossCounters:
        """Totals so far. A number counts as lost as soon as a higher one has arrived."""
        return LossCounters(
            received=self._received,
            lost=self._lost,
            reordered=self._reordered,
            duplicate=self._duplicate,
            restart=self._restart,
        )

    def observe(self, sequence_number: int, fingerprint: int = 0) -> Arrival:
        """Account for one report; equal content must have an equal fingerprint.

        A number that has been seen, with other content, is no duplicate: the device has restarted.
        """
        if self._newest < 0:
            return self._begin_run(sequence_number, fingerprint, Arrival.NEW)
        unwrapped = unwrap(sequence_number, SEQUENCE_BITS, self._newest)
        ahead = unwrapped - self._newest
        if self._looks_restarted(sequence_number, ahead):
            return self._restart_or_stray(sequence_number, fingerprint)
        self._restart_candidate = None
        if ahead > 0:
            self._seen = (
                (self._seen << ahead | 1) & self._window_mask if ahead < self._window else 1
            )
            self._newest = unwrapped
            self._received += 1
            self._lost += ahead - 1
            self._fingerprints[unwrapped % self._window] = fingerprint
            return Arrival.NEW
        bit = 1 << -ahead
        if self._seen & bit:
            if self._fingerprints[unwrapped % self._window] != fingerprint:
                self._restart += 1
                return self._begin_run(sequence_number, fingerprint, Arrival.RESTART)
            self._duplicate += 1
            return Arrival.DUPLICATE
        self._seen |= bit
        self._received += 1
        self._reordered += 1
        self._fingerprints[unwrapped % self._window] = fingerprint
        if unwrapped >= self._run_start:
            self._lost -= 1
        else:
            self._lost += self._run_start - unwrapped - 1
            self._run_start = unwrapped
        return Arrival.REORDERED

    def _begin_run(self, sequence_number: int, fingerprint: int, arrival: Arrival) -> Arrival:
        # An offset of one period keeps numbers positive when early reports arrive late.
        self._newest = self._run_start = sequence_number + (1 << SEQUENCE_BITS)
        self._seen = 1
        self._fingerprints[self._newest % self._window] = fingerprint
        self._restart_candidate = None
        self._received += 1
        return arrival

    def _looks_restarted(self, sequence_number: int, ahead: int) -> bool:
        if ahead <= -self._window:
            return True
        return ahead >= _RESTART_GAP_MIN and sequence_number < self._window

    def _restart_or_stray(self, sequence_number: int, fingerprint: int) -> Arrival:
        """One number far behind may be a stray; a second one next to it is a restart.

        A stray is neither received nor lost in the counters: nothing is known of its run.
        """
        if self._restart_candidate is not None:
            candidate, candidate_fingerprint = self._restart_candidate
            step = unwrap(sequence_number, SEQUENCE_BITS, candidate) - candidate
            if step == 0 and fingerprint == candidate_fingerprint:
                self._duplicate += 1
                return Arrival.DUPLICATE
            if 0 < abs(step) < self._window:
                self._begin_run(candidate, candidate_fingerprint, Arrival.RESTART)
                self._restart += 1
                self.observe(sequence_number, fingerprint)
                return Arrival.RESTART
        self._restart_candidate = (sequence_number, fingerprint)
        return Arrival.REORDERED
