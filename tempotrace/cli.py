# SPDX-License-Identifier: Apache-2.0
"""The `tempotrace` command: arguments and sub-commands, no logic of its own."""

import sys
from importlib.metadata import version as package_version
from typing import Annotated

import structlog
import typer

from tempotrace.commands import (
    attribute,
    bench,
    collect,
    correct,
    demo,
    deploy,
    lab,
    p4,
    serve,
    trace,
    verify,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tempotrace {package_version('tempotrace')}")
        raise typer.Exit


app = typer.Typer(
    name="tempotrace",
    help="Accurate distributed tracing for AI clusters on RoCEv2 fabrics.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version)
    ] = False,
) -> None:
    """Accurate distributed tracing for AI clusters on RoCEv2 fabrics."""
    del version  # handled by its callback


app.command("demo")(demo.demo)
app.add_typer(lab.app, name="lab")
app.add_typer(p4.app, name="p4")
app.add_typer(deploy.app, name="deploy")
app.add_typer(collect.app, name="collect")
app.add_typer(correct.app, name="correct")
app.command("serve")(serve.serve)
app.add_typer(trace.app, name="trace")
app.command("attribute")(attribute.attribute)
app.command("verify")(verify.verify)
app.add_typer(bench.app, name="bench")


def run() -> None:
    """Parse the command line and do what it says."""
    # Results are on standard output; what the shells log must not mix with them.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))
    app()
