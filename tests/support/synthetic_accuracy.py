# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the fabric solve on synthetic fabrics, seed by seed, with the baselines beside it.

`python -m tests.support.synthetic_accuracy [SEEDS]` prints the tables of docs/correction.md, with
`--claims` those of the large fabric, 20 seeds unless told otherwise.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from correction.baselines.compare import METHODS, baseline_offsets
from correction.engine import solve
from correction.oracle import oracle
from tests.support.milp_oracle import UNIQUE_NS, LeastBad, has_rival
from tests.support.score_correction import score
from tests.support.synthetic_fabric import Run, Setup, draw

PEERS = 5
"""Hosts on either side that each host exchanges packets with, for the host mesh."""
CLEAR_NS = 30.0
"""Links of a larger |a_uv| are to be found."""
BAD_NS = 20.0
"""Links that are reported are to exceed this."""


@dataclass
class Result:
    """One seed's figures over unflagged clocks."""

    rms_ns: float
    """Hosts."""
    oracle_rms_ns: float
    nodes_rms_ns: float
    """Hosts and switches."""
    nodes_oracle_rms_ns: float
    baselines_rms_ns: dict[str, float]
    """Hosts, by method."""
    hard_covered: bool
    """Every clock in every window, flagged ones too."""
    covered: np.ndarray
    """[unflagged host]: within its conditional bound in every window."""
    nodes_covered: np.ndarray
    """[unflagged clock, switches too]"""
    hard_median_ns: float
    conditional_median_ns: float
    flagged: int
    clocks: int
    flagged_determined: int
    """Of the flagged, those that the fewest bad links explain in one way (milp_oracle)."""
    doubtful_leaves: int
    links_wrong: int
    clear: int
    clear_found: int
    """Of links between unflagged switches, those beyond CLEAR_NS, and how many were reported."""
    reported: int
    reported_bad: int
    """Reported links between unflagged switches, and how many truly exceed BAD_NS."""


def run_seed(seed: int, setup: Setup) -> Result:
    """Draw, solve, score."""
    run = draw(seed, setup)
    solution = solve(run.packets, run.hops, run.exchanges, run.model, run.windows)
    got = score(run, solution)
    hosts = got.hosts & ~got.flagged
    nodes = ~got.flagged
    nodes[run.model.reference] = False
    told = score(run, oracle(solution.measured, run.truth.bad))
    differences = baseline_offsets(solution, run.packets, run.hops, run.exchanges, run.host_packets)
    uplinks = run.truth.bad[: setup.leaves * setup.spines].reshape(setup.leaves, setup.spines)
    size = np.abs(run.truth.a_ns)
    found = solution.links.asymmetric
    inner = np.array([not link.access for link in run.model.links])
    sure = np.array([not got.flagged[[link.a, link.b]].any() for link in run.model.links]) & inner
    clear = size > CLEAR_NS
    covered = (np.abs(got.error_ns) <= got.conditional_ns).all(axis=0)
    return Result(
        rms_ns=got.rms_ns(hosts),
        oracle_rms_ns=told.rms_ns(hosts),
        nodes_rms_ns=got.rms_ns(nodes),
        nodes_oracle_rms_ns=told.rms_ns(nodes),
        # a table's error is in reference time, an offset's on the clock: opposite signs
        baselines_rms_ns={
            method: rms(got.error_ns[:, hosts] - differences[method][:, hosts])
            for method in METHODS
        },
        hard_covered=bool((np.abs(got.error_ns) <= got.hard_ns).all()),
        covered=covered[hosts],
        nodes_covered=covered[nodes],
        hard_median_ns=median(got.hard_ns[:, hosts]),
        conditional_median_ns=median(got.conditional_ns[:, hosts]),
        flagged=int(got.flagged.sum()),
        clocks=len(got.flagged),
        flagged_determined=flagged_determined(run, got.flagged),
        doubtful_leaves=int((2 * uplinks.sum(axis=1) >= setup.spines).sum()),
        links_wrong=int((clear & inner & ~found).sum() + (found & ~run.truth.bad).sum()),
        clear=int((clear & sure).sum()),
        clear_found=int((clear & sure & found).sum()),
        reported=int((found & sure).sum()),
        reported_bad=int((found & sure & (size > BAD_NS)).sum()),
    )


def flagged_determined(run: Run, flagged: np.ndarray) -> int:
    """Flagged clocks whose switch has one place under every explanation with the fewest bad
    links or one more, as if healthy links were symmetric and nothing noisy."""
    setup, links = run.setup, run.model.links
    uplinks = setup.leaves * setup.spines
    switch0 = setup.leaves * setup.hosts_per_leaf
    a_ns = run.truth.a_ns[:uplinks]
    problem = LeastBad(
        np.array([link.a for link in links[:uplinks]]) - switch0,
        np.array([link.b for link in links[:uplinks]]) - switch0,
        np.where(np.abs(a_ns) >= BAD_NS, a_ns, 0.0),
        setup.leaves + setup.spines,
    )
    switches = np.arange(len(flagged)) - switch0
    switches[:switch0] = np.arange(switch0) // setup.hosts_per_leaf
    doubtful = np.unique(switches[flagged])
    if not len(doubtful):
        return 0
    fewest, offsets = problem.solve()
    sure = [
        switch
        for switch in doubtful.tolist()
        if switch == 0 or not has_rival(problem, fewest, switch, offsets[switch], UNIQUE_NS)
    ]
    return int(np.isin(switches[flagged], sure).sum())


def rms(values: np.ndarray) -> float:
    """Of what is known; NaN for nothing."""
    values = values[np.isfinite(values)]
    return float(np.sqrt(np.mean(values**2))) if len(values) else float("nan")


def median(values: np.ndarray) -> float:
    """NaN for nothing."""
    return float(np.median(values)) if values.size else float("nan")


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
LARGE = Setup(leaves=16, spines=8, bad_share=0.2)
CLAIMS = {
    "16 x 8, 20 %": LARGE,
    "16 x 8, 20 %, all nuisances tripled": LARGE.tripled(),
    "8 x 4, 20 %": Setup(bad_share=0.2),
    "4 x 2, 20 %": Setup(leaves=4, spines=2, bad_share=0.2),
}


def seeds_of(setup: Setup, seeds: int) -> list[Result]:
    """Results of seeds 1 to `seeds`, with packets between hosts."""
    setup = replace(setup, host_peers=PEERS)
    return [run_seed(seed, setup) for seed in range(1, seeds + 1)]


def row(*cells: str) -> str:
    """Of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def accuracy_line(name: str, results: Sequence[Result]) -> str:
    """The engine beside the oracle, over seeds that leave any host unflagged."""
    kept = [one for one in results if len(one.covered)]
    ratio = [one.rms_ns / one.oracle_rms_ns for one in kept]
    covered = np.concatenate([one.covered for one in kept]).mean()
    bound = float(np.median([one.conditional_median_ns for one in kept]))
    return row(
        name,
        f"{np.median([one.rms_ns for one in kept]):.1f}",
        f"{np.median(ratio):.2f}, {max(ratio):.2f}",
        f"{100 * np.mean([one.hard_covered for one in kept]):.0f} %",
        f"{100 * covered:.1f} %",
        f"{bound:.0f}",
        f"{bound / pooled_rms_ns(kept):.1f}",
    )


def baselines_line(name: str, results: Sequence[Result]) -> str:
    """Median rms over the seeds, by method."""
    kept = [one for one in results if len(one.covered)]
    cells = [f"{np.median([one.baselines_rms_ns[m] for one in kept]):.0f}" for m in METHODS]
    ours = f"{np.median([one.rms_ns for one in kept]):.1f}"
    theirs = f"{np.median([one.oracle_rms_ns for one in kept]):.1f}"
    return row(name, *cells, ours, theirs)


def claims_line(name: str, results: Sequence[Result]) -> str:
    """What is claimed of a fabric of this kind, over hosts and switches."""
    kept = [one for one in results if len(one.nodes_covered)]
    ratio = [one.nodes_rms_ns / one.nodes_oracle_rms_ns for one in kept]
    clear, found = sum(one.clear for one in kept), sum(one.clear_found for one in kept)
    told, right = sum(one.reported for one in kept), sum(one.reported_bad for one in kept)
    covered = np.concatenate([one.nodes_covered for one in kept])
    pooled = float(np.sqrt(np.mean([one.nodes_rms_ns**2 for one in kept])))
    bound = float(np.median([one.conditional_median_ns for one in kept]))
    return row(
        name,
        f"{np.median([one.nodes_rms_ns for one in kept]):.1f}",
        f"{np.median(ratio):.3f}, {max(ratio):.2f}",
        f"{100 * sum(one.flagged for one in results) / sum(one.clocks for one in results):.1f} %",
        f"{sum(one.flagged_determined for one in results)}",
        f"{found}/{clear}",
        f"{right}/{told}",
        f"{100 * np.mean([one.hard_covered for one in results]):.0f} %",
        f"{np.median([one.hard_median_ns for one in kept]):.0f}",
        f"{np.count_nonzero(covered)}/{len(covered)}",
        f"{bound:.0f}",
        f"{bound / pooled:.1f}",
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="?", type=int)
    parser.add_argument("--claims", action="store_true")
    options = parser.parse_args()
    if options.claims:
        for name, setup in CLAIMS.items():
            print(claims_line(name, seeds_of(setup, options.seeds or 20)), flush=True)
        return
    lines = []
    for name, setup in CASES.items():
        results = seeds_of(setup, options.seeds or 60)
        print(accuracy_line(name, results), flush=True)
        lines.append(baselines_line(name, results))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
