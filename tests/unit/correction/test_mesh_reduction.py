# SPDX-License-Identifier: Apache-2.0
"""What is eliminated from a core changes nothing: all agrees with one dense matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from correction.mesh import covariance as covariance_module
from correction.mesh.core import split
from correction.mesh.edges import Edges
from correction.mesh.normal import covariance, solve, system
from tests.support.mesh_fabric import chosen_rows
from tests.support.rail_mesh import rail_mesh


def dense(edges: Edges, nodes: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Inverse of the whole normal matrix: [clock of `nodes`, then constant], the first one 0."""
    m = edges.shared.shape[1]
    place = np.full(edges.node_count, -1)
    place[nodes] = np.arange(len(nodes))
    design = np.zeros((len(rows), len(nodes) + m))
    number = np.arange(len(rows))
    design[number, place[edges.v[rows]]] += 1.0
    design[number, place[edges.u[rows]]] -= 1.0
    design[:, len(nodes) :] = edges.shared[rows]
    matrix = design.T @ (weight[:, None] * design)
    matrix[np.arange(len(nodes), len(matrix)), np.arange(len(nodes), len(matrix))] += (
        edges.shared_sd_ns**-2.0
    )
    inverse = np.zeros_like(matrix)
    inverse[1:, 1:] = np.linalg.inv(matrix[1:, 1:])
    return inverse


def check(edges: Edges, reference: int, weight_seed: int) -> tuple[int, int]:
    """Compare everything; (clocks of the core, those that stayed dense)."""
    core = split(edges, reference)
    of = system(edges, core)
    rng = np.random.default_rng(weight_seed)
    weight = 10.0 ** rng.uniform(-4.0, 0.0, len(core.edges))
    found = solve(of, weight)
    cov = covariance(of, found)
    size = of.size
    whole = dense(edges, core.nodes, core.edges, weight)
    scale = float(np.abs(whole).max())

    pull = weight * of.y_ns
    right = np.zeros(len(whole))
    right[:size] = np.bincount(of.at_v, pull, size) - np.bincount(of.at_u, pull, size)
    right[size:] = of.shared.T @ pull
    expected = whole @ right
    reach = 1.0 + float(np.abs(expected).max())
    assert found.theta_ns == pytest.approx(expected[:size], abs=1e-7 * reach)
    assert found.constants_ns == pytest.approx(expected[size:], abs=1e-7 * reach)
    assert found.log_det == pytest.approx(-np.linalg.slogdet(whole[1:, 1:])[1], abs=1e-6)
    assert cov.clocks == pytest.approx(np.diagonal(whole)[:size], abs=1e-7 * scale)
    assert cov.cross == pytest.approx(whole[size:, :size], abs=1e-7 * scale)
    assert cov.constants == pytest.approx(whole[size:, size:], abs=1e-7 * scale)
    column = whole[:, of.at_v] - whole[:, of.at_u] + whole[:, size:] @ of.shared.T
    assert cov.columns(np.arange(len(of.at_u))) == pytest.approx(column, abs=1e-7 * scale)
    number = np.arange(len(of.at_u))
    spread = column[of.at_v, number] - column[of.at_u, number]
    spread += (of.shared.T * column[size:]).sum(axis=0)
    assert cov.spread == pytest.approx(spread, abs=1e-7 * scale)
    return size, len(core.reduction.kept)


@pytest.mark.parametrize(
    ("leaves", "spines", "rails", "dual_homed"),
    [(8, 2, 8, 0), (8, 2, 8, 3), (4, 2, 2, 0), (20, 4, 4, 5), (6, 20, 3, 2), (3, 2, 0, 6)],
)
@pytest.mark.parametrize("constants", [0, 3])
def test_all_agrees_with_one_dense_matrix(
    leaves: int, spines: int, rails: int, dual_homed: int, constants: int
) -> None:
    """Machines of many NICs, of two, NICs with two cables; the reference in or outside of a
    machine; weights over four decades; shared constants."""
    for seed in range(2):
        fabric = rail_mesh(
            leaves, spines, rails=rails, machines=4, dual_homed=dual_homed,
            constants=constants, seed=seed,
        )  # fmt: skip
        for reference in (fabric.reference, leaves + 1, fabric.edges.node_count - 1):
            check(fabric.edges, reference, seed)


def test_machines_and_their_nics_leave_the_dense_part() -> None:
    """32 leaves of 20 uplinks each stay, with their spines; 32 machines of eight NICs go."""
    fabric = rail_mesh(32, 20, rails=8, machines=32, dual_homed=10)
    size, kept = check(fabric.edges, fabric.reference, 1)
    assert size >= 52 + 32 * 9
    assert kept == 52 + 1  # and the reference's NIC, which is the ground


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 14), st.integers(0, 20))
def test_any_graph_agrees(seed: int, nodes: int, more: int) -> None:
    """Random connected graphs, parallel edges and pairs of pairs included."""
    rng = np.random.default_rng(seed)
    fabric = rail_mesh(3, 2, rails=2, machines=1, constants=2, seed=seed)
    parents = np.array([rng.integers(0, max(k, 1)) for k in range(1, nodes)])
    u = np.r_[parents, rng.integers(0, nodes, more)]
    v = np.r_[np.arange(1, nodes), rng.integers(0, nodes, more)]
    rows = rng.integers(0, len(fabric.edges), len(u))
    edges = chosen_rows(fabric.edges, rows)
    edges = Edges(
        **{
            **{name: getattr(edges, name) for name in Edges.__dataclass_fields__},
            "node_count": nodes,
            "u": u,
            "v": v,
        }
    )
    check(edges, int(rng.integers(0, nodes)), seed)


@pytest.mark.parametrize("constants", [0, 3])
def test_columns_near_an_edge_are_nearly_all_of_them(
    monkeypatch: pytest.MonkeyPatch, constants: int
) -> None:
    """Sums of squared columns over all edges, those of NICs at their own clocks alone: within 20 %
    of the whole at NICs and switches, of whose edges more than half are those of NICs here, and
    within a third at counters."""
    fabric = rail_mesh(16, 12, rails=8, machines=24, dual_homed=6, constants=constants)
    core = split(fabric.edges, fabric.reference)
    of = system(fabric.edges, core)
    weight = fabric.edges.scale_ns[core.edges] ** -2.0
    cov = covariance(of, solve(of, weight))
    every = np.arange(len(weight))
    amount = weight**2
    whole = cov.squares(every, amount)
    monkeypatch.setattr(covariance_module, "EXACT_CELLS", 0)
    near = cov.squares(every, amount)
    kept, series, star = core.reduction.kept, core.reduction.series, core.reduction.star
    assert near[kept[1:]] == pytest.approx(whole[kept[1:]], rel=0.2)
    assert near[series] == pytest.approx(whole[series], rel=0.2)
    assert near[star] == pytest.approx(whole[star], rel=0.34)
    assert len(series) > 24 * 7
    assert len(star) == 24 + 12  # counters, and spines with 16 links each


def test_a_sum_of_columns_is_the_sum_of_columns() -> None:
    """Each edge's column times its amount."""
    fabric = rail_mesh(8, 3, rails=4, machines=4, dual_homed=3, constants=2)
    core = split(fabric.edges, fabric.reference)
    of = system(fabric.edges, core)
    cov = covariance(of, solve(of, np.ones(len(core.edges))))
    chosen = np.arange(0, len(core.edges), 3)
    amount = np.linspace(-1.0, 2.0, len(chosen))
    assert cov.total(chosen, amount) == pytest.approx(cov.columns(chosen) @ amount, abs=1e-9)
