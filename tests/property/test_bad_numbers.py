# SPDX-License-Identifier: Apache-2.0
"""Bad numbers are refused by name, counted, and move no estimate by a single bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correction.cross_stamps import CrossStamps
from correction.engine import solve
from correction.link_windows import LinkWindowing
from correction.links import JoinCounters, Reject
from correction.solution import FabricSolution
from correction.sources import gather
from correction.stream.follow import Follower
from correction.stream.tracker import FabricTracker, TrackedWindow
from tests.support.bad_numbers import (
    CROSS_STAMPS,
    HOPS,
    HOUR_NS,
    IMPOSSIBLE_EXCHANGES,
    STRANGE_EXCHANGES,
)
from tests.support.followed import follow
from tests.support.rail_fabric import rail_stamps
from tests.support.synthetic_fabric import Run, Setup, draw

SMALL = Setup(
    leaves=3, spines=3, hosts_per_leaf=1, windows=2, window_gap_s=1.0, samples=8, exchanges=8
)
GOOD = draw(31, SMALL)
ROWS = len(GOOD.exchanges)
few = settings(max_examples=3, deadline=None)
some_rows = st.sets(st.integers(0, ROWS - 1), min_size=1)
seeds = st.integers(0, 2**32 - 1)


def dense(run: Run) -> FabricSolution:
    """The engine on a whole recording."""
    return solve(run.packets, run.hops, run.exchanges, run.model, run.windows)


def streamed(run: Run) -> tuple[list[TrackedWindow], JoinCounters]:
    """Window by window, from a collector's summaries."""
    gathered = gather(run.packets, run.hops, run.exchanges, run.model)
    windowing = LinkWindowing(gathered.model, window_ns=10**9, late_ns=0)
    windowing.add(gathered.samples)
    tracker = FabricTracker(gathered.model)
    found = tracker.push(windowing.rest())
    counters = JoinCounters(rejected=dict(gathered.counters.rejected))
    for reason, count in windowing.counters.rejected.items():
        counters.reject(reason, count)
    return found, counters


def assert_same_solution(found: FabricSolution, expected: FabricSolution) -> None:
    """Bit for bit: clocks, links, rows and findings."""
    for one, other in zip(found.windows, expected.windows, strict=True):
        for field in ("offset_ns", "rate_ppb", "sd_ns", "bound_hard_ns", "bound_conditional_ns"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field), field)
        np.testing.assert_array_equal(one.status, other.status)
        np.testing.assert_array_equal(one.anchor_local_ns, other.anchor_local_ns)
    for field in ("a_ns", "sd_ns", "half_round_trip_ns", "rejected"):
        np.testing.assert_array_equal(
            getattr(found.links, field), getattr(expected.links, field), field
        )
    assert found.table.rows.tobytes() == expected.table.rows.tobytes()
    assert found.findings == expected.findings


def assert_same_windows(found: list[TrackedWindow], expected: list[TrackedWindow]) -> None:
    """Bit for bit."""
    for one, other in zip(found, expected, strict=True):
        for field in (
            "anchor_local_ns", "offset_ns", "rate_ppb", "sd_ns", "bound_hard_ns",
            "bound_conditional_ns", "status",
        ):  # fmt: skip
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field), field)
        np.testing.assert_array_equal(one.solution.bad, other.solution.bad)


def with_exchanges(run: Run, exchanges: np.ndarray) -> Run:
    """The same recording with other exchanges."""
    return replace(run, exchanges=exchanges)


def only(rejected: dict[Reject, int]) -> dict[Reject, int]:
    """Without what a good recording has as well."""
    return {one: count for one, count in rejected.items() if one is not Reject.BELOW_ENVELOPE}


EXPECTED = dense(GOOD)
EXPECTED_WINDOWS, EXPECTED_COUNTERS = streamed(GOOD)


def assert_nothing_moves(run: Run, rejected: dict[Reject, int]) -> None:
    """Both engines answer as for the good recording, and say what they left out."""
    found = dense(run)
    assert_same_solution(found, EXPECTED)
    assert only(found.counters.rejected) == rejected
    windows, counters = streamed(run)
    assert_same_windows(windows, EXPECTED_WINDOWS)
    assert only(counters.rejected) == rejected


def assert_same_samples(exchanges: np.ndarray, good: np.ndarray, rejected: dict[Reject, int]):
    """What both engines start from is the same, bit for bit."""
    found = gather(GOOD.packets, GOOD.hops, exchanges, GOOD.model)
    expected = gather(GOOD.packets, GOOD.hops, good, GOOD.model)
    assert found.samples.tobytes() == expected.samples.tobytes()
    assert found.counters.rejected == rejected


@pytest.mark.parametrize("name", IMPOSSIBLE_EXCHANGES)
@few
@given(rows=some_rows, seed=seeds, times=st.integers(1, 3))
def test_impossible_exchanges_beside_the_good_ones_change_nothing(name, rows, seed, times) -> None:
    """Whichever rows come a second time with a bad number in them, and however often."""
    damage = IMPOSSIBLE_EXCHANGES[name]
    bad = np.repeat(GOOD.exchanges[sorted(rows)], times)
    damage.apply(bad, np.random.default_rng(seed))
    exchanges = np.concatenate([bad, GOOD.exchanges])
    assert_same_samples(exchanges, GOOD.exchanges, {damage.reason: len(bad)})


@pytest.mark.parametrize("name", IMPOSSIBLE_EXCHANGES | STRANGE_EXCHANGES)
@few
@given(rows=st.sets(st.sampled_from(range(1, ROWS, 3)), min_size=1), seed=seeds)
def test_an_exchange_with_a_bad_number_is_as_if_it_had_not_been(name, rows, seed) -> None:
    """Its good stamps take no part either, although its packets were reported."""
    damage = (IMPOSSIBLE_EXCHANGES | STRANGE_EXCHANGES)[name]
    exchanges = GOOD.exchanges.copy()
    bad = exchanges[sorted(rows)]
    damage.apply(bad, np.random.default_rng(seed))
    exchanges[sorted(rows)] = bad
    good = np.delete(GOOD.exchanges, sorted(rows))
    assert_same_samples(exchanges, good, {damage.reason: len(rows)})


@pytest.mark.parametrize("name", STRANGE_EXCHANGES)
@few
@given(rows=st.sets(st.sampled_from([n for n in range(ROWS) if n % 4]), min_size=1), seed=seeds)
def test_exchanges_of_another_time_beside_more_good_ones_change_nothing(name, rows, seed) -> None:
    """A clock's other exchanges refute them."""
    damage = STRANGE_EXCHANGES[name]
    bad = GOOD.exchanges[sorted(rows)]
    damage.apply(bad, np.random.default_rng(seed))
    exchanges = np.concatenate([bad, GOOD.exchanges])
    assert_same_samples(exchanges, GOOD.exchanges, {damage.reason: len(bad)})


@few
@given(rows=some_rows, hours=st.sets(st.integers(1, 40), min_size=1, max_size=4))
def test_stale_exchanges_change_nothing(rows, hours) -> None:
    """An older round of the same sequenceIds, in as many rows as the newest round has."""
    old = stale(rows, hours)
    exchanges = np.concatenate([old, GOOD.exchanges])
    # two messages each
    assert_same_samples(exchanges, GOOD.exchanges, {Reject.EXCHANGE_STALE: 2 * len(old)})


def stale(rows: set[int], hours: set[int]) -> np.ndarray:
    """The rows as they were hours ago, once for each."""
    old = np.repeat(GOOD.exchanges[sorted(rows)], len(hours))
    by_ns = np.tile(np.array(sorted(hours)) * HOUR_NS, len(rows))
    for field in ("t1_reference_ns", "t2_local_ns", "t3_local_ns", "t4_reference_ns"):
        old[field] -= by_ns
    return old


@few
@given(rows=some_rows, times=st.integers(1, 4), seed=seeds)
def test_repeated_exchanges_change_nothing(rows, times, seed) -> None:
    """Logged again, with the same stamps and whatever correctionFields."""
    again = np.repeat(GOOD.exchanges[sorted(rows)], times)
    again["c1_ns"] = np.random.default_rng(seed).integers(0, 500, len(again))
    exchanges = np.concatenate([GOOD.exchanges, again])
    assert_same_samples(exchanges, GOOD.exchanges, {Reject.EXCHANGE_DUPLICATE: len(again)})


@settings(max_examples=12, deadline=None)
@given(data=st.data(), seed=seeds)
def test_all_kinds_together_move_neither_engine(data, seed) -> None:
    """A heap of bad exchanges of all kinds, larger than the good recording, in any order."""
    rng = np.random.default_rng(seed)
    heap, rejected = list[np.ndarray](), dict[Reject, int]()
    kinds = st.dictionaries(st.sampled_from(sorted(IMPOSSIBLE_EXCHANGES)), st.integers(1, 3 * ROWS))
    for name, count in data.draw(kinds).items():
        damage = IMPOSSIBLE_EXCHANGES[name]
        heap.append(GOOD.exchanges[rng.integers(0, ROWS, count)])
        damage.apply(heap[-1], rng)
        rejected[damage.reason] = rejected.get(damage.reason, 0) + count
    heap.append(stale(data.draw(some_rows), {1, 7}))
    rejected[Reject.EXCHANGE_STALE] = 2 * len(heap[-1])
    heap.append(GOOD.exchanges[rng.integers(0, ROWS, 2 * ROWS)])
    rejected[Reject.EXCHANGE_DUPLICATE] = len(heap[-1])
    mixed = rng.permutation(np.concatenate([GOOD.exchanges, *heap]))
    assert_nothing_moves(with_exchanges(GOOD, mixed), rejected)


@pytest.mark.parametrize("name", HOPS)
@few
@given(data=st.data())
def test_hops_with_a_bad_number_change_nothing(name, data) -> None:
    """Packets whose middle switch tells nonsense, fewer than there are good ones."""
    three = np.flatnonzero((GOOD.packets["hop_count"] == 3) & (GOOD.packets["traffic"] != 2))
    chosen = data.draw(st.sets(st.sampled_from(three[::2].tolist()), min_size=1))
    damage = HOPS[name]
    packets = GOOD.packets[sorted(chosen)]
    hops = GOOD.hops[packets["first_hop"][:, None] + np.arange(3)]
    middle = hops[:, 1].copy()
    damage.apply(middle, np.random.default_rng(data.draw(seeds)))
    hops[:, 1] = middle
    packets["first_hop"] = len(GOOD.hops) + 3 * np.arange(len(packets))
    run = replace(
        GOOD,
        packets=np.concatenate([GOOD.packets, packets]),
        hops=np.concatenate([GOOD.hops, hops.ravel()]),
    )
    # the stamps of both its links
    assert_nothing_moves(run, {damage.reason: 2 * len(packets)})


@settings(max_examples=2, deadline=None)
@given(seed=seeds)
def test_a_fabric_that_is_followed_says_the_same_and_counts(seed) -> None:
    """Everything at once into the estimation that runs on: the same rows, and all reasons told."""
    rng = np.random.default_rng(seed)
    heap, expected = [GOOD.exchanges], dict[Reject, int]()
    for damage in IMPOSSIBLE_EXCHANGES.values():
        heap.append(GOOD.exchanges[rng.integers(0, ROWS, 5)])
        damage.apply(heap[-1], rng)
        expected[damage.reason] = expected.get(damage.reason, 0) + 5
    strange = STRANGE_EXCHANGES["client 5 s off"]
    heap.append(GOOD.exchanges[1::4].copy())
    strange.apply(heap[-1], rng)
    expected[strange.reason] = len(heap[-1])
    plain, damaged = Follower(GOOD.model), Follower(GOOD.model)
    good = follow(GOOD, plain)
    found = follow(with_exchanges(GOOD, rng.permutation(np.concatenate(heap))), damaged)
    assert [one.number for one in found] == [one.number for one in good]
    for one, other in zip(found, good, strict=True):
        assert one.rows.tobytes() == other.rows.tobytes()
    assert only(plain.left_out.rejected) == {}
    assert only(damaged.left_out.rejected) == expected


STAMPS = rail_stamps(GOOD, [[1, 2]])


def tied(rows: np.ndarray) -> FabricSolution:
    """With cross-stamps of the machine of both clients."""
    stamps = CrossStamps(rows=rows, machines=STAMPS.machines)
    return solve(
        GOOD.packets, GOOD.hops, GOOD.exchanges, GOOD.model, GOOD.windows, cross_stamps=stamps
    )


@pytest.mark.parametrize("name", CROSS_STAMPS)
@few
@given(data=st.data())
def test_cross_stamps_with_a_bad_number_change_nothing(name, data) -> None:
    """Fewer of them than good ones, each beside the good one that it was; one of all is told."""
    count = len(STAMPS.rows)
    chosen = data.draw(st.sets(st.sampled_from(range(0, count, 2)), min_size=1))
    damage = CROSS_STAMPS[name]
    bad = STAMPS.rows[sorted(chosen)]
    damage.apply(bad, np.random.default_rng(data.draw(seeds)))
    found = tied(np.insert(STAMPS.rows, sorted(chosen), bad))
    expected = tied(STAMPS.rows)
    assert_same_solution(found, expected)
    told = only(found.counters.rejected)
    before = only(expected.counters.rejected)
    assert told == before | {damage.reason: before.get(damage.reason, 0) + len(bad)}


@pytest.mark.parametrize("name", CROSS_STAMPS)
def test_cross_stamps_of_a_fabric_that_is_followed_change_nothing(name: str) -> None:
    """As they come in, every fifth of them once more with a bad number."""
    damage = CROSS_STAMPS[name]
    chosen = np.arange(0, len(STAMPS.rows), 5)
    bad = STAMPS.rows[chosen]
    damage.apply(bad, np.random.default_rng(8))
    answers, counted = [], []
    for rows in (STAMPS.rows, np.insert(STAMPS.rows, chosen, bad)):
        follower = Follower(GOOD.model)
        follower.add_cross_stamps(CrossStamps(rows=rows, machines=STAMPS.machines))
        answers.append([one.rows.tobytes() for one in follow(GOOD, follower)])
        counted.append(follower.left_out.rejected.get(damage.reason, 0))
    assert answers[0] == answers[1]
    assert counted == [0, len(bad)]
