# SPDX-License-Identifier: Apache-2.0
"""Machines of several NICs in the mesh: answers, bounds and verdicts as without any elimination."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from correction.bounds import Constraints, HardInterval, hard_intervals
from correction.certificate_check import check_certificate
from correction.mesh.certificates import judge
from correction.mesh.core import split
from correction.mesh.graph import WEIGHT_UNITS, Graph
from correction.mesh.growth import MARGIN_UNITS
from correction.mesh.solve import Standing, certificate, solve_mesh
from tests.support.mesh_fabric import MeshFabric
from tests.support.rail_mesh import TIE_SD_NS, rail_mesh


def graph_of(fabric: MeshFabric) -> Graph:
    """Of all nodes, the reference as the ground."""
    edges, first = fabric.edges, fabric.reference
    swap = np.arange(edges.node_count)
    swap[[0, first]] = first, 0
    return Graph(
        size=edges.node_count,
        u=swap[edges.u],
        v=swap[edges.v],
        y_ns=edges.y_ns,
        scale_ns=edges.scale_ns,
        firm=~edges.may_be_bad,
    )


def margin(graph: Graph, node: int) -> float:
    """By how much the least sum of weight * |residual| grows at least if a node moves by 1 ns, in
    weights of a typical edge; by linear programming. Residuals within tolerance are nothing."""
    count = len(graph.u)
    cost = np.concatenate([np.zeros(graph.size), graph.weight / WEIGHT_UNITS])
    rows = np.zeros((2 * count, graph.size + count))
    number = np.arange(count)
    for half, sign in ((0, 1.0), (count, -1.0)):
        rows[half + number, graph.v] -= sign
        rows[half + number, graph.u] += sign
        rows[half + number, graph.size + number] = -1.0
    right = np.concatenate([-graph.y_ns, graph.y_ns])

    def least(fixed: dict[int, float]) -> tuple[float, np.ndarray]:
        limits: list[tuple[float | None, float | None]] = [(None, None)] * graph.size
        for one, value in {0: 0.0, **fixed}.items():
            limits[one] = (value, value)
        limits += [(0.0, None)] * count
        found = linprog(cost, A_ub=rows, b_ub=right, bounds=limits, method="highs")
        return found.fun, found.x

    best, theta = least({})
    return float(min(least({node: theta[node] + move})[0] - best for move in (1.0, -1.0)))


def exact(fabric: MeshFabric) -> MeshFabric:
    """The same without noise: healthy cables and ties are right to the last digit."""
    large = np.where(np.abs(fabric.a_ns) >= 40.0, fabric.a_ns, 0.0)
    edges = fabric.edges
    difference = fabric.theta_ns[edges.v] - fabric.theta_ns[edges.u]
    return replace(fabric, edges=replace(edges, y_ns=difference + large))


@pytest.mark.parametrize("seed", range(6))
def test_margins_of_machines_are_those_of_linear_programming(seed: int) -> None:
    """Without noise: what is proved is what another method finds to cost a margin to move, where
    two of three cables of a machine may be bad, and links of switches too."""
    fabric = exact(
        rail_mesh(5, 3, rails=3, machines=3, seed=seed, bad_share=0.2, bad_access_share=0.4)
    )
    graph = graph_of(fabric)
    swapped = fabric.theta_ns - fabric.theta_ns[fabric.reference]
    swapped[[0, fabric.reference]] = swapped[[fabric.reference, 0]]
    verdict = judge(graph, swapped)
    assert verdict.complete
    proved = set(verdict.proved.tolist())
    needed = MARGIN_UNITS / WEIGHT_UNITS
    for node in range(1, graph.size):
        assert (node in proved) == (margin(graph, node) > needed - 1e-6), node


@pytest.mark.parametrize("seed", range(8))
def test_hard_intervals_are_shortest_paths_through_ties(seed: int) -> None:
    """Against Bellman and Ford over all limits of cables and ties."""
    fabric = rail_mesh(
        6, 3, rails=4, machines=4, dual_homed=2, seed=seed, bad_share=0.2, bad_access_share=0.2
    )
    edges = fabric.edges
    solution = solve_mesh(edges, fabric.reference)
    constraints = Constraints(
        u=np.r_[edges.u, edges.v],
        v=np.r_[edges.v, edges.u],
        limit_ns=np.r_[edges.forward_limit_ns, edges.backward_limit_ns],
        clock_count=edges.node_count,
    )
    expected = hard_intervals(constraints, fabric.reference)
    assert isinstance(expected, HardInterval)
    assert solution.low_ns == pytest.approx(expected.low_ns, abs=1e-6)
    assert solution.high_ns == pytest.approx(expected.high_ns, abs=1e-6)
    true_ns = fabric.theta_ns - fabric.theta_ns[fabric.reference]
    assert (solution.low_ns - 1e-6 <= true_ns).all()
    assert (true_ns <= solution.high_ns + 1e-6).all()


def test_verdicts_are_proved_and_confident_answers_right() -> None:
    """30 fabrics of 8 leaves, 6 spines and 16 machines of 8 NICs, a fifth of the links and a tenth
    of the NICs' cables bad: an independent checker proves what counts as determined, nearly all
    clocks do, and of these no more than one in 1000 lies outside its conditional bound (of 99.9 %),
    by less than half of it."""
    confident = outside = clocks = 0
    worst = 0.0
    for seed in range(30):
        fabric = rail_mesh(
            8, 6, rails=8, machines=16, seed=seed, bad_share=0.2, bad_access_share=0.1
        )
        solution = solve_mesh(fabric.edges, fabric.reference)
        names = tuple(map(str, range(fabric.edges.node_count)))
        if seed < 3:
            proof = json.loads(json.dumps(certificate(solution, fabric.edges, names)))
            check_certificate(proof)
            certain = {names[k] for k in np.flatnonzero(solution.standing == Standing.DETERMINED)}
            assert certain <= {proof["ground"], *proof["determined"]}
        sure = solution.standing <= Standing.SINGLE_HOMED
        error = np.abs(fabric.error_ns(solution.theta_ns))[sure]
        bound = solution.bound_conditional_ns[sure]
        clocks += len(sure)
        confident += len(error)
        outside += int((error > bound + 1e-9).sum())
        worst = max(worst, float((error / np.maximum(bound, 1e-9)).max()))
    assert confident > 0.9 * clocks
    assert outside <= confident / 1000
    assert worst < 1.5


def test_half_of_a_machines_cables_bad_one_way_leave_it_open() -> None:
    """Four of eight, alike: the machine may be where these are right. All others stay determined,
    and another machine with four bad cables that pull apart too."""
    bad = {f"m3n{r}": 200.0 for r in range(4)}
    bad |= {f"m5n{r}": 150.0 * (r + 1) * (-1) ** r for r in range(4)}
    fabric = rail_mesh(8, 6, rails=8, machines=8, bad=bad)
    solution = solve_mesh(fabric.edges, fabric.reference)
    first_nic, first_counter = 14, 14 + 64
    lost = np.flatnonzero(solution.standing > Standing.SINGLE_HOMED).tolist()
    assert lost == [*range(first_nic + 24, first_nic + 32), first_counter + 3]


def test_a_bad_cable_of_a_nic_is_as_well_known_as_its_tie() -> None:
    """The estimate's sd is that of the tie, the seven others and the fabric adding little."""
    fabric = rail_mesh(8, 6, rails=8, machines=8, bad={"m2n5": -300.0})
    solution = solve_mesh(fabric.edges, fabric.reference)
    edge = 8 * 6 + 2 * 8 + 5
    assert np.flatnonzero(solution.bad).tolist() == [edge]
    assert TIE_SD_NS < solution.a_sd_ns[edge] < 1.2 * TIE_SD_NS
    assert abs(solution.a_ns[edge] + 300.0) < 3.29 * solution.a_sd_ns[edge]


def test_the_core_of_a_rail_fabric_is_its_switches() -> None:
    """Machines are eliminated: 256 NICs and 32 counters are no rows of the dense matrix."""
    fabric = rail_mesh(32, 20, rails=8, machines=32)
    core = split(fabric.edges, fabric.reference)
    assert len(core.nodes) == 52 + 256 + 32
    assert len(core.reduction.kept) == 52 + 1
