# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the fabric solve on synthetic fabrics, seed by seed.

`python -m tests.support.synthetic_accuracy [SEEDS]` prints the table of docs/correction.md.
"""

import sys
from dataclasses import dataclass, replace

import numpy as np

from correction.engine import solve
from correction.oracle import oracle
from tests.support.score_correction import score
from tests.support.synthetic_fabric import Setup, draw


@dataclass
class Result:
    """One seed's figures over unflagged hosts."""

    rms_ns: float
    oracle_rms_ns: float
    hard_covered: bool
    covered: np.ndarray
    conditional_median_ns: float
    flagged: int
    doubtful_leaves: int
    links_wrong: int


def run_seed(seed: int, setup: Setup) -> Result:
    """Draw, solve, score."""
    run = draw(seed, setup)
    solution = solve(run.packets, run.hops, run.exchanges, run.model, run.windows)
    got = score(run, solution)
    hosts = got.hosts & ~got.flagged
    uplinks = run.truth.bad[: setup.leaves * setup.spines].reshape(setup.leaves, setup.spines)
    clear = np.abs(run.truth.a_ns) > 30.0
    found = solution.links.asymmetric
    return Result(
        rms_ns=got.rms_ns(hosts),
        oracle_rms_ns=score(run, oracle(solution.measured, run.truth.bad)).rms_ns(hosts),
        hard_covered=bool((np.abs(got.error_ns) <= got.hard_ns).all()),
        covered=(np.abs(got.error_ns) <= got.conditional_ns).all(axis=0)[hosts],
        conditional_median_ns=(
            float(np.median(got.conditional_ns[:, hosts])) if hosts.any() else float("nan")
        ),
        flagged=int(got.flagged.sum()),
        doubtful_leaves=int((2 * uplinks.sum(axis=1) >= setup.spines).sum()),
        links_wrong=int((clear & ~found).sum() + (found & ~run.truth.bad).sum()),
    )


def pooled_rms_ns(results: list[Result]) -> float:
    """Root mean square over all seeds."""
    return float(np.sqrt(np.mean([one.rms_ns**2 for one in results])))


CASES = {
    "8 x 4, 10 %": Setup(),
    "8 x 4, 10 %, 4 exchanges a window": Setup(exchanges=4),
    "8 x 4, 20 %": Setup(bad_share=0.2),
    "16 x 8, 20 %": Setup(leaves=16, spines=8, hosts_per_leaf=1, bad_share=0.2),
    "4 x 2, 20 %": Setup(leaves=4, spines=2, bad_share=0.2),
    "8 x 4, 10 %, all nuisances tripled": Setup().tripled(),
}


def table_line(name: str, setup: Setup, seeds: int) -> str:
    """One line of the table, over seeds 1 to `seeds` that leave any host unflagged."""
    results = [run_seed(seed, replace(setup)) for seed in range(1, seeds + 1)]
    results = [one for one in results if len(one.covered)]
    ratio = [one.rms_ns / one.oracle_rms_ns for one in results]
    covered = np.concatenate([one.covered for one in results]).mean()
    bound = float(np.median([one.conditional_median_ns for one in results]))
    cells = (
        name,
        f"{np.median([one.rms_ns for one in results]):.1f}",
        f"{np.median(ratio):.2f}, {max(ratio):.2f}",
        f"{100 * np.mean([one.hard_covered for one in results]):.0f} %",
        f"{100 * covered:.1f} %",
        f"{bound:.0f}",
        f"{bound / pooled_rms_ns(results):.1f}",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    for case, case_setup in CASES.items():
        print(table_line(case, case_setup, count), flush=True)
