# SPDX-License-Identifier: Apache-2.0
"""Correction rows: exact conversion, growing bounds, and "unknown" outside validity."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correction.records import NO_TSTAMP_NS
from correction.table import (
    CORRECTION_DTYPE,
    UNBOUNDED_NS,
    CorrectionTable,
    Method,
    Status,
    bounds_at,
    with_worst_bounds,
)

EPOCH_NS = 1_800_000_000_000_000_000


def _rows(**values: object) -> np.ndarray:
    row = np.zeros(1, CORRECTION_DTYPE)
    defaults: dict[str, object] = {
        "clock": 1,
        "anchor_local_ns": EPOCH_NS,
        "valid_from_local_ns": EPOCH_NS - 500_000_000,
        "valid_to_local_ns": EPOCH_NS + 500_000_000,
        "offset_ns": 1_234_567_890_123,
        "rate_ppb": 2_000.0,
        "rate_sd_ppb": 2.0,
        "wander_ns_per_s_sqrt_s": 14.0,
        "bound_hard_ns": 150,
        "bound_conditional_ns": 25,
        "sigmas": 3.0,
        "status": Status.OK,
    }
    for name, value in (defaults | values).items():
        row[name] = value
    return with_worst_bounds(row)


def _table(*rows: np.ndarray) -> CorrectionTable:
    return CorrectionTable(rows=np.concatenate(rows), clock_names=("a", "b", "c"), prior="p")


def test_conversion_is_exact_at_huge_epochs() -> None:
    """reference = local - offset - rate x distance, to the nanosecond at 1.8e18."""
    stamps = np.array([EPOCH_NS, EPOCH_NS + 1, EPOCH_NS + 250_000_000])
    got = _table(_rows()).convert(stamps, 1)
    base = EPOCH_NS - 1_234_567_890_123
    assert got.reference_ns.tolist() == [base, base + 1, base + 250_000_000 - 500]


def test_bounds_grow_with_distance() -> None:
    """Rate and wander widen both bounds away from the anchor, symmetrically."""
    stamps = EPOCH_NS + np.array([-400_000_000, 0, 400_000_000])
    got = _table(_rows()).convert(stamps, 1)
    hard, conditional = got.bound_hard_ns.tolist(), got.bound_conditional_ns.tolist()
    assert hard[1] == 150
    assert conditional[1] == 25
    assert hard[0] == hard[2] > 150
    assert conditional[0] == conditional[2] > 25


def test_worst_bound_holds_in_the_whole_interval() -> None:
    """The flat bound of a row is at least the bound anywhere in it."""
    row = _rows()
    hard, conditional = bounds_at(np.repeat(row, 11), np.linspace(-5e8, 5e8, 11).astype(np.int64))
    assert row["bound_hard_worst_ns"][0] == hard.max()
    assert row["bound_conditional_worst_ns"][0] == conditional.max()


def test_outside_validity_is_unknown_not_zero() -> None:
    """No row, no answer: marker, unbounded, stale."""
    got = _table(_rows()).convert(np.array([EPOCH_NS + 500_000_000, 0, NO_TSTAMP_NS]), 1)
    assert got.reference_ns.tolist() == [NO_TSTAMP_NS] * 3
    assert got.bound_hard_ns.tolist() == [UNBOUNDED_NS] * 3
    assert got.status.tolist() == [Status.STALE] * 3


@pytest.mark.parametrize("clock", [0, 2])
def test_clock_without_rows_is_unknown(clock: int) -> None:
    """Other clocks' rows do not leak."""
    got = _table(_rows()).convert(np.array([EPOCH_NS]), clock)
    assert got.reference_ns.tolist() == [NO_TSTAMP_NS]


def test_infinite_bound_stays_infinite() -> None:
    """Growth does not turn "unbounded" into a number, and conditional never exceeds hard."""
    got = _table(_rows(bound_hard_ns=UNBOUNDED_NS, bound_conditional_ns=25)).convert(
        np.array([EPOCH_NS + 1_000]), 1
    )
    assert got.bound_hard_ns.tolist() == [UNBOUNDED_NS]
    assert got.bound_conditional_ns.tolist() == [26]


def test_each_stamp_uses_its_own_row() -> None:
    """Rows of consecutive windows meet without overlap."""
    second = _rows(
        valid_from_local_ns=EPOCH_NS + 500_000_000,
        valid_to_local_ns=EPOCH_NS + 1_500_000_000,
        anchor_local_ns=EPOCH_NS + 1_000_000_000,
        offset_ns=7,
        rate_ppb=0.0,
    )
    stamps = EPOCH_NS + np.array([499_999_999, 500_000_000])
    got = _table(_rows(rate_ppb=0.0), second).convert(stamps, 1)
    assert (stamps - got.reference_ns).tolist() == [1_234_567_890_123, 7]


def test_method_names_the_reference() -> None:
    """The reference defines its time; all others rest on the sparse prior."""
    table = _table(_rows())
    assert table.method_of(0, 0) is Method.REFERENCE
    assert table.method_of(1, 0) is Method.SPARSE_ROBUST


@settings(max_examples=200, deadline=None)
@given(
    st.integers(-(2**61), 2**61),
    st.integers(-(2**60), 2**60),
    st.floats(-50_000.0, 50_000.0),
    st.lists(st.integers(-499_999_999, 499_999_999), min_size=1, max_size=50),
)
def test_conversion_is_that_of_exact_arithmetic(anchor, offset, rate, away) -> None:
    """local - offset - rate x distance as fractions, rounded once, at any epoch; the float product
    of a small distance alone may fall on the other side of a half."""
    table = _table(
        _rows(
            anchor_local_ns=anchor,
            valid_from_local_ns=anchor - 500_000_000,
            valid_to_local_ns=anchor + 500_000_000,
            offset_ns=offset,
            rate_ppb=rate,
        )
    )
    stamps = anchor + np.array(away, np.int64)
    got = table.convert(stamps, 1).reference_ns.tolist()
    for stamp, distance, found in zip(stamps.tolist(), away, got, strict=True):
        change = Fraction(rate) * distance / 10**9
        near_a_half = abs(abs(change - int(change)) - Fraction(1, 2)) < Fraction(1, 10**6)
        assert abs(found - (stamp - offset - round(change))) <= int(near_a_half)
