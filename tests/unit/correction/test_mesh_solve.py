# SPDX-License-Identifier: Apache-2.0
"""The solve of one instant agrees with closed forms and keeps its symmetries."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correction.mesh.edges import Edges, without_shared
from correction.mesh.solve import Standing, solve_mesh, with_measurement
from correction.table import CONDITIONAL_SIGMAS
from tests.support.mesh_fabric import chosen_rows, leaf_spine_mesh


def _closed_form(edges: Edges, reference: int) -> tuple[np.ndarray, np.ndarray]:
    """Dense generalised least squares over all nodes and shared constants, nothing bad."""
    n, m, count = edges.node_count, edges.shared.shape[1], len(edges)
    design = np.zeros((count + m, n + m))
    design[np.arange(count), edges.v] += 1.0
    design[np.arange(count), edges.u] -= 1.0
    design[:count, n:] = edges.shared
    design[count + np.arange(m), n + np.arange(m)] = 1.0
    weight = np.concatenate([edges.scale_ns**-2.0, edges.shared_sd_ns**-2.0])
    kept = [k for k in range(n + m) if k != reference]
    inner = design[:, kept]
    covariance = np.linalg.inv(inner.T @ (weight[:, None] * inner))
    solution = covariance @ (inner.T @ (weight * np.concatenate([edges.y_ns, np.zeros(m)])))
    theta, sd = np.zeros(n + m), np.zeros(n + m)
    theta[kept], sd[kept] = solution, np.sqrt(np.diag(covariance))
    return theta[:n], sd[:n]


def test_without_bad_edges_it_is_generalised_least_squares() -> None:
    """Offsets and deviations of every clock, hosts on trees included, to a picosecond."""
    fabric = leaf_spine_mesh(5, 3, 10)
    edges = replace(fabric.edges, may_be_bad=np.zeros(len(fabric.edges), np.bool_))
    solution = solve_mesh(edges, fabric.reference)
    theta, sd = _closed_form(edges, fabric.reference)
    assert solution.theta_ns == pytest.approx(theta, abs=1e-3)
    assert solution.sd_ns == pytest.approx(sd, abs=1e-3)


def test_constants_that_edges_share_are_solved_along() -> None:
    """A stamp-point constant of all access edges cancels between two hosts; others do not."""
    fabric = leaf_spine_mesh(5, 3, 10)
    count = len(fabric.edges)
    shared = np.zeros((count, 2))
    shared[15:, 0] = 0.5
    shared[:15:2, 1] = 0.5
    edges = replace(
        fabric.edges,
        may_be_bad=np.zeros(count, np.bool_),
        shared=shared,
        shared_sd_ns=np.array([30.0, 8.0]),
    )
    solution = solve_mesh(edges, fabric.reference)
    theta, sd = _closed_form(edges, fabric.reference)
    assert solution.theta_ns == pytest.approx(theta, abs=1e-3)
    assert solution.sd_ns == pytest.approx(sd, abs=1e-3)
    hosts = np.arange(9, 18)
    assert (solution.sd_ns[hosts] < 15.0).all()  # the 30 ns cancel
    assert (solution.sd_ns[:5] > 15.0).all()  # against a switch they do not


def test_a_tree_alone_is_followed_edge_by_edge() -> None:
    """A chain has no core: offsets add up, variances too, and nothing there is called bad."""
    shared, shared_sd = without_shared(3)
    edges = Edges(
        node_count=4,
        u=np.array([0, 2, 2]),
        v=np.array([1, 1, 3]),
        y_ns=np.array([100.0, 30.0, 400.0]),
        noise_sd_ns=np.array([3.0, 3.0, 3.0]),
        healthy_sd_ns=np.array([4.0, 4.0, 4.0]),
        may_be_bad=np.ones(3, np.bool_),
        shared=shared,
        shared_sd_ns=shared_sd,
        forward_limit_ns=np.full(3, np.inf),
        backward_limit_ns=np.full(3, np.inf),
    )
    for reference in range(4):
        solution = solve_mesh(edges, reference)
        true = np.array([0.0, 100.0, 70.0, 470.0])
        assert solution.theta_ns == pytest.approx(true - true[reference])
        hops = np.array([[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]])[reference]
        assert solution.sd_ns == pytest.approx(5.0 * np.sqrt(hops))
        assert not solution.bad.any()


@pytest.mark.parametrize("seed", range(6))
def test_it_is_nearly_as_good_as_being_told_the_bad_edges(seed: int) -> None:
    """16 x 8 with 20 % bad: at most a tenth worse than least squares without them."""
    fabric = leaf_spine_mesh(16, 8, 32, seed=seed, bad_share=0.2)
    solution = solve_mesh(fabric.edges, fabric.reference)
    told = replace(
        fabric.edges,
        may_be_bad=np.zeros(len(fabric.edges), np.bool_),
        healthy_sd_ns=np.where(np.abs(fabric.a_ns) >= 20.0, 1e5, 5.0),
    )
    oracle = solve_mesh(told, fabric.reference)
    own, best = fabric.error_ns(solution.theta_ns), fabric.error_ns(oracle.theta_ns)
    determined = solution.standing <= Standing.SINGLE_HOMED
    assert determined.mean() > 0.8
    assert (np.abs(own) <= solution.bound_hard_ns).all()
    own, best = own[determined], best[determined]
    assert np.sqrt(np.mean(own**2)) < 1.1 * np.sqrt(np.mean(best**2)) + 0.3
    sound = determined[fabric.edges.u] & determined[fabric.edges.v]
    large = sound & (np.abs(fabric.a_ns) > 30.0)
    assert (solution.bad & large).sum() >= 0.95 * large.sum()
    named = sound & solution.bad & (np.abs(solution.a_ns) >= 20.0)
    assert (np.abs(fabric.a_ns[named]) > 15.0).mean() >= 0.95


def test_a_new_measurement_started_from_the_last_answer_gives_the_same() -> None:
    """Warm or cold, the same edges are bad and the clocks agree."""
    fabric = leaf_spine_mesh(16, 8, 32, seed=3, bad_share=0.2)
    first = solve_mesh(fabric.edges, fabric.reference)
    noise = np.random.default_rng(5).normal(0.0, 0.5, len(fabric.edges))
    again = with_measurement(fabric.edges, fabric.edges.y_ns + noise)
    cold = solve_mesh(again, fabric.reference)
    warm = solve_mesh(again, fabric.reference, start=first)
    assert warm.bad.tolist() == cold.bad.tolist()
    assert warm.theta_ns == pytest.approx(cold.theta_ns, abs=1e-6)
    assert warm.standing.tolist() == cold.standing.tolist()


_SEEDS = st.integers(0, 10**6)


@settings(max_examples=20, deadline=None)
@given(_SEEDS, st.integers(0, 27), st.floats(-1e4, 1e4))
def test_adding_to_one_clock_changes_only_that_clock(seed: int, node: int, ns: float) -> None:
    """If the reference's is moved, all others move the other way."""
    fabric = leaf_spine_mesh(seed=seed, bad_share=0.1)
    before = solve_mesh(fabric.edges, fabric.reference)
    moved = ns * ((fabric.edges.v == node).astype(float) - (fabric.edges.u == node).astype(float))
    edges = replace(
        fabric.edges,
        y_ns=fabric.edges.y_ns + moved,
        forward_limit_ns=fabric.edges.forward_limit_ns + moved,
        backward_limit_ns=fabric.edges.backward_limit_ns - moved,
    )
    after = solve_mesh(edges, fabric.reference)
    expected = before.theta_ns.copy()
    expected[node] += ns
    expected -= expected[fabric.reference]
    assert after.theta_ns == pytest.approx(expected, abs=1e-4)
    assert after.bad.tolist() == before.bad.tolist()
    assert after.sd_ns == pytest.approx(before.sd_ns, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(_SEEDS)
def test_the_order_of_edges_changes_nothing(seed: int) -> None:
    """Nor does it matter which end is called u."""
    fabric = leaf_spine_mesh(seed=seed, bad_share=0.15)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(fabric.edges))
    edges = chosen_rows(fabric.edges, order)
    turned = rng.random(len(edges)) < 0.5
    edges = replace(
        edges,
        u=np.where(turned, edges.v, edges.u),
        v=np.where(turned, edges.u, edges.v),
        y_ns=np.where(turned, -edges.y_ns, edges.y_ns),
        forward_limit_ns=np.where(turned, edges.backward_limit_ns, edges.forward_limit_ns),
        backward_limit_ns=np.where(turned, edges.forward_limit_ns, edges.backward_limit_ns),
    )
    one, other = solve_mesh(fabric.edges, fabric.reference), solve_mesh(edges, fabric.reference)
    assert other.theta_ns == pytest.approx(one.theta_ns, abs=1e-6)
    assert other.bad.tolist() == one.bad[order].tolist()
    assert other.standing.tolist() == one.standing.tolist()
    assert other.low_ns == pytest.approx(one.low_ns, abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(_SEEDS)
def test_doubling_the_data_never_widens_the_statistical_part(seed: int) -> None:
    """Every edge measured twice as well: no clock's deviation grows."""
    fabric = leaf_spine_mesh(seed=seed)
    edges = replace(fabric.edges, may_be_bad=np.zeros(len(fabric.edges), np.bool_))
    better = replace(edges, noise_sd_ns=edges.noise_sd_ns / np.sqrt(2.0))
    once = solve_mesh(edges, fabric.reference)
    twice = solve_mesh(better, fabric.reference)
    assert (twice.sd_ns <= once.sd_ns + 1e-9).all()


def test_bounds_nest_and_cover() -> None:
    """The conditional bound is never above the hard one, and no less than k deviations: more only
    at the few clocks that a rival moves by more than one. The truth lies in both here."""
    fabric = leaf_spine_mesh(8, 4, 16, seed=4)
    solution = solve_mesh(fabric.edges, fabric.reference)
    assert (solution.bound_conditional_ns <= solution.bound_hard_ns + 1e-9).all()
    error = np.abs(fabric.error_ns(solution.theta_ns))
    assert (error <= solution.bound_conditional_ns + 1e-9).mean() >= 0.95
    assert (error <= solution.bound_hard_ns + 1e-6).all()
    expected = np.minimum(CONDITIONAL_SIGMAS * solution.sd_ns, solution.bound_hard_ns)
    assert (solution.bound_conditional_ns >= expected - 1e-9).all()
    equal = np.isclose(solution.bound_conditional_ns, expected)
    assert equal.mean() > 0.9


def test_limits_that_contradict_are_named_and_bound_nothing() -> None:
    """A packet that arrives before it left: a negative cycle, and no clock keeps a bound."""
    fabric = leaf_spine_mesh(4, 2, 4)
    forward = fabric.edges.forward_limit_ns.copy()
    forward[0] -= 5_000.0
    solution = solve_mesh(replace(fabric.edges, forward_limit_ns=forward), fabric.reference)
    assert solution.cycle is not None
    assert solution.cycle.excess_ns > 3_000.0
    assert set(solution.cycle.clocks) >= {0, 4}
    assert set(solution.standing.tolist()) == {Standing.CONTRADICTED}
    assert np.isinf(solution.bound_hard_ns).all()


def test_what_no_path_reaches_floats() -> None:
    """A leaf without measured uplinks, and the hosts behind it."""
    fabric = leaf_spine_mesh(4, 2, 8)
    kept = np.flatnonzero((fabric.edges.u != 3) | (fabric.edges.v >= 6))
    solution = solve_mesh(chosen_rows(fabric.edges, kept), fabric.reference)
    floating = np.flatnonzero(solution.standing == Standing.FLOATING).tolist()
    assert floating == [3, 12, 13]
    assert np.isnan(solution.theta_ns[floating]).all()
    assert np.isinf(solution.bound_hard_ns[floating]).all()
