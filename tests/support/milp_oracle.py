# SPDX-License-Identifier: Apache-2.0
"""What data without noise determine: the explanation with the fewest bad links, by integer
programming.

An explanation is a set of bad links and an offset per clock such that every other link agrees with
its measurement. A clock is determined if every explanation with the fewest bad links, and every one
with one more, puts it within UNIQUE_NS of the same place. Exponential in the worst case: for small
fabrics in tests only. `python -m tests.support.milp_oracle [SEEDS]` compares the mesh's verdicts.
"""

import sys
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csc_array, hstack

from correction.mesh.solve import Standing, solve_mesh
from tests.support.mesh_fabric import MeshFabric, leaf_spine_mesh

UNIQUE_NS = 10.0
MORE_BAD = 1
"""So many links beyond the fewest may be bad."""
AGREE_NS = 1.0
"""A link's measurement without noise agrees if it is so near."""
BLURRED_NS = 15.0
"""The same of a link with noise: three standard deviations of a healthy one."""
REACH_NS = 2_000.0
"""No explanation of interest moves a clock further: four times the largest asymmetry."""


class LeastBad:
    """The fewest bad links under conditions; clock 0 is the ground and stays at 0."""

    def __init__(
        self,
        u: np.ndarray,
        v: np.ndarray,
        y_ns: np.ndarray,
        clocks: int,
        agree_ns: float = AGREE_NS,
    ) -> None:
        links = len(u)
        rows = np.arange(links)
        incidence = csc_array(
            coo_array(
                (
                    np.r_[np.ones(links), -np.ones(links)],
                    (np.r_[rows, rows], np.r_[v, u]),
                ),
                shape=(links, clocks),
            )
        )
        far = 2.0 * REACH_NS + float(np.abs(y_ns).max(initial=0.0))
        slack = far * csc_array(coo_array((np.ones(links), (rows, rows)), shape=(links, links)))
        self._clocks = clocks
        self._cost = np.r_[np.zeros(clocks), np.ones(links)]
        self._agree = (
            LinearConstraint(hstack([incidence, -slack]), -np.inf, y_ns + agree_ns),
            LinearConstraint(hstack([incidence, slack]), y_ns - agree_ns, np.inf),
        )
        self._integral = np.r_[np.zeros(clocks), np.ones(links)]

    def solve(
        self, clock: int = 0, low_ns: float = -REACH_NS, high_ns: float = REACH_NS
    ) -> tuple[float, np.ndarray]:
        """(fewest bad links, offsets) with one clock kept in an interval; infinite if none."""
        low = np.r_[np.full(self._clocks, -REACH_NS), np.zeros(len(self._cost) - self._clocks)]
        high = np.r_[np.full(self._clocks, REACH_NS), np.ones(len(self._cost) - self._clocks)]
        low[clock], high[clock] = low_ns, high_ns
        low[0] = high[0] = 0.0
        found = milp(
            self._cost,
            integrality=self._integral,
            bounds=Bounds(low, high),
            constraints=self._agree,
        )
        if found.x is None:
            return float("inf"), np.full(self._clocks, np.nan)
        return float(round(found.fun)), found.x[: self._clocks]


@dataclass(frozen=True)
class Determined:
    """The oracle's answer about clocks 0 .. clocks - 1."""

    fewest: int
    """Bad links of the best explanation."""
    clock: np.ndarray
    """[clock]: bool."""
    offsets_ns: np.ndarray
    """Of one of the best explanations."""


def determined(u: np.ndarray, v: np.ndarray, y_ns: np.ndarray, clocks: int) -> Determined:
    """Which clocks have one place, whatever the explanation."""
    problem = LeastBad(u, v, y_ns, clocks)
    fewest, offsets = problem.solve()
    unique = np.array(
        [
            clock == 0 or not has_rival(problem, fewest, clock, float(offsets[clock]), UNIQUE_NS)
            for clock in range(clocks)
        ]
    )
    return Determined(fewest=int(fewest), clock=unique, offsets_ns=offsets)


def has_rival(
    problem: LeastBad, fewest: float, clock: int, here_ns: float, unique_ns: float
) -> bool:
    """An explanation with at most MORE_BAD links more puts the clock elsewhere."""
    sides = ((here_ns + unique_ns, REACH_NS), (-REACH_NS, here_ns - unique_ns))
    return any(problem.solve(clock, *side)[0] <= fewest + MORE_BAD for side in sides)


def blurred_rivals(fabric: MeshFabric, truth: Determined, clocks: np.ndarray) -> int:
    """How many of these clocks have a rival once links agree only to within BLURRED_NS.

    Within one explanation a clock may then be anywhere in twice that.
    """
    count = fabric.leaves * fabric.spines
    problem = LeastBad(
        fabric.edges.u[:count],
        fabric.edges.v[:count],
        symmetric_where_healthy(fabric),
        fabric.leaves + fabric.spines,
        BLURRED_NS,
    )
    fewest, _ = problem.solve()
    away = UNIQUE_NS + 2.0 * BLURRED_NS
    return sum(
        has_rival(problem, fewest, clock, float(truth.offsets_ns[clock]), away)
        for clock in clocks.tolist()
    )


def symmetric_where_healthy(fabric: MeshFabric) -> np.ndarray:
    """a of the links between switches, zero where it is no more than a healthy link's.

    Moving every clock to its true place changes no explanation but its origin, so that these are
    as good as measurements.
    """
    a_ns = fabric.a_ns[: fabric.leaves * fabric.spines]
    return np.where(np.abs(a_ns) >= 20.0, a_ns, 0.0)


def of_fabric(fabric: MeshFabric) -> Determined:
    """Of a drawn fabric's switches, as if its healthy links were symmetric and nothing noisy."""
    count = fabric.leaves * fabric.spines
    return determined(
        fabric.edges.u[:count],
        fabric.edges.v[:count],
        symmetric_where_healthy(fabric),
        fabric.leaves + fabric.spines,
    )


@dataclass
class Comparison:
    """Counts over fabrics."""

    switches: int = 0
    determined: int = 0
    """By the oracle."""
    flagged_determined: int = 0
    """Of those, flagged by the mesh solve."""
    flagged_blurred: int = 0
    """Of those, with a rival within noise."""
    confident_undetermined: int = 0
    """Not flagged, though the oracle calls them undetermined."""
    confident: int = 0
    beyond_conditional: int = 0
    """Confident clocks, hosts too, outside their conditional bound."""
    beyond_hard: int = 0
    """All clocks."""
    worst: float = 0.0
    """Largest error over conditional bound of a confident clock."""


def compare(fabric: MeshFabric, into: Comparison) -> None:
    """Solve one fabric, and add what the oracle says of the answer."""
    truth = of_fabric(fabric)
    solution = solve_mesh(fabric.edges, fabric.reference)
    confident = solution.standing <= Standing.SINGLE_HOMED
    switches = confident[: fabric.leaves + fabric.spines]
    into.switches += len(switches)
    into.determined += int(truth.clock.sum())
    cautious = np.flatnonzero(truth.clock & ~switches)
    into.flagged_determined += len(cautious)
    if len(cautious):
        into.flagged_blurred += blurred_rivals(fabric, truth, cautious)
    into.confident_undetermined += int((~truth.clock & switches).sum())
    error = np.abs(fabric.error_ns(solution.theta_ns))
    into.confident += int(confident.sum())
    bound = np.maximum(solution.bound_conditional_ns, 1e-9)
    into.beyond_conditional += int((error > bound + 1e-9)[confident].sum())
    into.beyond_hard += int((error > solution.bound_hard_ns + 1e-9).sum())
    into.worst = max(into.worst, float((error / bound)[confident].max(initial=0.0)))


def main() -> None:
    """Print the counts for three sizes and two shares of bad links."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for leaves, spines in ((4, 2), (6, 3), (8, 4)):
        for share in (0.1, 0.2):
            total = Comparison()
            for seed in range(1, seeds + 1):
                fabric = leaf_spine_mesh(leaves, spines, 2 * leaves, seed=seed, bad_share=share)
                compare(fabric, total)
            print(f"{leaves} x {spines}, {share:.0%}: {total}", flush=True)


if __name__ == "__main__":
    main()
