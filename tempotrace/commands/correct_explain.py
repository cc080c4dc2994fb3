# SPDX-License-Identifier: Apache-2.0
"""`tempotrace correct explain`: what ptp4l and phc2sys printed, and what was true."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from controller.daemon_log import DaemonLog, parse_daemon_log
from controller.daemon_log_explained import ClockStory, KnownError, Statistic, explain
from tempotrace.commands.options import Json
from tempotrace.errors import InputError, one_line_errors
from tempotrace.strict_json import strict_text

EXPLAIN_VERSION = 1


@one_line_errors
def explain_command(
    log: Annotated[Path, typer.Argument(help="Log of ptp4l, phc2sys or sptp; may be .gz.")],
    there: Annotated[
        float | None, typer.Option("--there", help="True delay reference -> client, ns.")
    ] = None,
    back: Annotated[
        float | None, typer.Option("--back", help="True delay client -> reference, ns.")
    ] = None,
    asymmetry: Annotated[
        float | None,
        typer.Option("--asymmetry", help="Half of their difference, ns (correct paths tells it)."),
    ] = None,
    corrections: Annotated[
        Path | None, typer.Option("--corrections", help="Output of correct run, of that time.")
    ] = None,
    clock: Annotated[
        str | None, typer.Option("--clock", help="The client in it, as fabric.yaml names it.")
    ] = None,
    configured: Annotated[
        float, typer.Option("--configured", help="delayAsymmetry of the client's port, ns.")
    ] = 0.0,
    as_json: Json = False,
) -> None:
    """Say what a PTP daemon's offsets mean, and how far off its clock really was."""
    known = _known(there, back, asymmetry, corrections, clock, configured)
    parsed = parse_daemon_log(_lines(log))
    if not parsed.samples and not parsed.summaries:
        raise InputError(f"correct explain: {log}: no line of ptp4l, phc2sys, ts2phc or sptp")
    stories = explain(parsed, known)
    if as_json:
        typer.echo(strict_text(explained_document(parsed, stories)))
    else:
        _print(parsed, stories)


def _known(
    there: float | None,
    back: float | None,
    asymmetry: float | None,
    corrections: Path | None,
    clock: str | None,
    configured: float,
) -> KnownError:
    ways = [(there, back) != (None, None), asymmetry is not None, corrections is not None]
    if sum(ways) > 1:
        raise InputError(
            "correct explain: give one of --there with --back, --asymmetry, --corrections"
        )
    if ways[0]:
        if there is None or back is None:
            raise InputError("correct explain: --there and --back go together")
        return KnownError.of_delays(there, back, configured)
    if corrections is not None:
        if clock is None:
            raise InputError("correct explain: --corrections needs --clock")
        return _of_corrections(corrections, clock, configured)
    return KnownError(asymmetry_ns=asymmetry, configured_ns=configured)


def _of_corrections(path: Path, clock: str, configured: float) -> KnownError:
    """The mean correction of a clock, with the worst of its bounds and what it moved."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        rows = [
            (int(row["offset_ns"]), row["bound_conditional_ns"])
            for row in document["corrections"]
            if row["clock"] == clock and row["bound_conditional_ns"] is not None
        ]
    except (ValueError, KeyError, TypeError):
        raise InputError(f"correct explain: {path}: not what `correct run` writes") from None
    if not rows:
        raise InputError(f"correct explain: {path}: no correction with a bound of {clock}")
    offsets = [offset for offset, _ in rows]
    mean = sum(offsets) / len(offsets)
    return KnownError(
        offset_ns=mean,
        offset_bound_ns=max(abs(offset - mean) + bound for offset, bound in rows),
        configured_ns=configured,
    )


def _lines(path: Path) -> Iterator[str]:
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rt", encoding="utf-8", errors="replace") as packed:
                yield from packed
        else:
            with path.open(encoding="utf-8", errors="replace") as plain:
                yield from plain
    except (gzip.BadGzipFile, EOFError):
        raise InputError(f"correct explain: {path}: not a whole gzip file") from None


def explained_document(log: DaemonLog, stories: tuple[ClockStory, ...]) -> dict[str, Any]:
    """Everything as JSON values."""
    return {
        "version": EXPLAIN_VERSION,
        "lines": {"repeated": log.repeated_lines, "other": log.other_lines},
        "clocks": [
            {
                "program": one.program.value,
                "clock": one.clock,
                "samples": one.samples,
                "used": one.used,
                "left_out": {reason.value: count for reason, count in one.left_out.items()},
                "printed_offset_ns": _statistic(one.printed_offset_ns),
                "printed_delay_ns": _statistic(one.printed_delay_ns),
                "frequency_ppb": _statistic(one.frequency_ppb),
                "asymmetry_ns": _rounded(one.asymmetry_ns),
                "true_error_ns": _rounded(one.true_error_ns),
                "true_error_bound_ns": _rounded(one.true_error_bound_ns),
                "findings": list(one.findings),
            }
            for one in stories
        ],
    }


def _statistic(value: Statistic | None) -> dict[str, float] | None:
    return None if value is None else {"mean": round(value.mean, 3), "sd": round(value.sd, 3)}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _print(log: DaemonLog, stories: tuple[ClockStory, ...]) -> None:
    console = Console(highlight=False)
    if log.repeated_lines:
        console.print(f"{log.repeated_lines} lines printed twice were taken once")
    for one in stories:
        table = Table(title=f"{one.program.value} {one.clock}".strip(), show_header=False)
        table.add_column("what")
        table.add_column("value", overflow="fold")
        for name, value in _story_rows(one):
            table.add_row(name, value)
        console.print(table)
        for finding in one.findings:
            console.print(f"  {finding}")


def _story_rows(one: ClockStory) -> Iterator[tuple[str, str]]:
    yield "samples", f"{one.used} of {one.samples} count"
    if one.left_out:
        yield "left out", ", ".join(f"{n} {why.value}" for why, n in sorted(one.left_out.items()))
    if one.printed_offset_ns is None:
        yield "printed offset", "too few samples for a mean"
        return
    offset, delay = one.printed_offset_ns, one.printed_delay_ns
    yield "printed offset ns", f"{offset.mean:.1f}, sd {offset.sd:.1f}"
    if delay is not None:
        yield "printed delay ns", f"{delay.mean:.1f}, sd {delay.sd:.1f}"
    if one.asymmetry_ns is not None:
        yield "asymmetry ns", f"{one.asymmetry_ns:.1f} (delayAsymmetry to configure)"
    if one.true_error_ns is not None:
        bound = "" if not one.true_error_bound_ns else f" ± {one.true_error_bound_ns:.1f}"
        yield "true error ns", f"{one.true_error_ns:.1f}{bound}"
    elif one.true_error_bound_ns is not None:
        yield (
            "true error ns",
            f"unknown, within ± {one.true_error_bound_ns:.0f}: the printed offset is what the "
            "servo drives to zero, however unequal the two ways are",
        )
