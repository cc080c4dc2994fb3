# SPDX-License-Identifier: Apache-2.0
"""From readings to clock pairs: which of several readings counts, and what it says. Pure.

A reading between two of another clock is right to half of the time between these two. Of several in
a row the one with the shortest time counts; one that took no time, or less, was disturbed by a
clock that was set.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from controller.clock_pairs import UNCERTAINTY_NS_MAX, ClockPair, PairKind
from controller.daemon_log import DaemonLog, Program
from controller.host_clocks import KERNEL_STEERING_PPB
from controller.ptp_clock_device import PhcReading

PRECISE_UNCERTAINTY_NS = 50
"""Of a cross-stamp that hardware latched: PCIe PTM leaves some 10 ns."""
PHC2SYS_STAMP_NS = 2_000_000
"""phc2sys prints when it measured in whole milliseconds, and after it did."""

Read = Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracket:
    """A clock read between two readings of another one."""

    before_ns: int
    middle_ns: int
    after_ns: int

    @property
    def length_ns(self) -> int:
        """Time between the outer readings, on their clock."""
        return self.after_ns - self.before_ns


def tightest(read_outer: Read, read_inner: Read, *, tries: int) -> Bracket | None:
    """The shortest of several brackets in a row; None if the outer clock went back in all."""
    made = []
    before_ns = read_outer()
    for _ in range(tries):
        middle_ns, after_ns = read_inner(), read_outer()
        made.append(Bracket(before_ns=before_ns, middle_ns=middle_ns, after_ns=after_ns))
        before_ns = after_ns
    return shortest(made)


def shortest(brackets: Iterable[Bracket]) -> Bracket | None:
    """The one that took the least time; those that took none or less are left out."""
    sound = [one for one in brackets if 0 <= one.length_ns <= 2 * UNCERTAINTY_NS_MAX]
    return min(sound, key=lambda one: one.length_ns, default=None)


def pair_in_parent(
    bracket: Bracket, *, clock: str, parent: str, kind: PairKind, tick_ns: int = 0
) -> ClockPair:
    """The clock was read between two readings of its parent; tick_ns: of the clock, where it counts
    in steps (a GPU's timer)."""
    middle_ns = bracket.before_ns + bracket.length_ns // 2
    return ClockPair(
        kind=kind,
        clock=clock,
        parent=parent,
        clock_local_ns=bracket.middle_ns,
        parent_local_ns=middle_ns,
        uncertainty_ns=bracket.after_ns - middle_ns + tick_ns,
    )


def pair_of_phc(readings: Sequence[PhcReading], *, system: str, phc: str) -> ClockPair | None:
    """The system clock against a PHC, by the shortest reading; None if none is sound."""
    best = shortest(
        Bracket(before_ns=r.system_before_ns, middle_ns=r.phc_ns, after_ns=r.system_after_ns)
        for r in readings
    )
    if best is None:
        return None
    precise = readings[0].is_precise
    middle_ns = best.before_ns + best.length_ns // 2
    return ClockPair(
        kind=PairKind.PTP_PRECISE if precise else PairKind.PTP_EXTENDED,
        clock=system,
        parent=phc,
        clock_local_ns=middle_ns,
        parent_local_ns=best.middle_ns,
        uncertainty_ns=PRECISE_UNCERTAINTY_NS if precise else best.after_ns - middle_ns,
    )


def pairs_of_phc2sys(
    log: DaemonLog,
    *,
    system: str,
    phc: str,
    system_less_monotonic_ns: int,
    tai_utc_s: int,
) -> tuple[list[ClockPair], Counter[str]]:
    """Pairs from phc2sys' log, and lines that give none by reason.

    It prints system - PHC, the difference of TAI and UTC taken off, so that the system clock is
    ahead of the PHC by the printed offset less that difference. The offset is right to half of the
    printed delay; when it was measured is known to milliseconds, in which the system clock may have
    been steered.
    """
    pairs, left_out = [], Counter[str]()
    for sample in log.samples:
        if sample.program is not Program.PHC2SYS or sample.clock != "CLOCK_REALTIME":
            left_out["of another clock"] += 1
            continue
        if sample.at_s is None or sample.delay_ns is None:
            left_out["no time or no delay"] += 1
            continue
        if not 0 <= sample.delay_ns <= UNCERTAINTY_NS_MAX:
            left_out["delay out of range"] += 1
            continue
        system_ns = round(sample.at_s * 1e3) * 1_000_000 + system_less_monotonic_ns
        ahead_ns = round(sample.offset_ns) - tai_utc_s * 1_000_000_000
        unsure_ns = sample.delay_ns / 2 + PHC2SYS_STAMP_NS * KERNEL_STEERING_PPB * 1e-9
        pairs.append(
            ClockPair(
                kind=PairKind.PHC2SYS,
                clock=system,
                parent=phc,
                clock_local_ns=system_ns,
                parent_local_ns=system_ns - ahead_ns,
                uncertainty_ns=math.ceil(unsure_ns),
            )
        )
    return pairs, left_out
