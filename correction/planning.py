# SPDX-License-Identifier: Apache-2.0
"""The cheapest extra measurement that determines what is not, and the bound after it.

A candidate adds an edge to the mesh, or makes one firm. What it will show is not known, but how
well the clocks will be known is: the covariance and the cuts depend on which edges there are and
how good they are. So the mesh is solved with the candidate in it, reading what the present estimate
predicts, and the bounds that come out are those to expect. Candidates are taken greedily: the most
clocks determined per cost; when all are, the largest decrease of the largest conditional bound per
cost, until it is halved.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum, unique

import numpy as np

from correction.mesh.core import split
from correction.mesh.edges import Edges
from correction.mesh.solve import MeshSolution, Standing, solve_mesh
from correction.timebase import Bools, Float64s

CANDIDATES_MAX = 400
"""Solved for each step, the likeliest first; a solve of a large fabric takes a tenth of a second
to a third."""
STEPS_MAX = 8
GAIN_SHARE_MIN = 0.03
"""A step that determines nothing must lower the largest bounds by this share of them."""
SWAP_NOISE_SHARE = np.sqrt(0.5)
"""Before and after the swap are averaged."""
PORTS_SD_NS_MIN = 0.5


@unique
class Kind(StrEnum):
    """What can be done."""

    PROBE = "probe"
    """Send packets both ways over a link that nothing crosses."""
    CROSS_STAMPS = "cross-stamps"
    """Read PTM or PRECISE cross-stamps of two NICs of one machine."""
    FIBRE_SWAP = "fibre-swap"
    """Swap both fibres of a link in a loop: its fibres' part turns its sign."""
    SECOND_ATTACHMENT = "second-attachment"
    """Cable a host to one more switch."""
    REFERENCE_CLOCK = "reference-clock"
    """Give a host a receiver (GNSS, PPS)."""


COSTS: Mapping[Kind, float] = {
    Kind.PROBE: 1.0,
    Kind.CROSS_STAMPS: 2.0,
    Kind.FIBRE_SWAP: 5.0,
    Kind.SECOND_ATTACHMENT: 20.0,
    Kind.REFERENCE_CLOCK: 50.0,
}
"""Relative: a probe is a setting, a swap an hour's work, a receiver a purchase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One thing that can be done; it adds edge u - v, or changes the edge `edge`."""

    kind: Kind
    subject: str
    """Names of the link or clocks."""
    u: int
    v: int
    noise_sd_ns: float
    sd_ns: float
    """Of the constant part that is left: healthy cable, receiver's error, ports' part."""
    hard_ns: float = np.inf
    """Hard limit on either side of the estimate; infinite where it adds none."""
    firm: bool = False
    edge: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One candidate, and what is to be expected once it is done along with the steps before it."""

    candidate: Candidate
    cost: float
    determines: tuple[int, ...]
    """Clocks that were not determined before it."""
    largest_before_ns: float
    """Largest conditional bound of all clocks that count."""
    largest_ns: float
    bounds_ns: Float64s
    """[clock]: conditional bound after it; the hard bound where the clock is not determined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in order; `reached` says whether they do what was wanted."""

    steps: tuple[Step, ...]
    undetermined: tuple[int, ...]
    """Clocks that count and are not determined at first."""
    largest_ns: float
    """Largest conditional bound at first."""
    reached: bool


def plan(
    edges: Edges,
    reference: int,
    candidates: tuple[Candidate, ...],
    counts: Bools,
    *,
    costs: Mapping[Kind, float] = COSTS,
) -> Plan:
    """Greedy steps until all clocks that count are determined, or the largest bound is halved."""
    now = solve_mesh(edges, reference)
    undetermined = np.flatnonzero(counts & _open(now))
    first_ns = _largest(now, counts)
    steps: list[Step] = []
    left = list(candidates)
    while len(steps) < STEPS_MAX and not _done(now, counts, undetermined, first_ns):
        best = _best(edges, reference, now, left, counts, costs)
        if best is None:
            break
        candidate, after_edges, after = best
        steps.append(
            Step(
                candidate=candidate,
                cost=costs[candidate.kind],
                determines=tuple(np.flatnonzero(counts & _open(now) & ~_open(after)).tolist()),
                largest_before_ns=_largest(now, counts),
                largest_ns=_largest(after, counts),
                bounds_ns=after.bound_conditional_ns,
            )
        )
        left.remove(candidate)
        edges, now = after_edges, after
    return Plan(
        steps=tuple(steps),
        undetermined=tuple(undetermined.tolist()),
        largest_ns=first_ns,
        reached=_done(now, counts, undetermined, first_ns),
    )


def with_candidate(
    edges: Edges, candidate: Candidate, solution: MeshSolution, y_ns: float | None = None
) -> Edges:
    """The edges once the candidate is done; `y_ns`: what it shows, by default as predicted."""
    theta = np.nan_to_num(solution.theta_ns)
    predicted = float(theta[candidate.v] - theta[candidate.u])
    y = predicted if y_ns is None else y_ns
    if candidate.edge is not None:
        at = np.arange(len(edges)) == candidate.edge
        return replace(
            edges,
            y_ns=np.where(at, y, edges.y_ns),
            noise_sd_ns=np.where(at, candidate.noise_sd_ns, edges.noise_sd_ns),
            healthy_sd_ns=np.where(at, candidate.sd_ns, edges.healthy_sd_ns),
            may_be_bad=edges.may_be_bad & ~(at & candidate.firm),
        )
    return replace(
        edges,
        u=np.r_[edges.u, candidate.u],
        v=np.r_[edges.v, candidate.v],
        y_ns=np.r_[edges.y_ns, y],
        noise_sd_ns=np.r_[edges.noise_sd_ns, candidate.noise_sd_ns],
        healthy_sd_ns=np.r_[edges.healthy_sd_ns, candidate.sd_ns],
        may_be_bad=np.r_[edges.may_be_bad, not candidate.firm],
        shared=np.vstack([edges.shared, np.zeros((1, edges.shared.shape[1]))]),
        forward_limit_ns=np.r_[edges.forward_limit_ns, y + candidate.hard_ns],
        backward_limit_ns=np.r_[edges.backward_limit_ns, -y + candidate.hard_ns],
    )


def fibre_swaps(
    edges: Edges, reference: int, names: tuple[str, ...], ports_sd_ns: Float64s
) -> list[Candidate]:
    """A candidate per edge in a loop; `names` of edges, '' where there are no fibres to swap.

    `ports_sd_ns`, [edge]: of what is left of a healthy edge's asymmetry without its fibres.
    """
    return [
        Candidate(
            kind=Kind.FIBRE_SWAP,
            subject=names[e],
            u=int(edges.u[e]),
            v=int(edges.v[e]),
            noise_sd_ns=float(edges.noise_sd_ns[e] * SWAP_NOISE_SHARE),
            sd_ns=float(max(ports_sd_ns[e], PORTS_SD_NS_MIN)),
            firm=True,
            edge=e,
        )
        for e in split(edges, reference).edges.tolist()
        if names[e] and edges.may_be_bad[e]
    ]


def _open(solution: MeshSolution) -> Bools:
    """Clocks that are not determined."""
    result: Bools = solution.standing > Standing.SINGLE_HOMED
    return result


def _largest(solution: MeshSolution, counts: Bools) -> float:
    return float(solution.bound_conditional_ns[counts].max(initial=0.0))


def _largest_finite(solution: MeshSolution, counts: Bools) -> float:
    largest = _largest(solution, counts)
    return largest if np.isfinite(largest) else 0.0


def _done(now: MeshSolution, counts: Bools, undetermined: np.ndarray, first_ns: float) -> bool:
    if len(undetermined):
        return not (counts & _open(now)).any()
    return _largest(now, counts) <= 0.5 * first_ns


def _best(
    edges: Edges,
    reference: int,
    now: MeshSolution,
    candidates: list[Candidate],
    counts: Bools,
    costs: Mapping[Kind, float],
) -> tuple[Candidate, Edges, MeshSolution] | None:
    """The candidate that gains most per cost, if any gains."""
    found: tuple[tuple[float, float], Candidate, Edges, MeshSolution] | None = None
    for candidate in _likeliest(now, candidates, counts, costs):
        then = with_candidate(edges, candidate, now)
        after = solve_mesh(then, reference)
        cost = costs[candidate.kind]
        fewer = int((counts & _open(now)).sum()) - int((counts & _open(after)).sum())
        before_ns, after_ns = now.bound_conditional_ns, after.bound_conditional_ns
        narrower = _gain(before_ns[counts], after_ns[counts])
        gain = (fewer / cost, narrower / cost)
        least = GAIN_SHARE_MIN * _largest_finite(now, counts)
        helps = fewer > 0 or (fewer == 0 and narrower > least)
        if helps and (found is None or gain > found[0]):
            found = gain, candidate, then, after
    return None if found is None else found[1:]


def _gain(before_ns: Float64s, after_ns: Float64s) -> float:
    """Decrease of the largest bound; where that is shared by several, of all near it a little."""
    largest = before_ns.max(initial=0.0)
    if not np.isfinite(largest):
        return float(np.count_nonzero(np.isinf(before_ns) & np.isfinite(after_ns)))
    near = before_ns >= 0.9 * largest
    decrease = np.maximum(before_ns - after_ns, 0.0)
    return float(largest - after_ns.max(initial=0.0)) + float(decrease[near].mean())


def _likeliest(
    now: MeshSolution,
    candidates: list[Candidate],
    counts: Bools,
    costs: Mapping[Kind, float],
) -> list[Candidate]:
    """Those that touch what is open or wide first, the cheaper first; the rest of a long list is
    left out."""
    bound = np.where(counts, now.bound_conditional_ns, 0.0)
    bound = np.where(np.isfinite(bound), bound, 1e12)
    behind = np.zeros(len(bound))
    at = now.core.attachment
    reached = np.flatnonzero(at >= 0)
    np.maximum.at(behind, at[reached], bound[reached])
    touched = np.maximum(bound, behind)

    def order(one: Candidate) -> tuple[float, float]:
        return -max(touched[one.u], touched[one.v]), costs[one.kind]

    return sorted(candidates, key=order)[:CANDIDATES_MAX]
