# SPDX-License-Identifier: Apache-2.0
"""Whatever the clocks do within what is declared: where windows are honest, bounds hold."""

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from correction.derived.compose import compose
from correction.derived.readings import PairReject
from correction.derived.relation import relate
from correction.table import UNBOUNDED_NS, Status
from tests.support.paired_clocks import S, parent_rows
from tests.support.paired_world import World

EXACT = parent_rows((-200 * S, 1_000 * S, 0, 0.0, 0, 0, Status.OK, ""))
some = settings(max_examples=25, deadline=None)


worlds = st.builds(
    World,
    st.integers(0, 2**32 - 1),
    steering_ppb=st.sampled_from([0.0, 500_000.0]),
    interval_ns=st.sampled_from([100_000_000, S]),
    half_ns=st.sampled_from([20, 500, 5_000]),
    step_ns=st.sampled_from([0, 50_000_000, -50_000_000]),
)


@some
@given(worlds)
def test_the_hard_bound_holds_at_every_reading_that_has_a_correction(world: World) -> None:
    """Free or steered, set forwards, backwards or not: no answer is off by more than it says; only
    readings around a step have none."""
    rows = compose(relate(world.pairs, Counter()), EXACT).rows
    error, row = world.errors_ns(rows)
    assert (row["bound_hard_ns"] != UNBOUNDED_NS).all()
    assert (error <= row["bound_hard_ns"]).all()
    assert (row["bound_conditional_ns"] <= row["bound_hard_ns"]).all()
    assert len(error) > 0.6 * len(world.asked)


@some
@given(worlds, st.integers(-(10**15), 10**15))
def test_a_constant_on_a_clock_moves_only_that_clock(world: World, constant_ns: int) -> None:
    """Its offset and the readings that rows are valid for, by just that; rates, bounds and status
    stay bit for bit."""
    moved = replace(world.pairs, rows=world.pairs.rows.copy())
    moved.rows["clock_local_ns"] += constant_ns
    before = compose(relate(world.pairs, Counter()), EXACT).rows
    after = compose(relate(moved, Counter()), EXACT).rows
    good = before["status"] == Status.OK
    assert np.array_equal(good, after["status"] == Status.OK)
    assert (after["offset_ns"][good] - before["offset_ns"][good] == constant_ns).all()
    for name in ("valid_from_local_ns", "valid_to_local_ns", "anchor_local_ns"):
        assert (after[name][good] - before[name][good] == constant_ns).all()
    for name in ("rate_ppb", "bound_hard_ns", "bound_conditional_ns"):
        assert np.array_equal(before[name], after[name])


@some
@given(worlds, st.sets(st.integers(0, 40), min_size=1, max_size=10))
def test_readings_that_come_twice_move_nothing(world: World, again: set[int]) -> None:
    """They are counted; the rows are those without them."""
    rows = np.concatenate([world.pairs.rows, world.pairs.rows[sorted(again)]])
    rejected: Counter[PairReject] = Counter()
    clean: Counter[PairReject] = Counter()
    found = relate(replace(world.pairs, rows=rows), rejected)
    assert found.rows.tobytes() == relate(world.pairs, clean).rows.tobytes()
    assert (rejected - clean)[PairReject.DUPLICATE] == len(again)


@some
@given(worlds)
def test_rows_follow_one_another_without_overlap(world: World) -> None:
    """What the store takes: valid intervals that are not empty, in order, disjoint."""
    rows = relate(world.pairs, Counter()).rows
    assert (rows["valid_from_local_ns"] < rows["valid_to_local_ns"]).all()
    assert (rows["valid_to_local_ns"][:-1] <= rows["valid_from_local_ns"][1:]).all()
