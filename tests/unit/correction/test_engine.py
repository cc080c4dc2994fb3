# SPDX-License-Identifier: Apache-2.0
"""The whole solve on small fabrics: verdicts, blind spots, contradictions, steps."""

from dataclasses import replace

import numpy as np
import pytest

from correction.engine import solve
from correction.oracle import oracle
from correction.records import NO_TSTAMP_NS
from correction.solution import FabricSolution, SolveOptions
from correction.table import Status
from tests.support.score_correction import score
from tests.support.synthetic_fabric import Run, Setup, draw

FABRIC = Setup(leaves=4, spines=4, hosts_per_leaf=1, windows=2, bad_share=0.0, exchanges=6)
LEAF1 = 4
"""Clock index of leaf1 (hosts come first)."""


def _solve(run: Run, options: SolveOptions | None = None) -> FabricSolution:
    return solve(run.packets, run.hops, run.exchanges, run.model, run.windows, options)


def _covered(run: Run, solution: FabricSolution) -> bool:
    got = score(run, solution)
    return bool((np.abs(got.error_ns) <= got.hard_ns).all())


def test_no_bad_link_nothing_flagged() -> None:
    """A healthy fabric: no flag, no asymmetric link, both bounds hold."""
    run = draw(1, FABRIC)
    solution = _solve(run)
    got = score(run, solution)
    assert not solution.flagged.any()
    assert not solution.links.asymmetric.any()
    assert not solution.findings
    assert (np.abs(got.error_ns) <= got.conditional_ns).all()
    assert (got.conditional_ns <= got.hard_ns).all()
    assert 1e-4 < solution.p_value <= 1.0


def test_sign_of_a_link_asymmetry() -> None:
    """a_uv is half the one-way difference, positive when a -> b (leaf -> spine) is slower."""
    for value in (200.0, -200.0):
        solution = _solve(draw(2, FABRIC, a_ns={"leaf2-spine3": value}))
        link = [one.name for one in solution.model.links].index("leaf2-spine3")
        assert np.flatnonzero(solution.links.asymmetric).tolist() == [link]
        assert solution.links.a_ns[link] == pytest.approx(value, abs=25.0)


def test_one_bad_uplink_of_four_is_not_flagged_two_are() -> None:
    """Fewer than half of the cut, and not fewer."""
    one = _solve(draw(3, FABRIC, a_ns={"leaf3-spine1": 150.0}))
    assert not one.flagged.any()
    two = _solve(draw(3, FABRIC, a_ns={"leaf3-spine1": 150.0, "leaf3-spine2": 140.0}))
    names = {one.name for one, flag in zip(two.model.clocks, two.flagged, strict=True) if flag}
    assert names == {"leaf3", "h3"}
    window = two.windows[0]
    h3 = 2
    assert window.status[h3] == Status.AMBIGUOUS
    assert window.bound_conditional_ns[h3] == window.bound_hard_ns[h3]
    assert "half of a cut" in window.reason[h3]


def test_reference_leaf_in_doubt_flags_all_hosts_beyond_it() -> None:
    """If the grandmaster's own leaf is ambiguous, every other host is relative to a guess."""
    run = draw(4, FABRIC, a_ns={"leaf1-spine1": 150.0, "leaf1-spine2": 145.0})
    solution = _solve(run)
    assert solution.flagged[[1, 2, 3]].all()
    assert not solution.flagged[[0, LEAF1]].any()
    assert _covered(run, solution)


def test_four_by_two_with_a_bad_link_is_reported_not_answered() -> None:
    """Two uplinks tolerate no bad one: its leaf is flagged, hard bounds hold."""
    for seed in range(4):
        setup = replace(FABRIC, spines=2)
        run = draw(seed, setup, a_ns={"leaf2-spine1": 120.0})
        solution = _solve(run)
        assert solution.flagged[[1, LEAF1 + 1]].all()
        assert _covered(run, solution)


def test_gradient_is_invisible_yet_bounded() -> None:
    """Asymmetry +60 ns on all links of a leaf leaves the loops quiet; the hard bound still holds.

    That is outside the prior, so only the hard bound is promised, and nothing says "symmetric".
    """
    quiet, run = [], None
    for value in (0.0, 60.0):
        gradient = {f"leaf2-spine{s}": value for s in range(1, 5)}
        run = draw(5, replace(FABRIC, asymmetry_sd_ns=0.5), a_ns=gradient)
        solution = _solve(run)
        quiet.append(solution.chi2)
        assert not solution.links.asymmetric.any()
        assert _covered(run, solution)
        assert "fewer than half" in solution.prior
    assert abs(quiet[0] - quiet[1]) < 1.0


def test_undetermined_access_cable_only_widens_its_host() -> None:
    """A host's own cable enters its sd with its declared prior, and flags nothing."""
    run = draw(6, FABRIC)
    links = tuple(
        replace(link, asymmetry_sd_ns=50.0) if link.name == "h3-leaf3" else link
        for link in run.model.links
    )
    solution = solve(
        run.packets, run.hops, run.exchanges, replace(run.model, links=links), run.windows
    )
    sd = solution.windows[0].sd_ns
    assert not solution.flagged.any()
    assert sd[2] > 50.0
    assert sd[1] < 15.0


def test_impossible_stamps_withhold_both_ends_and_name_the_cycle() -> None:
    """Arrivals 5 us too early on one link contradict causality: either end may be at fault.

    Both and the host behind are withheld in that window; all others stay, and are right.
    """
    run = draw(7, FABRIC)
    # all packets leaf2 -> spine1 of window 0 arrive 5 us before they can
    first = run.packets["first_hop"]
    mine = (
        (run.packets["hop_count"] == 3)
        & (run.hops["node_id"][first] == 2)
        & (run.hops["egress_port"][first] == 1)
        & (run.packets["capture_collector_ns"] < run.windows[0, 1])
    )
    run.hops["egress_tstamp_local_ns"][first[mine]] += 5_000
    solution = _solve(run)
    kinds = {(one.kind, one.window) for one in solution.findings}
    assert ("impossible-cycle", 0) in kinds
    cycle = next(one for one in solution.findings if one.kind == "impossible-cycle")
    assert "leaf2" in cycle.subject
    assert "spine1" in cycle.subject
    names = [clock.name for clock in run.model.clocks]
    status = dict(zip(names, solution.windows[0].status.tolist(), strict=True))
    assert [name for name in names if status[name] != Status.OK] == ["h2", "leaf2", "spine1"]
    assert np.isinf(solution.windows[0].bound_hard_ns[[1, LEAF1 + 1]]).all()
    assert (solution.windows[1].status == Status.OK).all()
    assert _covered(run, solution)


def test_step_inside_a_window_withholds_that_clock_only() -> None:
    """A leaf clock that steps 1 us mid-window is inconsistent; the others stay, bounds hold."""
    leaf3 = LEAF1 + 2
    run = draw(8, FABRIC, steps={leaf3: (2.5e9, 1_000)})
    solution = _solve(run)
    first, second = solution.windows
    assert first.status[leaf3] == Status.INCONSISTENT
    assert first.status[2] != Status.OK  # the host behind it
    assert (first.status[[0, 1, 3, LEAF1]] == Status.OK).all()
    assert (second.status == Status.OK).all()
    assert any(f.kind == "clock-step" and f.subject == "leaf3" for f in solution.findings)
    assert _covered(run, solution)


def test_step_between_windows_cuts_the_holdover() -> None:
    """A clock set between windows keeps its windows and loses what lies between."""
    leaf3 = LEAF1 + 2
    steady = _solve(draw(9, FABRIC))
    run = draw(9, FABRIC, steps={leaf3: (5.0e9, 50_000)})
    solution = _solve(run)
    assert [f.kind for f in solution.findings] == ["clock-jump"]
    assert not solution.flagged.any()
    between = run.truth.clocks[leaf3].stamp(np.array([4.4e9]), 1)
    assert steady.table.convert(between, leaf3).reference_ns[0] != NO_TSTAMP_NS
    assert solution.table.convert(between, leaf3).reference_ns[0] == NO_TSTAMP_NS
    assert _covered(run, solution)


def test_clock_without_measured_links_is_floating() -> None:
    """No reports from leaf4: it and its host are floating with infinite bounds."""
    run = draw(10, FABRIC)
    run.hops["ingress_tstamp_local_ns"][run.hops["node_id"] == 4] = NO_TSTAMP_NS
    run.hops["egress_tstamp_local_ns"][run.hops["node_id"] == 4] = NO_TSTAMP_NS
    solution = _solve(run)
    for clock in (3, LEAF1 + 3):
        assert solution.windows[0].status[clock] == Status.FLOATING
        assert solution.windows[0].bound_hard_ns[clock] == np.inf
    assert (solution.windows[0].status[:3] == Status.OK).all()


def test_no_reference_no_offsets() -> None:
    """Without exchanges nobody is tied to the grandmaster: all floating, nothing guessed."""
    run = draw(11, FABRIC)
    solution = solve(run.packets, run.hops, run.exchanges[:0], run.model, run.windows)
    assert (solution.windows[0].status == Status.FLOATING).all()
    assert solution.windows[0].reference_ns is None


def test_nothing_in_nothing_out() -> None:
    """No packets at all: every clock floating, no exception."""
    run = draw(11, FABRIC)
    solution = solve(run.packets[:0], run.hops[:0], run.exchanges[:0], run.model, run.windows)
    assert (solution.windows[1].status == Status.FLOATING).all()
    no_windows = solve(run.packets, run.hops, run.exchanges, run.model, np.zeros((0, 2), np.int64))
    assert no_windows.windows == ()


def test_oracle_leaves_out_exactly_the_bad_links() -> None:
    """Told which link is bad, least squares recovers its asymmetry as the solve does."""
    run = draw(12, FABRIC, a_ns={"leaf2-spine2": 300.0})
    solution = _solve(run)
    yardstick = oracle(solution.measured, run.truth.bad)
    hosts = score(run, solution).hosts
    ours, best = score(run, solution).rms_ns(hosts), score(run, yardstick).rms_ns(hosts)
    assert ours == pytest.approx(best, rel=0.1)


def test_more_sigmas_widen_the_conditional_bound_only() -> None:
    """k scales the conditional bound and nothing else."""
    run = draw(13, FABRIC)
    three, four = _solve(run), _solve(run, SolveOptions(sigmas=4.0))
    a, b = three.windows[0], four.windows[0]
    assert (b.bound_conditional_ns[1:4] > a.bound_conditional_ns[1:4]).all()
    np.testing.assert_array_equal(a.bound_hard_ns, b.bound_hard_ns)
    np.testing.assert_array_equal(a.offset_ns, b.offset_ns)


def test_length_classes_that_disagree_are_a_finding() -> None:
    """Undeclared serialisation (stamp at the frame's end) shows as a class contradiction."""
    run = draw(14, replace(FABRIC, ingress_at_frame_end=True))
    assert _solve(run).class_findings == ()
    links = tuple(
        replace(link, b_ingress=replace(link.b_ingress, at_frame_end=False))
        for link in run.model.links
    )
    solution = solve(
        run.packets, run.hops, run.exchanges, replace(run.model, links=links), run.windows
    )
    assert solution.class_findings
    assert all(
        abs(found.difference_ns) == pytest.approx((4_200 - 90) * 0.08, abs=5.0)
        for found in solution.class_findings
    )
