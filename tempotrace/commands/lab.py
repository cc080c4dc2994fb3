# SPDX-License-Identifier: Apache-2.0
"""`tempotrace lab`: list scenarios, run one and write its files."""

import json
from pathlib import Path
from typing import Annotated

import typer

from bmv2_lab.scenarios import SCENARIOS, Scenario
from tempotrace.commands.options import Json, Seed
from tempotrace.demo_run import run_demo
from tempotrace.errors import InputError, one_line_errors
from tempotrace.reporting import ProgressDisplay, print_summary

app = typer.Typer(help="The lab: list scenarios, run one.", no_args_is_help=True)


@app.command("list")
def list_scenarios(
    as_json: Json = False,
) -> None:
    """List the scenarios."""
    if as_json:
        listing = [{"name": s.name, "summary": s.summary} for s in SCENARIOS.values()]
        typer.echo(json.dumps(listing, indent=1))
        return
    for scenario in SCENARIOS.values():
        typer.echo(f"{scenario.name:22} {scenario.summary}")


@app.command("run")
@one_line_errors
def run(
    scenario: Annotated[str, typer.Argument(help="A name from `lab list`.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the files.")],
    seed: Seed = 1,
    backend: Annotated[
        str, typer.Option("--backend", help="virtual: seeded discrete-event simulation.")
    ] = "virtual",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run a scenario, score it against its truth, and write all files."""
    if backend != "virtual":
        raise InputError(f"lab run: backend {backend!r} is not there; this version has: virtual")
    with (
        ProgressDisplay(quiet=as_json) as display,
        run_demo(scenario_named(scenario), seed, out, display.update) as finished,
    ):
        if as_json:
            typer.echo(json.dumps(finished.summary, indent=1))
        else:
            display.close()
            print_summary(finished.summary)


def scenario_named(name: str) -> Scenario:
    """The scenario, or a one-line error with the names there are."""
    if name not in SCENARIOS:
        raise InputError(f"no scenario called {name!r}; there are: {', '.join(SCENARIOS)}")
    return SCENARIOS[name]
