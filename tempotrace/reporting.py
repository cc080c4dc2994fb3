# SPDX-License-Identifier: Apache-2.0
"""Progress and result tables on the terminal."""

import math
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from tempotrace.interrupt import Interrupts


class ProgressDisplay:
    """One bar per stage on a terminal; one line per stage elsewhere; nothing when quiet."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._console = Console(stderr=True)
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        if not quiet and self._console.is_terminal:
            self._progress = Progress(
                TextColumn("{task.description:14}"),
                BarColumn(),
                TimeElapsedColumn(),
                console=self._console,
            )

    def __enter__(self) -> "ProgressDisplay":
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def update(self, stage: str, share: float) -> None:
        """`share` of `stage` is done; a new stage ends the one before it."""
        if self._quiet or stage == "done":
            self._finish()
            return
        if stage not in self._tasks:
            self._finish()
            if self._progress is not None:
                self._tasks[stage] = self._progress.add_task(stage, total=1.0)
            else:
                self._tasks[stage] = TaskID(len(self._tasks))
                self._console.print(f"{stage} ...", highlight=False)
        if self._progress is not None:
            self._progress.update(self._tasks[stage], completed=share)

    def close(self) -> None:
        """Stop drawing."""
        self._finish()
        if self._progress is not None:
            self._progress.stop()

    def _finish(self) -> None:
        if self._progress is not None:
            for task in self._tasks.values():
                self._progress.update(task, completed=1.0)


def checked(
    update: Callable[[str, float], None], interrupts: Interrupts
) -> Callable[[str, float], None]:
    """The same progress report, which also ends the run when that was asked for."""

    def step(stage: str, share: float) -> None:
        interrupts.check()
        update(stage, share)

    return step


def print_summary(summary: dict[str, Any]) -> None:
    """The demo's table, on standard output."""
    sync, links = summary["sync"], summary["links"]
    inversions, attribution = summary["inversions"], summary["attribution"]
    reports = summary["reports"]
    table = Table(
        title=f"{summary['scenario']}, seed {summary['seed']}: {summary['switches']} switches, "
        f"{summary['hosts']} hosts"
    )
    table.add_column("quantity")
    table.add_column("value", justify="right")
    rows = (
        ("raw PTP error", f"{_or_nan(sync['ptp_raw_error_ns_rms']):.0f} ns rms"),
        (
            "corrected error",
            f"{_or_nan(sync['corrected_error_ns_rms']):.1f} ns rms, "
            f"{_or_nan(sync['corrected_error_ns_max']):.1f} ns max",
        ),
        ("oracle error", f"{_or_nan(sync['oracle_error_ns_rms']):.1f} ns rms"),
        (
            "hard bound",
            f"{_or_nan(sync['bound_hard_median_ns']):.0f} ns median, "
            f"{100 * _or_nan(sync['bound_hard_coverage']):.0f} % covered",
        ),
        (
            "conditional bound",
            f"{_or_nan(sync['bound_conditional_median_ns']):.0f} ns median, "
            f"{100 * _or_nan(sync['bound_conditional_coverage']):.0f} % covered",
        ),
        ("clocks flagged", f"{sync['nodes_flagged']}"),
        (
            "asymmetric links",
            f"{links['asymmetric_found']} of {links['asymmetric_true']} found, "
            f"{links['false_alarms']} false alarms",
        ),
        (
            "telemetry reports",
            f"{reports['decoded']} decoded, {reports['lost']} lost, {reports['rejected']} rejected",
        ),
        ("spans", f"{summary['spans']}"),
        (
            "inversions",
            f"{inversions['raw']} raw, {inversions['corrected']} corrected, "
            f"{inversions['undecided']} undecided of {inversions['pairs']}",
        ),
        (
            "attribution",
            f"{attribution['correct']} right, {attribution['wrong']} wrong, "
            f"{attribution['abstained']} abstained of {attribution['cases']}",
        ),
        ("wall time", f"{summary['wall_s']} s"),
    )
    more = (*_transparent_clock_rows(summary), *_real_time_rows(summary))
    for name, value in (*rows[:-1], *more, rows[-1]):
        table.add_row(name, value)
    Console().print(table)


def _transparent_clock_rows(summary: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Of a scenario whose transparent clocks the engine feeds: the clients' own clocks by phase."""
    found = summary.get("transparent_clock")
    if found is None:
        return ()
    return (
        (
            "clients without clocks on the way",
            f"{_or_nan(found['ptp_raw_error_ns_rms']):.0f} ns rms",
        ),
        ("clients, residence alone", f"{_or_nan(found['residence_only_error_ns_rms']):.0f} ns rms"),
        (
            "clients, residence and link delays",
            f"{_or_nan(found['error_ns_rms']):.1f} ns rms over {_or_nan(found['scored_s']):.0f} s, "
            f"drift {_or_nan(found['drift_ns_max']):.1f} ns",
        ),
    )


def _real_time_rows(summary: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Of a run on real packets: what the daemons reported, and how exact the cables were."""
    found = summary.get("real_time")
    if found is None:
        return ()
    wires = found["wires"]
    rows = [
        ("backend", f"{found['backend']}, cables by {found['cable_delays']}"),
        (
            "NTP error",
            f"{_or_nan(found['ntp_reported_error_ns_rms']):.0f} ns rms, "
            f"{found['ntp_measurements']} measurements",
        ),
    ]
    if wires is not None:
        rows.append(
            (
                "cables' lateness",
                f"{wires['late_ns_p50'] / 1000:.0f} us median, "
                f"{wires['late_ns_p99'] / 1000:.0f} us p99, {wires['frames']} frames",
            )
        )
    passed = sum(one["passed"] for one in found["limits"])
    rows.append(("limits kept", f"{passed} of {len(found['limits'])}"))
    return tuple(rows)


def _or_nan(value: float | None) -> float:
    """A figure that there may be no data for."""
    return math.nan if value is None else value
