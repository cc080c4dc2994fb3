# SPDX-License-Identifier: Apache-2.0
"""Runs a scenario for some seeds and rewrites its table in docs (`make claims`)."""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
Summary = dict[str, Any]
COLUMNS: tuple[tuple[str, Callable[[Summary], object]], ...] = (
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


def _bound(summary: Summary, name: str) -> str:
    sync = summary["sync"]
    return f"{sync[f'bound_{name}_median_ns']:.0f} ({100 * sync[f'bound_{name}_coverage']:.0f} %)"


def _flagged(summary: Summary) -> str:
    sync = summary["sync"]
    return f"{sync['nodes_flagged']} ({100 * sync['nodes_flagged_share']:.0f} %)"


def _links(summary: Summary) -> str:
    links = summary["links"]
    return f"{links['asymmetric_found']}/{links['asymmetric_true']} ({links['false_alarms']})"


def _inversions(summary: Summary) -> str:
    found = summary["inversions"]
    return f"{found['raw']}/{found['corrected']}/{found['undecided']}"


def _attribution(summary: Summary) -> str:
    found = summary["attribution"]
    return f"{found['correct']}/{found['wrong']}/{found['abstained']}"


CRITERIA: tuple[tuple[str, Callable[[Summary], bool]], ...] = (
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
        "conditional bound covers >= 99.9 % of the hosts",
        lambda s: s["sync"]["bound_conditional_coverage"] >= 0.999,
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


def _attribution_holds(summary: Summary) -> bool:
    found = summary["attribution"]
    return bool(found["wrong"] == 0 and found["correct"] >= 0.9 * found["cases"])


def _clock(name: str, digits: int = 1) -> Callable[[Summary], object]:
    return lambda s: f"{s['transparent_clock'][name]:.{digits}f}"


CLOCK_COLUMNS: tuple[tuple[str, Callable[[Summary], object]], ...] = (
    ("seed", lambda s: s["seed"]),
    ("PTP alone, rms", _clock("ptp_raw_error_ns_rms", 0)),
    ("residence, rms", _clock("residence_only_error_ns_rms", 0)),
    ("with link delays, rms", _clock("error_ns_rms")),
    ("max", _clock("error_ns_max")),
    ("mean", _clock("mean_error_ns_rms")),
    ("engine", _clock("engine_error_ns_rms")),
    ("drift", _clock("drift_ns_max")),
    ("over s", _clock("scored_s", 0)),
    ("delays written, rms error", _clock("link_delay_error_ns_rms")),
    ("delays moved", _clock("link_delay_change_ns_max")),
    ("unexplained", _clock("unexplained_correction_ns_max")),
    ("links without traffic", _clock("links_quiet", 0)),
    ("wall s", lambda s: f"{s['wall_s']:.0f}"),
)
CLOCK_CRITERIA: tuple[tuple[str, Callable[[Summary], bool]], ...] = (
    (
        "raw PTP error >= 100 ns rms",
        lambda s: s["transparent_clock"]["ptp_raw_error_ns_rms"] >= 100.0,
    ),
    (
        "residence alone leaves >= 100 ns rms",
        lambda s: s["transparent_clock"]["residence_only_error_ns_rms"] >= 100.0,
    ),
    (
        "mean error <= the engine's + 5 ns",
        lambda s: (
            s["transparent_clock"]["mean_error_ns_rms"]
            <= s["transparent_clock"]["engine_error_ns_rms"] + 5.0
        ),
    ),
    (
        "error with servo noise <= 20 ns rms",
        lambda s: s["transparent_clock"]["error_ns_rms"] <= 20.0,
    ),
    ("drift <= 10 ns", lambda s: s["transparent_clock"]["drift_ns_max"] <= 10.0),
    (
        "all corrections explained to 1 ns",
        lambda s: s["transparent_clock"]["unexplained_correction_ns_max"] <= 1.0,
    ),
)


def _per_oracle(summary: Summary) -> float:
    """Error over hosts and switches against the oracle's."""
    found = summary["baselines"]
    return float(found["engine_nodes_ns_rms"] / found["oracle_nodes_ns_rms"])


def _share(part: int, whole: int) -> float:
    """1 where there is nothing to find."""
    return part / whole if whole else 1.0


def _method(name: str, digits: int = 0) -> Callable[[Summary], object]:
    return lambda s: f"{s['baselines'][name]:.{digits}f}"


LARGE_COLUMNS: tuple[tuple[str, Callable[[Summary], object]], ...] = (
    ("seed", lambda s: s["seed"]),
    ("PTP clocks, rms", lambda s: f"{s['sync']['ptp_raw_error_ns_rms']:.0f}"),
    ("PTP, window median", _method("raw_ptp_ns_rms")),
    ("residence only", _method("residence_only_ns_rms")),
    ("host mesh", _method("host_mesh_ns_rms")),
    ("least squares", _method("least_squares_ns_rms")),
    ("corrected", _method("engine_ns_rms", 1)),
    ("oracle", _method("oracle_ns_rms", 1)),
    ("with switches", _method("engine_nodes_ns_rms", 1)),
    ("/ oracle", lambda s: f"{_per_oracle(s):.3f}"),
    ("hard bound median (covered)", lambda s: _bound(s, "hard")),
    ("conditional bound median (covered)", lambda s: _bound(s, "conditional")),
    ("flagged (unexplained)", lambda s: _flagged(s)),
    (
        "links > 30 ns found",
        lambda s: f"{s['links']['clear_found']}/{s['links']['clear_true']}",
    ),
    (
        "reported links > 20 ns",
        lambda s: f"{s['links']['reported_true']}/{s['links']['reported']}",
    ),
    ("wall s", lambda s: f"{s['wall_s']:.0f}"),
)
LARGE_CRITERIA: tuple[tuple[str, Callable[[Summary], bool]], ...] = (
    ("error of hosts and switches <= 1.1 x oracle", lambda s: _per_oracle(s) <= 1.1),
    ("error of hosts and switches <= 1.5 x oracle", lambda s: _per_oracle(s) <= 1.5),
    ("at most 5 % of the clocks flagged", lambda s: s["sync"]["nodes_flagged_share"] <= 0.05),
    ("hard bound covers every host", lambda s: s["sync"]["bound_hard_coverage"] == 1.0),
    (
        "conditional bound covers >= 99.9 % of the hosts",
        lambda s: s["sync"]["bound_conditional_coverage"] >= 0.999,
    ),
    (
        "conditional bound's median <= 4 x rms of the same run",
        lambda s: (
            s["sync"]["bound_conditional_median_ns"] <= 4.0 * s["sync"]["corrected_error_ns_rms"]
        ),
    ),
    (
        "links beyond 30 ns found: >= 98 %",
        lambda s: _share(s["links"]["clear_found"], s["links"]["clear_true"]) >= 0.98,
    ),
    (
        "reported links truly beyond 20 ns: >= 98 %",
        lambda s: _share(s["links"]["reported_true"], s["links"]["reported"]) >= 0.98,
    ),
)


def large_totals(summaries: list[Summary]) -> list[str]:
    """What holds over all seeds together."""
    usable = [s for s in summaries if math.isfinite(_per_oracle(s))]
    ratio = [_per_oracle(s) for s in usable]
    clear = [(s["links"]["clear_found"], s["links"]["clear_true"]) for s in summaries]
    told = [(s["links"]["reported_true"], s["links"]["reported"]) for s in summaries]
    error = math.sqrt(
        statistics.fmean(s["sync"]["corrected_error_ns_rms"] ** 2 for s in usable)
        if usable
        else math.nan
    )
    bound = _median([s["sync"]["bound_conditional_median_ns"] for s in usable])
    covered = [s["sync"]["bound_conditional_coverage"] for s in usable]
    mean_covered = statistics.fmean(covered) if covered else math.nan
    flagged = statistics.fmean(
        s["sync"]["nodes_flagged"] / (s["hosts"] + s["switches"]) for s in summaries
    )
    unexplained = statistics.fmean(s["sync"]["nodes_flagged_share"] for s in summaries)
    return [
        "| over all seeds | |",
        "|---|---:|",
        f"| error / oracle, median and largest | {_median(ratio):.3f}, "
        f"{max(ratio, default=math.nan):.2f} |",
        f"| clocks flagged | {100 * flagged:.1f} % |",
        f"| clocks flagged that are not behind a leaf with half its uplinks bad | "
        f"{100 * unexplained:.1f} % |",
        f"| links beyond 30 ns found | {_sum(clear)} |",
        f"| reported links truly beyond 20 ns | {_sum(told)} |",
        f"| hosts within their conditional bound | {100 * mean_covered:.2f} % |",
        f"| conditional bound / pooled error | {bound / error:.1f} |",
    ]


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else math.nan


def _sum(pairs: list[tuple[int, int]]) -> str:
    return f"{sum(part for part, _ in pairs)}/{sum(whole for _, whole in pairs)}"


def no_totals(_summaries: list[Summary]) -> list[str]:
    """Nothing beyond the seeds' own."""
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Where a scenario's table stands, and what is in it."""

    path: Path
    columns: tuple[tuple[str, Callable[[Summary], object]], ...]
    criteria: tuple[tuple[str, Callable[[Summary], bool]], ...]
    marker: str = "claims"
    """The table stands between two comments, `NAME: begin` and `NAME: end`."""
    totals: Callable[[list[Summary]], list[str]] = no_totals
    """Lines of a table over all seeds."""


DEMO_PAGE = Page(path=ROOT / "docs" / "claims.md", columns=COLUMNS, criteria=CRITERIA)
PAGES = {
    "transparent-clock-4x4": Page(
        path=ROOT / "docs" / "transparent-clock.md",
        columns=CLOCK_COLUMNS,
        criteria=CLOCK_CRITERIA,
    ),
    "large-16x8": Page(
        path=ROOT / "docs" / "claims.md",
        columns=LARGE_COLUMNS,
        criteria=LARGE_CRITERIA,
        marker="claims-large",
        totals=large_totals,
    ),
}


def run_seed(seed: int, scenario: str, keep: Path | None) -> Summary:
    """One headless demo in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out = keep / f"seed-{seed}" if keep else Path(folder)
        command = [sys.executable, "-m", "tempotrace.entry", "demo", "--headless"]
        command += ["--scenario", scenario, "--seed", str(seed), "--out", str(out)]
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
        return read_summary(out / "summary.json")


def read_summary(path: Path) -> Summary:
    """A summary in which a figure that is null is NaN: it holds no criterion."""

    def to_nan(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {key: math.nan if value is None else value for key, value in pairs}

    summary: Summary = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=to_nan)
    return summary


def table_of(page: Page, summaries: list[Summary]) -> str:
    """The Markdown table and its verdict lines."""
    lines = [
        "| " + " | ".join(name for name, _ in page.columns) + " |",
        "|" + "---:|" * len(page.columns),
    ]
    lines += ["| " + " | ".join(str(cell(s)) for _, cell in page.columns) + " |" for s in summaries]
    lines += ["", f"| criterion | seeds of {len(summaries)} |", "|---|---:|"]
    lines += [f"| {name} | {sum(holds(s) for s in summaries)} |" for name, holds in page.criteria]
    totals = page.totals(summaries)
    lines += ["", *totals] if totals else []
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
    page = PAGES.get(options.scenario, DEMO_PAGE)
    summaries = []
    for seed in (int(text) for text in options.seeds.split(",")):
        if options.reuse:
            summary = read_summary(options.reuse / f"seed-{seed}" / "summary.json")
        else:
            summary = run_seed(seed, options.scenario, options.keep)
        summaries.append(summary)
        failed = [name for name, holds in page.criteria if not holds(summary)]
        print(f"seed {seed}: {'; '.join(failed) or 'all criteria hold'}", flush=True)
    table = table_of(page, summaries)
    if options.dry_run:
        print(table)
        return 0
    begin, end = f"<!-- {page.marker}: begin -->", f"<!-- {page.marker}: end -->"
    head, rest = page.path.read_text(encoding="utf-8").split(begin)
    tail = rest.split(end)[1]
    page.path.write_text(f"{head}{begin}\n{table}\n{end}{tail}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
