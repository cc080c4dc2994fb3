# SPDX-License-Identifier: Apache-2.0
"""The cheapest extra measurement, and that the bound after it is as predicted."""

from dataclasses import replace

import numpy as np
import pytest

from correction.mesh.edges import Edges, without_shared
from correction.mesh.solve import Standing, solve_mesh
from correction.planning import (
    COSTS,
    Candidate,
    Kind,
    fibre_swaps,
    plan,
    with_candidate,
)
from correction.table import CONDITIONAL_SIGMAS
from tests.support.mesh_fabric import leaf_spine_mesh

PORTS_SD_NS = 1.5


def swaps_of(fabric):
    """Every uplink's fibres may be swapped."""
    edges = fabric.edges
    count = fabric.leaves * fabric.spines
    names = tuple(f"e{n}" if n < count else "" for n in range(len(edges)))
    return fibre_swaps(edges, fabric.reference, names, np.full(len(edges), PORTS_SD_NS))


def second_cables(fabric):
    """A host may be cabled to the next leaf as well."""
    first_host = fabric.leaves + fabric.spines
    count = fabric.leaves * fabric.spines
    return [
        Candidate(
            kind=Kind.SECOND_ATTACHMENT,
            subject=f"h{host}",
            u=(int(fabric.edges.u[count + host]) + 1) % fabric.leaves,
            v=first_host + host,
            noise_sd_ns=0.5,
            sd_ns=5.0,
        )
        for host in range(len(fabric.theta_ns) - first_host)
    ]


def everything(fabric):
    """All clocks count but the reference."""
    counts = np.ones(len(fabric.theta_ns), np.bool_)
    counts[fabric.reference] = False
    return counts


def measured_ns(fabric, candidate: Candidate, rng) -> float:
    """What the candidate shows in truth: its own constant and noise are drawn."""
    true = fabric.theta_ns[candidate.v] - fabric.theta_ns[candidate.u]
    return float(true + rng.normal(0.0, candidate.sd_ns) + rng.normal(0.0, candidate.noise_sd_ns))


def star(sds_ns: list[float]):
    """Clocks 1, 2, ... on cables of these sds to the reference 0."""
    count = len(sds_ns)
    shared, shared_sd = without_shared(count)
    return Edges(
        node_count=count + 1,
        u=np.zeros(count, np.int64),
        v=np.arange(1, count + 1),
        y_ns=np.zeros(count),
        noise_sd_ns=np.full(count, 0.5),
        healthy_sd_ns=np.array(sds_ns),
        may_be_bad=np.ones(count, np.bool_),
        shared=shared,
        shared_sd_ns=shared_sd,
        forward_limit_ns=np.full(count, 400.0),
        backward_limit_ns=np.full(count, 400.0),
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_fibre_swap_determines_a_leaf_with_one_of_two_uplinks_bad(seed: int) -> None:
    """4 x 2, one uplink of leaf 2 off by 200 ns: either may be it. One swap of either tells, for
    the price of one; and once it is done, whatever it shows, the bound is as predicted."""
    fabric = leaf_spine_mesh(4, 2, 4, seed=seed, bad={(2, 0): 200.0})
    swaps = swaps_of(fabric)
    before = solve_mesh(fabric.edges, fabric.reference)
    assert before.standing[2] in (Standing.AMBIGUOUS, Standing.UNDECIDED)
    found = plan(fabric.edges, fabric.reference, tuple(swaps), everything(fabric))
    assert 2 in found.undetermined
    assert found.reached
    (step,) = found.steps
    assert step.candidate.edge in (fabric.edge(2, 0), fabric.edge(2, 1))
    assert set(step.determines) == set(found.undetermined)
    assert step.largest_ns < 0.5 * step.largest_before_ns

    shown = measured_ns(fabric, step.candidate, np.random.default_rng(seed))
    after = solve_mesh(
        with_candidate(fabric.edges, step.candidate, before, shown), fabric.reference
    )
    assert (after.standing <= Standing.SINGLE_HOMED).all()
    assert np.allclose(after.bound_conditional_ns, step.bounds_ns, rtol=0.15, atol=0.5)
    error = np.abs(fabric.error_ns(after.theta_ns))
    assert (error <= 1.5 * after.bound_conditional_ns + 1.0).all()


def test_the_prediction_is_the_covariance_of_the_closed_form() -> None:
    """One host on one leaf, by hand: two cables of variance v1, v2 in parallel through a leaf known
    exactly: v1 v2 / (v1 + v2) after, v1 before."""
    edges = replace(star([4.0]), noise_sd_ns=np.array([3.0]))
    candidate = Candidate(
        kind=Kind.REFERENCE_CLOCK, subject="h", u=0, v=1, noise_sd_ns=0.0, sd_ns=2.0, hard_ns=40.0,
        firm=True,
    )  # fmt: skip
    found = plan(edges, 0, (candidate,), np.array([False, True]))
    (step,) = found.steps
    assert found.largest_ns == pytest.approx(CONDITIONAL_SIGMAS * 5.0)
    assert step.largest_ns == pytest.approx(CONDITIONAL_SIGMAS * np.sqrt(25.0 * 4.0 / 29.0))
    assert found.reached


def test_when_all_is_determined_the_largest_bound_is_halved() -> None:
    """One of three cables is declared with 60 ns: of receivers for all, its own is chosen."""
    edges = star([5.0, 60.0, 5.0])
    receivers = tuple(
        Candidate(
            kind=Kind.REFERENCE_CLOCK, subject=f"c{v}", u=0, v=v, noise_sd_ns=0.5, sd_ns=3.0,
            hard_ns=30.0, firm=True,
        )
        for v in (1, 2, 3)
    )  # fmt: skip
    found = plan(edges, 0, receivers, np.array([False, True, True, True]))
    assert found.undetermined == ()
    assert found.reached
    (step,) = found.steps
    assert step.candidate.subject == "c2"
    assert step.largest_before_ns == pytest.approx(CONDITIONAL_SIGMAS * np.hypot(60.0, 0.5))
    assert step.largest_ns == pytest.approx(CONDITIONAL_SIGMAS * np.hypot(5.0, 0.5))


def test_a_second_cable_halves_the_variance_of_a_hosts_own_one() -> None:
    """Two cables of 5 ns in parallel: the host's variance falls by half of 25 and its own noise,
    and it is as predicted once the cable is measured."""
    fabric = leaf_spine_mesh(4, 4, 4, seed=6)
    candidate = second_cables(fabric)[1]
    before = solve_mesh(fabric.edges, fabric.reference)
    predicted = solve_mesh(with_candidate(fabric.edges, candidate, before), fabric.reference)
    decrease = before.sd_ns[candidate.v] ** 2 - predicted.sd_ns[candidate.v] ** 2
    assert 8.0 < decrease < 20.0
    assert predicted.standing[candidate.v] == Standing.DETERMINED
    shown = measured_ns(fabric, candidate, np.random.default_rng(2))
    after = solve_mesh(with_candidate(fabric.edges, candidate, before, shown), fabric.reference)
    assert after.sd_ns[candidate.v] == pytest.approx(predicted.sd_ns[candidate.v], rel=0.1)
    assert (
        abs(fabric.error_ns(after.theta_ns)[candidate.v]) <= after.bound_conditional_ns[candidate.v]
    )


def test_costs_decide_between_measurements_that_do_the_same() -> None:
    """The same knowledge of an uplink at two prices: the cheaper one is named."""
    fabric = leaf_spine_mesh(4, 2, 4, seed=1, bad={(2, 0): 200.0})
    swaps = swaps_of(fabric)
    others = tuple(replace(one, kind=Kind.CROSS_STAMPS) for one in swaps)
    counts = everything(fabric)
    for cheap in (Kind.FIBRE_SWAP, Kind.CROSS_STAMPS):
        costs = {**COSTS, Kind.FIBRE_SWAP: 9.0, Kind.CROSS_STAMPS: 9.0, cheap: 1.0}
        found = plan(fabric.edges, fabric.reference, (*swaps, *others), counts, costs=costs)
        assert found.steps[0].candidate.kind is cheap


def test_a_floating_clock_is_brought_in_by_a_probe() -> None:
    """A leaf without any measured link floats; probing one of its links gives it a bound."""
    fabric = leaf_spine_mesh(4, 2, 0, seed=1, exact=True)
    kept = np.flatnonzero(fabric.edges.u != 3)
    edges = replace(
        fabric.edges,
        **{
            name: getattr(fabric.edges, name)[kept]
            for name in (
                "u", "v", "y_ns", "noise_sd_ns", "healthy_sd_ns", "may_be_bad", "shared",
                "forward_limit_ns", "backward_limit_ns",
            )
        },
    )  # fmt: skip
    probes = tuple(
        Candidate(
            kind=Kind.PROBE, subject=f"leaf3-spine{s}", u=3, v=4 + s, noise_sd_ns=1.0, sd_ns=5.0,
            hard_ns=300.0,
        )
        for s in range(2)
    )  # fmt: skip
    counts = np.ones(edges.node_count, np.bool_)
    counts[0] = False
    found = plan(edges, 0, probes, counts)
    assert found.undetermined == (3,)
    assert found.reached
    assert found.steps[0].determines == (3,)
    assert np.isfinite(found.steps[0].largest_ns)


def test_nothing_to_do_is_no_step() -> None:
    """No candidate helps: no step, and it is told."""
    fabric = leaf_spine_mesh(4, 2, 4, seed=1, bad={(2, 0): 200.0})
    found = plan(fabric.edges, fabric.reference, (), everything(fabric))
    assert found.steps == ()
    assert not found.reached
