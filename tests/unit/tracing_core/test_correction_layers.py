# SPDX-License-Identifier: Apache-2.0
"""A table that grows version by version says what one made at once says, whatever overlaps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracing_core.correction_layers import UNCOVERED
from tracing_core.corrections import CorrectionTable
from tracing_core.model import ClockStatus, Correction

EPOCH_NS = 1_800_000_000_000_000_000
READINGS = EPOCH_NS + np.arange(0, 60)


def row(start: int, end: int, offset_ns: int, clock: str = "h1") -> Correction:
    return Correction(
        clock=clock,
        valid_from_local_ns=EPOCH_NS + start,
        valid_to_local_ns=EPOCH_NS + end,
        anchor_local_ns=EPOCH_NS,
        offset_ns=offset_ns,
        rate_ppb=0.0,
        bound_hard_ns=1,
        bound_conditional_ns=1,
        method="test",
        prior="none",
        status=ClockStatus.SYNCHRONISED,
    )


@st.composite
def versions(draw):
    """Up to eight versions of disjoint rows; each row has an offset of its own."""
    made, offset = [], 0
    for version in range(1, draw(st.integers(1, 8)) + 1):
        edges = sorted(draw(st.sets(st.integers(0, 50), min_size=2, max_size=6)))
        rows = []
        for start, end in zip(edges[::2], edges[1::2], strict=False):
            offset += 1
            rows.append((version, row(start, end, offset)))
        made.append(rows)
    return made


def deciding(rows, reading):
    """Offset of the row of the highest version that covers, None where none does."""
    covering = [
        (version, one.offset_ns)
        for version, one in rows
        if one.valid_from_local_ns <= reading < one.valid_to_local_ns
    ]
    return max(covering)[1] if covering else None


@settings(max_examples=300, deadline=None)
@given(versions())
def test_the_highest_version_decides_everywhere(made) -> None:
    """Made at once or version by version: at each reading the row that the rule names."""
    rows = [one for of_version in made for one in of_version]
    whole = CorrectionTable(rows, version=len(made))
    grown = CorrectionTable((), version=0)
    for version, of_version in enumerate(made, start=1):
        grown = grown.extended(of_version, version=version)
    expected = [deciding(rows, int(reading)) for reading in READINGS]
    for table in (whole, grown):
        index = table.row_indices("h1", READINGS)
        found = [None if i == UNCOVERED else table.rows[i].offset_ns for i in index.tolist()]
        assert found == expected
    effective = {one.offset_ns for one in grown.effective_rows()}
    assert {value for value in expected if value is not None} <= effective
    replaced = {
        old.offset_ns
        for version, old in rows
        if any(
            newer > version
            and new.valid_from_local_ns <= old.valid_from_local_ns
            and old.valid_to_local_ns <= new.valid_to_local_ns
            for newer, new in rows
        )
    }
    assert effective == {one.offset_ns for _, one in rows} - replaced


@pytest.mark.parametrize("overlap", [0, 1, 5])
def test_windows_that_follow_one_another_are_one_layer(overlap) -> None:
    """A thousand versions end to end, or each beginning a little before the last one's end."""
    table = CorrectionTable((), version=0)
    for number in range(1_000):
        rows = [(number + 1, row(10 * number - overlap, 10 * number + 10, number))]
        table = table.extended(rows, version=number + 1)
    assert len(table._layers["h1"]) == 1
    assert table.newest_windows()["h1"].centre.offset_ns == 999


def test_a_table_is_not_changed_by_its_successor() -> None:
    """Readers that hold the old one see what they saw."""
    old = CorrectionTable([(1, row(0, 10, 1))], version=1)
    old.extended([(2, row(5, 20, 2))], version=2)
    assert old.row_indices("h1", EPOCH_NS + np.array([7, 15])).tolist() == [0, UNCOVERED]
    assert len(old.rows) == 1
