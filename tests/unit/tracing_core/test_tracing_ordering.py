# SPDX-License-Identifier: Apache-2.0
"""Order verdicts and inversion counts."""

import numpy as np
import pytest

from tests.support.tracing_world import build
from tracing_core.analysis import Analysis
from tracing_core.corrections import CorrectionTable
from tracing_core.model import ClockStatus, CorrectedInstant, Correction
from tracing_core.ordering import (
    CausalPairs,
    PairKind,
    Verdict,
    count_inversions,
    judge_pairs,
    order,
)
from tracing_core.store import Store

EPOCH_NS = 1_800_000_000_000_000_000


def instant(
    at: int, bound: int | None = 10, status: ClockStatus = ClockStatus.SYNCHRONISED
) -> CorrectedInstant:
    return CorrectedInstant(
        raw_local_ns=at,
        corrected_reference_ns=at,
        bound_hard_ns=None,
        bound_conditional_ns=bound,
        status=status,
        method="",
        reason="",
    )


@pytest.mark.parametrize(
    ("a", "b", "same_clock", "verdict"),
    [
        (instant(100), instant(121), False, Verdict.BEFORE_TIME),
        (instant(100), instant(120), False, Verdict.INCONCLUSIVE),
        (instant(121), instant(100), False, Verdict.AFTER_TIME),
        (instant(100), instant(101), True, Verdict.BEFORE_CAUSAL),
        (instant(101), instant(100), True, Verdict.AFTER_CAUSAL),
        (instant(100), instant(100), True, Verdict.INCONCLUSIVE),
        (instant(100, None), instant(10**6), False, Verdict.INCONCLUSIVE),
        (instant(100, status=ClockStatus.UNKNOWN), instant(900), False, Verdict.INVALID_CLOCK),
        (instant(100), instant(900, status=ClockStatus.DISRUPTED), True, Verdict.INVALID_CLOCK),
        (instant(0), instant(900), True, Verdict.INVALID_CLOCK),
    ],
)
def test_order_verdicts(
    a: CorrectedInstant, b: CorrectedInstant, same_clock: bool, verdict: Verdict
) -> None:
    """Disjoint intervals decide; touching ones, infinite ones and invalid stamps do not."""
    assert order(a, b, same_clock=same_clock).verdict is verdict


def table(**offsets: tuple[int, int | None]) -> CorrectionTable:
    return CorrectionTable(
        [
            (
                1,
                Correction(
                    clock=clock,
                    valid_from_local_ns=EPOCH_NS - 10**9,
                    valid_to_local_ns=EPOCH_NS + 10**9,
                    anchor_local_ns=EPOCH_NS,
                    offset_ns=offset_ns,
                    rate_ppb=0.0,
                    bound_hard_ns=None,
                    bound_conditional_ns=bound_ns,
                    method="",
                    prior="",
                    status=ClockStatus.SYNCHRONISED if bound_ns else ClockStatus.FLAGGED,
                ),
            )
            for clock, (offset_ns, bound_ns) in offsets.items()
        ],
        version=1,
    )


def pairs(*rows: tuple[str, int, str, int]) -> CausalPairs:
    names = tuple(sorted({name for row in rows for name in (row[0], row[2])}))
    text = np.array([f"{i:016x}" for i in range(len(rows))], object)
    return CausalPairs(
        kind=np.full(len(rows), PairKind.PARENT_START, np.uint8),
        trace_id=text,
        first_span_id=text,
        second_span_id=text,
        clocks=names,
        first_clock=np.array([names.index(row[0]) for row in rows]),
        second_clock=np.array([names.index(row[2]) for row in rows]),
        first_local_ns=EPOCH_NS + np.array([row[1] for row in rows]),
        second_local_ns=EPOCH_NS + np.array([row[3] for row in rows]),
        end_before_start=np.zeros(len(rows), bool),
    )


def test_inversions_by_verdict() -> None:
    """Raw inversion repaired, real contradiction, undecided, unknown clock, flagged left out."""
    corrections = table(a=(0, 10), b=(-500, 10), c=(0, None))
    counts = count_inversions(
        judge_pairs(
            pairs(
                ("a", 100, "b", -300),  # raw inverted; corrected 100 -> 200: repaired
                ("a", 100, "b", -450),  # corrected 100 -> 50: contradicted
                ("a", 100, "b", -395),  # corrected 100 -> 105 +- 20: undecided
                ("a", 100, "x", 900),  # clock x is unknown
                ("a", 100, "c", -900),  # clock c is flagged: in no count
            ),
            corrections,
        )
    )
    assert (counts.pairs, counts.raw, counts.corrected) == (4, 3, 1)
    assert (counts.undecided, counts.invalid, counts.left_out) == (2, 1, 1)


def test_a_span_that_ends_before_it_starts_decides_nothing() -> None:
    """Its pair is invalid_clock, hence undecided."""
    from dataclasses import replace

    pair = replace(pairs(("a", 0, "b", 10**6)), end_before_start=np.array([True]))
    judged = judge_pairs(pair, table(a=(0, 10), b=(0, 10)))
    assert judged.undecided.all()
    assert judged.invalid.all()


def test_correction_removes_the_inversions_of_a_world(store: Store) -> None:
    """Offsets of up to 1 ms invert about half of the raw pairs and none of the corrected ones."""
    world = build(5, transfers=100)
    world.fill(store)
    counts = Analysis(store).inversions()
    assert counts.pairs == 100  # per transfer send.start <= recv.start; its ends say nothing
    assert 30 <= counts.raw <= 70
    assert (counts.corrected, counts.undecided, counts.left_out) == (0, 0, 0)


def test_a_flagged_host_is_left_out(store: Store) -> None:
    """Pairs of a flagged clock are in no count but left_out."""
    world = build(5, transfers=100, flagged=("h1",))
    world.fill(store)
    counts = Analysis(store).inversions()
    touched = sum("h1" in hosts for hosts in world.hosts)
    assert touched
    assert counts.left_out == touched
    assert counts.pairs == 100 - touched
