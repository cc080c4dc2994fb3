# SPDX-License-Identifier: Apache-2.0
"""Runs the numbered scenarios on some seeds and rewrites their table in docs (`make claims`)."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bmv2_lab.evidence import Evidence
from bmv2_lab.lab_run import run_lab
from bmv2_lab.scenarios import NUMBERED, Scenario
from bmv2_lab.scenarios.limits import LimitResult, check_limits

PAGE = Path(__file__).resolve().parent.parent / "docs" / "scenarios.md"
BEGIN, END = "<!-- scenarios: begin -->", "<!-- scenarios: end -->"


def results_of(scenario: Scenario, seed: int) -> tuple[LimitResult, ...]:
    """The limits of one run."""
    run = run_lab(scenario, seed, lambda _stage, _share: None)
    return check_limits(scenario.limits, Evidence(run))


def table_of(rows: Sequence[tuple[Scenario, dict[int, tuple[LimitResult, ...]]]]) -> str:
    """One row per scenario: what it is, and the seeds on which all limits were kept."""
    lines = [
        "| | scenario | what, and what for | limits | kept on seeds |",
        "|---:|---|---|---:|---|",
    ]
    for scenario, by_seed in rows:
        kept = [str(seed) for seed, results in by_seed.items() if all(r.passed for r in results)]
        lines.append(
            f"| {scenario.number} | `{scenario.name}` | {scenario.summary} "
            f"| {len(scenario.limits)} | {', '.join(kept) or 'none'} |"
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
        for seed, results in by_seed.items():
            failed = [result for result in results if not result.passed]
            broken += len(failed)
            for result in failed:
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
