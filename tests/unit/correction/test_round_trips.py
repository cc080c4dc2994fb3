# SPDX-License-Identifier: Apache-2.0
"""A round trip longer than the declared cable refutes equal directions."""

from dataclasses import replace

import numpy as np
import pytest

from correction.engine import solve
from correction.solution import FabricSolution
from tests.support.score_correction import score
from tests.support.synthetic_fabric import Run, Setup, draw

FABRIC = Setup(leaves=4, spines=4, hosts_per_leaf=1, windows=2, bad_share=0.0, exchanges=6)
H3 = 2


def _solve(run: Run) -> FabricSolution:
    return solve(run.packets, run.hops, run.exchanges, run.model, run.windows)


def _late(run: Run, clock: int, late_ns: int, field: str = "t2_local_ns") -> None:
    run.exchanges[field][run.exchanges["client"] == clock] += late_ns


@pytest.mark.parametrize("late_ns", [300, 1_000, 1_000_000])
def test_late_arrivals_of_one_host_widen_its_conditional_bound(late_ns: int) -> None:
    """t2 late by d moves the clock by d/2: the bound covers that; the others keep theirs."""
    steady = score(draw(41, FABRIC), _solve(draw(41, FABRIC)))
    run = draw(41, FABRIC)
    _late(run, H3, late_ns)
    solution = _solve(run)
    got = score(run, solution)
    assert {(f.kind, f.subject) for f in solution.findings} == {("long-round-trip", "h3-leaf3")}
    assert (np.abs(got.error_ns[:, H3]) > late_ns / 2 - 30).all()
    assert (np.abs(got.error_ns) <= got.conditional_ns).all()
    assert (got.conditional_ns <= got.hard_ns).all()
    np.testing.assert_array_equal(got.conditional_ns[:, 3], steady.conditional_ns[:, 3])
    assert "round trip" in solution.windows[0].reason[H3]
    assert not solution.flagged.any()


def test_the_references_cable_widens_everybody_beyond_it() -> None:
    """t4 late on the reference's own access cable is between it and all others."""
    run = draw(42, FABRIC)
    run.exchanges["t4_reference_ns"] += 1_000
    solution = _solve(run)
    got = score(run, solution)
    assert ("long-round-trip", "h1-leaf1") in {(f.kind, f.subject) for f in solution.findings}
    assert (np.abs(got.error_ns[:, 1:4]) <= got.conditional_ns[:, 1:4]).all()
    assert (got.conditional_ns[:, 1:4] > 400).all()


def test_without_a_declared_length_nothing_is_checked() -> None:
    """0 means unknown."""
    run = draw(41, FABRIC)
    links = tuple(replace(link, max_delay_ns=0) for link in run.model.links)
    run.model = replace(run.model, links=links)
    _late(run, H3, 1_000)
    assert not _solve(run).findings


def test_an_asymmetric_link_in_a_loop_is_no_such_finding() -> None:
    """The solve sees its asymmetry and reports that."""
    for value in (60.0, 500.0, -500.0):
        solution = _solve(draw(43, FABRIC, a_ns={"leaf2-spine3": value}))
        assert not solution.findings
        assert solution.links.asymmetric.sum() == 1
        assert not solution.flagged.any()


def test_a_host_refuted_in_one_window_keeps_only_the_hard_bound_in_others() -> None:
    """Its stamps were wrong once, so equal directions are not believed elsewhere."""
    run = draw(44, FABRIC)
    mine = (run.exchanges["client"] == H3) & (
        run.exchanges["t1_reference_ns"] < run.exchanges["t1_reference_ns"].min() + 2 * 10**9
    )
    run.exchanges["t3_local_ns"][mine] += 2_000
    first, second = _solve(run).windows
    assert (first.status[H3], second.status[H3]) == (3, 0)
    assert second.bound_conditional_ns[H3] == second.bound_hard_ns[H3]
    assert second.bound_conditional_ns[3] < second.bound_hard_ns[3]


def test_early_arrivals_withhold_that_host_alone() -> None:
    """t3 late by more than the cable takes: impossible, and nobody else's fault."""
    run = draw(44, FABRIC)
    _late(run, H3, 2_000, "t3_local_ns")
    solution = _solve(run)
    assert {f.kind for f in solution.findings} == {"impossible-cycle"}
    for window in solution.windows:
        assert np.flatnonzero(window.status != 0).tolist() == [H3]
    got = score(run, solution)
    assert (np.abs(got.error_ns) <= got.hard_ns).all()


def test_a_switch_that_stamps_late_on_every_port_widens_itself_alone() -> None:
    """All its links are refuted together, so no loop shows it; hosts cross it and come out even."""
    a_ns = {f"leaf{n}-spine2": 150.0 for n in range(1, 5)}
    solution = _solve(draw(45, FABRIC, a_ns=a_ns))
    got = score(draw(45, FABRIC, a_ns=a_ns), solution)
    names = [clock.name for clock in solution.model.clocks]
    spine = names.index("spine2")
    assert (np.abs(got.error_ns[:, spine]) > 100).all()
    assert (np.abs(got.error_ns) <= got.conditional_ns).all()
    assert (got.conditional_ns[:, spine] > 100).all()
    others = [n for n, name in enumerate(names) if name not in ("h1", "spine2")]
    assert (got.conditional_ns[:, others] < 60).all()


def test_a_gradient_over_a_tier_widens_the_leaves_that_it_moves() -> None:
    """Every uplink of two leaves of four is too long: no loop shows it, and the bound covers it.
    The two uplinks of a spine that are not are half of its links, and tie it no more."""
    a_ns = {f"leaf{n}-spine{m}": 150.0 for n in (3, 4) for m in range(1, 5)}
    run = draw(46, FABRIC, a_ns=a_ns)
    solution = _solve(run)
    got = score(run, solution)
    assert (np.abs(got.error_ns[:, 2:4]) > 100).all()
    assert (np.abs(got.error_ns) <= got.conditional_ns).all()
    assert not solution.links.asymmetric.any()


def test_one_refuted_uplink_of_four_widens_nobody() -> None:
    """Three sound ones tie the leaf."""
    run = draw(43, FABRIC, a_ns={"leaf2-spine3": 60.0})
    for window in _solve(run).windows:
        assert "round trip" not in " ".join(window.reason)
