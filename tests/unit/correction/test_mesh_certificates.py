# SPDX-License-Identifier: Apache-2.0
"""Verdicts agree with linear programming, and certificates prove them to a stranger."""

import copy
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from correction.certificate_check import CertificateError, check_certificate
from correction.mesh.certificates import judge
from correction.mesh.graph import Graph
from correction.mesh.rivals import find_rivals
from correction.mesh.solve import Standing, certificate, solve_mesh
from tests.support.mesh_fabric import MeshFabric, leaf_spine_mesh


def _names(fabric: MeshFabric) -> tuple[str, ...]:
    leaves = [f"leaf{k}" for k in range(fabric.leaves)]
    spines = [f"spine{k}" for k in range(fabric.spines)]
    hosts = range(fabric.edges.node_count - fabric.leaves - fabric.spines)
    return (*leaves, *spines, *(f"h{k}" for k in hosts))


def _lost(fabric: MeshFabric) -> set[str]:
    """Names of the clocks that are not determined; the certificate is checked on the way."""
    solution = solve_mesh(fabric.edges, fabric.reference)
    names = _names(fabric)
    proof = json.loads(json.dumps(certificate(solution, fabric.edges, names)))
    proved = check_certificate(proof)
    core = set(np.flatnonzero(solution.core.position >= 0).tolist())
    determined = solution.standing <= Standing.SINGLE_HOMED
    certain = len(core & set(np.flatnonzero(determined).tolist()))
    assert proved["determined"] + 1 >= certain >= proved["determined"] + 1 - len(core)
    return {names[k] for k in np.flatnonzero(~determined).tolist()}


def test_one_bad_uplink_of_four_is_determined() -> None:
    """Three agree against one, on several leaves at once."""
    bad = {(1, 0): 300.0, (2, 0): 300.0, (3, 1): -90.0}
    assert _lost(leaf_spine_mesh(8, 4, 8, bad=bad)) == set()


def test_two_bad_uplinks_that_pull_one_way_leave_the_leaf_and_its_hosts_open() -> None:
    """Two against two: the leaf may as well be elsewhere, and so its hosts."""
    lost = _lost(leaf_spine_mesh(8, 4, 16, bad={(3, 0): 300.0, (3, 2): 200.0}))
    assert lost == {"leaf3", "h6", "h7"}


def test_bad_uplinks_that_pull_apart_hold_each_other() -> None:
    """Four of eight, two each way and no two alike: any move loses more than it gains."""
    bad = {(3, s): 100.0 * (s + 1) * (-1) ** s for s in range(4)}
    assert _lost(leaf_spine_mesh(8, 8, 16, bad=bad)) == set()


def test_a_place_where_nearly_as_many_links_agree_is_a_rival() -> None:
    """Two of four agree here, one there: with one more bad link it could be there."""
    bad = {(3, 0): 300.0, (3, 2): -200.0}
    assert _lost(leaf_spine_mesh(8, 4, 16, bad=bad)) == {"leaf3", "h6", "h7"}
    alike = {(3, s): 250.0 for s in range(3)} | {(3, 3): -250.0}
    assert "leaf3" in _lost(leaf_spine_mesh(8, 8, 16, bad=alike))


def test_doubt_about_the_references_leaf_is_doubt_about_all_beyond_it() -> None:
    """Only that leaf and the hosts on it stay."""
    fabric = leaf_spine_mesh(8, 4, 16, bad={(0, 0): 300.0, (0, 1): 250.0})
    kept = set(_names(fabric)) - _lost(fabric)
    assert kept == {"leaf0", "h0", "h1"}


def test_a_spine_with_half_its_links_bad_is_open_alone() -> None:
    """Leaves hold together through the other spines."""
    bad = {(x, 2): 100.0 + 30.0 * x for x in range(1, 5)}
    assert _lost(leaf_spine_mesh(8, 4, 8, bad=bad)) == {"spine2"}


def test_any_bad_uplink_of_two_leaves_its_leaf_open() -> None:
    """Two uplinks tolerate no bad one."""
    assert _lost(leaf_spine_mesh(4, 2, 4, bad={(2, 1): 300.0})) >= {"leaf2", "h2"}


@pytest.mark.parametrize(("spines", "tolerated"), [(3, 0), (4, 1), (5, 1), (8, 3), (16, 7)])
def test_one_less_than_nearly_half_of_them_is_tolerated(spines: int, tolerated: int) -> None:
    """Of uplinks that pull one way, so many that one more would still leave a majority."""
    for count, lost in ((tolerated, False), (tolerated + 1, True)):
        bad = {(2, s): 150.0 + 40.0 * s for s in range(count)}
        assert ("leaf2" in _lost(leaf_spine_mesh(6, spines, 6, bad=bad))) == lost


def test_a_majority_of_bad_uplinks_is_not_mistaken_for_the_truth() -> None:
    """Three of five pull one way: the middle one would be the least sum, alone in agreement."""
    bad = {(2, 0): 150.0, (2, 1): 190.0, (2, 2): 260.0}
    assert "leaf2" in _lost(leaf_spine_mesh(6, 5, 6, bad=bad))


def _margin(graph: Graph, node: int) -> float:
    """What moving one clock by a nanosecond costs at least, all others free: a linear program."""
    n, count = graph.size, len(graph.u)
    incidence = np.zeros((count, n))
    incidence[np.arange(count), graph.v] += 1.0
    incidence[np.arange(count), graph.u] -= 1.0
    # y - B theta <= s, B theta - y <= s
    rows = np.block([[-incidence, -np.eye(count)], [incidence, -np.eye(count)]])
    right = np.concatenate([-graph.y_ns, graph.y_ns])
    cost = np.concatenate([np.zeros(n), np.ones(count)])

    def least(fixed: dict[int, float]) -> tuple[float, np.ndarray]:
        limits: list[tuple[float | None, float | None]] = [(None, None)] * n
        for one, value in {0: 0.0, **fixed}.items():
            limits[one] = (value, value)
        limits += [(0.0, None)] * count
        found = linprog(cost, A_ub=rows, b_ub=right, bounds=limits, method="highs")
        return found.fun, found.x

    best, theta = least({})
    return min(least({node: theta[node] + move})[0] - best for move in (1.0, -1.0))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(2, 4), st.floats(0.0, 0.5))
def test_a_margin_is_proved_exactly_if_the_linear_program_has_it(
    seed: int, leaves: int, spines: int, share: float
) -> None:
    """Without noise: least absolute deviations, solved by another method altogether."""
    rng = np.random.default_rng(seed)
    bad = {
        (x, s): float(rng.choice([-1, 1]) * 60 * rng.integers(1, 8))
        for x in range(leaves)
        for s in range(spines)
        if rng.random() < share
    }
    fabric = leaf_spine_mesh(leaves, spines, 0, seed=seed, bad=bad, exact=True)
    edges = fabric.edges
    graph = Graph(
        size=edges.node_count,
        u=edges.u,
        v=edges.v,
        y_ns=edges.y_ns,
        scale_ns=np.full(len(edges), 5.0),
    )
    truth = fabric.theta_ns - fabric.theta_ns[0]
    verdict = judge(graph, truth)
    assert verdict.complete
    proved = set(verdict.proved.tolist())
    for node in range(1, graph.size):
        assert (node in proved) == (_margin(graph, node) > 1.5)


@pytest.fixture(scope="module")
def proof() -> dict:
    """A good certificate with determined clocks and a cut."""
    fabric = leaf_spine_mesh(8, 4, 16, bad={(3, 0): 300.0, (3, 2): 200.0, (5, 1): -70.0})
    solution = solve_mesh(fabric.edges, fabric.reference)
    made = json.loads(json.dumps(certificate(solution, fabric.edges, _names(fabric))))
    assert check_certificate(made)["cuts"] > 0
    return made


def _claim_leaf3(made: dict) -> None:
    made["determined"].append("leaf3")


def _dear_cut(made: dict) -> None:
    made["cuts"][0]["side"] = ["leaf1"]


def _cut_of_everything(made: dict) -> None:
    made["cuts"][0]["side"] = list(made["theta_ns"])


def test_two_bad_links_of_a_loop_that_cancel_leave_the_leaf_between_them_open() -> None:
    """leaf0's first uplink is off by as much as leaf2's second: the two leaves agree with each
    other and with no one else. Either spine may be elsewhere, and leaf2 goes along, with both of
    its uplinks in agreement all the while; nothing is said of it."""
    bad = {(0, 0): -190.0, (2, 1): 190.0, (3, 0): -330.0}
    assert "leaf2" in _lost(leaf_spine_mesh(4, 2, 8, bad=bad))


def test_a_better_place_elsewhere_is_no_rival_here() -> None:
    """leaf1 lies between its two uplinks' places, and agrees with neither: moving it to one gains
    an edge. leaf3 agrees with both of its own, and one edge gained there must not make up for
    these two."""
    u, v = np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([4, 5] * 4)
    y = np.array([0.0, 0.0, 50.0, -50.0, 0.0, 0.0, 0.0, 0.0])
    graph = Graph(size=6, u=u, v=v, y_ns=y, scale_ns=np.full(8, 5.0))
    rivals = find_rivals(graph, np.zeros(6))
    doubt = np.any([one.in_doubt(graph) for one in rivals], axis=0)
    assert np.flatnonzero(doubt).tolist() == [1]


@pytest.mark.parametrize(("leaves", "spines"), [(4, 2), (8, 4)])
def test_no_confident_answer_is_wrong_with_a_fifth_of_the_links_bad(
    leaves: int, spines: int
) -> None:
    """20 seeds: every clock that counts as determined lies within its conditional bound."""
    confident = 0
    for seed in range(1, 21):
        fabric = leaf_spine_mesh(leaves, spines, 2 * leaves, seed=seed, bad_share=0.2)
        solution = solve_mesh(fabric.edges, fabric.reference)
        sure = solution.standing <= Standing.SINGLE_HOMED
        error = np.abs(fabric.error_ns(solution.theta_ns))
        assert (error <= solution.bound_conditional_ns + 1e-9)[sure].all()
        confident += int(sure.sum())
    assert confident > 20 * leaves


def _more_flow(made: dict) -> None:
    edge = next(e for e in made["edges"] if abs(e["flow"]) < e["weight"])
    edge["flow"] = edge["weight"] + 1


def _leak(made: dict) -> None:
    edge = next(e for e in made["edges"] if abs(e["flow"]) < e["weight"])
    edge["flow"] += 1


def _half_flow(made: dict) -> None:
    edge = next(e for e in made["edges"] if abs(e["flow"]) == e["weight"])
    edge["flow"] //= 2


def _broken(made: dict) -> None:
    del made["edges"][0]["weight"]


def _fractional(made: dict) -> None:
    made["edges"][0]["flow"] = 0.5


def _invented_rival(made: dict) -> None:
    made["rivals"] = [{"leaf1": 50.0}]


def _no_move(made: dict) -> None:
    made["rivals"] = [{"leaf3": 0.0}]


def _lower_margin(made: dict) -> None:
    made["margin_units"] *= 20


@pytest.mark.parametrize(
    "tamper",
    [
        _claim_leaf3,
        _dear_cut,
        _cut_of_everything,
        _more_flow,
        _leak,
        _half_flow,
        _broken,
        _fractional,
        _invented_rival,
        _no_move,
        _lower_margin,
    ],
)
def test_a_certificate_that_claims_too_much_is_refused(proof: dict, tamper) -> None:  # type: ignore[no-untyped-def]
    """Whatever is changed in it."""
    made = copy.deepcopy(proof)
    tamper(made)
    with pytest.raises(CertificateError):
        check_certificate(made)
