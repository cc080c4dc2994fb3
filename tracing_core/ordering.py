# SPDX-License-Identifier: Apache-2.0
"""Which of two instants came first, and how many causal pairs contradict their stamps.

Verdicts are decided by intervals: corrected time +- `bound_conditional_ns`. Two clocks' bounds
are added, since nothing is assumed about how their errors are correlated. An order that the
intervals do not separate stays undecided; it is never decided by midpoints.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum, unique
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracing_core.corrections import CorrectionTable
from tracing_core.model import ClockStatus, CorrectedInstant


@unique
class Verdict(StrEnum):
    """The order of instants a and b."""

    BEFORE_CAUSAL = "before_causal"
    """a before b on one clock, whose error is common to both."""
    AFTER_CAUSAL = "after_causal"
    BEFORE_TIME = "before_time"
    """a's latest instant is before b's earliest one; not necessarily a cause."""
    AFTER_TIME = "after_time"
    INCONCLUSIVE = "inconclusive"
    """The intervals overlap, or one of them is infinite."""
    INVALID_CLOCK = "invalid_clock"
    """A stamp that means nothing: unknown or disrupted clock, stamp 0, end before start."""


UNDECIDED = frozenset({Verdict.INCONCLUSIVE, Verdict.INVALID_CLOCK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A verdict on (a, b) and why."""

    verdict: Verdict
    reason: str


def order(a: CorrectedInstant, b: CorrectedInstant, *, same_clock: bool) -> Order:
    """Decides whether a came before b; the first rule that applies wins."""
    for name, stamp in (("first", a), ("second", b)):
        if stamp.raw_local_ns == 0:
            return Order(verdict=Verdict.INVALID_CLOCK, reason=f"the {name} stamp is 0")
        if stamp.status in (ClockStatus.UNKNOWN, ClockStatus.DISRUPTED):
            why = stamp.reason or f"clock status is {stamp.status.value}"
            return Order(verdict=Verdict.INVALID_CLOCK, reason=f"{name}: {why}")
    if same_clock:
        if a.raw_local_ns == b.raw_local_ns:
            return Order(verdict=Verdict.INCONCLUSIVE, reason="equal stamps of one clock")
        before = a.raw_local_ns < b.raw_local_ns
        return Order(
            verdict=Verdict.BEFORE_CAUSAL if before else Verdict.AFTER_CAUSAL,
            reason="both stamps are of one clock",
        )
    if (
        a.earliest_reference_ns is None
        or a.latest_reference_ns is None
        or b.earliest_reference_ns is None
        or b.latest_reference_ns is None
    ):
        return Order(verdict=Verdict.INCONCLUSIVE, reason="a bound is infinite")
    if a.latest_reference_ns < b.earliest_reference_ns:
        return Order(verdict=Verdict.BEFORE_TIME, reason="the intervals are disjoint")
    if b.latest_reference_ns < a.earliest_reference_ns:
        return Order(verdict=Verdict.AFTER_TIME, reason="the intervals are disjoint")
    return Order(verdict=Verdict.INCONCLUSIVE, reason="the intervals overlap")


@unique
class PairKind(IntEnum):
    """Which rule of causality a pair comes from."""

    PARENT_START = 0
    """parent.start <= child.start, on two hosts; for a transfer send.start <= recv.start."""
    RECV_END = 1
    """server.end <= client.end: a synchronous call ends when its answer has arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CausalPairs:
    """Pairs of stamps where causality says first <= second; equally long arrays."""

    kind: NDArray[np.uint8]
    trace_id: NDArray[Any]
    """Lower-case hex."""
    first_span_id: NDArray[Any]
    second_span_id: NDArray[Any]
    clocks: tuple[str, ...]
    """Clock names that the two indices refer to; "" is an unknown clock."""
    first_clock: NDArray[np.int64]
    second_clock: NDArray[np.int64]
    first_local_ns: NDArray[np.int64]
    second_local_ns: NDArray[np.int64]
    end_before_start: NDArray[np.bool_]
    """One of the two spans ends before it starts, so its stamps mean nothing."""

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPairs:
    """Per pair: what the raw stamps say, and what the corrected intervals say."""

    raw_inverted: NDArray[np.bool_]
    """first > second as stamped."""
    contradicted: NDArray[np.bool_]
    """Certainly first > second after correction: a wrong bound, or a false causal rule."""
    undecided: NDArray[np.bool_]
    invalid: NDArray[np.bool_]
    """The undecided pairs whose stamps mean nothing (`invalid_clock`)."""
    left_out: NDArray[np.bool_]
    """One of the clocks is flagged; the pair is in no count."""
    one_clock: NDArray[np.bool_]
    """Both stamps are of one clock, so they say nothing about clocks; in no count but the next."""
    artefact: NDArray[np.bool_]
    """On one clock and inverted: the instrumentation's doing, no clock's fault."""
    gap_reference_ns: NDArray[np.int64]
    """Corrected second - first; 0 where a clock is unknown."""
    bound_ns: NDArray[np.float64]
    """Sum of both conditional bounds; infinite where unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InversionCounts:
    """Inversions over causal pairs; flagged clocks are in `left_out` and nowhere else."""

    pairs: int
    raw: int
    corrected: int
    undecided: int
    invalid: int
    left_out: int
    artefacts: int


def judge_pairs(pairs: CausalPairs, table: CorrectionTable) -> JudgedPairs:
    """Judges all pairs with the corrections of `table`."""
    first = table.correct(pairs.clocks, pairs.first_clock, pairs.first_local_ns)
    second = table.correct(pairs.clocks, pairs.second_clock, pairs.second_local_ns)
    named = np.array([bool(name) for name in pairs.clocks], bool)
    one_clock = (pairs.first_clock == pairs.second_clock) & named[pairs.first_clock]
    left_out = (first.flagged | second.flagged) & ~one_clock
    counted = ~left_out & ~one_clock
    unknown = first.unknown | second.unknown
    zero = (pairs.first_local_ns == 0) | (pairs.second_local_ns == 0)
    meaningless = zero | pairs.end_before_start
    invalid = (unknown | meaningless) & counted
    gap_ns = np.where(unknown, 0, second.corrected_reference_ns - first.corrected_reference_ns)
    bound_ns = first.bound_conditional_ns + second.bound_conditional_ns
    decidable = counted & ~invalid
    separated = decidable & (np.abs(gap_ns) > bound_ns)
    inverted = pairs.first_local_ns > pairs.second_local_ns
    return JudgedPairs(
        raw_inverted=inverted & counted,
        contradicted=separated & (gap_ns < 0),
        undecided=counted & ~separated,
        invalid=invalid,
        left_out=left_out,
        one_clock=one_clock,
        artefact=one_clock & inverted & ~meaningless,
        gap_reference_ns=gap_ns,
        bound_ns=bound_ns,
    )


def count_inversions(judged: JudgedPairs) -> InversionCounts:
    """Totals of `judge_pairs`."""
    return InversionCounts(
        pairs=int((~judged.left_out & ~judged.one_clock).sum()),
        raw=int(judged.raw_inverted.sum()),
        corrected=int(judged.contradicted.sum()),
        undecided=int(judged.undecided.sum()),
        invalid=int(judged.invalid.sum()),
        left_out=int(judged.left_out.sum()),
        artefacts=int(judged.artefact.sum()),
    )
