# SPDX-License-Identifier: Apache-2.0
"""Clocks that jump, stand still, step a little or run absurdly inside a window are withheld."""

import numpy as np
import pytest

from correction.change_points import step_limit_ns
from correction.engine import solve
from correction.links import Reject
from correction.records import NO_TSTAMP_NS
from correction.solution import FabricSolution
from correction.table import UNBOUNDED_NS, Status
from tests.support.score_correction import score
from tests.support.synthetic_fabric import Run, Setup, draw

FABRIC = Setup(leaves=4, spines=4, hosts_per_leaf=1, windows=2, bad_share=0.0, exchanges=8)
LEAF2, SPINE1 = 5, 8
"""Clock indices: four hosts, four leaves, four spines."""
STEP_AT_NS = 2.35e9
"""150 ms before the centre of the first window."""


def _solve(run: Run) -> FabricSolution:
    return solve(run.packets, run.hops, run.exchanges, run.model, run.windows)


def _found(solution: FabricSolution, kind: str) -> list[tuple[int, str]]:
    return [(one.window, one.subject) for one in solution.findings if one.kind == kind]


def _holds_all_around(run: Run, solution: FabricSolution, clock: int) -> bool:
    """The hard bound holds for all readings up to the last holdover, wherever a row is valid."""
    truth = run.truth
    at = np.arange(0.1e9, truth.centre_true_ns[-1] + 2.5e9, 10e6)
    mine, reference = truth.clocks[clock], truth.clocks[truth.reference]
    reading = mine.epoch_ns + np.floor(mine.elapsed(at)).astype(np.int64)
    got = solution.table.convert(reading, clock)
    sure = got.bound_hard_ns != UNBOUNDED_NS
    want = reference.elapsed(at)
    error = np.abs((got.reference_ns - reference.epoch_ns) - want)[sure]
    return bool((error <= got.bound_hard_ns[sure] + 1.0).all())


@pytest.mark.parametrize("jump_ns", [10**9, -(10**9), 2**32, 300_000_000])
@pytest.mark.parametrize("clock", [LEAF2, SPINE1])
def test_jump_inside_a_window_withholds_the_clock(clock: int, jump_ns: int) -> None:
    """Neither majority is right for readings of the other side; the row is withdrawn."""
    run = draw(21, FABRIC, steps={clock: (STEP_AT_NS, jump_ns)})
    solution = _solve(run)
    name = run.model.clocks[clock].name
    assert (0, name) in _found(solution, "clock-jump")
    assert solution.windows[0].status[clock] == Status.INCONSISTENT
    assert solution.windows[1].status[clock] == Status.OK
    assert (solution.windows[0].status[[0, 2, 3]] == Status.OK).all()
    assert _holds_all_around(run, solution, clock)


def test_jump_back_into_an_earlier_window_cuts_that_window_too() -> None:
    """Readings made twice, in window 0 and after the jump in window 1, belong to neither."""
    setup = Setup(leaves=4, spines=4, hosts_per_leaf=1, windows=3, bad_share=0.0, window_gap_s=1.0)
    run = draw(22, setup, steps={SPINE1: (3.4e9, -600_000_000)})
    solution = _solve(run)
    assert solution.windows[0].status[SPINE1] == Status.OK
    assert solution.windows[1].status[SPINE1] == Status.INCONSISTENT
    assert _holds_all_around(run, solution, SPINE1)


@pytest.mark.parametrize("back_ns", [300_000_000, 2_000_000_000, 4_600_000_000, 9_000_000_000])
def test_set_back_between_windows_leaves_doubled_readings_out(back_ns: int) -> None:
    """When in the pause it was set back is unknown: what may have been read twice has no row."""
    run = draw(23, FABRIC, steps={SPINE1: (5.0e9, -back_ns)})
    solution = _solve(run)
    assert [one.kind for one in solution.findings] == ["clock-jump"]
    assert _holds_all_around(run, solution, SPINE1)


def test_a_few_damaged_stamps_are_no_jump() -> None:
    """Three stray stamps are rejected and counted; the clock stays."""
    run = draw(24, FABRIC)
    rows = np.flatnonzero(run.hops["node_id"] == 101)[[10, 200, 300]]
    run.hops["ingress_tstamp_local_ns"][rows] += 10**12
    run.hops["egress_tstamp_local_ns"][rows] += 10**12
    solution = _solve(run)
    assert sum(solution.counters.rejected.values()) >= 3
    assert not solution.findings
    assert not solution.flagged.any()


@pytest.mark.parametrize("value", [123_456_789, 2**48 - 2])
def test_stuck_stamps_are_rejected_with_a_finding(value: int) -> None:
    """A clock that shows one value all the time tells nothing; the others are unaffected."""
    run = draw(25, FABRIC)
    mine = run.hops["node_id"] == 101
    for field in ("ingress_tstamp_local_ns", "egress_tstamp_local_ns"):
        run.hops[field][mine] = value
    solution = _solve(run)
    assert solution.counters.rejected[Reject.CLOCK_STUCK] > 100
    assert _found(solution, "clock-stuck") == [(0, "spine1"), (1, "spine1")]
    assert (solution.windows[0].status[:8] == Status.OK).all()
    assert solution.windows[0].status[SPINE1] == Status.INCONSISTENT
    hosts = score(run, solution)
    assert (np.abs(hosts.error_ns) <= hosts.hard_ns).all()


def test_every_clock_stuck_is_no_answer_and_no_exception() -> None:
    """Nothing is left to solve."""
    run = draw(25, FABRIC)
    for field in ("ingress_tstamp_local_ns", "egress_tstamp_local_ns"):
        run.hops[field] = 5
    solution = _solve(run)
    assert not np.isin(solution.windows[0].status, (Status.OK, Status.AMBIGUOUS)).any()


@pytest.mark.parametrize("factor", [-1.0, -0.5, 0.0005, 0.2])
def test_an_impossible_rate_withholds_the_clock(factor: float) -> None:
    """A clock that runs backwards, at half speed or 500 ppm off is never synchronised."""
    run = draw(26, FABRIC)
    mine = run.hops["node_id"] == 101
    for field in ("ingress_tstamp_local_ns", "egress_tstamp_local_ns"):
        stamps = run.hops[field][mine]
        run.hops[field][mine] += ((stamps - stamps.min()) * factor).astype(np.int64)
    solution = _solve(run)
    for window in solution.windows:
        assert window.status[SPINE1] == Status.INCONSISTENT
        assert (window.status[:8] == Status.OK).all()


@pytest.mark.parametrize("step_ns", [25, 40, 90, -25, -60])
@pytest.mark.parametrize("clock", [LEAF2, SPINE1])
@pytest.mark.parametrize("at_ns", [STEP_AT_NS, 2.7e9, 2.1e9])
def test_small_step_of_a_switch_is_found(clock: int, step_ns: int, at_ns: float) -> None:
    """Steps of twice the limit show against jitter of 3 ns: only that clock is blamed."""
    run = draw(27, FABRIC, steps={clock: (at_ns, step_ns)})
    solution = _solve(run)
    assert _found(solution, "clock-step") == [(0, run.model.clocks[clock].name)]
    assert solution.windows[0].status[clock] == Status.INCONSISTENT
    assert solution.windows[1].status[clock] == Status.OK


@pytest.mark.parametrize("step_ns", [60, 1_000, 1_000_000])
@pytest.mark.parametrize("at_ns", [2.12e9, STEP_AT_NS, 2.88e9])
def test_step_near_the_end_of_a_window_is_found(step_ns: int, at_ns: float) -> None:
    """It moves one sample in eight, which are not taken for late ones, however large it is."""
    run = draw(32, FABRIC, steps={SPINE1: (at_ns, step_ns)})
    solution = _solve(run)
    assert _found(solution, "clock-step") == [(0, "spine1")]
    assert _holds_all_around(run, solution, SPINE1)


@pytest.mark.parametrize("step_ns", [80, -300])
def test_step_of_a_host_is_found(step_ns: int) -> None:
    """Eight exchanges show it; the leaf before it is not blamed."""
    run = draw(33, FABRIC, steps={2: (2.4e9, step_ns)})
    solution = _solve(run)
    assert _found(solution, "clock-step") == [(0, "h3")]
    assert np.flatnonzero(solution.windows[0].status != Status.OK).tolist() == [2]


def test_step_below_the_limit_stays_within_the_conditional_bound() -> None:
    """What cannot be told from wander moves the clock by about half of it at most."""
    limit_ns = float(step_limit_ns(draw(28, FABRIC).model, np.ones(1))[0])
    assert 12.0 < limit_ns < 15.0
    run = draw(28, FABRIC, steps={SPINE1: (STEP_AT_NS, round(0.8 * limit_ns))})
    solution = _solve(run)
    got = score(run, solution)
    assert not solution.findings
    assert (np.abs(got.error_ns) <= got.conditional_ns).all()


def test_late_packets_of_half_a_window_are_no_step() -> None:
    """A pause on one direction of every link of a spine only delays: no clock is blamed."""
    run = draw(29, FABRIC)
    late = run.windows[0, 0] + 600_000_000
    first = run.packets["first_hop"][
        (run.packets["hop_count"] == 3)
        & (run.packets["capture_collector_ns"] > late)
        & (run.packets["capture_collector_ns"] < run.windows[0, 1])
    ]
    # all packets into spine1 arrive 40 ns later, and none out of it do
    into = first[run.hops["node_id"][first + 1] == 101] + 1
    for field in ("ingress_tstamp_local_ns", "egress_tstamp_local_ns"):
        run.hops[field][into] += 40 if field.startswith("in") else 0
    assert not _found(_solve(run), "clock-step")


def test_nonsense_stamps_never_raise() -> None:
    """Random 64-bit values in all stamps of two switches: some answer, no exception."""
    for seed in range(4):
        run = draw(30, FABRIC)
        rng = np.random.default_rng(seed)
        mine = np.isin(run.hops["node_id"], (101, 2))
        for field in ("ingress_tstamp_local_ns", "egress_tstamp_local_ns"):
            run.hops[field][mine] = rng.integers(-(2**62), 2**62, np.count_nonzero(mine))
        solution = _solve(run)
        assert not np.isin(solution.windows[0].status[[LEAF2, SPINE1]], (0, 1)).any()
        run.hops["egress_tstamp_local_ns"] = rng.integers(-(2**63), 2**63 - 1, len(run.hops))
        _solve(run)


def test_rows_of_a_withheld_clock_promise_nothing() -> None:
    """A disrupted window has unbounded rows or none."""
    run = draw(31, FABRIC, steps={SPINE1: (STEP_AT_NS, 10**9)})
    solution = _solve(run)
    rows = solution.table.rows_of(SPINE1)
    mine = rows[rows["window"] == 0]
    assert (mine["bound_hard_ns"] == UNBOUNDED_NS).all()
    got = solution.table.convert(np.array([NO_TSTAMP_NS]), SPINE1)
    assert got.bound_hard_ns[0] == UNBOUNDED_NS


def test_clock_set_by_decades_between_windows_stays_exact() -> None:
    """From uptime to TAI: a float of that difference has steps of 256 ns, the offset has none."""
    decades_ns = 1_790_000_000_123_456_789
    steady = _solve(draw(34, FABRIC))
    run = draw(34, FABRIC)
    first = np.repeat(np.arange(len(run.packets)), run.packets["hop_count"])
    later = run.packets["capture_collector_ns"][first] >= run.windows[1, 0]
    mine = (run.hops["node_id"] == 101) & later
    for field in ("ingress_tstamp_local_ns", "egress_tstamp_local_ns"):
        run.hops[field][mine] += decades_ns
    solution = _solve(run)
    assert [one.kind for one in solution.findings] == ["clock-jump"]
    for window, before, shift in zip(
        solution.windows, steady.windows, (0, decades_ns), strict=True
    ):
        assert int(window.offset_ns[SPINE1]) - int(before.offset_ns[SPINE1]) == shift
        assert window.bound_hard_ns[SPINE1] == pytest.approx(before.bound_hard_ns[SPINE1])


def test_no_damage_of_stamps_and_captures_raises() -> None:
    """Arbitrary mixtures of shifted, stuck, negated and random stamps: always an answer."""
    setup = Setup(leaves=3, spines=2, hosts_per_leaf=1, windows=2, samples=6, exchanges=4)
    for seed in (61, 195, 226, 245, *range(8)):
        rng = np.random.default_rng(seed)
        run = draw(seed % 7, setup)
        stamps = (
            (run.hops, ("ingress_tstamp_local_ns", "egress_tstamp_local_ns")),
            (run.exchanges, ("t1_reference_ns", "t2_local_ns", "t3_local_ns", "t4_reference_ns")),
        )
        for records, fields in stamps:
            for field in fields:
                hit = rng.random(len(records)) < rng.choice([0.02, 0.3, 0.9, 1.0])
                values = records[field][hit]
                records[field][hit] = (
                    rng.integers(-(2**63), 2**63 - 1, len(values)),
                    values + rng.integers(-(10**9), 10**9, len(values)),
                    np.full(len(values), rng.choice([0, 1, 2**62 - 1, 1 - 2**62])),
                    values[:1].repeat(len(values)),
                    -values,
                    values,
                )[rng.integers(0, 6)]
        if seed % 3 == 0:
            run.packets["capture_collector_ns"] = run.windows[0, 0] + 5
        solution = _solve(run)
        assert len(solution.windows) == 2
