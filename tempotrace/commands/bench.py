# SPDX-License-Identifier: Apache-2.0
"""`tempotrace bench`: speed, beside a bare limit in the same run."""

from dataclasses import asdict

import typer

from bmv2_lab.switch.bench import run as run_bench
from tempotrace.commands.options import Json
from tempotrace.errors import one_line_errors
from tempotrace.strict_json import strict_text

app = typer.Typer(help="Measure speed.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `switch` a sub-command while it is the only one."""


@app.command("switch")
@one_line_errors
def switch(as_json: Json = False) -> None:
    """Packets a second of one core through the full INT pipeline of the embedded switch."""
    result = asdict(run_bench())
    if as_json:
        typer.echo(strict_text(result))
        return
    shares = result.pop("profile_share")
    for name, value in result.items():
        typer.echo(f"{name:32} {value:10,.0f}")
    for name, share in shares.items():
        typer.echo(f"time in {name:24} {share:10.0%}")
