# SPDX-License-Identifier: Apache-2.0
"""Report loss by sequence number, per sender: what arrived, what is missing, what came twice.

A sender is (node id, hw id); there is one collector, so the destination is implied. Numbers are
compared modulo their width: 2^22 in v2.0 (they wrap after 4.2 s at a million reports a second),
2^32 before. Reports are mostly sent
without a UDP checksum, so a number may be damaged: one that does not fit the run is held until
others bear it out, as RTP does with its own (RFC 3550 appendix A.1).
"""

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass
from enum import Enum, unique
from itertools import pairwise

from controller.telemetry.dialect import SEQUENCE_BITS
from controller.telemetry.unwrap import unwrap

REORDER_WINDOW = 1 << 14
"""How far a report may come late or early: 16 ms at a million reports a second, and more than any
one sender reports in the demo, so that a capture in any order is accounted for."""
NEAR = 64
"""Numbers this close belong together: a gap below it is taken for loss at once, a wider one when
others as close to each other on its far side have arrived."""
CONFIRMING_REPORTS = 3
"""Reports near each other that are believed against the run; with one number in a hundred damaged,
two damaged ones do lie that near now and then."""
_RESTART_GAP_MIN = 1 << 16
_RESTART_NUMBER_MAX = 1 << 10
"""A forward jump of the first that lands below the second is a restart; elsewhere, and for a
device that restarts this close before its wrap, it is counted as loss."""
_RESTART_STEP_MAX = 4
"""Reports that count up from zero by steps so small are a restart, not early ones come late."""


@unique
class Arrival(Enum):
    """What a sequence number says about the report that carries it."""

    NEW = "new"
    REORDERED = "reordered"
    DUPLICATE = "duplicate"
    RESTART = "restart"
    UNCONFIRMED = "unconfirmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCounters:
    """Totals of one sender, or of several added up.

    Every number between the first and the newest was received or is in `lost`:
    received + lost = newest - first + 1, summed over the runs between restarts.
    """

    received: int = 0
    """Distinct numbers."""
    lost: int = 0
    reordered: int = 0
    """Received later than a higher number; part of `received`."""
    duplicate: int = 0
    restart: int = 0
    unconfirmed: int = 0
    """Reports whose number fits no run: damaged, or a stray. Their own number is then in `lost`."""

    def __add__(self, other: "LossCounters") -> "LossCounters":
        return LossCounters(
            received=self.received + other.received,
            lost=self.lost + other.lost,
            reordered=self.reordered + other.reordered,
            duplicate=self.duplicate + other.duplicate,
            restart=self.restart + other.restart,
            unconfirmed=self.unconfirmed + other.unconfirmed,
        )


class SequenceTracker:
    """Accounts for the sequence numbers of one sender."""

    def __init__(
        self, *, reorder_window: int = REORDER_WINDOW, sequence_bits: int = SEQUENCE_BITS
    ) -> None:
        self._window = reorder_window
        self._bits = sequence_bits
        self._period = 1 << sequence_bits
        self._window_mask = (1 << reorder_window) - 1
        self._newest = -1
        """Highest number so far, unwrapped; -1 before the first."""
        self._seen = 0
        """Bit k: number newest - k has arrived."""
        self._run_start = 0
        self._run_received = 0
        self._held: list[int] = []
        """Within the window, but far from the run: sorted, unwrapped."""
        self._held_row: list[int] = []
        """The last reports, where all of them were held."""
        self._strays: list[int] = []
        """Outside the window or taken already, in a row and close to each other, unwrapped."""
        self._received = self._lost = self._reordered = 0
        self._duplicate = self._restart = self._unconfirmed = 0

    @property
    def counters(self) -> LossCounters:
        """Totals so far. A number counts as lost as soon as a higher one has been accepted."""
        return LossCounters(
            received=self._received,
            lost=self._lost,
            reordered=self._reordered,
            duplicate=self._duplicate,
            restart=self._restart,
            unconfirmed=self._unconfirmed,
        )

    def observe(self, sequence_number: int, *, repeated: bool = False) -> Arrival:
        """Account for one report; `repeated`: the same content has arrived before."""
        number = self._unwrapped(sequence_number)
        if repeated:
            self._duplicate += 1
            if number not in self._strays:
                self._strays.clear()
            return Arrival.DUPLICATE
        if self._newest < 0:
            self._begin_run(number)
            return Arrival.NEW
        if abs(number - self._newest) >= self._window or self._is_taken(number):
            return self._stray(number)
        self._strays.clear()
        if not self._run_start - NEAR <= number <= self._newest + NEAR:
            return self._hold(number)
        self._held_row.clear()
        arrival = self._accept(number)
        self._accept_held()
        return arrival

    def _unwrapped(self, sequence_number: int) -> int:
        if self._newest < 0:
            return sequence_number + self._period  # positive when early reports arrive late, too
        return unwrap(sequence_number, self._bits, self._newest)

    def _is_taken(self, number: int) -> bool:
        behind = self._newest - number
        return behind >= 0 and bool(self._seen >> behind & 1)

    def _begin_run(self, number: int) -> None:
        self._newest = self._run_start = number
        self._seen = 1
        self._held.clear()
        self._held_row.clear()
        self._strays.clear()
        self._received += 1
        self._run_received = 1

    def _accept(self, number: int) -> Arrival:
        """Take a number that has not been taken."""
        ahead = number - self._newest
        self._received += 1
        self._run_received += 1
        if ahead > 0:
            shifted = self._seen << ahead if ahead < self._window else 0
            self._seen = (shifted | 1) & self._window_mask
            self._newest = number
            self._lost += ahead - 1
            return Arrival.NEW
        self._seen |= 1 << -ahead
        self._reordered += 1
        if number >= self._run_start:
            self._lost -= 1
        else:
            self._lost += self._run_start - number - 1
            self._run_start = number
        return Arrival.REORDERED

    def _hold(self, number: int) -> Arrival:
        """A number of the window far from the run; others near it bear it out."""
        held, row = self._held, self._held_row
        self._unconfirmed += 1
        row[:] = [*row[1 - CONFIRMING_REPORTS :], number]
        first = bisect_left(held, number - NEAR)
        near = held[first : bisect_right(held, number + NEAR)]
        if number in near:
            return Arrival.UNCONFIRMED
        insort(near, number)
        if len(near) < CONFIRMING_REPORTS:
            insort(held, number)
            return Arrival.UNCONFIRMED
        del held[first : first + len(near) - 1]
        self._unconfirmed -= len(near)
        alone = self._run_received == 1
        restarted = self._row_restarts() and not alone
        if alone:
            self._begin_run_after_stray(near[0])
        elif restarted:
            self._restart += 1
            self._begin_run(near[0])
        for confirmed in near[alone or restarted :]:
            self._accept(confirmed)
        self._accept_held()
        if restarted:
            return Arrival.RESTART
        return Arrival.REORDERED if number < self._newest else Arrival.NEW

    def _row_restarts(self) -> bool:
        """Whether the reports held in a row count up from zero, below where the run began."""
        row = self._held_row
        return (
            len(row) == CONFIRMING_REPORTS
            and row[-1] < self._run_start
            and row[0] % self._period < _RESTART_NUMBER_MAX
            and all(0 < after - before <= _RESTART_STEP_MAX for before, after in pairwise(row))
        )

    def _begin_run_after_stray(self, number: int) -> None:
        """Some reports bear each other out, the one before them stood alone: it is held instead."""
        held = sorted([*self._held, self._newest])
        self._begin_run(number)
        self._held += held
        self._received -= 1
        self._unconfirmed += 1

    def _accept_held(self) -> None:
        """Take what is no longer far from the run; forget what the window has left behind."""
        held = self._held
        while held:
            first = bisect_left(held, self._run_start - NEAR)
            last = bisect_right(held, self._newest + NEAR)
            if first == last:
                return
            fitting = held[first:last]
            del held[first:last]
            for number in fitting:
                if self._newest - number < self._window and not self._is_taken(number):
                    self._accept(number)
                    self._unconfirmed -= 1

    def _stray(self, number: int) -> Arrival:
        """A number outside the window, or one taken already that comes with other content.

        A device that restarts reuses numbers, and all that follow are of its new run.
        """
        self._unconfirmed += 1
        strays = self._strays
        if number in strays:
            return Arrival.UNCONFIRMED
        if any(abs(number - stray) > NEAR for stray in strays):
            strays.clear()
        strays.append(number)
        if len(strays) < CONFIRMING_REPORTS:
            return Arrival.UNCONFIRMED
        run = sorted(strays)
        strays.clear()
        self._unconfirmed -= len(run)
        ahead = run[0] - self._newest
        from_zero = run[0] % self._period < _RESTART_NUMBER_MAX and ahead >= _RESTART_GAP_MIN
        if ahead >= self._window and not from_zero and self._run_received > 1:
            self._held.clear()
            for confirmed in run:
                self._accept(confirmed)
            return Arrival.NEW
        if self._run_received > 1:
            self._restart += 1
        else:  # the one report before them was the stray
            self._received -= 1
            self._unconfirmed += 1
        self._begin_run(run[0] % self._period + self._period)
        for confirmed in run[1:]:
            self._accept(confirmed - run[0] + self._run_start)
        return Arrival.RESTART
