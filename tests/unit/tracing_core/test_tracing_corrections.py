# SPDX-License-Identifier: Apache-2.0
"""Corrections applied to raw stamps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracing_core.correction_layers import UNCOVERED
from tracing_core.corrections import CorrectionTable
from tracing_core.model import ClockStatus, Correction

EPOCH_NS = 1_800_000_000_000_000_000


def row(
    clock: str = "h1",
    *,
    start: int = 0,
    end: int = 1000,
    offset_ns: int = 0,
    rate_ppb: float = 0.0,
    status: ClockStatus = ClockStatus.SYNCHRONISED,
    conditional_ns: int | None = 20,
    window: int = 0,
) -> Correction:
    return Correction(
        clock=clock,
        valid_from_local_ns=EPOCH_NS + start,
        valid_to_local_ns=EPOCH_NS + end,
        anchor_local_ns=EPOCH_NS,
        offset_ns=offset_ns,
        rate_ppb=rate_ppb,
        bound_hard_ns=None,
        bound_conditional_ns=conditional_ns,
        method="test",
        prior="none",
        status=status,
        window_index=window,
    )


def test_corrected_is_raw_minus_offset_and_drift() -> None:
    """offset = local - reference, so a clock that is ahead is moved back; 1 ppm is 1 ns a ms."""
    table = CorrectionTable([(1, row(end=10**9, offset_ns=400, rate_ppb=1000.0))], version=1)
    instant = table.correct_one("h1", EPOCH_NS + 1_000_000)
    assert instant.corrected_reference_ns == EPOCH_NS + 1_000_000 - 400 - 1
    assert instant.earliest_reference_ns == EPOCH_NS + 999_599 - 20


def test_a_huge_switch_epoch_keeps_its_nanoseconds() -> None:
    """Offsets near 2^62 are removed in integers; a float64 would lose 512 ns there."""
    epoch_ns = 2**62 + 12_345
    correction = Correction(
        clock="spine1",
        valid_from_local_ns=epoch_ns,
        valid_to_local_ns=epoch_ns + 10**9,
        anchor_local_ns=epoch_ns,
        offset_ns=epoch_ns - EPOCH_NS,
        rate_ppb=0.0,
        bound_hard_ns=1,
        bound_conditional_ns=1,
        method="test",
        prior="",
        status=ClockStatus.SYNCHRONISED,
    )
    table = CorrectionTable([(1, correction)], version=1)
    stamps = np.array([epoch_ns, epoch_ns + 1, epoch_ns + 999], np.int64)
    assert (table.correct_clock("spine1", stamps).corrected_reference_ns - EPOCH_NS).tolist() == [
        0,
        1,
        999,
    ]


@pytest.mark.parametrize(
    ("clock", "stamp", "reason"),
    [
        ("", EPOCH_NS, "names no clock"),
        ("h9", EPOCH_NS, "no correction exists"),
        ("h1", EPOCH_NS - 1, "covers"),
        ("h1", EPOCH_NS + 1000, "covers"),
    ],
)
def test_unknown_is_unknown_and_never_zero(clock: str, stamp: int, reason: str) -> None:
    """Outside every row nothing is extrapolated: no value, no bound, and the reason."""
    instant = CorrectionTable([(1, row())], version=1).correct_one(clock, stamp)
    assert instant.corrected_reference_ns is None
    assert instant.bound_conditional_ns is None
    assert instant.status is ClockStatus.UNKNOWN
    assert reason in instant.reason


def test_the_newest_covering_version_decides() -> None:
    """A later version replaces only what it covers."""
    rows = [(1, row(offset_ns=1)), (2, row(start=500, offset_ns=2)), (3, row("h2"))]
    table = CorrectionTable(rows, version=3)
    stamps = EPOCH_NS + np.array([0, 499, 500, 999])
    corrected = table.correct_clock("h1", stamps)
    assert (stamps - corrected.corrected_reference_ns).tolist() == [1, 1, 2, 2]
    before = CorrectionTable(rows, version=1).correct_clock("h1", stamps)
    assert (stamps - before.corrected_reference_ns).tolist() == [1, 1, 1, 1]


def test_overlapping_rows_of_one_version_are_refused() -> None:
    """Within a version an instant has one correction."""
    with pytest.raises(ValueError, match="overlap"):
        CorrectionTable([(1, row()), (1, row(start=999, end=2000))], version=1)


def test_infinite_bounds_stay_infinite() -> None:
    """None in a row is infinity in an array, never zero."""
    table = CorrectionTable([(1, row(conditional_ns=None, status=ClockStatus.FLAGGED))], version=1)
    corrected = table.correct_clock("h1", np.array([EPOCH_NS]))
    assert np.isinf(corrected.bound_conditional_ns[0])
    assert np.isinf(corrected.bound_hard_ns[0])
    assert corrected.flagged[0]
    assert not corrected.usable[0]


def test_effective_rows_drop_what_is_wholly_replaced() -> None:
    """The list of corrections in force holds no row that a later version replaces."""
    table = CorrectionTable([(1, row(offset_ns=1)), (2, row(offset_ns=2))], version=2)
    assert [r.offset_ns for r in table.effective_rows()] == [2]


def test_a_summary_speaks_of_the_newest_windows_centre() -> None:
    """Neither the newest row, the tail of the holdover, nor a better one of an older window."""
    bounds = [(0, 90), (0, 10), (0, 90), (1, 80), (1, 40), (1, 20), (1, 40), (1, 80)]
    rows = [
        (1, row(start=100 * i, end=100 * i + 100, offset_ns=i, window=window, conditional_ns=bound))
        for i, (window, bound) in enumerate(bounds)
    ]
    found = CorrectionTable(rows, version=1).newest_windows()["h1"]
    assert found.centre.offset_ns == 5
    assert [r.offset_ns for r in found.rows] == [3, 4, 5, 6, 7]


def test_a_newest_window_belongs_to_one_version() -> None:
    """Windows are numbered anew in each version; the version of the newest row counts."""
    old = [(1, row(start=0, end=100, offset_ns=1)), (1, row(start=100, end=200, offset_ns=2))]
    new = (2, row(start=100, end=300, offset_ns=3, conditional_ns=70))
    found = CorrectionTable([*old, new], version=2).newest_windows()["h1"]
    assert [r.offset_ns for r in found.rows] == [3]


def test_without_any_bound_the_middle_row_stands_for_a_window() -> None:
    """An unbounded clock has no smallest bound; its holdover still does not stand for it."""
    rows = [
        (1, row(start=10 * i, end=10 * i + 10, offset_ns=i, conditional_ns=None)) for i in range(3)
    ]
    assert CorrectionTable(rows, version=1).newest_windows()["h1"].centre.offset_ns == 1


@pytest.mark.parametrize(
    "values", [{"start": 5, "end": 5}, {"rate_ppb": float("nan")}, {"conditional_ns": -1}]
)
def test_impossible_rows_are_refused(values: dict[str, float]) -> None:
    """An empty interval, a NaN rate and a negative bound are errors where they are made."""
    with pytest.raises(ValueError, match="h1"):
        row(**values)  # type: ignore[arg-type]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), min_size=1, max_size=12, unique=True),
    st.integers(0, 99),
)
def test_bulk_and_single_correction_agree(cells: list[tuple[int, int]], stamp: int) -> None:
    """correct_clock and correct_one choose the same row for every stamp and layering."""
    rows = [
        (version, row(start=10 * cell, end=10 * cell + 10, offset_ns=100 * version + cell))
        for version, cell in cells
    ]
    table = CorrectionTable(rows, version=4)
    bulk = table.correct_clock("h1", np.array([EPOCH_NS + stamp]))
    single = table.correct_one("h1", EPOCH_NS + stamp)
    if bulk.row[0] == UNCOVERED:
        assert single.corrected_reference_ns is None
    else:
        assert single.corrected_reference_ns == bulk.corrected_reference_ns[0]
        newest = max(version for version, cell in cells if cell == stamp // 10)
        assert table.rows[bulk.row[0]].offset_ns == 100 * newest + stamp // 10
