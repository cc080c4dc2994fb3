# SPDX-License-Identifier: Apache-2.0
"""Whatever the clocks do within what is declared: where windows are honest, bounds hold."""

from collections import Counter
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from correction.derived.compose import compose
from correction.derived.readings import PAIR_DTYPE, Behaviour, ClockPairs, PairReject
from correction.derived.relation import relate
from correction.table import UNBOUNDED_NS, Status
from tests.support.paired_clocks import PARENT_NS, S, parent_rows

EXACT = parent_rows((-200 * S, 1_000 * S, 0, 0.0, 0, 0, Status.OK, ""))
GRID_NS = 10_000_000
some = settings(max_examples=25, deadline=None)


class World:
    """A clock whose rate is off, wanders and is steered; honest readings of it."""

    def __init__(
        self, seed: int, *, steering_ppb: float, interval_ns: int, half_ns: int, step_ns: int
    ) -> None:
        rng = np.random.default_rng(seed)
        duration_ns = 40 * interval_ns
        grid = np.arange(0, duration_ns + 2 * S, GRID_NS)
        wander = 10.0
        walk = np.cumsum(rng.normal(0.0, wander * (GRID_NS / S) ** 0.5, len(grid)))
        held = np.repeat(
            rng.uniform(-0.5, 0.5, len(grid)) * steering_ppb, max(1, interval_ns // GRID_NS)
        )[: len(grid)]
        rate_ns_per_s = rng.uniform(-50_000.0, 50_000.0) + walk + held
        self._grid = grid.astype(np.float64)
        self._offset = np.concatenate([[0.0], np.cumsum(rate_ns_per_s * GRID_NS / S)[:-1]])
        self._base_ns = int(rng.integers(-(10**17), 10**17))
        self._step_at_ns = int(rng.uniform(0.3, 0.7) * duration_ns)
        self._step_ns = step_ns
        times = np.sort(rng.uniform(0.0, duration_ns, 41)).astype(np.int64)
        rows = np.zeros(len(times), PAIR_DTYPE)
        half = rng.integers(1, half_ns + 1, len(times))
        share = np.clip(rng.uniform(-1.0, 1.0) + 0.3 * rng.uniform(-1.0, 1.0, 41), -1.0, 1.0)
        rows["clock_local_ns"] = self.read_ns(times)
        rows["parent_local_ns"] = PARENT_NS + times + np.trunc(share * half).astype(np.int64)
        rows["uncertainty_ns"] = half
        self.asked = rng.uniform(0.0, duration_ns, 300).astype(np.int64)
        self.pairs = ClockPairs(
            clock="h3/system",
            parent="h3",
            rows=rows,
            behaviour=Behaviour(
                steering_ppb=steering_ppb,
                wander_ns_per_s_sqrt_s=wander,
                rate_ppb_max=60_000.0 + steering_ppb,
                settable=True,
            ),
        )

    def read_ns(self, times_ns: np.ndarray) -> np.ndarray:
        """What the clock reads at times of its parent."""
        offset = np.rint(np.interp(times_ns, self._grid, self._offset)).astype(np.int64)
        stepped = np.where(times_ns >= self._step_at_ns, self._step_ns, 0)
        return PARENT_NS + self._base_ns + times_ns + offset + stepped


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
    local = world.read_ns(world.asked)
    place = np.searchsorted(rows["valid_from_local_ns"], local, side="right") - 1
    row = rows[np.maximum(place, 0)]
    known = (place >= 0) & (local < row["valid_to_local_ns"]) & (row["status"] == Status.OK)
    since = local - row["anchor_local_ns"]
    change = np.rint(since * row["rate_ppb"] * 1e-9).astype(np.int64)
    error = np.abs(local - row["offset_ns"] - change - PARENT_NS - world.asked)
    assert (row["bound_hard_ns"][known] != UNBOUNDED_NS).all()
    assert (error[known] <= row["bound_hard_ns"][known]).all()
    assert (row["bound_conditional_ns"][known] <= row["bound_hard_ns"][known]).all()
    assert np.mean(known) > 0.6


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
