# SPDX-License-Identifier: Apache-2.0
"""Runs the demo for seeds 1 to 10 and rewrites the table in docs/claims.md (`make claims`)."""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "claims.md"
BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"
COLUMNS = (
    ("seed", lambda s: s["seed"]),
    ("raw PTP rms", lambda s: f"{s['sync']['ptp_raw_error_ns_rms']:.0f}"),
    ("corrected rms", lambda s: f"{s['sync']['corrected_error_ns_rms']:.1f}"),
    ("max", lambda s: f"{s['sync']['corrected_error_ns_max']:.1f}"),
    ("oracle rms", lambda s: f"{s['sync']['oracle_error_ns_rms']:.1f}"),
    ("hard bound median (covered)", lambda s: _bound(s, "hard")),
    ("conditional bound median (covered)", lambda s: _bound(s, "conditional")),
    ("flagged (unexplained)", lambda s: _flagged(s)),
    ("links found/true (false)", lambda s: _links(s)),
    ("inversions raw/corrected/undecided", lambda s: _inversions(s)),
    ("far pairs undecided", lambda s: f"{100 * s['inversions']['undecided_far_share']:.2f} %"),
    ("attribution right/wrong/abstained", lambda s: _attribution(s)),
    ("wall s", lambda s: f"{s['wall_s']:.0f}"),
)


def _bound(summary: dict[str, Any], name: str) -> str:
    sync = summary["sync"]
    return f"{sync[f'bound_{name}_median_ns']:.0f} ({100 * sync[f'bound_{name}_coverage']:.0f} %)"


def _flagged(summary: dict[str, Any]) -> str:
    sync = summary["sync"]
    return f"{sync['nodes_flagged']} ({100 * sync['nodes_flagged_share']:.0f} %)"


def _links(summary: dict[str, Any]) -> str:
    links = summary["links"]
    return f"{links['asymmetric_found']}/{links['asymmetric_true']} ({links['false_alarms']})"


def _inversions(summary: dict[str, Any]) -> str:
    found = summary["inversions"]
    return f"{found['raw']}/{found['corrected']}/{found['undecided']}"


def _attribution(summary: dict[str, Any]) -> str:
    found = summary["attribution"]
    return f"{found['correct']}/{found['wrong']}/{found['abstained']}"


CRITERIA: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
    ("raw PTP error >= 100 ns rms", lambda s: s["sync"]["ptp_raw_error_ns_rms"] >= 100.0),
    ("hard bound covers every host", lambda s: s["sync"]["bound_hard_coverage"] == 1.0),
    ("no certain inversion after correction", lambda s: s["inversions"]["corrected"] == 0),
    ("attribution: none wrong, at least 18 right", lambda s: _attribution_holds(s)),
    ("at most 5 % of the clocks flagged", lambda s: s["sync"]["nodes_flagged_share"] <= 0.05),
    (
        "corrected error <= 1.2 x oracle",
        lambda s: s["sync"]["corrected_error_ns_rms"] <= 1.2 * s["sync"]["oracle_error_ns_rms"],
    ),
    ("corrected error <= 15 ns rms", lambda s: s["sync"]["corrected_error_ns_rms"] <= 15.0),
    (
        "conditional bound covers >= 99 % of the hosts",
        lambda s: s["sync"]["bound_conditional_coverage"] >= 0.99,
    ),
    (
        "conditional bound's median <= 4 x rms of the same run",
        lambda s: (
            s["sync"]["bound_conditional_median_ns"] <= 4.0 * s["sync"]["corrected_error_ns_rms"]
        ),
    ),
    (
        "undecided <= 5 % of the pairs more than 10 x rms apart",
        lambda s: s["inversions"]["undecided_far_share"] <= 0.05,
    ),
)


def _attribution_holds(summary: dict[str, Any]) -> bool:
    found = summary["attribution"]
    return bool(found["wrong"] == 0 and found["correct"] >= 0.9 * found["cases"])


def run_seed(seed: int, scenario: str, keep: Path | None) -> dict[str, Any]:
    """One headless demo in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = keep / f"seed-{seed}" if keep else Path(folder)
        command = [sys.executable, "-m", "tempotrace.entry", "demo", "--headless"]
        command += ["--scenario", scenario, "--seed", str(seed), "--out", str(out)]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
        return summary


def table_of(summaries: list[dict[str, Any]]) -> str:
    """The Markdown table and its verdict line."""
    lines = [
        "| " + " | ".join(name for name, _ in COLUMNS) + " |",
        "|" + "---:|" * len(COLUMNS),
    ]
    lines += ["| " + " | ".join(str(cell(s)) for _, cell in COLUMNS) + " |" for s in summaries]
    lines += ["", f"| criterion | seeds of {len(summaries)} |", "|---|---:|"]
    lines += [f"| {name} | {sum(holds(s) for s in summaries)} |" for name, holds in CRITERIA]
    return "\n".join(lines)


def main() -> int:
    """Run the seeds; rewrite the page unless told not to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1,2,3,4,5,6,7,8,9,10")
    parser.add_argument("--scenario", default="allreduce-8x4")
    parser.add_argument("--keep", type=Path, help="keep each seed's files below this folder")
    parser.add_argument("--reuse", type=Path, help="take the summaries that --keep left there")
    parser.add_argument("--dry-run", action="store_true", help="print the table only")
    options = parser.parse_args()
    summaries = []
    for seed in (int(text) for text in options.seeds.split(",")):
        if options.reuse:
            path = options.reuse / f"seed-{seed}" / "summary.json"
            summary = json.loads(path.read_text(encoding="utf-8"))
        else:
            summary = run_seed(seed, options.scenario, options.keep)
        summaries.append(summary)
        failed = [name for name, holds in CRITERIA if not holds(summary)]
        print(f"seed {seed}: {'; '.join(failed) or 'all criteria hold'}", flush=True)
    table = table_of(summaries)
    if options.dry_run:
        print(table)
        return 0
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
