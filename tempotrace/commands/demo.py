# SPDX-License-Identifier: Apache-2.0
"""`tempotrace demo`: the main job on one machine, then API and page until Ctrl-C."""

import contextlib
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from bmv2_lab.scenarios import SCENARIOS, Scenario
from tempotrace.commands.lab import scenario_named
from tempotrace.commands.options import DEFAULT_PORT, DEFAULT_SEED, Json, Seed
from tempotrace.demo_run import run_demo
from tempotrace.errors import one_line_errors
from tempotrace.interrupt import EXIT_INTERRUPTED, Interrupts
from tempotrace.reporting import ProgressDisplay, checked, print_summary
from tempotrace.strict_json import strict_text

DEFAULT_SCENARIO = next(iter(SCENARIOS))
DEFAULT_OUT = "demo-out"


@one_line_errors
def demo(
    scenario: Annotated[
        str, typer.Option("--scenario", help="A name from `lab list`.")
    ] = DEFAULT_SCENARIO,
    seed: Seed = DEFAULT_SEED,
    headless: Annotated[
        bool, typer.Option("--headless", help="Write the files and exit; no serving.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for the files; with --headless demo-out, else temporary."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of API and page; 0: any.")
    ] = DEFAULT_PORT,
    as_json: Json = False,
) -> None:
    """Bring everything up, show what it finds, then serve API and page until Ctrl-C."""
    chosen = scenario_named(scenario)
    with (
        contextlib.ExitStack() as stack,
        Interrupts() as interrupts,
    ):
        if out is None and headless:
            out = Path(DEFAULT_OUT)
        elif out is None:
            folder = tempfile.TemporaryDirectory(prefix="tempotrace-demo-")
            out = Path(stack.enter_context(folder))
        try:
            _run(chosen, seed, out, None if headless else port, interrupts, as_json=as_json)
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(EXIT_INTERRUPTED) from None


def _run(
    scenario: Scenario,
    seed: int,
    out: Path,
    port: int | None,
    interrupts: Interrupts,
    *,
    as_json: bool,
) -> None:
    """Run, show the table and, with a port, serve until an end is asked for."""
    with (
        ProgressDisplay() as display,
        run_demo(
            scenario, seed, out, checked(display.update, interrupts), port=port or 0
        ) as finished,
    ):
        display.close()
        if as_json:
            typer.echo(strict_text(finished.summary))
        else:
            print_summary(finished.summary)
        if port is None:
            typer.echo(f"files are in {out}", err=as_json)
            return
        url = finished.service.url
        typer.echo(f"page {url}/   API {url}/docs", err=as_json)
        typer.echo("Ctrl-C ends it", err=as_json)
        interrupts.wait()
    typer.echo("stopped", err=True)
