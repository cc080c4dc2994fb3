# SPDX-License-Identifier: Apache-2.0
"""Runs the numbered scenarios on some seeds and rewrites their table in docs (`make claims`)."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bmv2_lab.lab_run import run_lab, write_lab_files
from bmv2_lab.own_folder import own_folder
from bmv2_lab.scenarios import NUMBERED, Scenario
from tempotrace.scenario_check import CheckedLimits, analyse_run, checked_limits

PAGE = Path(__file__).resolve().parent.parent / "docs" / "scenarios.md"
BEGIN, END = "<!-- scenarios: begin -->", "<!-- scenarios: end -->"


def results_of(scenario: Scenario, seed: int) -> CheckedLimits:
    """The limits of one run, and of the analysis of its files."""
    run = run_lab(scenario, seed, lambda _stage, _share: None)
    with own_folder("tempotrace-claims-") as folder:
        write_lab_files(run, folder)
        return checked_limits(run, analyse_run(run, folder))


def table_of(rows: Sequence[tuple[Scenario, dict[int, CheckedLimits]]]) -> str:
    """One row per scenario: what it is, and the seeds on which all limits were kept."""
    lines = [
        "| | scenario | what, and what for | limits: telemetry, estimates | kept on seeds |",
        "|---:|---|---|---:|---|",
    ]
    for scenario, by_seed in rows:
        kept = [str(seed) for seed, checked in by_seed.items() if not checked.broken]
        lines.append(
            f"| {scenario.number} | `{scenario.name}` | {scenario.summary} "
            f"| {len(scenario.limits)}, {len(scenario.estimate_limits)} "
            f"| {', '.join(kept) or 'none'} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Run all; exit 1 when a limit was not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1,2,3,4,5")
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--dry-run", action="store_true", help="print the table only")
    options = parser.parse_args()
    seeds = [int(text) for text in options.seeds.split(",")]
    names = set(filter(None, options.only.split(",")))
    chosen = [scenario for scenario in NUMBERED if not names or scenario.name in names]
    rows = []
    broken = 0
    for scenario in chosen:
        by_seed = {seed: results_of(scenario, seed) for seed in seeds}
        rows.append((scenario, by_seed))
        for seed, checked in by_seed.items():
            broken += len(checked.broken)
            for result in checked.broken:
                print(
                    f"{scenario.name} seed {seed}: {result.name}: {result.found:g}, "
                    f"expected {result.range}"
                )
        print(f"{scenario.number} {scenario.name}: seeds {options.seeds} done", flush=True)
    table = table_of(rows)
    if options.dry_run or names:
        print(table)
    else:
        head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        tail = rest.split(END)[1]
        PAGE.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
