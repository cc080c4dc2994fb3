# SPDX-License-Identifier: Apache-2.0
"""Prints the figures of docs/correction.md about derived clocks: `python -m
tests.support.derived_accuracy [SEEDS]`. The lab's scenario first, then synthetic clocks."""

import sys
from collections import Counter
from itertools import product

import numpy as np

from bmv2_lab.estimates import Estimates
from bmv2_lab.evidence import Evidence
from bmv2_lab.lab_run import run_lab, write_lab_files
from bmv2_lab.own_folder import own_folder
from bmv2_lab.scenarios import SCENARIOS
from bmv2_lab.scenarios.numbered.s28_host_clocks import clocks_of
from correction.derived.compose import compose
from correction.derived.relation import relate
from correction.table import Status
from tempotrace.scenario_check import analyse_run
from tests.support.paired_clocks import S, parent_rows
from tests.support.paired_world import World


def print_scenario(seed: int) -> None:
    """One line per kind of clock of scenario host-clocks."""
    run = run_lab(SCENARIOS["host-clocks"], seed, lambda _stage, _share: None)
    with own_folder("tempotrace-derived-") as folder:
        write_lab_files(run, folder)
        found = analyse_run(run, folder)
    evidence = Evidence(
        run, Estimates(run, found.solution, found.table, found.servos, found.derived)
    )
    for kind, ntp in product(("system", "gpu0/globaltimer"), (False, True)):
        of_kind = evidence.estimates.host_clocks(clocks_of(evidence, kind, ntp=ntp))
        print(
            f"seed {seed} {kind} {'NTP' if ntp else 'free'}: rms {of_kind.rms_ns:.0f} ns, "
            f"outside hard {of_kind.outside_hard:.0f}, covered {of_kind.covered_share:.4f}, "
            f"conditional {of_kind.conditional_ns_median:.0f} ns, "
            f"hard {np.median(of_kind.hard_ns):.0f} ns, answered {of_kind.answered_share:.3f}"
        )


def print_synthetic(seeds: range) -> None:
    """All combinations of steering, interval, window and step."""
    exact = parent_rows((-200 * S, 1_000 * S, 0, 0.0, 0, 0, Status.OK, ""))
    clocks = asked = outside = covered = 0
    for seed, steering_ppb, interval_ns, half_ns, step_ns in product(
        seeds, (0.0, 500_000.0), (S // 10, S), (20, 500, 5_000), (0, 50_000_000, -50_000_000)
    ):
        world = World(
            seed,
            steering_ppb=steering_ppb,
            interval_ns=interval_ns,
            half_ns=half_ns,
            step_ns=step_ns,
        )
        error, row = world.errors_ns(compose(relate(world.pairs, Counter()), exact).rows)
        clocks += 1
        asked += len(error)
        outside += int(np.count_nonzero(error > row["bound_hard_ns"]))
        covered += int(np.count_nonzero(error <= row["bound_conditional_ns"]))
    print(
        f"{clocks} synthetic clocks: {outside} of {asked} readings outside the hard bound, "
        f"{100 * covered / asked:.4f} % within the conditional one"
    )


if __name__ == "__main__":
    for number in range(1, 1 + int(sys.argv[1] if len(sys.argv) > 1 else 5)):
        print_scenario(number)
    print_synthetic(range(1_000, 1_060))
