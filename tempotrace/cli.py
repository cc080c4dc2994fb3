# SPDX-License-Identifier: Apache-2.0
"""The `tempotrace` command: its own options; the sub-commands stand in `command_table`."""

import sys
from importlib.metadata import version as package_version
from typing import Annotated

import structlog
import typer

from tempotrace.command_table import CommandTable


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tempotrace {package_version('tempotrace')}")
        raise typer.Exit


app = typer.Typer(
    name="tempotrace",
    cls=CommandTable,
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


def run() -> None:
    """Parse the command line and do what it says."""
    # Results are on standard output; what the shells log must not mix with them.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))
    app()
