# SPDX-License-Identifier: Apache-2.0
"""`tempotrace demo`: the main job on one machine, then API and page until Ctrl-C."""

import signal
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from bmv2_lab.scenarios import SCENARIOS, Scenario
from tempotrace.commands.lab import scenario_named
from tempotrace.commands.options import DEFAULT_PORT, Seed
from tempotrace.demo_run import run_demo
from tempotrace.errors import one_line_errors
from tempotrace.reporting import ProgressDisplay, print_summary

DEFAULT_SCENARIO = next(iter(SCENARIOS))


@one_line_errors
def demo(
    scenario: Annotated[
        str, typer.Option("--scenario", help="A name from `lab list`.")
    ] = DEFAULT_SCENARIO,
    seed: Seed = 7,
    headless: Annotated[
        bool, typer.Option("--headless", help="Write the files and exit; no serving.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the files; temporary by default.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of API and page; 0: any.")
    ] = DEFAULT_PORT,
) -> None:
    """Bring everything up, show what it finds, then serve API and page until Ctrl-C."""
    chosen = scenario_named(scenario)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if out is not None:
            _run(chosen, seed, out, headless=headless, port=0 if headless else port)
            return
        with tempfile.TemporaryDirectory(prefix="tempotrace-demo-") as folder:
            _run(chosen, seed, Path(folder), headless=headless, port=0 if headless else port)
    except KeyboardInterrupt:
        typer.echo("stopped", err=True)
        raise typer.Exit(130) from None


def _run(scenario: Scenario, seed: int, out: Path, *, headless: bool, port: int) -> None:
    with (
        ProgressDisplay() as display,
        run_demo(scenario, seed, out, display.update, port=port) as finished,
    ):
        display.close()
        print_summary(finished.summary)
        if headless:
            typer.echo(f"files are in {out}")
            return
        typer.echo(f"page {finished.service.url}/   API {finished.service.url}/docs")
        typer.echo("Ctrl-C ends it")
        threading.Event().wait()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
